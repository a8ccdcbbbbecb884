"""The deal inside the cells, which holds under every prior.

A cell is a joint signature: tuples of one cell agree in every attribute set. A kind is a cell with a value; n_cx is how
many records of cell c have value x. Let g be the largest integer with

    sum_x min(n_cx, g) >= r g

Of each value at most g records of the cell are kept. They are dealt to g groups: no value comes twice into a
group, and every group gets r records at least. Left over are sum_x max(0, n_cx - g).

No r-robust groups inside the cell keep more. If they keep c_x records of value x, then r c_x <= sum_y c_y, since every
group of N has it N/r times at most. With L the largest c_x: r L <= sum_y min(n_cy, L), so L <= g.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.values.arrays import IntArray
from sfumato.values.bucket_deal import Deal, Runs, starts
from sfumato.values.steps import WITHHELD

Order = npt.NDArray[np.integer]
"""A secret random number for each record, all different."""

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: the leading bits of its multiples, modulo 2^64, are well mixed."""


@dataclass(frozen=True, eq=False)
class Kinds:
    """The combinations of cell and value that occur, by ascending cell."""

    of_record: IntArray
    cells: IntArray
    values: IntArray
    counts: IntArray  # n_cx

    @classmethod
    def of(cls, cells: IntArray, values: IntArray) -> Kinds:
        """Return the kinds of a table."""
        domain = int(values.max()) + 1
        kinds, of_record, counts = np.unique(cells * domain + values, return_inverse=True, return_counts=True)
        return cls(of_record, kinds // domain, kinds % domain, counts)

    def per_cell(self, numbers: IntArray) -> IntArray:
        """Sum numbers of kinds over each cell."""
        return np.bincount(self.cells, weights=numbers).astype(np.int64)  # exact below 2^53

    def group_numbers(self, r: int) -> IntArray:
        """Return g of each cell, by bisection: sum_x min(n_cx, g) - r g is concave in g, and 0 for g = 0."""
        low = np.zeros(int(self.cells.max()) + 1, dtype=np.int64)
        high = self.per_cell(self.counts) // r
        while (low < high).any():
            middle = (low + high + 1) // 2
            fits = self.per_cell(np.minimum(self.counts, middle[self.cells])) >= r * middle
            low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
        return low

    def kept(self, r: int) -> IntArray:
        """Return min(n_cx, g)."""
        return np.minimum(self.counts, self.group_numbers(r)[self.cells])

    def line(self, order: Order) -> IntArray:
        """Return the records kind by kind, each kind in random order."""
        return np.lexsort((order, self.of_record))


def leftovers(cells: IntArray, values: IntArray, r: int) -> int:
    """Return how many records the deal leaves over: sum over cells of sum_x max(0, n_cx - g).

    With all records in one cell: the fewest that any r-robust grouping of the table leaves out, whatever the prior.

    >>> leftovers(np.array([0, 0, 0, 0, 1, 1]), np.array([0, 0, 0, 1, 0, 1]), 2)
    2
    """
    kinds = Kinds.of(cells, values)
    return int((kinds.counts - kinds.kept(r)).sum())


def deal(kinds: Kinds, order: Order, r: int) -> IntArray:
    """Return the group of every record inside its cell, numbered from 0, or `WITHHELD`.

    >>> deal(Kinds.of(np.zeros(6, int), np.array([0, 0, 0, 0, 1, 2])), np.arange(6), 2).tolist()
    [0, 1, -1, -1, 1, 0]
    """
    numbers, line = kinds.group_numbers(r), kinds.line(order)
    runs = Runs(kinds.kept(r), kinds.cells, numbers)
    kind = kinds.of_record[line]
    rank = np.arange(line.size) - starts(kinds.counts)[kind]
    kept = rank < runs.counts[kind]
    records, kind = line[kept], kind[kept]
    groups = np.full(line.size, WITHHELD, dtype=np.int64)
    dealt = Deal(runs, _piece_order(runs, order[line[starts(kinds.counts)]]))
    groups[records] = starts(numbers)[kinds.cells[kind]] + dealt.group_of(kind, rank[kept])
    return groups


def _piece_order(runs: Runs, numbers: Order) -> IntArray:
    """Return the pieces batch by batch, in an order that is another one in each. numbers: the least of each kind.

    It is a hash of secret numbers of the records and of the batch, so that the deal still depends on nothing but the
    records' values and numbers: see `grouping`. (The numbers alone would put frequent values first.)
    """
    rank = np.argsort(np.argsort(numbers)).astype(np.uint64)
    run, batch = runs.pieces
    hashed = rank[run] << np.uint64(32) | batch.astype(np.uint64)
    for _ in range(3):
        hashed *= GOLDEN
        hashed ^= hashed >> np.uint64(32)
    return np.lexsort((hashed, runs.batch_of_piece))


def cell_signatures(cells: IntArray, signatures: IntArray) -> IntArray:
    """Return the signature of each cell in an attribute set; raise if its records differ in it."""
    of_cell = np.zeros(int(cells.max()) + 1, dtype=np.int64)
    of_cell[cells] = signatures
    if (of_cell[cells] != signatures).any():
        raise ValueError("records of one cell have different signatures")
    return of_cell
