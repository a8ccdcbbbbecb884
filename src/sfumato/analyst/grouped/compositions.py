"""The compositions of the groups of Anatomy, by stratum, and what can be told from them: see `buckets`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from sfumato.values.arrays import BoolArray, FloatArray, IntArray

LEAST_EIGENVALUE = 1e-10
"""Eigenvalues of N^-1/2 C^T W C N^-1/2 lie in [0, 1]; below this one its vector counts as not identified.

Its own standard error would be sigma/sqrt(1e-10), 10^5 times the spread of the records: nothing is lost.
"""

LEAK = 1e-6
"""How much of a figure may lie in what is not identified; rounding is some 1e-16 / LEAST_EIGENVALUE."""

OWN_VARIANCE = 0.25
"""A value's own variance is used where its mean is known to a quarter of one record's variance, else the stratum's."""

BLOCK = 1 << 19
"""Numbers that are held at once."""


def added(place: IntArray, amount: FloatArray, size: int) -> FloatArray:
    """Return the sum of the amounts at each place."""
    return np.bincount(place, amount, size).astype(np.float64, copy=False)


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
        """Return these rows of C x."""
        return self.chosen(np.arange(*rows.indices(self.rows)), x)

    def chosen(self, rows: IntArray, x: FloatArray) -> FloatArray:
        """Return some rows of C x, by adding up the first entries of all rows, then the second, and so on."""
        start, length = self.start[rows], np.diff(self.start)[rows]
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
            spread += added(cell, amount[long] * self.count[entry], spread.size)
        return spread.reshape(self.values, columns)

    def gram(self, weight: FloatArray) -> FloatArray:
        """Return C^T diag(weight) C."""
        gram = np.zeros(self.values**2)
        for one, other in self._pairs():
            product = weight[self.row[one]] * self.count[one] * self.count[other]
            gram += added(self.value[one] * self.values + self.value[other], product, gram.size)
        half = gram.reshape(self.values, self.values)
        return half + half.T - np.diag(np.diag(half))

    def quadratic(self, matrix: FloatArray) -> FloatArray:
        """Return c^T matrix c of each row c of C, for a symmetric matrix."""
        total = np.zeros(self.rows)
        for lag, (one, other) in enumerate(self._pairs()):
            product = self.count[one] * self.count[other] * matrix[self.value[one], self.value[other]]
            total += added(self.row[one], product, self.rows) * (2 if lag else 1)
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
        return added(self.counts.row, self.counts.count, self.counts.rows)

    @cached_property
    def records(self) -> FloatArray:
        """n_y, the records of each value."""
        return added(self.counts.value, self.counts.count * self.groups[self.counts.row], self.codes.size)

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

    def identified(self, f: FloatArray) -> BoolArray:
        """Return which weights f, [values, figures], give a sum that the compositions tell: N f in their row space."""
        scaled = np.sqrt(self.records)[:, None] * f
        outside = self.spectrum[1][:, : self.codes.size - self.rank].T @ scaled
        told: BoolArray = (outside**2).sum(axis=0) <= LEAK**2 * (scaled**2).sum(axis=0)
        return told

    @cached_property
    def own_variance(self) -> BoolArray:
        """The values whose mean is known well enough to tell the variance of their records."""
        known: BoolArray = self.identified(np.eye(self.codes.size)) & (np.diag(self.inverse) <= OWN_VARIANCE)
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
        return added(self.counts.value, self.counts.count * left[self.counts.row], self.codes.size)

    def group_weights(self, f: FloatArray, width: int = 0) -> Iterator[tuple[slice, FloatArray]]:
        """Give a = W C X N f, [kinds, figures], in blocks of kinds; `width` is that of another array beside it."""
        means = self.inverse @ (self.records[:, None] * f)
        for rows in self.counts.blocks(f.shape[1] + width):
            yield rows, self.counts.times(means, rows) / self.sizes[rows, None]


