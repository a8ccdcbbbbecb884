"""Risks compared in a 2 x 2 table of estimated counts: difference, ratio, odds ratio, with Fieller's intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from sfumato.errors import UsageError
from sfumato.values.arrays import FloatArray


@dataclass(frozen=True)
class Strength:
    """A measure of association with its interval. NaN where the release does not tell; ends may be infinite."""

    name: str
    estimate: float
    standard_error: float
    lower: float
    upper: float
    naive: float  # of the published rows, not corrected
    bias: float  # naive - estimate
    note: str = ""


def two_by_two(
    x: FloatArray, covariance: FloatArray, published: FloatArray, level: float = 0.95
) -> tuple[Strength, ...]:
    """Compare the risk of the exposed (first row) with that of the others; the outcome is the first column.

    With cells a, b and c, d every measure is a quotient of products, and its interval is Fieller's:

        risk difference   (ad - bc)/((a + b)(c + d))
        risk ratio        a (c + d)/(c (a + b))
        odds ratio        ad/(bc)

    Where noise hides whether the denominator is 0 there is no upper end, and a note says which risk is not known.
    """
    if x.shape != (2, 2):
        raise UsageError(
            f"Risks are compared in a 2 x 2 table, not {' x '.join(map(str, x.shape))}.",
            "Name one value of each variable: it is compared with all the others together.",
        )
    check_level(level)
    return tuple(
        _compared(quotient, x.ravel(), covariance.reshape(4, 4), published.ravel(), level)
        for quotient in (RISK_DIFFERENCE, RISK_RATIO, ODDS_RATIO)
    )


@dataclass(frozen=True, eq=False)
class _Quotient:
    """A measure of a 2 x 2 table as a quotient of two sums of products of cells."""

    name: str
    top: FloatArray  # Q with value z'Q z/2 and gradient Q z, z the four cells
    bottom: FloatArray
    lowest: float
    highest: float
    positive: tuple[tuple[int, ...], ...]  # the sums of cells without which there is no estimate
    top_hidden: str  # what to say where the numerator is not told apart from 0
    bottom_hidden: str


def _products(*pairs: tuple[int, int]) -> FloatArray:
    """Return Q with z'Q z/2 = the sum of the products z_i z_j."""
    q = np.zeros((4, 4))
    for i, j in pairs:
        q[i, j] = q[j, i] = 1
    return q


A, B, C, D = range(4)
RISK_DIFFERENCE = _Quotient(
    "risk difference",
    _products((A, D)) - _products((B, C)),
    _products((A, C), (A, D), (B, C), (B, D)),
    -1.0,
    1.0,
    ((A, B), (C, D)),
    "",
    "The number of records in a row is not told apart from 0.",
)
RISK_RATIO = _Quotient(
    "risk ratio",
    _products((A, C), (A, D)),
    _products((A, C), (B, C)),
    0.0,
    math.inf,
    ((A, B), (C, D), (A,), (C,)),
    "The first risk is not told apart from 0.",
    "The second risk is not told apart from 0: there is no upper end.",
)
ODDS_RATIO = _Quotient(
    "odds ratio",
    _products((A, D)),
    _products((B, C)),
    0.0,
    math.inf,
    ((A,), (B,), (C,), (D,)),
    "The first risk is not told apart from 0, or the second from 1.",
    "The second risk is not told apart from 0, or the first from 1: there is no upper end.",
)


def _compared(quotient: _Quotient, z: FloatArray, covariance: FloatArray, counts: FloatArray, level: float) -> Strength:
    top, bottom = (float(z @ q @ z) / 2 for q in (quotient.top, quotient.bottom))
    gradients = np.array([quotient.top @ z, quotient.bottom @ z])
    spread = gradients @ covariance @ gradients.T  # of top and bottom
    lower, upper = _fieller(top, bottom, spread, level, quotient.lowest < 0)
    notes = [
        quotient.top_hidden if lower <= 0 else "",
        quotient.bottom_hidden if math.isinf(upper) else "",
    ]
    estimate = error = math.nan
    if all(z[list(cells)].sum() > 0 for cells in quotient.positive):
        estimate = min(max(top / bottom, quotient.lowest), quotient.highest)
        error = math.sqrt(max(np.array([1, -estimate]) @ spread @ np.array([1, -estimate]), 0.0)) / bottom
    below = float(counts @ quotient.bottom @ counts)
    naive = float(counts @ quotient.top @ counts) / below if below > 0 else math.nan
    lower, upper = (min(max(end, quotient.lowest), quotient.highest) for end in (lower, upper))
    note = " ".join(filter(None, notes))
    return Strength(quotient.name, estimate, error, lower, upper, naive, naive - estimate, note)


def _fieller(top: float, bottom: float, spread: FloatArray, level: float, signed: bool) -> tuple[float, float]:
    """Return the ends of all t with (top - t bottom)^2 <= z^2 Var(top - t bottom): infinite where bottom may be 0.

    The true bottom is positive, and so is the true top unless `signed`: an estimate below 0 counts as 0, so that the
    interval is never empty.
    """
    top = top if signed else max(top, 0.0)
    (v_top, v_both), (_, v_bottom) = spread * NormalDist().inv_cdf((1 + level) / 2) ** 2
    square, mixed, constant = bottom**2 - v_bottom, top * bottom - v_both, top**2 - v_top
    root = math.sqrt(max(mixed**2 - square * constant, 0.0))
    if bottom > 0 and square > 0:
        return (mixed - root) / square, (mixed + root) / square
    if square < 0 < constant and not signed:
        return (mixed - root) / square, math.inf
    return -math.inf, math.inf


def check_level(level: float) -> None:
    """Raise unless it is a probability."""
    if not 0 < level < 1:
        raise UsageError(f"A level of {level} is no probability.", "Give a level between 0 and 1, such as 0.95.")
