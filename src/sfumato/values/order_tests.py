"""Two permutation tests of whether the order of rows tells of their values: what `row_order` watches, judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.values.arrays import IntArray

Floats = NDArray[np.float64]

DRAWS = 1999  # the smallest number of draws whose smallest p-value, 1/(DRAWS + 1), is half of row_order.LEVEL
ENOUGH = 10  # exceedances after which the draws stop
FIRST_BATCH, LARGEST_BATCH = 16, 128

CLASSES = 32  # value classes of the block test: the 31 most frequent values, and the rest
EXPECTED = 5.0  # the smallest expected count of a cell whose chi-square term is used
HYPERGEOMETRIC_LIMIT = 10**9  # of numpy's generator: rows in an urn
SEGMENT = 500  # neighbours in a run


# --- the sequential Monte-Carlo p-value ---------------------------------------------------------------------


def sequential_p(exceedances: Callable[[int], NDArray[np.bool_]]) -> float:
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

    def exceedances(count: int) -> NDArray[np.bool_]:
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

    starts: NDArray[np.intp]  # the first block of each group
    usable: NDArray[np.intp]  # classes
    expected: Floats  # (usable class, group)
    absent: Floats  # 1 - frequency of each usable class

    def score(self, tables: IntArray) -> Floats:
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

    def __call__(self, tables: IntArray) -> Floats:
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


def normal_score(chi_square: Floats, freedom: float) -> Floats:
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


def neighbour_test(sample: NDArray[np.int32], rng: np.random.Generator) -> float:
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

    def distance(orderings: NDArray[np.uint16]) -> IntArray:
        return np.abs(equal_neighbours(orderings) * orders - centre)

    observed = distance(values[np.newaxis])[0]

    def exceedances(count: int) -> NDArray[np.bool_]:
        return np.asarray(distance(rng.permuted(np.tile(values, (count, 1)), axis=1)) >= observed)

    return sequential_p(exceedances)


def pairs_within(rows: int) -> int:
    """Return the number of neighbouring pairs of the sample that do not straddle two segments."""
    return rows - 1 - (rows - 1) // SEGMENT


def equal_neighbours(orderings: NDArray[np.uint16]) -> IntArray:
    """Return for each ordering (a line) the number of equal neighbours inside segments."""
    equal = orderings[:, 1:] == orderings[:, :-1]
    equal[:, SEGMENT - 1 :: SEGMENT] = False
    return np.asarray(np.count_nonzero(equal, axis=1), dtype=np.int64)
