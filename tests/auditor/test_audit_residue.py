"""The audit's search for residues: planted tokens are found in a plain copy, and not in a release."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sfumato.analyst.release import Release, open_release
from sfumato.auditor.attackers.residue import Digits, find_residues, residue
from sfumato.publisher.table import scan
from sfumato.release.formats.parquet import Parquet
from tests.conftest import make_policy
from tests.constants import set_constants
from tests.engines.tools import released
from tests.release.test_residues import MOMENT, POLICY, RECODED, planted_table, recoded_table


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


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("rule", ["other", "other; type = 'number'"])
def test_numbers_in_text_are_published_as_they_are_written(form: str, rule: str, tmp_path: Path) -> None:
    """They are read as numbers, and were looked for as texts: a column of amounts broke the promise of its release."""
    amounts = ("1250.40", "1300.00", "987.50") if rule == "other" else ("0012345", "1.50e3", "+1234567")
    rows = "".join(f"{amounts[k % 3]},{'xyz'[k % 7 % 3]}\n" for k in range(60))
    (tmp_path / "t.csv").write_text("amount,s\n" + rows)
    policy = make_policy({"amount": rule, "s": "sensitive"}, f"gamma = 3\n[output]\nformat = '{form}'")
    release = released(tmp_path / "t.csv", policy, folder=tmp_path / "r")
    assert release.manifest.columns[0].holds == "decimal"
    assert residue(scan(tmp_path / "t.csv", policy), release).at_risk == 0


def test_numbers_of_hundreds_of_digits(tmp_path: Path) -> None:
    """Chance gives them less often than a float can tell."""
    table = pa.table({"number": ["1" + "0" * 400, "2" + "0" * 400] * 30, "s": ["x", "y", "z"] * 20})
    policy = make_policy({"number": "identifier", "s": "sensitive"})
    release = released(table, policy, folder=tmp_path / "r")
    assert residue(scan(table, policy), release).at_risk == 0


def test_values_behind_bins_and_names_belong_in_the_manifest_only(tmp_path: Path) -> None:
    release = released(recoded_table(), RECODED, folder=tmp_path / "r")
    opened = scan(recoded_table(), RECODED)
    assert residue(opened, release).at_risk == 0
    rows = pq.read_table(release.data)
    spoiled = {
        "a merged text": ("ward", rows.set_column(3, "ward", pa.array(["ward-planted"] * rows.num_rows))),
        "a merged number": ("code", rows.append_column("code_exact", pa.array([987654321] * rows.num_rows))),
        "a text that is binned": ("iso", rows.replace_schema_metadata({"iso": "1987-11-23T04:56"})),
        "an exact moment": ("moment", rows.append_column("at", pa.array([MOMENT] * rows.num_rows, pa.timestamp("us")))),
    }
    for what, (name, table) in spoiled.items():
        pq.write_table(table, release.data, compression="zstd")
        assert name in find_residues(opened, release).found, what


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
    content = b"".join(Parquet.hidden(tmp_path / "t.parquet"))
    assert all(f"token-{k:03d}".encode() in content for k in range(7))
    assert (4999).to_bytes(8, "little") in content


# --- texts, words of the format, numbers of four bytes ----------------------------------------------------------------

ROLES = {"id": "identifier", "s": "quasi_identifier", "d": "sensitive"}
NAMED = make_policy(ROLES)


def people(ids: Any) -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table({"id": ids, "s": rng.choice(["F", "M"], 60).tolist(), "d": rng.choice(list("abc"), 60).tolist()})


SECRET = people([f"patient-secret-{k}" for k in range(60)])


def found_in(release: Release, rows: pa.Table = SECRET) -> dict[str, tuple[bytes, ...]]:
    return find_residues(scan(rows, NAMED), release).found


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_words_of_the_formats_and_of_the_software_are_no_residues(format: str, tmp_path: Path) -> None:
    words = ["parquet", "version", "schema", "arrow:schema", "created", "parquet-cpp-arrow", "release", "manifest"]
    words += ["randomized", "sensitive", "Checksum", "columns", "sub_tables", "adversary", "second_release", "people"]
    rows = people((words * 4)[:60])
    release = released(rows, NAMED, folder=tmp_path / "r", format=format)
    assert found_in(release, rows) == {}


def test_numbers_of_the_manifest_are_no_residues(tmp_path: Path) -> None:
    """Weights have 19 digits: some identifiers of 6 digits are part of them."""
    first = released(SECRET, NAMED, folder=tmp_path / "a")
    weight = first.manifest.mechanisms[0].sub_tables[0].noise.weights[0]
    rows = people([int(weight[k % 12 : k % 12 + 6]) + 10**6 * (k // 12) for k in range(60)])
    assert found_in(released(rows, NAMED, folder=tmp_path / "r"), rows) == {}


@pytest.mark.parametrize("place", ["README.md", "manifest.json", "extra.txt", "old/extra.txt"])
def test_a_name_in_any_file_is_found(place: str, tmp_path: Path) -> None:
    release = released(SECRET, NAMED, folder=tmp_path / "r")
    path = release.folder / place
    path.parent.mkdir(exist_ok=True)
    if place == "manifest.json":
        made = release.manifest.model_copy(update={"second_release": "Ask patient-secret-7."})
        path.write_text(made.to_json())
        release = open_release(release.folder)
    else:
        path.write_text((path.read_text() if path.exists() else "") + "\npatient-secret-7\n")
    assert found_in(release) == {"id": (b"patient-secret-7",)}


DATES = [datetime.date(1931, 1, 1) + datetime.timedelta(days=int(d)) for d in np.random.default_rng(2).permutation(999)]
NUMBERS = pa.array(np.random.default_rng(2).permutation(10**6)[:1200] + 10**7, pa.int32())
FOUR = {
    "int32": NUMBERS,
    "date32": pa.array([DATES[k % 999] for k in range(1200)], pa.date32()),
    "float32": pc.divide(NUMBERS.cast(pa.float64()), 7.0).cast(pa.float32()),
}


@pytest.mark.parametrize("kind", FOUR)
@pytest.mark.parametrize("dictionary", [False, True])
def test_values_of_four_bytes_are_found_in_runs(kind: str, dictionary: bool, tmp_path: Path) -> None:
    rows = pa.concat_tables([people(["x"] * 60)] * 20).set_column(0, "id", FOUR[kind])
    release = released(rows, NAMED, folder=tmp_path / "r")
    assert found_in(release, rows) == {}
    pq.write_table(pa.table({"id": FOUR[kind]}), release.folder / "extra.parquet", use_dictionary=dictionary)
    assert len(found_in(release, rows)["id"]) > 900
    assert residue(scan(rows, NAMED), release).verdict == "above the bound"


def test_times_are_found(tmp_path: Path) -> None:
    times = [datetime.datetime(1999, 5, 17, 8) + datetime.timedelta(hours=31 * k) for k in range(60)]
    rows = people(pa.array(times, pa.timestamp("us")))
    release = released(rows, NAMED, folder=tmp_path / "r")
    assert found_in(release, rows) == {}
    (release.folder / "extra.bin").write_bytes(rows["id"].combine_chunks().slice(3, 1).buffers()[1].to_pybytes()[24:32])
    assert len(found_in(release, rows)["id"]) == 1


def test_counters_and_few_values_are_no_runs(tmp_path: Path) -> None:
    """Evenly spaced numbers are those of any counter; a few different values stand beside each other by chance."""
    rows = people(pa.array(range(20_000, 20_060), pa.int32()))
    release = released(rows, NAMED, folder=tmp_path / "r")
    counter = pa.array(range(19_000, 21_000), pa.int32())
    pq.write_table(pa.table({"group": counter}), release.folder / "extra.parquet", use_dictionary=False)
    assert found_in(release, rows) == {}


def test_runs_that_are_published_are_no_residues(tmp_path: Path) -> None:
    """A dropped column with the values of a published one; and a sensitive one, most of whose values are kept."""
    rng = np.random.default_rng(4)
    numbers = pa.array(rng.integers(0, 150, 900), pa.int32())
    rows = pa.table({"id": FOUR["int32"].slice(0, 900), "s": FOUR["int32"].slice(0, 900), "d": numbers})
    policy = make_policy(ROLES, "gamma = 10000")
    release = released(rows, policy, folder=tmp_path / "r", shuffle=False)
    assert np.mean(release.to_arrow()["d"].to_numpy() == rows["d"].to_numpy()) > 0.9
    assert find_residues(scan(rows, policy), release).found == {}


def test_more_values_than_are_looked_for_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = released(SECRET, NAMED, folder=tmp_path / "r")
    assert "only the first" not in residue(scan(SECRET, NAMED), release).remark
    set_constants(monkeypatch, "sfumato.auditor", MOST_TOKENS=50)
    assert residue(scan(SECRET, NAMED), release).remark.endswith("Of 'id' only the first 50 or so.")


def test_codes_packed_into_bits_are_no_digits_of_a_person() -> None:
    """Two codes of four bits are a byte, and a frequent code 3 makes it a digit: six of them are somebody's number.

    Of 20,000 numbers of six digits some lie in such a page by chance. A text behind its length is told all the same,
    and so are more numbers than chance gives.
    """
    rng = np.random.default_rng(5)
    tokens = [str(number).encode() for number in rng.choice(np.arange(100_000, 1_000_000), 20_000, replace=False)]
    digits = Digits.of(tokens)
    codes = rng.choice(16, (60_000, 2), p=[0.35 / 15] * 3 + [0.65] + [0.35 / 15] * 12)
    page = (codes[:, 0] << 4 | codes[:, 1] % 10).astype(np.uint8).tobytes()
    hits = [(at, token) for token in tokens for at in [page.find(token)] if at >= 0]
    assert hits, "the page has none by chance: the test would show nothing"
    assert digits.not_by_chance(page, hits) == []
    behind = (6).to_bytes(4, "little") + tokens[0]
    assert digits.not_by_chance(behind + page, [(4, tokens[0])]) == [(4, tokens[0])]
    many = b"x".join(tokens[:400])
    found = [(7 * k, token) for k, token in enumerate(tokens[:400])]
    assert digits.not_by_chance(many, found) == found
