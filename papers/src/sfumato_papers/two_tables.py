"""Anatomy's two tables given as arrays, record by record, and what least squares makes of them.

Studies deal thousands of tables without publishing any; a release is read by `sfumato.analyst.grouped` in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.analyst.answer import Target
from sfumato.analyst.grouped.buckets import Binned, Fit, With
from sfumato.analyst.grouped.compositions import Deal, Kinds
from sfumato.values.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class DealtTable(Deal):
    """What the sensitive table tells, without any record: build it once, and ask many questions."""

    kind_of_group: IntArray
    sizes: IntArray  # of the groups
    values: int  # of the domain

    @classmethod
    def of(
        cls, group: IntArray, value: IntArray, count: IntArray, values: int, stratum: IntArray | None = None
    ) -> DealtTable:
        """Return the deal of `count` records of `value` in `group`; `stratum` numbers each group's, if there are any.

        Groups, values and strata are numbered from 0.
        """
        triples = np.stack([group, value, count]).astype(np.int64)
        group, value, count = triples[:, np.lexsort((value, group))]
        if not group.size:
            raise ValueError("the sensitive table is empty")
        if group[0] < 0 or value.min() < 0 or value.max() >= values or count.min() < 1:
            raise ValueError(f"groups are numbered from 0, values from 0 to {values - 1}, and counts are positive")
        if ((np.diff(group) == 0) & (np.diff(value) == 0)).any():
            raise ValueError("a group names a value twice")
        sizes = np.bincount(group, count).astype(np.int64)
        inside = np.zeros(sizes.size, dtype=np.int64) if stratum is None else np.asarray(stratum, dtype=np.int64)
        if inside.shape != sizes.shape or (sizes == 0).any() or (inside < 0).any():
            raise ValueError(f"{sizes.size} groups need a composition and a stratum each, numbered from 0")
        kinds = Kinds.of(group, value, count, inside)
        deal = kinds.deal(values)
        return cls(deal.strata, deal.first_kind, kinds.of_group, sizes, values)

    def fit(self, group: IntArray, z: FloatArray, column: IntArray | None = None, columns: int = 1) -> Fitted:
        """Return what least squares makes of a number of each record.

        `column` divides the records into disjoint parts, 0 to columns - 1 (the groups of a GROUP BY): each is a number
        that is zero elsewhere. Records with z = 0 may be left out.
        """
        group, z = np.asarray(group, dtype=np.int64), np.asarray(z, dtype=np.float64)
        column = np.zeros(group.size, dtype=np.int64) if column is None else np.asarray(column, dtype=np.int64)
        if not group.shape == z.shape == column.shape:
            raise ValueError(f"{group.size} records have {z.size} numbers and {column.size} columns")
        if group.size and (group.min() < 0 or group.max() >= self.sizes.size):
            raise ValueError("a record is in a group that the sensitive table does not have")
        if (np.bincount(group, minlength=self.sizes.size) > self.sizes).any():
            raise ValueError("a group has more records than the sensitive table says")
        if group.size and (column.min() < 0 or column.max() >= columns):
            raise ValueError(f"columns are numbered from 0 to {columns - 1}")
        key, place = np.unique(self.kind_of_group[group] * columns + column, return_inverse=True)
        cell, inside = np.unique(group * columns + column, return_inverse=True)
        of_group, of_column = np.divmod(cell, columns)
        share = np.bincount(inside, z, cell.size) ** 2 / self.sizes[of_group]
        bin_of = np.searchsorted(key, self.kind_of_group[of_group] * columns + of_column)
        rows, total, square = (_summed(place, amount, key.size) for amount in (np.ones(z.size), z, z**2))
        ends = np.full(key.size, np.inf), np.full(key.size, -np.inf)
        np.minimum.at(ends[0], place, z)
        np.maximum.at(ends[1], place, z)
        binned = Binned(key, rows, total, square, _summed(bin_of, share, key.size), *ends)
        return Fitted(self, binned, columns, group, z, column, place)


def _summed(place: IntArray, amount: FloatArray, size: int) -> FloatArray:
    return np.bincount(place, amount, size).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimated sums, [columns, figures]."""

    value: FloatArray  # NaN where not identified
    standard_error: FloatArray
    identified: BoolArray
    groups: FloatArray  # that the standard error rests on


@dataclass(frozen=True, eq=False)
class Fitted(Fit):
    """A number of each record, fitted to the compositions; weights f of the values are [values, figures].

    Without weights each value is asked for by itself.
    """

    deal: DealtTable
    group: IntArray
    z: FloatArray
    column: IntArray
    bins: IntArray

    def estimate(self, f: FloatArray | None = None, target: Target = "table") -> Estimate:
        """Return the least squares estimates with standard errors."""
        f = self._asked(f)
        value, told, (variance, groups) = self.totals(f), self.identified(f), self.variance(f)
        if target == "population":
            variance = np.maximum(self._sampled(variance + self.products(f, None), value**2), variance)
        nothing = np.where(told, 0, np.nan)
        return Estimate(value + nothing, np.sqrt(np.maximum(variance, 0)) + nothing, told, groups)

    def blocks(self, f: FloatArray | None = None, target: Target = "table") -> FloatArray:
        """Return the covariances between the figures of each column, [columns, figures, figures]."""
        f = self._asked(f)
        blocks = self.given(f, None, jointly=True)
        if target == "population":
            value = self.totals(f)
            squares = blocks + self.products(f, None, jointly=True)
            blocks = self._sampled(squares, value[:, :, None] * value[:, None, :])
        nothing = np.where(self.identified(f), 0, np.nan)
        return blocks + nothing[:, :, None] + nothing[:, None, :]

    def covariance(
        self,
        other: Fitted,
        f: FloatArray | None = None,
        other_f: FloatArray | None = None,
        pairing: IntArray | None = None,
        target: Target = "table",
    ) -> FloatArray:
        """Return the covariance of each figure with one of another number of the same records, [columns, figures].

        Column k goes with the other's column pairing[k] (by default k), and each figure of f with that of other_f.
        """
        if not np.array_equal(self.group, other.group):
            raise ValueError("two numbers have a covariance if they are numbers of the same records")
        f = self._asked(f)
        other_f = f if other_f is None else self._asked(other_f)
        pairing = np.arange(self.columns) if pairing is None else np.asarray(pairing, dtype=np.int64)
        product = np.where(other.column == pairing[self.column], self.z * other.z, 0)
        summed = _summed(self.bins, product, self.binned.key.size)
        other_one = With(other, other_f, pairing, summed)
        covariance = self.given(f, other_one)
        if target == "population":
            totals = self.totals(f) * other.totals(other_f)[pairing]
            covariance = self._sampled(covariance + self.products(f, other_one), totals)
        told = self.identified(f) & other.identified(other_f)[pairing]
        return np.where(told, covariance, np.nan)

    def _asked(self, f: FloatArray | None) -> FloatArray:
        f = np.eye(self.deal.values) if f is None else np.asarray(f, dtype=np.float64)
        if f.ndim != 2 or len(f) != self.deal.values:
            raise ValueError(f"weights are [values, figures] for {self.deal.values} values, not {f.shape}")
        return f

    def _sampled(self, squares: FloatArray, product: FloatArray) -> FloatArray:
        """Return the covariance if the records are a random sample: n/(n-1) (Cov + sum_r z_r z'_r f f' - T T'/n)."""
        n = int(self.deal.sizes.sum())
        return (squares - product / n) * (n / max(n - 1, 1))
