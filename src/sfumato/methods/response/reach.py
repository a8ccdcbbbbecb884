"""What cannot be had: the least risk, the cells that stand in the way, and what would work."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction

import numpy as np

from sfumato.errors import Infeasible
from sfumato.methods.response.problem import UNIT, Problem
from sfumato.values.arrays import FloatArray, IntArray

ANY = -1  # stands for any value of a quasi-identifier that is randomized
CERTAIN = 1 - 1e-9  # a risk above this is 1 but for rounding: there is no limit to ask for
ROUNDING = 1e-12  # more than the relative error of a computed risk
EVEN = 1e-9  # limits with a sum so near to 1 are as many equal shares

SUPPRESS = "suppress records with the most frequent sensitive values"

ANOTHER = "choose another method"


class RiskOutOfReach(Infeasible):
    """No parameters keep the limit."""

    def __init__(self, message: str, least: float, excess: float, cells: IntArray) -> None:
        super().__init__(message)
        self.least = least  # the risk, at its least, of the cell that exceeds its limit most
        self.excess = excess  # that over its limit
        self.cells = cells  # the codes of the cells above their limits, a row for each


def out_of_reach(problem: Problem, x: FloatArray, searched: bool = True) -> RiskOutOfReach:
    """Return the error for a problem whose least risk is at x, as far as is known: by a search, or a few points."""
    point = problem.sampled(x)
    ratio = problem.ratio(point)
    worst, above, single = int(ratio.argmax()), ratio * problem.margin > 1, 0
    least = float(point.values[worst])
    if problem.risk.of_released:  # without retention the risk is the same whatever the randomized values are
        cells = np.argwhere(above.reshape(problem.table.sizes).any(axis=problem.free, keepdims=True))
        cells[:, list(problem.free)] = ANY
    else:
        cells = point.cell_codes(np.flatnonzero(above))
        groups = np.flatnonzero(above) // problem.table.sizes[-1]
        single = np.intersect1d(groups, problem.table.single_valued).size
    how, where = _compared(problem, least, problem.limit_of(worst), float(ratio[worst]) <= problem.margin, searched)
    message = (
        f"The risk {point.name!r} {'is' if problem.least_without_retention else 'was found to be'} {how}: "
        f"{len(cells):,} cell(s) stay {where} their limits, in {len(np.unique(cells[:, :-1], axis=0)):,} group(s)"
    )
    message += f", {single:,} of which have a single sensitive value." if single else "."
    return RiskOutOfReach(message, least, float(ratio[worst]), cells)


def _compared(problem: Problem, least: float, limit: float, alike: bool, searched: bool) -> tuple[str, str]:
    """Say how the least risk compares with its limit: above it, or not certain to be below."""
    if alike:
        even = ", even without any retention" if problem.least_without_retention else ""
        return f"no smaller than its limit of {limit:.6g}, up to rounding{even}", "at"
    digits = next((n for n in range(6, 17) if f"{least:.{n}g}" != f"{limit:.{n}g}"), 17)  # that tell them apart
    few = "" if searched else " of a few points"
    told = f"{least:.{digits}g} at the least{few}, above its limit of {limit:.{digits}g}"
    if not problem.least_without_retention and refuted(problem):
        known = rounded(least_ratio(problem), ROUND_FLOOR)
        told += f", and is {known:f} times its limit or more in some cell, whatever the parameters"
    return told, "above"


def refuted(problem: Problem) -> bool:
    """Whether it is certain without a search that the limits of `link` cannot be kept."""
    rounding = UNIT * (len(problem.table.groups) + 4)  # a sum over the groups, and a few operations
    return not problem.risk.monotone and least_ratio(problem) > 1 + 2 * rounding


def least_ratio(problem: Problem) -> float:
    """Return which ratio to its limit the risk `link` of some cell has at least, whatever the parameters.

    By Jensen 1/link(a, u) <= sum_b P[b, a] / h(b, u). So of each value u, in each cell of attributes that stay as they
    are,

        sum_a pi(a, u)/link(a, u)  <=  sum_b (P pi(., u))_b / h(b, u)  =  sum_b lambda_b  =  the share of the cell

    over what is released with u at all: a record whose risk is 1/l takes the room of l records, and there is no more
    room than records. No risk is above 1. If all are at most R times their limits t(a, u), where there are any,

        R  >=  sum_a pi(a, u)/t(a, u)  /  (share of the cell - share in it of the records with u that have no limit)
    """
    table = problem.table
    limits = np.broadcast_to(problem.limits, table.counts.shape)
    cell = _cell_of_fixed(problem)
    needed, room = (np.zeros((int(cell.max()) + 1, table.sizes[-1])) for _ in range(2))
    np.add.at(needed, cell, table.counts / limits)
    np.add.at(room, cell, table.group_sizes[:, None] - np.where(np.isinf(limits), table.counts, 0.0))
    return float(np.divide(needed, room, out=np.zeros_like(room), where=needed > 0).max())


def _cell_of_fixed(problem: Problem) -> IntArray:
    """Return the number of each group's combination of the attributes that stay as they are."""
    fixed = [k for k in range(len(problem.table.sizes) - 1) if k not in problem.free]
    return np.unique(problem.table.groups[:, fixed], axis=0, return_inverse=True)[1].ravel().astype(np.int64)


