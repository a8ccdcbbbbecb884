"""Files of text that somebody named: no more of them is read than one can have, and nothing of a device."""

from __future__ import annotations

import csv
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path

LONGEST_TEXT = 1 << 30
"""Bytes of a file of text: a plan of ten million values has less."""
PIECE = 1 << 20


def read_text(path: str | Path, encoding: str = "utf-8") -> str:
    """Return the text of a file, which may be a pipe; raise ValueError if it is a device, too long, or no text.

    A device or a pipe may have no end, and tells no size beforehand: so what is read is counted.
    """
    content = bytearray()
    with open(path, "rb") as file:
        kind = os.fstat(file.fileno()).st_mode
        if stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
            raise ValueError("it is a device, not a file")
        while piece := file.read(PIECE):
            content += piece
            if len(content) > LONGEST_TEXT:
                raise ValueError(f"it has more than {LONGEST_TEXT:,} bytes")
    return content.decode(encoding)


def read_csv(path: str | Path, delimiter: str = ",", strict: bool = False) -> Iterator[list[str]]:
    """Yield the lines of a CSV file; a byte-order mark, as spreadsheets write it, is no part of the first value."""
    text = io.StringIO(read_text(path, "utf-8-sig"), newline="")
    return csv.reader(text, delimiter=delimiter, strict=strict)
