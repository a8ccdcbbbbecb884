"""Files that only the user may read: they hold figures of a table, or a secret."""

from __future__ import annotations

import os
import shlex
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from sfumato.errors import UsageError
from sfumato.show.disk import settle


def write_private(path: Path, text: str) -> None:
    """Write a file that only the user can read, whole or not at all; what was there before is replaced."""
    with _partial(path, text) as partial:
        os.replace(partial, path)
    _settle(path)


def write_new(path: Path, text: str) -> None:
    """Write a new file that only the user can read, whole or not at all; raise if there is anything of that name.

    A link of that name is not followed: the name itself must be free when the file gets it. Until then the file has
    no name at all, so that nothing stays of it if the process is killed.
    """
    try:
        handle = os.open(path.parent, os.O_TMPFILE | os.O_WRONLY, 0o600)
    except (AttributeError, OSError):  # a system or a disk without such files
        _write_named(path, text)
    else:
        _write_nameless(handle, path, text)
    _settle(path)


def _write_nameless(handle: int, path: Path, text: str) -> None:
    """Write a file that has no name yet, and give it its own when it is whole."""
    with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
        _fill(file, text)
        try:
            os.link(f"/proc/self/fd/{handle}", path, src_dir_fd=handle)  # as of a folder: then the link is followed
        except FileExistsError:
            raise _taken(path) from None
        except OSError:  # a system that does not show its processes
            _write_named(path, text)


def _settle(path: Path) -> None:
    """Bring the name to the disk: without it a power cut takes a key, and leaves the release that was drawn with it."""
    settle(path, "file", "It may be lost in a power cut. Check the disk, and keep a copy elsewhere.")


def _fill(file: TextIO, text: str) -> None:
    file.write(text)
    file.flush()
    os.fsync(file.fileno())


def _write_named(path: Path, text: str) -> None:
    """Write a new file under another name, and give it its own when it is whole."""
    with _partial(path, text) as partial:
        _name(partial, path)


@contextmanager
def _partial(path: Path, text: str) -> Iterator[Path]:
    """Give a file beside it that holds the text; nothing stays of it but what got its own name."""
    # a new name each time: threads write at once, and a process that was killed may have left a file behind
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.partial-", dir=path.parent)
    partial = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            _fill(file, text)
        yield partial
    finally:
        partial.unlink(missing_ok=True)


def _taken(path: Path) -> UsageError:
    return UsageError(f"{str(path)!r} exists already.", "Choose another name, or remove it.")


def _name(partial: Path, path: Path) -> None:
    """Give a file its name, unless something has it."""
    try:
        os.link(partial, path)
    except FileExistsError:
        raise _taken(path) from None
    except OSError:  # a disk without such links
        from sfumato.show.files import check_new  # loads Arrow

        check_new(path)
        os.rename(partial, path)


def check_no_key(path: Path) -> None:
    """Raise if there is anything where a new key would be written: what was drawn or signed with it could be lost."""
    if os.path.lexists(path):
        raise UsageError(f"{str(path)!r} exists already; a key file is never overwritten.", "Choose another name.")


def private_folder(path: Path) -> None:
    """Make a folder that only the user can open.

    One that is there and open to others is closed to them if it is empty; else raise: others may need what is in it.
    """
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not path.is_dir():
            raise UsageError(f"{str(path)!r} is a file, not a folder.", "Name a new folder.") from None
        if is_open_to_others(path):
            _close_if_empty(path)
    except OSError as problem:
        raise UsageError(f"The folder {str(path)!r} cannot be made: {problem.strerror}.", "Name another one.") from None


def _close_if_empty(path: Path) -> None:
    if any(path.iterdir()):
        raise UsageError(
            f"{str(path)!r} can be read by others on this machine, and private files would lie in it.",
            f"Name a new folder, or close this one to others: chmod 700 {shlex.quote(str(path))}",
        )
    close_to_others(path)


def check_closed(path: Path, what: str) -> None:
    """Raise if others than the owner can read a secret file."""
    if is_open_to_others(path):
        raise UsageError(
            f"Others can read the {what} {str(path)!r} (mode {stat.S_IMODE(path.stat().st_mode):o}).",
            f"Keep it to yourself: chmod 600 {shlex.quote(str(path))}. If others may have read it, make a new key.",
        )


def is_open_to_others(path: Path) -> bool:
    """Whether others than the user may read or change a file or folder, where files have such modes."""
    return os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077 != 0


def close_to_others(path: Path) -> None:
    """Leave a file or folder to the user alone; raise if it is somebody else's."""
    try:
        path.chmod(0o700 if path.is_dir() else 0o600)
    except OSError:
        raise UsageError(
            f"{str(path)!r} can be read by others on this machine, and that cannot be changed.",
            "It belongs to somebody else, or its disk knows no owners. Name a folder of your own.",
        ) from None
