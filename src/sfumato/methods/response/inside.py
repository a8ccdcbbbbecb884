"""Points within the limits: the one without retention, or the best that a search finds; and what proves that none is.

Less retention never raises the largest risk of `reconstruction` and `posterior`: without any of it the limits are kept,
or not at all. So it is for `link` with one limit for all records. With limits for groups a point with retention can be
the only way. Then the largest ratio of a risk to its limit is minimised, in r^2 of each attribute: with little
retention risks are linear in that. There are several local minima, many with attributes that stay as they are or lose
everything. So the search starts from a few points on the diagonal, and from corners.

A search that finds nothing proves nothing. `reach.least_ratio` does, where it is above 1.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import product

import numpy as np

from sfumato.methods.response.joint import JointTable
from sfumato.methods.response.problem import NOTHING, Problem
from sfumato.methods.response.reach import out_of_reach, refuted
from sfumato.methods.response.risks import Risk
from sfumato.values.arrays import FloatArray, IntArray

HIGHEST = -1e-9
"""The highest log-retention tried: at r = 1 itself gradients are 0/0 where a cell is empty."""

WORST = 32
"""How many of the worst cells join the working set at a time."""

ROUNDS = 20
"""How often cells may join."""

VIOLATED = 1e-9
"""The excess, relative to its limit, from which on a cell joins; sliding mends what is smaller."""

LARGEST = 700.0
"""The largest logarithm of a number."""

SPREAD = (0.1, 1.0, 4.0)
"""Where the search for the least ratio starts: -log r of all attributes."""

CORNERS = 8
"""From how many corners it starts too, of those with the least ratios; in a large domain from one."""

MOST_FREE = 4
"""Attributes up to which all corners are looked at; else those where one attribute stays as it is."""

FLOOR = 1e-6
"""The least r^2 in that search: below, slopes would be lost in rounding."""

QUICK = 0.25
"""Seconds that a search takes, about, in a domain that is not large."""

IN_VAIN = 2.0
"""A search that would take longer, about, is not made where it cannot change the verdict."""

CLOSE = 1e-9
"""What that search may leave of the logarithm of the least ratio; digits beyond would take as long again."""

FINEST = 1e-12
"""The same of the logarithm of the objective."""


def inside(given: Problem) -> FloatArray:
    """Return a point within the limits: without retention, or (if the risk is not monotone) the first that is found."""
    nothing = np.full(len(given.free), NOTHING)
    if given.kept(nothing):
        return nothing
    if given.least_without_retention:
        raise out_of_reach(given, nothing)
    starts = _starts(given)
    points = [nothing, *starts]
    searched = given.table.search_seconds(given.risk.dense) <= IN_VAIN or not refuted(given)
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
    n, quick = len(given.free), given.table.search_seconds(given.risk.dense) <= QUICK
    corners = product((False, True), repeat=n) if quick and n <= MOST_FREE else np.eye(n, dtype=bool).tolist()
    ends = sorted((np.where(corner, 0.0, NOTHING) for corner in corners), key=given.largest)
    return [*(np.full(n, -t) for t in SPREAD), *ends[: CORNERS if quick else 1]]


# --- the least ratio --------------------------------------------------------------------------------------------------


def _lowest(given: Problem, x: FloatArray) -> FloatArray:
    """Return the point with the least largest ratio found from x; attributes that end next to FLOOR keep nothing."""

    def programmed(x: FloatArray, cells: IntArray) -> tuple[FloatArray, float]:
        return _lowered(given, x, cells)

    found = on_worst_cells(given, x, programmed)
    lost = np.where(np.exp(2 * found) < 2 * FLOOR, NOTHING, found)
    return lost if given.largest(lost) <= given.largest(found) else found


def _lowered(given: Problem, x: FloatArray, cells: IntArray) -> tuple[FloatArray, float]:
    """Return SLSQP's solution, and the least level with log(ratio) <= level in these cells.

    Variables are r^2 of each attribute, and the level.
    """
    n, free = len(x), list(given.free)
    part, places = _of_values(given, cells)

    @lru_cache(maxsize=1)  # SLSQP asks for values and slopes one after the other
    def at(key: bytes) -> Risk:
        return part.at(np.log(np.frombuffer(key)[:n]) / 2)

    def room(z: FloatArray) -> FloatArray:
        left: FloatArray = z[n] - np.log(part.ratio(at(z.tobytes()))[places])
        return left

    def room_slope(z: FloatArray) -> FloatArray:
        slope = -at(z.tobytes()).gradient(places)[:, free] / (2 * z[:n])
        return np.column_stack([slope, np.ones(len(places))])

    highest = math.exp(2 * HIGHEST)
    lower, upper = np.append(np.full(n, FLOOR), -np.inf), np.append(np.full(n, highest), np.inf)
    start = np.append(np.clip(np.exp(2 * x), FLOOR, highest), math.log(given.largest(x)))
    level = np.eye(n + 1)[n]
    z = slsqp(lambda z: float(z[n]), lambda _: level, room, room_slope, start, lower, upper, CLOSE)
    return np.log(z[:n]) / 2, float(z[n])


def _of_values(given: Problem, cells: IntArray) -> tuple[Problem, IntArray]:
    """Return the problem with the sensitive values of other cells taken as one, without a limit; and these cells.

    Of `posterior` and `link` a value's risk depends on that value and on all records, so that it stays the same.
    """
    table, group, value = given.table, *np.divmod(cells, given.table.sizes[-1])
    values = np.unique(value)
    others = np.setdiff1d(np.arange(table.sizes[-1]), values)
    if not others.size:
        return given, cells
    counts = np.column_stack([table.counts[:, values], table.counts[:, others].sum(axis=1)])
    alike = JointTable((*table.sizes[:-1], len(values) + 1), table.groups, counts)
    limits = np.column_stack([given.limits[:, values], np.full(len(given.limits), np.inf)])
    return replace(given, table=alike, limits=limits), group * (len(values) + 1) + np.searchsorted(values, value)


# --- sequential quadratic programming ---------------------------------------------------------------------------------


def on_worst_cells(
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


def slsqp(
    cost: Callable[[FloatArray], float],
    cost_slope: Callable[[FloatArray], FloatArray],
    room: Callable[[FloatArray], FloatArray],
    room_slope: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    close: float = FINEST,
) -> FloatArray:
    """Return the point of least cost where there is room and between the bounds, as far as SciPy finds it."""
    from scipy.optimize import Bounds, minimize  # a second that only solving needs

    with warnings.catch_warnings():  # a step beyond a bound by the last digit is clipped, and warned of
        warnings.simplefilter("ignore", RuntimeWarning)
        found = minimize(
            cost,
            start,
            jac=cost_slope,
            bounds=Bounds(lower, upper),
            constraints={"type": "ineq", "fun": room, "jac": room_slope},
            method="SLSQP",
            options={"ftol": close, "maxiter": 100},
        )
    solution: FloatArray = np.clip(found.x, lower, upper)
    return solution
