"""Round figures for a proposal: bins, breaks, and a requirement that fits the table's skew."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from sfumato.values.matrix.retention import amplification

CLASSES = 8
"""About so many bins."""
STEPS = (1, 2, 5)
ODDS = 5
"""The odds of no statement may change by more than this factor (epsilon = 1.6)."""
TIMES = 3
CLEAN = (10, 20, 50, *range(100, 960, 50), 960, 970, 980, 990)  # in thousandths


def nice(x: float) -> float:
    """Return the smallest of 1, 2, 5, 10, 20, 50, ... (and 0.1, 0.2, ...) that is not below x.

    >>> nice(7), nice(0.013), nice(200)
    (10.0, 0.02, 200.0)
    """
    power = math.floor(math.log10(x))
    options = [Fraction(step) * Fraction(10) ** power for step in (*STEPS, 10)]
    return float(next(option for option in options if option >= Fraction(x) * Fraction(999_999, 1_000_000)))


def width(low: float, high: float) -> float | None:
    """Return a round width for about eight bins; None if there is nothing to cut.

    >>> width(17, 93), width(0, 1_490_400), width(3, 3)
    (10.0, 200000.0, None)
    """
    return nice((high - low) / CLASSES) if high > low else None


def breaks(low: float, middle: float, high: float) -> list[float]:
    """Return round breaks: of 1, 2, 5, 10, ... those next to the middle for amounts of many sizes, else evenly spaced.

    >>> breaks(0, 5000, 1e9)
    [500.0, 1000.0, 2000.0, 5000.0, 10000.0, 20000.0, 50000.0, 100000.0]
    >>> breaks(0.3, 2, 4.2)
    [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
    """
    if low >= 0 and high >= 1000 and high >= 100 * max(low, 1):
        powers = range(math.ceil(math.log10(high)) + 1)
        amounts = [float(step * 10**power) for power in powers for step in STEPS]
        inside = [x for x in amounts if low < x < high]
        centre = math.log(middle if middle > 0 else high)
        return sorted(sorted(inside, key=lambda x: abs(math.log(x) - centre))[:CLASSES])
    step = width(low, high)
    if step is None:
        return []
    exact = Fraction(step).limit_denominator(10**12)
    first = math.floor(low / step) + 1
    return [float(exact * k) for k in range(first, math.ceil(high / step))] or [float(exact * first)]


@dataclass(frozen=True)
class RoundRequirement:
    """rho1 and rho2 in thousandths."""

    rho1: int
    rho2: int

    @property
    def gamma(self) -> float:
        """The factor by which odds may change."""
        return float(amplification(Fraction(self.rho1, 1000), Fraction(self.rho2, 1000)))


def requirement(largest_share: float) -> RoundRequirement:
    """Return rho1 = the largest share, rounded up; rho2 = three times that, with odds changed at most fivefold.

    >>> requirement(0.1341), requirement(0.752), requirement(0.004)
    (RoundRequirement(rho1=150, rho2=450), RoundRequirement(rho1=800, rho2=950), RoundRequirement(rho1=10, rho2=30))
    """
    rho1 = next((clean for clean in CLEAN if clean >= 1000 * largest_share), CLEAN[-1])
    most = min(TIMES * rho1, ODDS * rho1 * 1000 // (1000 + (ODDS - 1) * rho1))
    clean = most // 10 * 10
    return RoundRequirement(rho1, clean if clean > rho1 else most)


def number(x: float) -> str:
    """Return a number as TOML has it, whole ones without a point."""
    return str(int(x)) if x == int(x) and abs(x) < 2**53 else repr(x)


def numbers(xs: Iterable[float]) -> str:
    """Return a TOML array."""
    return "[" + ", ".join(number(x) for x in xs) + "]"
