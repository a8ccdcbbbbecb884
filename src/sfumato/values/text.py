"""Plain text that reads well in a terminal, a log and a mail."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTH = 110
LONGEST_COUNT = 12
"""Digits beyond which a count says nothing by its digits."""


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    """Return a plain table, numbers to the right."""
    widths = [max(len(x) for x in column) for column in zip(columns, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        aligned = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True)]
        return "  ".join(aligned).rstrip()

    return "\n".join([line(columns), line(["-" * w for w in widths]), *(line(row) for row in rows)])


def many(number: int) -> str:
    """Return a count as people read it: its digits, or the power of ten that it reaches.

    >>> many(80_040_000), many(3 * 10**25)
    ('80,040,000', 'about 10^25')
    """
    return f"{number:,}" if number < 10**LONGEST_COUNT else f"about 10^{len(str(number)) - 1}"


def indented(text: str) -> str:
    """Return a paragraph with a margin."""
    return textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_long_words=False)
