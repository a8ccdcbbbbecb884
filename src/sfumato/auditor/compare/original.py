"""The table that is compared on, as arrays of codes; read once, for all releases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.analyst.release import Release
from sfumato.analyst.tables import JointTable
from sfumato.auditor.codes import ColumnCodes, table_codes
from sfumato.auditor.evidence import Evidence, another_table
from sfumato.errors import TableError, UsageError
from sfumato.publisher.table import Table
from sfumato.values.arrays import CodeArray, FloatArray, IntArray
from sfumato.values.attributes import label as written

MOST_CELLS = 3_000_000
"""Of a table that is compared."""
MOST_BELIEFS = 30_000_000
"""Combinations of quasi-identifiers that occur, times values."""


@dataclass(frozen=True, eq=False)
class Original:
    """Quasi-identifiers and sensitive columns of the records that are published, as codes by labels.

    Values of declared domains have a code too, those of no record as well.
    """

    table: Table
    columns: dict[str, ColumnCodes]
    codes: dict[str, CodeArray]

    @classmethod
    def read(cls, table: Table) -> Original:
        """Read the table; rows that the policy leaves out are left out."""
        names = table.schema.names("quasi_identifier", "sensitive")
        columns = {name: _seeded(ColumnCodes(table.schema[name])) for name in names}
        codes = table_codes(table, columns)
        if not codes[names[0]].size:
            raise TableError("The table has no rows to publish.", "Give a table with a row for each record.")
        return cls(table, columns, codes)

    @property
    def quasi_identifiers(self) -> tuple[str, ...]:
        """The columns that people are known by."""
        return tuple(self.table.schema.names("quasi_identifier"))

    @property
    def sensitive(self) -> tuple[str, ...]:
        """The columns that are to be hidden."""
        return tuple(self.table.schema.names("sensitive"))

    @property
    def rows(self) -> int:
        """The records."""
        return int(self.codes[self.sensitive[0]].size)

    def labels(self, name: str) -> tuple[str, ...]:
        """Return the labels of a column, in the order of their codes."""
        return tuple(self.columns[name].index)

    def shape(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return how many values columns have."""
        return tuple(len(self.columns[name].index) for name in names)

    @property
    def values(self) -> int:
        """How many combinations of sensitive values there are."""
        return math.prod(self.shape(self.sensitive))

    @cached_property
    def shares(self) -> FloatArray:
        """Of each combination of sensitive values."""
        return np.bincount(self.numbers(self.sensitive), minlength=self.values) / self.rows

    def numbers(self, names: Sequence[str]) -> IntArray:
        """Return each record's place in the flat table of columns."""
        place = np.zeros(self.rows, dtype=np.int64)
        for name, size in zip(names, self.shape(names), strict=True):
            place = place * size + self.codes[name]
        return place

    def numbered(self, names: Sequence[str]) -> IntArray:
        """Return each record's combination of values: those that occur, numbered from 0."""
        place = np.zeros(self.rows, dtype=np.int64)
        for name in names:
            place = np.unique(place * len(self.columns[name].index) + self.codes[name], return_inverse=True)[1]
        return place

    def combinations(self, names: Sequence[str]) -> int:
        """Return how many combinations of values occur."""
        return int(self.numbered(names).max()) + 1

    def together(self) -> IntArray:
        """Return how many people with the same quasi-identifiers have each value: [combination, value]."""
        place, size = self.numbered(self.quasi_identifiers), self.values
        number = int(place.max()) + 1
        if number * size > MOST_BELIEFS:
            raise UsageError(
                f"{number:,} combinations of quasi-identifiers times {size:,} values are too many to compare.",
                "Bin the columns, or give fewer of them the role quasi_identifier.",
            )
        cells = place * size + self.numbers(self.sensitive)
        return np.bincount(cells, minlength=number * size).reshape(-1, size)

    def counts(self, names: Sequence[str]) -> FloatArray:
        """Return the records of every combination of values, an axis for each column."""
        shape = self.shape(names)
        if math.prod(shape) > MOST_CELLS:
            raise UsageError(
                f"The table of {', '.join(names)} has {math.prod(shape):,} cells, too many to compare.",
                "Bin or leave out some of the columns.",
            )
        return np.bincount(self.numbers(names), minlength=math.prod(shape)).reshape(shape).astype(np.float64)

    def evidence(self, table: Table, release: Release) -> Evidence:
        """Return a release of the table, with codes by the same labels; `table` has the policy of the release."""
        return Evidence.of_known(table, release, self.columns, self.codes)

    def placed(self, estimated: JointTable) -> FloatArray:
        """Return an estimated table on the axes of `counts`; 0 where the release has no such value."""
        names = [axis.name for axis in estimated.axes]
        places = [
            np.array([self.columns[axis.name].index.get(written(value), -1) for value in axis.values], dtype=np.int64)
            for axis in estimated.axes
        ]
        if any((place < 0).any() for place in places):
            raise another_table("It lacks a value that was published.")
        placed = np.zeros(self.shape(names))
        placed[np.ix_(*places)] = estimated.value
        return placed


def _seeded(column: ColumnCodes) -> ColumnCodes:
    for value in column.attribute.declared or ():
        column.index.setdefault(written(value), len(column.index))
    return column
