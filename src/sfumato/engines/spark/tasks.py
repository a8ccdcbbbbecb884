"""What a worker does with the rows of a partition: the steps of one machine, over batches with addresses.

A worker raises nothing that tells a value: what it raises stands in Spark's logs and on its pages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.engines.base import RESERVED, Numbering, by_file
from sfumato.engines.rows.mapping import changed_table
from sfumato.values.arrays import IntArray, WordArray
from sfumato.values.arrow import as_numpy
from sfumato.values.randomness import SecretKey, Step

FILE, ROW = f"{RESERVED}file", f"{RESERVED}row"
"""Columns with the address of a row: a mark of its file, and its number in it."""
DRAWN = f"{RESERVED}drawn"
"""The column that says whether a row is the one that is drawn of its person, where one of each is."""
AT_ONCE = 1 << 17
"""Rows that a worker takes at a time: Spark hands over ten thousand, which is too few for fast steps."""


class Refused(Exception):
    """A column has a value, or misses one, that the policy does not allow: the driver looks which."""

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.column = column


@dataclass(frozen=True, eq=False)
class Files:
    """The files of a table: their marks, sorted; the number of each; and for each number how many rows came before.

    A mark is Spark's hash of the path: eight bytes for a row, instead of a path.
    """

    marks: IntArray
    numbers: IntArray
    before: IntArray
    length: int  # of all files together
    rows: int  # of these, those that are not filtered out

    @classmethod
    def of(cls, numbers: Mapping[int, int], rows: IntArray, total: int) -> Files:
        """Return the files with these numbers by mark, and so many rows by number."""
        marks = np.array(sorted(numbers), dtype=np.int64)
        before = np.cumsum(rows) - rows
        return cls(marks, np.array([numbers[int(m)] for m in marks], dtype=np.int64), before, int(rows.sum()), total)

    @property
    def is_whole(self) -> bool:
        """Whether no row is filtered out."""
        return self.rows == self.length

    def number_of(self, marks: IntArray) -> IntArray:
        """Return the number of each row's file. One that had no rows before is not known, and has no number."""
        different = marks[:1] if (marks == marks[:1]).all() else marks  # mostly there is one
        places = np.searchsorted(self.marks, different)
        if (self.marks.take(places, mode="clip") != different).any():
            raise changed_table()
        return np.resize(self.numbers[places], marks.size)


@dataclass(frozen=True, eq=False)
class Addressed:
    """Rows from anywhere, each with its file and its number in it."""

    rows: pa.RecordBatch
    files: IntArray
    numbers: IntArray
    before: IntArray  # of each file: the rows of the files before it

    @property
    def positions(self) -> IntArray:
        """The number of each row in the whole table."""
        return self.before[self.files] + self.numbers

    def words(self, key: SecretKey, step: Step, stream: Numbering = by_file) -> WordArray:
        """Return the word of each row. Rows that follow each other in one file, as they mostly do, are faster."""
        size = self.numbers.size
        if size and self.is_stretch:
            return key.words(step, int(stream(int(self.files[0]))), int(self.numbers[0]), size)
        return key.words_at(step, stream(self.files), self.numbers)

    @property
    def is_stretch(self) -> bool:
        """Whether the rows follow each other in one file."""
        files, numbers = self.files, self.numbers
        return bool((files == files[:1]).all() and (np.diff(numbers) == 1).all())


@dataclass(frozen=True)
class Unaddressed:
    """Rows without an address: they have no words of their own, and a record key stands in."""

    rows: pa.RecordBatch

    def words(self, key: SecretKey, step: Step, stream: Numbering = by_file) -> WordArray:
        """Refuse: a word without an address would be another one when the task is run again."""
        raise AssertionError("rows without an address have no words")


AnyBatch = Addressed | Unaddressed


