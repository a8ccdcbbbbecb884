"""What an engine reads: batches of rows, each with its address (file, first row), one stage ahead of the next."""

from __future__ import annotations

import hashlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import pyarrow as pa

from sfumato.values.arrays import WordArray
from sfumato.values.randomness import SecretKey, Step

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


def hash_files(files: Sequence[Path]) -> str:
    """Return a sha256 over the bytes of the files, in their order."""
    digest = hashlib.sha256()
    for file in files:
        with open(file, "rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()


T = TypeVar("T")
U = TypeVar("U")
_END = object()


def ahead(items: Iterable[T], depth: int = 1, stopped: threading.Event | None = None) -> Generator[T, None, None]:
    """Make the items in a thread, at most `depth` ahead of their use, besides the one in use.

    A slot is taken before an item is made (a bounded queue alone would let one more live), so memory is bounded by
    `depth` + 1 items. What the maker raises is raised here; leaving early ends the thread, at the latest with the next
    item: one that takes long to make can look at `stopped`.
    """
    ready: queue.SimpleQueue[tuple[object, BaseException | None]] = queue.SimpleQueue()
    slots = threading.Semaphore(depth)
    stopped = stopped or threading.Event()
    thread = threading.Thread(target=_make, args=(items, ready, slots, stopped), daemon=True)
    thread.start()
    try:
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
) -> None:
    try:
        slots.acquire()
        for item in items:
            if stopped.is_set():
                return
            ready.put((item, None))
            del item  # else it stays alive while the next one is made
            slots.acquire()
        ready.put((_END, None))
    except BaseException as problem:
        ready.put((_END, problem))
