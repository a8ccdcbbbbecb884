"""Sums over the records of a release by groups, estimated by least squares on the groups' compositions: see `buckets`.

A question has a number of each record, groups (its GROUP BY of untouched columns) and cells of values of the sensitive
columns. Where its condition mixes both kinds of columns, which values are meant depends on the truths of the untouched
part: each pattern of truths is fitted by itself and added up, with the covariances between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from sfumato.analyst.answer import Key, Target
from sfumato.analyst.ask.cells import Partition, PartTotals, possible_cells
from sfumato.analyst.counting.tally import COUNT, Number, Truths
from sfumato.analyst.grouped.buckets import CLASSICAL, FEW_GROUPS, UNBIASED, UNBIASED_IN_PART, Fit, With
from sfumato.analyst.grouped.dealt import Dealt
from sfumato.analyst.grouped.looseness import LooseSums
from sfumato.analyst.grouped.tally import BucketTally
from sfumato.values.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class _Side:
    """A number under one pattern of truths, and what is asked of it: weights f of the values, [values, cells]."""

    pattern: Truths
    tally: BucketTally
    bins: tuple[IntArray, IntArray]  # of the strata, and of loose groups
    fit: Fit | None  # None: all groups are loose
    loose: LooseSums
    f: FloatArray

    @cached_property
    def told(self) -> BoolArray:
        """Which figures are identified, [groups, cells]."""
        shape = self.tally.groups, self.f.shape[1]
        return np.ones(shape, dtype=np.bool_) if self.fit is None else self.fit.identified(self.f)

    @cached_property
    def totals(self) -> FloatArray:
        """The estimates; NaN where they are not identified."""
        found = self.loose.classical(self.f)
        return found if self.fit is None else found + np.where(self.told, self.fit.totals(self.f), np.nan)

    @cached_property
    def classical(self) -> FloatArray:
        """The classical estimates."""
        found = self.loose.classical(self.f)
        return found if self.fit is None else found + self.fit.classical(self.f).value

    @cached_property
    def slack(self) -> FloatArray:
        """The largest errors that are no matter of chance."""
        return self.loose.slack(self.f)

    @cached_property
    def variance(self) -> tuple[FloatArray, FloatArray]:
        """The variances given the table, and how many groups they rest on."""
        shape = self.tally.groups, self.f.shape[1]
        return (np.zeros(shape), np.full(shape, np.inf)) if self.fit is None else self.fit.variance(self.f)

    def other(self, side: _Side, pairing: IntArray, product: Number | None) -> With | None:
        """Return another side as it goes with this one, None for itself; no record has two patterns."""
        if side is self and np.array_equal(pairing, np.arange(self.tally.groups)):
            return None
        assert side.fit is not None
        if product is None or self.pattern != side.pattern:
            return With(side.fit, side.f, pairing, None)
        return With(side.fit, side.f, pairing, self.tally.sum_of(product, self.bins[0]))


@dataclass(frozen=True, eq=False)
class BucketFigures:
    """Estimates of every group and cell, [groups, cells]."""

    dealt: Dealt
    tally: BucketTally
    place: Callable[[Truths], IntArray]  # the cell of each value under a pattern; -1: not meant
    size: int  # how many cells there are
    rows: int  # of the whole release
    target: Target
    is_classical: bool
    coarser: Callable[[tuple[str, ...]], BucketTally]  # the same question, grouped by fewer columns
    _sides: dict[Number, list[_Side]] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[Key, ...]:
        """The columns of the groups."""
        return self.tally.keys

    @property
    def groups(self) -> int:
        """How many there are."""
        return self.tally.groups

    @property
    def patterns(self) -> tuple[Truths, ...]:
        """The truths of the condition's atoms that occur."""
        return self.tally.patterns

    @property
    def is_whole(self) -> bool:
        """Whether no hidden column matters."""
        return False

    @property
    def records(self) -> FloatArray:
        """The published rows of each group."""
        return self.tally.records

    @cached_property
    def possible(self) -> BoolArray:
        """The cells that some record can belong to under the condition."""
        return possible_cells(self.size, map(self.place, self.tally.patterns))

    def total(self, number: Number) -> FloatArray:
        """Return the estimated sums of a number."""
        return self._total(self._sides_of(number), self.tally)

    def magnitude(self, number: Number) -> FloatArray:
        """Return how large the sum of a number over the published rows of each group can be, [groups]: sqrt(n s2)."""
        squares = self.tally.sums[(number * number).summed(self.tally.weight)]
        summed = np.bincount(self.tally.group_of[self.tally.row], squares, self.tally.groups)
        return np.sqrt(self.records * summed)

    def published(self) -> FloatArray:
        """Return the classical counts: what someone estimates who takes value and condition as independent."""
        return self._added([side.classical for side in self._sides_of(COUNT)], self.tally)

    def covariance(self, one: Number, other: Number) -> FloatArray:
        """Return the estimated covariance of the totals of two numbers in the same cell."""
        everyone = np.arange(self.tally.groups)
        return self._covariance(self._sides_of(one), self._sides_of(other), everyone, one * other)

    def slack(self, number: Number) -> FloatArray:
        """Return the largest error of a total that is no matter of chance: that of loose groups."""
        return self._added([side.slack for side in self._sides_of(number)], self.tally)

    def of_parts(self, number: Number, partition: Partition) -> PartTotals:
        """Return the total of each cell's part, and what goes with it."""
        tally = self.coarser(partition.names)
        own, parts = self._sides_of(number), list(self._made(tally, number, partition.cell))
        total, slack = self._total(parts, tally), self._added([side.slack for side in parts], tally)
        variance = self._covariance(parts, parts, np.arange(tally.groups), number * number)
        covariance = self._covariance(own, parts, partition.group, number * number)
        of_group = partition.group
        return PartTotals(total[of_group], covariance, variance[of_group], slack[of_group])

    def joint_covariance(self, number: Number, target: Target, floored: bool = True) -> FloatArray:
        """Return the covariance of the totals of all groups and cells, in their order."""
        groups, size = self.tally.groups, self.size
        joint = np.zeros((groups, size, groups, size))
        for shift in range(groups):
            pairing = (np.arange(groups) + shift) % groups
            joint[np.arange(groups), :, pairing] += self._blocks(number, pairing, target, same_group=shift == 0)
        flat = self.total(number).ravel()
        covariance = joint.reshape(flat.size, flat.size)
        if target == "population":
            covariance = (covariance - np.outer(flat, flat) / self.rows) * self._sample_factor
            np.fill_diagonal(covariance, replace(self, target=target).covariance(number, number))
        nothing = np.where(np.isnan(flat) | self.is_classical, np.nan, 0)
        return _widened(covariance, self.slack(number).ravel()) + nothing + nothing[:, None]

    def notes(self) -> list[str]:
        """Return what is to be said of the estimates."""
        if self.is_classical:
            return [CLASSICAL]
        shown, sides = self.possible, [side for sides in self._sides.values() for side in sides]
        notes = [UNBIASED_IN_PART if any(side.bins[1].size for side in sides) else UNBIASED]
        untold = _any([~side.told[:, shown] for side in sides])
        few = _any([side.variance[1][:, shown] < FEW_GROUPS for side in sides]) & ~untold
        if untold.any():
            notes.append(
                f"The compositions of the groups do not tell {untold.sum():,} of {untold.size:,} figures: too few of "
                "them are different. Ask for several values together, or for the classical estimate."
            )
        if few.any():
            notes.append(
                f"{few.sum():,} of {few.size:,} figures rest on fewer than {FEW_GROUPS} groups: their intervals are "
                "rough."
            )
        return notes

    # --- sides --------------------------------------------------------------------------------------------------------

    def _sides_of(self, number: Number) -> list[_Side]:
        if number not in self._sides:
            self._sides[number] = list(self._made(self.tally, number, np.arange(self.size)))
        return self._sides[number]

    def _made(self, tally: BucketTally, number: Number, part: IntArray) -> Iterator[_Side]:
        """Yield the sides of a number; what is asked of each cell is the sum over all cells of its part."""
        for index, pattern in enumerate(tally.patterns):
            cells = self.place(pattern)
            if (cells < 0).all():
                continue
            asked = np.where(cells >= 0, part[cells], -1)
            f = (asked[:, None] == part).astype(np.float64)
            bins = tally.chosen(index, self.dealt.first_loose)
            fitted, loose = (tally.binned(number, chosen) for chosen in bins)
            fit = None if self.dealt.deal is None else Fit(self.dealt.deal, fitted, tally.groups)
            rest = LooseSums(self.dealt.loose, loose, tally.groups, self.dealt.first_loose)
            yield _Side(pattern, tally, bins, fit, rest, f)

    def _added(self, arrays: list[FloatArray], tally: BucketTally) -> FloatArray:
        return sum(arrays, np.zeros((tally.groups, self.size)))

    def _total(self, sides: list[_Side], tally: BucketTally) -> FloatArray:
        return self._added([side.classical if self.is_classical else side.totals for side in sides], tally)

    # --- covariances --------------------------------------------------------------------------------------------------

    @property
    def _sample_factor(self) -> float:
        return self.rows / max(self.rows - 1, 1)

    def _covariance(self, left: list[_Side], right: list[_Side], pairing: IntArray, product: Number) -> FloatArray:
        """Return the covariance of each total of the left with that of the right in the group that it goes with."""
        given, products, total, other_total = np.zeros((4, pairing.size, self.size))
        for one in left:
            total += one.totals
            for other in right:
                given += self._given(one, other, pairing, product)
                if self.target == "population" and one.pattern == other.pattern:
                    products += _products(one, other, pairing, product)
        for other in right:
            other_total += other.totals[pairing]
        nothing = np.where(np.isnan(total * other_total) | self.is_classical, np.nan, 0)
        if self.target == "table":
            return given + nothing
        sampled = (given + products - total * other_total / self.rows) * self._sample_factor
        return (np.maximum(sampled, given) if left is right else sampled) + nothing

    def _given(self, one: _Side, other: _Side, pairing: IntArray, product: Number) -> FloatArray:
        if one is other:
            return one.variance[0]
        if one.fit is None:
            return np.zeros((pairing.size, self.size))
        both = one.other(other, pairing, product)
        assert both is not None
        return one.fit.given(one.f, both)

    def _blocks(self, number: Number, pairing: IntArray, target: Target, same_group: bool) -> FloatArray:
        """Return the covariances of each group's cells with those of the group that it goes with, and products."""
        blocks = np.zeros((pairing.size, self.size, self.size))
        for one in self._sides_of(number):
            for other in self._sides_of(number):
                if one.fit is not None:
                    both = one.other(other, pairing, number * number if same_group else None)
                    blocks += one.fit.given_jointly(one.f, both)
            if target == "population" and same_group:
                loose = one.loose.classical(one.f, one.tally.sum_of(number * number, one.bins[1]))
                blocks += loose[:, :, None] * np.eye(self.size)
                blocks += one.fit.products_jointly(one.f) if one.fit else 0
        return blocks


def _any(masks: list[BoolArray]) -> BoolArray:
    together: BoolArray = np.any(masks, axis=0) if masks else np.zeros(1, dtype=np.bool_)
    return together


def _products(one: _Side, other: _Side, pairing: IntArray, product: Number) -> FloatArray:
    """Return the estimated sums of z z' over the records that both ask for."""
    loose = one.loose.classical(one.f * other.f, one.tally.sum_of(product, one.bins[1]))
    if one.fit is None:
        return loose
    return loose + one.fit.products(one.f, one.other(other, pairing, product))


def _widened(covariance: FloatArray, slack: FloatArray) -> FloatArray:
    """Return the covariance of estimates that may be off by so much, besides what chance does.

    For every combination g, (sqrt(g'S g) + sum |g_i| B_i)^2 <= (1 + e) g'S g + (1 + 1/e) sum g_i^2 B_i sum B.
    """
    if not slack.any():
        return covariance
    off = slack * slack.sum()
    chance = np.sqrt(max(np.nansum(np.diagonal(covariance)), 0))
    e = max(slack.sum() / max(chance, slack.sum() / 100), 0.01)
    widened: FloatArray = (1 + e) * covariance + (1 + 1 / e) * np.diag(off)
    return widened
