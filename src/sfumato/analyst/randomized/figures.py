"""Sums over the records, estimated from sums over the published rows, with variances.

With z_r a number of each record (1 for a count, the weight, the weight times x) and phi a set of values of the domain,
the sum of z_r over the records with a value in phi is estimated by

    sum_r z_r a(y_r)        a = P^-T phi, the weights of the published values

unbiased, since E[a(y)] = phi(x). The covariance of two of them, z with phi and z' with phi', is estimated by

    given the table     sum_r z_r z'_r (a(y_r) a'(y_r) - b(y_r)),    b = P^-T (phi phi')
    in a population     n/(n-1) (sum_r z_r z'_r a(y_r) a'(y_r) - S S'/n),    S, S' = the two estimates, n = all rows

Sub-tables add up. A *cell* is a combination of values of the randomized columns that are asked for; cells are disjoint.
Where the values of a randomized column are themselves summed, phi is a score of each value (its number, whether it is
known, whether it lies at or below a mark) inside the cell; all of the above holds of it as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from sfumato.analyst.answer import Quotient, Target
from sfumato.analyst.ask.cells import Estimates, Partition, PartTotals, Place, Question, Source
from sfumato.analyst.ask.scale import Scale, places_over
from sfumato.analyst.counting.counts import CountedRelease
from sfumato.analyst.counting.tally import ROWS, Detail, Number, Tally, tallied
from sfumato.analyst.randomized.channel import (
    Channel,
    ClassWeights,
    ValueWeights,
    Weights,
    chosen_weights,
    randomization_of,
)
from sfumato.release.folder import ReleaseFolder
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.attributes import SensitiveDomain

UNBIASED = "Unbiased; estimates of rare groups can be negative, and groups that no published row has are left out."
NOTHING_HIDDEN = "No sensitive column is asked: the rows are counted as they are."
FEW = 10
"""Rows of a value that are expected by chance alone, below which their number is too uncertain to tell the error."""

MOST_AT_ONCE = 1 << 20
"""Weights that are held at a time while a distribution function is estimated: 8 MB."""

_WeightsOf = Callable[[Number], Weights]
"""Gives the weights for a number, which depend on its scores alone."""
_Term = Callable[[_WeightsOf, FloatArray, FloatArray], FloatArray]
"""Of the weights, the sums and the sums that are not below chance."""


@dataclass(frozen=True, eq=False)
class Figures(Estimates):
    """Estimates of every group and cell, [groups, cells]."""

    tally: Tally
    channel: Channel
    floored: bool = True  # whether classes that few rows have count for what is due by chance, in variances

    def total(self, number: Number) -> FloatArray:
        added = np.zeros((self.tally.groups, self.size))
        for chosen, table, weights in self._selections:  # no chance matters here, and to work it out takes longer
            sums = self.tally.sums[number.summed(self.tally.weight)][table][chosen]
            added[self.tally.group_of[chosen]] += self._scored(weights, table)(number).totals(sums)
        return added

    def magnitude(self, number: Number) -> FloatArray:
        score = number.score(self.channel.domain)
        return super().magnitude(number) * (1.0 if score is None else float(np.abs(score).max()))

    def published(self) -> FloatArray:
        return self._summed(ROWS, lambda weights, sums, likely: weights(ROWS).inside(sums))

    def covariance(self, one: Number, other: Number) -> FloatArray:
        product, scored = one * other, bool(one.scores or other.scores)

        def squares(weights: _WeightsOf, sums: FloatArray, likely: FloatArray) -> FloatArray:
            return weights(one).crossed(likely, weights(other)) if scored else weights(product).squares(likely)

        means = 0.0 if self.target == "table" else self.total(one) * self.total(other) / self.rows
        return self._spread(product, self._summed(product, squares), means)

    def distribution(self, number: Number, scale: Scale) -> Quotient:
        """Return sums of a number over the records at or below each place, and over all that have a value.

        Arrays [groups, cells, places]. At or below the last place is everything, exactly.
        """
        product, place = number * number, places_over(self.channel.domain, scale)
        top, squares, crossed, taken = np.zeros((4, self.tally.groups, self.size, scale.size))
        for chosen, table, weights in self._selections:
            assert isinstance(weights, ValueWeights)
            group, own = self.tally.group_of[chosen], place[self.channel.tables[table].codes]
            chance = weights.least_chance
            sums, (squared, likely) = (
                self._sums(number, chosen, table, chance)[0],
                self._sums(product, chosen, table, chance),
            )
            kept = likely if self.target == "table" else likely - squared
            for cell, marks, a, whole in weights.at_most(own, scale.size, MOST_AT_ONCE):
                at = np.ix_(group, marks)
                top[:, cell][at] += sums @ a.T
                taken[:, cell][at] += kept @ a.T
                squares[:, cell][at] += likely @ (a**2).T
                crossed[:, cell][at] += likely @ (a * whole).T
        bottom = np.broadcast_to(top[..., -1:], top.shape)
        last = np.broadcast_to(squares[..., -1:], top.shape)
        every = np.broadcast_to(taken[..., -1:], top.shape)
        if self.target == "table":
            return Quotient(top, bottom, squares - taken, crossed - taken, last - every)
        n, factor = self.rows, self.sample_factor
        return Quotient(
            top,
            bottom,
            (squares - taken - top * top / n) * factor,
            (crossed - taken - top * bottom / n) * factor,
            (last - every - bottom * bottom / n) * factor,
        )

    def of_parts(self, number: Number, partition: Partition) -> PartTotals:
        def products(weights: _WeightsOf, sums: FloatArray, likely: FloatArray) -> FloatArray:
            return weights(number).products(likely, partition.cell)

        squares, total = self._summed(number * number, products), self.total(number)
        whole = partition.sums(total)
        covariance = self._spread(number * number, squares, total * whole / self.rows)
        return PartTotals(whole, covariance, partition.sums(covariance), np.zeros_like(whole))

    def blocks(self, number: Number) -> FloatArray:
        """Return the covariances of the totals of each group's cells, [groups, cells, cells].

        Given the table, totals of different groups are independent; in a population their covariance is what
        -S S'/(n-1) gives. (That term is part of the blocks' own covariances, too.)
        """
        blocks = np.zeros((self.tally.groups, self.size, self.size))
        for chosen, weights_of, sums, likely in self._terms(number * number):
            weights = weights_of(number)
            by_class = weights.by_class()
            moments = np.einsum("gy,yc,yd->gcd", likely, by_class, by_class, optimize=True)
            taken = weights.totals(likely if self.target == "table" else likely - sums)
            blocks[self.tally.group_of[chosen]] += moments - taken[:, :, None] * np.eye(self.size)
        if self.target == "table":
            return blocks
        total = self.total(number)
        return (blocks - total[:, :, None] * total[:, None, :] / self.rows) * self.sample_factor

    def joint_covariance(self, number: Number, target: Target, floored: bool = True) -> FloatArray:
        figures = replace(self, target=target, floored=floored)
        flat, size = figures.total(number).ravel(), self.size
        covariance = np.zeros((flat.size, flat.size))
        if target == "population":
            covariance -= np.outer(flat, flat) / max(self.rows - 1, 1)
        for group, block in enumerate(figures.blocks(number)):
            own = slice(group * size, (group + 1) * size)
            covariance[own, own] = block
        return covariance

    def notes(self) -> list[str]:
        return [UNBIASED] if self.channel.tables else [NOTHING_HIDDEN]

    @property
    def is_whole(self) -> bool:
        return self.tally.detail == "whole"

    def _spread(self, product: Number, squares: FloatArray, means: FloatArray | float) -> FloatArray:
        if self.target == "table":
            return squares - self._summed(product, lambda weights, sums, likely: weights(product).totals(likely))
        rest = self._summed(product, lambda weights, sums, likely: weights(product).totals(sums - likely))
        return (squares + rest - means) * self.sample_factor

    def _summed(self, number: Number, term: _Term) -> FloatArray:
        """Return a term of every sub-table and pattern, added up in the groups that it belongs to."""
        added = np.zeros((self.tally.groups, self.size))
        for chosen, weights, sums, likely in self._terms(number):
            added[self.tally.group_of[chosen]] += term(weights, sums, likely)  # a group is there once in a pattern
        return added

    def _terms(self, number: Number) -> Iterator[tuple[IntArray, _WeightsOf, FloatArray, FloatArray]]:
        """Yield rows, weights, sums and the sums that are not below chance, of every sub-table and pattern."""
        for chosen, table, weights in self._selections:
            yield chosen, self._scored(weights, table), *self._sums(number, chosen, table, weights.least_chance)

    def _sums(
        self, number: Number, chosen: IntArray, table: int, least_chance: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the sums of a sub-table's rows, and those that are not below chance."""
        sums, rows = (self.tally.sums[n.summed(self.tally.weight)][table][chosen] for n in (number, ROWS))
        return sums, not_below_chance(least_chance, rows, sums) if self.floored else sums

    def _scored(self, weights: Weights, table: int) -> _WeightsOf:
        def of(number: Number) -> Weights:
            score = number.score(self.channel.domain)
            if score is None:
                return weights
            assert isinstance(weights, ValueWeights)
            return replace(weights, score=score[self.channel.tables[table].codes])

        return of

    @cached_property
    def _selections(self) -> list[tuple[IntArray, int, Weights]]:
        """The rows, the sub-table and the weights of each pattern of truths and each sub-table."""
        return list(self._select())

    def _select(self) -> Iterator[tuple[IntArray, int, Weights]]:
        if self.tally.detail == "whole":
            yield np.arange(self.tally.group_of.size, dtype=np.int64), 0, ClassWeights(np.ones(1), np.ones(1))
            return
        for number, pattern in enumerate(self.tally.patterns):
            chosen = np.flatnonzero(self.tally.pattern_of == number)
            cells = self.place(pattern)
            for place, table in enumerate(self.channel.tables):
                own = cells[table.codes]
                if self.tally.detail == "chosen":
                    yield chosen, place, chosen_weights(table, own >= 0)
                elif (own >= 0).any():
                    yield chosen, place, ValueWeights(table.matrix, own, self.size)


