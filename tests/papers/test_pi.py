"""PI: Examples 1-2, Theorems 1-2, Table V, where Theorem 1 fails, and groups of Adult under every prior asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import pytest

from sfumato.methods.robustness.check import (
    breaches,
    delta_ceiling,
    meets_published_delta,
    meets_repaired_delta,
    prior_free_bound,
    published_supremum,
    repaired_delta_ceiling,
    swap_bound,
    worst_posteriors,
)
from sfumato.methods.robustness.grouping import group_records, leftovers
from sfumato.methods.robustness.merging import merge_records
from sfumato.methods.robustness.posterior import compositions, posterior
from sfumato.methods.robustness.prior import Prior, count_prior
from sfumato.values.arrays import IntArray
from sfumato.values.steps import WITHHELD
from sfumato_papers.two_tables import DealtTable

TABLE_V = [
    (3, 2, "0.1", 0.0474),
    (3, 2, "0.3", 0.1235),
    (3, 2, "0.5", 0.1667),
    (3, 2, "0.9", 0.0818),
    (4, 2, "0.3", 0.1750),
    (6, 2, "0.3", 0.2211),
    (6, 3, "0.3", 0.1537),
    (6, 4, "0.3", 0.0955),
]
SHAPES = [(N, r) for N in range(2, 9) for r in range(2, N + 1)]


def tenths(*numbers: str) -> list[Fraction]:
    return [Fraction(number) for number in numbers]


# --- Examples 1 and 2 ---------------------------------------------------------------------------------------------


def test_example_1_a_2_diverse_group_tells_alan_s_disease() -> None:
    """Table IV: Lung Cancer .1 for males, .003 for females; all else is "not Lung Cancer"."""
    table_iv = [tenths("0.1", "0.9"), tenths("0.003", "0.997")]
    alan, betty = posterior(table_iv, [1, 1], [1, 1])
    assert alan[0] == Fraction(997, 1024)  # .1 .997 / (.1 .997 + .9 .003) = .9736, above 50%
    assert betty[0] == 1 - alan[0]
    assert swap_bound(table_iv, [1, 1], [1, 1])[0, 0] == alan[0]
    assert not meets_published_delta(table_iv, [1, 1], 2)
    assert not meets_repaired_delta(table_iv, [1, 1], 2)


def test_example_1_two_females_stay_at_one_half() -> None:
    """L2: Catherine and Diana, Flu and HIV. Whatever is known of females, they are alike."""
    for flu, hiv in (("0.5", "0.001"), ("0.2", "0.2")):
        assert (posterior([tenths(flu, hiv)], [2], [1, 1]) == Fraction(1, 2)).all()
    assert (prior_free_bound([2], [1, 1]) == 0.5).all()


def test_definition_7() -> None:
    f = np.array(tenths("0.1", "0.003"))
    assert (f.max() - f).tolist() == tenths("0", "0.097")


def test_example_2() -> None:
    """f = .1, .08, .09 with r = 2: Delta_max = .02 <= .0474, and x is held to 1/2 where all else is one outcome."""
    f = tenths("0.1", "0.08", "0.09")
    assert round(delta_ceiling(3, 2, 0.1), 4) == 0.0474
    assert max(f) - min(f) == Fraction(2, 100) <= delta_ceiling(3, 2, max(f))
    two_outcomes = [[p, 1 - p] for p in f]
    assert max(posterior(two_outcomes, [1, 1, 1], [1, 2])[:, 0]) <= Fraction(1, 2)


# --- Table V, Theorem 2, the limits of f_max and N ----------------------------------------------------------------


@pytest.mark.parametrize(("size", "r", "largest", "ceiling"), TABLE_V)
def test_table_v(size: int, r: int, largest: str, ceiling: float) -> None:
    assert round(delta_ceiling(size, r, float(largest)), 4) == ceiling
    f = Fraction(largest)
    assert delta_ceiling(size, r, f) == (size - r) * f / (f * (r - 1) / (1 - f) + (size - 1))  # as printed


@pytest.mark.parametrize(("size", "r", "largest", "ceiling"), TABLE_V)
def test_theorem_1_is_tight_if_all_else_is_one_outcome(size: int, r: int, largest: str, ceiling: float) -> None:
    f = Fraction(largest)
    g = f - delta_ceiling(size, r, f)
    assert posterior([[f, 1 - f], [g, 1 - g]], [1, size - 1], [1, size - 1])[0, 0] == Fraction(1, r)


def test_theorem_2_the_ceiling_grows_with_the_group() -> None:
    """The paper's derivative as a difference: the same numerator, D(N) D(N+1) for the squared denominator."""
    for f in tenths("0.01", "0.3", "0.5", "0.99"):
        for size, r in SHAPES:
            gain = delta_ceiling(size + 1, r, f) - delta_ceiling(size, r, f)
            D = [(r - 1) * f / (1 - f) + N - 1 for N in (size, size + 1)]
            assert gain == ((r - 1) * f**2 / (1 - f) + (r - 1) * f) / (D[0] * D[1]) > 0


