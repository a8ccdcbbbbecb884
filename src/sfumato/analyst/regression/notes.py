"""What must be said beside a fit, in words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sfumato.analyst.regression.equations import Equations
from sfumato.analyst.regression.solving import MORE_EVENTS, Point
from sfumato.analyst.regression.variance import WEAK, alone, events
from sfumato.values.arrays import FloatArray

FEWEST_BUCKETS = 10
FEWEST_KEPT = 50
"""Rows times squared retention, for each coefficient: about so many rows without noise tell as much."""


def of_fit(equations: Equations, best: Point, covariance: FloatArray, strength: FloatArray) -> tuple[str, ...]:
    """Return all notes of an inverse fit."""
    return (
        *_infinite(equations, best),
        *_weak(equations, strength),
        *_several(equations, best, covariance),
        *_few_buckets(equations),
        *_streamed(equations),
    )


def _infinite(equations: Equations, best: Point) -> Iterator[str]:
    for j in np.flatnonzero(best.edge):
        happened = bool(best.beta[j] < 0)
        total, error = events(equations, int(j), happened=happened)
        what, sign = ("events", "-infinity") if happened else ("rows without the event", "+infinity")
        do = MORE_EVENTS if equations.opposite[j] else "Merge this level with another one to learn more."
        yield (
            f"The coefficient of {equations.names[j]} is {sign}: the corrected number of its {what} is {total:,.0f} "
            f"+- {error:,.0f}. Its interval has one end. {do}"
        )


def _weak(equations: Equations, strength: FloatArray) -> Iterator[str]:
    weak = [f"{equations.names[j]} ({strength[j]:.1f})" for j in np.flatnonzero(strength < WEAK)]
    if weak:
        yield (
            f"The release says little about {', '.join(weak)}: the information is less than {WEAK:g} times its own "
            "noise. Rely on the score interval, not on the standard error."
        )


def _several(equations: Equations, best: Point, covariance: FloatArray) -> Iterator[str]:
    if equations.whole and not alone(equations, best, covariance):
        yield "The corrected equations may have another solution within three standard errors of this one."


def _few_buckets(equations: Equations) -> Iterator[str]:
    buckets = equations.source.buckets
    if buckets is not None and buckets.compositions.shape[0] < FEWEST_BUCKETS:
        number = buckets.compositions.shape[0]
        yield f"There are only {number} buckets. Below {FEWEST_BUCKETS} errors are themselves uncertain."


def _streamed(equations: Equations) -> Iterator[str]:
    if not equations.whole:
        yield (
            "Intervals are taken from standard errors, because the rows were read in parts. "
            "They can miss the coefficients of rare levels."
        )


def few_rows(rows: float, retention: float, coefficients: int) -> str | None:
    """Return a note where n p^2 is below 50 for each coefficient, with the retention p of the randomized columns."""
    kept = rows * retention**2
    if kept >= FEWEST_KEPT * coefficients:
        return None
    return (
        f"The noise leaves as much as about {kept:,.0f} rows without noise tell, for {coefficients} coefficients. "
        f"Below {FEWEST_KEPT} for each of them errors are themselves uncertain."
    )
