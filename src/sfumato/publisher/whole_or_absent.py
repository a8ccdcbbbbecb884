"""A release appears whole, by one rename, or not at all; what a killed run left is removed, what may be alive never.

    .NAME.partial-ID/          mode 0700: whatever is in it is seen by its owner alone
        lock                   locked (flock) by the process that writes, which the system unlocks however it ends
        release/               what is written; renamed to NAME at last

Another run may remove such a folder if it can take its lock. Locks are those of one kernel: containers share them,
other machines on the same disk perhaps not. So what another machine began (told by the boot id in `lock`) stays until
nothing in it has changed for days.
"""

from __future__ import annotations

import errno
import glob
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sfumato.errors import OutOfSpace, UsageError
from sfumato.values.randomness import release_id

try:
    import fcntl
except ImportError:  # no such locks here: then only what is old is removed
    fcntl = None  # type: ignore[assignment]

LOCK = "lock"
DAYS = 7
"""After which a folder is taken for abandoned whose owner cannot be asked."""
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def check_new(folder: Path) -> None:
    """Raise unless a release can be put there."""
    if os.path.lexists(folder):
        raise UsageError(
            f"{str(folder)!r} exists already; a release never overwrites anything.", "Choose another name."
        )
    if not folder.parent.is_dir():
        raise UsageError(f"There is no folder {str(folder.parent)!r} to put the release in.", "Make the folder first.")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Give a hidden folder to write into, and rename it to its name when everything is on the disk."""
    check_new(folder)
    prefix = f".{folder.name}.partial-"
    _remove_abandoned(folder.parent, prefix)
    with _told(folder.parent), _locked(folder.parent / f"{prefix}{release_id()}") as own:
        partial = own / "release"
        partial.mkdir()
        yield partial
        for file in (*partial.rglob("*"), partial):
            to_disk(file)
        os.rename(partial, folder)
        to_disk(folder.parent)


@contextmanager
def _locked(own: Path) -> Iterator[Path]:
    """Make a folder of one's own with a lock in it that is held; remove both in the end."""
    handle = None
    try:
        own.mkdir(mode=0o700)
        handle = os.open(own / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        if fcntl is not None:
            with suppress(OSError):  # a disk without locks: age tells
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(handle, _machine().encode())
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)
        if handle is not None:
            os.close(handle)


@contextmanager
def _told(parent: Path) -> Iterator[None]:
    """Say what a disk refused, and that nothing was published."""
    try:
        yield
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or "No space left" in str(problem):
            raise OutOfSpace(
                f"No room is left on the disk of {str(parent)!r}; nothing was published.",
                "Free some space and publish again; a shuffle needs room for the table uncompressed.",
            ) from None
        raise UsageError(
            f"The release cannot be written to {str(parent)!r}: {problem.strerror or problem}.",
            "Nothing was published.",
        ) from None


def to_disk(path: Path) -> None:
    """Bring a file or a folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- what others left -------------------------------------------------------------------------------------------------


def _remove_abandoned(folder: Path, prefix: str) -> None:
    """Remove what killed runs left."""
    for left in folder.glob(f"{glob.escape(prefix)}*"):
        if not left.is_symlink() and _is_abandoned(left):
            shutil.rmtree(left, ignore_errors=True)


def _is_abandoned(left: Path) -> bool:
    """Whether nobody can be writing there: its lock can be taken on the machine that began it, or it is old."""
    with suppress(OSError):
        handle = os.open(left / LOCK, os.O_RDWR | os.O_NOFOLLOW)
        try:
            return _can_lock(handle) and (os.read(handle, 1000).decode() == _machine() or _is_old(left))
        finally:
            os.close(handle)
    return _is_old(left)


def _can_lock(handle: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        return problem.errno not in (errno.EACCES, errno.EAGAIN)
    return True


def _machine() -> str:
    """Return what tells this run of a machine from every other: locks are known to those that share it."""
    if fcntl is None or not BOOT_ID.is_file():
        return f"unknown machine, process {os.getpid()}"  # so that age tells
    return BOOT_ID.read_text(encoding="ascii").strip()


def _is_old(left: Path) -> bool:
    try:
        newest = max(os.lstat(path).st_mtime for path in (left, *left.rglob("*")))
    except OSError:  # it changes while it is looked at
        return False
    return time.time() - newest > DAYS * 86_400
