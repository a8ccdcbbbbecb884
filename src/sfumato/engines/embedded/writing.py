"""Writing one file of a release: batches in, a finished file and its checksum out. It holds only what is published.

Dictionaries are cut down to the values that rows really have, in sorted order: Arrow writes unused values too, and the
order in which values were first seen tells the file's order. The schema is made from scratch, without metadata.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.base import FilesWritten, ahead
from sfumato.errors import TableError
from sfumato.release.format import Format, Piece, Writer
from sfumato.values.arrays import Progress
from sfumato.values.arrow import as_numpy, codes_of, from_numpy, nulls_of

CHUNK = 1 << 20
"""Bytes that are read at a time."""
UNSYNCED = 1 << 25
"""Bytes after which the file is brought to the disk: at the end there is little left to wait for."""


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
