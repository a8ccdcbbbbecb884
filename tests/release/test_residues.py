"""Nothing of the table but what is published is in a release: planted tokens are looked for in all its bytes.

Pages are decompressed; dictionaries, statistics, schema, footer, manifest and README are searched as they are.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv as pacsv

from sfumato.analyst.release import Release
from sfumato.auditor.attackers.residue import everything
from sfumato.release.folder import MANIFEST_NAME
from sfumato.release.formats.parquet import Parquet
from tests.conftest import make_policy
from tests.engines.tools import released


def all_bytes(folder: Path) -> bytes:
    """Return all that a release holds."""
    return b"\n".join(part for path in sorted(folder.rglob("*")) if path.is_file() for part in everything(path))


PLANTED = {
    "an identifier's value": b"Ida-Planted",
    "a dropped column's name": b"identity_planted",
    "a value that no row has, untouched column": b"unused-planted",
    "a value that no row has, sensitive column": b"unheard-planted",
    "schema metadata": b"schema-planted",
    "field metadata": b"field-planted",
    "under a null, untouched column": b"under-planted",
    "under a null, coded column": b"below-planted",
    "under a null, sensitive column": b"beneath-planted",
    "in a row that is left out": b"dropped-planted",
    "in a row left out for its sensitive value": b"gone-planted",
    "the file's own name": b"table-planted",
    "an exact value that is binned": b"1234567",
}
ROWS = 400


def hidden_under_null(values: list[str], nulls: set[int]) -> pa.Array:
    """Return an array whose buffers still hold the values under its nulls."""
    plain = pa.array(values)
    bits = np.packbits([k not in nulls for k in range(len(values))], bitorder="little")
    return pa.Array.from_buffers(pa.string(), len(values), [pa.py_buffer(bits), *plain.buffers()[1:]])


def planted_table() -> pa.Table:
    """Return a table with a token in every place where one could hide."""
    rng = np.random.default_rng(3)
    names = [f"Ida-Planted-{k}" for k in range(ROWS)]
    town = ["Ulm", "Bonn", "Kiel"]
    kept = [town[k % 3] for k in range(ROWS)]
    kept[7], kept[8] = "under-planted", "dropped-planted"
    remark = hidden_under_null(kept, {7})
    region = pa.DictionaryArray.from_arrays(
        pa.array([None if k == 9 else k % 2 for k in range(ROWS)], pa.int32()),
        pa.array(["north", "south", "unused-planted", "below-planted"]),
    )
    indices = np.array([k % 2 for k in range(ROWS)], dtype=np.int32)
    indices[9] = 3  # the null's own code points at a token
    valid = pa.py_buffer(np.packbits([k != 9 for k in range(ROWS)], bitorder="little"))
    codes = pa.Array.from_buffers(pa.int32(), ROWS, [valid, pa.py_buffer(indices)])
    region = pa.DictionaryArray.from_arrays(codes, region.dictionary)
    left_out = [None if k == 8 else k for k in range(ROWS)]
    drawn = rng.integers(0, 3, ROWS).astype(np.int32)
    drawn[10] = 4
    shown = pa.py_buffer(np.packbits([k not in (10, 11) for k in range(ROWS)], bitorder="little"))
    disease = pa.DictionaryArray.from_arrays(
        pa.Array.from_buffers(pa.int32(), ROWS, [shown, pa.py_buffer(drawn)]),
        pa.array(["asthma", "flu", "gout", "unheard-planted", "beneath-planted"]),
    )
    note = pa.array(["gone-planted" if k in (10, 11) else f"note {k}" for k in range(ROWS)])
    income = pa.array([1234567 if k == 20 else 1000 * k for k in range(ROWS)], pa.int64())
    fields = [
        pa.field("identity_planted", pa.string(), metadata={"k": "field-planted"}),
        pa.field("town", pa.string(), metadata={"k": "field-planted"}),
        pa.field("region", region.type),
        pa.field("number", pa.int64()),
        pa.field("note", pa.string()),
        pa.field("income", pa.int64()),
        pa.field("disease", disease.type, metadata={"k": "field-planted"}),
    ]
    schema = pa.schema(fields, metadata={"k": "schema-planted", "pandas": json.dumps({"index": "schema-planted"})})
    columns = [pa.array(names), remark, region, pa.array(left_out), note, income, disease]
    return pa.Table.from_arrays(columns, schema=schema)


POLICY = make_policy(
    {
        "identity_planted": "identifier",
        "town": "other; missing = 'category'",
        "region": "quasi_identifier; missing = 'category'",
        "number": "other; missing = 'drop'",
        "note": "other",
        "income": "quasi_identifier; bins = { breaks = [100_000, 300_000] }",
        "disease": "sensitive; missing = 'drop'",
    }
)


def found_in(content: bytes) -> set[str]:
    return {what for what, token in PLANTED.items() if token in content}


@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "shuffled"])
@pytest.mark.parametrize("format", ["parquet", "csv"])
@pytest.mark.parametrize("source", ["arrow", "parquet", "csv"])
def test_no_planted_token_is_in_a_release(source: str, format: str, shuffled: bool, tmp_path: Path) -> None:
    table = planted_table()
    given: object = table
    if source == "parquet":
        given = tmp_path / "table-planted.parquet"
        pq.write_table(table, given)
    elif source == "csv":
        given = tmp_path / "table-planted.csv"
        plain = pa.Table.from_arrays(
            [c.combine_chunks().cast(pa.string()) if pa.types.is_dictionary(c.type) else c for c in table.columns],
            names=table.column_names,
        )
        pacsv.write_csv(plain, given)
    release = released(given, POLICY, folder=tmp_path / "r", shuffle=shuffled, format=format)
    assert release.manifest.data.rows == ROWS - 3
    content = all_bytes(release.folder)
    assert found_in(content) == set()
    # positive control: what is published is found by the same search
    assert all(token in content for token in (b"north", b"Ulm", b"note 399", b"asthma", b">= 300000"))


def test_the_search_finds_what_a_plain_copy_keeps(tmp_path: Path) -> None:
    """Positive control: the tokens are there, and a copy by Arrow's own writer shows most of them."""
    table = planted_table()
    pq.write_table(table, tmp_path / "table-planted.parquet", compression="zstd", store_schema=True)
    found = found_in(b"\n".join(everything(tmp_path / "table-planted.parquet")))
    assert {
        "an identifier's value",
        "a dropped column's name",
        "a value that no row has, untouched column",
        "a value that no row has, sensitive column",
        "schema metadata",
        "in a row that is left out",
        "in a row left out for its sensitive value",
        "under a null, coded column",
    } <= found
    # compressed pages hide what their dictionaries and values hold: looking at the raw file is not enough
    assert b"note 399" not in (tmp_path / "table-planted.parquet").read_bytes()
    assert any(b"note 399" in page for page in Parquet.hidden(tmp_path / "table-planted.parquet"))


