"""The deal in batches: by hand, against a slow oracle that moves records one by one, and on thousands of tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

import numpy as np
import pytest

from sfumato.engines.deal.buckets import Groups
from sfumato.methods.robustness import grouping
from sfumato.values import bucket_deal as deals
from sfumato.values.arrays import IntArray
from sfumato.values.bucket_deal import Deal, Runs, members
from sfumato.values.randomness import SecretKey
from tests.constants import constant, set_constants


def test_a_worked_deal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values a a a b b c c, three groups, two batches: the line aaabbcc goes by i mod 3 to 0 1 2 0 1 2 0.

    Groups 0 and 2 are batch 0: it gets a a (positions 0, 2), b (3), c c (5, 6). Group 1 is batch 1: it gets a (1) and
    b (4). In the order c b a batch 0 is dealt c0 c2 b0 a2 a0; in the order b a batch 1 is dealt b1 a1.
    """
    set_constants(monkeypatch, "sfumato.values", BATCH_GROUPS=1, MOST_BATCHES=2)
    runs = Runs.of_table(np.array([3, 2, 2]), 3)
    assert runs.batches.tolist() == [2]
    assert [array.tolist() for array in runs.pieces] == [[0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1]]
    assert runs.batch_of_piece.tolist() == [0, 1, 0, 1, 0, 1]
    deal = Deal(runs, np.array([4, 2, 0, 3, 1, 5]))
    run, rank = np.array([0, 0, 0, 1, 1, 2, 2]), np.array([0, 1, 2, 0, 1, 0, 1])
    assert deal.group_of(run, rank).tolist() == [2, 1, 0, 0, 1, 0, 2]
    group, value = deal.runs_in(0, 3)
    assert (group.tolist(), value.tolist()) == ([0, 0, 0, 1, 1, 2, 2], [0, 1, 2, 0, 1, 0, 2])


@pytest.mark.parametrize(
    ("counts", "groups"),
    [([3, 1], 2), ([1, 1], 3), ([2, -1], 1), ([1, 1], -1)],
    ids=["a value twice in a group", "an empty group", "fewer than none", "fewer groups than none"],
)
def test_impossible_deals_are_refused(counts: list[int], groups: int) -> None:
    with pytest.raises(ValueError, match="group"):
        Runs.of_table(np.array(counts), groups)


def slow_deal(runs: Runs, order: IntArray) -> list[int]:
    """Return the group of every record, run by run, moved one by one."""
    found: list[list[int]] = [[-1] * count for count in runs.counts.tolist()]
    numbers = iter(order.tolist())
    for cell, (g, batches) in enumerate(zip(runs.groups.tolist(), runs.batches.tolist(), strict=True)):
        inside = np.flatnonzero(runs.cells == cell).tolist()
        line = [(run, rank) for run in inside for rank in range(int(runs.counts[run]))]
        for batch in range(batches):
            here = [record for i, record in enumerate(line) if i % g % batches == batch] if g else []
            groups = [j for j in range(g) if j % batches == batch]
            values = [int(runs.pieces[0][next(numbers)]) for _ in inside]
            again = [record for value in values for record in here if record[0] == value]
            for i, (run, rank) in enumerate(again):
                found[run][rank] = groups[i % len(groups)]
    return list(chain.from_iterable(found))


def random_order(runs: Runs, rng: np.random.Generator) -> IntArray:
    return np.lexsort((rng.random(runs.pieces[0].size), runs.batch_of_piece))


def random_counts(rng: np.random.Generator) -> tuple[IntArray, int]:
    """Return counts of values, some of them 0, and a number of groups that a deal to l each allows."""
    ell = int(rng.integers(1, 7))
    groups = int(rng.choice([1, 2, int(rng.integers(1, 40)), int(rng.integers(40, 300))]))
    counts = rng.integers(0, groups + 1, int(rng.integers(ell, ell + 8)))
    counts[rng.random(counts.size) < 0.3] = groups  # n_y = n/l, as often as l values have it
    counts[:ell] = np.where(counts.sum() < ell * groups, groups, counts[:ell])
    return rng.permutation(counts), groups


def random_runs(seeds: int) -> Iterator[tuple[Runs, np.random.Generator]]:
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        yield Runs.of_table(*random_counts(rng)), rng


def every_record(runs: Runs) -> tuple[IntArray, IntArray]:
    run = np.repeat(np.arange(runs.counts.size), runs.counts)
    return run, np.arange(run.size) - deals.starts(runs.counts)[run]


