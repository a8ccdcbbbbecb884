"""The few forms of Markdown that generated pages use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

NOTE = "<!-- Written by `python -m docs.generate`: change the code, not this page. -->"


def cell(text: str) -> str:
    """Return a text as a cell of a table: on one line, and without bars.

    >>> cell("one | two" + chr(10) + "three")
    'one \\\\| two three'
    """
    return " ".join(text.split()).replace("|", "\\|")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(cell, line))} |" for line in lines) + "\n"


def code(text: str) -> str:
    """Return a text as code."""
    return f"`{text}`"


def sentence(text: str) -> str:
    """Return a text with a capital letter and a full stop.

    >>> sentence("sees the row")
    'Sees the row.'
    """
    text = text.strip()
    return (text[:1].upper() + text[1:]).rstrip(".") + "." if text else ""


def page(title: str, *parts: str) -> str:
    """Return a page of a title and its parts, each set apart by an empty line."""
    text = "\n\n".join(part.strip("\n") for part in (f"# {title}", NOTE, *parts) if part)
    return re.sub(r"\n{3,}", "\n\n", text) + "\n"
