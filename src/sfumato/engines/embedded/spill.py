"""A temporary file for what does not fit in memory: mode 0600 and no name, so that it vanishes with the process."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

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
