"""A report as a value, sections of texts, tables and figures, and its page: one HTML file that loads nothing.

Every text is escaped, wherever it comes from; drawings are where they are made. The page forbids itself scripts and all
loading (its content security policy), is read on a phone and on paper, and follows the reader's light or dark theme.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from sfumato.auditor.report.page_svg import Figure, dark_rules, light_rules
from sfumato.errors import UsageError

STACKED_FROM = 4
"""Columns from which on the rows of a table stand one below the other on a phone."""


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar = "text"
    text: str
    style: str = ""


@dataclass(frozen=True)
class Items:
    """A list."""

    kind: ClassVar = "items"
    items: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """Terms, each with what it means here."""

    kind: ClassVar = "facts"
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Badge:
    """A verdict: a word, told by a symbol and a colour too."""

    text: str
    style: str
    symbol: str


@dataclass(frozen=True)
class Table:
    """A table; numbers stand to the right."""

    kind: ClassVar = "table"
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | Badge, ...], ...]
    numbers: tuple[bool, ...]

    @property
    def stacked(self) -> bool:
        """Whether it is too wide for a phone."""
        return len(self.columns) >= STACKED_FROM


@dataclass(frozen=True)
class Drawing:
    """A figure."""

    kind: ClassVar = "figure"
    figure: Figure


@dataclass(frozen=True)
class Card:
    """A part with a heading of its own."""

    kind: ClassVar = "card"
    heading: str
    badge: Badge
    blocks: tuple[Text | Facts | Table, ...]


Block = Text | Items | Facts | Table | Drawing | Card


@dataclass(frozen=True)
class Section:
    """A part of the page; `anchor` is what links lead to."""

    anchor: str
    heading: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Notice:
    """What a reader must know first. is_grave: of harm, if it is overlooked."""

    heading: str
    text: str
    is_grave: bool = False


@dataclass(frozen=True)
class Page:
    """A report."""

    title: str
    subtitle: str
    notices: tuple[Notice, ...]
    sections: tuple[Section, ...]


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str | Badge]], words: int = 1) -> Table:
    """Return a table whose first columns are words, the others numbers."""
    is_number = tuple(k >= words for k in range(len(columns)))
    return Table(caption, tuple(columns), tuple(tuple(row) for row in rows), is_number)


def html_of(page: Page) -> str:
    """Return the page."""
    colours = {"light": "\n".join(light_rules()), "dark": "\n".join(dark_rules())}
    return str(_templates().get_template("page.html").render(page=page, **colours))


@cache
def _templates() -> Any:
    try:
        import jinja2
    except ModuleNotFoundError:
        raise UsageError("A report needs the package jinja2.", "Install it.") from None
    return jinja2.Environment(
        loader=jinja2.PackageLoader("sfumato.auditor.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