def test_limits_of_the_ceiling() -> None:
    """ "If f_max = 1 or f_max = 0, then Delta_max = 0"; "when N = r, Delta_max <= 0"; f_max itself as N grows."""
    assert [delta_ceiling(5, 2, Fraction(f)) for f in (0, 1)] == [0, 0]
    assert delta_ceiling(4, 4, Fraction(3, 10)) == 0
    assert Fraction(3, 10) - delta_ceiling(10**9, 2, Fraction(3, 10)) < Fraction(1, 10**8)


def test_the_condition_asks_for_r_tuples_and_no_value_twice() -> None:
    alike = [tenths("0.3", "0.2", "0.1")] * 3
    assert meets_published_delta(alike, [1, 1, 1], 3)
    assert not meets_published_delta(alike, [1, 1, 1], 4)
    assert not meets_published_delta(alike, [2, 1, 1], 2)


# --- where Theorem 1 fails ----------------------------------------------------------------------------------------


def worst_case(size: int, r: int, f: Fraction) -> list[list[Fraction]]:
    """One tuple (f, g, ..., g), the others (g, f, ..., f): meets (4) with equality for every value."""
    g = f - delta_ceiling(size, r, f)
    return [[f, *[g] * (size - 1)], [g, *[f] * (size - 1)]]


def test_the_counter_example() -> None:
    """N = 3, r = 2: p(t1:x) = 361/561 = .6435 > 1/2 under the paper's own Eqs. (1)-(3)."""
    rows = worst_case(3, 2, Fraction(1, 10))
    assert rows[0][1] == Fraction(1, 19)
    tuples = [rows[0], rows[1], rows[1]]
    assert meets_published_delta(tuples, [1, 1, 1], 2)
    assert posterior(tuples, [1, 1, 1], [1, 1, 1])[0, 0] == Fraction(361, 561)
    assert posterior(rows, [1, 2], [1, 1, 1])[0, 0] == Fraction(361, 561)
    assert swap_bound(rows, [1, 2], [1, 1, 1])[0, 0] == Fraction(361, 561)  # tight
    assert not meets_repaired_delta(tuples, [1, 1, 1], 2)


@pytest.mark.parametrize(("size", "r"), [(N, r) for N, r in SHAPES if r < N])
def test_the_supremum_under_the_published_condition(size: int, r: int) -> None:
    """(N-1)/((N-1) + (r-1)^2), above 1/r for every N > r; never reached, and come to as f goes to 0."""
    supremum = published_supremum(size, r)
    found = [posterior(worst_case(size, r, Fraction(1, 10**j)), [1, size - 1], [1] * size)[0, 0] for j in (2, 4, 6)]
    assert Fraction(1, r) < found[0] < found[1] < found[2] < supremum
    assert supremum - found[2] < Fraction(1, 10**5)


def test_the_supremum_grows_to_one() -> None:
    assert [published_supremum(N, 2) for N in (3, 10, 1000)] == [Fraction(2, 3), Fraction(9, 10), Fraction(999, 1000)]
    assert published_supremum(4, 4) == Fraction(1, 4)  # N = r: the rows must be equal


def test_no_group_that_meets_the_published_condition_exceeds_the_supremum() -> None:
    rng = np.random.default_rng(1)
    met = 0
    for _ in range(500):
        size, r = (int(n) for n in rng.choice([(3, 2), (5, 2), (6, 3), (7, 2)]))
        rows = 0.1 / size * rng.uniform((r - 1) / (size - 1), 1, (size, size))
        if meets_published_delta(rows, [1] * size, r):
            met += 1
            assert posterior(rows, [1] * size, [1] * size).max() < published_supremum(size, r)
    assert met > 25


