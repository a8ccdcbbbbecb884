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

import numpy as np

from sfumato.analyst.grouped.compositions import Deal, Stratum, added
from sfumato.values.arrays import BoolArray, FloatArray, IntArray

PRIOR_FREEDOM = 10
"""Degrees of freedom that the estimated variances count for, against those of the residuals."""


@dataclass(frozen=True, eq=False)
class Binned:
    """A number of the records, summed over the bins of a kind of groups and a column; arrays have one entry a bin.

    Columns divide the records into disjoint parts (the groups of a GROUP BY): each is a number that is zero elsewhere.
    """

    key: IntArray  # kind * columns + column, ascending
    rows: FloatArray
    total: FloatArray  # the sum of z
    square: FloatArray  # the sum of z^2
    between: FloatArray  # the sum of s_g^2/|g| over the groups
    least: FloatArray
    largest: FloatArray


@dataclass(frozen=True, eq=False)
class Part:
    """A number within a stratum; arrays are [values, columns] or [columns]."""

    stratum: Stratum  # look into its spectrum only where something is hidden
    binned: Binned
    bins: slice  # those of the stratum
    kind: IntArray  # of each of them, within the stratum
    columns: IntArray  # that they have, ascending
    column: IntArray  # of each bin, its place among the columns

    def spread(self, amount: FloatArray) -> FloatArray:
        """Return C^T W s, [values, columns], for sums over each bin."""
        shared = amount[self.bins] / self.stratum.sizes[self.kind]
        return self.stratum.counts.spread(self.kind, self.column, shared, self.columns.size)

    def summed(self, amount: FloatArray) -> FloatArray:
        """Return sums over each column."""
        return added(self.column, amount[self.bins], self.columns.size)

    @cached_property
    def classical(self) -> FloatArray:
        """C^T W s."""
        return self.spread(self.binned.total)

    @cached_property
    def total(self) -> FloatArray:
        """The sum of z."""
        return self.summed(self.binned.total)

    @cached_property
    def constant(self) -> BoolArray:
        """Which columns have the same number for all records of the stratum: then nothing is hidden."""
        low, high = np.full((2, self.columns.size), np.inf) * [[1], [-1]]
        np.minimum.at(low, self.column, self.binned.least[self.bins])
        np.maximum.at(high, self.column, self.binned.largest[self.bins])
        everywhere = self.summed(self.binned.rows) == self.stratum.records.sum()
        return np.asarray((low == high) & (everywhere | (high == 0)))

    @cached_property
    def level(self) -> FloatArray:
        """That number."""
        level = np.zeros(self.columns.size)
        level[self.column] = self.binned.largest[self.bins]
        return np.where(self.constant, level, 0)

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
        return self.solved(self.spread(self.binned.square), self.level**2)

    def solved(self, classical: FloatArray, level: FloatArray) -> FloatArray:
        """Return X C^T W s; the level itself where the number is constant."""
        means = self.stratum.inverse @ classical if self.hides else np.zeros_like(classical)
        return np.where(self.constant, level, means)

    @cached_property
    def variance(self) -> FloatArray:
        """sigma_y^2, before calibration."""
        whole = self.covariance(self.summed(self.binned.square), self.total)
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
        found = np.maximum(self.summed(self.binned.between) - (self.mean * self.classical).sum(axis=0), 0)
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


@dataclass(frozen=True, eq=False)
class With:
    """Another number, with weights of its own: column k of the one goes with its column pairing[k]."""

    fit: Fit
    f: FloatArray
    pairing: IntArray
    product: FloatArray | None  # the sum of z z' of each of the one's bins; None: no record has both


