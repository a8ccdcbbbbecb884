"""Spark jobs: a function over the batches of all partitions, and what it sees of them; its failures as errors of ours.

Workers do the steps of one machine, over batches with addresses. They raise nothing that tells a value: what they raise
stands in Spark's logs and on its pages.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato import errors
from sfumato.engines.base import RESERVED, Numbering, by_file
from sfumato.engines.rows.encoding import changed_table
from sfumato.errors import JobFailed, OutOfSpace, UsageError
from sfumato.release.spark_session import quietly
from sfumato.values.arrays import IntArray, Progress, WordArray
from sfumato.values.arrow import as_numpy, from_numpy
from sfumato.values.randomness import SecretKey, Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE, ROW = f"{RESERVED}file", f"{RESERVED}row"
"""Columns with the address of a row: a mark of its file, and its number in it."""
DRAWN = f"{RESERVED}drawn"
"""The column that says whether a row is the one that is drawn of its person, where one of each is."""
KINDS = {"int": pa.int32(), "long": pa.int64(), "string": pa.string(), "binary": pa.binary()}
"""Spark's types of what comes to the driver."""
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
    folder: Path | None = None
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

    def check_unchanged(self) -> None:
        """The whole table is looked at, by the driver."""
        raise AssertionError("a partition has no files of its own")


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


def in_arrow(columns: str, lines: Iterable[Sequence[Any]]) -> Any:
    """Return lines with these columns, written as Spark has them: "name type, name type"."""
    named = [column.split() for column in columns.split(", ")]
    values = list(zip(*lines, strict=True)) or [()] * len(named)
    arrays = [pa.array(of, KINDS[kind]) for of, (_, kind) in zip(values, named, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in named])


def numbers(**columns: npt.NDArray[Any]) -> Any:
    """Return rows of numbers."""
    return pa.RecordBatch.from_arrays(list(map(from_numpy, columns.values())), names=list(columns))


def file_sums(batches: Iterator[Any], key: SecretKey) -> Iterator[Any]:
    """Yield the sha256 of each file of a list (number, path)."""
    for batch in batches:
        for line in batch.to_pylist():
            with open(line["path"], "rb") as content:
                digest = hashlib.file_digest(content, "sha256").digest()
            yield in_arrow("number long, digest binary", [(line["number"], digest)])


Task = Callable[[Iterator[Any], SecretKey], Iterator[Any]]
"""What a worker does with the batches of a partition, and the secret key."""
SECONDS = 0.5
"""Between two looks at how far Spark is."""
SMALL = 1 << 18
"""Bytes of a task that are sent with the key. More are sent before, apart: Spark puts what is large on disks."""
NO_KEY = SecretKey(bytes(32))
"""For tasks that draw nothing."""


@dataclass(frozen=True)
class _Sent:
    """A task on its way to the workers, with the key: neither its text nor its name tells anything of it."""

    task: Any  # a Task, or a broadcast of one
    key: SecretKey
    columns: list[str]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        task: Task = getattr(self.task, "value", self.task)
        return task((batch.rename_columns(self.columns) for batch in batches), self.key)

    @property
    def __name__(self) -> str:
        return "sfumato"


def mapped(frame: DataFrame, task: Task, schema: Any, key: SecretKey = NO_KEY) -> DataFrame:
    """Return what the task makes of each partition. Nothing runs yet. The task itself must not hold the key."""
    from pyspark.cloudpickle import dumps

    context, sent = frame.sparkSession.sparkContext, cast(Any, task)
    if len(dumps(task)) > SMALL:  # type: ignore[no-untyped-call]
        sent = context.broadcast(task)
    sending = _Sent(sent, key, frame.columns)
    _check_small(context, len(dumps((schema, replace(sending, key=NO_KEY)))))  # type: ignore[no-untyped-call]
    # not by their own names: pyspark would take a dot in one for a field
    numbered = frame.toDF(*(f"c{k}" for k in range(len(frame.columns))))
    with quietly(), _unlogged():
        return numbered.mapInArrow(sending, schema)


