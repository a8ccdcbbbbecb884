"""What is asked for: cells of hidden columns in groups of the others, and the estimates that answers are made of.

A column is *hidden* if the release does not tell its value row by row: it is randomized, or only groups have it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from sfumato.analyst.answer import Key, Target, value_order
from sfumato.analyst.ask.conditions import Condition
from sfumato.analyst.counting.counts import CountedRelease
from sfumato.analyst.counting.tally import Number, Rows, Truths
from sfumato.release.folder import ReleaseFolder, shown_values
from sfumato.values.arrays import BoolArray, FloatArray, IntArray
from sfumato.values.attributes import SensitiveDomain

Place = Callable[[Truths], IntArray]
"""Gives the cell of each code of the domain under a pattern of truths; -1 where it is not meant."""


@dataclass(frozen=True, eq=False)
class Cells:
    """The combinations of values of the hidden columns that are asked for, numbered."""

    domain: SensitiveDomain
    asked: tuple[str, ...]  # the hidden columns that are asked for, in the order of the domain

    @cached_property
    def of_code(self) -> IntArray:
        """The cell of each code of the domain."""
        columns = self.domain.codes
        cell = np.zeros(self.domain.size, dtype=np.int64)
        for part, column in zip(self.domain.parts, columns, strict=True):
            if part.name in self.asked:
                cell = cell * len(part.values) + column
        return cell

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each column that is asked for."""
        return tuple(len(part.values) for part in self.domain.parts if part.name in self.asked)

    @cached_property
    def size(self) -> int:
        """The number of cells; one if no hidden column is asked for."""
        return int(np.prod(self.sizes, dtype=np.int64))

    def codes(self, name: str) -> IntArray:
        """Return the code of each cell's value in a column that is asked for."""
        place = self.asked.index(name)
        return np.unravel_index(np.arange(self.size), self.sizes)[place].astype(np.int64)

    def in_order(self, release: ReleaseFolder) -> IntArray:
        """Return the cells as answers list them: in the order of the domain, but numbers that were read off the table.

        Such a domain is in the order of text, where '10' comes before '9'.
        """
        places = []
        for part in self.domain.parts:
            if part.name in self.asked:
                values = shown_values(release, part)
                is_sorted = part.name in release.manifest.observed_domains and values != part.values
                place = value_order(values) if is_sorted else np.arange(len(values))
                places.append(place[self.codes(part.name)])
        return np.lexsort(places[::-1]) if places else np.arange(self.size)

    def keys(
        self, groups: Sequence[Key], number: int, shown: IntArray, release: ReleaseFolder | None
    ) -> dict[str, Key]:
        """Return the columns of so many groups and of the cells that are shown of each; without a release as text."""
        keys = {key.name: key.take(np.repeat(np.arange(number), shown.size)) for key in groups}
        for part in self.domain.parts:
            if part.name in self.asked:
                values = part.values if release is None else shown_values(release, part)
                keys[part.name] = Key(part.name, values, np.tile(self.codes(part.name)[shown], number))
        return keys

    def under(self, condition: Condition) -> Place:
        """Return what gives the cell of each code under a pattern of truths; -1 where the condition excludes it."""
        return lambda pattern: np.where(condition.selected(pattern), self.of_code, -1)

    def margin(self, names: tuple[str, ...]) -> IntArray:
        """Return the number of each cell's combination of fewer columns."""
        number = np.zeros(self.size, dtype=np.int64)
        for name, size in zip(self.asked, self.sizes, strict=True):
            if name in names:
                number = number * size + self.codes(name)
        return number


def cells_of(domain: SensitiveDomain, names: tuple[str, ...]) -> Cells:
    """Return the cells of the hidden columns among these names."""
    return Cells(domain, tuple(name for name in domain.names if name in names))


