"""Sums over the records, estimated from sums over the published rows, with variances.

With z_r a number of each record (1 for a count, the weight, the weight times x) and phi a set of values of the domain,
the sum of z_r over the records with a value in phi is estimated by

    sum_r z_r a(y_r)        a = P^-T phi, the weights of the published values

unbiased, since E[a(y)] = phi(x). The covariance of two of them, z with phi and z' with phi', is estimated by

    given the table     sum_r z_r z'_r (a(y_r) a'(y_r) - b(y_r)),    b = P^-T (phi phi')
    in a population     n/(n-1) (sum_r z_r z'_r a(y_r) a'(y_r) - S S'/n),    S, S' = the two estimates, n = all rows

Sub-tables add up. A *cell* is a combination of values of the randomized columns that are asked for; cells are disjoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from sfumato.analyst.answer import Key, Target
from sfumato.analyst.ask.cells import Partition, PartTotals, possible_cells
from sfumato.analyst.counting.tally import ROWS, Number, Tally, Truths
from sfumato.analyst.randomized.channel import Channel, ChannelTable
from sfumato.values.arrays import BoolArray, FloatArray, IntArray
from sfumato.values.matrix.base import Estimable
from sfumato.values.matrix.retention import WORDS

UNBIASED = "Unbiased; estimates of rare groups can be negative, and groups that no published row has are left out."
NOTHING_HIDDEN = "No sensitive column is asked: the rows are counted as they are."
FEW = 10
"""Rows of a value that are expected by chance alone, below which their number is too uncertain to tell the error."""


class Weights(Protocol):
    """The weights of one sub-table's classes for cells; `sums` are [rows, classes], results [rows, cells]."""

    @property
    def least_chance(self) -> FloatArray:
        """The probability with which each class is published, whatever the records have."""

    def totals(self, sums: FloatArray) -> FloatArray:
        """Return the sums of s a."""

    def squares(self, sums: FloatArray) -> FloatArray:
        """Return the sums of s a^2."""

    def products(self, sums: FloatArray, part: IntArray) -> FloatArray:
        """Return the sums of s a b, where b are the weights of all cells with the same number in `part`."""

    def by_class(self) -> FloatArray:
        """Return the weights, [classes, cells]."""

    def inside(self, sums: FloatArray) -> FloatArray:
        """Return the sums over the classes that lie in each cell."""


@dataclass(frozen=True, eq=False)
class ValueWeights:
    """Every value is a class. `cells` has the cell of each value, -1 where the condition excludes it."""

    matrix: Estimable
    cells: IntArray
    size: int

    @property
    def least_chance(self) -> FloatArray:
        """The smallest probability with which each value is published."""
        return self.matrix.least_chance

    def totals(self, sums: FloatArray) -> FloatArray:
        """Return P^-1 s, added up over the values of each cell."""
        return self._whole(sums) if self._is_whole else self.collected(self.matrix.solve(sums))

    def squares(self, sums: FloatArray) -> FloatArray:
        """Return the sums of s a^2; cells that join several values need their weights one by one."""
        if self._is_whole:
            return self._whole(sums)
        if self._used.size == np.unique(self.cells[self._used]).size:
            return self.collected(self.matrix.inverse_squared_apply(sums))
        squares = np.zeros((len(sums), self.size))
        for cell in np.unique(self.cells[self._used]).tolist():
            squares[:, cell] = sums @ self._weights(self.cells == cell) ** 2
        return squares

    def products(self, sums: FloatArray, part: IntArray) -> FloatArray:
        """Return the sums of s a b: b is the same for all cells of a part."""
        of_value = np.where(self.cells >= 0, part[self.cells], -1)
        products = np.zeros((len(sums), self.size))
        for number in np.unique(of_value[of_value >= 0]).tolist():
            inside = of_value == number
            products[:, part == number] = self.totals(sums * self._weights(inside))[:, part == number]
        return products

    def by_class(self) -> FloatArray:
        """Return the weights, [values, cells]."""
        return self.totals(np.eye(self.matrix.size))

    def inside(self, sums: FloatArray) -> FloatArray:
        """Return the sums over the values of each cell."""
        return self.collected(sums)

    @cached_property
    def _used(self) -> IntArray:
        return np.flatnonzero(self.cells >= 0)

    @property
    def _is_whole(self) -> bool:
        """Whether all values are in one cell: then every weight is one, without any rounding."""
        return bool(self.cells[0] >= 0 and (self.cells == self.cells[0]).all())

    def _whole(self, sums: FloatArray) -> FloatArray:
        whole = np.zeros((len(sums), self.size))
        whole[:, self.cells[0]] = sums.sum(axis=1)
        return whole

    def _weights(self, values: BoolArray) -> FloatArray:
        return np.ones(values.size) if values.all() else self.matrix.solve_transposed(values.astype(np.float64))

    def collected(self, numbers: FloatArray) -> FloatArray:
        """Return the numbers added up over the values of each cell."""
        used, cells = self._used, self.cells[self._used]
        collected = np.zeros((len(numbers), self.size))
        if not used.size:
            return collected
        if (np.diff(cells) > 0).all():
            collected[:, cells] = numbers[:, used]
            return collected
        order = np.argsort(cells, kind="stable")
        present, first = np.unique(cells[order], return_index=True)
        collected[:, present] = np.add.reduceat(numbers[:, used[order]], first, axis=1)
        return collected