# --- what would work --------------------------------------------------------------------------------------------------


def either(*ways: str) -> str:
    """Say in a sentence what can be done, if there is anything."""
    told = ", or ".join(filter(None, ways))
    return f"{told[:1].upper()}{told[1:]}." if told else ""


def suppressing(problem: Problem, limits: Fraction | float | FloatArray) -> str:
    """Propose to suppress records, unless it is certain that this is in vain; `limits` are those of the records.

    So it is if no records of the table, by themselves, have parameters that keep their limits t. Let a cell be one of
    the attributes that stay as they are, and all shares be within it.

    - `posterior`: what is released has one of the values, 1 = sum_u h(b, u) <= sum_u max_a t(a, u).
    - `link`: pi_u <= max_a t(a, u) by `least_ratio`, so again 1 <= sum_u max_a t(a, u).
    - `reconstruction`: eta_a >= pi_a and sigma(a, u) >= pi(u | a), so that the risk is pi(a, u) at the least, and where
      S is randomized too pi(a, u)^2/pi_a. Hence 1 <= sum_(a, u) t(a, u), or 1 <= sum_a (sum_u sqrt t(a, u))^2.

    Where all that is exactly 1, only the table as it is or pure noise would do. And where nothing is randomized a table
    that keeps its limits is of no use to this method.
    """
    table, cell = problem.table, _cell_of_fixed(problem)
    own = np.where(table.counts > 0, np.minimum(np.asarray(limits, dtype=np.float64), 1.0), 0.0)
    if not problem.risk.sees_sensitive:
        loosest = np.zeros((int(cell.max()) + 1, table.sizes[-1]))
        np.maximum.at(loosest, cell, own)
        room = loosest.sum(axis=1)
    else:
        noisy = len(table.sizes) - 1 in problem.free
        room = np.bincount(cell, np.sqrt(own).sum(axis=1) ** 2 if noisy else own.sum(axis=1))
    return SUPPRESS if problem.free and float(room.max()) > 1 + EVEN else ""


# --- limits that can be kept ------------------------------------------------------------------------------------------


def between(least: float, untouched: float) -> str:
    """Propose a limit above the least, all noise, and below what the table keeps as it is; if there is one."""
    low, high = rounded(least * (1 - ROUNDING), ROUND_CEILING), rounded(untouched, ROUND_FLOOR)
    if low >= high:
        return ""
    most = math.ceil(1 / low) - 1  # the largest l with 1/l above
    also = f", such as l = {most}" if most > 1 and 1 / most < high else ""
    return f"ask for a limit above {low:f}, where all would be noise, and below {high:f}{also}"


def rounded(x: float, rounding: str, digits: int = 6) -> Decimal:
    """Return a number with so many digits."""
    exact = Decimal(x)
    return exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding).normalize()