def test_a_copy_that_forgets_to_clean_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search has power over our own writer: without the cleaning the unused values are in the release."""
    from sfumato.engines.embedded import engine

    monkeypatch.setattr(engine, "clean_table", lambda table: table)
    release = released(planted_table(), POLICY, folder=tmp_path / "r", shuffle=False)
    assert "a value that no row has, untouched column" in found_in(all_bytes(release.folder))


def test_a_value_outside_the_sample_is_not_told_by_the_domain(tmp_path: Path) -> None:
    """A declared domain is published whole; an observed one only as far as rows have it."""
    release = released(planted_table(), POLICY, folder=tmp_path / "r")
    assert release.manifest.domain.labels == ("asthma", "flu", "gout")


def test_the_manifest_holds_no_count_and_no_key(tmp_path: Path) -> None:
    table = pa.table({"uid": [f"u{k}" for k in range(1237)], "s": ["a"] * 819 + ["b"] * 418})
    release = released(table, make_policy({"uid": "other", "s": "sensitive"}), folder=tmp_path / "r", seed=4)
    text = (release.folder / "manifest.json").read_text() + (release.folder / "README.md").read_text()
    assert "1237" in text.replace(",", "")
    text = re.sub("[0-9a-f]{12,}", "", text)  # hashes and 64-bit weights hold all sorts of digits
    assert "819" not in text
    assert "418" not in text
    assert sorted(path.name for path in release.folder.iterdir()) == ["README.md", "data.parquet", "manifest.json"]


def test_statistics_are_those_of_the_published_rows(tmp_path: Path) -> None:
    """The largest income belongs to a row that is left out: no minimum or maximum tells it."""
    table = pa.table({"income": [1, 2, 3, 999_999] * 30, "s": ["a", "b", "a", None] * 30})
    policy = make_policy({"income": "other", "s": "sensitive; missing = 'drop'"})
    release = released(table, policy, folder=tmp_path / "r")
    column = pq.read_metadata(release.data).row_group(0).column(0)
    assert (column.statistics.min, column.statistics.max) == (1, 3)


# --- bins of dates, merged values -----------------------------------------------------------------------------------

MOMENT = dt.datetime(1987, 11, 23, 4, 56, 7, 890123)
BEHIND = {
    "a day": b"1987-11-23",
    "a day, as a file has it": struct.pack("<i", (MOMENT.date() - dt.date(1970, 1, 1)).days) * 2,
    "a moment": struct.pack("<q", int((MOMENT - dt.datetime(1970, 1, 1)) / dt.timedelta(microseconds=1))),
    "a text that is merged": b"ward-planted",
    "a number that is merged": b"987654321",
    "a number that is merged, as a file has it": struct.pack("<q", 987654321),
    "a sensitive text that is merged": b"syndrome-planted",
    "a text that no row has": b"unused-planted",
    "under a null": b"beneath-planted",
}
RECODED = make_policy(
    {
        "day": "quasi_identifier; bins = 'year'",
        "moment": "other; bins = 'month'",
        "iso": "other; bins = { breaks = [1987-01-01, 1988-01-01] }",
        "ward": "other; missing = 'category'; "
        "merge = { inner = ['ward-planted', 'unused-planted', 'beneath-planted'] }",
        "code": "quasi_identifier; merge = { rare = [987654321] }",
        "disease": "sensitive; merge = { other = ['syndrome-planted', 'gout'] }",
    }
)


def recoded_table() -> pa.Table:
    """Return a table whose every value behind a bin or a name is a token, and two values that no row has."""
    ward = pa.DictionaryArray.from_arrays(
        pa.Array.from_buffers(
            pa.int32(),
            ROWS,
            [
                pa.py_buffer(np.packbits([k % 5 != 4 for k in range(ROWS)], bitorder="little")),
                pa.py_buffer(np.array([[0, 1, 0, 1, 3][k % 5] for k in range(ROWS)], dtype=np.int32)),
            ],
        ),
        pa.array(["ward-planted", "north", "unused-planted", "beneath-planted"]),
    )
    return pa.table(
        {
            "day": pa.array([MOMENT.date()] * ROWS),
            "moment": pa.array([MOMENT] * ROWS, pa.timestamp("us")),
            "iso": pa.array(["1987-11-23T04:56"] * ROWS).dictionary_encode(),
            "ward": ward,
            "code": pa.array([987654321, 5] * (ROWS // 2)),
            "disease": ["asthma", "gout", "syndrome-planted", "flu"] * (ROWS // 4),
        }
    )


def behind_in(release: Release) -> set[str]:
    """Return what lies in any file but the manifest, or anywhere in it but where the policy's merging is told."""
    manifest = json.loads((release.folder / MANIFEST_NAME).read_text())
    manifest.pop("merged")
    paths = [path for path in release.folder.rglob("*") if path.is_file() and path.name != MANIFEST_NAME]
    content = b"\n".join(part for path in paths for part in everything(path)) + json.dumps(manifest).encode()
    return {what for what, token in BEHIND.items() if token in content}


