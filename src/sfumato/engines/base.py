"""What an engine is: what it reads (batches of rows, each with its secret words), and what the publisher asks of it.

The words of a row belong to its address (file, number in the file), or to its record. A record key repeats draws in
later releases of a series:

    noise       word = keyed function of  context (16 bytes) | the true value's code (4) | record key
    kept row    word = keyed function of  context (16 bytes) | length of the person (4) | person | record key

The context of noise is a hash of the series, the names and labels of the columns, and the matrix; that of kept rows is
one of the series. So nothing repeats in another table, another column or under another matrix, even with the same key
file: there draws are independent. docs/reference/randomness.md says why each part is needed.
"""

from __future__ import annotations

import hashlib
import json
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import pyarrow as pa

from sfumato.errors import TableError, no_more_threads
from sfumato.release.formats import FormatName
from sfumato.values.arrays import CodeArray, IntArray, Progress, WordArray
from sfumato.values.arrow import first_null, nan_as_null
from sfumato.values.attributes import Attribute, Schema, SensitiveDomain
from sfumato.values.looks import Seen
from sfumato.values.mechanism import Mechanism, set_columns
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey, Step
from sfumato.values.steps import Perturb, RowStep

BATCH_ROWS = 1 << 19
"""Rows read at a time: a row group of the release, so that batches need not be joined."""
RESERVED = "__sfumato_"
"""How the names of columns begin that go with rows until these are written; no table may have such a column."""

Numbering = Callable[[Any], Any]
"""Gives the number of the stream of words for that of a file, so that uses of one step do not share words."""


def by_file(file: Any) -> Any:
    """Number streams as the files are."""
    return file


class Batch(Protocol):
    """Some rows of a table, and their secret words."""

    @property
    def rows(self) -> pa.RecordBatch:
        """The rows."""
        ...

    def words(self, key: SecretKey, step: Step, stream: Numbering = by_file) -> WordArray:
        """Return the word of each row, by its file and its number in it."""
        ...


@dataclass(frozen=True)
class Stretch:
    """Consecutive rows of one file; `start` is the number of the first one in its file, from 0."""

    file: int
    start: int
    rows: pa.RecordBatch

    def words(self, key: SecretKey, step: Step, stream: Numbering = by_file) -> WordArray:
        """Return the word of each row, by its file and its number in it."""
        return key.words(step, stream(self.file), self.start, self.rows.num_rows)


class Source(Protocol):
    """A table that can be read more than once, always in the same order."""

    names: list[str]
    description: str
    folder: Path | None  # whose files are the table, if one is
    wide: dict[str, tuple[str, ...]]  # columns that are runs of columns of the table, read as one

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Yield all rows with these columns."""
        ...

    def column_type(self, name: str) -> Any:
        """Return the Arrow type under which a column is read."""
        ...

    def fingerprint(self) -> str:
        """Return a sha256 of the content."""
        ...

    def check_unchanged(self) -> None:
        """Raise `PlanMismatch` if it is not what it was when it was opened, as far as that can be told unread."""
        ...


def hash_files(files: Sequence[Path]) -> str:
    """Return a sha256 over the bytes of the files, in their order."""
    digest = hashlib.sha256()
    for file in files:
        with open(file, "rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()


T = TypeVar("T")
U = TypeVar("U")
AnyStep = TypeVar("AnyStep", bound=RowStep)
_END = object()


# --- records ----------------------------------------------------------------------------------------------------------


def key_bytes(column: Any, name: str, position: int) -> list[bytes]:
    """Return each identifier as bytes; 7 and "7" are the same one. A missing one, as NaN is, is an error."""
    column = nan_as_null(column)
    if column.null_count:
        raise missing_identifier(name, position + first_null(column) + 1)
    return [str(value).encode() for value in column.to_pylist()]


def missing_identifier(name: str, row: int) -> TableError:
    """Return what is raised where a row has no identifier; 0: rows have no numbers."""
    where = f"row {row:,}" if row else "a row"
    return TableError(f"{name!r} is missing in {where}.", "A person or record key needs a value in every row.")


@dataclass(frozen=True)
class RecordKey:
    """The column that tells records apart, and the name of the series of releases in which their draws repeat."""

    column: str
    series: str

    def noise_context(self, mechanism: Mechanism) -> bytes:
        """Return what a record's noise depends on besides its key and value."""
        # labels: 7 in a Parquet file and "7" in a CSV file are the same value
        columns = [[part.name, list(part.labels)] for part in mechanism.domain.parts]
        return _context(["noise", self.series, columns], mechanism.matrix.integers)

    def noise_words(self, key: SecretKey, context: bytes, rows: Any, values: CodeArray, position: int) -> WordArray:
        """Return a word for each row, given the codes of the true values; `position`: rows read before these."""
        records = key_bytes(rows.column(self.column), self.column, position)
        messages = [context + code.to_bytes(4) + own for own, code in zip(records, values.tolist(), strict=True)]
        return key.keyed_words(Step.PERTURB, messages)

    def person_words(self, key: SecretKey, persons: list[bytes], rows: Any, position: int) -> WordArray:
        """Return a word for each row, by its person and its record: of a person the row with the least one is kept."""
        context = _context(["person", self.series])
        records = key_bytes(rows.column(self.column), self.column, position)
        both = zip(persons, records, strict=True)
        return key.keyed_words(Step.PERSON, [context + len(p).to_bytes(4) + p + record for p, record in both])


def _context(stated: list[Any], numbers: bytes = b"") -> bytes:
    text = json.dumps(stated, separators=(",", ":")).encode("ascii")
    return hashlib.sha256(len(text).to_bytes(8) + text + numbers).digest()[:16]


