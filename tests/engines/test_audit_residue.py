"""The audit's search for residues: planted tokens are found in a plain copy, and not in a release."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.audit.parquet_pages import pages
from sfumato.audit.residue import find_residues, residue
from sfumato.table import scan
from tests.engines.test_residues import POLICY, planted_table
from tests.engines.tools import released


def test_a_release_holds_nothing_that_is_not_published(tmp_path: Path) -> None:
    release = released(planted_table(), POLICY, folder=tmp_path / "r")
    found = residue(scan(planted_table(), POLICY), release)
    assert (found.verdict, found.at_risk, found.worst) == ("within the bound", 0, 0)
    assert found.records > 700  # 400 identifiers, and the exact incomes


def test_what_slips_into_a_file_is_found(tmp_path: Path) -> None:
    """Each of these lies in a compressed page, or in the footer, of a file put in the place of the data."""
    release = released(planted_table(), POLICY, folder=tmp_path / "r")
    rows = pq.read_table(release.data)
    spoiled = {
        "an identifier": rows.set_column(0, "town", pa.array(["Ida-Planted-7"] * rows.num_rows)),
        "a row that was left out": rows.replace_schema_metadata({"note": "gone-planted"}),
        "an exact number": rows.append_column("income_exact", pa.array([1234567] * rows.num_rows)),
    }
    expected = {
        "an identifier": ("identity_planted", b"Ida-Planted-7"),
        "a row that was left out": ("note", b"gone-planted"),
        "an exact number": ("income", b"\x87\xd6\x12\x00\x00\x00\x00\x00"),
    }
    for what, table in spoiled.items():
        pq.write_table(table, release.data, compression="zstd")
        name, token = expected[what]
        found = find_residues(scan(planted_table(), POLICY), release).found
        assert token in found[name], what
        assert residue(scan(planted_table(), POLICY), release).verdict == "above the bound"


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip"])
def test_pages_of_both_versions_are_decompressed(version: str, compression: str, tmp_path: Path) -> None:
    words = [f"token-{k % 7:03d}" if k % 3 else None for k in range(5000)]
    pq.write_table(
        pa.table({"w": words, "x": list(range(5000))}),
        tmp_path / "t.parquet",
        compression=compression,
        data_page_version=version,
        use_dictionary=["w"],
    )
    content = b"".join(pages(tmp_path / "t.parquet"))
    assert all(f"token-{k:03d}".encode() in content for k in range(7))
    assert (4999).to_bytes(8, "little") in content
