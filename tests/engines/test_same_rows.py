"""A row draws the same value whatever the batches, the row groups, the file format or the library are."""

from __future__ import annotations

import gc
import gzip
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv as pacsv

from sfumato.release.formats import parquet
from tests.constants import set_constants
from tests.engines.tools import patients, released, rows_of


def as_parquet(table: pa.Table, folder: Path) -> Path:
    pq.write_table(table, folder / "t.parquet")
    return folder / "t.parquet"


def as_small_row_groups(table: pa.Table, folder: Path) -> Path:
    pq.write_table(table, folder / "t.parquet", row_group_size=17, use_dictionary=["sex"])
    return folder / "t.parquet"


def as_folder(table: pa.Table, folder: Path) -> Path:
    (folder / "_in").mkdir()  # the folder's own name may look like one that is left out
    pq.write_table(table, folder / "_in" / "part-0.parquet")
    (folder / "_in" / "_temporary").mkdir()
    (folder / "_in" / "_temporary" / "part-9.parquet").write_bytes(b"not a table")
    return folder / "_in"


def as_csv(table: pa.Table, folder: Path) -> Path:
    pacsv.write_csv(table, folder / "t.csv")
    return folder / "t.csv"


def as_plain_csv(table: pa.Table, folder: Path) -> Path:
    options = pacsv.WriteOptions(quoting_style="none")
    pacsv.write_csv(table, folder / "p.csv", options)
    return folder / "p.csv"


def as_plain_csv_of_windows(table: pa.Table, folder: Path) -> Path:
    plain = as_plain_csv(table, folder).read_bytes()
    (folder / "w.csv").write_bytes(b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n").rstrip())
    return folder / "w.csv"


def as_csv_gz(table: pa.Table, folder: Path) -> Path:
    plain = as_csv(table, folder)
    (folder / "T.CSV.GZ").write_bytes(gzip.compress(plain.read_bytes()))
    return folder / "T.CSV.GZ"


def as_csv_of_windows(table: pa.Table, folder: Path) -> Path:
    plain = as_csv(table, folder).read_bytes()
    (folder / "w.csv").write_bytes(b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n").rstrip())
    return folder / "w.csv"


def as_pandas(table: pa.Table, folder: Path) -> Any:
    return pd.DataFrame(table.to_pydict())


def as_pandas_categories(table: pa.Table, folder: Path) -> Any:
    return as_pandas(table, folder).astype({"disease": "category", "sex": "category", "age": "category"})


def as_polars(table: pa.Table, folder: Path) -> Any:
    return pl.from_arrow(table)


def as_polars_categories(table: pa.Table, folder: Path) -> Any:
    return pl.DataFrame(table.to_pydict()).with_columns(pl.col("disease", "sex").cast(pl.Categorical))


def as_duckdb(table: pa.Table, folder: Path) -> Any:
    path = as_parquet(table, folder)
    return duckdb.connect(config={"threads": 1}).sql(f"SELECT * FROM read_parquet('{path}')")


def as_chunks(table: pa.Table, folder: Path) -> Any:
    return pa.concat_tables([table.slice(0, 1), table.slice(1, 0), table.slice(1, 130), table.slice(131)])


def as_dictionaries(table: pa.Table, folder: Path) -> Any:
    """Every chunk has a dictionary of its own, one of them with a null in it, and with other index types."""
    first, second = table.slice(0, 100), table.slice(100)
    kind = pa.dictionary(pa.uint64(), pa.string())
    values = pa.array(["unused", None, *sorted(set(table["disease"].to_pylist()))])
    codes = [values.to_pylist().index(v) for v in first["disease"].to_pylist()]
    odd = pa.DictionaryArray.from_arrays(pa.array(codes, pa.uint64()), values)
    plain = pa.chunked_array([odd, second["disease"].combine_chunks().cast(pa.string()).cast(kind)], kind)
    return table.set_column(3, "disease", plain)


def as_reader(table: pa.Table, folder: Path) -> Any:
    return table.to_reader(max_chunksize=11)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, list[tuple[str, ...]]]:
    """Give the rows of the plain Arrow table: in their order and shuffled."""
    folder = tmp_path_factory.mktemp("plain")
    return {order: rows_of(released(patients(), folder=folder / str(order), shuffle=order)) for order in (False, True)}


Expected = dict[bool, list[tuple[str, ...]]]

FORMS: list[Callable[[pa.Table, Path], Any]] = [
    as_parquet,
    as_small_row_groups,
    as_folder,
    as_csv,
    as_plain_csv,
    as_plain_csv_of_windows,
    as_csv_gz,
    as_csv_of_windows,
    as_pandas,
    as_pandas_categories,
    as_polars,
    as_polars_categories,
    as_duckdb,
    as_chunks,
    as_dictionaries,
    as_reader,
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "shuffled"])
def test_the_same_rows_are_published_from_every_form(
    form: Callable[[pa.Table, Path], Any], shuffled: bool, tmp_path: Path, expected: Expected
) -> None:
    release = released(form(patients(), tmp_path), folder=tmp_path / "r", shuffle=shuffled)
    assert rows_of(release) == expected[shuffled]
    if not shuffled:
        assert [check.name for check in release.verify().checks if check.status == "fails"] == ["secret key"]


