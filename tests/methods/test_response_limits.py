"""What the solver accepts: points within every limit, wherever they lie, and no others."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product as combinations

import numpy as np
import pytest

from sfumato.methods.response.joint import JointTable
from sfumato.methods.response.problem import pose
from sfumato.methods.response.reach import RiskOutOfReach
from sfumato.methods.response.risks import Link, Reconstruction, RiskName
from sfumato.methods.response.solver import _slid, solve
from sfumato.values.arrays import FloatArray
from sfumato.values.matrix.retention import WORDS
from tests.methods.test_response_risks import tables


def test_with_one_limit_no_link_risk_is_below_that_of_no_retention() -> None:
    """Of the records with the most frequent value of a cell of fixed attributes the mean risk is its share at least."""
    rng = np.random.default_rng(17)
    for table in tables(17, 40):
        fixed = int(rng.integers(len(table.sizes)))
        free = pose(table, 0.5, "link", fixed=[fixed])
        assert free.least_without_retention
        least = free.largest(np.full(len(free.free), -40.0))
        for _ in range(20):
            assert free.largest(-rng.exponential(1, len(free.free))) >= least * (1 - 1e-12)


def test_with_limits_by_group_a_point_with_retention_can_be_the_only_way() -> None:
    """Without retention the link risk is 1.054 of its limit, elsewhere .960: a search is needed."""
    table = JointTable.from_array([[[1, 0], [17, 3], [0, 2]], [[2, 6], [2, 0], [0, 1]]])
    by_cell = np.array([[0.6139, 0.9, 0.9], [0.6139, 0.7011, 0.7011]])
    limits = by_cell[tuple(table.groups.T)][:, None]
    problem = pose(table, limits, "link")
    assert not problem.least_without_retention
    assert problem.largest(np.full(2, -40.0)) == pytest.approx(1.054, abs=5e-4)
    found = solve(pose(table, limits, risk="link"))
    risks = Link(table, found.channels).values.reshape(table.counts.shape)
    assert (risks <= limits).all()
    assert (risks / limits).max() > 1 - 1e-6
    ratios = [problem.largest(-np.array(x)) for x in combinations(np.geomspace(0.01, 40, 30), repeat=2)]
    with pytest.raises(RiskOutOfReach, match="was found to be"):
        solve(pose(table, limits * min(ratios) * 0.9, risk="link"))
    assert solve(pose(table, limits * min(ratios) * 1.0001, risk="link")).risk > 0


def test_parameters_that_break_a_limit_are_no_response() -> None:
    problem = pose(JointTable.from_array([[20, 30, 22], [12, 8, 8]]), 0.4, "posterior")
    assert not problem.kept(np.zeros(1))
    with pytest.raises(ValueError, match="do not keep the limits"):
        problem.response(problem.sampled(np.zeros(1)))


def test_an_attribute_is_left_untouched_only_if_the_others_make_up_for_it() -> None:
    """The first attribute tells the value: however little it loses at first, leaving it as it is breaks the limit."""
    table = JointTable.from_array([[[8, 2], [9, 1]], [[2, 8], [1, 9]]])
    problem = pose(table, 0.7, "posterior")
    nearly, inside = np.array([-1e-9, -1.0]), np.full(2, -40.0)
    assert not problem.kept(np.array([0.0, -40.0]))
    found = _slid(problem, nearly, inside)
    assert problem.kept(found)
    assert found[0] < 0


def test_a_limit_of_one_in_a_group_is_none() -> None:
    """A lone record's posterior of 1 is allowed by its own limit, whatever the others ask for."""
    table = JointTable.from_array([[0, 1], [6, 4], [5, 5]])
    limits = np.where(table.groups == 0, 1, 0.55)
    free = solve(pose(table, limits, risk="reconstruction", scope="quasi-identifiers"))
    risks = Reconstruction(table, free.channels).values.reshape(3, 2)
    assert risks[1:].max() <= 0.55
    assert solve(pose(table, limits * np.array([[1.0], [2], [2]]), risk="reconstruction")).noise == (0, 0)
    assert risks[0].max() > 0.55