@pytest.mark.parametrize("format", ["parquet", "csv"])
@pytest.mark.parametrize("source", ["arrow", "parquet", "csv"])
def test_no_value_behind_a_bin_or_a_name_is_in_a_release(source: str, format: str, tmp_path: Path) -> None:
    given: object = recoded_table()
    if source == "parquet":
        given = tmp_path / "t.parquet"
        pq.write_table(recoded_table(), given)
    elif source == "csv":
        given = tmp_path / "t.csv"
        pacsv.write_csv(recoded_table(), given)
    release = released(given, RECODED, folder=tmp_path / "r", format=format)
    assert behind_in(release) == set()
    # positive control: what is published is found by the same search
    content = all_bytes(release.folder)
    shown = (b"1987", b"1987-11", b"[1987-01-01, 1988-01-01)", b"inner", b"north", b"rare", b"other", b"flu")
    assert all(token in content for token in shown)
    assert release.manifest.merged is not None
    assert "unused-planted" in release.manifest.merged["ward"]["inner"]  # stated by the policy, whatever rows have


def test_the_search_finds_values_behind_bins_and_names_in_a_plain_copy(tmp_path: Path) -> None:
    release = released(recoded_table(), RECODED, folder=tmp_path / "r")
    pq.write_table(recoded_table(), release.folder / "data.parquet", use_dictionary=["ward", "iso", "disease"])
    assert behind_in(release) >= set(BEHIND) - {"a number that is merged", "under a null"}
