"""Dealing the rows of each class to labels, with exact quotas, as a map.

Every row has a secret word. Among the rows of a class, those with the smallest words get the first label, the next ones
the second, and so on: so the label of a row is the number of thresholds of its class that are at most its word. The
thresholds are order statistics, found exactly: words are counted by class and leading bits, and only the buckets that
hold a boundary are looked at again. Memory is bounded whatever the number of rows, and any engine gives the same deal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sfumato.engines.base import Batch, Numbering, Source, ahead, side_by_side
from sfumato.engines.rows.encoding import SensitiveRows, changed_table
from sfumato.values.arrays import BoolArray, CodeArray, IntArray, WordArray
from sfumato.values.attributes import Schema
from sfumato.values.mechanism import Mechanism
from sfumato.values.randomness import SecretKey, Step

Rows = tuple[CodeArray, WordArray]
"""Class and word of some rows."""
Picked = tuple[IntArray, WordArray]
"""Bucket and word of some rows."""

TABLE_BITS = 22
"""Counters and look-up tables have at most 2^22 places."""
WORD_BITS = 11
"""Leading bits of a word that are looked at, at most: more would not fit in the processor's cache."""
ROWS_AT_ONCE = 1 << 16
REFINE_BITS = 10
MOST_COLLECTED = 1 << 21
"""Rows in boundary buckets that are kept to be sorted; more are first split by further bits."""


class Stream(Protocol):
    """All rows, the same ones every time: what an engine does for a deal."""

    def counted(self, places: Callable[[Rows], IntArray], size: int) -> IntArray:
        """Return how many rows have each of the places 0 .. size-1; not every row has one."""
        ...

    def picked(self, pick: Callable[[Rows], Picked]) -> Iterable[Picked]:
        """Return what is picked of all rows."""
        ...


@dataclass(frozen=True)
class ReadAgain:
    """A stream that is read from its beginning every time."""

    read: Callable[[], Iterable[Rows]]

    def counted(self, places: Callable[[Rows], IntArray], size: int) -> IntArray:
        """Return how many rows have each of the places 0 .. size-1."""
        counts = np.zeros(size, dtype=np.int64)
        for of_batch in side_by_side(lambda rows: np.bincount(places(rows), minlength=size), self.read()):
            counts += of_batch
        return counts

    def picked(self, pick: Callable[[Rows], Picked]) -> Iterable[Picked]:
        """Return what is picked of all rows."""
        return side_by_side(pick, self.read())


class EqualWords(Exception):
    """Two rows of a class have the same word at a boundary: the deal needs other words."""


@dataclass(frozen=True)
class Quotas:
    """How many rows of each class get each label, the labels in order; all rows of a class are dealt.

    `starts[c] : starts[c + 1]` are the entries of class c in `labels` and `rows`.
    """

    starts: IntArray
    labels: CodeArray
    rows: IntArray

    @classmethod
    def of(cls, deals: Iterable[tuple[IntArray, IntArray]], classes: int) -> Quotas:
        """Return the quotas from, for each label in order, its classes and their rows."""
        parts = [
            (np.asarray(codes), np.full(len(codes), label), np.asarray(rows))
            for label, (codes, rows) in enumerate(deals)
        ]
        codes, labels, rows = (np.concatenate([p[k] for p in parts]) for k in range(3))
        kept = rows > 0
        codes, labels, rows = codes[kept], labels[kept], rows[kept]
        order = np.lexsort((labels, codes))
        starts = np.searchsorted(codes[order], np.arange(classes + 1))
        return cls(starts.astype(np.int64), labels[order].astype(np.int32), rows[order].astype(np.int64))

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self.starts.size - 1

    @property
    def class_rows(self) -> IntArray:
        """The rows of each class."""
        ends: IntArray = np.concatenate([[0], np.cumsum(self.rows)])
        return np.subtract(ends[self.starts[1:]], ends[self.starts[:-1]])