class Partition(NamedTuple):
    """The part of each cell and of each group, numbered: the total of a share is that of both. `names` made it."""

    cell: IntArray
    group: IntArray
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, keys: Sequence[Key], groups: int, cells: Cells, names: tuple[str, ...]) -> Partition:
        """Return the parts by some of the columns of groups and cells."""
        group = np.zeros(groups, dtype=np.int64)
        for key in keys:
            if key.name in names:
                group = np.unique(group, return_inverse=True)[1] * len(key.values) + key.codes
        return cls(cells.margin(names), np.unique(group, return_inverse=True)[1], names)

    def sums(self, numbers: FloatArray) -> FloatArray:
        """Return for each group and cell the sum over all groups and cells of its part."""
        by_cell = np.zeros((len(numbers), int(self.cell.max(initial=0)) + 1))
        np.add.at(by_cell.T, self.cell, numbers.T)
        by_both = np.zeros((int(self.group.max(initial=0)) + 1, by_cell.shape[1]))
        np.add.at(by_both, self.group, by_cell)
        return by_both[self.group][:, self.cell]


class PartTotals(NamedTuple):
    """Of each group and cell: the total of its part, its covariance with that, that one's variance and slack."""

    total: FloatArray
    covariance: FloatArray
    variance: FloatArray
    slack: FloatArray


@dataclass(frozen=True, eq=False)
class Estimates(ABC):
    """Estimated totals of every group and cell, [groups, cells], with (co)variances; NaN where none can be given."""

    tally: Rows
    place: Place
    size: int  # how many cells there are
    rows: int  # of the whole release
    target: Target

    @property
    def is_whole(self) -> bool:
        """Whether no hidden column matters: rows are only counted."""
        return False

    @cached_property
    def possible(self) -> BoolArray:
        """The cells that some record can belong to under the condition."""
        places = [self.place(pattern) for pattern in self.tally.patterns]
        return np.asarray(np.isin(np.arange(self.size), places) | (self.size == 1))

    @property
    def sample_factor(self) -> float:
        """What a variance over n is multiplied by in a population."""
        return self.rows / max(self.rows - 1, 1)

    @abstractmethod
    def total(self, number: Number) -> FloatArray:
        """Return the estimated sums of a number."""

    def magnitude(self, number: Number) -> FloatArray:
        """Return how large the sum of a number over the published rows of each group can be, [groups]: sqrt(n s2)."""
        return np.asarray(np.sqrt(self.tally.records * self.tally.by_group(number * number)))

    @abstractmethod
    def published(self) -> FloatArray:
        """Return what someone counts who does not correct."""

    @abstractmethod
    def covariance(self, one: Number, other: Number) -> FloatArray:
        """Return the estimated covariance of the totals of two numbers in the same cell."""

    def slack(self, number: Number) -> FloatArray:
        """Return the largest error of a total that is no matter of chance."""
        return np.zeros((self.tally.groups, self.size))

    @abstractmethod
    def of_parts(self, number: Number, partition: Partition) -> PartTotals:
        """Return the total of each cell's part, and what goes with it."""

    @abstractmethod
    def joint_covariance(self, number: Number, target: Target, floored: bool = True) -> FloatArray:
        """Return the covariance of the totals of all groups and cells, in their order.

        `floored`: values that few rows have count for what is due by chance, as in every standard error.
        """

    @abstractmethod
    def notes(self) -> list[str]:
        """Return what is to be said of the estimates."""


@dataclass(frozen=True)
class Question:
    """What is asked: by which columns (in one or several sets), of which records, which totals."""

    release: CountedRelease
    by: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]
    condition: Condition
    totals: tuple[Number, ...]
    products: tuple[Number, ...]  # of the totals, for variances
    weight: str = ""
    target: Target = "table"
    is_classical: bool = False
    by_value: bool = False  # whether cells depend on hidden columns that neither `by` nor the condition names

    def untouched(self, names: Collection[str], domain: SensitiveDomain) -> list[str]:
        """Return the columns among these that are not hidden, in their order."""
        return [name for name in self.by if name in names and name not in domain.names]


class Source(Protocol):
    """Where estimates come from: the matrices of a randomized release, or the compositions of a release by groups."""

    @property
    def domain(self) -> SensitiveDomain:
        """The hidden columns that are asked for, and those that go with them."""

    def figures(self, question: Question, names: Sequence[str], place: Place, size: int) -> Estimates:
        """Return the estimates by these columns, for `size` cells of the hidden ones among them."""

    def require_inverse(self, question: Question, names: Sequence[str]) -> None:
        """Raise if matrices have to be inverted for these columns and have no inverse."""

    def notes(self, question: Question) -> list[str]:
        """Return what is to be said of all answers."""
