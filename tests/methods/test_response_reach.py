"""What is refused cannot be had, by brute force and by proof; nor by suppression where that is not proposed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product as combinations

import numpy as np
import pytest

from sfumato.methods.response import solver
from sfumato.methods.response.joint import JointTable
from sfumato.methods.response.problem import Problem, Response, Scope, pose
from sfumato.methods.response.reach import RiskOutOfReach, least_ratio, refuted, suppressing
from sfumato.methods.response.risks import RiskName
from sfumato.methods.response.solver import solve
from sfumato.values.arrays import FloatArray
from tests.constants import set_constants
from tests.methods.test_response_risks import tables

GRID = {1: 60, 2: 20, 3: 7}
"""Retentions of each attribute that are looked at, by the number of attributes."""


def by_groups(seed: int, number: int) -> Iterator[Problem]:
    """Random tables and fixed attributes, with limits that differ by up to three attributes; some have none."""
    rng = np.random.default_rng(seed)
    for table in tables(seed, number):
        levels = rng.choice([0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0], table.sizes)
        named = rng.choice(len(table.sizes), int(rng.integers(1, 4)) % len(table.sizes) + 1, replace=False)
        only = np.ix_(*(range(d) if k in named else [0] * d for k, d in enumerate(table.sizes)))
        fixed = [k for k in range(len(table.sizes) - 1) if rng.random() < 0.15]
        given = pose(table, levels[only][tuple(table.groups.T)], "link", fixed=fixed)
        if given.free and np.isfinite(given.limits).any():
            yield given


def brute_force(given: Problem, rng: np.random.Generator) -> float:
    """The least largest ratio of a grid with all corners, and of random points."""
    n = len(given.free)
    axis = [-40.0, *np.log(np.linspace(0.05, 1, GRID[n]))]
    points = [np.array(x) for x in combinations(axis, repeat=n)]
    points += [-rng.exponential(rng.choice([0.3, 1, 3]), n) for _ in range(60)]
    return min(map(given.largest, points))


def relaxed(given: Problem, factor: float) -> Problem:
    """The same with limits that are larger by a factor; from 1 on they are none."""
    limits = np.where(given.limits * factor < 1, given.limits * factor, 1.0)
    fixed = set(range(len(given.table.sizes) - 1)) - {*given.free}
    return pose(given.table, limits, "link", fixed=fixed)


def outcome(given: Problem) -> Response | RiskOutOfReach:
    try:
        return solve(given)
    except RiskOutOfReach as error:
        return error


@pytest.mark.parametrize("number", [100, pytest.param(3000, marks=pytest.mark.slow)])
def test_what_brute_force_keeps_is_not_refused(number: int) -> None:
    """By a millionth. And no point is below the bound that proves some refusals."""
    rng = np.random.default_rng(number)
    tight = proved = 0
    for given in by_groups(number, number):
        found = brute_force(given, rng)
        bound = least_ratio(given)
        assert bound <= found * (1 + 1e-12)
        proved += refuted(given)
        tight += bound > found * (1 - 1e-6)
        if found > 0:
            larger = relaxed(given, found * (1 + 1e-6))
            assert not refuted(larger)
            if not larger.kept_as_it_is():
                assert any(solve(larger).noise)
    assert tight >= number // 10
    assert proved >= number // 3


def test_no_refusal_is_below_its_proof() -> None:
    """What is proved is refused, and some of what is not."""
    refusals = {True: 0, False: 0}
    for given in by_groups(8, 100):
        proved, found = refuted(given), outcome(given)
        if isinstance(found, RiskOutOfReach):
            refusals[proved] += 1
            assert found.excess >= least_ratio(given) * (1 - 1e-12)
            assert len(found.cells)
        else:
            assert not proved
    assert min(refusals.values()) >= 20


def test_with_one_limit_the_bound_is_the_least_ratio() -> None:
    for table in tables(9, 40):
        for fixed in ((), (0,)):
            given = pose(table, 0.4, "link", fixed=fixed)
            nothing = np.full(len(given.free), -40.0)
            assert least_ratio(given) == pytest.approx(given.largest(nothing), rel=1e-9)
            assert not refuted(pose(table, 0.4, "posterior", fixed=fixed))


CLINIC = JointTable.from_array([[12, 28], [48, 12]])
"""Of 100 people 60 have the first value: 48 women."""


def test_a_record_takes_the_room_of_as_many_as_its_limit_says() -> None:
    """12 men at .4 take the room of 30 records, 48 women at .6 that of 80: there are 100. The mean limit is .56."""
    limits = np.array([[0.4, 1], [0.6, 1]])
    given = pose(CLINIC, limits, "link")
    assert least_ratio(given) == pytest.approx(1.1, rel=1e-12)
    assert refuted(given)
    assert not refuted(pose(CLINIC, limits * [[1.1, 1], [1.1, 1]], "link"))
    without = pose(CLINIC, np.array([[0.1, 1], [1, 1]]), "link")
    assert least_ratio(without) == pytest.approx(120 / 52, rel=1e-12)  # women have a risk of 1 at most: 48 records


def no_search(*_: object) -> FloatArray:
    raise AssertionError("a search cannot change the verdict")


def test_in_a_large_domain_nothing_is_searched_for_what_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = np.array([[0.4, 1], [0.6, 1]])
    monkeypatch.setattr(solver, "_lowest", no_search)
    set_constants(monkeypatch, "sfumato.methods", IN_VAIN=0.0)
    with pytest.raises(RiskOutOfReach) as error:
        solve(pose(CLINIC, limits, "link"))
    assert error.value.message == (
        "The risk 'link' was found to be 0.762519 at the least of a few points, above its limit of 0.6, and is 1.1 "
        "times its limit or more in some cell, whatever the parameters: 1 cell(s) stay above their limits, "
        "in 1 group(s)."
    )
    assert error.value.cells.tolist() == [[1, 0]]
    with pytest.raises(AssertionError, match="change the verdict"):
        solve(pose(CLINIC, np.array([[0.55, 1], [0.62, 1]]), "link"))


def test_a_refusal_that_is_not_proved_says_what_was_found() -> None:
    """Women have the value more often, so that only mixing helps the men, and it leaves .6 to them."""
    table = JointTable.from_array([[28, 12], [32, 28]])
    with pytest.raises(RiskOutOfReach, match=r"was found to be 0\.6 at the least, above its limit of 0\.59.*\)\.$"):
        solve(pose(table, np.array([[0.59, 1], [0.9, 1]]), "link"))


def test_a_search_takes_no_larger_domain_than_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all sensitive values are looked at, there are no others to be taken as one."""
    table = JointTable.from_array([[28, 12], [32, 28]])
    given = pose(table, np.array([[0.59, 0.9], [0.9, 0.9]]), "link")
    set_constants(monkeypatch, "sfumato.methods", MOST_CELLS=table.evaluated_cells(dense=True))
    with pytest.raises(RiskOutOfReach, match=r"was found to be 0\.6 at the least"):
        solve(given)