def test_merging_two_groups_can_breach() -> None:
    """Each half has posterior 1/2, the union 2500/3367 = .7425: r-robustness is not monotone under merging."""
    hi, lo = tenths("0.1", "0.001")
    t1, t2, t3 = [hi, hi, lo, lo], [hi] * 4, [lo, hi, hi, hi]
    first = [row[:2] for row in (t1, t2)]
    second = [row[2:] for row in (t3, t3)]
    for half in (first, second):
        assert (posterior(half, [1, 1], [1, 1]) == Fraction(1, 2)).all()
    union = posterior([t1, t2, t3], [1, 1, 2], [1, 1, 1, 1])
    assert union.max() == union[0, 0] == Fraction(2500, 3367)


@pytest.mark.parametrize(("size", "r"), SHAPES)
def test_the_repaired_ceiling_is_tight_for_the_swap_bound(size: int, r: int) -> None:
    """At g = f sqrt((r-1)/(N-1)) the worst case has p = 1/r; a little below it, more."""
    f = 0.01
    for factor, beyond in ((1 + 1e-6, False), (1 - 1e-6, True)):
        g = (f - repaired_delta_ceiling(size, r, f)) * factor
        rows = np.array([[f, *[g] * (size - 1)], [g, *[f] * (size - 1)]])
        tuples = rows[[0] + [1] * (size - 1)]
        if g <= f:
            assert meets_repaired_delta(tuples, [1] * size, r) != beyond
            assert (posterior(rows, [1, size - 1], [1] * size)[0, 0] > 1 / r) == beyond


def test_merging_as_published_publishes_a_breach() -> None:
    """t1 = (9, 5, 5)/90, t2 = t3 = (5, 9, 9)/90: the paper's algorithm merges them for r = 2; p(t1:x) = 81/131."""
    cells = np.array([0, 1, 1])
    values = np.array([0, 1, 2])
    prior = Prior(np.array([[9, 5, 5], [5, 9, 9]]), np.array([90, 90]))
    groups = merge_records(cells, values, [cells], np.arange(3), 2, [prior])
    assert groups.tolist() == [0, 0, 0]
    found = compositions(groups, cells, values)
    assert worst_posteriors(found, prior) == pytest.approx([81 / 131], rel=1e-14)
    assert breaches(found, prior, 2).tolist() == [True]
    proved = group_records(cells, values, [cells], np.arange(3), 2, [prior])
    assert proved.tolist() == [WITHHELD, 0, 0]


# --- Adult --------------------------------------------------------------------------------------------------------

COLUMNS = ("occupation", "sex", "race", "education")
ATTRIBUTE_SETS = {
    "sex": [["sex"]],
    "sex, race": [["sex", "race"]],
    "education": [["education"]],
    "all three": [["sex"], ["sex", "race"], ["education"]],
}


class Adult:
    """Codes of the 45,222 records: occupation, joint cells, and a signature and a prior for each attribute set."""

    def __init__(self, path: Path, sets: Sequence[Sequence[str]]) -> None:
        table = pq.read_table(path, columns=list(COLUMNS))
        columns = {name: table[name].combine_chunks().indices.to_numpy().astype(np.int64) for name in COLUMNS}
        self.values = columns["occupation"]
        self.signatures = [self._codes(columns, names) for names in sets]
        self.cells = self._codes(columns, sorted({name for names in sets for name in names}))
        self.priors = [count_prior(codes, self.values) for codes in self.signatures]
        self.order = np.random.default_rng(45222).permutation(self.values.size)

    @staticmethod
    def _codes(columns: dict[str, IntArray], names: Sequence[str]) -> IntArray:
        return np.unique(np.array([columns[n] for n in names]), axis=1, return_inverse=True)[1].ravel()

    def plain(self, r: int) -> IntArray:
        """Groups of plain Anatomy with l = r, which looks at no other column."""
        one_cell = np.zeros_like(self.cells)
        return group_records(one_cell, self.values, [one_cell], self.order, r)

    def breached(self, groups: IntArray, r: int) -> npt.NDArray[np.bool_]:
        """Whether a group exceeds 1/r under some attribute set's prior, exactly."""
        found = [
            breaches(compositions(groups, codes, self.values), prior, r)
            for codes, prior in zip(self.signatures, self.priors, strict=True)
        ]
        return np.asarray(np.any(found, axis=0))


LEFTOVER = {
    "sex": {2: 0, 3: 0, 5: 989},
    "sex, race": {2: 0, 3: 0, 5: 1180},
    "education": {2: 827, 3: 2055, 5: 5247},
    "all three": {2: 1071, 3: 2504, 5: 9826},
}
PLAIN_BREACH = {
    "sex": {2: 0.45, 3: 0.67, 5: 0.87},
    "sex, race": {2: 0.58, 3: 0.78, 5: 0.93},
    "education": {2: 0.81, 3: 0.95, 5: 1.00},
    "all three": {2: 0.92, 3: 0.99, 5: 1.00},
}
"""Share of the records, give or take 0.01 for the deal, whose group of plain Anatomy with l = r exceeds 1/r."""


