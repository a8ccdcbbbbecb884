"""Look on while something runs in this process: what it opens, writes, connects to or starts outside of some folders.

Python tells of what Python does (`sys.addaudithook`). What DuckDB and Arrow open themselves it does not see: for that,
files with words that must not appear are planted where they could be read, and folders are compared with what was.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WRITING = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}
LEADING_OUT = {"socket.connect", "socket.bind", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"}
OF_PYTHON = tuple(
    {
        str(Path(path).resolve())
        for path in (*sysconfig.get_paths().values(), *sys.path, sys.prefix, sys.base_prefix)
        if path
    }
)
OF_THE_SYSTEM = ("/proc/", "/sys/", "/dev/null", "/dev/urandom", "/usr/share/zoneinfo", "/etc/localtime", "/etc/ssl")
_seen: list[tuple[str, str]] | None = None
_hooked = False


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if _seen is None:
        return
    if event in LEADING_OUT:
        _seen.append((event, str(args)))
    elif event in WRITING:
        folder = args[-1] if isinstance(args[-1], int) and args[-1] >= 0 else None
        _seen.extend(
            ("write", _whole(path, folder)) for path in args[:2] if isinstance(path, str | bytes | os.PathLike)
        )
    elif event == "open" and isinstance(args[0], str | bytes | os.PathLike):
        flags = args[2] if isinstance(args[2], int) else 0
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        _seen.append(("write" if writes else "read", _whole(args[0])))


def _whole(path: Any, folder: int | None = None) -> str:
    """Return the path itself; a name may be one in a folder that is open."""
    above = "" if folder is None else f"/proc/self/fd/{folder}"
    return os.path.realpath(os.path.join(above, os.fsdecode(path)))


@contextmanager
def watched() -> Iterator[list[tuple[str, str]]]:
    """Give the list of what is opened for reading or writing, connected to and started."""
    global _seen, _hooked
    if not _hooked:
        sys.addaudithook(_hear)
        _hooked = True
    _seen = found = []
    try:
        yield found
    finally:
        _seen = None


def outside(seen: Sequence[tuple[str, str]], written: Sequence[Path], read: Sequence[Path] | None = None) -> list[str]:
    """Return what was written outside of the folders `written`, and read outside of these, `read` and Python's own."""
    own = tuple(str(folder.resolve()) for folder in written)
    more = None if read is None else (*own, *(str(path.resolve()) for path in read), *OF_PYTHON, *OF_THE_SYSTEM)
    found = []
    for event, what in seen:
        if event == "write" and not what.startswith((*own, "/dev/null")):
            found.append(f"writes {what}")
        elif event == "read" and more is not None and not what.startswith(more):
            found.append(f"reads {what}")
        elif event in LEADING_OUT:
            found.append(f"{event} {what}")
    return found
