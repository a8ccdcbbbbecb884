"""A release appears whole, by one rename, or not at all."""

from __future__ import annotations

import errno
import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.errors import OutOfSpace, UsageError
from sfumato.values.randomness import release_id


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
    _remove_abandoned(folder)
    partial = folder.parent / f"{_partial_prefix(folder)}{os.getpid()}-{release_id()}"
    try:
        partial.mkdir()
        yield partial
        for file in (*partial.rglob("*"), partial):
            _to_disk(file)
        os.rename(partial, folder)
        _to_disk(folder.parent)
    except BaseException as problem:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(problem, OSError) and _is_full(problem):
            raise OutOfSpace(
                f"No room is left on the disk of {str(folder.parent)!r}; nothing was published.",
                "Free some space and publish again; a shuffle needs room for the table uncompressed.",
            ) from None
        if isinstance(problem, OSError):
            raise UsageError(
                f"The release cannot be written to {str(folder.parent)!r}: {problem.strerror or problem}.",
                "Nothing was published.",
            ) from None
        raise


def _partial_prefix(folder: Path) -> str:
    return f".{folder.name}.partial-"


def _remove_abandoned(folder: Path) -> None:
    """Remove what a killed run left: hidden folders whose process is gone."""
    for left in folder.parent.glob(f"{glob.escape(_partial_prefix(folder))}*"):
        process = left.name.removeprefix(_partial_prefix(folder)).split("-")[0]
        if process.isdigit() and not _is_alive(int(process)):
            shutil.rmtree(left, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_full(problem: OSError) -> bool:
    return problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or "No space left" in str(problem)


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