@dataclass(frozen=True, eq=False)
class Fit:
    """A number of each record, fitted to the compositions.

    What is asked for are weights f of the values, [values, figures]: zeros and ones ask for the sum over a set of
    values.
    """

    deal: Deal
    binned: Binned
    columns: int

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The number within each stratum that has records with it."""
        return tuple(self._parts())

    def _parts(self) -> Iterator[Part]:
        kind, column = np.divmod(self.binned.key, self.columns)
        bounds = np.searchsorted(kind, self.deal.first_kind)
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            bins = slice(int(bounds[number]), int(bounds[number + 1]))
            columns, place = np.unique(column[bins], return_inverse=True)
            within = kind[bins] - self.deal.first_kind[number]
            yield Part(self.deal.strata[number], self.binned, bins, within, columns, place.astype(np.int64))

    def classical(self, f: FloatArray) -> FloatArray:
        """Return sum_g s_g c_gy/|g|, SDR Appendix 10.10. No coverage is claimed."""
        value = np.zeros((self.columns, f.shape[1]))
        for part in self.parts:
            value[part.columns] += part.classical.T @ f[part.stratum.codes]
        return value

    def totals(self, f: FloatArray) -> FloatArray:
        """Return the estimates, [columns, figures], also of what is not identified."""
        totals = np.zeros((self.columns, f.shape[1]))
        for part in self.parts:
            known, rest = _known(f[part.stratum.codes])
            estimated = (part.stratum.records[:, None] * part.mean).T @ rest if rest.any() else 0
            totals[part.columns] += part.total[:, None] * known + estimated
        return totals

    def identified(self, f: FloatArray) -> BoolArray:
        """Return which figures every stratum tells; a column that is constant in it needs no telling."""
        told = np.ones((self.columns, f.shape[1]), dtype=np.bool_)
        for part in self.parts:
            rest = _known(f[part.stratum.codes])[1]
            if part.hides and rest.any():
                told[part.columns[~part.constant]] &= part.stratum.identified(rest)
        return told

    # --- variances --------------------------------------------------------------------------------------------------

    @cached_property
    def calibration(self) -> FloatArray:
        """What multiplies the variances of each column, so that the residuals are as large as they should be."""
        residuals = np.zeros((3, self.columns))
        for part in self.parts:
            residuals[:, part.columns] += part.residuals
        found, due, freedom = residuals
        ratio = np.divide(found, due, out=np.ones(self.columns), where=due > 0)
        return (freedom * ratio + PRIOR_FREEDOM) / (freedom + PRIOR_FREEDOM)

    @cached_property
    def _own(self) -> list[Pair]:
        return [Pair(part, part.variance * self.calibration[part.columns], part.square) for part in self.parts]

    def _pairs(self, other: With | None) -> list[Pair]:
        """Return the pairs with another number; a covariance is never larger than the two variances allow."""
        if other is None:
            return self._own
        factor = np.sqrt(self.calibration * other.fit.calibration[other.pairing])
        others = {id(pair.part.stratum): pair for pair in other.fit._own}
        product = np.zeros(self.binned.key.size) if other.product is None else other.product
        return [
            _paired(own, others[id(own.part.stratum)], product, other.pairing[own.part.columns], factor)
            for own in self._own
            if id(own.part.stratum) in others
        ]

    def variance(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the variances given the table, and how many groups they rest on: (sum v)^2 / sum v^2."""
        first, second, fixed = np.zeros((3, self.columns, f.shape[1]))
        for pair in self._own:
            columns, own = pair.part.columns, _known(f[pair.part.stratum.codes])[1]
            for a, spread, groups in pair.group_terms(own):
                square = a**2
                first[columns] += (groups * spread).T @ square
                second[columns] += (groups * spread**2).T @ square**2
            fixed[columns] += pair.fixed.T @ own**2
        return first - fixed, np.divide(first**2, second, out=np.full(first.shape, np.inf), where=second > 0)

    def given(self, f: FloatArray, other: With | None, *, jointly: bool = False) -> FloatArray:
        """Return the covariances given the table with the figures of another number, None for itself.

        Of each figure with that of the other's, [columns, figures]; `jointly`: with all, [columns, figures, figures].
        """
        other_f, figures = f if other is None else other.f, f.shape[1]
        covariance = np.zeros((self.columns, figures, other_f.shape[1]) if jointly else (self.columns, figures))
        for pair in self._pairs(other):
            codes, columns = pair.part.stratum.codes, pair.part.columns
            own, others = _known(f[codes])[1], _known(other_f[codes])[1]
            for a, spread, groups in pair.group_terms(np.hstack([own, others])):
                covariance[columns] += _weighted(a[:, :figures], a[:, figures:], groups * spread, jointly)
            covariance[columns] -= _weighted(own, others, pair.fixed, jointly)
        return covariance

    def products(self, f: FloatArray, other: With | None, *, jointly: bool = False) -> FloatArray:
        """Return the estimated sums of z z' f f' over the records, of the same figures."""
        other_f, figures = f if other is None else other.f, f.shape[1]
        products = np.zeros((self.columns, figures, other_f.shape[1]) if jointly else (self.columns, figures))
        for pair in self._pairs(other):
            codes = pair.part.stratum.codes
            products[pair.part.columns] += _weighted(f[codes], other_f[codes], pair.products, jointly)
        return products


def _paired(own: Pair, other: Pair, product: FloatArray, wanted: IntArray, factor: FloatArray) -> Pair:
    """Return the pair of a number with the wanted columns of another one; zero where the stratum has none of them."""
    part, columns = own.part, other.part.columns
    place = np.minimum(np.searchsorted(columns, wanted), columns.size - 1)
    there = columns[place] == wanted
    mean, total, variance = (
        np.where(there, array[..., place], 0) for array in (other.part.mean, other.part.total, other.within)
    )
    products = part.solved(part.spread(product), part.level * mean)
    whole = part.covariance(part.summed(product), total)
    inside = part.within(products - part.mean * mean, whole) * factor[part.columns]
    limit = np.sqrt(own.within * variance)
    return Pair(part, np.clip(inside, -limit, limit), products)


def _known(f: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return weights that are the same for all values, whose sums are known without error, and the other weights."""
    known = np.where((f == f[:1]).all(axis=0), f[0], 0)
    return known, f - known


def _weighted(a: FloatArray, b: FloatArray, weight: FloatArray, jointly: bool) -> FloatArray:
    """Return sum_r weight[r, k] a[r, f] b[r, f], as [k, f]; `jointly` with all b[r, h], as [k, f, h]."""
    if not jointly:
        return np.asarray(weight.T @ (a * b))
    return np.stack([(a * column[:, None]).T @ b for column in weight.T])
