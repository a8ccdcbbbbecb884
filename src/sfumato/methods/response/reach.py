"""What cannot be had: the least risk, the cells that stand in the way, and what would work."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sfumato.errors import Infeasible
from sfumato.matrix import FloatArray
from sfumato.methods.response.channels import IntArray
from sfumato.methods.response.problem import NOTHING, Problem, free
from sfumato.methods.response.risks import Risk

ANY = -1
"""Stands for any value of a quasi-identifier that is randomized."""

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
    point = problem.at(x)
    ratio = problem.ratio(point)
    above = np.flatnonzero(ratio * problem.margin > 1)
    least = float(point.values[ratio.argmax()])
    cells, single = _cells(problem, point, above), _single_valued(problem, above)
    found = "is" if problem.least_without_retention else "was found to be"
    message = (
        f"The risk {point.name!r} {found} {least:.6g} at the least, above its limit of {least / ratio.max():.6g}: "
        f"{len(cells):,} cell(s) stay above their limits, in {len(np.unique(cells[:, :-1], axis=0)):,} group(s)"
    )
    message += f", {single:,} of which have a single sensitive value." if single else "."
    return RiskOutOfReach(message, _way(problem), least, cells, single)


def _cells(problem: Problem, point: Risk, above: IntArray) -> IntArray:
    """Return the codes; a risk of released cells without retention is the same whatever the randomized values are."""
    codes: IntArray = point.cell_codes(above)
    if not problem.risk.of_released:
        return codes
    codes = codes[(codes[:, list(problem.free)] == 0).all(axis=1)]
    codes[:, list(problem.free)] = ANY
    return codes


def _single_valued(problem: Problem, above: IntArray) -> int:
    if problem.risk.of_released:
        return 0
    return np.intersect1d(above // problem.table.sizes[-1], problem.table.single_valued).size


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
