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
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.values.arrays import BoolArray, CodeArray, FloatArray, IntArray
from sfumato.values.randomness import simulation

LEVEL = 1e-3  # the largest probability of a false alarm, both tests together
WEAK = 0.05  # up to this p-value there is weak evidence, which is said and decides nothing
TESTS = 2

BLOCKS = 64
SEGMENTS, SEGMENT = 20, 500  # runs, and the neighbours in each

DRAWS = 1999  # the smallest number of draws whose smallest p-value, 1/(DRAWS + 1), is half of LEVEL
ENOUGH = 10  # exceedances after which the draws stop
FIRST_BATCH, LARGEST_BATCH = 16, 128

CLASSES = 32  # value classes of the block test: the 31 most frequent values, and the rest
EXPECTED = 5.0  # the smallest expected count of a cell whose chi-square term is used
HYPERGEOMETRIC_LIMIT = 10**9  # of numpy's generator: rows in an urn


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
    """Takes the codes 0 .. m-1 of a column in file order, and tests whether they depend on the position.

    >>> watch = OrderWatch(2)
    >>> watch.add(np.repeat(np.arange(2, dtype=np.int32), 150))
    >>> watch.test().dependent
    True
    """

    def __init__(self, m: int) -> None:
        self._rows = 0
        self._size = self._stride = 1  # rows of a block; every stride-th segment is kept. Both double with the table
        self._cells = np.zeros((BLOCKS, m), dtype=np.int64)
        self._kept = np.zeros((SEGMENTS, SEGMENT), dtype=np.int32)

    def add(self, codes: CodeArray) -> None:
        """Take the next rows. The result does not depend on how the column is cut."""
        start, end = self._rows, self._rows + codes.size
        while end > BLOCKS * self._size:
            self._cells[: BLOCKS // 2] = self._cells[::2] + self._cells[1::2]
            self._cells[BLOCKS // 2 :] = 0
            self._size *= 2
        for block in range(start // self._size, -(-end // self._size)):
            first = block * self._size - start
            self._cells[block] += np.bincount(codes[max(first, 0) : first + self._size], minlength=self._cells.shape[1])
        while end > SEGMENTS * self._stride * SEGMENT:
            self._kept[: SEGMENTS // 2] = self._kept[::2]
            self._stride *= 2
        apart = self._stride * SEGMENT
        for slot in range(start // apart, -(-end // apart)):
            first = slot * apart - start  # where the segment begins among the codes
            piece = codes[max(first, 0) : max(first + SEGMENT, 0)]
            self._kept[slot, max(-first, 0) :][: piece.size] = piece
        self._rows = end

    def table(self) -> IntArray:
        """Return the counts as (value, block); a last block less than half full joins the one before."""
        full, left = divmod(self._rows, self._size)
        cells = self._cells[: full + (left > 0)]
        if full and 0 < 2 * left < self._size:
            cells = np.vstack([cells[: full - 1], cells[full - 1 :].sum(axis=0)])
        return cells.T

    def sample(self) -> CodeArray:
        """Return the rows of the segments in order; all segments but the last have 500 rows."""
        slot, into = divmod(self._rows, self._stride * SEGMENT)
        return self._kept.reshape(-1)[: slot * SEGMENT + min(into, SEGMENT)]

    def test(self) -> OrderTest:
        """Test the rows so far. A table of one row or of one value has no order: p = 1."""
        if np.count_nonzero(self._cells.any(axis=0)) < 2:
            return OrderTest.combined(1.0, 1.0)
        return tested(self.table(), self.sample())


def tested(blocks: IntArray, sample: CodeArray) -> OrderTest:
    """Test both summaries, by draws that they seed themselves: the same rows get the same p-value every time."""
    content = hashlib.sha256(repr(blocks.shape).encode())
    content.update(np.ascontiguousarray(blocks, dtype="<i8").tobytes())
    content.update(np.ascontiguousarray(sample, dtype="<i4").tobytes())
    seed = int.from_bytes(content.digest())
    if seed not in _TESTED:
        rng = simulation(seed)
        while len(_TESTED) >= MOST_TESTED:
            _TESTED.pop(next(iter(_TESTED)))
        _TESTED[seed] = OrderTest.combined(block_test(blocks, rng), neighbour_test(sample, rng))
    return _TESTED[seed]


MOST_TESTED = 16
_TESTED: dict[int, OrderTest] = {}
"""The last tests by what they saw, their seed: who publishes by several plans counts the same rows several times."""


def block_size(rows: int) -> int:
    """Return the smallest power of two that makes at most 64 blocks (and at least 33, from 33 rows on).

    >>> block_size(0), block_size(64), block_size(65), block_size(128), block_size(129)
    (1, 1, 2, 2, 4)
    """
    return 1 << (max(0, rows - 1) // BLOCKS).bit_length()


# --- the sequential Monte-Carlo p-value ---------------------------------------------------------------------


def sequential_p(exceedances: Callable[[int], BoolArray]) -> float:
    """Return the p-value of Besag and Clifford (Biometrika 78 (1991), 301-304).

        p = h / l              if the h-th draw at least as extreme as the data is the l-th, l <= B
        p = (g + 1) / (B + 1)  if only g < h of all B draws are

    exceedances(c) makes c draws from the null and says of each whether it is at least as extreme as the data.
    Data and draws being exchangeable, Pr[p <= a] <= a: p <= h/l means that the data are among the h most
    extreme of themselves and l - 1 draws.
    """
    seen = drawn = 0
    batch = FIRST_BATCH
    while drawn < DRAWS:
        hits = exceedances(min(batch, DRAWS - drawn))
        places = np.flatnonzero(hits)
        if seen + places.size >= ENOUGH:
            return ENOUGH / (drawn + int(places[ENOUGH - seen - 1]) + 1)
        seen += places.size
        drawn += hits.size
        batch = min(2 * batch, LARGEST_BATCH)
    return (seen + 1) / (DRAWS + 1)


# --- test 1: blocks -----------------------------------------------------------------------------------------


def block_test(table: IntArray, rng: np.random.Generator) -> float:
    """Return the p-value of a (value, block) table against random tables of the same margins.

    Permuting the data's rows gives exactly these: the values of a block are drawn without replacement.
    """
    table = lump(within_limit(table))
    classes, blocks = table.sum(axis=1), table.sum(axis=0)
    if len(classes) < 2 or len(blocks) < 2:
        return 1.0
    score = BlockScore(classes, blocks)
    observed = score(table[np.newaxis])[0]
    least = observed - 1e-9 * (1 + abs(observed))  # rounding never makes a tie look less extreme

    def exceedances(count: int) -> BoolArray:
        return np.asarray(score(random_tables(classes, blocks, count, rng)) >= least)

    return sequential_p(exceedances)


def within_limit(table: IntArray) -> IntArray:
    """Return the table with every 2nd, 4th, ... block only, if its rows are too many for the generator.

    (The rows of fixed blocks are in random order if all rows are: the test stays valid.)
    """
    while table.sum() >= HYPERGEOMETRIC_LIMIT and table.shape[1] > 1:
        table = table[:, ::2]
    return table


def lump(table: IntArray) -> IntArray:
    """Return the table of at most 32 classes: the 31 most frequent values, and the rest, none empty.

    The classes depend on the margin only, which permuting rows keeps.
    """
    totals = table.sum(axis=1)
    order = np.argsort(-totals, kind="stable")[: np.count_nonzero(totals)]
    if len(order) <= CLASSES:
        return table[order]
    first, rest = order[: CLASSES - 1], order[CLASSES - 1 :]
    return np.vstack([table[first], table[rest].sum(axis=0)])


@dataclass(frozen=True)
class Grouping:
    """Blocks joined into groups, the classes frequent enough to be used there, and their expected counts."""

    starts: IntArray  # the first block of each group
    usable: IntArray  # classes
    expected: FloatArray  # (usable class, group)
    absent: FloatArray  # 1 - frequency of each usable class

    def score(self, tables: IntArray) -> FloatArray:
        """Return the largest chi-square score of each table: of a class against the others, or of all."""
        counts = np.add.reduceat(tables[:, self.usable], self.starts, axis=2)
        terms = ((counts - self.expected) ** 2 / self.expected).sum(axis=2)  # (table, class)
        freedom = len(self.starts) - 1  # a term's mean is freedom * absent
        single = normal_score(terms / self.absent, freedom)
        joint = normal_score(terms.sum(axis=1), freedom * self.absent.sum())
        return np.asarray(np.maximum(single.max(axis=1), joint))


class BlockScore:
    """The statistic of the block test: the largest chi-square, on a common scale, over classes and groupings.

        X2 = sum (O - E)^2 / E

    of each value class against all others and of all classes at once, over 2, 4, 8, ... groups of blocks. One
    chi-square of the whole table would drown the slow drift of one value in the noise of all other cells.
    Cells of small E have heavy tails; their classes are left out, by a rule that looks at the margins only,
    so that the test stays exact.
    """

    def __init__(self, classes: IntArray, blocks: IntArray) -> None:
        number = len(blocks)
        sizes = [groups for groups in (2, 4, 8, 16, 32) if groups < number] + [number]
        found = [grouping(classes, blocks, groups, EXPECTED) for groups in sizes]
        usable = [one for one in found if one.usable.size]
        self.groupings = usable or [grouping(classes, blocks, sizes[0], 0.0)]

    def __call__(self, tables: IntArray) -> FloatArray:
        """Return the statistic of each (class, block) table."""
        scores = [one.score(tables) for one in self.groupings]
        return np.asarray(np.max(scores, axis=0))


def grouping(classes: IntArray, blocks: IntArray, groups: int, least: float) -> Grouping:
    """Return the blocks joined into nearly equal runs, with the classes of expected counts >= least.

    (Of the class and of all others, else the chi-square of a dominant value is that of the rare rest.)
    """
    rows = classes.sum()
    starts = np.arange(groups) * len(blocks) // groups
    sizes = np.add.reduceat(blocks, starts)
    rarer = np.minimum(classes, rows - classes)
    usable = np.flatnonzero(rarer * (sizes.min() / rows) >= least)
    return Grouping(starts, usable, np.outer(classes[usable], sizes) / rows, 1 - classes[usable] / rows)


def normal_score(chi_square: FloatArray, freedom: float) -> FloatArray:
    """Return the nearly standard normal score of a chi-square (Wilson and Hilferty, 1931).

        z = ((X2 / f)^(1/3) - 1 + 2/(9f)) / sqrt(2/(9f))

    It only makes the chi-squares comparable; the p-value does not rest on it.
    """
    variance = 2 / (9 * freedom)
    return np.asarray((np.cbrt(chi_square / freedom) - 1 + variance) / np.sqrt(variance))


def random_tables(classes: IntArray, blocks: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """Return `count` tables (class, block) of random row orders with these margins.

    The stretch of all rows is halved again and again; the left half's values are drawn without replacement.
    """
    depth = (len(blocks) - 1).bit_length()
    sizes = np.zeros(2**depth, dtype=np.int64)
    sizes[: len(blocks)] = blocks
    tables = np.tile(classes[:, np.newaxis], (count, 1, 1))  # (table, class, stretch)
    for level in range(depth):
        left = sizes.reshape(2 ** (level + 1), -1).sum(axis=1)[::2]
        tables = halve(tables, left, rng)
    return tables[:, :, : len(blocks)]


def halve(tables: IntArray, left: IntArray, rng: np.random.Generator) -> IntArray:
    """Split each stretch in two at random, the first with left[stretch] rows."""
    drawn = np.empty_like(tables)
    others = tables.sum(axis=1)  # (table, stretch): rows of the classes not yet drawn
    wanted = np.broadcast_to(left, others.shape).copy()
    last = tables.shape[1] - 1
    for k in range(last):
        others -= tables[:, k]
        drawn[:, k] = rng.hypergeometric(tables[:, k], others, wanted)
        wanted -= drawn[:, k]
    drawn[:, last] = wanted
    return np.stack([drawn, tables - drawn], axis=3).reshape(*tables.shape[:2], -1)


# --- test 2: neighbours -------------------------------------------------------------------------------------


def neighbour_test(sample: CodeArray, rng: np.random.Generator) -> float:
    """Return the two-sided p-value of the number of equal neighbours against random orders of the sample.

        T = |S - E S|,    E S = pairs * sum c (c - 1) / (N (N - 1)),    c the value counts, N the rows

    Both sides of T are multiplied by N (N - 1), so that ties are ties of integers.
    """
    rows = sample.size
    if rows < 2:
        return 1.0
    _, inverse, counts = np.unique(sample, return_inverse=True, return_counts=True)
    values = inverse.astype(np.uint16)  # small, for speed
    orders = rows * (rows - 1)
    centre = pairs_within(rows) * int((counts * (counts - 1)).sum())

    def distance(orderings: npt.NDArray[np.uint16]) -> IntArray:
        return np.abs(equal_neighbours(orderings) * orders - centre)

    observed = distance(values[np.newaxis])[0]

    def exceedances(count: int) -> BoolArray:
        return np.asarray(distance(rng.permuted(np.tile(values, (count, 1)), axis=1)) >= observed)

    return sequential_p(exceedances)


def pairs_within(rows: int) -> int:
    """Return the number of neighbouring pairs of the sample that do not straddle two segments."""
    return rows - 1 - (rows - 1) // SEGMENT


def equal_neighbours(orderings: npt.NDArray[np.uint16]) -> IntArray:
    """Return for each ordering (a line) the number of equal neighbours inside segments."""
    equal = orderings[:, 1:] == orderings[:, :-1]
    equal[:, SEGMENT - 1 :: SEGMENT] = False
    return np.asarray(np.count_nonzero(equal, axis=1), dtype=np.int64)
