"""What an engine reads: batches of rows, each with its address (file, first row)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

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