@pytest.mark.parametrize("size", [1, 7, 64, 299, 300, 301])
@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "shuffled"])
def test_the_same_rows_for_every_batch_size(
    size: int, shuffled: bool, tmp_path: Path, expected: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_constants(monkeypatch, "sfumato.engines", BATCH_ROWS=size)
    table = as_parquet(patients(), tmp_path)
    assert rows_of(released(table, folder=tmp_path / "r", shuffle=shuffled)) == expected[shuffled]


@pytest.mark.parametrize("size", [1, 10, 100])
@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_row_groups_do_not_matter(
    size: int, format: str, tmp_path: Path, expected: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet.Parquet, "rows_at_once", size)
    set_constants(monkeypatch, "sfumato.release", ROW_GROUP=size)
    assert rows_of(released(patients(), folder=tmp_path / "r", format=format, shuffle=False)) == expected[False]


@pytest.mark.parametrize("block", [64, 1000])
@pytest.mark.parametrize("form", [as_csv, as_plain_csv], ids=["quoted", "plain"])
@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_csv_blocks_do_not_matter(
    block: int,
    form: Callable[[pa.Table, Path], Path],
    format: str,
    tmp_path: Path,
    expected: Expected,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_constants(monkeypatch, "sfumato.engines", CSV_BLOCK=block, STRETCH=block, PIECE=block // 4)
    set_constants(monkeypatch, "sfumato.release", LINES_AT_ONCE=3)
    table = form(patients(), tmp_path)
    assert rows_of(released(table, folder=tmp_path / "r", format=format, shuffle=False)) == expected[False]


def test_batches_of_the_shuffle_do_not_matter(
    tmp_path: Path, expected: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts do: they are part of how an order is drawn. The rows are the same."""
    set_constants(monkeypatch, "sfumato.engines", BATCH_ROWS=31)
    assert rows_of(released(patients(), folder=tmp_path / "r", shuffle=True)) == expected[True]
    set_constants(monkeypatch, "sfumato.engines.embedded", PART_ROWS=13)
    assert sorted(rows_of(released(patients(), folder=tmp_path / "s", shuffle=True))) == sorted(expected[True])


def test_another_seed_gives_other_rows(tmp_path: Path) -> None:
    first, second = (rows_of(released(patients(), folder=tmp_path / f"r{s}", seed=s, shuffle=False)) for s in (1, 2))
    assert first != second
    assert [row[0] for row in first] == [row[0] for row in second]


def test_a_file_of_a_folder_has_words_of_its_own(tmp_path: Path) -> None:
    """Twice the same rows in two files: the second file does not repeat the noise of the first."""
    (tmp_path / "in").mkdir()
    for part in "ab":
        pq.write_table(patients(), tmp_path / "in" / f"{part}.parquet")
    both = rows_of(released(tmp_path / "in", folder=tmp_path / "r", shuffle=False))
    single = rows_of(released(tmp_path / "in" / "a.parquet", folder=tmp_path / "s", shuffle=False))
    assert both[:300] == single
    assert both[300:] != single


def test_a_folder_of_many_files_needs_few_open_ones(tmp_path: Path) -> None:
    """More files than the process may open."""
    (tmp_path / "in").mkdir()
    for part in range(120):
        pq.write_table(patients(10, seed=part), tmp_path / "in" / f"{part:03}.parquet")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    gc.collect()  # files of earlier tests
    most = max(int(name) for name in os.listdir("/dev/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (most + 60, limits[1]))
    try:
        assert len(rows_of(released(tmp_path / "in", folder=tmp_path / "r"))) == 1200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
