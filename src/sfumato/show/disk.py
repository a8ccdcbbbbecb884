"""What must outlast a power cut: the bytes of a file, and its name, which its folder holds."""

from __future__ import annotations

import os
from pathlib import Path

from sfumato.errors import UsageError

OPENS_FOLDERS = os.name != "nt"
"""Whether the system can open a folder, as it must be to be brought to the disk: Windows cannot."""


def to_disk(path: Path) -> None:
    """Bring a file or a folder to the disk; a folder only where the system can open one."""
    if not OPENS_FOLDERS and path.is_dir():
        return
    # Windows brings to the disk only what may be written
    handle = os.open(path, os.O_RDONLY if OPENS_FOLDERS else os.O_RDWR)
    try:
        os.fsync(handle)
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
