"""The parameter of a method at which the guesser is right nearly as often as a target says, and never more often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sfumato.errors import SfumatoError

Parameter = TypeVar("Parameter")


@dataclass(frozen=True)
class Nearest(Generic[Parameter]):
    """What a search found: a parameter, or (None) the least risk that it met."""

    parameter: Parameter | None
    risk: float | None  # None: nothing that was tried can be planned
    tried: int
    reason: str = ""  # of the last that could not be planned


def nearest(
    grid: Sequence[Parameter],
    quick: Callable[[Parameter], float],
    measure: Callable[[Parameter], float],
    target: float,
) -> Nearest[Parameter]:
    """Return the parameter, of a grid from strict to loose, with the largest risk within the target.

    Halves the grid by `quick`, a measurement of one release, then goes back to stricter ones until `measure`, over all
    releases, is within the target: only what was measured there counts. What cannot be planned is too strict.
    """
    low, high, tried, reason = -1, len(grid), 0, ""
    least: float | None = None
    while high - low > 1:
        middle = (low + high) // 2
        tried += 1
        try:
            risk = quick(grid[middle])
        except SfumatoError as problem:
            low, reason = middle, problem.message
            continue
        least = risk if least is None else min(least, risk)
        low, high = (middle, high) if risk <= target else (low, middle)
    for place in range(low, -1, -1):
        tried += 1
        try:
            risk = measure(grid[place])
        except SfumatoError as problem:
            return Nearest(None, least, tried, problem.message)
        least = risk if least is None else min(least, risk)
        if risk <= target:
            return Nearest(grid[place], risk, tried)
    return Nearest(None, least, tried, reason)
