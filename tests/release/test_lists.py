"""Sets of values as lists of a Parquet file: what is read back, and how it is stored."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.release.formats.parquet import Parquet
from sfumato.values.mechanism import BETWEEN
from tests.constants import set_constants


def _texts(seed: int, values: int, sizes: tuple[int, int], rows: int) -> list[str]:
    """Return sets of so many of these values, the smallest and the largest, for each row one of a few."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(sizes[0], sizes[1] + 1, 40)
    sets = [BETWEEN.join(f"v{v:03}" for v in np.sort(rng.choice(values, n, replace=False))) for n in lengths]
    return [sets[k] for k in rng.integers(0, len(sets), rows)]


def _written(column: pa.Array, path: Path) -> Path:
    kind = Parquet(complete=["s"], sets=["s"])
    piece = kind.prepared(pa.table({"n": np.arange(len(column)), "s": column}))
    writer = kind.writer(path, piece.schema)
    writer.write(piece)
    writer.close()
    return path


def test_a_set_is_a_list_of_its_values(tmp_path: Path) -> None:
    path = _written(pa.array(["flu|gout", "asthma", "flu|gout"]), tmp_path / "t.parquet")
    assert pq.read_table(path)["s"].to_pylist() == [["flu", "gout"], ["asthma"], ["flu", "gout"]]


@pytest.mark.parametrize("sizes", [(3, 3), (1, 9)], ids=["of one size", "of several sizes"])
@pytest.mark.parametrize("values", [12, 256, 257, 900])  # numbers of one byte, the last of them, and of two
def test_every_reader_finds_the_values_of_every_set(
    values: int, sizes: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the texts split by Python; rows go over several chunks, the last one short."""
    set_constants(monkeypatch, "sfumato.release.formats", LISTS_AT_ONCE=64)
    texts = _texts(values, values, sizes, 500)
    expected = [text.split(BETWEEN) for text in texts]
    for number, column in enumerate([pa.array(texts), pa.array(texts).dictionary_encode()]):
        path = _written(column, tmp_path / f"{number}.parquet")
        assert pq.read_table(path)["s"].to_pylist() == expected
        assert pl.read_parquet(path)["s"].to_list() == expected
        assert duckdb.sql(f"SELECT s FROM '{path}' ORDER BY n").fetchall() == [(own,) for own in expected]


def test_values_are_stored_once_and_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks share a dictionary: written in full, 20M sets of 20 values took twice the time and the space."""
    set_constants(monkeypatch, "sfumato.release.formats", LISTS_AT_ONCE=64)
    path = _written(pa.array(_texts(1, 100, (20, 20), 5000)), tmp_path / "t.parquet")
    chunk = pq.read_metadata(path).row_group(0).column(1)
    assert chunk.path_in_schema == "s.list.element"
    assert chunk.has_dictionary_page
    assert chunk.total_uncompressed_size < 5000 * 20 * 1.3  # 7 bits for a number, 1 for where a list begins
    assert not chunk.is_stats_set
