"""The watch over row order: summaries against slow oracles, p-values against enumeration, and power."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sfumato.values import row_order
from sfumato.values.row_order import OrderTest, OrderWatch
from tests.constants import constant, set_constants

Codes = NDArray[np.int32]


def codes_of(seed: int, rows: int, m: int) -> Codes:
    return np.random.default_rng(seed).integers(0, m, rows).astype(np.int32)


def watched(codes: Codes, m: int, cuts: tuple[int, ...] = ()) -> OrderWatch:
    watch = OrderWatch(m)
    for piece in np.split(codes, sorted(cuts)):
        watch.add(piece)
    return watch


def dependent(codes: NDArray[np.int64] | Codes, m: int) -> bool:
    return watched(codes.astype(np.int32), m).test().dependent


# --- the stream ---------------------------------------------------------------------------------------------


@st.composite
def streams(draw: st.DrawFn) -> tuple[Codes, int, tuple[int, ...]]:
    m = draw(st.sampled_from([1, 2, 5, 40, 700, 1024]))
    rows = draw(st.one_of(st.integers(0, 300), st.integers(300, 70_000)))
    cuts = draw(st.lists(st.integers(0, rows), max_size=12))
    return codes_of(draw(st.integers(0, 99)), rows, m), m, tuple(cuts)


@settings(max_examples=60, deadline=None)
@given(streams())
def test_any_cut_of_the_stream_gives_the_same_result(stream: tuple[Codes, int, tuple[int, ...]]) -> None:
    codes, m, cuts = stream
    whole, cut = watched(codes, m), watched(codes, m, cuts)
    assert np.array_equal(cut.table().sum(axis=1), np.bincount(codes, minlength=m))
    assert np.array_equal(cut.table(), whole.table())
    assert np.array_equal(cut.sample(), whole.sample())
    assert cut.test() == whole.test()


def oracle_table(codes: Codes, m: int) -> NDArray[np.int64]:
    size = 1
    while size * 64 < len(codes):
        size *= 2
    blocks = [codes[i : i + size] for i in range(0, len(codes), size)]
    if len(blocks) > 1 and 2 * len(blocks[-1]) < size:
        blocks[-2:] = [np.concatenate(blocks[-2:])]
    return np.array([np.bincount(block, minlength=m) for block in blocks]).T


@pytest.mark.parametrize("rows", [1, 2, 63, 64, 65, 67, 16_383, 16_384, 16_385, 16_400, 32_768, 32_769, 300_001])
@pytest.mark.parametrize("m", [3, 10, 900])
def test_block_table_is_that_of_the_oracle(rows: int, m: int) -> None:
    codes = codes_of(rows, rows, m)
    table = watched(codes, m, (rows // 3, rows // 3 + 5 if rows > 20 else 0)).table()
    assert np.array_equal(table, oracle_table(codes, m))
    assert rows < 33 or 32 <= table.shape[1] <= 64


def oracle_sample(codes: Codes) -> Codes:
    segments = [codes[i : i + 500] for i in range(0, len(codes), 500)]
    while len(segments) > 20:
        segments = segments[::2]
    return np.concatenate(segments) if segments else codes


@pytest.mark.parametrize("rows", [0, 1, 499, 500, 501, 9_999, 10_000, 10_001, 10_501, 20_000, 20_001, 123_456])
def test_thinning_keeps_every_second_segment(rows: int) -> None:
    codes = np.arange(rows, dtype=np.int32)
    sample = watched(codes, max(1, rows), tuple(k * rows // 7 for k in range(1, 7))).sample()
    assert np.array_equal(sample, oracle_sample(codes))
    assert rows <= 10_000 or 5_000 <= len(sample) <= 10_000


@pytest.mark.parametrize("m", [2, 10, 16_000])
@pytest.mark.parametrize("before", [0, 20_000])
@pytest.mark.parametrize("wrong", [-1, 0])
@pytest.mark.parametrize("length", [1, 5_000])
def test_a_code_outside_the_domain_is_an_error(m: int, before: int, wrong: int, length: int) -> None:
    watch = watched(codes_of(1, before, m), m)
    bad = codes_of(2, length, m)
    bad[-1] = m if wrong == 0 else -1
    with pytest.raises(ValueError, match=r"negative|broadcast"):
        watch.add(bad)


def test_memory_is_bounded() -> None:
    watch = watched(codes_of(1, 200_000, 1024), 1024)
    assert watch._cells.nbytes + watch._kept.nbytes < 1e6


# --- edges --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codes", [[], [0], [1], [1] * 5_000, [0] * 40_000])
def test_one_row_or_one_value_has_no_order(codes: list[int]) -> None:
    assert watched(np.array(codes, dtype=np.int32), 3).test() == OrderTest(1.0, False, 1.0, 1.0)


@pytest.mark.parametrize("codes", [[0, 1], [0, 0, 1], [0, 1, 2], list(range(12)), [0] * 400 + [1]])
def test_tables_too_small_to_tell_are_not_called_dependent(codes: list[int]) -> None:
    assert not dependent(np.array(codes, dtype=np.int32), 12)


def test_t3_12_the_same_rows_get_the_same_p_value_and_a_test_changes_nothing() -> None:
    """The draws are seeded by the rows: p was .012, .024 and .005 in three commands."""
    watch = watched(codes_of(4, 900, 6), 6)
    assert watch.test() == watch.test()
    watch.add(codes_of(5, 900, 6))
    assert watch.test() == watched(np.concatenate([codes_of(4, 900, 6), codes_of(5, 900, 6)]), 6).test()


def test_statements() -> None:
    assert OrderTest.combined(0.41, 0.205).statement == (
        "No dependence of the sensitive value on the row's position was found "
        "(p = 0.41, permutation test at level 0.001)."
    )
    assert OrderTest.combined(0.006, 0.4).statement == (
        "There is weak evidence that the sensitive value depends on the row's position "
        "(p = 0.012, permutation test at level 0.001)."
    )
    assert OrderTest.combined(1.0, 1 / 2000).statement == (
        "The sensitive value depends on the row's position (p <= 0.001, permutation test)."
    )


def test_both_p_values_are_doubled() -> None:
    assert OrderTest.combined(0.0005, 0.9) == OrderTest(0.001, True, 0.0005, 0.9)
    assert OrderTest.combined(0.9, 0.001) == OrderTest(0.002, False, 0.9, 0.001)
    assert OrderTest.combined(0.9, 0.8).p_value == 1.0


# --- p-values -----------------------------------------------------------------------------------------------


def scripted(hits: list[int]) -> Iterator[bool]:
    """Yield the draws; those with a number in `hits` (from 1) are exceedances."""
    marked = set(hits)
    return (number in marked for number in range(1, 10_000))


@pytest.mark.parametrize(
    ("hits", "p"),
    [
        (list(range(1, 20)), 1.0),
        ([*range(1, 10), 17], 10 / 17),
        ([*range(1, 10), 1999], 10 / 1999),
        ([*range(1, 10), 2000], 10 / 2000),
        ([5, 80], 3 / 2000),
        ([], 1 / 2000),
    ],
)
def test_sequential_p_value(hits: list[int], p: float) -> None:
    draws = scripted(hits)
    assert row_order.sequential_p(lambda count: np.array([next(draws) for _ in range(count)])) == p


def test_fewest_draws_that_reach_the_level() -> None:
    draws, tests, level = (constant("sfumato.values", name) for name in ("DRAWS", "TESTS", "LEVEL"))
    assert [b for b in range(draws + 1) if tests / (b + 1) <= level] == [draws]


def test_random_tables_are_those_of_permuted_rows() -> None:
    """All 6!/(3! 2! 1!) = 60 orders of 3 + 2 + 1 rows in blocks of 2, 3 and 1, against 60,000 drawn tables.

    False-alarm rate below 1e-6 (chi-square beyond its mean by 6 standard deviations, the seed being fixed).
    """
    classes, blocks = np.array([3, 2, 1]), np.array([2, 3, 1])
    place = np.repeat(np.arange(3), blocks)
    orders = set(permutations(np.repeat(np.arange(3), classes).tolist()))
    exact = Counter(bytes(np.bincount(np.array(o) * 3 + place, minlength=9).astype(np.uint8)) for o in orders)
    drawn = row_order.random_tables(classes, blocks, 60_000, np.random.default_rng(1))
    seen = Counter(bytes(table) for table in drawn.astype(np.uint8).reshape(-1, 9))
    assert set(seen) == set(exact)
    chi_square = sum((seen[t] - 1000 * exact[t]) ** 2 / (1000 * exact[t]) for t in exact)
    freedom = len(exact) - 1
    assert chi_square < freedom + 6 * (2 * freedom) ** 0.5


def test_random_tables_keep_the_margins() -> None:
    classes, blocks = np.array([400, 90, 31, 2]), np.array([64] * 8 + [11])
    tables = row_order.random_tables(classes, blocks, 50, np.random.default_rng(1))
    assert np.all(tables >= 0)
    assert np.all(tables.sum(axis=2) == classes)
    assert np.all(tables.sum(axis=1) == blocks)


def test_score_of_two_classes_and_two_blocks_is_the_usual_chi_square() -> None:
    table = np.array([[[30, 10], [20, 40]]])
    score = row_order.BlockScore(table[0].sum(axis=1), table[0].sum(axis=0))
    chi_square = 100 * (30 * 40 - 10 * 20) ** 2 / (40 * 60 * 50 * 50)
    assert score(table)[0] == pytest.approx(row_order.normal_score(np.array(chi_square), 1))


def test_rare_classes_are_lumped() -> None:
    table = np.diag(np.arange(40, dtype=np.int64))
    lumped = row_order.lump(table)
    assert lumped.shape == (32, 40)
    assert lumped.sum(axis=1).tolist() == [*range(39, 8, -1), sum(range(9))]
    assert row_order.lump(table[:20]).shape == (19, 40)


def test_a_billion_rows_stay_within_the_generators_limit() -> None:
    table = np.full((3, 48), 30_000_000, dtype=np.int64)
    assert row_order.within_limit(table).sum() < 10**9
    assert row_order.block_test(table, np.random.default_rng(1)) == 1.0  # too even, not too uneven
    table[0, :24] += 60_000
    assert row_order.block_test(table, np.random.default_rng(1)) == 1 / 2000


@pytest.mark.parametrize("rows", [2, 499, 500, 501, 1_000, 1_001, 1_250])
def test_equal_neighbours_do_not_straddle_segments(rows: int) -> None:
    same = np.zeros((1, rows), dtype=np.uint16)
    within = sum(len(same[0, i : i + 500]) - 1 for i in range(0, rows, 500))
    assert row_order.equal_neighbours(same).tolist() == [within]
    assert row_order.pairs_within(rows) == within


def test_the_centre_of_the_neighbour_test_is_the_mean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_constants(monkeypatch, "sfumato.values", SEGMENT=4)
    values = np.array([0, 0, 0, 1, 1, 2], dtype=np.uint16)
    every = np.array(list(permutations(values.tolist())), dtype=np.uint16)
    mean = row_order.equal_neighbours(every).mean()
    assert mean == pytest.approx(row_order.pairs_within(6) * (3 * 2 + 2 * 1) / (6 * 5))


# --- power (fixed seeds; 18 to 20 of 20 other seeds found the sorted, local and drifting tables) ------------


@pytest.mark.parametrize("m", [2, 10, 60, 150])
@pytest.mark.parametrize("rows", [200, 3_000, 50_000])
def test_a_sorted_table_is_found(m: int, rows: int) -> None:
    assert dependent(np.sort(codes_of(m, rows, m)), m)


@pytest.mark.parametrize("m", [2, 10, 100])
def test_order_inside_blocks_of_four_is_found_by_its_neighbours(m: int) -> None:
    codes = np.sort(codes_of(m, 20_000, m).reshape(-1, 4), axis=1).reshape(-1)
    result = watched(codes, m).test()
    assert result.neighbour_p == 1 / 2000
    assert result.dependent


@pytest.mark.parametrize("m", [2, 10, 100, 2_000])
def test_a_slow_drift_is_found_by_its_blocks(m: int) -> None:
    rng = np.random.default_rng(m)
    rising = rng.random(200_000) < np.linspace(0.10, 0.12, 200_000)
    result = watched(np.where(rising, 0, rng.integers(1, m, 200_000)).astype(np.int32), m).test()
    assert result.block_p == 1 / 2000
    assert result.dependent


def test_values_that_avoid_their_like_are_found() -> None:
    codes = np.argsort(np.random.default_rng(1).random((500, 4)), axis=1).reshape(-1)  # every value once in four
    result = watched(codes.astype(np.int32), 4).test()
    assert result.neighbour_p == 1 / 2000
    assert result.dependent


def test_one_run_of_a_rare_value_is_found() -> None:
    codes = codes_of(1, 100_000, 50)
    codes[40_000:40_200] = 7
    assert dependent(codes, 50)


def test_a_shuffled_table_is_not_called_dependent() -> None:
    assert not any(dependent(codes_of(seed, 5_000, 20), 20) for seed in range(10))


def test_the_table_of_the_stream_is_used_by_the_test() -> None:
    table = watched(np.repeat(np.arange(2, dtype=np.int32), 20_000), 2).table()
    assert row_order.block_test(table, np.random.default_rng(1)) == 1 / 2000
