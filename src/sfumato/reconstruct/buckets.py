"""Sums over the records of each sensitive value, from Anatomy's two tables.

The QI table has every record's group g, the sensitive table the records c_gy of each group that have value y. Which
record has which value is hidden. With z_r a number of each record (1 where a condition holds, a weight, weight * x)
the sum T_y of z over the n_y records with value y is asked for, from the sums s_g of z over the groups.

Given the table and the compositions c, only the deal is random: the records of a value lie on its n_y places in the
groups, every way equally likely, each value by itself. With theta_y and sigma_y^2 mean and variance (over n_y - 1) of z
among y's records,

    E[s_g] = sum_y c_gy theta_y        Cov[s_g, s_h] = sum_y sigma_y^2 (c_gy [g = h] - c_gy c_hy/n_y)

(the second term: places of a value are filled without replacement). Least squares with w_g = 1/|g|, W = diag(w),
N = diag(n), X = (C^T W C)^-1 gives, for any weights f of the values,

    T_f = sum_y f_y n_y theta_y = sum_g a_g s_g,    a = W C X N f,    C^T a = N f    so it is unbiased
    Var[T_f] = sum_y sigma_y^2 (sum_g c_gy a_g^2 - f_y^2 n_y)                        never negative (Cauchy-Schwarz)

C^T W s is the classical estimate of Xiao and Tao (SDR Appendix 10.10): s_g c_gy/|g|, summed. Its mean is P T, with

    P[j, i] = sum_g c_gj c_gi / (|g| n_i)        columns sum to one

the chance that a random member of the group of an x_i record has x_j. So Anatomy is a perturbation by the matrix P, the
classical estimate is the published count, and least squares is the inverse estimate P^-1 of it.

Groups with the same composition are one *kind*; a deal in one order of the values makes at most one kind for each value
and one more, however many groups there are. Where there are no more kinds than values all weights w give the same
estimate. Elsewhere the best ones, by the true variances, would shorten intervals by 1% (l = 5) to 6% (l = 2); but they
differ from column to column and would have to be estimated (benchmarks/buckets.py).

How well values are told apart is up to the deal. Of a contrast between values the classical estimate keeps a share, an
eigenvalue of P, by which the inverse divides: about 1/l where compositions are well mixed, and next to nothing for some
contrasts where the values were dealt in one order.

Where the deal is random only inside strata (cells of a signature) each stratum is estimated by itself and added up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from sfumato.matrix import FloatArray
from sfumato.reconstruct.answer import IntArray, Target

Mask = npt.NDArray[np.bool_]

LEAST_EIGENVALUE = 1e-10
"""Eigenvalues of N^-1/2 C^T W C N^-1/2 lie in [0, 1]; below this one its vector counts as not identified.

Its own standard error would be sigma/sqrt(1e-10), 10^5 times the spread of the records: nothing is lost.
"""

LEAK = 1e-6
"""How much of a figure may lie in what is not identified; rounding is some 1e-16 / LEAST_EIGENVALUE."""

OWN_VARIANCE = 0.25
"""A value's own variance is used where its mean is known to a quarter of one record's variance, else the stratum's."""

PRIOR_FREEDOM = 10
"""Degrees of freedom that the estimated variances count for, against those of the residuals."""

FEW_GROUPS = 10
"""A standard error that rests on fewer groups is rough."""

BLOCK = 1 << 19
"""Numbers that are held at once."""

UNBIASED = "Unbiased over the random deal; estimates can be negative."
CLASSICAL = (
    "The classical estimate takes value and condition as independent inside a group: biased towards no association, "
    "and without error bars."
)


def _added(place: IntArray, amount: FloatArray, size: int) -> FloatArray:
    """Return the sum of the amounts at each place."""
    return np.bincount(place, amount, size).astype(np.float64, copy=False)


