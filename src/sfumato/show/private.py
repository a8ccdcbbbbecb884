"""Files that only the user may read: they hold figures of a table, or a secret."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a file that only the user can read, whole or not at all; what was there before is replaced."""
    # a new name each time: threads write at once, and a process that was killed may have left a file behind
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.partial-", dir=path.parent)
    partial = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def private_folder(path: Path) -> None:
    """Make a folder that only the user can open, if it is not there."""
    path.mkdir(mode=0o700, exist_ok=True)
