"""Plain CSV: every line is a row and no value is quoted. Splitting such a file by numpy beats any general parser.

A stretch of whole lines is searched once for delimiters and line ends; a column is then the text between two of them,
and so is a run of adjacent columns that nobody looks into.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.engines.base import side_by_side
from sfumato.values.arrow import from_numpy, take, with_nulls

STRETCH = 1 << 23
"""Bytes that make a batch."""
PIECE = 1 << 19
"""Bytes that are searched at a time: they should stay in the processor's cache."""
LONGEST_LINE = 1 << 24
"""Bytes of a line: a file that has longer ones is no table, and would be held in memory many times over."""

LINE_END = ord("\n")


@dataclass(frozen=True)
class Span:
    """The first and the last field of a column (the same one, but for a run of columns).

    `needs_all` says that it is missing where one of the fields is empty.
    """

    first: int
    last: int
    needs_all: bool = True


@dataclass(frozen=True)
class Layout:
    """How a file is cut: its delimiter, the number of its fields, and which of them are read."""

    delimiter: str
    fields: int
    columns: Mapping[str, Span]


def batches(path: Path, layout: Layout) -> Iterator[Any]:
    """Yield all rows after the header line, the columns as text. Empty lines are no rows, unless there is one field."""
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        start = len(file.readline())
        of_thread = threading.local()

        def rows(place: int) -> Any:
            if not hasattr(of_thread, "cutter"):
                of_thread.cutter = _Cutter(file.fileno(), layout)
            return of_thread.cutter.rows(place, min(place + STRETCH, size))

        yield from side_by_side(rows, range(start, size, STRETCH))


class _Cutter:
    """Cuts stretches of a file. Its buffers are used again: to give memory back and ask anew costs more than to search.

    (Only `take` makes new arrays, by Arrow's own allocator.)
    """

    def __init__(self, handle: int, layout: Layout) -> None:
        self._handle, self._layout = handle, layout
        self._room = bytearray(2 * STRETCH)
        self._ends: npt.NDArray[np.int32] = np.empty(STRETCH, dtype=np.int32)
        self._ends_line = np.empty(PIECE, dtype=np.bool_)
        self._ends_field = np.empty(PIECE, dtype=np.bool_)

    def rows(self, start: int, stop: int) -> Any:
        """Return the rows whose lines begin in [start, stop)."""
        text = self._lines(start, stop)
        rows = self._split(text)
        if rows is None and self._layout.fields > 1:
            lines = [line + b"\n" for line in bytes(text).split(b"\n") if line]
            rows = self._split(b"".join(lines))
        if rows is None:
            raise pa.ArrowInvalid(f"a line does not have {self._layout.fields} fields")
        columns = self._layout.columns
        return pa.RecordBatch.from_arrays([rows.texts(span) for span in columns.values()], names=list(columns))

    def _lines(self, start: int, stop: int) -> Any:
        """Read the lines that begin in [start, stop), each ended by one line feed."""
        before = start - 1  # a line begins at `start` if the byte before it ends one: the header, if no other
        end = self._read(before, 0, stop - before)
        first = self._room.find(b"\n", 0, stop - before - 1) + 1  # an end at the last byte begins a line of the next
        if not first:
            return b""
        last = self._room.find(b"\n", stop - before - 1, end)
        begun = self._room.rfind(b"\n", 0, stop - before - 1) + 1
        while last < 0:
            if end - begun > LONGEST_LINE:
                raise pa.ArrowInvalid(f"a line has more than {LONGEST_LINE:,} bytes")
            got = self._read(before + end, end, PIECE)
            if not got:
                self._room[end : end + 1] = b"\n"
                last = end
            else:
                last = self._room.find(b"\n", end, end + got)
                end += got
        text = memoryview(self._room)[first : last + 1]
        if self._room.find(b"\r", first, last) < 0:
            return text
        return bytes(text).replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _read(self, place: int, into: int, size: int) -> int:
        """Read bytes of the file into the room, which grows for long lines; return how many there were."""
        if into + size >= len(self._room):
            self._room = self._room + bytes(into + size)
        done = 0
        while done < size:
            got = os.preadv(self._handle, [memoryview(self._room)[into + done : into + size]], place + done)
            if not got:
                break
            done += got
        return done

    def _split(self, block: Any) -> _Rows | None:
        """Return where each field of each row ends; None if a line has fewer or more fields."""
        text = np.frombuffer(block, dtype=np.uint8)
        if text.size > self._ends.size:
            self._ends = np.empty(text.size, dtype=np.int32)
        lines = found = 0
        has_empty, is_end = False, True
        for start in range(0, text.size, PIECE):
            piece = text[start : start + PIECE]
            ends_line = np.equal(piece, LINE_END, out=self._ends_line[: piece.size])
            ends_field = np.equal(piece, ord(self._layout.delimiter), out=self._ends_field[: piece.size])
            ends_field |= ends_line
            lines += int(np.count_nonzero(ends_line))
            places = np.flatnonzero(ends_field)
            np.add(places, start, out=self._ends[found : found + places.size], casting="same_kind")
            found += places.size
            np.logical_and(ends_field[1:], ends_field[:-1], out=ends_line[1:])
            has_empty = has_empty or (is_end and bool(ends_field[0])) or bool(ends_line[1:].any())
            is_end = bool(ends_field[-1])
        if found != lines * self._layout.fields:
            return None
        ends = self._ends[:found].reshape(lines, self._layout.fields)
        return _Rows(block, ends, has_empty) if (text[ends[:, -1]] == LINE_END).all() else None


@dataclass(frozen=True)
class _Rows:
    """A block of lines, the end of each field of each row, and whether some field is empty."""

    block: Any
    ends: npt.NDArray[np.int32]
    has_empty: bool

    def texts(self, span: Span) -> Any:
        """Return a column: every second one of the texts into which the edges of its fields cut the block."""
        edges = np.zeros(2 * len(self.ends) + 1, dtype=np.int32)
        if span.first:
            np.add(self.ends[:, span.first - 1], 1, out=edges[1::2])
        else:
            np.add(self.ends[:-1, -1], 1, out=edges[3::2])
        edges[2::2] = self.ends[:, span.last]
        pieces = [None, pa.py_buffer(edges), pa.py_buffer(self.block)]
        cut = pa.Array.from_buffers(pa.string(), edges.size - 1, pieces)
        texts = take(cut, from_numpy(np.arange(1, edges.size - 1, 2, dtype=np.int32)))
        texts.validate(full=True)  # UTF-8
        return with_nulls(texts, self._empty(span)) if self.has_empty and span.needs_all else texts

    def _empty(self, span: Span) -> npt.NDArray[np.bool_]:
        """Return the rows in which a field of the span is empty."""
        steps = np.diff(self.ends.ravel(), prepend=np.int32(-1)).reshape(self.ends.shape)
        return np.logical_or.reduce(steps[:, span.first : span.last + 1] == 1, axis=1, keepdims=True).ravel()
