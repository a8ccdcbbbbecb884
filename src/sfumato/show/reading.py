"""Files of text that somebody named: no more of them is read than one can have, and nothing of a device."""

from __future__ import annotations

import csv
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

LONGEST_TEXT = 1 << 30
"""Bytes of a file of text: a plan of ten million values has less."""


class _Counted(io.RawIOBase):
    """A file of which no more than so many bytes are read: a pipe may have no end, and tells no size beforehand."""

    def __init__(self, file: io.FileIO) -> None:
        self._file, self._left = file, LONGEST_TEXT

    def readable(self) -> bool:
        return True

    def readinto(self, room: bytearray) -> int:  # type: ignore[override]
        got = self._file.readinto(room)
        self._left -= got
        if self._left < 0:
            raise ValueError(f"it has more than {LONGEST_TEXT:,} bytes")
        return got


@contextmanager
def _opened(path: str | Path, encoding: str, newline: str | None = None) -> Iterator[TextIO]:
    with open(path, "rb", buffering=0) as file:
        kind = os.fstat(file.fileno()).st_mode
        if stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
            raise ValueError("it is a device, not a file")
        counted = io.BufferedReader(_Counted(file))  # type: ignore[type-var]
        yield io.TextIOWrapper(counted, encoding=encoding, newline=newline)


def read_text(path: str | Path) -> str:
    """Return the text of a file, which may be a pipe; raise ValueError if it is a device, too long, or no UTF-8."""
    with _opened(path, "utf-8") as text:
        return text.read()


def read_csv(path: str | Path, delimiter: str = ",", strict: bool = False) -> Iterator[list[str]]:
    """Yield the lines of a CSV file; a byte-order mark, as spreadsheets write it, is no part of the first value."""
    with _opened(path, "utf-8-sig", newline="") as text:
        yield from csv.reader(text, delimiter=delimiter, strict=strict)
