"""What releases, records and pages say that they were made by."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version


@cache
def software() -> str:
    """Return name and version; looked up once: Python keeps up to 128 indexes of folders that it searched for it."""
    return f"sfumato {version('sfumato')}"