@dataclass(eq=False)
class TaskSource:
    """The rows of a partition as a table that is read once. `given` are Spark's batches, with addresses.

    in_order: batches are cut to stretches of rows that follow each other, and `place` is the file and the number of the
    row that the stretch began with, of the batch that was given last. A partition may have several: Spark puts pieces
    of files together by their sizes.
    """

    names: list[str]
    types: Mapping[str, Any]
    files: Files | None
    given: Iterator[Any] | None = None
    in_order: bool = False
    place: tuple[int, int] = (0, 0)
    last: tuple[int, int] = (-1, -1)
    description: str = "a partition"
    wide: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def of(self, given: Iterator[Any]) -> TaskSource:
        """Return the same for the rows of a partition."""
        return replace(self, given=given)

    def column_type(self, name: str) -> Any:
        """Return the Arrow type under which a column is read."""
        return self.types[name]

    def batches(self, columns: Sequence[str]) -> Iterator[AnyBatch]:
        """Yield all rows with these columns (and DRAWN, if it is there).

        Who reads a second time wants to know what is wrong with a column: the driver will look.
        """
        if self.given is None:
            raise Refused(columns[0])
        given, self.given = self.given, None
        for rows in at_once(given):
            batch = self.batch(rows, columns)
            if self.in_order and isinstance(batch, Addressed):
                yield from self._stretches(batch)
            else:
                yield batch

    def _stretches(self, batch: Addressed) -> Iterator[Addressed]:
        """Cut a batch where a row does not follow the one before it."""
        files, numbers = (
            np.append(before, here) for before, here in zip(self.last, (batch.files, batch.numbers), strict=True)
        )
        steps = np.diff(numbers)
        follows = (np.diff(files) == 0) & ((steps == 1) if self.files and self.files.is_whole else (steps > 0))
        breaks = np.flatnonzero(~follows)
        for start, end in zip([0, *breaks[breaks > 0]], [*breaks[breaks > 0], batch.numbers.size], strict=True):
            run = slice(start, end)
            if not follows[start]:
                self.place = int(batch.files[start]), int(batch.numbers[start])
            yield Addressed(batch.rows[run], batch.files[run], batch.numbers[run], batch.before)
        self.last = int(batch.files[-1]), int(batch.numbers[-1])

    def batch(self, rows: Any, columns: Sequence[str]) -> AnyBatch:
        """Return some columns of Spark's rows, with their addresses."""
        chosen = self._typed(rows.select([*columns, *(name for name in (DRAWN,) if name in rows.schema.names)]))
        if self.files is None:
            return Unaddressed(chosen)
        marks, numbers = (as_numpy(rows.column(name)) for name in (FILE, ROW))
        return Addressed(chosen, self.files.number_of(marks), numbers, self.files.before)

    def _typed(self, rows: Any) -> Any:
        """Return the rows in the stated types: a session may hand over large text, or moments in a zone of its own."""
        fields = [pa.field(f.name, self.types.get(f.name, f.type)) for f in rows.schema]
        return rows.cast(pa.schema(fields))

    def fingerprint(self) -> str:
        """Refuse: a partition is not a table."""
        raise AssertionError("a partition has no fingerprint")


def at_once(batches: Iterable[Any], rows: int = AT_ONCE) -> Iterator[Any]:
    """Join Spark's batches to larger ones."""
    pending: list[Any] = []
    count = 0
    for batch in batches:
        if batch.num_rows:
            pending.append(batch)
            count += batch.num_rows
        if count >= rows:
            yield joined(pending)
            pending, count = [], 0
    if pending:
        yield joined(pending)


def joined(batches: Sequence[Any]) -> Any:
    """Return the rows of some batches as one."""
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays([batch.column(k) for batch in batches]) for k in range(batches[0].num_columns)]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


def file_sums(batches: Iterator[Any], key: SecretKey) -> Iterator[Any]:
    """Yield the sha256 of each file of a list (number, path)."""
    for batch in batches:
        for line in batch.to_pylist():
            with open(line["path"], "rb") as content:
                digest = hashlib.file_digest(content, "sha256").digest()
            yield pa.RecordBatch.from_pydict({"number": [line["number"]], "digest": [digest]})