def not_below_chance(least_chance: FloatArray, rows: FloatArray, sums: FloatArray) -> FloatArray:
    """Return sums over the rows of each class, or their share by chance where few rows are due and fewer are there.

    No value is published less often than by chance, n min_i P[y, i]. Where that is a small number and even fewer rows
    have it, it takes their place in a variance: a value that nobody happens to publish would seem to have no error.
    """
    chance = rows.sum(axis=1, keepdims=True) * least_chance
    due = sums.sum(axis=1, keepdims=True) * least_chance
    return np.where((chance < FEW) & (rows < chance), due, sums)


# --- asked of a release -----------------------------------------------------------------------------------------------


def source_of(release: CountedRelease, names: Collection[str]) -> Source:
    """Return where estimates of a question about these columns come from."""
    if release.manifest.in_buckets:
        from sfumato.analyst.grouped.figures import FromGroups

        return FromGroups(release, FromMatrices(Channel(release.manifest.domain, (), release.manifest.domain)))
    return FromMatrices(randomization_of(release).joint(names))


def hidden_columns(release: ReleaseFolder) -> dict[str, str]:
    """Return the columns that are not told row by row, each with the reason."""
    if release.manifest.in_buckets:
        return dict.fromkeys(release.manifest.domain.names, "is only in the table of groups")
    return dict.fromkeys(randomization_of(release).names, "is randomized")


