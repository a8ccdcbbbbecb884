"""The lean solver of randomized response: its parts against oracles, its results against SLSQP."""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest

from sfumato.methods.response import JointTable, ObjectiveName, RiskName, RiskOutOfReach, Scope, newton, solve, solver
from sfumato.methods.response.few import Few, GuessesView, Links, LinksView
from sfumato.methods.response.inside import inside
from sfumato.methods.response.newton import optimum
from sfumato.methods.response.objectives import Kappa, kappa_slopes
from sfumato.methods.response.problem import Problem, pose
from sfumato.methods.response.quadratic import LARGE, Metric, Program, Step
from sfumato.values.matrix.retention import FloatArray
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
        cells = np.flatnonzero(given.ratio(point))[:5]
        view = Few(given).at(cells)(x)
        assert isinstance(view, GuessesView if len(table.sizes) - 1 in given.free else LinksView)
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
        bend = look(x).bend(dict(enumerate(weights.tolist())))
        assert bend == pytest.approx(np.array(differences), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("scope", ["both", "quasi_identifiers"])
def test_where_no_cell_binds_there_is_nothing_to_bend(scope: Scope) -> None:
    """Only bounds of the retentions bind then."""
    given = posed(JointTable.from_array([[[4, 1, 2], [2, 3, 1]], [[1, 1, 5], [3, 2, 2]]]), scope)
    n = len(given.free)
    assert (Few(given).at(np.array([0, 4]))(np.full(n, -0.3)).bend({}) == np.zeros((n, n))).all()


@pytest.mark.parametrize(("scope", "fixed"), WITH_FIXED)
def test_the_worst_cells_are_seen_or_guessed_by_what_stays(scope: Scope, fixed: tuple[int, ...]) -> None:
    """A guess takes b = a alone into account, in the cell of each group that is nearest to its limit."""
    rng = np.random.default_rng(5)
    for table in tables(44, 40, attributes=4):
        given = posed(table, scope, fixed)
        x = -rng.exponential(0.5, len(given.free))
        point, few = given.at(x), Few(given)
        exact = given.ratio(point)
        cells, ratio = few.worst(x, 5)
        assert len(set(cells.tolist())) == len(cells) <= 5
        if not few.prepared or len(table.sizes) - 1 in given.free:
            assert ratio == pytest.approx(np.sort(exact)[-len(ratio) :][np.argsort(np.argsort(ratio))], rel=1e-12)
            continue
        stays = np.prod([c.diagonal for c in point.channels[:-1]]) ** 2 / point.released.ravel()[table.places]
        guessed = (stays[:, None] * table.counts / given.limits).max(axis=1)
        assert np.sort(ratio) == pytest.approx(np.sort(guessed)[-len(ratio) :], rel=1e-12)
        assert (ratio <= exact[cells] * (1 + 1e-12)).all()


def test_derivatives_of_kappa() -> None:
    table = JointTable.from_array([[[4, 1, 2], [2, 3, 1]], [[1, 1, 5], [3, 2, 2]]])
    given, x = posed(table), np.array([-0.4, -0.1, -0.7])
    sizes = [2, 2, 3]
    first, second = kappa_slopes(sizes, x)
    assert isinstance(given.objective, Kappa)
    assert first == pytest.approx(given.cost_slope(x), rel=1e-14)
    up, down = kappa_slopes(sizes, x + 1e-5)[0], kappa_slopes(sizes, x - 1e-5)[0]
    assert second == pytest.approx((up - down) / 2e-5, rel=1e-8)


def test_cells_that_cannot_be_released_are_left_out() -> None:
    """The second value of the first attribute never occurs: if the attribute is fixed, it is never released."""
    table = JointTable.from_array([[[4, 1], [2, 3]], [[0, 0], [0, 0]]])
    assert Links.of(table, [1]).parts.shape[1] == 2
    assert Links.of(table, [0, 1]).parts.shape[1] == 4


# --- the quadratic program ------------------------------------------------------------------------------------------


def random_program(rng: np.random.Generator, scale: float = 1.0) -> tuple[FloatArray, ...]:
    """B, c, A and b with a solution, since every row falls in every variable.

    A row occurs twice, one is a mean, and one is nearly another.
    """
    n = int(rng.integers(1, 4))
    root, rows = rng.normal(size=(n, n)), np.abs(rng.normal(size=(int(rng.integers(1, 6)), n)))
    nearly = rows[-1:] * (1 + 10.0 ** rng.uniform(-6, -1) * rng.random((1, n)))
    rows = np.concatenate([np.eye(n), rows, rows[:1], (rows[:1] + rows[-1:]) / 2, nearly])
    room = np.concatenate([rng.exponential(1, n), rng.normal(size=len(rows) - n)])
    return (root @ root.T + 0.1 * np.eye(n)) / scale, -rng.exponential(1, n), rows, room


def solved(bend: FloatArray, cost: FloatArray, rows: FloatArray, room: FloatArray, near: list[int]) -> Step | None:
    metric = Metric.of(bend)
    return Program(metric, cost, rows).solved(room, near) if metric else None


def by_trying_all(bend: FloatArray, cost: FloatArray, rows: FloatArray, room: FloatArray) -> FloatArray | None:
    """The solution: some rows bind, their multipliers are not negative, and no row is exceeded."""
    n = len(cost)
    for size in range(n + 1):
        for chosen in map(list, combinations(range(len(rows)), size)):
            a = rows[chosen]
            system = np.block([[bend, a.T], [a, np.zeros((size, size))]])
            if np.linalg.cond(system) > 1e12:
                continue
            solution = np.linalg.solve(system, np.concatenate([-cost, room[chosen]]))
            d: FloatArray = solution[:n]
            if (solution[n:] >= -1e-10).all() and (rows @ d <= room + 1e-10).all():
                return d
    return None


@pytest.mark.parametrize("scale", [1.0, 1e6], ids=["", "large numbers"])
def test_quadratic_programs_are_solved(scale: float) -> None:
    """From no rows, from the right ones and from wrong ones; with rows that depend on each other."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        bend, cost, rows, room = random_program(rng, scale)
        right = by_trying_all(bend, cost, rows, room)
        assert right is not None
        step = solved(bend, cost, rows, room, [])
        assert step is not None
        for near in ([], list(step.binding), [0], [len(rows) - 1], list(range(len(rows)))):
            again = solved(bend, cost, rows, room, near)
            assert again is not None
            assert again.d == pytest.approx(right, rel=1e-9, abs=1e-9)


def test_solutions_of_many_programs_meet_the_conditions_of_an_optimum() -> None:
    """Karush, Kuhn and Tucker: a convex program has no other solution."""
    rng = np.random.default_rng(6)
    for _ in range(2_000):
        bend, cost, rows, room = random_program(rng)
        near = rng.choice(len(rows), int(rng.integers(0, len(cost) + 1)), replace=False).tolist()
        step = solved(bend, cost, rows, room, near)
        assert step is not None
        mu = np.zeros(len(rows))
        mu[list(step.binding)] = list(step.binding.values())
        excess = rows @ step.d - room
        large = 1 + mu.max()
        assert bend @ step.d + cost + mu @ rows == pytest.approx(np.zeros(len(cost)), abs=1e-11 * large)
        assert excess.max() <= 1e-11 * large
        assert mu.min() >= -1e-11 * large
        assert mu * excess == pytest.approx(np.zeros(len(rows)), abs=1e-11 * large**2)


def test_large_numbers_are_not_lost_in_rounding() -> None:
    """d = -B^-1 (c + A'mu) alone would leave 1e-5: without multipliers the row is exceeded by 1e10."""
    bend, cost = np.diag([1e-10, 1.0]), np.array([-1.0, -1.0])
    rows, room = np.array([[1.0, 0.0], [0.0, 1.0], [3.0, 7.0]]), np.array([5.0, 5.0, -1e-3])
    step = solved(bend, cost, rows, room, [])
    assert step is not None
    assert (-(rows @ (cost / bend.diagonal())) - room).max() > LARGE
    assert rows[2] @ step.d == pytest.approx(-1e-3, abs=1e-13)


def test_what_is_not_convex_is_made_so() -> None:
    metric = Metric.of(np.diag([2.0, -3.0]))
    assert metric is not None
    assert not metric.exact
    assert np.linalg.eigvalsh(metric.bend).min() > 0


def test_of_rows_that_contradict_each_other_one_is_left_out() -> None:
    rows, room = np.array([[1.0], [-1.0]]), np.array([-1.0, -2.0])  # d <= -1 and d >= 2
    step = solved(np.eye(1), np.zeros(1), rows, room, [])
    assert step is not None
    assert step.d == pytest.approx([2.0])  # the one that is exceeded most at first
    assert step.binding == pytest.approx({1: 2.0})


def test_more_rows_than_variables_never_bind() -> None:
    """Three rows in two variables that contradict each other: two of them bind, with multipliers of a usual size."""
    rng = np.random.default_rng(8)
    for _ in range(500):
        angles = np.array([0.0, 2.1, 4.2]) + rng.uniform(-0.9, 0.9, 3)
        rows = np.column_stack([np.cos(angles), np.sin(angles)])
        step = solved(np.eye(2), -rng.random(2), rows, -rng.uniform(0.5, 2, 3), [0, 1, 2])
        assert step is not None
        assert len(step.binding) <= 2
        assert min(step.binding.values()) >= 0


def test_rows_from_the_start_that_are_nearly_the_same_spoil_nothing() -> None:
    rows = np.array([[1.0, -0.2], [1.0000047, -0.2000546], [-1.07, 1.28]])
    room = np.array([-0.4611, -0.2409, 3.5123])
    step = solved(np.eye(2), -np.ones(2), rows, room, [0, 1, 2])
    right = by_trying_all(np.eye(2), -np.ones(2), rows, room)
    assert step is not None
    assert step.d == pytest.approx(right, rel=1e-12)


def test_a_row_that_nothing_changes_is_left_out() -> None:
    rows = np.array([[1.0, 0.0], [0.0, 0.0]])
    for room in (-1.0, 1.0):
        step = solved(np.eye(2), -np.ones(2), rows, np.array([0.5, room]), [1])
        assert step is not None
        assert step.d == pytest.approx([0.5, 1.0])


def test_a_metric_that_cannot_be_inverted_has_no_solution() -> None:
    """So large in part that the rest is lost in rounding; both ways to a solution give up, and none raises."""
    program = Program(Metric(np.zeros((2, 2)), exact=True), -np.ones(2), np.eye(2))
    assert program.solved(np.ones(2), []) is None


@pytest.mark.parametrize("part", range(4), ids=["bend", "cost", "rows", "room"])
def test_what_is_not_finite_has_no_solution(part: int) -> None:
    """It ends, too."""
    parts = [np.eye(2), -np.ones(2), np.concatenate([np.eye(2), np.ones((1, 2))]), np.ones(3)]
    parts[part] = np.full_like(parts[part], np.nan)
    bend, cost, rows, room = parts
    assert solved(bend, cost, rows, room, [0]) is None


# --- the optimum ----------------------------------------------------------------------------------------------------


def test_records_are_spread_over_as_many_values_as_could_have_equal_shares() -> None:
    table = JointTable.from_array(np.arange(24).reshape(2, 3, 4))
    counts = np.arange(24).reshape(2, 3, 4)
    for axis in range(3):
        share = counts.sum(axis=tuple({0, 1, 2} - {axis})) / counts.sum()
        assert table.spread[axis] == pytest.approx(1 / (share**2).sum() - 1, rel=1e-14)
    alike = JointTable.from_array(np.full((4, 5, 2), 7))
    assert alike.spread == pytest.approx([3, 4, 1])
    assert JointTable.from_array([[3, 4], [0, 0]]).spread[0] == 0  # all have the first value


@pytest.mark.parametrize("risk", RISK_NAMES)
def test_the_search_starts_near_the_limits(risk: RiskName) -> None:
    """Untouched, the largest ratios are up to 3; where it starts they are mostly next to 1."""
    rng, ratios = np.random.default_rng(10), []
    for table in tables(46, 60, attributes=4):
        given = pose(table, rng.uniform(0.4, 0.9), risk, "both", (), "kappa")
        untouched = given.largest(np.zeros(len(given.free)))
        if untouched > 1.2 and given.largest(np.full(len(given.free), -40.0)) < 1:
            shape = table.spread[list(given.free)]
            ratios.append(given.largest(newton._start(Few(given), untouched, shape)))
    assert len(ratios) > 10
    assert np.quantile(np.abs(np.log(ratios)), 0.75) < 0.2


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
    within = inside(given)
    start = solver._first_within(given, np.zeros(len(given.free)), within)
    return given.response(solver._best(given, within, start)).objective


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


HARD: tuple[tuple[RiskName, ObjectiveName, float, object], ...] = (
    ("link", "kappa", 0.608049, [[[13, 9], [7, 17]], [[19, 5], [1, 17]], [[6, 18], [5, 12]]]),
    ("link", "chi_square", 0.378065, [[[4, 19, 9], [12, 14, 9]], [[18, 11, 10], [19, 6, 10]]]),
    ("posterior", "chi_square", 0.467641, [[[3, 17, 8], [18, 4, 0]], [[14, 13, 1], [0, 16, 13]]]),
    (
        "posterior",
        "kappa",
        0.389149,
        [
            [[18, 7, 8], [18, 19, 8], [17, 19, 19]],
            [[19, 11, 8], [12, 9, 6], [17, 0, 17]],
            [[10, 1, 18], [10, 13, 1], [2, 16, 19]],
        ],
    ),
)
"""Limits next to the least that can be reached: tangents contradict each other, and multipliers grow."""


@pytest.mark.parametrize(("risk", "objective", "limit", "counts"), HARD)
def test_no_needless_noise_next_to_the_least_limit(
    risk: RiskName, objective: ObjectiveName, limit: float, counts: object
) -> None:
    table = JointTable.from_array(np.array(counts))
    given = pose(table, limit, risk, "both", (), objective)
    assert solve(table, limit, risk=risk, objective=objective).objective <= by_slsqp(given) * (1 + 1e-9)


@pytest.mark.parametrize("risk", RISK_NAMES)
def test_tolerances_cost_next_to_nothing(risk: RiskName, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that end later, and less that may be lost, lead to the same objective."""
    rng = np.random.default_rng(9)
    compared = 0
    for table in tables(45, 40, attributes=4):
        given = pose(table, rng.uniform(0.3, 0.9), risk, WITH_FIXED[int(rng.integers(2))][0], (), "kappa")
        untouched = given.largest(np.zeros(len(given.free)))
        found = optimum(given, untouched) if untouched > 1 else None
        with monkeypatch.context() as patch:
            for name in ("CLOSE", "CLOSE_STALE", "CLOSE_LIFTED", "CLOSE_ESTIMATED"):
                patch.setattr(newton, name, 1e-17)
            exact = optimum(given, untouched) if untouched > 1 else None
        if found is not None and exact is not None:
            compared += 1
            assert given.objective.value(found.channels) <= given.objective.value(exact.channels) * (1 + 1e-10)
    assert compared > 10


def test_second_derivatives_are_not_used_twice_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they are never told to be others, they are those of the point before in every other step, and not more.

    With old ones that are too flat steps would go to and fro.
    """
    happened: list[str] = []
    step, of = newton._Search.step, Metric.of
    monkeypatch.setattr(newton, "TURNING", 1e9)
    monkeypatch.setattr(newton._Search, "step", lambda self: happened.append("step") or step(self))
    monkeypatch.setattr(newton.Metric, "of", lambda bend: happened.append("renewed") or of(bend))
    steps = 0
    for table in tables(47, 30, attributes=4):
        given = pose(table, 0.5, "reconstruction", "both", (), "kappa")
        if given.untouched > 1 and given.largest(np.full(len(given.free), -40.0)) < 1:
            happened.clear()
            optimum(given, given.untouched)
            assert "step step step" not in " ".join(happened)
            steps += happened.count("step")
    assert steps > 30


def test_without_an_answer_slsqp_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    table = JointTable.from_array([[[40, 2, 5], [3, 38, 9], [9, 4, 44]], [[10, 12, 9], [14, 9, 10], [8, 11, 13]]])
    for risk in RISK_NAMES:
        lean = solve(table, 0.6, risk=risk)
        with monkeypatch.context() as patch:
            patch.setattr(solver, "optimum", lambda *asked: None)
            slow = solve(table, 0.6, risk=risk)
        assert lean.objective == pytest.approx(slow.objective, rel=1e-9)
        assert lean.diagonal == pytest.approx(slow.diagonal, rel=1e-4)


def test_out_of_reach_is_seen_after_a_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    table = JointTable.from_array([[[8, 2], [3, 1]], [[1, 4], [2, 3]]])
    steps = []
    step = newton._Search.step
    monkeypatch.setattr(newton._Search, "step", lambda self: steps.append(1) or step(self))
    for risk in RISK_NAMES:
        given = pose(table, 0.2, risk, "both", (), "kappa")
        assert optimum(given, given.largest(np.zeros(len(given.free)))) is None
    assert len(steps) <= 3 * len(RISK_NAMES)


WITHOUT_BOUND: tuple[tuple[ObjectiveName, object, object], ...] = (
    (
        "kappa",
        [[19, 3, 17], [18, 9, 3], [19, 18, 9]],
        [
            [0.11330545913830387, 0.21221518834224873, 0.4995818387238859],
            [0.5869969203453766, 0.8007960231713769, 0.7109567371909017],
            [0.14757302400470396, 0.5099920534775548, 0.10720460919646566],
        ],
    ),
    (
        "chi_square",
        [[0, 4, 4], [3, 1, 4]],
        [
            [0.26298885105278, 0.26123368601176256, 0.5224874923335084],
            [0.8028587993379717, 0.37797412060097063, 0.8004201304228513],
        ],
    ),
    ("chi_square", [[1, 3], [2, 1]], [[0.2931097444714712, 0.13138291204111813]] * 2),
)


@pytest.mark.parametrize(("objective", "counts", "limits"), WITHOUT_BOUND)
def test_estimates_without_bound_are_no_warning(objective: ObjectiveName, counts: object, limits: object) -> None:
    """Beyond the least limits that can be reached multipliers and B may overflow; the verdict is what counts."""
    table = JointTable.from_array(np.array(counts))
    with pytest.raises(RiskOutOfReach):
        solve(table, np.array(limits), risk="link", scope="quasi_identifiers", objective=objective)


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
