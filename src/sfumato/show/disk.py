"""What must outlast a power cut: the bytes of a file, and its name, which its folder holds."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from sfumato.errors import UsageError

OPENS_FOLDERS = os.name != "nt"
"""Whether the system can open a folder, as it must be to be brought to the disk: Windows cannot."""

KNOWS_NO_FOLDERS = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF}
"""What a disk says that brings files alone to itself, as some network drives and shared folders do."""


def to_disk(path: Path) -> None:
    """Bring a file or a folder to the disk; a folder only where the system and its disk can do so."""
    is_folder = path.is_dir()
    if is_folder and not OPENS_FOLDERS:
        return
    # Windows brings to the disk only what may be written
    handle = os.open(path, os.O_RDONLY if OPENS_FOLDERS else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as problem:
        if not is_folder or problem.errno not in KNOWS_NO_FOLDERS:
            raise
    finally:
        os.close(handle)


def settle(path: Path, what: str, hint: str) -> None:
    """Bring a name to the disk; if that fails, what got the name is there all the same, and may not stay."""
    try:
        to_disk(path.parent)
    except OSError as problem:
        raise UsageError(
            f"The {what} {str(path)!r} is written and whole, but its disk does not confirm that it will stay: "
            f"{problem.strerror or problem}.",
            hint,
        ) from None