@dataclass(frozen=True)
class FromMatrices(Source):
    """Columns that were randomized. Published rows are read once for all grouping sets that lie in one of them."""

    channel: Channel
    _read: dict[frozenset[str], Tally] = field(default_factory=dict)

    @property
    def domain(self) -> SensitiveDomain:
        return self.channel.domain

    def figures(self, question: Question, names: Sequence[str], place: Place, size: int) -> Figures:
        q, largest = question, _largest(question, names)
        if largest not in self._read:
            untouched, numbers = q.untouched(largest, self.domain), (*q.totals, *q.products)
            detail = self._detail(q, largest)
            self._read[largest] = tallied(q.release, self.channel, untouched, q.condition, numbers, q.weight, detail)
        tally = self._read[largest].margin(names)
        return Figures(tally, place, size, q.release.manifest.data.rows, q.target, self.channel)

    def require_inverse(self, question: Question, names: Sequence[str]) -> None:
        if self._detail(question, _largest(question, names)) != "whole":
            self.channel.require_inverse()

    def notes(self, question: Question) -> list[str]:
        return []

    def _detail(self, question: Question, names: Collection[str]) -> Detail:
        """Return how much has to be told apart of the published values."""
        if question.by_value or set(names) & set(self.domain.names) or question.condition.atoms:
            return "values"
        if not question.condition.values:
            return "whole"
        return "chosen" if all(table.matrix.uniform_noise is not None for table in self.channel.tables) else "values"


def _largest(question: Question, names: Sequence[str]) -> frozenset[str]:
    """Return the largest grouping set that these columns lie in."""
    sets = [frozenset(each) for each in question.sets]
    return next(large for large in sets if large >= set(names) and not any(large < other for other in sets))
