"""The parameter of a method at which the guesser is right nearly as often as a target says, and never more often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sfumato.errors import Infeasible, PlanMismatch, SingularMatrix, UsageError

Parameter = TypeVar("Parameter")
Result = TypeVar("Result")

REFUSALS = (UsageError, Infeasible, SingularMatrix, PlanMismatch)
"""What a method raises that does not fit the table or the policy; that a disk is full, say, is no reason of its own."""


@dataclass(frozen=True)
class Nearest(Generic[Parameter, Result]):
    """What a search found: a parameter with its measurement, or (None) the least risk that it met."""

    parameter: Parameter | None
    result: Result | None
    risk: float | None  # over all releases; None: nothing that was measured can be planned
    tried: int  # parameters, each counted once
    reason: str = ""  # of the last that could not be planned


def nearest(
    grid: Sequence[Parameter],
    quick: Callable[[Parameter], float],
    measure: Callable[[Parameter], tuple[float, Result]],
    target: float,
) -> Nearest[Parameter, Result]:
    """Return the parameter, of a grid from strict to loose, with the largest risk within the target.

    Halves the grid by `quick`, a measurement of one release. From there `measure`, over all releases, decides: it goes
    on to looser parameters as long as they are within the target, or back to stricter ones until one is. What cannot be
    planned is too strict.
    """
    low, high, reason = -1, len(grid), ""
    tried: set[int] = set()
    while high - low > 1:
        middle = (low + high) // 2
        tried.add(middle)
        try:
            risk = quick(grid[middle])
        except REFUSALS as problem:
            low, reason = middle, problem.message
            continue
        low, high = (middle, high) if risk <= target else (low, middle)
    best: Nearest[Parameter, Result] | None = None
    least: float | None = None
    place, step = min(low + 1, len(grid) - 1), 0
    while 0 <= place < len(grid):
        tried.add(place)
        try:
            risk, result = measure(grid[place])
        except REFUSALS as problem:
            reason = problem.message
            break
        least = risk if least is None else min(least, risk)
        within = risk <= target
        if within:
            best = Nearest(grid[place], result, risk, len(tried))
        if step and within == (step < 0):  # back at one within the target, or gone beyond it
            break
        step = 1 if within else -1
        place += step
    return best or Nearest(None, None, least, len(tried), reason)
