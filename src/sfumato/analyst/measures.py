"""Figures of a query: totals and quotients of totals, for every group and cell, with what their intervals need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.analyst.answer import Quotient
from sfumato.analyst.ask.cells import Estimates, Partition, PartTotals
from sfumato.analyst.ask.query import Measure
from sfumato.analyst.counting.tally import Number
from sfumato.values.arrays import FloatArray, IntArray

NEGLIGIBLE = 1e-9
"""Of what was summed: a total below that is nothing but rounding, and nothing can be divided by it."""


@dataclass(frozen=True, eq=False)
class Values:
    """A figure of each row; its quotient is NaN where it is none."""

    value: FloatArray
    error: FloatArray
    quotient: Quotient

    def take(self, rows: IntArray) -> Values:
        return Values(self.value[rows], self.error[rows], self.quotient.take(rows))

    @classmethod
    def joined(cls, parts: Sequence[Values]) -> Values:
        """Return the rows of one after those of the other."""
        return cls._combined(parts, np.concatenate)

    @classmethod
    def interleaved(cls, figures: Sequence[Values]) -> Values:
        """Return the figures of the first row, then those of the second, and so on."""
        return cls._combined(figures, lambda arrays: np.stack(arrays, axis=1).ravel())

    @classmethod
    def _combined(cls, parts: Sequence[Values], combine: Callable[[list[FloatArray]], FloatArray]) -> Values:
        names = Quotient.__dataclass_fields__
        quotient = Quotient(*(combine([getattr(part.quotient, name) for part in parts]) for name in names))
        return cls(combine([p.value for p in parts]), combine([p.error for p in parts]), quotient)


def totals_of(measure: Measure) -> list[Number]:
    """Return the numbers whose totals a figure consists of."""
    return [measure.top] if measure.bottom is None else [measure.top, measure.bottom]


def products_of(measure: Measure) -> list[Number]:
    """Return their products, whose sums variances need."""
    return [one * other for one in totals_of(measure) for other in totals_of(measure)]


def evaluate(figures: Estimates, measure: Measure, partition: Partition, shown: IntArray) -> Values:
    """Return value and standard error of every group and cell that is shown; NaN where a number is infinite."""
    with np.errstate(invalid="ignore", over="ignore"):
        found = _evaluated(figures, measure, partition, shown)
    is_none = ~np.isfinite(found.value)
    return Values(np.where(is_none, np.nan, found.value), np.where(is_none, np.nan, found.error), found.quotient)


def _evaluated(figures: Estimates, measure: Measure, partition: Partition, shown: IntArray) -> Values:
    top, variance = figures.total(measure.top), figures.covariance(measure.top, measure.top)
    slack = figures.slack(measure.top)
    f = measure.factor
    if not measure.is_quotient:
        nothing = np.full(top[:, shown].size, np.nan)
        value, error = f * top, abs(f) * (np.sqrt(np.maximum(variance, 0)) + slack)
        return Values(value[:, shown].ravel(), error[:, shown].ravel(), Quotient(*[nothing] * 5))
    if measure.bottom is not None:
        below = PartTotals(
            figures.total(measure.bottom),
            figures.covariance(measure.top, measure.bottom),
            figures.covariance(measure.bottom, measure.bottom),
            figures.slack(measure.bottom),
        )
        nothing = NEGLIGIBLE * np.repeat(figures.magnitude(measure.bottom)[:, None], top.shape[1], axis=1)
    else:
        below = figures.of_parts(measure.top, partition)
        each = NEGLIGIBLE * figures.magnitude(measure.top)[:, None] / top.shape[1]
        nothing = partition.sums(np.repeat(each, top.shape[1], axis=1))
    below = below._replace(total=np.where(np.abs(below.total) <= nothing, 0, below.total))
    parts = [f * top, below.total, f**2 * variance, f * below.covariance, below.variance]
    quotient = Quotient(*(array[:, shown].ravel() for array in parts))
    return _quotient_figure(widened(quotient, *(array[:, shown].ravel() for array in (abs(f) * slack, below.slack))))


def widened(q: Quotient, top: FloatArray, bottom: FloatArray) -> Quotient:
    """Return a quotient whose top and bottom may be off by so much, besides what chance does.

    For every r, with d the standard error of top - r bottom by chance, its interval needs d + top + |r| bottom. Its
    square is at most (1 + e) d^2 + (1 + 1/e) ((1 + k) top^2 + (1 + 1/k) r^2 bottom^2) for all e, k > 0, with equality
    at the estimated r for e = (top + |r| bottom)/d and k = |r| bottom/top.
    """
    if not (top.any() or bottom.any()):
        return q
    with np.errstate(divide="ignore", invalid="ignore"):
        r = np.abs(np.where(q.bottom > 0, q.top / q.bottom, 1))
        chance = np.sqrt(np.maximum(q.top_variance - 2 * r * q.covariance + r**2 * q.bottom_variance, 0))
        e = np.clip((top + r * bottom) / chance, 0.01, 100)
        k = np.clip(r * bottom / top, 0.01, 100)
    e, k = (np.where(np.isnan(each), 1, each) for each in (e, k))
    return Quotient(
        q.top,
        q.bottom,
        (1 + e) * q.top_variance + (1 + 1 / e) * (1 + k) * top**2,
        (1 + e) * q.covariance,
        (1 + e) * q.bottom_variance + (1 + 1 / e) * (1 + 1 / k) * bottom**2,
    )


def _quotient_figure(q: Quotient) -> Values:
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(q.bottom > 0, q.top / q.bottom, np.nan)
        variance = q.top_variance - 2 * value * q.covariance + value**2 * q.bottom_variance
        error = np.sqrt(np.maximum(variance, 0)) / q.bottom
    nothing = np.where(np.isnan(error) & ~np.isnan(value), np.nan, 0)  # no error is known, so there are no ends
    return Values(value, error, Quotient(*(getattr(q, name) + nothing for name in q.__dataclass_fields__)))
