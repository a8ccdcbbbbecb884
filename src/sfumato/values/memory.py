"""Room in memory, asked for before a library that crashes where there is none: nothing can be said after that."""

from __future__ import annotations

import mmap

ROOM = 1 << 27
"""Bytes of addresses that a database takes while it is opened."""


def check_room() -> None:
    """Raise MemoryError unless the system would give the process so much more (`ulimit -v`); nothing of it is kept."""
    try:
        mmap.mmap(-1, ROOM).close()
    except OSError:
        raise MemoryError from None
