"""Does the sensitive value depend on the row's position? A table sorted by its sensitive value publishes it.

While the sensitive column is counted, `OrderWatch` keeps two small summaries that depend on the rows and
their order only, never on how the stream was cut into chunks:

- blocks: how often each value stands in each of 32 to 64 equal stretches of the table (finds sorting, drift);
- segments: some 5,000 to 10,000 rows in evenly spaced runs of 500 neighbours (finds local order).

Null hypothesis: given its values, the order of the rows is a uniformly random permutation. Each summary gets
a Monte-Carlo permutation test whose p-value is valid without approximation, Pr[p <= a] <= a; by Bonferroni
the probability of a false alarm of both is at most LEVEL, whatever the table is. "Not found" is never
"independent".
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.values.arrays import IntArray
from sfumato.values.order_tests import SEGMENT, block_test, neighbour_test
from sfumato.values.randomness import simulation

Floats = NDArray[np.float64]

LEVEL = 1e-3  # the largest probability of a false alarm, both tests together
WEAK = 0.05  # up to this p-value there is weak evidence, which is said and decides nothing
TESTS = 2

BLOCKS = 64
FULL_TABLE = 15_000  # up to so many values each has its own line in the value x block table (3.8 MB) ...
HASHED = 4096  # ... beyond, values whose codes agree modulo HASHED share one

EARLY = 16_384  # rows kept before the first value x block table is made

SEGMENTS = 20
FEW_VALUES = 4  # values up to which comparing is faster than bincount


@dataclass(frozen=True)
class OrderTest:
    """What both tests found; `p_value` is the smaller of their two p-values times two (Bonferroni)."""

    p_value: float
    dependent: bool
    block_p: float
    neighbour_p: float

    @classmethod
    def combined(cls, block_p: float, neighbour_p: float) -> OrderTest:
        """Return the joint verdict: Pr[dependent] <= LEVEL if the rows are in random order."""
        p_value = min(1.0, TESTS * min(block_p, neighbour_p))
        return cls(p_value, p_value <= LEVEL, block_p, neighbour_p)

    @property
    def weak(self) -> bool:
        """Whether the evidence is too weak for a verdict, and too strong to be passed over in silence."""
        return LEVEL < self.p_value <= WEAK

    @property
    def statement(self) -> str:
        """Return the verdict as a sentence.

        >>> OrderTest.combined(0.0005, 0.3).statement
        "The sensitive value depends on the row's position (p <= 0.001, permutation test)."
        """
        if self.dependent:
            return f"The sensitive value depends on the row's position (p <= {self.p_value:.2g}, permutation test)."
        if self.weak:
            return (
                "There is weak evidence that the sensitive value depends on the row's position "
                f"(p = {self.p_value:.2g}, permutation test at level {LEVEL:g})."
            )
        return (
            "No dependence of the sensitive value on the row's position was found "
            f"(p = {self.p_value:.2g}, permutation test at level {LEVEL:g})."
        )


class OrderWatch:
    """Counts the codes 0 .. m-1 of a column in file order, and tests whether they depend on the position.

    >>> watch = OrderWatch(2)
    >>> watch.add(np.repeat(np.arange(2, dtype=np.int32), 150))
    >>> watch.counts.tolist(), watch.test().dependent
    ([150, 150], True)
    """

    def __init__(self, m: int) -> None:
        self._blocks = BlockTable(m)
        self._segments = SegmentSample()

    def add(self, codes: NDArray[np.int32]) -> None:
        """Take the next rows. The result does not depend on how the column is cut."""
        self._blocks.add(codes)
        self._segments.add(codes)

    @property
    def counts(self) -> IntArray:
        """Return the number of rows of each value so far."""
        return self._blocks.counts

    def test(self) -> OrderTest:
        """Test the rows so far. A table of one row or of one value has no order: p = 1."""
        if np.count_nonzero(self.counts) < 2:
            return OrderTest.combined(1.0, 1.0)
        return tested(self._blocks.table(), self._segments.sample())


def tested(blocks: IntArray, sample: NDArray[np.int32]) -> OrderTest:
    """Test both summaries, by draws that they seed themselves: the same rows get the same p-value every time."""
    content = hashlib.sha256(repr(blocks.shape).encode())
    content.update(np.ascontiguousarray(blocks, dtype="<i8").tobytes())
    content.update(np.ascontiguousarray(sample, dtype="<i4").tobytes())
    rng = simulation(int.from_bytes(content.digest()))
    return OrderTest.combined(block_test(blocks, rng), neighbour_test(sample, rng))


class BlockTable:
    """Counts of (block, value) for at most 64 blocks of consecutive rows; their size doubles with the table.

    The first 16,384 rows are kept as they are: counting them at once is cheaper than merging small blocks.
    """

    def __init__(self, m: int) -> None:
        self.m = m
        self.rows = 0
        self._width = max(1, m) if m <= FULL_TABLE else HASHED
        self._early = np.empty(EARLY, dtype=np.int32)
        # both stay empty for the early rows
        self._counts = np.zeros(-(-m // self._width) * self._width, dtype=np.int64)  # whole lines of `width`
        self._cells = np.empty((0, self._width), dtype=np.int32)  # a block has less than 2^31 rows

    @property
    def counts(self) -> IntArray:
        """Return the number of rows of each value."""
        if self.rows <= EARLY:
            return tally(self._early[: self.rows], self.m)
        return self._counts[: self.m].copy()

    def add(self, codes: NDArray[np.int32]) -> None:
        """Take the next rows."""
        start = min(codes.size, max(0, EARLY - self.rows))
        if start:
            check_range(codes[:start], self.m)
            self._early[self.rows : self.rows + start] = codes[:start]
            self.rows += start
        while start < codes.size:
            start += self._add_to_block(codes[start:])

    def _add_to_block(self, codes: NDArray[np.int32]) -> int:
        """Count those of the next rows that lie in the same block; return their number."""
        if self.rows == EARLY:
            self._cells = self._early_cells()
            self._counts[: self.m] = self.counts
        if self.rows == BLOCKS * block_size(self.rows):
            self._merge_pairs()
        size = block_size(self.rows + 1)
        block, into = divmod(self.rows, size)
        piece = codes[: size - into]
        self._count(piece, self._cells[block])
        self.rows += piece.size
        return piece.size

    def _count(self, piece: NDArray[np.int32], line: NDArray[np.int32]) -> None:
        if 16 * piece.size < self.m:  # a few rows of many values: touch their places only
            check_range(piece, self.m)
            np.add.at(self._counts, piece, 1)
            np.add.at(line, piece % self._width, 1)
        else:
            counts = tally(piece, self.m, self._counts.size)
            self._counts += counts
            line += counts.reshape(-1, self._width).sum(axis=0)

    def _early_cells(self) -> NDArray[np.int32]:
        blocks = np.arange(self.rows) // block_size(self.rows)
        places = blocks * self._width + self._early[: self.rows] % self._width
        return tally(places, BLOCKS * self._width).astype(np.int32).reshape(BLOCKS, self._width)

    def _merge_pairs(self) -> None:
        for block in range(BLOCKS // 2):  # in place: a line is overwritten only after it was added
            np.add(self._cells[2 * block], self._cells[2 * block + 1], out=self._cells[block])
        self._cells[BLOCKS // 2 :] = 0

    def table(self) -> IntArray:
        """Return the counts as (value, block); a last block less than half full joins the one before."""
        size = block_size(self.rows)
        full, left = divmod(self.rows, size)
        cells = self._early_cells() if self.rows <= EARLY else self._cells
        cells = cells[: full + (left > 0)]
        if full and 0 < 2 * left < size:
            cells = np.vstack([cells[: full - 1], cells[full - 1 :].sum(axis=0)])
        return cells.T.astype(np.int64)


def block_size(rows: int) -> int:
    """Return the smallest power of two that makes at most 64 blocks (and at least 33, from 33 rows on).

    >>> block_size(0), block_size(64), block_size(65), block_size(128), block_size(129)
    (1, 1, 2, 2, 4)
    """
    return 1 << (max(0, rows - 1) // BLOCKS).bit_length()


def check_range(codes: NDArray[np.int32] | IntArray, m: int) -> None:
    """Raise if a code lies outside 0 .. m-1."""
    if codes.min() < 0 or codes.max() >= m:
        raise ValueError(f"the codes must lie in 0 .. {m - 1}, not in {codes.min()} .. {codes.max()}")


def tally(codes: NDArray[np.int32] | IntArray, m: int, length: int = 0) -> IntArray:
    """Return how often each of 0 .. m-1 occurs, followed by zeros up to `length`; another code is an error.

    (For very few values bincount waits for its own last increment, and comparing is faster.)
    """
    if m <= FEW_VALUES:
        counts = np.array([np.count_nonzero(codes == value) for value in range(m)], dtype=np.int64)
        if counts.sum() < codes.size:
            check_range(codes, m)
        return counts
    try:
        counts = np.bincount(codes, minlength=max(m, length)).astype(np.int64, copy=False)
    except ValueError:  # a negative code
        check_range(codes, m)
        raise
    if counts[m:].any():
        check_range(codes, m)
    return counts


class SegmentSample:
    """Evenly spaced segments of 500 rows: every `stride`-th one, the stride doubling with the table.

    After n rows the stride is the smallest power of two that keeps at most 20 segments; the last one may be
    incomplete.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.stride = 1
        self._kept = np.zeros((SEGMENTS, SEGMENT), dtype=np.int32)

    def add(self, codes: NDArray[np.int32]) -> None:
        """Take the next rows."""
        start = 0
        while start < codes.size:
            slot, into = divmod(self.rows, self.stride * SEGMENT)
            if slot == SEGMENTS:
                self._thin()
                continue
            kept = into < SEGMENT  # else in the gap that follows
            end = SEGMENT if kept else self.stride * SEGMENT
            piece = codes[start : start + end - into]
            if kept:
                self._kept[slot, into : into + piece.size] = piece
            start += piece.size
            self.rows += piece.size

    def _thin(self) -> None:
        self._kept[: SEGMENTS // 2] = self._kept[::2]
        self.stride *= 2

    def sample(self) -> NDArray[np.int32]:
        """Return the kept rows in order; all segments but the last have 500 rows."""
        slot, into = divmod(self.rows, self.stride * SEGMENT)
        return self._kept.reshape(-1)[: slot * SEGMENT + min(into, SEGMENT)].copy()
