"""Whether files are still the ones that were opened: told by the system's notes of them, not by reading again.

A write changes a file's times, a longer or shorter file its size, and another file under the same name has another
number. The time of the last change of the file's own notes (ctime) is the system's to set: who sets back the time of
the last write (mtime) moves it. Clocks of file systems tick: a file that changed just before it was opened may change
once more in the same tick, so that such a file is told by a hash of its bytes too.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sfumato.errors import PlanMismatch

TICK = 100_000_000
"""Nanoseconds for which the time of a file may stand still; 10 ms and less on the usual file systems."""


class Stamp(NamedTuple):
    """What the system knows of a file: which one it is, its size, when it was last changed."""

    path: str
    device: int
    number: int
    size: int
    written: int
    changed: int
    content: str = ""  # sha256, where the file had changed just before


Stamps = tuple[Stamp, ...]


def stamps(files: Sequence[Path], hashed: frozenset[str] | None = None) -> Stamps:
    """Return the stamps of files. `hashed`: of which the content is hashed; None: those that changed just now."""
    now = time.time_ns()
    return tuple(_stamp(file, now) if hashed is None else _stamp(file, 0, str(file) in hashed) for file in files)


def _stamp(file: Path, now: int, hashed: bool = False) -> Stamp:
    found = os.stat(file)
    stamp = Stamp(
        str(file), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, getattr(found, "st_ctime_ns", 0)
    )
    if not hashed and (not now or now - max(stamp.written, stamp.changed) > TICK):
        return stamp
    with open(file, "rb") as content:
        return stamp._replace(content=hashlib.file_digest(content, "sha256").hexdigest())


def check_stamps(opened: Stamps, files: Sequence[Path]) -> None:
    """Raise unless these are the files that were opened, unchanged."""
    try:
        now = stamps(files, frozenset(stamp.path for stamp in opened if stamp.content))
    except OSError as problem:
        raise changed_files(f"{problem.filename!r} is gone") from None
    if now == opened:
        return
    known = {stamp.path: stamp for stamp in opened}
    other = [stamp.path for stamp in now if known.get(stamp.path) != stamp]
    gone = sorted(set(known) - {stamp.path for stamp in now})
    raise changed_files(f"{other[0]!r} is new or was changed" if other else f"{gone[0]!r} is gone")


def changed_files(what: str) -> PlanMismatch:
    """Return what is raised where files change while they are read."""
    return PlanMismatch(
        f"The table changed after it was opened: {what}. Nothing was published.",
        "Wait until whoever writes it is done, or give a copy that nobody writes to; then plan again.",
    )
