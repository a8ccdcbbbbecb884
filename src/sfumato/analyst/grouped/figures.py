"""Sums over the records of a release by groups, estimated by least squares on the groups' compositions: see `buckets`.

A question has a number of each record, groups (its GROUP BY of untouched columns) and cells of values of the sensitive
columns. Where its condition mixes both kinds of columns, which values are meant depends on the truths of the untouched
part: each pattern of truths is fitted by itself and added up, with the covariances between them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from sfumato.analyst.answer import Target
from sfumato.analyst.ask.cells import Estimates, Partition, PartTotals, Place, Question, Source
from sfumato.analyst.counting.counts import CountedRelease
from sfumato.analyst.counting.tally import COUNT, Number, Truths
from sfumato.analyst.grouped.buckets import Fit, With
from sfumato.analyst.grouped.dealt import MOST_VALUES, Dealt, LooseSums, dealt
from sfumato.analyst.grouped.tally import BucketTally, bucket_tally
from sfumato.errors import UsageError
from sfumato.release.manifest import GroupsPart
from sfumato.values.arrays import BoolArray, FloatArray, IntArray
from sfumato.values.attributes import SensitiveDomain

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
class _Side:
    """A number under one pattern of truths, and what is asked of it: weights f of the values, [values, cells]."""

    pattern: Truths
    tally: BucketTally
    bins: tuple[IntArray, IntArray]  # of the strata, and of loose groups
    fit: Fit
    loose: LooseSums
    f: FloatArray

    @cached_property
    def told(self) -> BoolArray:
        """Which figures are identified, [groups, cells]."""
        return self.fit.identified(self.f)

    @cached_property
    def totals(self) -> FloatArray:
        """The estimates; NaN where they are not identified."""
        return self.loose.classical(self.f) + np.where(self.told, self.fit.totals(self.f), np.nan)

    @cached_property
    def classical(self) -> FloatArray:
        """The classical estimates."""
        return self.loose.classical(self.f) + self.fit.classical(self.f)

    @cached_property
    def slack(self) -> FloatArray:
        """The largest errors that are no matter of chance."""
        return self.loose.slack(self.f)

    @cached_property
    def variance(self) -> tuple[FloatArray, FloatArray]:
        """The variances given the table, and how many groups they rest on."""
        return self.fit.variance(self.f)

    def other(self, side: _Side, pairing: IntArray, product: Number | None) -> With | None:
        """Return another side as it goes with this one, None for itself; no record has two patterns."""
        if side is self and np.array_equal(pairing, np.arange(self.tally.groups)):
            return None
        if product is None or self.pattern != side.pattern:
            return With(side.fit, side.f, pairing, None)
        return With(side.fit, side.f, pairing, self.tally.sum_of(product, self.bins[0]))


@dataclass(frozen=True, eq=False)
class BucketFigures(Estimates):
    """Estimates of every group and cell, [groups, cells]."""

    tally: BucketTally
    dealt: Dealt
    is_classical: bool
    coarser: Callable[[tuple[str, ...]], BucketTally]  # the same question, grouped by fewer columns
    _sides: dict[Number, list[_Side]] = field(default_factory=dict)

    def total(self, number: Number) -> FloatArray:
        return self._total(self._sides_of(number), self.tally)

    def published(self) -> FloatArray:
        """Return the classical counts: what someone estimates who takes value and condition as independent."""
        return self._added([side.classical for side in self._sides_of(COUNT)], self.tally)

    def covariance(self, one: Number, other: Number) -> FloatArray:
        everyone = np.arange(self.tally.groups)
        return self._covariance(self._sides_of(one), self._sides_of(other), everyone, one * other)

    def slack(self, number: Number) -> FloatArray:
        return self._added([side.slack for side in self._sides_of(number)], self.tally)

    def of_parts(self, number: Number, partition: Partition) -> PartTotals:
        tally = self.coarser(partition.names)
        own, parts = self._sides_of(number), list(self._made(tally, number, partition.cell))
        total, slack = self._total(parts, tally), self._added([side.slack for side in parts], tally)
        variance = self._covariance(parts, parts, np.arange(tally.groups), number * number)
        covariance = self._covariance(own, parts, partition.group, number * number)
        of_group = partition.group
        return PartTotals(total[of_group], covariance, variance[of_group], slack[of_group])

    def joint_covariance(self, number: Number, target: Target, floored: bool = True) -> FloatArray:
        groups, size = self.tally.groups, self.size
        joint = np.zeros((groups, size, groups, size))
        for shift in range(groups):
            pairing = (np.arange(groups) + shift) % groups
            joint[np.arange(groups), :, pairing] += self._blocks(number, pairing, target, same_group=shift == 0)
        flat = self.total(number).ravel()
        covariance = joint.reshape(flat.size, flat.size)
        if target == "population":
            covariance = (covariance - np.outer(flat, flat) / self.rows) * self.sample_factor
            np.fill_diagonal(covariance, replace(self, target=target).covariance(number, number))
        nothing = np.where(np.isnan(flat) | self.is_classical, np.nan, 0)
        return _widened(covariance, self.slack(number).ravel()) + nothing + nothing[:, None]

    def notes(self) -> list[str]:
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
            fit = Fit(self.dealt.deal, fitted, tally.groups)
            rest = LooseSums(self.dealt.loose, loose, tally.groups, self.dealt.first_loose)
            yield _Side(pattern, tally, bins, fit, rest, f)

    def _added(self, arrays: list[FloatArray], tally: BucketTally) -> FloatArray:
        return sum(arrays, np.zeros((tally.groups, self.size)))

    def _total(self, sides: list[_Side], tally: BucketTally) -> FloatArray:
        return self._added([side.classical if self.is_classical else side.totals for side in sides], tally)

    # --- covariances --------------------------------------------------------------------------------------------------

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
        sampled = (given + products - total * other_total / self.rows) * self.sample_factor
        return (np.maximum(sampled, given) if left is right else sampled) + nothing

    def _given(self, one: _Side, other: _Side, pairing: IntArray, product: Number) -> FloatArray:
        return one.variance[0] if one is other else one.fit.given(one.f, one.other(other, pairing, product))

    def _blocks(self, number: Number, pairing: IntArray, target: Target, same_group: bool) -> FloatArray:
        """Return the covariances of each group's cells with those of the group that it goes with, and products."""
        blocks = np.zeros((pairing.size, self.size, self.size))
        for one in self._sides_of(number):
            for other in self._sides_of(number):
                both = one.other(other, pairing, number * number if same_group else None)
                blocks += one.fit.given(one.f, both, jointly=True)
            if target == "population" and same_group:
                loose = one.loose.classical(one.f, one.tally.sum_of(number * number, one.bins[1]))
                blocks += loose[:, :, None] * np.eye(self.size)
                blocks += one.fit.products(one.f, None, jointly=True)
        return blocks


