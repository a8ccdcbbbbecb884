"""A release appears whole, by one rename, or not at all; what a killed run left is removed, what may be alive never.

    .NAME.partial-ID/          mode 0700: whatever is in it is seen by its owner alone
        lock                   locked (flock) by the process that writes, which the system unlocks however it ends
        release/               what is written; renamed to NAME at last

Another run may remove such a folder if it can take its lock. Locks are those of one kernel: containers share them,
other machines on the same disk perhaps not. So what another machine began (told by the boot id in `lock`) stays until
nothing in it has changed for days.

A run that is killed before its lock says whose it is leaves a folder with nothing in it. Such a folder is removed by
anyone: a run that lives and loses it so begins another.
"""

from __future__ import annotations

import errno
import glob
import os
import shlex
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sfumato.errors import OutOfSpace, UsageError
from sfumato.release.folder import check_name
from sfumato.show.disk import settle, to_disk
from sfumato.values.randomness import release_id

try:
    import fcntl
except ImportError:  # no such locks here: then only what is old is removed
    fcntl = None  # type: ignore[assignment]

LOCK = "lock"
END = b"\n"
"""Of what a lock says: without it, its run was killed while it wrote that."""
DAYS = 7
"""After which a folder is taken for abandoned whose owner cannot be asked."""
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def check_new(folder: Path) -> None:
    """Raise unless a release can be put there."""
    check_name(folder, UsageError)
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
    remove_abandoned(folder)
    with _told(folder.parent), _locked(folder.parent, _prefix(folder)) as own:
        partial = own / "release"
        yield partial
        for file in (*partial.rglob("*"), partial):
            to_disk(file)
        os.rename(partial, folder)
        settle(folder, "release", f"Check the disk, then `sfumato verify {shlex.quote(str(folder))}`.")


@contextmanager
def _locked(parent: Path, prefix: str) -> Iterator[Path]:
    """Make a folder of one's own, with a lock in it that is held and a folder to write into; remove all in the end."""
    own, handle = _begun(parent, prefix)
    try:
        yield own
    finally:
        try:
            _remove(own)
        except KeyboardInterrupt:  # once more: nothing is left after a polite signal
            _remove(own)
            raise
        finally:
            os.close(handle)


def _begun(parent: Path, prefix: str) -> tuple[Path, int]:
    """Return a folder of one's own and the handle of its lock; begin again if somebody took it for nothing."""
    while True:
        own, handle = parent / f"{prefix}{release_id()}", None
        own.mkdir(mode=0o700)
        try:
            handle = os.open(own / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            if fcntl is not None:
                with suppress(OSError):  # a disk without locks: age tells
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write_all(handle, _machine().encode() + END)
            (own / "release").mkdir()
            return own, handle
        except BaseException as problem:
            _remove(own)
            if handle is not None:
                os.close(handle)
            if not isinstance(problem, FileNotFoundError) or not parent.is_dir():
                raise


def _remove(own: Path) -> None:
    """Remove a folder, its lock last: until nothing else is left, others must see whose it was."""
    shutil.rmtree(own / "release", ignore_errors=True)
    if not os.path.lexists(own / "release"):
        shutil.rmtree(own, ignore_errors=True)


def _write_all(handle: int, content: bytes) -> None:
    while content:
        content = content[os.write(handle, content) :]


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


# --- what others left -------------------------------------------------------------------------------------------------


def remove_halves(path: Path) -> None:
    """Remove what a process left, now that it has ended, that would have made this file or folder (`write_private`)."""
    remove_abandoned(path)
    for left in _halves(path):
        if left.is_file():
            with suppress(OSError):
                left.unlink()


def remove_abandoned(folder: Path) -> None:
    """Remove what killed runs left that would have made this folder."""
    for left in _halves(folder):
        if left.is_dir() and _is_abandoned(left):
            _remove(left)
        else:
            _remove_if_nothing(left)


def _halves(path: Path) -> list[Path]:
    """Return what may have become this file or folder; a link is not followed."""
    return [left for left in path.parent.glob(f"{glob.escape(_prefix(path))}*") if not left.is_symlink()]


def _prefix(path: Path) -> str:
    return f".{path.name}.partial-"


def _remove_if_nothing(left: Path) -> None:
    """Remove a folder that nobody's lock is in yet: only if it holds nothing else."""
    with suppress(OSError):
        if not _is_said(left / LOCK):
            (left / LOCK).unlink(missing_ok=True)
            left.rmdir()


def _is_said(lock: Path) -> bool:
    """Whether a lock is held, or says in full whose it is."""
    try:
        handle = os.open(lock, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return any(lock.parent.iterdir())
    try:
        return not _can_lock(handle) or os.read(handle, 1000).endswith(END)
    finally:
        os.close(handle)


def _is_abandoned(left: Path) -> bool:
    """Whether nobody can be writing there: its lock can be taken on the machine that began it, or it is old."""
    with suppress(OSError):
        handle = os.open(left / LOCK, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        try:
            return _can_lock(handle) and (os.read(handle, 1000) == _machine().encode() + END or _is_old(left))
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