@dataclass(frozen=True, eq=False)
class ClassWeights:
    """Few classes and one cell: the weights are given."""

    weights: FloatArray
    least_chance: FloatArray

    def totals(self, sums: FloatArray) -> FloatArray:
        """Return the sums of s a."""
        return (sums @ self.weights)[:, None]

    def squares(self, sums: FloatArray) -> FloatArray:
        """Return the sums of s a^2."""
        return (sums @ self.weights**2)[:, None]

    def products(self, sums: FloatArray, part: IntArray) -> FloatArray:
        """Return the sums of s a b: the only cell is all of its part."""
        return self.squares(sums)

    def by_class(self) -> FloatArray:
        """Return the weights, [classes, 1]."""
        return self.weights[:, None]

    def inside(self, sums: FloatArray) -> FloatArray:
        """Return the sums over the first class: the cell."""
        return sums[:, :1]


_Term = Callable[[Weights, FloatArray, FloatArray], FloatArray]
"""Of the weights, the sums and the sums that are not below chance."""


def chosen_weights(table: ChannelTable, selected: BoolArray) -> ClassWeights:
    """Return the weights of {selected, not selected} under a uniform matrix.

    With k values selected, a = (1 - k q)/p for these and -k q/p for the others.
    """
    retention, noise = table.matrix.retention, table.matrix.uniform_noise
    assert retention is not None
    assert noise is not None
    p, q, k = float(retention[0]), noise / WORDS, int(selected.sum())
    if k == selected.size:
        return ClassWeights(np.ones(2), np.array([1.0, 0.0]))
    return ClassWeights(np.array([1 - k * q if k else 0.0, -k * q]) / p, np.array([k * q, (selected.size - k) * q]))