def _any(masks: list[BoolArray]) -> BoolArray:
    together: BoolArray = np.any(masks, axis=0) if masks else np.zeros(1, dtype=np.bool_)
    return together


def _products(one: _Side, other: _Side, pairing: IntArray, product: Number) -> FloatArray:
    """Return the estimated sums of z z' over the records that both ask for."""
    loose = one.loose.classical(one.f * other.f, one.tally.sum_of(product, one.bins[1]))
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


# --- asked of a release -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FromGroups(Source):
    """Columns that only groups have.

    Records are summed anew for every grouping set: what is squared by group cannot be added up later.
    """

    release: CountedRelease
    of_rows: Source  # for questions for which no hidden column matters
    _read: dict[tuple[str, ...], BucketTally] = field(default_factory=dict)

    @property
    def domain(self) -> SensitiveDomain:
        return self.release.manifest.domain

    def figures(self, question: Question, names: Sequence[str], place: Place, size: int) -> Estimates:
        q, untouched = question, question.untouched(names, self.domain)
        if not (set(names) & set(self.domain.names) or q.condition.values or q.by_value):
            alone = replace(q, sets=(tuple(names),))  # of larger grouping sets, hidden columns could be part
            return self.of_rows.figures(alone, names, place, size)
        self._check_group_column(q)
        found = dealt(self.release)
        if not q.is_classical and found.most_values > MOST_VALUES:
            raise UsageError(
                f"Least squares for {found.most_values:,} values needs too much memory; {MOST_VALUES:,} are possible.",
                "Ask for the classical estimate: --method classical",
            )

        def tally_of(fewer: Collection[str]) -> BucketTally:
            own = tuple(name for name in untouched if name in fewer)
            if own not in self._read:
                self._read[own] = bucket_tally(q, found, own, place)
            return self._read[own]

        rows = self.release.manifest.data.rows
        return BucketFigures(tally_of(untouched), place, size, rows, q.target, found, q.is_classical, tally_of)

    def require_inverse(self, question: Question, names: Sequence[str]) -> None:
        """Nothing is inverted before it is known what the compositions tell."""

    def notes(self, question: Question) -> list[str]:
        release, notes = self.release, []
        if self._read and not question.is_classical:
            notes += _loose_notes(dealt(release), release.manifest.buckets.dealt_within)
        if withheld := release.manifest.withheld:
            notes.append(
                f"This is about the {release.manifest.data.rows:,} published records; {withheld:,} were withheld, and "
                "which values these have is not told."
            )
        return notes

    def _check_group_column(self, q: Question) -> None:
        groups: GroupsPart = self.release.manifest.buckets
        numbers = {column for number in q.totals for column in number.named}
        if groups.group_column in {*q.by, *q.condition.columns, *numbers, q.weight}:
            raise UsageError(
                f"{groups.group_column!r} numbers the groups that records were dealt to: it is nothing that a record "
                f"has, and what is asked of it together with {self.domain.name!r} cannot be estimated.",
                f"The table of groups tells the values of each group: {groups.file}",
            )


def _loose_notes(found: Dealt, dealt_within: Sequence[str]) -> list[str]:
    """Return what is said of the groups that no stratum tells about."""
    loose, notes = found.loose, []
    if loose.mixed:
        notes.append(
            f"{loose.mixed:,} records are in groups that mix cells of {', '.join(dealt_within)}: which of them has "
            "which value was no matter of chance."
        )
    if loose.untold:
        notes.append(
            f"{loose.untold:,} records are in cells of {', '.join(dealt_within)} with too few different groups to tell "
            "their values."
        )
    if notes:
        notes.append("Of these the classical estimate is taken, and the largest error that it can have is added.")
    return notes
