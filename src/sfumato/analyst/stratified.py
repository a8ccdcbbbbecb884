"""Risks within strata, pooled: Mantel and Haenszel's measures, and risks standardised to one composition of strata.

A stratum s has four estimated counts z_s = (a, b, c, d): exposed with and without the outcome, others likewise, n_s
together. A measure of a 2 x 2 table is a quotient of two quadratic forms z'Q z/2 (`two_by_two`); pooled it is

    sum_s (z_s'Q z_s - tr(Q C_s))/(2 n_s)   over the same of its denominator        Mantel and Haenszel 1959

where C_s is the covariance of the counts given the table: noise alone makes the product of two estimates too large or
too small by that, which would add up over many small strata. With p_s = a/(a+b) the standardised risk of the exposed is

    sum_s w_s p_s,    w_s the share of stratum s among all records, among the exposed, or among the others

and alike for the others with c/(c+d). Intervals of quotients are Fieller's, all others those of the linear part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from sfumato.analyst.two_by_two import MEASURES, Measured, Strength, compared
from sfumato.values.arrays import BoolArray, FloatArray

Standard = Literal["all", "exposed", "others"]
STANDARDS: tuple[Standard, ...] = ("all", "exposed", "others")
WEAK = 4
"""Standard errors that the number of exposed, or of others, in a stratum should be away from 0."""


@dataclass(frozen=True, eq=False)
class Strata:
    """The counts of all strata, [strata, 4], and their covariance in the order of strata and cells."""

    counts: FloatArray
    covariance: FloatArray  # for the target
    noise: FloatArray  # [strata, 4, 4], given the table
    published: FloatArray  # [strata, 4], not corrected

    @property
    def used(self) -> BoolArray:
        """The strata that have records at all."""
        return np.asarray(self.counts.sum(axis=1) > 0)

    def measures(self, level: float, standard: Standard) -> tuple[Strength, ...]:
        """Return pooled measures and standardised risks."""
        chosen = np.flatnonzero(self.used)
        cells = (4 * chosen[:, None] + np.arange(4)).ravel()
        own = Strata(
            self.counts[chosen], self.covariance[np.ix_(cells, cells)], self.noise[chosen], self.published[chosen]
        )
        return (*own._pooled(level), *own._standardised(level, standard))

    def _pooled(self, level: float) -> tuple[Strength, ...]:
        return tuple(self._pooled_measure(measure, level) for measure in MEASURES)

    def _pooled_measure(self, measure: Measured, level: float) -> Strength:
        parts = self._pooled_parts(measure)
        is_there = measure.lowest < 0 or parts[0] > 0
        return compared(measure.named(f"{measure.name}, pooled"), parts, level, is_there)

    def _pooled_parts(self, measure: Measured) -> tuple[float, float, FloatArray, float]:
        """Return top, bottom, the spread of both, and the figure of the published rows."""
        (top, top_slope), (bottom, bottom_slope) = (self._form(q) for q in (measure.top, measure.bottom))
        slopes = np.array([top_slope, bottom_slope])
        naive_top, naive_bottom = (_summed_forms(self.published, q) for q in (measure.top, measure.bottom))
        naive = naive_top / naive_bottom if naive_bottom > 0 else math.nan
        return top, bottom, slopes @ self.covariance @ slopes.T, naive

    def _form(self, q: FloatArray) -> tuple[float, FloatArray]:
        """Return sum_s (z'Q z - tr(Q C))/(2 n), and its gradient."""
        z, n = self.counts, self.counts.sum(axis=1)
        squares = (np.einsum("si,ij,sj->s", z, q, z) - np.einsum("ij,sij->s", q, self.noise)) / 2
        slope = (z @ q) / n[:, None] - (squares / n**2)[:, None]
        return float((squares / n).sum()), slope.ravel()

    def _standardised(self, level: float, standard: Standard) -> tuple[Strength, ...]:
        risks = [_standardised_risk(self.counts, row, standard) for row in (0, 1)]
        naive = [_standardised_risk(self.published, row, standard)[0] for row in (0, 1)]
        values, slopes = np.array([risk for risk, _ in risks]), np.array([slope for _, slope in risks])
        spread = slopes @ self.covariance @ slopes.T
        note = self._weakness(standard)
        names = ("risk of the exposed, standardised", "risk of the others, standardised")
        found = [
            _wald(name, values[k], spread[k, k], naive[k], level, (0.0, 1.0), note) for k, name in enumerate(names)
        ]
        difference = spread[0, 0] - 2 * spread[0, 1] + spread[1, 1]
        found.append(
            _wald(
                "risk difference, standardised", values[0] - values[1], difference, naive[0] - naive[1], level,
                (-1.0, 1.0), note,
            )
        )  # fmt: skip
        ratio = naive[0] / naive[1] if naive[1] > 0 else math.nan
        named = MEASURES[1].named("risk ratio, standardised")
        return (*found, compared(named, (values[0], values[1], spread, ratio), level))

    def _weakness(self, standard: Standard) -> str:
        """Say where a risk is divided by a number that noise hides."""
        rows = self.counts.reshape(-1, 2, 2).sum(axis=2)  # [strata, exposed or not]
        first = np.arange(0, self.covariance.shape[0], 2)
        pairs = self.covariance[first[:, None, None] + np.arange(2)[:, None], first[:, None, None] + np.arange(2)]
        errors = np.sqrt(np.maximum(pairs.sum(axis=(1, 2)), 0)).reshape(-1, 2)
        weak = int((rows < WEAK * errors).any(axis=1).sum())
        if not weak:
            return ""
        return (
            f"In {weak} of {len(rows)} strata the exposed, or the others, are hardly told apart from 0: merge strata."
        )


def _summed_forms(counts: FloatArray, q: FloatArray) -> float:
    n = counts.sum(axis=1)
    forms = np.einsum("si,ij,sj->s", counts, q, counts) / 2
    return float(np.divide(forms, n, out=np.zeros_like(n), where=n > 0).sum())


def _standardised_risk(counts: FloatArray, row: int, standard: Standard) -> tuple[float, FloatArray]:
    """Return sum_s w_s p_s of the exposed (row 0) or the others (row 1), and its gradient by all counts."""
    with np.errstate(divide="ignore", invalid="ignore"):
        cases, all_of_row = counts[:, 2 * row], counts[:, 2 * row : 2 * row + 2].sum(axis=1)
        p = cases / all_of_row
        member = {"all": [1.0, 1, 1, 1], "exposed": [1.0, 1, 0, 0], "others": [0.0, 0, 1, 1]}[standard]
        sizes = counts @ np.array(member)
        weight = sizes / sizes.sum()
        risk = float(weight @ p)
        slope = ((p - risk) / sizes.sum())[:, None] * np.array(member)
        slope[:, 2 * row] += weight * (1 - p) / all_of_row
        slope[:, 2 * row + 1] -= weight * p / all_of_row
    return (risk if (all_of_row > 0).all() else math.nan), slope.ravel()


def _wald(
    name: str, value: float, variance: float, naive: float, level: float, ends: tuple[float, float], note: str
) -> Strength:
    error = math.sqrt(max(float(variance), 0.0)) if math.isfinite(value) else math.nan
    half = NormalDist().inv_cdf((1 + level) / 2) * error
    lower, upper = (min(max(end, ends[0]), ends[1]) for end in (value - half, value + half))
    if math.isnan(value):
        lower, upper, note = *ends, "A stratum has no record of the exposed, or of the others, as far as is told."
    return Strength(name, float(value), error, lower, upper, float(naive), float(naive - value), note)
