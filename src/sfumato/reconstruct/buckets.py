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

from sfumato.matrix import FloatArray
from sfumato.reconstruct.answer import IntArray, Target
from sfumato.reconstruct.bucket_sums import Bins, Pair, Part, Place
from sfumato.reconstruct.compositions import Compositions, Mask, Stratum, added, kinds_of, stratum_of

PRIOR_FREEDOM = 10
"""Degrees of freedom that the estimated variances count for, against those of the residuals."""

FEW_GROUPS = 10
"""A standard error that rests on fewer groups is rough."""

UNBIASED = "Unbiased over the random deal; estimates can be negative."

CLASSICAL = (
    "The classical estimate takes value and condition as independent inside a group: biased towards no association, "
    "and without error bars."
)


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
        kind_of_group, first_group = kinds_of(group, value * (int(count.max()) + 1) + count, inside)
        taken = first_group[kind_of_group[group]] == group
        row = kind_of_group[group[taken]]
        order = np.flatnonzero(taken)[np.argsort(row, kind="stable")]
        of_kind = Compositions(np.sort(row), value[order], count[order].astype(np.float64), values)
        first = np.flatnonzero(np.diff(inside[first_group], prepend=-1))
        bounds = np.append(first, first_group.size).astype(np.int64)
        groups = np.bincount(kind_of_group).astype(np.float64)
        strata = tuple(stratum_of(of_kind, groups, slice(*pair)) for pair in pairwise(bounds.tolist()))
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
        return added(bin_of, by_group.sums(self.z) ** 2 / self.deal.sizes[group], self._bins.key.size)

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