# --- limits of released cells -----------------------------------------------------------------------------------------

Cell = tuple[int, ...]


def released_limits(table: JointTable, own: FloatArray, kept: set[int]) -> dict[tuple[Cell, int], float]:
    """The strictest limit of the records that can be published with b and have u, where there are such: one by one."""
    found: dict[tuple[Cell, int], float] = {}
    for b in np.ndindex(*table.sizes[:-1]):
        for a, counts, limits in zip(table.groups.tolist(), table.counts, own, strict=True):
            if all(a[k] == b[k] for k in kept):
                for u in np.flatnonzero(counts).tolist():
                    found[b, u] = min(found.get((b, u), np.inf), limits[u] if limits[u] < 1 else np.inf)
    return found


def exact_posterior(table: JointTable, noise: tuple[int, ...]) -> dict[tuple[Cell, int], Fraction]:
    """h(b, u) in fractions, from the integers that are sampled."""
    counts = {tuple(a): [int(n) for n in row] for a, row in zip(table.groups.tolist(), table.counts, strict=True)}
    found = {}
    for b in np.ndindex(*table.sizes[:-1]):
        weights = {a: _chance(table.sizes, noise, a, b) for a in counts}
        if total := sum(weights[a] * sum(row) for a, row in counts.items()):
            for u in range(table.sizes[-1]):
                found[b, u] = Fraction(sum(weights[a] * row[u] for a, row in counts.items()), total)
    return found


def _chance(sizes: tuple[int, ...], noise: tuple[int, ...], a: Cell, b: Cell) -> int:
    """P[b, a], times a power of 2^64."""
    each = zip(sizes[:-1], noise[: len(a)], a, b, strict=True)
    return math.prod(WORDS - (d - 1) * q if i == j else q for d, q, i, j in each)


def by_groups(seed: int, number: int) -> Iterator[tuple[JointTable, FloatArray, list[int]]]:
    """Random tables, limits that differ by groups and values, and attributes that stay as they are."""
    rng = np.random.default_rng(seed)
    for table in tables(seed, number):
        last = len(table.sizes) - 1
        kept = [k for k in range(last) if rng.random() < 0.5]
        levels = rng.choice([0.3, 0.5, 0.7, 0.9, 1.0], table.sizes)
        named = kept[:1] if rng.random() < 0.5 else range(last)  # limits by a kept attribute, or by any
        only = np.ix_(*(range(d) if k in named or k == last else [0] * d for k, d in enumerate(table.sizes)))
        yield table, levels[only][tuple(table.groups.T)], kept


def test_released_cells_have_the_strictest_limit_of_who_can_be_published_there() -> None:
    shapes = set()
    for table, limits, kept in by_groups(23, 120):
        problem = pose(table, limits, "posterior", fixed=kept)
        shapes.add(len(problem.limits) > 1)
        shape = table.group_cells, table.sizes[-1]
        found = np.broadcast_to(problem.limits, shape).reshape(table.sizes)
        for (b, u), limit in released_limits(table, limits, set(range(len(table.sizes) - 1)) - {*problem.free}).items():
            assert found[(*b, u)] == limit
    assert shapes == {True, False}


def test_limits_that_do_not_vary_with_what_is_kept_stay_one_row() -> None:
    table = JointTable.from_array([[[5, 3], [2, 4]], [[1, 6], [3, 3]]])
    limits = np.array([[0.7, 0.6], [0.8, 0.9]])  # by the second attribute
    for fixed, rows in (((0,), 1), ((1,), 4), ((), 1)):
        assert len(pose(table, np.tile(limits, (2, 1)), "posterior", fixed=fixed).limits) == rows


