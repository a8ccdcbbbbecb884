"""DuckDB databases that reach no more than they were opened for. The last few stay open.

To open a database takes longer than to count a small release, and one question needs several connections. A connection
is made in microseconds; each user gets one, with temporary tables of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb

KEPT = 4
"""Databases that stay open."""

Stamps = tuple[tuple[int, int, int], ...]


@contextmanager
def connection(
    allowed: Sequence[str] = (), views: Sequence[str] = (), files: Sequence[Path] = (), threads: int | None = None
) -> Iterator[Any]:
    """Give a connection to a database in memory with a locked configuration, in which times are those of UTC.

    allowed: the paths that it reads, as SQL texts; all others, and writing, are out of reach.
    views: the statements that create them. files: what these read; if one changes, the database is opened anew.
    """
    with _kept(tuple(allowed), tuple(views), threads, _stamps(files)).cursor() as found:  # which shows no progress bar
        yield found


def _stamps(files: Sequence[Path]) -> Stamps:
    """Return what tells whether files are still the same."""
    return tuple((s.st_mtime_ns, s.st_size, s.st_ino) for s in map(os.stat, files))


def _opened(allowed: tuple[str, ...], views: tuple[str, ...], threads: int | None, stamps: Stamps) -> Any:
    database = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
    database.execute("SET GLOBAL TimeZone = 'UTC'")  # else times in a condition would mean the analyst's own zone
    database.execute("SET enable_external_file_cache = false")  # it would hold memory while the database is idle
    if threads:
        database.execute(f"SET threads = {threads}")
    database.execute(f"SET allowed_paths = [{', '.join(allowed)}]")
    database.execute("SET enable_external_access = false")
    for view in views:
        database.execute(view)
    database.execute("SET lock_configuration = true")
    return database


_kept = lru_cache(KEPT)(_opened)
_OF_PARENT: list[Any] = []


def _leave_to_parent() -> None:
    """In a process that was forked, forget the databases, and never close them: their threads are the parent's."""
    global _kept
    _OF_PARENT.append(_kept)
    _kept = lru_cache(KEPT)(_opened)


os.register_at_fork(after_in_child=_leave_to_parent)
