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
from statistics import NormalDist

import numpy as np

from sfumato.analyst.answer import Target
from sfumato.analyst.grouped.compositions import Kinds, Stratum
from sfumato.analyst.grouped.sums import Binned, Bins, Pair, Part, Place, Records
from sfumato.values.arrays import BoolArray, FloatArray, IntArray

PRIOR_FREEDOM = 10
"""Degrees of freedom that the estimated variances count for, against those of the residuals."""

FEW_GROUPS = 10
"""A standard error that rests on fewer groups is rough."""

UNBIASED = "Unbiased over the random deal; estimates can be negative."
UNBIASED_IN_PART = (
    "Unbiased as far as records were dealt by chance; for the others the largest possible error is part of the "
    "standard error. Estimates can be negative."
)

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
        group, value, count = (np.asarray(array, dtype=np.int64) for array in (group, value, count))
        if not _in_order(group, value):
            order = np.lexsort((value, group))
            group, value, count = group[order], value[order], count[order]
        _check_triples(group, value, count, values)
        sizes = np.bincount(group, count).astype(np.int64)
        inside = np.zeros(sizes.size, dtype=np.int64) if stratum is None else np.asarray(stratum, dtype=np.int64)
        if inside.shape != sizes.shape or (sizes == 0).any() or (inside < 0).any():
            raise ValueError(f"{sizes.size} groups need a composition and a stratum each, numbered from 0")
        return cls.of_kinds(Kinds.of(group, value, count, inside), values)

    @classmethod
    def of_kinds(cls, kinds: Kinds, values: int) -> Deal:
        """Return the deal to groups of these kinds."""
        strata, first_kind = kinds.strata(values)
        return cls(strata, kinds.of_group, kinds.sizes[kinds.of_group], values, first_kind)

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
        records = Records(group, z, column, Bins.of(self.kind_of_group[group] * columns + column))
        return Fit(self, records.binned(self.kind_of_group, self.sizes, columns), columns, records)


