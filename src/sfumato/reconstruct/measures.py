"""Figures of a query: totals and quotients of totals, for every group and cell, with what their intervals need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.matrix import FloatArray
from sfumato.reconstruct.answer import IntArray, Quotient
from sfumato.reconstruct.figures import Cells, Figures, part_sums
from sfumato.reconstruct.query import Measure
from sfumato.reconstruct.tally import Number, Tally

Partition = tuple[IntArray, IntArray]
"""The part of each cell and of each group: the total of a share is that of both."""


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


def numbers_of(measure: Measure) -> list[Number]:
    """Return the numbers whose sums a figure needs."""
    parts = [measure.top] if measure.bottom is None else [measure.top, measure.bottom]
    return [*parts, *(one * other for one in parts for other in parts)]


def evaluate(figures: Figures, measure: Measure, partition: Partition, shown: IntArray) -> Values:
    """Return value and standard error of every group and cell that is shown."""
    top, variance = figures.total(measure.top), figures.covariance(measure.top, measure.top)
    if not measure.is_quotient:
        nothing = np.full(top[:, shown].size, np.nan)
        value, error = measure.factor * top, abs(measure.factor) * np.sqrt(np.maximum(variance, 0))
        return Values(value[:, shown].ravel(), error[:, shown].ravel(), Quotient(*[nothing] * 5))
    if measure.bottom is not None:
        bottom = figures.total(measure.bottom)
        cross = figures.covariance(measure.top, measure.bottom)
        below = figures.covariance(measure.bottom, measure.bottom)
    else:
        bottom = part_sums(top, *partition)
        cross = figures.covariance_with_part(measure.top, *partition)
        below = figures.part_variance(measure.top, *partition)
    f = measure.factor
    parts = [f * top, bottom, f**2 * variance, f * cross, below]
    return _quotient_figure(Quotient(*(array[:, shown].ravel() for array in parts)))


def _quotient_figure(q: Quotient) -> Values:
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(q.bottom > 0, q.top / q.bottom, np.nan)
        variance = q.top_variance - 2 * value * q.covariance + value**2 * q.bottom_variance
        return Values(value, np.sqrt(np.maximum(variance, 0)) / q.bottom, q)


def partition(tally: Tally, cells: Cells, names: tuple[str, ...] | None) -> Partition:
    """Return the part of each cell and of each group; the total of a share is that of both."""
    names = names or ()
    group_part = np.zeros(tally.groups, dtype=np.int64)
    for key in tally.keys:
        if key.name in names:
            group_part = np.unique(group_part, return_inverse=True)[1] * len(key.values) + key.codes
    return cells.margin(names), np.unique(group_part, return_inverse=True)[1]