def test_the_formula_is_the_slow_deal(monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (1, 3, 8):
        set_constants(monkeypatch, "sfumato.values", BATCH_GROUPS=size)
        for runs, rng in random_runs(150):
            order = random_order(runs, rng)
            groups = Deal(runs, order).group_of(*every_record(runs))
            assert groups.tolist() == slow_deal(runs, order)


def test_cells_are_dealt_one_by_one() -> None:
    for seed in range(100):
        rng = np.random.default_rng(seed)
        tables = [random_counts(rng) for _ in range(int(rng.integers(1, 6)))]
        tables.insert(0, (np.zeros(2, dtype=np.int64), 0))  # a cell of which nothing is kept
        counts = np.concatenate([table[0] for table in tables])
        cells = np.repeat(np.arange(len(tables)), [table[0].size for table in tables])
        runs = Runs(counts, cells, np.array([table[1] for table in tables]))
        order = random_order(runs, rng)
        groups = Deal(runs, order).group_of(*every_record(runs))
        assert groups.tolist() == slow_deal(runs, order)


def test_no_value_twice_and_no_group_too_small() -> None:
    """3,000 tables: a group never has a value twice, and floor(n/g) or ceil(n/g) records; compositions are the same."""
    several = 0
    for runs, rng in random_runs(3000):
        deal = Deal(runs, random_order(runs, rng))
        run, rank = every_record(runs)
        group, g, n = deal.group_of(run, rank), int(runs.groups[0]), int(runs.records[0])
        pairs = Counter(zip(group.tolist(), run.tolist(), strict=True))
        assert set(pairs.values()) == {1}
        sizes = np.bincount(group, minlength=g)
        assert (sizes.size, sizes.min(), sizes.max()) == (g, n // g, -(-n // g))
        middle = int(rng.integers(0, g + 1))
        lines = [np.concatenate(half) for half in zip(deal.runs_in(0, middle), deal.runs_in(middle, g), strict=True)]
        assert list(zip(*(line.tolist() for line in lines), strict=True)) == sorted(pairs)
        several += int(runs.batches[0]) > 1
    assert several > 600


def test_the_number_of_batches_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    def batches(values: int, groups: int) -> int:
        return int(Runs.of_table(np.ones(values, dtype=np.int64), groups).batches[0])

    assert [batches(20_000, groups) for groups in (1, 15, 16, 80, 799, 800, 10_000)] == [1, 1, 2, 10, 52, 52, 52]
    assert [batches(1000, groups) for groups in (799, 800, 1000)] == [99, 100, 100]
    set_constants(monkeypatch, "sfumato.values", MOST_PIECES=10)
    assert batches(1000, 500) == 1


def test_groups_of_a_batch() -> None:
    for groups in range(1, 30):
        for number in range(1, groups + 1):
            counted = [len(range(batch, groups, number)) for batch in range(number)]
            assert members(groups, number, np.arange(number)).tolist() == counted


# --- the orders that are drawn ----------------------------------------------------------------------------------------


def robust_groups(counts: IntArray, r: int, seed: int) -> set[tuple[int, ...]]:
    """Return the different groups of values that the deal of robust Anatomy makes of one cell."""
    values = np.repeat(np.arange(counts.size), counts)
    order = np.random.default_rng(seed).permutation(values.size)
    groups = grouping.deal(grouping.Kinds.of(np.zeros_like(values), values), order, r)
    return {tuple(sorted(values[groups == number].tolist())) for number in range(int(groups.max()) + 1)}


def plain_groups(counts: IntArray, groups: int, seed: int) -> set[tuple[int, ...]]:
    """Return the same for Anatomy."""
    dealt = Groups.drawn(counts, np.zeros_like(counts), groups, SecretKey.from_seed(seed))
    lines = [(number, value) for g, x, _ in dealt.compositions() for number, value in zip(g, x, strict=True)]
    return {tuple(int(value) for number, value in lines if number == group) for group in range(groups)}


@pytest.mark.parametrize("counts", [[60, 50, 40, 30, 30, 20, 10], [80, 70, 60, 50, 40, 30, 20, 10]])
def test_batches_make_many_different_groups(counts: list[int]) -> None:
    """With the same order of the m values in every batch there would be about m + 1 different groups; 5 keys."""
    for seed in range(5):
        assert len(robust_groups(np.array(counts), 3, seed)) > 2 * (len(counts) + 1)
        assert len(plain_groups(np.array(counts), sum(counts) // 3, seed)) > 2 * (len(counts) + 1)


def batch_orders(batches: int, values: int, seed: int, robust: bool) -> IntArray:
    """Return the order of equally frequent values in each batch: (batch, place) -> value."""
    groups = constant("sfumato.values", "BATCH_GROUPS") * batches
    counts = np.full(values, 2 * groups // values)
    runs = Runs.of_table(counts, groups)
    if robust:
        order = grouping._piece_order(runs, np.random.default_rng(seed).permutation(values))
    else:
        order = Groups.drawn(counts, np.zeros_like(counts), int(runs.groups[0]), SecretKey.from_seed(seed)).deal.order
    assert (np.diff(runs.batch_of_piece[order]) >= 0).all()
    return runs.pieces[0][order].reshape(batches, values)


@pytest.mark.parametrize("robust", [False, True], ids=["Anatomy", "robust"])
def test_every_batch_has_an_order_of_its_own(robust: bool) -> None:
    """40 keys, 32 batches, 8 values: every value is equally often in every place, and orders hardly come back.

    For random orders Pearson's statistic has 49 degrees of freedom and exceeds 111 with probability 1e-6. Of 32 random
    orders two are equal with probability 0.012; for 9 keys or more of 40: 1e-9.
    """
    found, repeated = np.zeros((8, 8)), 0
    for seed in range(40):
        orders = batch_orders(32, 8, seed, robust)
        for place in range(8):
            found[place] += np.bincount(orders[:, place], minlength=8)
        repeated += len({tuple(order) for order in orders.tolist()}) < 32
    assert ((found - 160) ** 2 / 160).sum() * 7 / 8 < 111
    assert repeated < 9
