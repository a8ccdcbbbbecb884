"""What releases, records and pages say that they were made by."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version


@cache
def software() -> str:
    """Return name and version; looked up once, since Python keeps an index of each changed folder that it searches."""
    return f"sfumato {version('sfumato')}"
