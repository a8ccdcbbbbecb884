"""The least randomization that keeps a risk within its limit, found by sequential quadratic programming.

In x = log r the objective log(kappa) is convex, and the largest log-risk nearly so. SLSQP runs on a working set of the
worst cells; cells that its result violates join, until there are none. That result is then rounded to integer noise
weights and slid towards a point inside. The risk of every cell, evaluated on these integers with a rigorous margin for
rounding, is within its limit. So the bound holds for certain; the optimum is "no better point found". For
`reconstruction` and `posterior` one start was enough wherever many were compared, to 4e-6 of the objective; `link` can
have several local optima.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from functools import lru_cache

import numpy as np

from sfumato.methods.response.inside import HIGHEST, inside, on_worst_cells, slsqp
from sfumato.methods.response.joint import JointTable
from sfumato.methods.response.objectives import Kappa, ObjectiveName, uniform_error
from sfumato.methods.response.problem import NOTHING, Limit, Limits, Problem, Response, Scope, pose
from sfumato.methods.response.reach import ANOTHER, RiskOutOfReach, either, larger, suppressing
from sfumato.methods.response.risks import Risk, RiskName
from sfumato.values.arrays import FloatArray, IntArray

MOST_SECONDS = 0.25
"""A proposal that would take longer to try, about, is not made."""

HALVINGS = 48
"""Sliding starts with 2^-48 of the way inside."""

SCALES = (1.0, 0.5, 0.25, 2.0)
"""Starts of the search, relative to the first."""

BISECTIONS = 20

UNTOUCHED = 1e-7
"""An attribute that would lose less than this of its retention is left as it is."""

REACHED = 1 - 1e-6
"""A result whose largest ratio is below this is no optimum."""


def solve(
    table: JointTable,
    limit: Limit,
    *,
    risk: RiskName = "posterior",
    scope: Scope = "both",
    fixed: Collection[int] = (),
    objective: ObjectiveName = "kappa",
) -> Response:
    """Return the parameters with the least objective found, among those that keep every limit; see AD Problem 1.

    `fixed` are attributes, by number, that stay untouched though they are in scope. Raises `RiskOutOfReach`.

    >>> table = JointTable.from_array([[20, 30, 22], [12, 8, 8]])  # AD Table 1: 28 women, 12 of them with cancer
    >>> found = solve(table, 1 / 3, risk="reconstruction", scope="quasi_identifiers")
    >>> [round(p, 4) for p in found.diagonal], found.worst, found.risk <= 1 / 3
    ([0.7879, 1.0], (0, 1), True)
    """
    given = pose(table, limit, risk, scope, fixed, objective)
    try:
        return answer(given)
    except RiskOutOfReach as error:
        wider = _wider(given, pose(table, limit, risk, "both", (), objective))
        way = wider or suppressing(given, limit.values if isinstance(limit, Limits) else limit)
        raise error.with_hint(either(way, larger(given, error)) or either(ANOTHER)) from None


def answer(given: Problem) -> Response:
    """Return the same for a problem as it is posed; what is raised has no hint."""
    untouched = np.zeros(len(given.free))
    if given.kept_as_it_is():
        return given.response(untouched)
    within = inside(given)
    return given.response(_best(given, within, _first_within(given, untouched, within)))


def trade_off(
    table: JointTable,
    limits: Iterable[Limit],
    *,
    risk: RiskName = "posterior",
    scope: Scope = "both",
    fixed: Collection[int] = (),
    objective: ObjectiveName = "kappa",
) -> list[Response | RiskOutOfReach]:
    """Return what each limit costs, or why it cannot be kept."""
    curve: list[Response | RiskOutOfReach] = []
    for limit in limits:
        try:
            curve.append(answer(pose(table, limit, risk, scope, fixed, objective)))
        except RiskOutOfReach as error:
            curve.append(error)
    return curve


def _wider(given: Problem, wider: Problem) -> str:
    """Say which attributes would have to be randomized too, if that was tried and is better than no release."""
    table = given.table
    if wider.free == given.free or table.search_seconds(given.risk.dense) > MOST_SECONDS:
        return ""
    try:
        found = answer(wider)
    except RiskOutOfReach:
        return ""
    if Kappa(table).expected_error(found.channels) > uniform_error(table, math.prod(table.sizes)):
        return ""
    names = table.names or range(len(table.sizes))
    return f"randomize attribute(s) {', '.join(str(names[k]) for k in wider.free if k not in given.free)} too"


# --- points within the limits -----------------------------------------------------------------------------------------


def _first_within(given: Problem, x: FloatArray, inside: FloatArray) -> FloatArray:
    """Return the first of x and the points x + 2^k (inside - x), k <= 0, within the limits: by bisection on k."""
    if given.kept(x):
        return x
    low, high = -HALVINGS, 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if given.kept(x + 2.0**middle * (inside - x)) else (middle, high)
    return x + 2.0**high * (inside - x)


def _slid(given: Problem, x: FloatArray, inside: FloatArray) -> FloatArray:
    """Return the first point within the limits on the way inside.

    An attribute that loses next to nothing is left untouched, if the others can make up for it.
    """
    nearly = x > -UNTOUCHED
    end = np.where(nearly, 0, inside)
    if nearly.any() and given.kept(end):
        return _first_within(given, np.where(nearly, 0, x), end)
    return _first_within(given, x, inside)


def _best(given: Problem, inside: FloatArray, start: FloatArray) -> FloatArray:
    """Return the best point found, from one start if its result reaches the limits, as an optimum does.

    Where there may be several local optima, and it takes no time to speak of, all starts are tried.
    """
    floor, best, reached = _floor(given, start), start, False
    several = not given.risk.monotone and given.table.search_seconds(given.risk.dense) <= MOST_SECONDS
    for scale in SCALES:
        found = _slid(given, _search(given, scale * start, floor), inside)
        best = min(best, found, key=given.cost)
        reached = reached or given.largest(found) > REACHED
        if reached and not several:
            break
    if reached:
        return best
    raised = _raised(given, best)
    again = _slid(given, _search(given, raised, floor), inside)
    return min(raised, again, key=given.cost)


def _raised(given: Problem, x: FloatArray) -> FloatArray:
    """Return x with the retentions raised one after the other, the least first, as far as the limits are kept."""
    x = x.copy()
    for k in np.argsort(x).tolist():
        low, high, x[k] = float(x[k]), 0.0, 0.0
        if given.kept(x):
            continue
        for _ in range(HALVINGS):
            x[k] = (low + high) / 2
            low, high = (float(x[k]), high) if given.kept(x) else (low, float(x[k]))
        x[k] = low
    return x


def _floor(given: Problem, start: FloatArray) -> FloatArray:
    """Return the point below which any attribute costs more by itself than all do at the start: by bisection."""
    floor, most = np.full(len(start), NOTHING), given.cost(start)
    for k in range(len(start)):
        high = 0.0
        for _ in range(BISECTIONS):
            alone = np.zeros(len(start))
            alone[k] = (floor[k] + high) / 2
            floor[k], high = (alone[k], high) if given.cost(alone) > most else (floor[k], alone[k])
    return floor


# --- sequential quadratic programming ---------------------------------------------------------------------------------


def _search(given: Problem, x: FloatArray, floor: FloatArray) -> FloatArray:
    """Return the best point found from x: of least objective within the limits."""

    def programmed(x: FloatArray, cells: IntArray) -> tuple[FloatArray, float]:
        return _programmed(given, x, floor, cells), 0.0

    return on_worst_cells(given, x, programmed)


def _programmed(given: Problem, x: FloatArray, floor: FloatArray, cells: IntArray) -> FloatArray:
    """Return SLSQP's solution with these cells within their limits: log(ratio) <= 0."""
    free = list(given.free)

    @lru_cache(maxsize=1)  # SLSQP asks for values and slopes one after the other
    def at(key: bytes) -> Risk:
        return given.at(np.frombuffer(key))

    def room(x: FloatArray) -> FloatArray:
        return -np.log(given.ratio(at(x.tobytes()))[cells])

    def room_slope(x: FloatArray) -> FloatArray:
        return -at(x.tobytes()).gradient(cells)[:, free]

    highest = np.full(len(x), HIGHEST)
    return slsqp(given.cost, given.cost_slope, room, room_slope, np.clip(x, floor, highest), floor, highest)
