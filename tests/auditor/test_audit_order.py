"""Guessing by place: the tail bound by all permutations; level and power with fixed seeds."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.auditor.attackers import order
from sfumato.auditor.attackers.order import (
    LEVEL,
    Estimator,
    by_chance,
    groups_finding,
    guess_by_list,
    guess_by_place,
    rows_finding,
    rows_guessed,
)
from sfumato.auditor.grouped import GroupTables
from sfumato.errors import UsageError
from sfumato.methods.small_domain.method import uniform_matrix
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.retention import WORDS, PerturbationMatrix
from sfumato.values.mechanism import Bound, Mechanism, SubTable
from tests.constants import set_constants

SHARES = [0.4, 0.3, 0.2, 0.1]


def mechanism(matrix: PerturbationMatrix) -> Mechanism:
    domain = SensitiveDomain((Domain("d", tuple(map(str, range(matrix.size)))),))
    return Mechanism.single(domain, matrix, (Bound(None),) * matrix.size)


def people(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.choice(4, n, p=SHARES).astype(np.int32)


def randomized(matrix: PerturbationMatrix, true: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return matrix.sample(true, rng.integers(0, WORDS, true.size, dtype=np.uint64))


# --- what chance explains ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("guesses", [(0, 0, 1, 1, 2, 2), (0, 1, 2, 3, 4, 5), (0, 0, 0, 0, 0, 1), (0, 0, 0, 1, 2, 9)])
def test_the_expectation_and_the_tail_by_all_permutations(guesses: tuple[int, ...]) -> None:
    true = (0, 0, 0, 1, 1, 2) if guesses[-1] != 5 else (0, 1, 2, 3, 4, 5)
    hits = np.array([sum(a == b for a, b in zip(guesses, p, strict=True)) for p in itertools.permutations(true)])
    expected = sum(guesses.count(x) * true.count(x) for x in set(true)) / 6
    assert hits.mean() == pytest.approx(expected)
    for level in (0.9, 0.5, 0.2, 0.05, 0.01, 0.001):
        assert (hits - expected >= by_chance(expected, level) - 1e-9).mean() <= level


def test_the_tail_inside_groups_by_all_permutations() -> None:
    """Three groups of three, each in any order: the bound is for their sum."""
    one = np.array([sum(a == b for a, b in zip((0, 1, 2), p, strict=True)) for p in itertools.permutations(range(3))])
    hits = np.add.outer(np.add.outer(one, one), one)
    for level in (0.5, 0.1, 0.01):
        assert (hits - 3 >= by_chance(3, level)).mean() <= level
    tables = GroupTables.of(np.repeat(np.arange(3), 3), np.tile(np.arange(3), 3))
    assert groups_finding(tables, np.tile([1, 0, 2], 3), shuffled=True).baseline == pytest.approx(hits.mean() / 9)


# --- guesses ----------------------------------------------------------------------------------------------------------


def test_the_estimates_are_those_of_the_inverse_matrix() -> None:
    matrix = PerturbationMatrix.from_retention([0.5, 0.2, 0.3, 0.9])
    rng = np.random.default_rng(1)
    codes, parts = rng.integers(0, 4, 300), rng.integers(0, 5, 300)
    found = Estimator.of(mechanism(matrix)).estimate(parts, 5, codes, np.zeros(300, dtype=np.int64))
    for part in range(5):
        counts = np.bincount(codes[parts == part], minlength=4).astype(float)
        assert found[part] == pytest.approx(matrix.solve(counts), abs=1e-9)


def test_sub_tables_add_up() -> None:
    first, second = uniform_matrix(Fraction(3), 3), uniform_matrix(Fraction(5), 2)
    domain = SensitiveDomain((Domain("d", tuple("abcd")),))
    tables = (
        SubTable(np.array([0, 1, 2], dtype=np.int32), first, (Bound(None),) * 3),
        SubTable(np.array([1, 3], dtype=np.int32), second, (Bound(None),) * 2),
    )
    codes, labels = np.array([0, 0, 2, 1, 3, 3]), np.array([0, 0, 0, 1, 1, 1])
    one = np.zeros(6, dtype=np.int64)
    found = Estimator.of(Mechanism(domain, tables, "sub_table")).estimate(one, 1, codes, labels)[0]
    a, b = first.solve(np.array([2.0, 0, 1])), second.solve(np.array([1.0, 2]))
    assert found == pytest.approx([a[0], a[1] + b[0], a[2], b[1]])


def test_values_without_retention_count_as_published() -> None:
    matrix = PerturbationMatrix.from_retention([0.0, 0.5, 0.5])
    found = Estimator.of(mechanism(matrix)).estimate(
        np.zeros(3, np.int64), 1, np.array([0, 0, 2]), np.zeros(3, np.int64)
    )
    assert found[0].tolist() == [2, 0, 1]


@pytest.mark.parametrize("width", [2, 4, 6, 16])
def test_guesses_by_a_slow_loop(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row from the rows of its block with the other parity; ties go to what the release has most of."""
    published = np.random.default_rng(width).integers(0, 4, 101)
    overall = np.bincount(published, minlength=4) / 101
    expected = []
    for row in range(101 // width * width):
        start = row // width * width
        others = [published[k] for k in range(start, start + width) if (k - row) % 2]
        expected.append(int(np.argmax(np.bincount(others, minlength=4) + overall)))
    for cells in (8, 64, 1 << 20):  # however much is held at a time
        set_constants(monkeypatch, "sfumato.auditor.attackers", CELLS=cells, ROWS=cells)
        parts = list(guess_by_place(published, Estimator.plain(4), width))
        assert np.concatenate([guesses for _, guesses in parts]).tolist() == expected
        assert [first for first, _ in parts] == np.cumsum([0, *(g.size for _, g in parts)])[:-1].tolist()


def test_the_list_of_a_group() -> None:
    tables = GroupTables(np.array([1, 0, 1, 1, 0]), np.array([0, 1, 1, 0]), *np.array([[7, 5, 6, 4], [1, 2, 1, 1]]))
    assert guess_by_list(tables).tolist() == [5, 7, 5, 6, 4]


# --- power ------------------------------------------------------------------------------------------------------------


def test_a_sorted_table_is_found() -> None:
    """2,000 rows sorted by value: by place all but a few are guessed. Shuffled it is not."""
    rng = np.random.default_rng(11)
    true = np.sort(people(rng, 2_000))
    found = rows_finding(true, true, shuffled=True)
    assert found.verdict == "above the bound"
    assert found.worst > 0.99
    assert found.at_risk > 1_980
    assert found.exposed[0].risk == 1
    assert rows_finding(true, rng.permutation(true), shuffled=True).verdict == "within the bound"
    own = rows_finding(true, true, shuffled=False)
    assert (own.verdict, own.stated, own.excess > 0.4) == ("not covered by the guarantee", found.promised, True)


def test_a_sorted_table_is_found_through_the_noise() -> None:
    """gamma = 3 on four values retains a third: 100 rows are not enough, 10,000 are."""
    matrix = uniform_matrix(Fraction(3), 4)
    for n, power in ((100, 0.0), (10_000, 1.0)):
        rng = np.random.default_rng(n)
        alarms = 0
        for _ in range(10):
            true = np.sort(people(rng, n))
            found = rows_finding(true, randomized(matrix, true, rng), True, mechanism(matrix))
            alarms += found.verdict == "above the bound"
        assert alarms / 10 == power


def test_neighbours_that_agree_are_found() -> None:
    """Couples with the same value, 1,000 of them in random order: only the neighbour tells."""
    true = np.repeat(people(np.random.default_rng(12), 1_000), 2)
    found = rows_finding(true, true, shuffled=True)
    assert (found.verdict, found.worst) == ("above the bound", 1)
    assert "By the neighbour: 100%." in found.remark


def test_the_interval_is_of_the_figure_that_is_shown() -> None:
    """By place fewer are guessed than without an order: what is shown is the success by place, and its limits."""
    rng = np.random.default_rng(15)
    true = np.where(rng.random(2_000) < 0.5, 0, rng.integers(1, 10, 2_000))
    mixed = rng.permutation(true)
    found = rows_finding(true, mixed, shuffled=True)
    best = max(rows_guessed(true, mixed, Estimator.plain(10)), key=lambda guesses: guesses.sure)
    assert found.interval == (best.rate - best.margin, best.rate + best.margin)
    assert found.worst == best.rate
    assert found.baseline is not None
    assert (found.mean, found.worst < found.baseline) == (None, True)


def test_a_slow_drift_is_found() -> None:
    """The share of the second value grows from 30% to 70%: found in 200,000 rows, not in 2,000."""
    rng = np.random.default_rng(13)
    for n, verdict in ((200_000, "above the bound"), (2_000, "within the bound")):
        true = (rng.random(n) < np.linspace(0.3, 0.7, n)).astype(np.int32)
        found = rows_finding(true, true, shuffled=True)
        assert found.verdict == verdict
        assert 0.5 < found.worst < 0.61  # 60% is the most that is in it


def test_lists_in_the_order_of_the_rows_are_found() -> None:
    """3,000 groups of four. The k-th row has the k-th value of the list; shuffled inside the groups it has not."""
    rng = np.random.default_rng(14)
    rows = np.repeat(np.arange(3_000), 4)
    true = np.concatenate([np.sort(rng.choice(9, 4, replace=False)) for _ in range(3_000)])
    tables = GroupTables.of(rows, true)
    found = groups_finding(tables, true, shuffled=True)
    assert (found.verdict, found.worst, found.baseline) == ("above the bound", 1, 0.25)
    mixed = np.concatenate([rng.permutation(group) for group in true.reshape(-1, 4)])
    found = groups_finding(tables, mixed, shuffled=True)
    assert (found.verdict, found.at_risk, found.exposed) == ("within the bound", 0, ())
    some = np.where(rng.random(12_000) < 0.5, mixed, -1)
    assert groups_finding(tables, some, shuffled=True).records == np.count_nonzero(some >= 0)


# --- level ------------------------------------------------------------------------------------------------------------


def test_the_level_is_shared_among_the_widths() -> None:
    """Chance alone is an alarm by any of them with probability LEVEL at most."""
    true = people(np.random.default_rng(1), 10_000)
    found = rows_guessed(true, true, Estimator.plain(4))
    assert len(found) > 2
    assert sum(guesses.level for guesses in found) == pytest.approx(LEVEL)
    for guesses in found:
        excess = by_chance(guesses.expected / guesses.together, LEVEL / len(found))
        assert guesses.margin == pytest.approx(guesses.together * excess / 10_000)


def test_shuffled_releases_give_no_alarm() -> None:
    """1,000 shuffled releases of sorted tables, plain and randomized, 60 to 1,500 rows.

    At the level of 1/1000 one alarm would be no surprise; the bound is far from tight, and there is none.
    """
    rng, matrix = np.random.default_rng(15), uniform_matrix(Fraction(3), 4)
    alarms = 0
    for number in range(1_000):
        true = np.sort(people(rng, int(rng.integers(60, 1_500))))
        released = rng.permutation(true)
        plain = number % 2
        shown = released if plain else randomized(matrix, released, rng)
        found = rows_finding(true, shown, True, None if plain else mechanism(matrix))
        alarms += found.verdict == "above the bound"
    assert LEVEL == 1e-3
    assert alarms == 0


def test_half_blocks_that_share_a_guess_count_once() -> None:
    """Three values at about a third each, sorted, 2,048 rows in blocks of 64, shuffled 2,000 times, level 1/20.

    Chance explains all but 5%. If every row had a guess of its own, more than 5% would seem to be more than chance.
    """
    rng, level = np.random.default_rng(17), 0.05
    true = np.arange(2_048) * 3 // 2_048
    found = [order._of_width(64, true, rng.permutation(true), Estimator.plain(3), None, level) for _ in range(2_000)]
    assert {guesses.together for guesses in found} == {32}
    alone = [replace(guesses, together=1) for guesses in found]
    beyond, naive = (np.mean([g.sure * 2_048 >= g.expected for g in kind]) for kind in (found, alone))
    assert beyond <= level < naive


def test_what_is_expected_is_the_mean_over_shuffles() -> None:
    rng = np.random.default_rng(16)
    true = np.sort(people(rng, 2_100))
    found = [rows_guessed(true, rng.permutation(true), Estimator.plain(4)) for _ in range(400)]
    assert [guesses.kind for guesses in found[0]] == ["the neighbour", "blocks of 16 rows", "blocks of 64 rows"]
    for kind in zip(*found, strict=True):
        beyond = np.array([guesses.rate * 2_100 - guesses.expected for guesses in kind])
        assert abs(beyond.mean()) < 4 * beyond.std() / 20


# --- corners ----------------------------------------------------------------------------------------------------------


def test_fewer_rows_than_people_and_more() -> None:
    true = np.repeat([0, 1], 50)
    found = rows_finding(true, true[:60], shuffled=True)
    assert (found.records, found.worst) == (100, pytest.approx(0.6, abs=0.05))
    with pytest.raises(UsageError, match="more than the 50 people"):
        rows_finding(true[:50], true, shuffled=True)


def test_one_row_and_one_value() -> None:
    one = np.zeros(1, dtype=np.int32)
    assert rows_finding(one, one, shuffled=True).verdict == "within the bound"
    same = np.zeros(100, dtype=np.int32)
    assert rows_finding(same, same, shuffled=True).verdict == "within the bound"
