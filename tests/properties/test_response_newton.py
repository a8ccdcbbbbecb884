"""The lean solver of randomized response: its parts against oracles, its results against SLSQP."""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest

from sfumato.matrix import FloatArray
from sfumato.methods.response import JointTable, ObjectiveName, RiskName, RiskOutOfReach, Scope, solve, solver
from sfumato.methods.response.few import Few, Links
from sfumato.methods.response.newton import optimum
from sfumato.methods.response.objectives import Kappa, kappa_slopes
from sfumato.methods.response.problem import Problem, pose
from sfumato.methods.response.quadratic import Tangent, solved
from tests.properties.test_response import OBJECTIVE_NAMES, RISK_NAMES, tables

WITH_FIXED: tuple[tuple[Scope, tuple[int, ...]], ...] = (("both", ()), ("quasi_identifiers", ()), ("both", (0,)))


def posed(table: JointTable, scope: Scope = "both", fixed: tuple[int, ...] = ()) -> Problem:
    limits = np.random.default_rng(len(table.groups)).uniform(0.3, 0.9, table.counts.shape)
    return pose(table, limits, "reconstruction", scope, fixed, "kappa")


# --- a few cells ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scope", "fixed"), WITH_FIXED)
def test_a_few_cells_are_seen_as_in_the_whole(scope: Scope, fixed: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    for table in tables(41, 40, attributes=4):
        given = posed(table, scope, fixed)
        if not any(k < len(table.sizes) - 1 for k in given.free):
            continue
        x = -rng.exponential(0.5, len(given.free))
        point = given.at(x)
        cells, ratio = Few(given).worst(x, 5)
        assert ratio == pytest.approx(given.ratio(point)[cells], rel=1e-12)
        assert ratio.max() == pytest.approx(given.ratio(point).max(), rel=1e-12)
        cells = cells[ratio > 0]
        view = Few(given).at(cells)(x)
        assert view.bend is not None
        assert view.ratio == pytest.approx(given.ratio(point)[cells], rel=1e-12)
        assert view.slope == pytest.approx(point.gradient(cells)[:, list(given.free)], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("scope", "fixed"), WITH_FIXED)
def test_second_derivatives_are_those_of_finite_differences(scope: Scope, fixed: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    for table in tables(42, 40, attributes=4):
        given = posed(table, scope, fixed)
        if not any(k < len(table.sizes) - 1 for k in given.free):
            continue
        x = -rng.uniform(0.05, 1, len(given.free))
        cells, ratio = Few(given).worst(x, 4)
        look, weights = Few(given).at(cells[ratio > 0]), rng.exponential(1, np.count_nonzero(ratio > 0))
        steps = 1e-5 * np.eye(len(x))
        differences = [weights @ (look(x + e).slope - look(x - e).slope) / 2e-5 for e in steps]
        bend = look(x).bend
        assert bend is not None
        assert bend(weights) == pytest.approx(np.array(differences), rel=1e-5, abs=1e-6)


def test_derivatives_of_kappa() -> None:
    table = JointTable.from_array([[[4, 1, 2], [2, 3, 1]], [[1, 1, 5], [3, 2, 2]]])
    given, x = posed(table), np.array([-0.4, -0.1, -0.7])
    sizes = np.array([2.0, 2.0, 3.0])
    first, second = kappa_slopes(sizes, x)
    assert isinstance(given.objective, Kappa)
    assert first == pytest.approx(given.cost_slope(x), rel=1e-14)
    up, down = kappa_slopes(sizes, x + 1e-5)[0], kappa_slopes(sizes, x - 1e-5)[0]
    assert second == pytest.approx((up - down) / 2e-5, rel=1e-8)


def test_cells_that_cannot_be_released_are_left_out() -> None:
    """The second value of the first attribute never occurs: if the attribute is fixed, it is never released."""
    table = JointTable.from_array([[[4, 1], [2, 3]], [[0, 0], [0, 0]]])
    assert len(Links.of(table, [1]).reached) == 2
    assert len(Links.of(table, [0, 1]).reached) == 4


# --- the quadratic program ------------------------------------------------------------------------------------------


def by_trying_all(tangent: Tangent) -> FloatArray | None:
    """The solution: some rows bind, their multipliers are not negative, and no row is exceeded."""
    n = len(tangent.cost)
    for size in range(n + 1):
        for rows in map(list, combinations(range(len(tangent.rows)), size)):
            a = tangent.rows[rows]
            system = np.block([[tangent.bend, a.T], [a, np.zeros((size, size))]])
            if np.linalg.cond(system) > 1e12:
                continue
            solution = np.linalg.solve(system, np.concatenate([-tangent.cost, tangent.room[rows]]))
            d: FloatArray = solution[:n]
            if (solution[n:] >= -1e-10).all() and (tangent.rows @ d <= tangent.room + 1e-10).all():
                return d
    return None


def test_quadratic_programs_are_solved() -> None:
    """From no active rows, from the right ones and from wrong ones; with rows that occur twice."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        n = int(rng.integers(1, 4))
        root, rows = rng.normal(size=(n, n)), np.abs(rng.normal(size=(int(rng.integers(1, 6)), n)))
        rows = np.concatenate([np.eye(n), rows, rows[:1]])
        room = np.concatenate([rng.exponential(1, n), rng.normal(size=len(rows) - n)])
        tangent = Tangent(root @ root.T + 0.1 * np.eye(n), -rng.exponential(1, n), rows, room)
        right = by_trying_all(tangent)
        assert right is not None
        step = solved(tangent, [])
        assert step is not None
        for start in ([], step.active, [0], [len(rows) - 1]):
            again = solved(tangent, start)
            assert again is not None
            assert again.d == pytest.approx(right, rel=1e-6, abs=1e-6)
            assert (again.multipliers >= 0).all()


def test_rows_that_contradict_each_other_have_no_solution() -> None:
    rows, room = np.array([[1.0], [-1.0]]), np.array([-1.0, -1.0])  # d <= -1 and d >= 1
    step = solved(Tangent(np.eye(1), np.zeros(1), rows, room), [])
    assert step is None or step.multipliers.max() > 1e6


@pytest.mark.parametrize("part", range(4), ids=Tangent._fields)
def test_what_is_not_finite_has_no_solution(part: int) -> None:
    """It ends, too."""
    parts = [np.eye(2), -np.ones(2), np.concatenate([np.eye(2), np.ones((1, 2))]), np.ones(3)]
    parts[part] = np.full_like(parts[part], np.nan)
    assert solved(Tangent(*parts), [0]) is None


# --- the optimum ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", OBJECTIVE_NAMES)
def test_an_optimum_reaches_its_limits_also_where_rows_depend_on_each_other(objective: ObjectiveName) -> None:
    """A value without records leaves cells that become empty; mending them may throw a point far away."""
    counts = np.zeros((2, 2, 2, 5))
    counts[0, 1, 0, 2], counts[0, 1, 1, 0], counts[1, 1, 1, 3] = 16, 7, 11
    counts[1, 1, 0, 2:4] = 7, 11
    table = JointTable.from_array(counts)
    for limit in np.linspace(0.78, 0.998, 110).tolist():
        found = solve(table, limit, objective=objective)
        assert found.risk > limit * (1 - 1e-5)
        assert found.objective < 100


def by_slsqp(given: Problem) -> float:
    inside = solver._inside(given)
    start = solver._first_within(given, np.zeros(len(given.free)), inside)
    return given.response(solver._best(given, inside, start)).objective


@pytest.mark.parametrize("objective", OBJECTIVE_NAMES)
@pytest.mark.parametrize("risk", RISK_NAMES)
def test_never_above_slsqp(risk: RiskName, objective: ObjectiveName) -> None:
    """Wherever the lean solver answers, which it mostly does; with all scopes, one limit or many."""
    rng = np.random.default_rng(4)
    asked = answered = 0
    for table in tables(43, 40, attributes=4):
        limit = rng.uniform(0.3, 0.9) * (1 if rng.random() < 0.7 else rng.uniform(0.7, 1.3, table.counts.shape))
        scope, fixed = WITH_FIXED[int(rng.integers(3))]
        given = pose(table, limit, risk, scope, fixed, objective)
        untouched = given.largest(np.zeros(len(given.free)))
        try:
            least = by_slsqp(given)
        except RiskOutOfReach:
            continue
        if untouched <= 1:
            continue
        asked += 1
        found = optimum(given, untouched)
        if found is not None:
            answered += 1
            assert given.within(found)
            assert given.objective.value(found.channels) <= least * (1 + 1e-9)
    assert asked > 10
    assert answered > 0.8 * asked


def test_without_an_answer_slsqp_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    table = JointTable.from_array([[[40, 2, 5], [3, 38, 9], [9, 4, 44]], [[10, 12, 9], [14, 9, 10], [8, 11, 13]]])
    for risk in RISK_NAMES:
        lean = solve(table, 0.6, risk=risk)
        with monkeypatch.context() as patch:
            patch.setattr(solver, "optimum", lambda given, untouched: None)
            slow = solve(table, 0.6, risk=risk)
        assert lean.objective == pytest.approx(slow.objective, rel=1e-9)
        assert lean.diagonal == pytest.approx(slow.diagonal, rel=1e-4)


def test_out_of_reach_is_seen_before_any_step() -> None:
    table = JointTable.from_array([[[8, 2], [3, 1]], [[1, 4], [2, 3]]])
    given = pose(table, 0.5, "posterior", "both", (), "kappa")
    assert optimum(given, given.largest(np.zeros(2))) is None


def test_where_nothing_may_be_randomized_there_is_no_answer() -> None:
    table = JointTable.from_array([[8, 2], [3, 1]])
    given = pose(table, np.array([[0.5, 0.6]]), "link", "both", (0,), "kappa")
    assert given.free == ()
    assert optimum(given, given.largest(np.zeros(0))) is None


def test_an_answer_needs_no_scipy() -> None:
    """Importing SLSQP takes a second."""
    program = (
        "import sys; from sfumato.methods.response import JointTable, solve; "
        "table = JointTable.from_array([[[40, 2, 5], [3, 38, 9]], [[10, 12, 9], [14, 9, 10]]]); "
        "solve(table, 0.6, risk='reconstruction'); assert 'scipy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
