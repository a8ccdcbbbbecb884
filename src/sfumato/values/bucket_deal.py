"""The deal of Anatomy: which group the records of each value go to. Pure arithmetic; chance comes from outside.

Records stand value by value in a line, and g groups are to be filled. Dealing the line in turn, position i to group
i mod g, puts no value twice in a group as long as no value has more than g records, and fills groups evenly. But in one
order of the values there are few different groups, from which an analyst can hardly tell the values apart. So the line
is dealt in B batches, each in a fresh order of the values. Batch b has the group numbers j with j mod B = b, and takes
the positions of the line that would have gone to them:

    batch of position i         b = (i mod g) mod B
    groups of batch b           G_b = |{j < g : j mod B = b}|
    of the first x positions    f_b(x) = floor(x/g) G_b + |{j < x mod g : j mod B = b}| are in batch b

A value's positions are consecutive, at most g, so at most G_b of them are in batch b: dealt in turn inside the batch,
no value comes twice to a group. A batch has floor(n/g) G_b records at least and ceil(n/g) G_b at most: all groups have
floor(n/g) or ceil(n/g) records, as without batches. With o the place of the value's first record in the line, and a
that of its first record in the batch's own line, the record of rank k goes to

    group b + B ((a - f_b(o) + f_b(i)) mod G_b),  i = o + k

Several tables, here cells, are dealt at once. A run are the records of a cell with one value, a piece is the part of a
run that is in one batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.values.arrays import IntArray

GROUP = "group"
"""The column with the number of a row's group, from 1; last in the data, first in the table of the groups."""
COUNT = "count"
"""The column of the table of the groups that says how many rows of the group have the value."""
BATCH_GROUPS = 8
"""Groups of a batch, about: with fewer the first order of the values shows again, with more there are fewer orders."""
MOST_BATCHES = 100
"""More do not help: standard errors are then within 2% of the least (benchmarks/buckets.py)."""
MOST_PIECES = 1 << 20
"""Of a cell: a few numbers are kept for each."""


def starts(counts: IntArray) -> IntArray:
    """Return where each run begins if runs of these lengths follow each other."""
    return np.cumsum(counts) - counts