@pytest.mark.parametrize("r", [2, 3, 5])
@pytest.mark.parametrize("sets", ATTRIBUTE_SETS)
def test_adult_proved(real_data: Callable[[str], Path], sets: str, r: int) -> None:
    """Every published group is within 1/r for every attribute set; no more is withheld than the formula says."""
    adult, leftover = Adult(real_data("adult_complete_45222.parquet"), ATTRIBUTE_SETS[sets]), LEFTOVER[sets][r]
    assert leftovers(adult.cells, adult.values, r) == leftover
    found = group_records(adult.cells, adult.values, adult.signatures, adult.order, r, adult.priors)
    assert not adult.breached(found, r).any()
    assert np.count_nonzero(found == WITHHELD) <= leftover


@pytest.mark.parametrize("r", [2, 3, 5])
@pytest.mark.parametrize("sets", ATTRIBUTE_SETS)
def test_adult_plain_anatomy_breaches(real_data: Callable[[str], Path], sets: str, r: int) -> None:
    """Groups dealt without regard to the attribute sets are r-diverse, and most of them breach 1/r."""
    adult = Adult(real_data("adult_complete_45222.parquet"), ATTRIBUTE_SETS[sets])
    groups = adult.plain(r)
    assert (groups != WITHHELD).all()
    assert adult.breached(groups, r)[groups].mean() == pytest.approx(PLAIN_BREACH[sets][r], abs=0.01)


def errors(adult: Adult, groups: IntArray, strata: IntArray, conditions: IntArray) -> tuple[float, float]:
    """Root mean square error of the counts of each value with each condition: least squares, classical."""
    published = groups != WITHHELD
    groups, values, conditions = groups[published], adult.values[published], conditions[:, published]
    stratum = np.zeros(groups.max() + 1, dtype=np.int64)
    stratum[groups] = strata[published]
    pairs, counts = np.unique(groups * 14 + values, return_counts=True)
    dealt = DealtTable.of(pairs // 14, pairs % 14, counts, 14, stratum)
    off = []
    for z in conditions.astype(np.float64):
        fit, true = dealt.fit(groups, z), np.bincount(values, z, 14)
        off.append([fit.estimate().value[0] - true, fit.classical(np.eye(14))[0] - true])
    least_squares, classical = np.sqrt(np.mean(np.square(off), axis=(0, 2)))
    return float(least_squares), float(classical)


def test_adult_query_error_beside_plain_anatomy(real_data: Callable[[str], Path]) -> None:
    """sex and race, r = 3, nothing withheld: counts of an occupation with a condition are as good as plain Anatomy's.

    Both are far better than the classical estimate, which takes value and condition to be independent in a group.
    """
    path = real_data("adult_complete_45222.parquet")
    table = pq.read_table(path, columns=["income", "hours_per_week", "age"])
    rich = np.array(table["income"].to_pylist()) == ">50K"
    conditions = np.array([rich, table["hours_per_week"].to_numpy() >= 45, table["age"].to_numpy() >= 50])
    adult = Adult(path, ATTRIBUTE_SETS["sex, race"])
    robust = group_records(adult.cells, adult.values, adult.signatures, adult.order, 3)
    ours, classical = errors(adult, robust, adult.cells, conditions)
    plain, plain_classical = errors(adult, adult.plain(3), np.zeros_like(adult.cells), conditions)
    assert (robust != WITHHELD).all()
    assert ours < 1.5 * plain
    assert max(ours, plain) < min(classical, plain_classical) / 4


def test_adult_as_published_breaches(real_data: Callable[[str], Path]) -> None:
    """Bottom-up merging by PI Eq. (4), education, r = 3: some groups exceed 1/3."""
    adult = Adult(real_data("adult_complete_45222.parquet"), ATTRIBUTE_SETS["education"])
    groups = merge_records(adult.cells, adult.values, adult.signatures, adult.order, 3, adult.priors)
    assert np.count_nonzero(adult.breached(groups, 3)) == 15
    worst = worst_posteriors(compositions(groups, adult.signatures[0], adult.values), adult.priors[0])
    assert worst.max() == pytest.approx(0.3604, abs=1e-4)