def test_a_search_from_the_diagonal_alone_would_miss_a_corner(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first attribute has to stay as it is: with less of it the least ratio is that of no retention, 1.02."""
    table = JointTable.from_array([[[27, 1, 14], [4, 19, 6]], [[0, 1, 5], [13, 0, 10]], [[6, 0, 2], [5, 3, 5]]])
    by_first = np.array([[1.02, 0.85, 0.34], [0.85, 0.34, 1], [0.85, 1.53, 0.34]])
    given = pose(table, by_first[table.groups[:, 0]], "link")
    assert given.kept(solver.inside(given))
    set_constants(monkeypatch, "sfumato.methods", CORNERS=0)
    with pytest.raises(RiskOutOfReach) as error:
        solver.inside(given)
    assert error.value.excess == pytest.approx(1.0209, abs=5e-5)


# --- suppression ------------------------------------------------------------------------------------------------------


EVEN = JointTable.from_array([[100, 102, 98], [100, 98, 102]])
SKEWED = JointTable.from_array([[400, 102, 98], [400, 98, 102]])
"""Suppressing 600 records with the first value leaves EVEN, whose groups and values have nearly equal shares."""


@pytest.mark.parametrize(
    ("risk", "scope", "least"),
    [
        ("posterior", "both", Fraction(1, 3)),
        ("link", "quasi-identifiers", Fraction(1, 3)),
        ("reconstruction", "quasi-identifiers", Fraction(1, 6)),  # of six cells one has a sixth
        ("reconstruction", "sensitive", Fraction(1, 9)),  # a third is guessed right in a third of all cases
        ("reconstruction", "both", Fraction(1, 18)),  # the same, and the right one of two groups
    ],
)
def test_suppression_is_proposed_down_to_where_it_helps(risk: RiskName, scope: Scope, least: Fraction) -> None:
    enough = float(least) * (1.09 if risk == "reconstruction" else 1.01)
    assert suppressing(pose(SKEWED, enough, risk, scope, ()), enough)
    with pytest.raises(RiskOutOfReach):
        solve(pose(SKEWED, enough, risk=risk, scope=scope))
    assert any(solve(pose(EVEN, enough, risk=risk, scope=scope)).noise)
    for in_vain in (least, float(least), float(least) * 0.9):
        assert not suppressing(pose(SKEWED, in_vain, risk, scope, ()), in_vain)


def some_of(table: JointTable, rng: np.random.Generator) -> JointTable | None:
    """What is left if records are suppressed: at most so many of each cell, or some of its records, or none."""
    most = np.minimum(table.counts, rng.integers(1, table.counts.max() + 1))
    left = np.where(rng.random(most.shape) < 0.7, most, np.floor(table.counts * rng.random(most.shape)))
    there = left.sum(axis=1) > 0
    return JointTable(table.sizes, table.groups[there], left[there]) if there.any() else None


@dataclass(frozen=True)
class Asked:
    """Limits of any table of a domain, by its cells."""

    risk: RiskName
    scope: Scope
    fixed: tuple[int, ...]
    limits: FloatArray

    @classmethod
    def drawn(cls, risk: RiskName, sizes: tuple[int, ...], rng: np.random.Generator) -> Asked:
        scopes: tuple[Scope, ...] = ("sensitive", "quasi-identifiers", "both")
        levels = rng.choice([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], sizes) / (4 if risk == "reconstruction" else 1)
        fixed = tuple(k for k in range(len(sizes) - 1) if rng.random() < 0.3)
        return cls(risk, scopes[rng.integers(3)], fixed, levels if rng.random() < 0.5 else np.full(sizes, levels.max()))

    def of(self, table: JointTable) -> FloatArray:
        own: FloatArray = self.limits[tuple(table.groups.T)]
        return own

    def posed(self, table: JointTable) -> Problem:
        return pose(table, self.of(table), self.risk, self.scope, self.fixed)


@pytest.mark.parametrize("risk", ["reconstruction", "posterior", "link"])
def test_where_suppression_is_not_proposed_it_never_helps(risk: RiskName) -> None:
    """Limits by groups and values, attributes that stay as they are, every scope: no noise keeps what is left."""
    rng = np.random.default_rng(61)
    told, helped = [0, 0], 0
    for table in tables(61, 100, attributes=2):
        asked = Asked.drawn(risk, table.sizes, rng)
        proposed = bool(suppressing(asked.posed(table), asked.of(table)))
        told[proposed] += 1
        for some in filter(None, (some_of(table, rng) for _ in range(4))):
            found = outcome(asked.posed(some))
            if not isinstance(found, RiskOutOfReach) and any(found.noise):
                assert proposed
                helped += 1
    assert min(told) >= 20
    assert helped >= 10
