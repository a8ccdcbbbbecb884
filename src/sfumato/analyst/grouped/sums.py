"""Sums of a number over the members of Anatomy's groups, by column and stratum; estimated: see `buckets`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.analyst.grouped.compositions import Stratum, added
from sfumato.values.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Bins:
    """Records in bins of equal keys; `key` has those that occur, ascending."""

    key: IntArray
    order: IntArray
    start: IntArray

    @classmethod
    def of(cls, key: IntArray) -> Bins:
        """Sort the records by their key."""
        order = np.argsort(key, kind="stable")
        start = np.flatnonzero(np.diff(key[order], prepend=-1))
        return cls(key[order][start], order, start)

    def sums(self, z: FloatArray) -> FloatArray:
        """Return the sum of the numbers of each bin."""
        return self._reduced(np.add, z)

    def ends(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the least and the largest number of each bin."""
        return self._reduced(np.minimum, z), self._reduced(np.maximum, z)

    def _reduced(self, how: np.ufunc, z: FloatArray) -> FloatArray:
        reduced: FloatArray = how.reduceat(z[self.order], self.start) if self.start.size else np.zeros(0)
        return reduced


@dataclass(frozen=True, eq=False)
class Binned:
    """A number of the records, summed over the bins of a kind of groups and a column; arrays have one entry a bin."""

    key: IntArray  # kind * columns + column, ascending
    rows: FloatArray
    total: FloatArray  # the sum of z
    square: FloatArray  # the sum of z^2
    between: FloatArray  # the sum of s_g^2/|g| over the groups
    least: FloatArray
    largest: FloatArray


@dataclass(frozen=True, eq=False)
class Records:
    """The same, record by record."""

    group: IntArray
    z: FloatArray
    column: IntArray
    bins: Bins

    def product(self, other: Records, pairing: IntArray) -> FloatArray:
        """Return the sum of z z' of each bin, over the records whose column goes with the other's."""
        if not np.array_equal(self.group, other.group):
            raise ValueError("two numbers have a covariance if they are numbers of the same records")
        return self.bins.sums(np.where(other.column == pairing[self.column], self.z * other.z, 0))

    def binned(self, kind_of_group: IntArray, sizes: IntArray, columns: int) -> Binned:
        """Return the number summed over its bins."""
        by_group = Bins.of(self.group * columns + self.column)
        group, column = np.divmod(by_group.key, columns)
        bin_of = np.searchsorted(self.bins.key, kind_of_group[group] * columns + column)
        rows, total, square = (self.bins.sums(array) for array in (np.ones(self.z.size), self.z, self.z**2))
        between = added(bin_of, by_group.sums(self.z) ** 2 / sizes[group], self.bins.key.size)
        return Binned(self.bins.key, rows, total, square, between, *self.bins.ends(self.z))


@dataclass(frozen=True, eq=False)
class Place:
    """The bins of (kind, column) that lie in a stratum, and the columns that they have."""

    stratum: Stratum
    bins: slice
    kind: IntArray  # of each bin, within the stratum
    columns: IntArray  # ascending
    column: IntArray  # of each bin, its place among the columns

    def classical(self, amount: FloatArray) -> FloatArray:
        """Return C^T W s, [values, columns], for sums over each bin."""
        shared = amount[self.bins] / self.stratum.sizes[self.kind]
        return self.stratum.counts.spread(self.kind, self.column, shared, self.columns.size)

    def total(self, amount: FloatArray) -> FloatArray:
        """Return sums over each column."""
        return added(self.column, amount[self.bins], self.columns.size)

    def constant(self, rows: FloatArray, least: FloatArray, largest: FloatArray) -> tuple[BoolArray, FloatArray]:
        """Return which columns have the same number for all records of the stratum, and that number."""
        low, high = np.full((2, self.columns.size), np.inf) * [[1], [-1]]
        np.minimum.at(low, self.column, least[self.bins])
        np.maximum.at(high, self.column, largest[self.bins])
        everywhere = self.total(rows) == self.stratum.records.sum()
        constant = (low == high) & (everywhere | (high == 0))
        return constant, np.where(constant, high, 0)