@dataclass(frozen=True, eq=False)
class Deal:
    """What the compositions tell without any record; kinds are numbered through all strata."""

    strata: tuple[Stratum, ...]
    first_kind: IntArray  # of each stratum, and the number of kinds

    def chosen(self, strata: BoolArray) -> Deal:
        """Return some of the strata, with what was computed of them."""
        kinds = np.diff(self.first_kind)[strata]
        kept = tuple(stratum for stratum, chosen in zip(self.strata, strata, strict=True) if chosen)
        return Deal(kept, np.concatenate([[0], np.cumsum(kinds)]))


@dataclass(frozen=True, eq=False)
class Kinds:
    """Groups of the same stratum and composition are one kind; kinds are numbered by stratum."""

    of_group: IntArray
    row: IntArray  # the kinds' compositions: lines by kind and value
    value: IntArray
    count: IntArray
    stratum: IntArray  # of each kind

    @classmethod
    def of(cls, group: IntArray, value: IntArray, count: IntArray, stratum: IntArray) -> Kinds:
        """Return the kinds of the compositions in these lines, by group and value, given each group's stratum."""
        of_group, first_group = kinds_of(group, value * (int(count.max()) + 1) + count, stratum)
        taken = first_group[of_group[group]] == group
        row = of_group[group[taken]]
        line = np.flatnonzero(taken)[np.argsort(row, kind="stable")]
        return cls(of_group, np.sort(row), value[line], count[line], stratum[first_group])

    @classmethod
    def joined(cls, parts: Sequence[Kinds]) -> Kinds:
        """Return the kinds of the groups of all parts, one part after the other."""
        first = np.cumsum([0, *(part.stratum.size for part in parts)]).tolist()
        lines = (np.concatenate([getattr(part, name) for part in parts]) for name in ("value", "count", "stratum"))
        whole = cls.of(np.concatenate([part.row + start for part, start in zip(parts, first, strict=False)]), *lines)
        of_group = [whole.of_group[part.of_group + start] for part, start in zip(parts, first, strict=False)]
        return replace(whole, of_group=np.concatenate(of_group))

    def chosen(self, kinds: BoolArray) -> Kinds:
        """Return some kinds and their groups, both numbered anew."""
        number, lines = np.cumsum(kinds) - 1, kinds[self.row]
        of_group = number[self.of_group[kinds[self.of_group]]]
        return Kinds(of_group, number[self.row[lines]], self.value[lines], self.count[lines], self.stratum[kinds])

    @cached_property
    def sizes(self) -> IntArray:
        """The records of a group of each kind."""
        return np.bincount(self.row, self.count, self.stratum.size).astype(np.int64)

    def compositions(self, values: int) -> Compositions:
        """Return the compositions as a sparse matrix."""
        return Compositions(self.row, self.value, self.count.astype(np.float64), values)

    def deal(self, values: int) -> Deal:
        """Return the strata that the kinds are of."""
        groups, counts = np.bincount(self.of_group, minlength=self.stratum.size), self.compositions(values)
        bounds = np.append(np.flatnonzero(np.diff(self.stratum, prepend=-1)), self.stratum.size).astype(np.int64)
        made = [stratum_of(counts, groups.astype(np.float64), slice(*pair)) for pair in pairwise(bounds.tolist())]
        return Deal(tuple(made), bounds)


def kinds_of(group: IntArray, entry: IntArray, stratum: IntArray) -> tuple[IntArray, IntArray]:
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


def stratum_of(kinds: Compositions, groups: FloatArray, rows: slice) -> Stratum:
    entries = slice(int(kinds.start[rows.start]), int(kinds.start[rows.stop]))
    codes, value = np.unique(kinds.value[entries], return_inverse=True)
    row = kinds.row[entries] - rows.start
    return Stratum(codes, Compositions(row, value.astype(np.int64), kinds.count[entries], codes.size), groups[rows])