def _check_small(context: Any, size: int) -> None:
    """Refuse what Spark would put on disks before it is sent, the key with it: it has a limit of its own, 1 MB."""
    most = int(context._jvm.PythonUtils.getBroadcastThreshold(context._jsc))
    if size > most:
        raise UsageError(
            f"Spark would write the secret key to disks: the description of the columns has {size:,} bytes, and of "
            f"more than {most:,} it makes a file.",
            "Publish fewer columns, or raise spark.broadcast.UDFCompressionThreshold.",
        )


@contextmanager
def _unlogged() -> Iterator[None]:
    """Keep py4j from logging what this thread sends: at DEBUG it would write the key."""
    thread = threading.get_ident()

    def of_others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] == "py4j"]
    loggers = [logging.getLogger(name) for name in names]  # a filter is for one logger, not for those below it
    for logger in loggers:
        logger.addFilter(of_others)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(of_others)


def collected(frame: DataFrame) -> Any:
    """Run a job and return its result, which must be small, as an Arrow table."""
    with failures():
        return frame.toArrow()


@contextmanager
def failures() -> Iterator[None]:
    """Turn what a worker raised into an error of ours, or into `Refused`."""
    try:
        yield
    except Exception as problem:
        if type(problem).__module__.split(".")[0] not in ("pyspark", "py4j"):
            raise
        if _is_interrupted(problem):
            raise KeyboardInterrupt from None
        raise _translated(str(problem)) from None


def _is_interrupted(problem: BaseException | None) -> bool:
    """Whether the user ended it: Spark, which cancels its jobs then, says so in another error after that."""
    return problem is not None and (isinstance(problem, KeyboardInterrupt) or _is_interrupted(problem.__context__))


def _translated(text: str) -> Exception:
    if found := re.search(rf"{Refused.__name__}: ([^\n]*)", text):
        return Refused(found[1])
    if found := re.search(r"sfumato\.errors\.(\w+): ([^\n]*)(?:\n([^\n]+))?", text):
        problem: Exception = getattr(errors, found[1])(found[2], found[3] or "")
        return problem
    if re.search(r"No space left on device|Disk quota exceeded|File too large", text):
        return OutOfSpace("No room is left on a disk of the cluster; nothing was published.", "Free some space.")
    return JobFailed(
        f"The Spark job failed: {reason(text)}.", "Nothing was published. Spark's pages and logs tell more."
    )


def reason(text: str) -> str:
    """Return the first cause in what Python or Java say of a failure: the last exception that is named.

    >>> reason("An error occurred.\\n: java.lang.Exception: x\\n\\tat y.z\\nCaused by: java.io.IOException: gone.")
    'java.io.IOException: gone'
    >>> reason("[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03")
    'Path does not exist: file:/x'
    """
    named = re.findall(r"^(?:: |Caused by: )?((?:[\w$]+\.)*\w*(?:Error|Exception)\b[^\n]*)", text.strip(), re.MULTILINE)
    said = named[-1] if named else text.strip().split("\n")[0]
    return re.sub(r"^\[[\w.]+\] | SQLSTATE: \w+$", "", said)[:300].rstrip(". ")


@contextmanager
def told(session: SparkSession, rows: int, progress: Progress) -> Iterator[None]:
    """Report while jobs run: the share of their tasks that are done, as rows; all of them at the end."""
    tracker, done, over = session.sparkContext.statusTracker(), 0, threading.Event()

    def look() -> None:
        nonlocal done
        while not over.wait(SECONDS):
            stages = [s for s in (tracker.getStageInfo(k) for k in tracker.getActiveStageIds()) if s]
            total = sum(stage.numTasks for stage in stages)
            share = sum(stage.numCompletedTasks for stage in stages) / total if total else 0.0
            if (now := int(rows * share)) > done:
                progress(now - done)
                done = now

    watch = threading.Thread(target=look, daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()
    progress(rows - done)
