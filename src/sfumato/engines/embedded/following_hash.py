"""The checksum of a file, taken while the file is being written."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

CHUNK = 1 << 20
"""Bytes that are read at a time."""
UNSYNCED = 1 << 25
"""Bytes after which the file is brought to the disk: at the end there is little left to wait for."""


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
