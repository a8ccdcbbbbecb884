"""The deal of Anatomy by row: which group each row goes to, exactly and by chance, in bounded memory.

The records of a value stand in random order; the first ones are withheld, as many as is planned, and the others are
dealt by their rank (by `Deal`). The rank of a row among the rows of its value comes of an external sort. Every row is
dealt to a part by its secret word, and a part is sorted by (value, fresh word); rows are dealt to parts alike and
independently, so all orders of a value's rows are equally likely, however large the parts turn out. The groups of a
part are written back in the order in which its rows came. When the rows are read again, the same words tell which part
holds the next group of each: no row number is stored, and the two readings must only have the same values in the same
order. That they do is seen from a secret hash, the sum of word * (value + 1) over the rows modulo 2^64: other values
have the same with a probability of the domain's size / 2^64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from sfumato.engines.base import ahead, side_by_side
from sfumato.engines.embedded.shuffle import Place, SpillFile, stable_order
from sfumato.engines.rows.encoding import changed_table
from sfumato.values.arrays import CodeArray, IntArray, WordArray
from sfumato.values.bucket_deal import Deal, Runs
from sfumato.values.randomness import SecretKey, Step
from sfumato.values.steps import WITHHELD

GroupNumbers = npt.NDArray[np.int32]
Rows = npt.NDArray[np.uint32]
"""Row numbers inside a batch or a part."""

MOST_GROUPS = (1 << 31) - 1
PART_ROWS = 1 << 18
"""Rows of a part, about: few enough that the leading bits of their words mostly decide their order."""
LINES_AT_ONCE = 1 << 17
"""Lines of the sensitive table that are made at a time, about."""
MOST_PARTS = 1 << 14
MOST_COUNTERS = 1 << 26
"""Where parts are ranked apart, the rows of each value are counted in every part."""
FILES = 1 << 40
"""Streams of words below that are those of the table's files."""
STREAMS_OF_PART = 1 << 20
"""Streams of words between a part and the next, for orders that have to be drawn again."""

Composition = tuple[GroupNumbers, CodeArray, IntArray]
"""Group, value and count: the lines of the sensitive table for some groups, in order of group and value."""