def test_posterior_with_limits_by_group_is_kept_or_refused_exactly() -> None:
    """Whatever is found keeps the limits in fractions; refused is what cannot be kept without any retention."""
    found = refused = 0
    for table, limits, kept in by_groups(29, 400):
        problem = pose(table, limits, "posterior", fixed=kept)
        if not problem.free:
            continue
        exact = released_limits(table, limits, set(range(len(table.sizes) - 1)) - {*problem.free})
        try:
            noise = solve(pose(table, limits, fixed=kept)).noise
            found += 1
            belief = exact_posterior(table, noise)
            assert all(belief.get(cell, 0) <= Fraction(limit) for cell, limit in exact.items() if limit < 1)
        except RiskOutOfReach:
            refused += 1
            nothing = tuple(WORDS // d if k in problem.free else 0 for k, d in enumerate(table.sizes[:-1]))
            belief = exact_posterior(table, nothing)
            assert any(
                belief[cell] > Fraction(limit) * (1 - Fraction(1, 10**12)) for cell, limit in exact.items() if limit < 1
            )
    assert found >= 40
    assert refused >= 40


def test_a_strict_limit_for_women_does_not_hold_men_whose_sex_stays_as_it_is() -> None:
    """60 of 100 men have the first value, which no noise in the city changes; of women 30 of 100."""
    table = JointTable.from_array([[[60, 20], [0, 20]], [[20, 30], [10, 40]]])
    limits = np.array([[0.9, 0.9]] * 2 + [[0.35, 0.9]] * 2)
    found = solve(pose(table, limits, fixed=[0]))
    belief = exact_posterior(table, found.noise)
    assert max(belief[(1, city), 0] for city in (0, 1)) <= Fraction(35, 100) < belief[(0, 0), 0]
    assert found.worst in ((1, 0, 0), (1, 1, 0))
    with pytest.raises(RiskOutOfReach):
        solve(pose(table, limits))  # else sex is mixed, and so are the limits


# --- limits that are met exactly --------------------------------------------------------------------------------------


@pytest.mark.parametrize("risk", ["reconstruction", "posterior", "link"])
def test_what_the_table_keeps_as_it_is_is_decided_exactly(risk: RiskName) -> None:
    """The limit is the largest share: to the last digit, or next to it by less than floats can tell."""
    tiny = Fraction(1, 10**30)
    for table in tables(31, 40):
        counts = [[int(n) for n in row] for row in table.counts]
        share = max(Fraction(n, sum(row)) for row in counts for n in row)
        if share == 1:
            continue
        for limit, kept in ((share, True), (share + tiny, True), (share - tiny, False)):
            assert float(limit) == float(share)
            by_cell = np.full(table.counts.shape, float(limit))
            for given in (pose(table, limit, risk), pose(table, by_cell, risk, numbers=(Fraction(1, 7), limit))):
                assert given.kept_as_it_is() is kept
                if kept:
                    found = solve(given)
                    assert (found.noise, found.kappa, found.risk) == ((0,) * len(table.sizes), 1, float(limit))


def test_a_float_is_the_number_that_it_is() -> None:
    """0.6 is below 3/5 by half a unit of its last digit, and 0.5 is 1/2."""
    table = JointTable.from_array([[300, 200], [200, 300]])
    assert Fraction(0.6) < Fraction(3, 5)
    assert not pose(table, 0.6, "posterior").kept_as_it_is()
    assert pose(table, Fraction(3, 5), "posterior").kept_as_it_is()
    assert pose(JointTable.from_array([[5, 5], [4, 4]]), 0.5, "posterior").kept_as_it_is()


@pytest.mark.parametrize("risk", ["posterior", "link"])
def test_a_limit_that_only_pure_noise_reaches_is_not_said_to_be_below_the_risk(risk: RiskName) -> None:
    table = JointTable.from_array([[30, 20], [20, 30]])
    with pytest.raises(RiskOutOfReach) as error:
        solve(pose(table, Fraction(1, 2), risk=risk))
    assert error.value.message.startswith(
        f"The risk '{risk}' is no smaller than its limit of 0.5, up to rounding, even without any retention: "
    )
    assert " cell(s) stay at their limits" in error.value.message
    assert len(error.value.cells) == {"posterior": 2, "link": 4}[risk]
    with pytest.raises(RiskOutOfReach, match=r"is 0.5 at the least, above its limit of 0.4999999999: "):
        solve(pose(table, Fraction("0.4999999999"), risk=risk))
    assert solve(pose(table, Fraction("0.5000000001"), risk=risk)).risk > 0.5
