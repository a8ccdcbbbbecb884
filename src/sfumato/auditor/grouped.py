"""A release by groups as arrays: the data with the group of each row, and the values of each group with counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.errors import ReleaseError, UsageError
from sfumato.methods.robustness.posterior import Composition, multiplicities
from sfumato.values.arrays import BoolArray, IntArray

MIXED = -1


@dataclass(frozen=True, eq=False)
class Lines:
    """The codes of each group with how often, group by group, inside a group in the order of a `Composition`."""

    groups: IntArray
    codes: IntArray
    counts: IntArray

    @classmethod
    def of(cls, groups: IntArray, codes: IntArray, counts: IntArray) -> Lines:
        """Return the lines in order: by group, the rarest code first."""
        order = np.lexsort((codes, counts, groups))
        return cls(groups[order], codes[order], counts[order])

    @cached_property
    def ends(self) -> IntArray:
        return np.cumsum(np.bincount(self.groups))

    @cached_property
    def starts(self) -> IntArray:
        return np.concatenate([[0], self.ends[:-1]])

    def each(self, groups: IntArray) -> tuple[IntArray, IntArray]:
        """Return all lines of these groups one after another: which of them a line is of, and the line."""
        lengths = (self.ends - self.starts)[groups]
        which = np.repeat(np.arange(lengths.size), lengths)
        return which, self.starts[groups][which] + np.arange(which.size) - (np.cumsum(lengths) - lengths)[which]

    def find(self, groups: IntArray, codes: IntArray) -> IntArray:
        """Return the line of each group and code; all must occur."""
        at, occurs = self._looked_up(groups, codes)
        if not occurs.all():
            group = int(groups[np.flatnonzero(~occurs)[0]])
            raise ReleaseError(
                f"Group {group + 1} does not have the value that one of its records has.",
                "Give the table that was published.",
            )
        return at

    def count(self, groups: IntArray, codes: IntArray) -> IntArray:
        at, occurs = self._looked_up(groups, codes)
        return np.where(occurs, self.counts[at], 0)

    def _looked_up(self, groups: IntArray, codes: IntArray) -> tuple[IntArray, BoolArray]:
        width = int(max(self.codes.max(), codes.max())) + 1
        keys = self.groups * width + self.codes
        order = np.argsort(keys)
        wanted = groups * width + codes
        at = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), order.size - 1)]
        return np.asarray(at), np.asarray(keys[at] == wanted)

    def of_groups(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        codes, counts = self.codes.tolist(), self.counts.tolist()
        bounds = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [(tuple(codes[start:end]), tuple(counts[start:end])) for start, end in bounds]


@dataclass(frozen=True, eq=False)
class GroupTables:
    """The two tables; groups and values are numbered from 0, and every group has rows.

    rows: the group of each row of the data. groups, values, counts: of each line of the table of the groups. numbers:
    as which groups are published; None: as 1, 2, ...
    """

    rows: IntArray
    groups: IntArray
    values: IntArray
    counts: IntArray
    numbers: IntArray | None = None

    def __post_init__(self) -> None:
        number = int(max(self.rows.max(), self.groups.max())) + 1
        listed = np.zeros(number, dtype=np.int64)
        np.add.at(listed, self.groups, self.counts)
        wrong = np.flatnonzero((self.sizes != listed) | (listed == 0)) if self.sizes.size == number else [number - 1]
        if len(wrong):
            group = int(wrong[0])
            rows = int(np.count_nonzero(self.rows == group))
            raise ReleaseError(
                f"Group {group + 1} has {rows:,} row(s) and {int(listed[group]):,} value(s).",
                "Get the release anew from the publisher: it was changed.",
            )

    @classmethod
    def of(cls, rows: IntArray, values: IntArray) -> GroupTables:
        """Return the tables that publish rows with these groups and true values."""
        return cls(rows, *multiplicities(rows, values))

    def told(self, group: int) -> str:
        return f"group {group + 1 if self.numbers is None else int(self.numbers[group])}"

    def without(self, known: BoolArray, values: IntArray) -> GroupTables:
        """Return what is left once some rows are known; values: theirs. Groups that are known whole are gone."""
        if known.all():
            raise UsageError("All members are known: nobody is left to ask for.", "Give some members.")
        counts = self.lines.counts.copy()
        np.subtract.at(counts, self.lines.find(self.rows[known], values), 1)
        if (counts < 0).any():
            raise UsageError(
                "More members of a group are known with a value than have it.", "Give the true values of members."
            )
        left = counts > 0
        numbers, rows = np.unique(self.rows[~known], return_inverse=True)
        groups = np.searchsorted(numbers, self.lines.groups[left])
        own = numbers + 1 if self.numbers is None else self.numbers[numbers]
        return GroupTables(rows, groups, self.lines.codes[left], counts[left], own)

    @cached_property
    def sizes(self) -> IntArray:
        return np.bincount(self.rows)

    @cached_property
    def lines(self) -> Lines:
        return Lines.of(self.groups, self.values, self.counts)

    def signed(self, signatures: IntArray) -> Lines:
        """Return the signatures of each group; `signatures` are those of the rows."""
        return Lines.of(*multiplicities(self.rows, signatures))

    def homes(self, cells: IntArray) -> IntArray:
        """Return the cell that all rows of a group are of; MIXED where they are of several. cells: of the rows."""
        home = np.full(self.sizes.size, MIXED)
        home[self.rows] = cells
        home[self.rows[cells != home[self.rows]]] = MIXED
        return home

    def compositions(self, signatures: IntArray) -> list[Composition]:
        pairs = zip(self.signed(signatures).of_groups(), self.lines.of_groups(), strict=True)
        return [Composition(*signed, *valued) for signed, valued in pairs]