@dataclass(frozen=True, eq=False)
class Runs:
    """What is to be dealt. counts: run -> records; cells: run -> cell, ascending; groups: cell -> g."""

    counts: IntArray
    cells: IntArray
    groups: IntArray

    def __post_init__(self) -> None:
        if (self.groups < 0).any() or (self.groups > self.records).any():
            raise ValueError("a group would be empty")
        if (self.counts < 0).any() or (self.counts > self.groups[self.cells]).any():
            raise ValueError("a value would come twice to a group")

    @classmethod
    def of_table(cls, counts: IntArray, groups: int) -> Runs:
        """Return the runs of one table, one for each value."""
        return cls(counts, np.zeros(counts.size, dtype=np.int64), np.array([groups]))

    @cached_property
    def records(self) -> IntArray:
        """The records of each cell."""
        return np.bincount(self.cells, self.counts, self.groups.size).astype(np.int64)  # exact below 2^53

    @cached_property
    def batches(self) -> IntArray:
        """B of each cell."""
        room = MOST_PIECES // np.maximum(np.bincount(self.cells, minlength=self.groups.size), 1)
        return np.clip(self.groups // BATCH_GROUPS, 1, np.clip(room, 1, MOST_BATCHES))

    @cached_property
    def places(self) -> IntArray:
        """o of each run."""
        return starts(self.counts) - starts(self.records)[self.cells]

    @cached_property
    def first_piece(self) -> IntArray:
        """The piece of each run in the first batch; the others follow."""
        return starts(self.batches[self.cells])

    @cached_property
    def pieces(self) -> tuple[IntArray, IntArray]:
        """Run and batch of each piece."""
        runs = np.repeat(np.arange(self.counts.size), self.batches[self.cells])
        return runs, np.arange(runs.size) - self.first_piece[runs]

    @cached_property
    def first_batch(self) -> IntArray:
        """The first batch of each cell, if the batches of all cells are numbered through."""
        return starts(self.batches)

    @property
    def batch_of_piece(self) -> IntArray:
        """The batch of each piece, numbered through all cells: inside it the order of the pieces is to be drawn."""
        runs, batch = self.pieces
        return self.first_batch[self.cells[runs]] + batch

    def before(self, runs: IntArray, batch: IntArray, places: IntArray) -> IntArray:
        """Return f_b(x) for these places x in the lines of the runs' cells."""
        g, number = self.of_cell(self.groups, runs), self.of_cell(self.batches, runs)
        turn, j = np.divmod(places, np.maximum(g, 1))
        return np.asarray(turn * members(g, number, batch) + (j + number - 1 - batch) // number)

    def of_cell(self, numbers: IntArray, runs: npt.NDArray[np.integer]) -> Any:
        """Return the number of the cell of each run; one number where there is one cell only."""
        return numbers[0] if numbers.size == 1 else numbers[self.cells[runs]]


def members(groups: Any, batches: Any, batch: Any) -> Any:
    """Return G_b."""
    return (groups + batches - 1 - batch) // batches


@dataclass(frozen=True, eq=False)
class Deal:
    """Runs with an order of the pieces of each batch. order: all pieces, batch by batch."""

    runs: Runs
    order: IntArray

    @cached_property
    def _sizes(self) -> IntArray:
        """The records of each piece."""
        runs, batch = self.runs.pieces
        first = self.runs.places[runs]
        return self.runs.before(runs, batch, first + self.runs.counts[runs]) - self.runs.before(runs, batch, first)

    @cached_property
    def _batch_records(self) -> IntArray:
        """The records of each batch, numbered through all cells."""
        total = np.bincount(self.runs.batch_of_piece, self._sizes, int(self.runs.batches.sum()))
        return total.astype(np.int64)

    @cached_property
    def _ends(self) -> IntArray:
        """Where each piece ends, in their order, if the lines of all batches follow each other."""
        return np.cumsum(self._sizes[self.order])

    @cached_property
    def _shifts(self) -> IntArray:
        """a - f_b(o) of each piece."""
        runs, batch = self.runs.pieces
        in_batch = np.empty_like(self.order)
        in_batch[self.order] = self._ends - self._sizes[self.order]
        in_batch -= starts(self._batch_records)[self.runs.batch_of_piece]
        return in_batch - self.runs.before(runs, batch, self.runs.places[runs])

    def group_of(self, run: npt.NDArray[np.integer], rank: IntArray) -> IntArray:
        """Return the group, from 0 in its cell, of the records with these ranks in their runs."""
        g, number = (self.runs.of_cell(numbers, run) for numbers in (self.runs.groups, self.runs.batches))
        turn, j = np.divmod(self.runs.places.take(run) + rank, g)
        round_, batch = np.divmod(j, number)
        size = members(g, number, batch)
        place = self._shifts.take(self.runs.first_piece.take(run) + batch) + turn * size + round_
        return np.asarray(batch + number * (place % size))

    def runs_in(self, first: int, last: int) -> tuple[IntArray, IntArray]:
        """Return group and run of every record in groups `first` to `last` - 1 of the only cell, by group and run."""
        (g,), (number,) = self.runs.groups.tolist(), self.runs.batches.tolist()
        group = np.arange(first, last)
        batch = group % number
        size, records = members(g, number, batch), self._batch_records[batch]
        turn = np.arange(-(-int(self.runs.records[0]) // g))[:, np.newaxis]
        place = group // number + turn * size  # (turn, group): in the line of the batch
        piece = np.searchsorted(self._ends, starts(self._batch_records)[batch] + place, side="right")
        none = self.runs.counts.size
        run = np.append(self.runs.pieces[0][self.order], none).take(piece)
        run = np.sort(np.where(place < records, run, none).T, axis=1)
        filled = run < none
        return np.repeat(group, filled.sum(axis=1)), run[filled]
