"""Risks compared in a 2 x 2 table of estimated counts: difference, ratio, odds ratio, with Fieller's intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from sfumato.analyst.answer import check_level
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
    given = (x.ravel(), covariance.reshape(4, 4), published.ravel(), level)
    return tuple(_compared(measure, *given) for measure in MEASURES)


def two_risks(
    x: FloatArray, covariance: FloatArray, published: FloatArray, level: float = 0.95
) -> tuple[Strength, ...]:
    """Return the risk of the exposed, a/(a + b), and that of the others, c/(c + d)."""
    names = ("risk of the exposed", "risk of the others")
    return tuple(_risk(row, name, x, covariance, published, level) for row, name in enumerate(names))


@dataclass(frozen=True, eq=False)
class Measured:
    """A measure of a 2 x 2 table as a quotient of two sums of products of cells."""

    name: str
    top: FloatArray  # Q with value z'Q z/2 and gradient Q z, z the four cells
    bottom: FloatArray
    lowest: float
    highest: float
    positive: tuple[tuple[int, ...], ...]  # the sums of cells without which there is no estimate
    top_hidden: str  # what to say where the numerator is not told apart from 0
    bottom_hidden: str

    def named(self, name: str) -> Measured:
        """Return it under another name."""
        return replace(self, name=name)


def products_of(*pairs: tuple[int, int]) -> FloatArray:
    """Return Q with z'Q z/2 = the sum of the products z_i z_j."""
    q = np.zeros((4, 4))
    for i, j in pairs:
        q[i, j] = q[j, i] = 1
    return q


A, B, C, D = range(4)
RISK_DIFFERENCE = Measured(
    "risk difference",
    products_of((A, D)) - products_of((B, C)),
    products_of((A, C), (A, D), (B, C), (B, D)),
    -1.0,
    1.0,
    ((A, B), (C, D)),
    "",
    "The number of records in a row is not told apart from 0.",
)
RISK_RATIO = Measured(
    "risk ratio",
    products_of((A, C), (A, D)),
    products_of((A, C), (B, C)),
    0.0,
    math.inf,
    ((A, B), (C, D), (A,), (C,)),
    "The first risk is not told apart from 0.",
    "The second risk is not told apart from 0: there is no upper end.",
)
ODDS_RATIO = Measured(
    "odds ratio",
    products_of((A, D)),
    products_of((B, C)),
    0.0,
    math.inf,
    ((A,), (B,), (C,), (D,)),
    "The first risk is not told apart from 0, or the second from 1.",
    "The second risk is not told apart from 0, or the first from 1: there is no upper end.",
)


RISK = replace(
    RISK_RATIO,
    highest=1.0,
    positive=(),
    top_hidden="",
    bottom_hidden="The number of records in a row is not told apart from 0.",
)
MEASURES = (RISK_DIFFERENCE, RISK_RATIO, ODDS_RATIO)


def _compared(measure: Measured, z: FloatArray, covariance: FloatArray, counts: FloatArray, level: float) -> Strength:
    top, bottom = (float(z @ q @ z) / 2 for q in (measure.top, measure.bottom))
    gradients = np.array([measure.top @ z, measure.bottom @ z])
    below = float(counts @ measure.bottom @ counts)
    naive = float(counts @ measure.top @ counts) / below if below > 0 else math.nan
    is_there = all(z[list(cells)].sum() > 0 for cells in measure.positive)
    return compared(measure, (top, bottom, gradients @ covariance @ gradients.T, naive), level, is_there)


def compared(
    measure: Measured, parts: tuple[float, float, FloatArray, float], level: float, is_there: bool = True
) -> Strength:
    """Return a measure of its top, its bottom, the spread of both, and the figure of the published rows."""
    top, bottom, spread, naive = parts
    lower, upper = _fieller(top, bottom, spread, level, measure.lowest < 0)
    notes = [
        measure.top_hidden if lower <= 0 else "",
        measure.bottom_hidden if math.isinf(upper) else "",
    ]
    estimate = error = math.nan
    if is_there and bottom > 0:
        estimate = min(max(top / bottom, measure.lowest), measure.highest)
        error = math.sqrt(max(np.array([1, -estimate]) @ spread @ np.array([1, -estimate]), 0.0)) / bottom
    lower, upper = (min(max(end, measure.lowest), measure.highest) for end in (lower, upper))
    note = " ".join(filter(None, notes))
    return Strength(measure.name, estimate, error, lower, upper, naive, naive - estimate, note)


def _risk(row: int, name: str, z: FloatArray, covariance: FloatArray, counts: FloatArray, level: float) -> Strength:
    """Return the risk of the exposed, a/(a + b), or of the others, c/(c + d)."""
    cells, adding = np.zeros(4), np.zeros(4)
    cells[2 * row], adding[2 * row : 2 * row + 2] = 1, 1
    both = np.array([cells, adding])
    (top, bottom), (case, everybody) = both @ z.ravel(), both @ counts.ravel()
    naive = float(case / everybody) if everybody > 0 else math.nan
    share = RISK.named(name)
    return compared(share, (float(top), float(bottom), both @ covariance @ both.T, naive), level)


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