# --- what is asked ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """The rows of a table as they are to be published."""

    source: Any  # a Source, or one of Spark's
    schema: Schema
    record_key: RecordKey | None = None
    person: str | None = None  # the column of persons, of each of whom one row is drawn
    linked: tuple[str, ...] = ()  # quasi-identifiers that are counted together with the sensitive columns
    apart: tuple[str, ...] = ()  # sensitive columns that are counted each by itself


class Publication(NamedTuple):
    """What is to be written: what comes of the steps on all rows. `reads` are the rows that will be reported."""

    rows: Rows
    steps: Sequence[RowStep]
    key: SecretKey
    folder: Path
    format: FormatName
    progress: Progress
    reads: int
    escapes: bool = False  # whether formulas are escaped, where the format has any

    def step(self, kind: type[AnyStep]) -> AnyStep | None:
        """Return the step of a kind, if there is one."""
        return next((step for step in self.steps if isinstance(step, kind)), None)

    @property
    def sets(self) -> frozenset[str]:
        """The columns in which sets of values are published."""
        perturb = self.step(Perturb)
        return set_columns(perturb.mechanisms if perturb else ())


class FilesWritten(NamedTuple):
    """A table of a release: its file, or its folder of parts, and the Arrow schema that a reader sees."""

    file: str
    rows: int
    sha256: str
    schema: Any
    parts: tuple[FilesWritten, ...] | None = None


class BucketsWritten(NamedTuple):
    """The values of each bucket: how many buckets there are, and how many records of each value are published."""

    files: FilesWritten
    domain: SensitiveDomain
    number: int
    published: IntArray


class Written(NamedTuple):
    """What was written: the rows, and the values of their buckets where there are any."""

    data: FilesWritten
    buckets: BucketsWritten | None = None


class Engine(Protocol):
    """Where rows live: what the publisher asks of a table."""

    def look(self, rows: Rows, attributes: Sequence[Attribute]) -> list[Seen]:
        """Return what is seen of columns that would be published as they are."""
        ...

    def count(self, rows: Rows, checked: Sequence[str], key: SecretKey, progress: Progress) -> Profile:
        """Return the counts of the sensitive columns; `checked` are columns with values that are refused."""
        ...

    def sizes(self, rows: Rows, names: Sequence[str]) -> Mapping[int, int]:
        """Return how many combinations of these columns so many records have, as they would be published."""
        ...

    def distinct(self, rows: Rows, column: str) -> tuple[int, int]:
        """Return how many rows there are, and how many different values of an identifier."""
        ...

    def check(self, rows: Rows, format: FormatName, *, keeps_order: bool, draws_each_row: bool) -> None:
        """Raise if it cannot be done here; `draws_each_row`: what becomes of a row depends on its own words alone."""
        ...

    def rehearse(self, rows: Rows, progress: Progress) -> Set[str]:
        """Raise what `write` would raise because of a value: read every row, and write nothing.

        Returned are the columns in which a CSV file would hold formulas.
        """
        ...

    def write(self, asked: Publication) -> Written:
        """Carry out the steps on all rows, and write what comes of it."""
        ...


# --- threads: Arrow, AES and numpy release the interpreter's lock -----------------------------------------------------


def ahead(items: Iterable[T], depth: int = 1, stopped: threading.Event | None = None) -> Generator[T, None, None]:
    """Make the items in a thread, at most `depth` ahead of their use, besides the one in use.

    A slot is taken before an item is made (a bounded queue alone would let one more live), so memory is bounded by
    `depth` + 1 items. What the maker raises is raised here; leaving early ends the thread, at the latest with the next
    item: one that takes long to make can look at `stopped`.
    """
    ready: queue.SimpleQueue[tuple[object, BaseException | None]] = queue.SimpleQueue()
    slots = threading.Semaphore(depth)
    stopped, working = stopped or threading.Event(), threading.Lock()
    thread = threading.Thread(target=_make, args=(items, ready, slots, stopped, working), daemon=True)
    try:
        _start(thread)
        while True:
            item, problem = ready.get()
            slots.release()
            if problem is not None:
                raise problem
            if item is _END:
                return
            yield cast(T, item)
            del item
    finally:
        stopped.set()
        slots.release()
        with working:  # an interrupt may come while the thread is being started: `join` knows of it only afterwards
            pass
        with suppress(RuntimeError):  # it never began
            thread.join()


def side_by_side(function: Callable[[T], U], items: Iterable[T], workers: int = 2) -> Generator[U, None, None]:
    """Apply the function to the items in several threads, and give the results in the items' order.

    At most one item more than there are workers is under way or waiting.
    """
    with ThreadPoolExecutor(workers) as pool:
        under_way: deque[Future[U]] = deque()
        try:
            for item in items:
                under_way.append(pool.submit(function, item))
                del item
                if len(under_way) > workers:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()


def _make(
    items: Iterable[T],
    ready: queue.SimpleQueue[tuple[object, BaseException | None]],
    slots: threading.Semaphore,
    stopped: threading.Event,
    working: threading.Lock,
) -> None:
    """Make items; `working` is held as long as they are touched, and not taken any more once all is stopped.

    The end is told also where all is stopped: another thread that shares `stopped` may be waiting for it.
    """
    with working:
        try:
            slots.acquire()
            for item in () if stopped.is_set() else items:
                if stopped.is_set():
                    break
                ready.put((item, None))
                del item  # else it stays alive while the next one is made
                slots.acquire()
            ready.put((_END, None))
        except BaseException as problem:
            ready.put((_END, problem))


def _start(thread: threading.Thread) -> None:
    try:
        thread.start()
    except RuntimeError:
        raise no_more_threads() from None
