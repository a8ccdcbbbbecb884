"""Temporary files for what does not fit in memory: mode 0600 and no name, so that they vanish with the process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.engines.base import Batch, Source

Place = tuple[int, int]
"""Offset and length of a message."""


class SpillFile:
    """Messages, appended one after another and read back by their places."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, prefix=".spill-", buffering=0)  # noqa: SIM115
        self._end = 0

    def append(self, message: Any) -> Place:
        """Write a message; return its place."""
        view = memoryview(message)
        place = (self._end, len(view))
        while view:
            written = os.pwrite(self._file.fileno(), view, self._end)
            self._end += written
            view = view[written:]
        return place

    def read_into(self, place: Place, view: memoryview) -> None:
        """Read the message at a place into memory of its length."""
        offset = place[0]
        while view:
            got = os.preadv(self._file.fileno(), [view], offset)
            if not got:
                raise OSError("a temporary file was cut short")
            offset, view = offset + got, view[got:]

    def close(self) -> None:
        """Give the space back."""
        self._file.close()


class KeptSource:
    """A source that is read once: the first pass keeps its rows in a temporary file, later ones read that.

    For text, whose parsing costs more than all the rest. The file holds original values, and nobody else can open it.
    """

    def __init__(self, source: Source, columns: Sequence[str], folder: Path) -> None:
        self.names, self.description = source.names, source.description
        self._source, self._columns, self._folder = source, list(columns), folder
        self._spill: SpillFile | None = None
        self._kept: list[tuple[int, int, Place]] | None = None  # file, first row, place; None before a whole pass
        self._schema: Any = None

    def column_type(self, name: str) -> Any:
        """Return the Arrow type under which a column is read."""
        return self._source.column_type(name)

    def fingerprint(self) -> str:
        """Return a sha256 of the content."""
        return self._source.fingerprint()

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Yield all rows with these columns."""
        if not set(columns) <= set(self._columns):
            return self._source.batches(columns)
        return self._first(columns) if self._kept is None else self._again(columns)

    def _first(self, columns: Sequence[str]) -> Iterator[Batch]:
        spill, kept = SpillFile(self._folder), []
        for batch in self._source.batches(self._columns):
            self._schema = batch.rows.schema
            kept.append((batch.file, batch.start, spill.append(batch.rows.serialize())))
            yield Batch(batch.file, batch.start, batch.rows.select(list(columns)))
        self._spill, self._kept = spill, kept

    def _again(self, columns: Sequence[str]) -> Iterator[Batch]:
        assert self._spill is not None
        assert self._kept is not None
        for file, start, place in self._kept:
            content = bytearray(place[1])
            self._spill.read_into(place, memoryview(content))
            rows = pa.ipc.read_record_batch(pa.py_buffer(content), self._schema)
            yield Batch(file, start, rows.select(list(columns)))
