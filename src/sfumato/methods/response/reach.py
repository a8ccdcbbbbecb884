"""What cannot be had: the least risk, the cells that stand in the way, and what would work."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sfumato.errors import Infeasible
from sfumato.matrix import FloatArray
from sfumato.methods.response.channels import IntArray
from sfumato.methods.response.problem import NOTHING, Problem, free
from sfumato.methods.response.risks import Risk

ANY = -1
"""Stands for any value of a quasi-identifier that is randomized."""

BoolArray = npt.NDArray[np.bool_]

CERTAIN = 1 - 1e-9
"""A risk above this is 1 but for rounding: there is no limit to ask for."""


class RiskOutOfReach(Infeasible):
    """No parameters keep the limit."""

    def __init__(self, message: str, way: str, least: float, cells: IntArray, single_valued: int) -> None:
        super().__init__(message, way + _limit_above(least))
        self.way = way  # what would help besides another limit
        self.least = least  # the risk, at its least, of the cell that exceeds its limit most
        self.cells = cells  # the codes of the cells above their limits, a row for each
        self.single_valued = single_valued  # groups among them whose records all have one sensitive value


def out_of_reach(problem: Problem, x: FloatArray) -> RiskOutOfReach:
    """Return the error for a problem whose least risk is at x."""
    point = problem.sampled(x)
    ratio = problem.ratio(point)
    above = ratio * problem.margin > 1
    worst = int(ratio.argmax())
    least = float(point.values[worst])
    cells, single = _cells(problem, point, above), _single_valued(problem, above)
    how, where = _compared(problem, least, problem.limit_of(worst), float(ratio[worst]) <= problem.margin)
    message = (
        f"The risk {point.name!r} {'is' if problem.least_without_retention else 'was found to be'} {how}: "
        f"{len(cells):,} cell(s) stay {where} their limits, in {len(np.unique(cells[:, :-1], axis=0)):,} group(s)"
    )
    message += f", {single:,} of which have a single sensitive value." if single else "."
    return RiskOutOfReach(message, _way(problem), least, cells, single)


def _compared(problem: Problem, least: float, limit: float, alike: bool) -> tuple[str, str]:
    """Say how the least risk compares with its limit: above it, or not certain to be below."""
    if alike:
        even = ", even without any retention" if problem.least_without_retention else ""
        return f"no smaller than its limit of {limit:.6g}, up to rounding{even}", "at"
    return "{} at the least, above its limit of {}".format(*_apart(least, limit)), "above"


def _apart(x: float, y: float) -> tuple[str, str]:
    """Write two numbers with six digits, or as many as tell them apart."""
    digits = next((n for n in range(6, 17) if f"{x:.{n}g}" != f"{y:.{n}g}"), 17)
    return f"{x:.{digits}g}", f"{y:.{digits}g}"


def _cells(problem: Problem, point: Risk, above: BoolArray) -> IntArray:
    """Return the codes; a risk of released cells without retention is the same whatever the randomized values are."""
    if not problem.risk.of_released:
        return point.cell_codes(np.flatnonzero(above))
    codes = np.argwhere(above.reshape(problem.table.sizes).any(axis=problem.free, keepdims=True))
    codes[:, list(problem.free)] = ANY
    return codes


def _single_valued(problem: Problem, above: BoolArray) -> int:
    if problem.risk.of_released:
        return 0
    groups = np.flatnonzero(above) // problem.table.sizes[-1]
    return np.intersect1d(groups, problem.table.single_valued).size


def _way(problem: Problem) -> str:
    """Say what would help: more attributes, or fewer records."""
    wider = replace(problem, free=free(problem.table, problem.risk, "both"))
    if wider.free != problem.free and wider.kept(np.full(len(wider.free), NOTHING)):
        names = problem.table.names or range(len(problem.table.sizes))
        missing = [str(names[axis]) for axis in sorted({*wider.free} - {*problem.free})]
        return f"Randomize attribute(s) {', '.join(missing)} too"
    return "Suppress records with the most frequent sensitive values"


def _limit_above(least: float) -> str:
    most = math.ceil(1 / least) - 1  # the largest l with 1/l > least
    limit = f", or ask for a limit above {least:.6g}" if least < CERTAIN else ""
    return limit + (f" (l <= {most})." if most > 1 else ".")
