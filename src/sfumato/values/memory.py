"""Room in memory, asked for before a library that crashes where there is none: nothing can be said after that."""

from __future__ import annotations

import mmap

ROOM = 1 << 29
"""Bytes of addresses. With 456 MB a database crashed: each of its threads reserves some."""


def check_room() -> None:
    """Raise MemoryError unless the system would give the process so much more (`ulimit -v`); nothing of it is kept."""
    try:
        mmap.mmap(-1, ROOM).close()
    except OSError:
        raise MemoryError from None
