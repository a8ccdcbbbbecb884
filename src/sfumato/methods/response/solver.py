"""The least randomization that keeps a risk within its limit, found by sequential quadratic programming.

In x = log r the objective log(kappa) is convex, and the largest log-risk nearly so. SLSQP runs on a working set of the
worst cells; cells that its result violates join, until there are none. That result is then rounded to integer noise
weights and slid towards a point inside. The risk of every cell, evaluated on these integers with a rigorous margin for
rounding, is within its limit. So the bound holds for certain; the optimum is "no better point found". For
`reconstruction` and `posterior` one start was enough wherever many were compared, to 4e-6 of the objective; `link` can
have several local optima.

The point inside: less retention never raises the largest risk of `reconstruction` and `posterior`, so without any of it
the limits are kept, or not at all. So it is for `link` with one limit for all records. With limits for groups a point
with retention can be the only way. Then the largest ratio of a risk to its limit is minimised, in r^2 of each
attribute: with little retention risks are linear in that. There are several local minima, many with attributes that
stay as they are or lose everything. So that search starts from a few points on the diagonal, and from corners. One that
finds nothing proves nothing; `reach.least_ratio` does, where it is above 1.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import lru_cache
from itertools import product

import numpy as np

from sfumato.methods.response.problem import Problem, Response
from sfumato.methods.response.reach import out_of_reach, refuted
from sfumato.methods.response.risks import Risk
from sfumato.values.arrays import FloatArray, IntArray

Function = Callable[[FloatArray], FloatArray]

NOTHING = -40.0  # the log-retention that is as good as none
HIGHEST = -1e-9  # the highest log-retention tried: at r = 1 itself gradients are 0/0 where a cell is empty
UNTOUCHED = 1e-7  # an attribute that would lose less than this of its retention is left as it is
QUICK = 0.25  # a search that would take longer, in seconds, about, is made from few starts
IN_VAIN = 2.0  # a search that would take longer is not made where it cannot change the verdict
SCALES = (1.0, 0.5, 0.25, 2.0)  # starts of the search, relative to the first
REACHED = 1 - 1e-6  # a result whose largest ratio is below this is no optimum
SHARES = (0.1, 0.01, 1e-3, 1e-4)  # of its log-retention an attribute loses so much, if others gain more by it
HALVINGS = 48  # sliding starts with 2^-48 of the way inside; raising stops at 2^-48 of what is left
WORST = 32  # how many of the worst cells join the working set at a time
ROUNDS = 20  # how often cells may join
VIOLATED = 1e-9  # the excess, relative to its limit, from which on a cell joins; sliding mends what is smaller
LARGEST = 700.0  # the largest logarithm of a number
FINEST = 1e-12  # what SLSQP may leave of the logarithm of the objective
CLOSE = 1e-9  # the same of the least ratio; digits beyond would take as long again
SPREAD = (0.1, 1.0, 4.0)  # where the search for the least ratio starts: -log r of all attributes
CORNERS = 8  # from how many corners it starts too, of those with the least ratios; in a large domain from one
MOST_FREE = 4  # attributes up to which all corners are looked at; else those where one attribute stays as it is
FLOOR = 1e-6  # the least r^2 in that search: below, slopes would be lost in rounding


def solve(given: Problem) -> Response:
    """Return the parameters with the least objective found, among those that keep every limit; see AD Problem 1.

    Raises `RiskOutOfReach`.

    >>> from sfumato.methods.response.joint import JointTable
    >>> from sfumato.methods.response.problem import pose
    >>> table = JointTable.from_array([[20, 30, 22], [12, 8, 8]])  # AD Table 1: 28 women, 12 of them with cancer
    >>> found = solve(pose(table, 1 / 3, risk="reconstruction", scope="quasi-identifiers"))
    >>> [round(p, 4) for p in found.diagonal], found.worst, found.risk <= 1 / 3
    ([0.7879, 1.0], (0, 1), True)
    """
    x = np.zeros(len(given.free))
    if not given.kept_as_it_is():
        within = inside(given)
        x = _best(given, within, _first_within(given, x, within))
    return given.response(given.sampled(x))


def _best(given: Problem, inside: FloatArray, start: FloatArray) -> FloatArray:
    """Return the best point found, from one start if its result reaches the limits, as an optimum does.

    Where there may be several local optima, and it takes no time to speak of, all starts are tried.
    """
    best, reached = start, False
    for scale in SCALES:
        found = _slid(given, _search(given, scale * start), inside)
        best = min(best, found, key=given.cost)
        reached = reached or given.largest(found) > REACHED
        if reached and (given.risk.monotone or not given.is_quick(QUICK)):
            break
    return best if reached else _polished(given, best)


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


def _polished(given: Problem, x: FloatArray) -> FloatArray:
    """Return x raised to the limits, then moved along them: an attribute loses some retention, the others gain."""
    x = _raised(given, x, np.argsort(x).tolist())
    for share, k in product(SHARES if given.is_quick(QUICK) else (), range(len(x))):
        lower = x.copy()
        lower[k] *= 1 + share
        if given.kept(lower):
            others = [j for j in np.argsort(x).tolist() if j != k]
            x = min(x, _raised(given, lower, [*others, k]), key=given.cost)
    return x


def _raised(given: Problem, x: FloatArray, order: list[int]) -> FloatArray:
    """Return x with the retentions raised one after the other, as far as the limits are kept."""
    x = x.copy()
    for k in order:
        low, high, x[k] = float(x[k]), 0.0, 0.0
        if given.kept(x):
            continue
        for _ in range(HALVINGS):
            x[k] = (low + high) / 2
            low, high = (float(x[k]), high) if given.kept(x) else (low, float(x[k]))
        x[k] = low
    return x


def inside(given: Problem) -> FloatArray:
    """Return a point within the limits: without retention, or (if the risk is not monotone) the first that is found."""
    nothing = np.full(len(given.free), NOTHING)
    if given.kept(nothing):
        return nothing
    if given.least_without_retention:
        raise out_of_reach(given, nothing)
    starts = _starts(given)
    points = [nothing, *starts]
    searched = given.is_quick(IN_VAIN) or not refuted(given)
    for start in starts if searched else ():
        points.append(_lowest(given, start))
        if given.kept(points[-1]):
            return points[-1]
    best = min(points, key=given.largest)
    if not given.kept(best):
        raise out_of_reach(given, best, searched)
    return best


def _starts(given: Problem) -> list[FloatArray]:
    """Return where the search for the least ratio starts: on the diagonal, and at the best corners."""
    n, quick = len(given.free), given.is_quick(QUICK)
    corners = product((False, True), repeat=n) if quick and n <= MOST_FREE else np.eye(n, dtype=bool).tolist()
    ends = sorted((np.where(corner, 0.0, NOTHING) for corner in corners), key=given.largest)
    return [*(np.full(n, -t) for t in SPREAD), *ends[: CORNERS if quick else 1]]


# --- sequential quadratic programming ---------------------------------------------------------------------------------


def _search(given: Problem, x: FloatArray) -> FloatArray:
    """Return the point of least objective found from x, within the limits but for what sliding mends."""
    lower, upper = np.full(len(x), NOTHING), np.full(len(x), HIGHEST)

    def programmed(x: FloatArray, cells: IntArray) -> tuple[FloatArray, float]:
        return _slsqp(given.cost, given.cost_slope, *_room(given, cells), x, lower, upper, FINEST), 0.0

    return _on_worst_cells(given, x, programmed)


def _lowest(given: Problem, x: FloatArray) -> FloatArray:
    """Return the point with the least largest ratio found from x; attributes that end next to FLOOR keep nothing.

    Variables are z = r^2 of each attribute, and last the level, log(ratio) of these cells at the most.
    """
    n = len(x)
    lower, upper = np.append(np.full(n, FLOOR), -np.inf), np.append(np.full(n, math.exp(2 * HIGHEST)), np.inf)
    level = np.eye(n + 1)[n]

    def programmed(x: FloatArray, cells: IntArray) -> tuple[FloatArray, float]:
        of_x, slope_of_x = _room(given, cells)

        def room(z: FloatArray) -> FloatArray:
            return np.asarray(z[n] + of_x(np.log(z[:n]) / 2))

        def slope(z: FloatArray) -> FloatArray:
            return np.column_stack([slope_of_x(np.log(z[:n]) / 2) / (2 * z[:n]), np.ones(len(cells))])

        start = np.append(np.exp(2 * x), math.log(given.largest(x)))
        z = _slsqp(lambda z: float(z[n]), lambda _: level, room, slope, start, lower, upper, CLOSE)
        return np.log(z[:n]) / 2, float(z[n])

    found = _on_worst_cells(given, x, programmed)
    lost = np.where(np.exp(2 * found) < 2 * FLOOR, NOTHING, found)
    return lost if given.largest(lost) <= given.largest(found) else found


def _on_worst_cells(
    given: Problem, x: FloatArray, programmed: Callable[[FloatArray, IntArray], tuple[FloatArray, float]]
) -> FloatArray:
    """Return the solution from x of a program that knows some cells only: what is above its level elsewhere joins."""
    cells = _worst(given, x, 0.0)
    for _ in range(ROUNDS):
        found, level = programmed(x, cells)
        if not np.isfinite(found).all():
            break
        x = found
        new = np.setdiff1d(_worst(given, x, math.exp(min(level + VIOLATED, LARGEST))), cells)
        if not new.size:
            break
        cells = np.concatenate([cells, new])
    return x


def _worst(given: Problem, x: FloatArray, above: float) -> IntArray:
    """Return the cells with the largest ratios, as far as these are above a level."""
    ratio = given.ratio(given.at(x))
    cells = np.argpartition(ratio, -WORST)[-WORST:] if ratio.size > WORST else np.arange(ratio.size)
    return cells[ratio[cells] > above]


def _room(given: Problem, cells: IntArray) -> tuple[Function, Function]:
    """Return -log(ratio) of these cells as a function of x, and its slopes."""
    free = list(given.free)

    @lru_cache(maxsize=1)  # SLSQP asks for values and slopes one after the other
    def at(key: bytes) -> Risk:
        return given.at(np.frombuffer(key))

    def room(x: FloatArray) -> FloatArray:
        return -np.log(given.ratio_at(at(x.tobytes()), cells))

    def slope(x: FloatArray) -> FloatArray:
        return -at(x.tobytes()).gradient(cells)[:, free]

    return room, slope


def _slsqp(
    cost: Callable[[FloatArray], float],
    cost_slope: Function,
    room: Function,
    room_slope: Function,
    start: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    close: float,
) -> FloatArray:
    """Return the point of least cost where there is room and between the bounds, as far as SciPy finds it."""
    from scipy.optimize import Bounds, minimize  # a second that only solving needs

    with warnings.catch_warnings():  # a step beyond a bound by the last digit is clipped, and warned of
        warnings.simplefilter("ignore", RuntimeWarning)
        found = minimize(
            cost,
            np.clip(start, lower, upper),
            jac=cost_slope,
            bounds=Bounds(lower, upper),
            constraints={"type": "ineq", "fun": room, "jac": room_slope},
            method="SLSQP",
            options={"ftol": close, "maxiter": 100},
        )
    solution: FloatArray = np.clip(found.x, lower, upper)
    return solution
