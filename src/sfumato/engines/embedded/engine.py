"""The engine on this machine: rows stream through threads, in bounded memory."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.base import BucketsWritten, FilesWritten, Publication, Rows, Source, Written, ahead
from sfumato.engines.deal.allocation import dealt, table_rows
from sfumato.engines.deal.anatomy import (
    TwoTables,
    ValuesAndWords,
    anatomized,
    dealing_word,
    for_once,
    regrouped,
    sensitive_values,
)
from sfumato.engines.embedded.counting import count_sensitive, distinct, draw_persons, group_sizes
from sfumato.engines.embedded.csv_source import CsvSource
from sfumato.engines.embedded.shuffle import shuffled
from sfumato.engines.rows.encoding import changed_table, complete_columns
from sfumato.engines.rows.looking import FormulaColumns, NumberColumns, PublishedRows, see
from sfumato.engines.rows.mapping import Dealt as LabelOf
from sfumato.engines.rows.mapping import RowMapper, SeenValues, hash_of_counts, integer_types
from sfumato.errors import TableError, UsageError
from sfumato.release.format import Format, Piece, Writer
from sfumato.release.formats import FORMATS, FormatName
from sfumato.values.arrays import BoolArray, Progress
from sfumato.values.arrow import as_numpy, codes_of, from_numpy, nulls_of
from sfumato.values.attributes import Attribute, Schema
from sfumato.values.looks import Seen
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey
from sfumato.values.steps import WITHHELD, Allocate, Counts, Dealt, Perturb, Separate, Shuffle

CHUNK = 1 << 20
"""Bytes that are read at a time."""
UNSYNCED = 1 << 25
"""Bytes after which the file is brought to the disk: at the end there is little left to wait for."""


class EmbeddedEngine:
    """Carries out everything in this process."""

    def look(self, rows: Rows, attributes: Sequence[Attribute]) -> list[Seen]:
        """Return what is seen of columns that would be published as they are."""
        return see(rows.source, attributes)

    def count(self, rows: Rows, checked: Sequence[str], key: SecretKey, progress: Progress) -> Profile:
        """Return the counts of the sensitive columns; `checked` are columns with values that are refused."""
        return count_sensitive(
            rows.source, rows.schema, progress, drawn_rows(rows, key), rows.linked, checked, rows.apart
        )

    def sizes(self, rows: Rows, names: Sequence[str]) -> Mapping[int, int]:
        """Return how many combinations of these columns so many records have, as they would be published."""
        published = PublishedRows(rows.source, rows.schema, names)
        return group_sizes(published.batches(lambda _: None), published.kinds)

    def distinct(self, rows: Rows, column: str) -> tuple[int, int]:
        """Return how many rows there are, and how many different values of an identifier."""
        return distinct(rows.source, column)

    def check(self, rows: Rows, format: FormatName, *, keeps_order: bool, draws_each_row: bool) -> None:
        """Raise if there is no such format; all else can be done here."""
        if format not in FORMATS:
            raise UsageError(f"There is no format {format!r}.", f"Name one of {', '.join(map(repr, FORMATS))}.")

    def rehearse(self, rows: Rows, progress: Progress) -> Set[str]:
        """Raise what `write` would raise because of a value; return the columns with formulas."""
        formulas = FormulaColumns()
        for read, mapped in RowMapper(rows.schema, rows.source, (), SecretKey.fresh()).batches():
            formulas.see(mapped)
            progress(read)
        return formulas.names

    def write(self, asked: Publication) -> Written:
        """Carry out the steps on all rows, and write what comes of it."""
        files, perturb = _Files(asked), asked.step(Perturb)
        with kept_memory():
            return files.perturbed(perturb) if perturb else files.separated()


def drawn_rows(rows: Rows, key: SecretKey) -> BoolArray | None:
    """Return which row of each person is drawn by this key, if one of each is."""
    if rows.person is None:
        return None
    return draw_persons(rows.source, rows.schema, rows.person, key, rows.record_key)


class _Files:
    """The files of a release, before they are written. `source` and `schema` may have runs of columns as one."""

    def __init__(self, asked: Publication) -> None:
        self.asked, self.rows, self.progress = asked, asked.rows, asked.progress
        self.format, self.stopped = FORMATS[asked.format], threading.Event()
        self.source, self.schema = self.rows.source, self.rows.schema
        if self.format.takes_runs and not asked.escapes:
            self.source, self.schema = _widened(self.rows)

    # --- rows that stay rows ----------------------------------------------------------------------------------------

    def perturbed(self, perturb: Perturb) -> Written:
        """Draw every row's values, in the table's order or in a random one."""
        key, shuffle = self.asked.key, self.asked.step(Shuffle)
        seen = SeenValues(key, [counts.size for counts in perturb.counts])
        mapper = RowMapper(
            self.schema,
            self.source,
            perturb.mechanisms,
            key,
            record_key=self.rows.record_key,
            drawn=drawn_rows(self.rows, key),
            dealt=self._labels(self.asked.step(Allocate)),
            seen=seen,
        )
        numbers = watched_numbers(self.rows, self.source, [name for m in perturb.mechanisms for name in m.domain.names])
        # sets take longer to write than to read and draw: a batch more in memory would only wait
        ahead = shuffle is not None or not self.asked.sets
        with closing(reported(mapper.batches(reading_ahead=ahead), self.progress, self.stopped)) as rows:
            published = rows if shuffle is None else shuffled(rows, shuffle.rows, key, self.asked.folder)
            written = Written(self._data(published, numbers))
        # of each person another row may be drawn now than when rows were counted
        if self.rows.person is None and seen.hash != hash_of_counts(key, perturb.counts):
            raise changed_table()
        return written

    def _labels(self, step: Allocate | None) -> LabelOf | None:
        """Return who deals records to sub-tables, if there are several."""
        if step is None:
            return None
        again = table_rows(self.rows.source, self.rows.schema, step.mechanism, self.asked.key)
        return dealt(again, step.mechanism, step.quotas)

    # --- rows in buckets --------------------------------------------------------------------------------------------

    def separated(self) -> Written:
        """Write the rows with their buckets, and the values of each bucket beside."""
        key, failed, step = for_once(self.asked.key), threading.Event(), self.asked.step(Separate)
        assert step is not None
        mapper = RowMapper(self.schema, self.source, (), key, beside=dealing_word(key))
        with closing(reported(mapper.batches(), self.progress, self.stopped)) as rows, ThreadPoolExecutor(1) as beside:
            tables, number, published = self._tables(step, rows, key)
            values = takewhile(lambda _: not failed.is_set(), tables.values)
            kind = self.format(escapes=self.asked.escapes)
            lines = beside.submit(self._written, "groups", values, kind, threading.Event())
            try:
                data = self._data(tables.rows, watched_numbers(self.rows, self.source))
            except BaseException:
                failed.set()
                raise
            return Written(data, BucketsWritten(lines.result(), step.domain, number, published))

    def _tables(self, step: Separate, rows: Iterator[Any], key: SecretKey) -> tuple[TwoTables, int, Counts]:
        """Return both tables, the number of buckets, and the published records of each value."""
        domain, buckets, folder = step.domain, step.buckets, self.asked.folder
        types = integer_types(domain.parts, self.rows.source)
        if isinstance(buckets, Dealt):
            read = sensitive_values(self.rows.source, self.rows.schema, domain, key)
            values = self._told(takewhile(lambda _: not self.stopped.is_set(), read))
            deal = (buckets.counts, buckets.withheld, buckets.number)
            tables = anatomized(rows, values, domain, *deal, types, key, folder)
            return tables, buckets.number, buckets.counts - buckets.withheld
        counted = sensitive_values(self.rows.source, self.rows.schema, buckets.counted, key)
        codes = np.concatenate([codes for codes, _ in self._told(counted)])
        own, of_row = codes % domain.size, buckets.assign(codes, key)
        published = np.bincount(own[of_row != WITHHELD], minlength=domain.size)
        return regrouped(rows, own, of_row, domain, types, key, folder), int(of_row.max()) + 1, published

    def _told(self, values: Iterable[ValuesAndWords]) -> Iterator[ValuesAndWords]:
        """Give the values of rows, and report how many were read."""
        for rows in values:
            self.progress(rows[0].size)
            yield rows

    # --- files ------------------------------------------------------------------------------------------------------

    def _data(self, rows: Iterable[Any], numbers: NumberColumns) -> FilesWritten:
        """Write the rows, and note which columns of text hold numbers."""
        kind = self.format(complete_columns(self.schema), self.source.wide, self.asked.sets, self.asked.escapes)
        watching = (numbers, FormulaColumns(self.source.wide)) if self._warns else (numbers,)
        for watcher in watching:
            rows = watcher.watched(rows)
        file = self._written("data", iter(rows), kind, self.stopped)
        schema = file.schema
        for watcher in watching:
            schema = watcher.noted(schema)
        return file._replace(schema=schema)

    @property
    def _warns(self) -> bool:
        """Whether formulas are looked for: only where a spreadsheet program would calculate them."""
        return self.format.holds_formulas and not self.asked.escapes

    def _written(self, name: str, rows: Iterator[Any], kind: Format, stopped: threading.Event) -> FilesWritten:
        return write_file(rows, self.asked.folder / f"{name}.{self.asked.format}", kind, stopped)


def watched_numbers(rows: Rows, source: Source, randomized: Collection[str] = ()) -> NumberColumns:
    """Return what finds out which columns of text hold numbers that are published as they are; only CSV has such."""
    if not isinstance(rows.source, CsvSource):
        return NumberColumns({})
    shown = [a for a in rows.schema.attributes if a.role in ("quasi_identifier", "other") and not a.recoding]
    return NumberColumns({a.name: a.type for a in shown if a.name not in randomized}, source.wide)


def _widened(rows: Rows) -> tuple[Source, Schema]:
    """Return the table and its schema with runs of columns that are published as they are as one, where that can be.

    Such columns of a CSV file are copied in one piece, which is much faster than to take them apart and to join them.
    """
    if not isinstance(rows.source, CsvSource):
        return rows.source, rows.schema
    needed = {*rows.linked, *([rows.record_key.column] if rows.record_key else [])}
    untouched = {
        a.name: a.missing
        for a in rows.schema.attributes
        if a.role in ("quasi_identifier", "other") and not a.recoding and a.declared is None and a.name not in needed
    }
    source = rows.source.widened(untouched)
    runs = {name: Attribute(name, "other", untouched[run[0]]) for name, run in source.wide.items()}
    return source, Schema(tuple(runs.get(name) or rows.schema[name] for name in source.names))


# --- one file of a release: batches in, a finished file and its checksum out; it holds only what is published ---------
#
# Dictionaries are cut down to the values that rows really have, in sorted order: Arrow writes unused values too, and
# the order in which values were first seen tells the file's order. The schema is made from scratch, without metadata.


def write_file(batches: Iterator[Any], path: Path, kind: Format, stopped: threading.Event) -> FilesWritten:
    """Write clean rows from scratch; `stopped` is set when no more of them are wanted."""
    writer: Writer | None = None
    following: FollowingHash | None = None
    rows = 0
    try:
        with closing(_pieces(batches, kind, stopped)) as pieces:
            for piece in pieces:
                writer = writer or kind.writer(path, piece.schema)
                following = following or FollowingHash(path)
                writer.write(piece)
                following.follow()
                rows += piece.rows
                del piece
        if writer is None or following is None:
            raise TableError("No row is left to publish.", "All rows are left out because values are missing.")
        schema = writer.close()
        return FilesWritten(path.name, rows, following.finish(), schema)
    except BaseException:  # the file will be removed
        if following is not None:
            following.abandon()
        if writer is not None:
            with suppress(OSError, pa.ArrowException):
                writer.close()
        raise


def _pieces(published: Iterator[Any], kind: Format, stopped: threading.Event) -> Generator[Piece, None, None]:
    """Give what is to be written; while a piece is written, the next is read, mapped, cleaned, formatted in threads."""
    groups = row_groups(published, kind.rows_at_once)
    if not kind.prepares_long:
        with closing(ahead(map(kind.prepared, groups), stopped=stopped)) as pieces:
            yield from pieces
        return
    with (
        closing(ahead(groups, stopped=stopped)) as made,
        closing(ahead(map(kind.prepared, made), stopped=stopped)) as pieces,
    ):
        yield from pieces


def reported(
    mapped: Generator[tuple[int, Any], None, None], progress: Progress, stopped: threading.Event
) -> Generator[Any, None, None]:
    """Give the rows of each batch, and report how many were read."""
    with closing(mapped):
        for read, rows in mapped:
            if stopped.is_set():  # a shuffle reads all rows before it gives any: an interrupted user is not to wait
                return
            progress(read)
            if rows.num_rows:
                yield rows
            del rows


# --- the checksum ---------------------------------------------------------------------------------------------------


class FollowingHash:
    """Reads behind the writer of a file that only grows at its end, in a thread of its own.

    Writing is what publishing waits for: a writer that hashed and brought its file to the disk itself would take a
    fifth longer.
    """

    def __init__(self, path: Path) -> None:
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115
        self._hash = hashlib.sha256()
        self._chunk = memoryview(bytearray(CHUNK))
        self._unsynced = 0
        self._thread = ThreadPoolExecutor(1)
        self._under_way: Future[None] = self._thread.submit(self._catch_up)

    def follow(self) -> None:
        """Hash what was written so far; return at once."""
        if self._under_way.done():
            self._under_way.result()
            self._under_way = self._thread.submit(self._catch_up)

    def _catch_up(self) -> None:
        while length := self._file.readinto(self._chunk):
            self._hash.update(self._chunk[:length])
            self._unsynced += length
        if self._unsynced > UNSYNCED:
            os.fsync(self._file.fileno())
            self._unsynced = 0

    def finish(self) -> str:
        """Return the sha256 of the whole file, to which nothing is added any more."""
        self._under_way.result()
        self._catch_up()
        self.abandon()
        return self._hash.hexdigest()

    def abandon(self) -> None:
        """Let go of the file."""
        self._thread.shutdown()
        self._file.close()


# --- clean tables ---------------------------------------------------------------------------------------------------


def bare_schema(schema: Any) -> Any:
    """Return names and types, and nothing else."""
    return pa.schema([pa.field(f.name, f.type) for f in schema])


def clean_table(table: Any) -> Any:
    """Return the table (of one chunk) with clean dictionaries and a bare schema."""
    columns = [clean_dictionary(c.chunk(0)) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    return pa.Table.from_arrays(columns, schema=bare_schema(table.schema))


def clean_dictionary(column: Any) -> Any:
    """Return the same values with a dictionary of the values of its valid rows, sorted."""
    dictionary = column.dictionary
    used = _used(column, len(dictionary))
    order = as_numpy(pc.sort_indices(dictionary))
    if used.all() and (order == np.arange(order.size)).all():
        return column
    order = order[used[order]]
    rank = np.zeros(len(dictionary) + 1, dtype=np.int32)
    rank[order] = np.arange(order.size, dtype=np.int32)
    codes = from_numpy(rank.take(codes_of(column, len(dictionary))), nulls_of(column))
    return pa.DictionaryArray.from_arrays(codes, dictionary.take(from_numpy(order)))


def _used(column: Any, size: int) -> npt.NDArray[np.bool_]:
    """Which dictionary values a valid row has. Frequent values show up early: mostly one short round."""
    valid = column.indices.drop_null() if column.null_count else column.indices
    codes = as_numpy(valid)
    used = np.zeros(size, dtype=np.bool_)
    start, step = 0, max(4 * size, 1 << 12)
    while start < codes.size and not used.all():
        used[codes[start : start + step]] = True
        start, step = start + step, 4 * step
    return used


def row_groups(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """Join and cut batches to clean tables of exactly `rows` rows, the last one of what is left.

    Exactly: groups that follow the source's would tell how many rows were left out of each. `rows` 0 lets batches
    pass as they come, for files in which no group is seen.
    """
    pending: list[Any] = []
    count = 0
    for batch in batches:
        pending.append(batch)
        count += batch.num_rows
        del batch
        while rows and count >= rows:
            joined = _joined(pending)
            pending, count = [], count - rows
            if count:
                pending = joined.slice(rows).to_batches()
            yield clean_table(joined.slice(0, rows) if count else joined)
            del joined
        if not rows:
            yield clean_table(_joined(pending))
            pending, count = [], 0
    if pending:
        yield clean_table(_joined(pending))


def _joined(batches: list[Any]) -> Any:
    table = pa.Table.from_batches(batches)
    return table if len(batches) == 1 else table.unify_dictionaries().combine_chunks()


_lock = threading.Lock()
_usual: list[Any] = []  # the pool from before, once for each writer under way


@contextmanager
def kept_memory() -> Iterator[None]:
    """Let Arrow use the C library's allocator, which keeps what was freed for the next batch.

    Arrow's own gives unused memory back after milliseconds, and every batch pays for fresh pages: a third to a half of
    all CPU time of publishing. Arrays remember where their memory is from, so the pool may change at any time; what
    counting needed is given back first, as no batch will use it again.
    """
    with _lock:
        _usual.append(pa.default_memory_pool())
        _usual[-1].release_unused()
        pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        with _lock:
            if len(_usual) == 1:
                pa.set_memory_pool(_usual[0])
            _usual.pop()