@dataclass(frozen=True)
class Deal:
    """Thresholds, and the labels between them: `label_of` deals any row."""

    quotas: Quotas
    thresholds: WordArray  # of each entry of the quotas: the smallest word of its label; of a class's first label 0

    def label_of(self, codes: CodeArray, words: WordArray) -> CodeArray:
        """Return the label of each row. Done in blocks that stay in the processor's cache."""
        labels = np.empty(codes.size, dtype=np.int32)
        for start in range(0, codes.size, ROWS_AT_ONCE):
            block = slice(start, start + ROWS_AT_ONCE)
            labels[block] = self._label_of(codes[block], words[block])
        return labels

    def _label_of(self, codes: CodeArray, words: WordArray) -> CodeArray:
        bits, table = self._table
        entry = table.take((codes.astype(np.int64) << bits) | (words >> np.uint64(64 - bits)).astype(np.int64))
        unsure = np.flatnonzero(entry < 0)
        if unsure.size:
            entry[unsure] = self._exact(codes[unsure], words[unsure])
        return self.quotas.labels.take(entry)

    def _exact(self, codes: CodeArray, words: WordArray) -> IntArray:
        """Return the entry of each row by comparing whole words: a binary search inside its class, all rows at once."""
        low = self.quotas.starts[codes].copy()
        high = self.quotas.starts[codes + 1] - 1
        while (low < high).any():
            middle = (low + high + 1) // 2
            up = self.thresholds[middle] <= words
            low, high = np.where(up, middle, low), np.where(up, high, middle - 1)
        return low

    @cached_property
    def _table(self) -> tuple[int, IntArray]:
        """Leading bits, and the entry of every (class, leading bits); -1 where a threshold lies inside."""
        classes, starts = self.quotas.classes, self.quotas.starts
        bits = table_bits(classes)
        codes = np.repeat(np.arange(classes), np.diff(starts))
        inner = np.arange(codes.size) != starts[codes]  # the first label of a class has no threshold
        place = (codes[inner] << bits) | (self.thresholds[inner] >> np.uint64(64 - bits)).astype(np.int64)
        step = np.zeros(classes << bits, dtype=np.int64)
        np.add.at(step, place, 1)
        # entries are numbered through all classes: each class begins at its own first one, and the running sum has
        # already counted the thresholds of the class before
        counted = np.maximum(np.diff(starts, prepend=0)[:classes] - 1, 0)
        step.reshape(classes, -1)[:, 0] += np.diff(starts, prepend=0)[:classes] - counted
        table = np.cumsum(step)
        table[place] = -1
        return bits, table


def table_bits(classes: int) -> int:
    """Return how many leading bits of a word a table with a line for each class can tell apart."""
    return min(WORD_BITS, max(1, TABLE_BITS - max(1, classes - 1).bit_length()))


def find_deal(stream: Stream, quotas: Quotas) -> Deal:
    """Return the deal with exactly these quotas; raise `EqualWords` if words tie at a boundary.

    The stream must have exactly the quotas' number of rows of each class.
    """
    boundaries, bits = _Boundaries.of(quotas), table_bits(quotas.classes)
    histogram = stream.counted(lambda rows: _places(*rows, bits), quotas.classes << bits)
    if not np.array_equal(histogram.reshape(quotas.classes, -1).sum(axis=1), quotas.class_rows):
        raise changed_table()
    boundaries.narrow(histogram, boundaries.codes, bits)
    while boundaries.rows_inside > MOST_COLLECTED and boundaries.bits + REFINE_BITS < 64:
        boundaries.refine(stream)
    return Deal(quotas, boundaries.thresholds(stream, quotas))


def _places(codes: CodeArray, words: WordArray, bits: int) -> IntArray:
    """Return class and leading bits of the word as one number, in blocks that stay in the processor's cache."""
    places = np.empty(codes.size, dtype=np.int64)
    for start in range(0, codes.size, ROWS_AT_ONCE):
        block = slice(start, start + ROWS_AT_ONCE)
        leading = (words[block] >> np.uint64(64 - bits)).view(np.int64)
        np.left_shift(codes[block], bits, out=places[block], dtype=np.int64)
        places[block] |= leading
    return places