def _in_order(group: IntArray, value: IntArray) -> bool:
    step = np.diff(group)
    return bool((step >= 0).all() and ((step > 0) | (np.diff(value) >= 0)).all())


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
    identified: BoolArray
    notes: tuple[str, ...] = ()

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper ends of the confidence intervals."""
        half = NormalDist().inv_cdf((1 + level) / 2) * self.standard_error
        return self.value - half, self.value + half


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
    values. Without them each value is asked for by itself.
    """

    deal: Deal
    binned: Binned
    columns: int
    records: Records | None = None  # where single records were given

    def estimate(self, f: FloatArray | None = None, target: Target = "table") -> BucketEstimate:
        """Return the least squares estimates with standard errors."""
        f = self._asked(f)
        value, told = self.totals(f), self.identified(f)
        variance, groups = self.variance(f)
        if target == "population":
            variance = np.maximum(self._sampled(variance + self.products(f), value**2), variance)
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
        blocks = self.given_jointly(f)
        if target == "population":
            value = self.totals(f)
            blocks = self._sampled(blocks + self.products_jointly(f), value[:, :, None] * value[:, None, :])
        nothing = np.where(self.identified(f), 0, np.nan)
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
        other_one = With(other, other_f, pairing, self._product(other, pairing))
        covariance = self.given(f, other_one)
        if target == "population":
            totals = self.totals(f) * other.totals(other_f)[pairing]
            covariance = self._sampled(covariance + self.products(f, other_one), totals)
        told = self.identified(f) & other.identified(other_f)[pairing]
        return np.where(told, covariance, np.nan)

    def _product(self, other: Fit, pairing: IntArray) -> FloatArray:
        if self.records is None or other.records is None:
            raise ValueError("the sum of products is known of single records only")
        return self.records.product(other.records, pairing)

    # --- totals -----------------------------------------------------------------------------------------------------

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The number within each stratum that has records with it."""
        own = self.binned
        return tuple(
            Part(
                place,
                place.classical(own.total),
                place.classical(own.square),
                place.total(own.total),
                place.total(own.square),
                place.total(own.between),
                *place.constant(own.rows, own.least, own.largest),
            )
            for place in self._places()
        )

    def _places(self) -> Iterator[Place]:
        kind, column = np.divmod(self.binned.key, self.columns)
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

    def totals(self, f: FloatArray) -> FloatArray:
        """Return the estimates, [columns, figures], also of what is not identified."""
        totals = np.zeros((self.columns, f.shape[1]))
        for part in self.parts:
            known, rest = _known(f[part.stratum.codes])
            estimated = (part.stratum.records[:, None] * part.mean).T @ rest if rest.any() else 0
            totals[part.place.columns] += part.total[:, None] * known + estimated
        return totals

    def identified(self, f: FloatArray) -> BoolArray:
        """Return which figures every stratum tells; a column that is constant in it needs no telling."""
        told = np.ones((self.columns, f.shape[1]), dtype=np.bool_)
        for part in self.parts:
            rest = _known(f[part.stratum.codes])[1]
            if part.hides and rest.any():
                hidden = part.place.columns[~part.constant]
                told[hidden] &= part.stratum.identified(rest)
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

    def _pairs(self, other: With | None) -> list[Pair]:
        """Return the pairs with another number; a covariance is never larger than the two variances allow."""
        if other is None:
            return self._own
        factor = np.sqrt(self.calibration * other.fit.calibration[other.pairing])
        others = {id(pair.part.stratum): pair for pair in other.fit._own}
        product = np.zeros(self.binned.key.size) if other.product is None else other.product
        return [
            _paired(own, others[id(own.part.stratum)], product, other.pairing[own.part.place.columns], factor)
            for own in self._own
            if id(own.part.stratum) in others
        ]

    def variance(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the variances given the table, and how many groups they rest on: (sum v)^2 / sum v^2."""
        first, second, fixed = np.zeros((3, self.columns, f.shape[1]))
        for pair in self._own:
            columns, own = pair.part.place.columns, _known(f[pair.part.stratum.codes])[1]
            for a, spread, groups in pair.group_terms(own):
                square = a**2
                first[columns] += (groups * spread).T @ square
                second[columns] += (groups * spread**2).T @ square**2
            fixed[columns] += pair.fixed.T @ own**2
        return first - fixed, np.divide(first**2, second, out=np.full(first.shape, np.inf), where=second > 0)

    def given(self, f: FloatArray, other: With) -> FloatArray:
        """Return the covariances given the table with the figures of another number, [columns, figures]."""
        covariance, figures = np.zeros((self.columns, f.shape[1])), f.shape[1]
        for pair in self._pairs(other):
            columns, own, others = pair.part.place.columns, *_rests(pair, f, other.f)
            for a, spread, groups in pair.group_terms(np.hstack([own, others])):
                covariance[columns] += (groups * spread).T @ (a[:, :figures] * a[:, figures:])
            covariance[columns] -= pair.fixed.T @ (own * others)
        return covariance

    def products(self, f: FloatArray, other: With | None = None) -> FloatArray:
        """Return the estimated sums of z z' f f' over the records, [columns, figures]."""
        products = np.zeros((self.columns, f.shape[1]))
        for pair in self._pairs(other):
            codes = pair.part.stratum.codes
            both = f[codes] * (f if other is None else other.f)[codes]
            products[pair.part.place.columns] += pair.products.T @ both
        return products

    def given_jointly(self, f: FloatArray, other: With | None = None) -> FloatArray:
        """Return the covariances of all figures with all of another number, [columns, figures, figures]."""
        other_f = f if other is None else other.f
        covariance = np.zeros((self.columns, f.shape[1], other_f.shape[1]))
        for pair in self._pairs(other):
            columns, own, others = pair.part.place.columns, *_rests(pair, f, other_f)
            for a, spread, groups in pair.group_terms(np.hstack([own, others])):
                covariance[columns] += _weighted_products(a[:, : f.shape[1]], a[:, f.shape[1] :], groups * spread)
            covariance[columns] -= _weighted_products(own, others, pair.fixed)
        return covariance

    def products_jointly(self, f: FloatArray, other: With | None = None) -> FloatArray:
        """Return the estimated sums of z z' f f' over the records, for all figures with all of the other number."""
        other_f = f if other is None else other.f
        products = np.zeros((self.columns, f.shape[1], other_f.shape[1]))
        for pair in self._pairs(other):
            codes = pair.part.stratum.codes
            products[pair.part.place.columns] += _weighted_products(f[codes], other_f[codes], pair.products)
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


def _known(f: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return weights that are the same for all values, whose sums are known without error, and the other weights."""
    known = np.where((f == f[:1]).all(axis=0), f[0], 0)
    return known, f - known


def _rests(pair: Pair, f: FloatArray, other_f: FloatArray) -> tuple[FloatArray, FloatArray]:
    codes = pair.part.stratum.codes
    return _known(f[codes])[1], _known(other_f[codes])[1]


def _weighted_products(a: FloatArray, b: FloatArray, weight: FloatArray) -> FloatArray:
    """Return sum_r weight[r, k] a[r, f] b[r, h], as [k, f, h]."""
    return np.stack([(a * column[:, None]).T @ b for column in weight.T])


def _notes(told: BoolArray, few: BoolArray) -> tuple[str, ...]:
    notes = [UNBIASED]
    if not told.all():
        notes.append(f"The compositions of the groups do not tell {(~told).sum()} of {told.size} figures: NaN.")
    if (few & told).any():
        rough = f"{(few & told).sum()} of {told.size} figures"
        notes.append(f"{rough} rest on fewer than {FEW_GROUPS} groups: their intervals are rough.")
    return tuple(notes)