@dataclass(frozen=True, eq=False)
class Figures:
    """Estimates of every group and cell, [groups, cells]."""

    channel: Channel
    tally: Tally
    place: Callable[[Truths], IntArray]  # the cell of each code of the domain under a pattern; -1: not meant
    size: int  # how many cells there are
    rows: int  # of the whole release
    target: Target
    weight: str = ""
    floored: bool = True  # whether classes that few rows have count for what is due by chance, in variances

    def total(self, number: Number) -> FloatArray:
        """Return the estimated sums of a number."""
        return self._summed(number, lambda weights, sums, likely: weights.totals(sums))

    def magnitude(self, number: Number) -> FloatArray:
        """Return how large the sum of a number over the published rows of each group can be, [groups]: sqrt(n s2)."""
        squares = sum(array.sum(axis=1) for array in self.tally.sums[(number * number).summed(self.weight)])
        return np.sqrt(self.records * np.bincount(self.tally.group_of, squares, self.tally.groups))

    def published(self) -> FloatArray:
        """Return the published rows of each cell: what someone counts who does not correct."""
        return self._summed(ROWS, lambda weights, sums, likely: weights.inside(sums))

    def covariance(self, one: Number, other: Number) -> FloatArray:
        """Return the estimated covariance of the totals of two numbers in the same cell."""
        squares = self._summed(one * other, lambda weights, sums, likely: weights.squares(likely))
        return self._spread(one * other, squares, self._means(one, other))

    def slack(self, number: Number) -> FloatArray:
        """Return zeros: all errors are matters of chance."""
        return np.zeros((self.tally.groups, self.size))

    def of_parts(self, number: Number, partition: Partition) -> PartTotals:
        """Return the total of each cell's part, and what goes with it."""
        squares = self._summed(number * number, lambda weights, sums, likely: weights.products(likely, partition.cell))
        total = self.total(number)
        whole = partition.sums(total)
        covariance = self._spread(number * number, squares, total * whole / self.rows)
        return PartTotals(whole, covariance, partition.sums(covariance), np.zeros_like(whole))

    def blocks(self, number: Number) -> FloatArray:
        """Return the covariances of the totals of each group's cells, [groups, cells, cells].

        Given the table, totals of different groups are independent; in a population their covariance is what
        -S S'/(n-1) gives. (That term is part of the blocks' own covariances, too.)
        """
        blocks = np.zeros((self.tally.groups, self.size, self.size))
        for chosen, weights, sums, likely in self._terms(number * number):
            by_class = weights.by_class()
            moments = np.einsum("gy,yc,yd->gcd", likely, by_class, by_class, optimize=True)
            taken = weights.totals(likely if self.target == "table" else likely - sums)
            blocks[self.tally.group_of[chosen]] += moments - taken[:, :, None] * np.eye(self.size)
        if self.target == "table":
            return blocks
        total = self.total(number)
        return (blocks - total[:, :, None] * total[:, None, :] / self.rows) * self._sample_factor

    def joint_covariance(self, number: Number, target: Target, floored: bool = True) -> FloatArray:
        """Return the covariance of the totals of all groups and cells, in their order."""
        figures = replace(self, target=target, floored=floored)
        flat, size = figures.total(number).ravel(), self.size
        covariance = np.zeros((flat.size, flat.size))
        if target == "population":
            covariance -= np.outer(flat, flat) / max(self.rows - 1, 1)
        for group, block in enumerate(figures.blocks(number)):
            own = slice(group * size, (group + 1) * size)
            covariance[own, own] = block
        return covariance

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

    def notes(self) -> list[str]:
        """Return what is to be said of the estimates."""
        return [UNBIASED] if self.channel.tables else [NOTHING_HIDDEN]

    @property
    def is_whole(self) -> bool:
        """Whether no hidden column matters: rows are only counted."""
        return self.tally.detail == "whole"

    @property
    def records(self) -> FloatArray:
        """The published rows of each group."""
        rows = sum(array.sum(axis=1) for array in self.tally.sums[ROWS.summed("")])
        return np.bincount(self.tally.group_of, rows, self.tally.groups).astype(np.float64)

    @cached_property
    def possible(self) -> BoolArray:
        """The cells that some record can belong to under the condition."""
        return possible_cells(self.size, map(self.place, self.tally.patterns))

    @property
    def _sample_factor(self) -> float:
        return self.rows / max(self.rows - 1, 1)

    def _means(self, one: Number, other: Number) -> FloatArray | float:
        return 0.0 if self.target == "table" else self.total(one) * self.total(other) / self.rows

    def _spread(self, product: Number, squares: FloatArray, means: FloatArray | float) -> FloatArray:
        if self.target == "table":
            return squares - self._summed(product, lambda weights, sums, likely: weights.totals(likely))
        rest = self._summed(product, lambda weights, sums, likely: weights.totals(sums - likely))
        return (squares + rest - means) * self._sample_factor

    def _summed(self, number: Number, term: _Term) -> FloatArray:
        """Return a term of every sub-table and pattern, added up in the groups that it belongs to."""
        added = np.zeros((self.tally.groups, self.size))
        for chosen, weights, sums, likely in self._terms(number):
            added[self.tally.group_of[chosen]] += term(weights, sums, likely)  # a group is there once in a pattern
        return added

    def _terms(self, number: Number) -> Iterator[tuple[IntArray, Weights, FloatArray, FloatArray]]:
        """Yield rows, weights, sums and the sums that are not below chance, of every sub-table and pattern."""
        sql, rows_sql = number.summed(self.weight), ROWS.summed(self.weight)
        for chosen, table, weights in self._selections:
            sums, rows = self.tally.sums[sql][table][chosen], self.tally.sums[rows_sql][table][chosen]
            yield chosen, weights, sums, not_below_chance(weights.least_chance, rows, sums) if self.floored else sums

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
