"""The pure parts of publishing on Spark, without Spark: addresses, runs of rows, orders by secret words."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2

from sfumato.engines.deal.buckets import part_of
from sfumato.engines.embedded.counting import WATCHED
from sfumato.engines.spark.counting import _watched
from sfumato.engines.spark.source import _parts
from sfumato.engines.spark.tasks import FILE, ROW, Addressed, Files, TaskSource, at_once
from sfumato.engines.spark.writing import in_files, signed
from sfumato.errors import PlanMismatch
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.randomness import SecretKey, Step

ALARM = 1e-6

# --- orders -----------------------------------------------------------------------------------------------------------


def order_of(words: np.ndarray, parts: int) -> tuple[int, ...]:
    """Return the order in which rows with these words are published."""
    return tuple(np.lexsort((signed(words), part_of(words, parts))).tolist())


def surprise(orders: list[tuple[int, ...]]) -> float:
    """Return the p-value of: all orders of four rows are equally likely (chi-square)."""
    counts, due = Counter(orders), len(orders) / 24
    return float(chi2.sf(sum((counts[p] - due) ** 2 / due for p in permutations(range(4))), 23))


@pytest.mark.parametrize("parts", [1, 3, 1000])
def test_all_orders_are_equally_likely(parts: int) -> None:
    """False alarm 1e-6. Power: rows that are dealt to three parts and not sorted inside are found."""
    words = SecretKey.from_seed(parts).words(Step.SHUFFLE, 0, 0, 4 * 24_000).reshape(-1, 4)
    assert surprise([order_of(line, parts) for line in words]) > ALARM
    dealt_only = [tuple(np.argsort(part_of(line, 3), kind="stable").tolist()) for line in words]
    assert surprise(dealt_only) < ALARM


def test_parts_and_signed_words_keep_the_order_of_words() -> None:
    """The order of all rows is that of their words: so it does not depend on the number of parts."""
    words = np.sort(SecretKey.from_seed(1).words(Step.SHUFFLE, 0, 0, 5000))
    words[:2], words[-2:] = [0, 1], [2**64 - 2, 2**64 - 1]
    for parts in (1, 2, 7, 4096):
        part = part_of(words, parts)
        assert (np.diff(part) >= 0).all()
        assert part[0] == 0
        assert part[-1] == parts - 1
    assert (np.diff(signed(words)) > 0).all()


# --- runs -------------------------------------------------------------------------------------------------------------


def batches_of(rng: np.random.Generator, gap: int = 3) -> tuple[list[pa.RecordBatch], list[tuple[int, int]]]:
    """Return stretches of rows of some files in any order, with gaps, cut anyhow."""
    stretches = [(file, 10 * k) for file in range(3) for k in range(4) if rng.random() < 0.7]
    rows = [
        (file, int(k))
        for file, start in rng.permutation(stretches).tolist()
        for k in range(start, start + 10, rng.integers(1, gap))
    ]
    cuts = sorted(rng.integers(0, len(rows) + 1, 4).tolist())
    pieces = [rows[start:end] for start, end in pairwise([0, *cuts, len(rows)])]
    marks = [10, -5, 2**40]
    return [
        pa.RecordBatch.from_pydict(
            {
                "x": pa.array([f"{file}:{k}" for file, k in piece], pa.string()),
                FILE: pa.array([marks[file] for file, _ in piece], pa.int64()),
                ROW: pa.array([k for _, k in piece], pa.int64()),
            }
        )
        for piece in pieces
    ], rows


FILES = Files.of({10: 0, -5: 1, 2**40: 2}, np.array([100, 50, 70]), 220)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_rows_go_to_files_in_their_order(seed: int, whole: bool) -> None:
    """Every file of the release has ascending rows of one file of the table, all of them where none is left out:
    so no row of another task comes between them."""
    given, expected = batches_of(np.random.default_rng(seed), gap=2 if whole else 3)
    files = replace(FILES, rows=FILES.length if whole else 7)
    source = TaskSource(["x"], {"x": pa.string()}, files, in_order=True).of(iter(given))
    placed = ((source.place, batch.rows) for batch in source.batches(["x"]))
    written = [(place, [x for rows in group for x in rows.column(0).to_pylist()]) for place, group in in_files(placed)]
    assert [x for _, rows in written for x in rows] == [f"{file}:{k}" for file, k in expected]
    for place, rows in written:
        found = [tuple(map(int, x.split(":"))) for x in rows]
        assert found[0] == place
        assert {file for file, _ in found} == {place[0]}
        assert all(b[1] == a[1] + 1 if whole else b[1] > a[1] for a, b in pairwise(found))
    assert len({place for place, _ in written}) == len(written)


@pytest.mark.parametrize("seed", range(20))
def test_words_are_those_of_the_rows(seed: int) -> None:
    """Whatever the batches are, and whether rows follow each other."""
    given, expected = batches_of(np.random.default_rng(seed))
    key = SecretKey.from_seed(seed)
    source = TaskSource(["x"], {"x": pa.string()}, FILES)
    whole = [source.batch(rows, ["x"]) for rows in at_once(given, rows=5)]
    words = [int(word) for batch in whole for word in batch.words(key, Step.PERTURB)]
    assert words == [int(key.words(Step.PERTURB, file, k, 1)[0]) for file, k in expected]
    positions = [int(p) for batch in whole if isinstance(batch, Addressed) for p in batch.positions]
    assert positions == [[0, 100, 150][file] + k for file, k in expected]


def test_a_file_that_nobody_counted_is_refused() -> None:
    """Its rows would get the words of another file."""
    for marks in ([10, 10], [10, 11], [11, 11], [2**41]):
        if marks == [10, 10]:
            assert FILES.number_of(np.array(marks)).tolist() == [0, 0]
            continue
        with pytest.raises(PlanMismatch):
            FILES.number_of(np.array(marks))


def test_paths_are_ordered_by_their_parts() -> None:
    """As one machine orders them; two stores do not share a number."""
    uris = ["file:/d/a-b.parquet", "file:/d/a/z.parquet", "file:/d/a%20b.parquet", "file:/d/%C3%A9.parquet"]
    assert sorted(uris, key=_parts) == [uris[1], uris[2], uris[0], uris[3]]
    assert _parts("s3://one/t.parquet") != _parts("s3://two/t.parquet")
    assert _parts("file:///d/t.parquet") == _parts("file:/d/t.parquet")


# --- the order test ---------------------------------------------------------------------------------------------------


def test_the_order_test_tells_combinations_apart() -> None:
    small = SensitiveDomain((Domain("a", tuple(range(5))), Domain("b", tuple(range(7)))))
    codes = [np.repeat(np.arange(5, dtype=np.int32), 7), np.tile(np.arange(7, dtype=np.int32), 5)]
    assert _watched(codes, small).tolist() == list(range(35))
    # 16^20 = 2^80 combinations, of which the first column alone tells rows apart
    large = SensitiveDomain(tuple(Domain(f"c{k}", tuple(range(16))) for k in range(20)))
    first = np.arange(16, dtype=np.int32)
    for place in range(5, 20):
        codes = [first if k == place else np.zeros(16, dtype=np.int32) for k in range(20)]
        found = _watched(codes, large)
        assert found.min() >= 0
        assert found.max() < WATCHED
        assert np.unique(found).size > 8