@dataclass(frozen=True, eq=False)
class Part:
    """A number within a stratum; arrays are [values, columns] or [columns]."""

    place: Place
    classical: FloatArray  # C^T W s
    squares: FloatArray  # the same for z^2
    total: FloatArray  # the sum of z
    total_square: FloatArray
    between: FloatArray  # s^T W s
    constant: BoolArray  # whether all records have the same number: then nothing is hidden
    level: FloatArray  # that number

    @property
    def stratum(self) -> Stratum:
        """The stratum; look into its spectrum only where something is hidden."""
        return self.place.stratum

    @cached_property
    def hides(self) -> bool:
        """Whether records of some column differ."""
        return not self.constant.all()

    @cached_property
    def mean(self) -> FloatArray:
        """theta_hat."""
        return self.solved(self.classical, self.level)

    @cached_property
    def square(self) -> FloatArray:
        """The mean of z^2."""
        return self.solved(self.squares, self.level**2)

    def solved(self, classical: FloatArray, level: FloatArray) -> FloatArray:
        """Return X C^T W s; the level itself where the number is constant."""
        means = self.stratum.inverse @ classical if self.hides else np.zeros_like(classical)
        return np.where(self.constant, level, means)

    @cached_property
    def variance(self) -> FloatArray:
        """sigma_y^2, before calibration."""
        whole = self.covariance(self.total_square, self.total)
        return np.maximum(self.within(self.square - self.mean**2, whole), 0)

    def covariance(self, product: FloatArray, other_total: FloatArray) -> FloatArray:
        """Return the covariance with another number among all records of the stratum, from the sum of products."""
        n = float(self.stratum.records.sum())
        return (product - self.total * other_total / n) / max(n - 1, 1)

    def within(self, own: FloatArray, whole: FloatArray) -> FloatArray:
        """Return the (co)variance among the records of each value: the value's own, or that of the whole stratum.

        `own`, the mean of squares minus theta_hat^2, is too small by Var[theta_hat], about X_yy times the variance.
        The stratum's is too large where the values' means differ: it errs on the side of wide intervals.
        """
        if not self.hides:
            return np.zeros_like(own)
        known = np.diag(self.stratum.inverse)[:, None]
        chosen = np.where(self.stratum.own_variance[:, None], own + known * whole, whole)
        return np.where(self.constant, 0, chosen)

    @property
    def residuals(self) -> FloatArray:
        """Of each column sum_g w_g (s_g - c_g theta_hat)^2, what it should be by the variances, and its freedom."""
        if not self.hides:
            return np.zeros((3, self.constant.size))
        found = np.maximum(self.between - (self.mean * self.classical).sum(axis=0), 0)
        due = self.stratum.residual_weight @ self.variance
        return np.where(self.constant, 0, [found, due, np.full(found.size, self.stratum.freedom)])


@dataclass(frozen=True, eq=False)
class Pair:
    """A number and another one within a stratum, [values, columns]."""

    part: Part
    within: FloatArray  # their covariance among the records of each value
    product: FloatArray  # the mean of z z' over the records of each value

    def group_terms(self, f: FloatArray) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
        """Give blocks of kinds: a, [kinds, figures], sum_y c_gy sigma_y^2, [kinds, columns], and how many groups."""
        stratum = self.part.stratum
        if self.part.hides and f.any():
            for rows, a in stratum.group_weights(f, self.within.shape[1]):
                yield a, stratum.counts.times(self.within, rows), stratum.groups[rows, None]

    @property
    def fixed(self) -> FloatArray:
        """n_y sigma_y^2, what is known of sums over all places of a value."""
        return self.part.stratum.records[:, None] * self.within

    @property
    def products(self) -> FloatArray:
        """The sum of z z' over the records of each value."""
        return self.part.stratum.records[:, None] * self.product