@dataclass(frozen=True, eq=False)
class Groups:
    """How the records of each value are dealt. No group gets a value twice.

    counts: the records of each value. withheld: of them, those that are not published. deal: of the others.
    """

    counts: IntArray
    withheld: IntArray
    deal: Deal

    @classmethod
    def drawn(cls, counts: IntArray, withheld: IntArray, number: int, key: SecretKey) -> Groups:
        """Return the deal to so many groups, in every batch with the values in random order."""
        if not 1 <= number <= MOST_GROUPS:
            raise ValueError(f"{number:,} groups")
        if (withheld < 0).any() or (withheld > counts).any():
            raise ValueError("more records are withheld than there are, or fewer than none")
        runs = Runs.of_table(counts - withheld, number)
        batches = runs.batch_of_piece
        order = random_order(batches, lambda attempt: key.words(Step.ANATOMY, FILES + attempt, 0, batches.size))
        return cls(counts, withheld, Deal(runs, order.astype(np.int64)))

    @property
    def number(self) -> int:
        """How many groups there are."""
        return int(self.deal.runs.groups[0])

    @property
    def rows(self) -> int:
        """All published records."""
        return int(self.deal.runs.records[0])

    def group_of(self, codes: npt.NDArray[np.integer], ranks: IntArray) -> GroupNumbers:
        """Return the group of each record, from 0, by its value and its rank among the value's records."""
        if not self.withheld.any():
            return self.deal.group_of(codes, ranks).astype(np.int32)
        ranks = ranks - self.withheld.take(codes)
        groups = self.deal.group_of(codes, ranks).astype(np.int32)
        groups[ranks < 0] = WITHHELD
        return groups

    def compositions(self, start: int = 0, end: int | None = None) -> Iterator[Composition]:
        """Give the values of each group, or of those from `start` before `end`: the deal tells them without a row."""
        end = self.number if end is None else end
        at_once = max(1, LINES_AT_ONCE * self.number // self.rows)
        for first in range(start, end, at_once):
            groups, codes = self.deal.runs_in(first, min(first + at_once, end))
            yield groups.astype(np.int32), codes.astype(np.int32), np.ones(groups.size, dtype=np.int64)


def compositions(groups: npt.NDArray[np.integer], codes: npt.NDArray[np.integer]) -> Iterator[Composition]:
    """Give the values of each group, counted over the rows; both arrays are as long as the table."""
    published = groups != WITHHELD
    values = int(codes.max(initial=0)) + 1
    pairs, counts = np.unique(groups[published].astype(np.int64) * values + codes[published], return_counts=True)
    for start in range(0, pairs.size, LINES_AT_ONCE):
        lines = slice(start, start + LINES_AT_ONCE)
        number, value = np.divmod(pairs[lines], values)
        yield number.astype(np.int32), value.astype(np.int32), counts[lines]


def random_order(classes: npt.NDArray[np.integer], draw: Callable[[int], WordArray]) -> Rows:
    """Return the rows by class, those of a class by word. `draw` gives the words of an attempt.

    Words are drawn again if two rows of a class have the same: so all orders inside a class are equally likely.
    """
    return next(order for attempt in count() if (order := order_by_word(classes, draw(attempt))) is not None)


def order_by_word(classes: npt.NDArray[np.integer], words: WordArray) -> Rows | None:
    """Return the order by (class, word); None if two rows have the same of both.

    Class, leading bits of the word and row number are packed in 64 bits, so that a plain sort yields the order. The few
    rows that these bits do not tell apart are sorted again by their whole words.
    """
    row_bits, packed = np.uint64(max(words.size - 1, 1).bit_length()), classes.astype(np.uint64)
    class_bits = np.uint64(max(int(classes.max(initial=0)), 1).bit_length())
    packed <<= np.uint64(64) - class_bits
    packed |= words >> class_bits
    packed >>= row_bits
    packed <<= row_bits
    packed |= np.arange(words.size, dtype=np.uint64)
    packed.sort()
    order = (packed & np.uint64((1 << int(row_bits)) - 1)).astype(np.uint32)
    packed >>= row_bits
    equal = packed[1:] == packed[:-1]
    return _settled(order, np.flatnonzero(equal), classes, words) if equal.any() else order


def _settled(order: Rows, ties: IntArray, classes: npt.NDArray[np.integer], words: WordArray) -> Rows | None:
    """Sort the rows at each place and the next one, where leading bits are equal, by whole words."""
    places = np.union1d(ties, ties + 1)
    rows = order[places]
    rows = rows[np.lexsort((words[rows], classes[rows]))]
    if ((words[rows[1:]] == words[rows[:-1]]) & (classes[rows[1:]] == classes[rows[:-1]])).any():
        return None
    order[places] = rows
    return order


class RowGroups(Protocol):
    """The group of every row, in the order of the rows, given batch by batch."""

    def next(self, codes: CodeArray, words: WordArray) -> GroupNumbers:
        """Return the groups of the next rows, which have these values and words."""
        ...

    def finish(self) -> None:
        """Raise unless every row got its group, and had the value that its group was found for."""
        ...


class Ranked(NamedTuple):
    """The rows of a part: value and rank among the part's rows of that value; and how many rows its values have."""

    codes: npt.NDArray[np.integer]
    ranks: IntArray
    values: npt.NDArray[np.integer]
    counts: IntArray


def parts_of(rows: int, values: int) -> int:
    """Return how many parts a table has whose rows are ranked."""
    return max(1, min(-(-rows // PART_ROWS), MOST_PARTS, MOST_COUNTERS // values))


def part_of(words: WordArray, parts: int) -> IntArray:
    """Return the part that each row's word deals it to."""
    return ((words >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32)).view(np.int64)


def ranked(codes: npt.NDArray[np.integer], part: int, key: SecretKey) -> Ranked:
    """Rank the rows of a part, which have these values, by fresh words: inside a value all orders are as likely."""

    def draw(attempt: int) -> WordArray:
        return key.words(Step.ANATOMY, FILES + (1 + part) * STREAMS_OF_PART + attempt, 0, codes.size)

    order = random_order(codes, draw)
    in_order = codes[order]
    starts = np.flatnonzero(np.diff(in_order, prepend=in_order[:1]) != 0)
    starts = np.concatenate([[0], starts]) if codes.size else starts
    counts = np.diff(starts, append=codes.size)
    ranks = np.empty(codes.size, dtype=np.int64)
    ranks[order] = np.arange(codes.size) - np.repeat(starts, counts)
    return Ranked(codes, ranks, in_order[starts], counts)


def value_hash(codes: CodeArray, words: WordArray) -> np.uint64:
    """Return the sum of word * (value + 1) modulo 2^64."""
    return np.uint64(np.vdot(words, codes.astype(np.uint64) + np.uint64(1)))


class DealtRows:
    """Deals the rows; their groups lie in a nameless file."""

    def __init__(self, deal: Groups, key: SecretKey, folder: Path) -> None:
        self._deal, self._key = deal, key
        self._total = int(deal.counts.sum())
        self._parts = parts_of(self._total, deal.counts.size)
        self._stored = np.min_scalar_type(max(deal.counts.size - 1, 0))  # of a value's code
        self._pieces: list[list[Place]] = [[] for _ in range(self._parts)]
        self._cursors: list[int] = []
        self._given = 0
        self._hashes = np.zeros((2, 1), dtype=np.uint64)  # of the values, at the first and at the second reading
        self._file = SpillFile(folder)

    def deal(self, rows: Iterable[tuple[CodeArray, WordArray]]) -> None:
        """Read value and word of every row, and deal."""
        seen = np.zeros_like(self._deal.counts)
        for codes, words in ahead(rows):
            seen += np.bincount(codes, minlength=seen.size)
            self._scatter(codes, words)
        if not np.array_equal(seen, self._deal.counts):
            raise changed_table()
        before = np.zeros_like(seen)  # rows of each value in the parts so far
        for of_part in side_by_side(self._ranked, range(self._parts)):
            ranks = of_part.ranks + before.take(of_part.codes)
            before[of_part.values] += of_part.counts
            groups = self._deal.group_of(of_part.codes, ranks)
            self._cursors.append(self._file.append(_as_bytes(groups) if groups.size else b"")[0])

    def next(self, codes: CodeArray, words: WordArray) -> GroupNumbers:
        """Return the groups of the next rows, which have these values and words."""
        rows = codes.size
        if self._given + rows > self._total:
            raise changed_table()
        order, counts = self._by_part(codes, words, 1)
        by_part, groups, start = np.empty(rows, dtype=np.int32), np.empty(rows, dtype=np.int32), 0
        for part, number in enumerate(counts):
            if number:
                view = _as_bytes(by_part[start : start + number])
                self._file.read_into((self._cursors[part], len(view)), view)
                self._cursors[part] += len(view)
            start += number
        groups[order] = by_part
        self._given += rows
        return groups

    def finish(self) -> None:
        """Raise unless every row got its group, and had the value that its group was found for."""
        if self._given != self._total or self._hashes[0] != self._hashes[1]:
            raise changed_table()

    def close(self) -> None:
        """Give the space back."""
        self._file.close()

    def _by_part(self, codes: CodeArray, words: WordArray, reading: int) -> tuple[Rows, list[int]]:
        """Return the rows in order of their parts, and how many go to each part."""
        self._hashes[reading] += value_hash(codes, words)
        parts = part_of(words, self._parts)
        return stable_order(parts), np.bincount(parts, minlength=self._parts).tolist()

    def _scatter(self, codes: CodeArray, words: WordArray) -> None:
        order, counts = self._by_part(codes, words, 0)
        by_part, start = codes.astype(self._stored)[order], 0
        for part, number in enumerate(counts):
            if number:
                self._pieces[part].append(self._file.append(_as_bytes(by_part[start : start + number])))
            start += number

    def _ranked(self, part: int) -> Ranked:
        return ranked(self._read(part), part, self._key)

    def _read(self, part: int) -> npt.NDArray[np.integer]:
        content = bytearray(sum(length for _, length in self._pieces[part]))
        start = 0
        for offset, length in self._pieces[part]:
            self._file.read_into((offset, length), memoryview(content)[start : start + length])
            start += length
        return np.frombuffer(content, dtype=self._stored)


class GivenRows:
    """The same for groups that are known: value and group of each row, from 0, or `WITHHELD`."""

    def __init__(self, codes: npt.NDArray[np.integer], groups: npt.NDArray[np.integer]) -> None:
        self._codes, self._groups, self._given = codes, groups, 0

    def next(self, codes: CodeArray, words: WordArray) -> GroupNumbers:
        """Return the groups of the next rows, which have these values; their words are not looked at."""
        rows = slice(self._given, self._given + codes.size)
        if not np.array_equal(self._codes[rows], codes):
            raise changed_table()
        self._given += codes.size
        return self._groups[rows].astype(np.int32)

    def finish(self) -> None:
        """Raise unless every row got its group."""
        if self._given != self._groups.size:
            raise changed_table()


def _as_bytes(numbers: npt.NDArray[np.integer]) -> memoryview:
    """Return the memory of some numbers, at least one."""
    return numbers.data.cast("B")
