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

BROKEN = (duckdb.FatalException, duckdb.InternalException)
"""After these a database answers nothing any more."""

Stamps = tuple[tuple[int, int, int], ...]


@contextmanager
def connection(
    allowed: Sequence[str] = (),
    views: Sequence[str] = (),
    files: Sequence[Path] = (),
    threads: int | None = None,
    keep: bool = True,
) -> Iterator[Any]:
    """Give a connection to a database in memory with a locked configuration, in which times are those of UTC.

    allowed: the paths that it reads, as SQL texts; all others, and writing, are out of reach.
    views: the statements that create them. files: what these read; if one changes, the database is opened anew.
    keep: whether it stays open. After a large answer an idle one may hold some hundred megabytes.
    """
    if not keep:
        with _opened(tuple(allowed), tuple(views), threads) as database, database.cursor() as found:
            yield found
        return
    try:
        database = _kept(tuple(allowed), tuple(views), threads, _stamps(files))
        with database.cursor() as found:  # which shows no progress bar, as a first connection may
            yield found
    except BROKEN:
        forget()
        raise


def forget() -> None:
    """Close the databases that are open, as soon as nobody uses them."""
    _kept.cache_clear()


def _stamps(files: Sequence[Path]) -> Stamps:
    """Return what tells whether files are still the same."""
    return tuple((s.st_mtime_ns, s.st_size, s.st_ino) for s in map(os.stat, files))


@lru_cache(KEPT)
def _kept(allowed: tuple[str, ...], views: tuple[str, ...], threads: int | None, stamps: Stamps) -> Any:
    return _opened(allowed, views, threads)


def _opened(allowed: tuple[str, ...], views: tuple[str, ...], threads: int | None) -> Any:
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


if hasattr(os, "register_at_fork"):  # a system without it does not fork
    os.register_at_fork(before=forget)  # a child has not the threads of its parent's databases