# --- the sensitive table --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Compositions:
    """A sparse matrix C: `count[i]` records of value `value[i]` in every group of kind `row[i]`; rows ascending."""

    row: IntArray
    value: IntArray
    count: FloatArray
    values: int

    @cached_property
    def start(self) -> IntArray:
        """Where each row starts, and where the last one ends."""
        return np.append(0, np.cumsum(np.bincount(self.row))).astype(np.int64)

    @property
    def rows(self) -> int:
        """The number of kinds."""
        return self.start.size - 1

    def times(self, x: FloatArray, rows: slice) -> FloatArray:
        """Return these rows of C x, by adding up the first entries of all rows, then the second, and so on."""
        start, length = self.start[:-1][rows], np.diff(self.start)[rows]
        product = np.zeros((start.size, x.shape[1]))
        for place in range(int(length.max(initial=0))):
            long = np.flatnonzero(length > place)
            entry = start[long] + place
            product[long] += self.count[entry, None] * x[self.value[entry]]
        return product

    def spread(self, row: IntArray, column: IntArray, amount: FloatArray, columns: int) -> FloatArray:
        """Return C^T s, [values, columns], for s that has these amounts at these rows and columns."""
        spread = np.zeros(self.values * columns)
        start, length = self.start[row], np.diff(self.start)[row]
        for place in range(int(length.max(initial=0))):
            long = np.flatnonzero(length > place)
            entry = start[long] + place
            cell = self.value[entry] * columns + column[long]
            spread += _added(cell, amount[long] * self.count[entry], spread.size)
        return spread.reshape(self.values, columns)

    def gram(self, weight: FloatArray) -> FloatArray:
        """Return C^T diag(weight) C."""
        gram = np.zeros(self.values**2)
        for one, other in self._pairs():
            product = weight[self.row[one]] * self.count[one] * self.count[other]
            gram += _added(self.value[one] * self.values + self.value[other], product, gram.size)
        half = gram.reshape(self.values, self.values)
        return half + half.T - np.diag(np.diag(half))

    def quadratic(self, matrix: FloatArray) -> FloatArray:
        """Return c^T matrix c of each row c of C, for a symmetric matrix."""
        total = np.zeros(self.rows)
        for lag, (one, other) in enumerate(self._pairs()):
            product = self.count[one] * self.count[other] * matrix[self.value[one], self.value[other]]
            total += _added(self.row[one], product, self.rows) * (2 if lag else 1)
        return total

    def _pairs(self) -> Iterator[tuple[IntArray, IntArray]]:
        """Give all pairs of entries of a row: those at a distance of 0, of 1 (each pair once), and so on."""
        entry = np.arange(self.row.size, dtype=np.int64)
        last = self.start[self.row + 1]
        for lag in range(int(np.diff(self.start).max(initial=0))):
            entry = entry[entry + lag < last[entry]]
            yield entry, entry + lag

    def blocks(self, width: int) -> Iterator[slice]:
        """Give all rows in blocks, for arrays of this width."""
        step = max(1, BLOCK // max(width, 1))
        return (slice(first, first + step) for first in range(0, self.rows, step))


@dataclass(frozen=True, eq=False)
class Stratum:
    """The groups within which the deal was random, by kind."""

    codes: IntArray  # the values that these groups have, ascending
    counts: Compositions  # [kinds, these values]
    groups: FloatArray  # how many groups there are of each kind

    @cached_property
    def sizes(self) -> FloatArray:
        """|g| of each kind."""
        return _added(self.counts.row, self.counts.count, self.counts.rows)

    @cached_property
    def records(self) -> FloatArray:
        """n_y, the records of each value."""
        return _added(self.counts.value, self.counts.count * self.groups[self.counts.row], self.codes.size)

    @cached_property
    def spectrum(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues and eigenvectors of N^-1/2 C^T W C N^-1/2; the largest eigenvalue is 1."""
        root = np.sqrt(self.records)
        value, vector = np.linalg.eigh(self.counts.gram(self.groups / self.sizes) / root / root[:, None])
        return value, vector

    @cached_property
    def rank(self) -> int:
        """How many independent contrasts of the values the compositions tell."""
        return int((self.spectrum[0] > LEAST_EIGENVALUE).sum())

    @cached_property
    def inverse(self) -> FloatArray:
        """X = (C^T W C)^-1 on what is identified.

        X_yy sigma^2 is the variance of theta_y if all values had variance sigma^2 and were drawn with replacement.
        """
        value, vector = self.spectrum
        kept = vector[:, -self.rank :] / np.sqrt(self.records)[:, None]
        return (kept / value[-self.rank :]) @ kept.T

    def identified(self, f: FloatArray) -> Mask:
        """Return which weights f, [values, figures], give a sum that the compositions tell: N f in their row space."""
        scaled = np.sqrt(self.records)[:, None] * f
        outside = self.spectrum[1][:, : self.codes.size - self.rank].T @ scaled
        told: Mask = (outside**2).sum(axis=0) <= LEAK**2 * (scaled**2).sum(axis=0)
        return told

    @cached_property
    def own_variance(self) -> Mask:
        """The values whose mean is known well enough to tell the variance of their records."""
        known: Mask = self.identified(np.eye(self.codes.size)) & (np.diag(self.inverse) <= OWN_VARIANCE)
        return known

    @property
    def freedom(self) -> float:
        """The degrees of freedom of the residuals."""
        return float(self.groups.sum()) - self.rank

    @cached_property
    def residual_weight(self) -> FloatArray:
        """What sigma_y^2 adds to the expected residual sum of squares.

            E[sum_g w_g (s_g - c_g theta_hat)^2] = sum_y sigma_y^2 sum_g w_g c_gy (1 - w_g c_g^T X c_g)

        (Residuals are (I - H) s with H C = C: the covariances between groups, C times something, drop out.)
        """
        left = self.groups / self.sizes * np.maximum(1 - self.counts.quadratic(self.inverse) / self.sizes, 0)
        return _added(self.counts.value, self.counts.count * left[self.counts.row], self.codes.size)

    def group_weights(self, f: FloatArray, width: int = 0) -> Iterator[tuple[slice, FloatArray]]:
        """Give a = W C X N f, [kinds, figures], in blocks of kinds; `width` is that of another array beside it."""
        means = self.inverse @ (self.records[:, None] * f)
        for rows in self.counts.blocks(f.shape[1] + width):
            yield rows, self.counts.times(means, rows) / self.sizes[rows, None]


@dataclass(frozen=True, eq=False)
class Deal:
    """What the sensitive table tells, without any record: build it once, and ask many questions."""

    strata: tuple[Stratum, ...]
    kind_of_group: IntArray  # kinds are numbered through all strata
    sizes: IntArray  # |g|
    values: int  # of the domain
    first_kind: IntArray  # of each stratum, and the number of kinds

    @classmethod
    def of(
        cls, group: IntArray, value: IntArray, count: IntArray, values: int, stratum: IntArray | None = None
    ) -> Deal:
        """Return the deal of `count` records of `value` in `group`; `stratum` numbers each group's, if there are any.

        Groups, values and strata are numbered from 0.
        """
        order = np.lexsort((value, group))
        group, value, count = (np.asarray(array, dtype=np.int64)[order] for array in (group, value, count))
        _check_triples(group, value, count, values)
        sizes = np.bincount(group, count).astype(np.int64)
        inside = np.zeros(sizes.size, dtype=np.int64) if stratum is None else np.asarray(stratum, dtype=np.int64)
        if inside.shape != sizes.shape or (sizes == 0).any() or (inside < 0).any():
            raise ValueError(f"{sizes.size} groups need a composition and a stratum each, numbered from 0")
        kind_of_group, first_group = _kinds(group, value * (int(count.max()) + 1) + count, inside)
        taken = first_group[kind_of_group[group]] == group
        row = kind_of_group[group[taken]]
        order = np.flatnonzero(taken)[np.argsort(row, kind="stable")]
        of_kind = Compositions(np.sort(row), value[order], count[order].astype(np.float64), values)
        first = np.flatnonzero(np.diff(inside[first_group], prepend=-1))
        bounds = np.append(first, first_group.size).astype(np.int64)
        groups = np.bincount(kind_of_group).astype(np.float64)
        strata = tuple(_stratum(of_kind, groups, slice(*pair)) for pair in pairwise(bounds.tolist()))
        return cls(strata, kind_of_group, sizes, values, bounds)

    @property
    def records(self) -> int:
        """n, all records."""
        return int(self.sizes.sum())

    def fit(self, group: IntArray, z: FloatArray, column: IntArray | None = None, columns: int = 1) -> Fit:
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
        return Fit(self, group, z, column, columns)


def _check_triples(group: IntArray, value: IntArray, count: IntArray, values: int) -> None:
    if not group.size:
        raise ValueError("the sensitive table is empty")
    if group[0] < 0 or value.min() < 0 or value.max() >= values or count.min() < 1:
        raise ValueError(f"groups are numbered from 0, values from 0 to {values - 1}, and counts are positive")
    if ((np.diff(group) == 0) & (np.diff(value) == 0)).any():
        raise ValueError("a group names a value twice")


def _kinds(group: IntArray, entry: IntArray, stratum: IntArray) -> tuple[IntArray, IntArray]:
    """Return the kind of each group (same stratum, same entries), numbered by stratum, and each kind's first group.

    Groups that agree in their first entries are told apart by the next one, until no group has any more.
    """
    start = np.flatnonzero(np.diff(group, prepend=-1))
    length = np.diff(np.append(start, group.size))
    entry = np.unique(entry, return_inverse=True)[1].astype(np.int64)
    kind, base = stratum.copy(), int(stratum.max()) + 1
    for place in range(int(length.max())):
        long = np.flatnonzero(length > place)
        key = kind[long] * (int(entry.max()) + 1) + entry[start[long] + place]
        told = np.unique(key, return_inverse=True)[1]
        kind[long] = base + told
        base += int(told.max()) + 1
    _, first, numbers = np.unique(kind, return_index=True, return_inverse=True)
    order = np.argsort(stratum[first], kind="stable")
    place_of = np.empty(order.size, dtype=np.int64)
    place_of[order] = np.arange(order.size)
    return place_of[numbers], first[order].astype(np.int64)


def _stratum(kinds: Compositions, groups: FloatArray, rows: slice) -> Stratum:
    entries = slice(int(kinds.start[rows.start]), int(kinds.start[rows.stop]))
    codes, value = np.unique(kinds.value[entries], return_inverse=True)
    row = kinds.row[entries] - rows.start
    return Stratum(codes, Compositions(row, value.astype(np.int64), kinds.count[entries], codes.size), groups[rows])


# --- a number of each record ----------------------------------------------------------------------------------------


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
        return _added(self.column, amount[self.bins], self.columns.size)

    def constant(self, rows: FloatArray, least: FloatArray, largest: FloatArray) -> tuple[Mask, FloatArray]:
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
    constant: Mask  # whether all records have the same number: then nothing is hidden
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
        if self.part.hides:
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


@dataclass(frozen=True, eq=False)
class BucketEstimate:
    """Estimated sums, [columns, figures]."""

    value: FloatArray  # NaN where not identified
    standard_error: FloatArray  # NaN where none can be given
    identified: Mask
    notes: tuple[str, ...] = ()

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper ends of the confidence intervals."""
        half = NormalDist().inv_cdf((1 + level) / 2) * self.standard_error
        return self.value - half, self.value + half


@dataclass(frozen=True, eq=False)
class Fit:
    """A number of each record, fitted to the compositions.

    What is asked for are weights f of the values, [values, figures]: zeros and ones ask for the sum over a set of
    values. Without them each value is asked for by itself.
    """

    deal: Deal
    group: IntArray
    z: FloatArray
    column: IntArray
    columns: int

    def estimate(self, f: FloatArray | None = None, target: Target = "table") -> BucketEstimate:
        """Return the least squares estimates with standard errors."""
        f = self._asked(f)
        value, told = self._totals(f), self._identified(f)
        variance, groups = self._variance(f)
        if target == "population":
            variance = np.maximum(self._sampled(variance + self._products(self._own, f, f), value**2), variance)
        nothing = np.where(told, 0, np.nan)
        error = np.sqrt(np.maximum(variance, 0))
        return BucketEstimate(value + nothing, error + nothing, told, _notes(told, groups < FEW_GROUPS))

    def classical(self, f: FloatArray | None = None) -> BucketEstimate:
        """Return sum_g s_g c_gy/|g|, SDR Appendix 10.10. No coverage is claimed."""
        f = self._asked(f)
        value = np.zeros((self.columns, f.shape[1]))
        for part in self.parts:
            value[part.place.columns] += part.classical.T @ f[part.stratum.codes]
        return BucketEstimate(value, np.full(value.shape, np.nan), np.ones(value.shape, dtype=np.bool_), (CLASSICAL,))

    def blocks(self, f: FloatArray | None = None, target: Target = "table") -> FloatArray:
        """Return the covariances between the figures of each column, [columns, figures, figures]."""
        f = self._asked(f)
        blocks, products = np.zeros((2, self.columns, f.shape[1], f.shape[1]))
        for pair in self._own:
            columns, own = pair.part.place.columns, f[pair.part.stratum.codes]
            for a, spread, groups in pair.group_terms(own):
                blocks[columns] += _weighted_squares(a, groups * spread)
            blocks[columns] -= _weighted_squares(own, pair.fixed)
            products[columns] += _weighted_squares(own, pair.products)
        if target == "population":
            value = self._totals(f)
            blocks = self._sampled(blocks + products, value[:, :, None] * value[:, None, :])
        nothing = np.where(self._identified(f), 0, np.nan)
        return blocks + nothing[:, :, None] + nothing[:, None, :]

    def covariance(
        self,
        other: Fit,
        f: FloatArray | None = None,
        other_f: FloatArray | None = None,
        pairing: IntArray | None = None,
        target: Target = "table",
    ) -> FloatArray:
        """Return the covariance of each figure with one of another number of the same records, [columns, figures].

        Column k goes with the other's column pairing[k] (by default k), and each figure of f with that of other_f. An
        average needs it (the sums of weight * x and of weight), and a share (a column and all columns of its part).
        """
        f = self._asked(f)
        other_f = f if other_f is None else self._asked(other_f)
        pairing = np.arange(self.columns) if pairing is None else np.asarray(pairing, dtype=np.int64)
        covariance, figures, pairs = np.zeros((self.columns, f.shape[1])), f.shape[1], self._pairs(other, pairing)
        for pair in pairs:
            columns, own, others = pair.part.place.columns, f[pair.part.stratum.codes], other_f[pair.part.stratum.codes]
            for a, spread, groups in pair.group_terms(np.hstack([own, others])):
                covariance[columns] += (groups * spread).T @ (a[:, :figures] * a[:, figures:])
            covariance[columns] -= pair.fixed.T @ (own * others)
        if target == "population":
            total, other_total = self._totals(f), other._totals(other_f)[pairing]
            covariance = self._sampled(covariance + self._products(pairs, f, other_f), total * other_total)
        told = self._identified(f) & other._identified(other_f)[pairing]
        return np.where(told, covariance, np.nan)

    # --- totals -----------------------------------------------------------------------------------------------------

    @cached_property
    def _bins(self) -> Bins:
        return Bins.of(self.deal.kind_of_group[self.group] * self.columns + self.column)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The number within each stratum that has records with it."""
        total, square, rows = (self._bins.sums(array) for array in (self.z, self.z**2, np.ones(self.z.size)))
        ends, between = self._bins.ends(self.z), self._between()
        return tuple(
            Part(
                place,
                place.classical(total),
                place.classical(square),
                place.total(total),
                place.total(square),
                place.total(between),
                *place.constant(rows, *ends),
            )
            for place in self._places()
        )

    def _between(self) -> FloatArray:
        """Return s_g^2/|g| of each group and column, added up in their bins."""
        by_group = Bins.of(self.group * self.columns + self.column)
        group, column = np.divmod(by_group.key, self.columns)
        bin_of = np.searchsorted(self._bins.key, self.deal.kind_of_group[group] * self.columns + column)
        return _added(bin_of, by_group.sums(self.z) ** 2 / self.deal.sizes[group], self._bins.key.size)

    def _places(self) -> Iterator[Place]:
        kind, column = np.divmod(self._bins.key, self.columns)
        bounds = np.searchsorted(kind, self.deal.first_kind)
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            bins = slice(int(bounds[number]), int(bounds[number + 1]))
            columns, place = np.unique(column[bins], return_inverse=True)
            within = kind[bins] - self.deal.first_kind[number]
            yield Place(self.deal.strata[number], bins, within, columns, place.astype(np.int64))

    def _asked(self, f: FloatArray | None) -> FloatArray:
        f = np.eye(self.deal.values) if f is None else np.asarray(f, dtype=np.float64)
        if f.ndim != 2 or len(f) != self.deal.values:
            raise ValueError(f"weights are [values, figures] for {self.deal.values} values, not {f.shape}")
        return f

    def _totals(self, f: FloatArray) -> FloatArray:
        totals = np.zeros((self.columns, f.shape[1]))
        for part in self.parts:
            totals[part.place.columns] += (part.stratum.records[:, None] * part.mean).T @ f[part.stratum.codes]
        return totals

    def _identified(self, f: FloatArray) -> Mask:
        """Return which figures every stratum tells; a column that is constant in it needs no telling."""
        told = np.ones((self.columns, f.shape[1]), dtype=np.bool_)
        for part in self.parts:
            if part.hides:
                hidden = part.place.columns[~part.constant]
                told[hidden] &= part.stratum.identified(f[part.stratum.codes])
        return told

    # --- variances --------------------------------------------------------------------------------------------------

    @cached_property
    def calibration(self) -> FloatArray:
        """What multiplies the variances of each column, so that the residuals are as large as they should be."""
        residuals = np.zeros((3, self.columns))
        for part in self.parts:
            residuals[:, part.place.columns] += part.residuals
        found, due, freedom = residuals
        ratio = np.divide(found, due, out=np.ones(self.columns), where=due > 0)
        return (freedom * ratio + PRIOR_FREEDOM) / (freedom + PRIOR_FREEDOM)

    @cached_property
    def _own(self) -> list[Pair]:
        return [Pair(part, part.variance * self.calibration[part.place.columns], part.square) for part in self.parts]

    def _pairs(self, other: Fit, pairing: IntArray) -> list[Pair]:
        """Return the pairs with another number; a covariance is never larger than the two variances allow."""
        if not np.array_equal(self.group, other.group):
            raise ValueError("two numbers have a covariance if they are numbers of the same records")
        together = other.column == pairing[self.column]
        product = self._bins.sums(np.where(together, self.z * other.z, 0))
        factor = np.sqrt(self.calibration * other.calibration[pairing])
        others = {id(pair.part.stratum): pair for pair in other._own}
        return [
            _paired(own, others[id(own.part.stratum)], product, pairing[own.part.place.columns], factor)
            for own in self._own
        ]

    def _variance(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the variances given the table, and how many groups they rest on: (sum v)^2 / sum v^2."""
        first, second, fixed = np.zeros((3, self.columns, f.shape[1]))
        for pair in self._own:
            columns, own = pair.part.place.columns, f[pair.part.stratum.codes]
            for a, spread, groups in pair.group_terms(own):
                square = a**2
                first[columns] += (groups * spread).T @ square
                second[columns] += (groups * spread**2).T @ square**2
            fixed[columns] += pair.fixed.T @ own**2
        return first - fixed, np.divide(first**2, second, out=np.full(first.shape, np.inf), where=second > 0)

    def _products(self, pairs: list[Pair], f: FloatArray, other_f: FloatArray) -> FloatArray:
        """Return the estimated sums of z z' f f' over the records."""
        products = np.zeros((self.columns, f.shape[1]))
        for pair in pairs:
            codes = pair.part.stratum.codes
            products[pair.part.place.columns] += pair.products.T @ (f[codes] * other_f[codes])
        return products

    def _sampled(self, squares: FloatArray, product: FloatArray) -> FloatArray:
        """Return the covariance if the records are a random sample: n/(n-1) (Cov + sum_r z_r z'_r f f' - T T'/n).

        (Cov given the table, and the covariance of the totals; E[T_hat T_hat'] = T T' + Cov.)
        """
        n = self.deal.records
        return (squares - product / n) * (n / max(n - 1, 1))


def _paired(own: Pair, other: Pair, product: FloatArray, wanted: IntArray, factor: FloatArray) -> Pair:
    """Return the pair of a number with the wanted columns of another one; zero where the stratum has none of them."""
    part, columns = own.part, other.part.place.columns
    place = np.minimum(np.searchsorted(columns, wanted), columns.size - 1)
    there = columns[place] == wanted
    mean, total, variance = (
        np.where(there, array[..., place], 0) for array in (other.part.mean, other.part.total, other.within)
    )
    products = part.solved(part.place.classical(product), part.level * mean)
    whole = part.covariance(part.place.total(product), total)
    inside = part.within(products - part.mean * mean, whole) * factor[part.place.columns]
    limit = np.sqrt(own.within * variance)
    return Pair(part, np.clip(inside, -limit, limit), products)


def _weighted_squares(a: FloatArray, weight: FloatArray) -> FloatArray:
    """Return sum_r weight[r, k] a[r, f] a[r, h], as [k, f, h]."""
    return np.stack([(a * column[:, None]).T @ a for column in weight.T])


def _notes(told: Mask, few: Mask) -> tuple[str, ...]:
    notes = [UNBIASED]
    if not told.all():
        notes.append(f"The compositions of the groups do not tell {(~told).sum()} of {told.size} figures: NaN.")
    if (few & told).any():
        rough = f"{(few & told).sum()} of {told.size} figures"
        notes.append(f"{rough} rest on fewer than {FEW_GROUPS} groups: their intervals are rough.")
    return tuple(notes)