class _Boundaries:
    """For each threshold: its entry, its class, the leading bits known so far, and its rank inside their bucket."""

    def __init__(self, entries: IntArray, codes: IntArray, ranks: IntArray) -> None:
        self.entries, self.codes, self.ranks = entries, codes, ranks
        self.bits, self.prefixes = 0, np.zeros(entries.size, dtype=np.uint64)
        self.rows_inside = 0

    @classmethod
    def of(cls, quotas: Quotas) -> _Boundaries:
        codes = np.repeat(np.arange(quotas.classes), np.diff(quotas.starts))
        ends = np.concatenate([[0], np.cumsum(quotas.rows)])
        inner = np.flatnonzero(np.arange(codes.size) != quotas.starts[codes])
        # the rank of a label's first row in its class: the rows of all labels before it
        ranks = ends[inner] - ends[quotas.starts[codes[inner]]]
        return cls(inner, codes[inner], ranks)

    def narrow(self, counts: IntArray, own: IntArray, bits: int) -> None:
        """Find each threshold's bucket by so many further bits, from the counts by (its `own` number, these bits)."""
        before = np.concatenate([[0], np.cumsum(counts)])
        goal = before[own << bits] + self.ranks
        place = np.searchsorted(before, goal, side="right") - 1
        lower = (place & ((1 << bits) - 1)).astype(np.uint64)
        self.prefixes, self.bits = self.prefixes << np.uint64(bits) | lower, self.bits + bits
        self.ranks = goal - before[place]
        buckets, own = self._buckets()
        rows = np.zeros(len(buckets), dtype=np.int64)
        rows[own] = counts[place]
        self.rows_inside = int(rows.sum())

    def refine(self, stream: Stream) -> None:
        """Count the boundary buckets by further bits, and narrow each to one of its parts."""
        buckets, own = self._buckets()
        inside, shift = self._inside(buckets), np.uint64(64 - self.bits - REFINE_BITS)

        def parts(rows: Rows) -> IntArray:
            which, words = inside(rows)
            return which << REFINE_BITS | ((words >> shift) & np.uint64((1 << REFINE_BITS) - 1)).astype(np.int64)

        self.narrow(stream.counted(parts, len(buckets) << REFINE_BITS), own, REFINE_BITS)

    def thresholds(self, stream: Stream, quotas: Quotas) -> WordArray:
        """Collect the words of the boundary buckets and pick the exact order statistics."""
        found = np.zeros(quotas.labels.size, dtype=np.uint64)
        if not self.entries.size:
            return found
        buckets, own = self._buckets()
        pieces = list(stream.picked(self._inside(buckets)))
        which = np.concatenate([p[0] for p in pieces])
        words = np.concatenate([p[1] for p in pieces])
        order = np.lexsort((words, which))
        which, words = which[order], words[order]
        place = np.searchsorted(which, own) + self.ranks
        picked = words[place]
        lowest = self.ranks == 0
        if (words[place[~lowest] - 1] == picked[~lowest]).any():
            raise EqualWords
        found[self.entries] = picked
        return found

    def _buckets(self) -> tuple[npt.NDArray[np.void], IntArray]:
        """The distinct (class, leading bits) that hold a boundary, sorted, and each boundary's own."""
        pairs = np.empty(self.codes.size, dtype=[("code", np.int64), ("prefix", np.uint64)])
        pairs["code"], pairs["prefix"] = self.codes, self.prefixes
        distinct, own = np.unique(pairs, return_inverse=True)
        return distinct, own.astype(np.int64)

    def _inside(self, buckets: npt.NDArray[np.void]) -> Callable[[Rows], Picked]:
        """Return what picks the rows inside boundary buckets: the bucket's number and the word."""
        bits, classes = self.bits, int(buckets["code"].max()) + 1 if buckets.size else 1
        leading = min(table_bits(classes), bits)
        near = np.zeros(classes << leading, dtype=np.bool_)
        coarse = buckets["prefix"] >> np.uint64(bits - leading)
        near[(buckets["code"] << leading) | coarse.astype(np.int64)] = True

        def inside(of_batch: Rows) -> Picked:
            codes, words = of_batch
            place = _places(codes, words, leading)
            rows = np.flatnonzero(near.take(place, mode="clip") & (place < near.size))
            pairs = np.empty(rows.size, dtype=buckets.dtype)
            pairs["code"], pairs["prefix"] = codes[rows], words[rows] >> np.uint64(64 - bits)
            which = np.minimum(np.searchsorted(buckets, pairs), len(buckets) - 1)
            hit = buckets[which] == pairs
            return which[hit], words[rows][hit]

        return inside


STREAMS_OF_FILE = 1 << 20
"""Streams of words between a file and the next, for the deals that have to be drawn again."""


@dataclass(frozen=True, eq=False)
class Labels:
    """Which sub-table each row gets: by its value and its word, drawn in some attempt."""

    deal: Deal
    attempt: int

    def __call__(self, batch: Batch, key: SecretKey, keep: BoolArray | None, codes: CodeArray) -> CodeArray:
        """Return the sub-table of each kept row, from 0; `codes` are the kept rows' sensitive values."""
        words = batch.words(key, Step.ALLOCATE, dealing_stream(self.attempt))
        return self.deal.label_of(codes, words if keep is None else words[keep])


def dealt(rows: Callable[[int], Stream], mechanism: Mechanism, quotas: Sequence[IntArray]) -> Labels:
    """Deal the rows with exactly these quotas, by the words of the first attempt in which none tie at a boundary."""
    deals = [(table.codes.astype(np.int64), quota) for table, quota in zip(mechanism.tables, quotas, strict=True)]
    asked = Quotas.of(deals, mechanism.domain.size)
    for attempt in count():
        with suppress(EqualWords):
            return Labels(find_deal(rows(attempt), asked), attempt)
    raise AssertionError("unreachable")


def dealing_stream(attempt: int) -> Numbering:
    """Return which words rows are dealt by in an attempt."""
    return lambda file: file * STREAMS_OF_FILE + attempt


def table_rows(source: Source, schema: Schema, mechanism: Mechanism, key: SecretKey) -> Callable[[int], Stream]:
    """Return, for an attempt, all rows of a table as they are dealt."""

    def of_attempt(attempt: int) -> Stream:
        rows = SensitiveRows(schema, mechanism.domain)

        def dealing(batch: Batch) -> tuple[CodeArray, WordArray]:
            return rows.with_words(batch, key, Step.ALLOCATE, dealing_stream(attempt))

        return ReadAgain(lambda: ahead(map(dealing, source.batches(rows.columns))))

    return of_attempt
