"""A report as a value, sections of texts, tables and figures, and its page: one HTML file that loads nothing.

Every text is escaped, wherever it comes from. The page forbids itself scripts and all loading (its content security
policy), is read on a phone and on paper, and follows the reader's light or dark theme: vl-convert writes colours as
attributes, and rules of the page's style for these attributes replace them, so that one drawing serves both.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sfumato.auditor.report.page_figures import ACCENT, FAINT, HEAT, INK, NARROW, QUIET, SECOND, WIDE, Key, Size
from sfumato.errors import UsageError
from sfumato.show.pictures import svg

DARK = {INK: "#E8E6E1", QUIET: "#B4B2AC", FAINT: "#3A3D42", ACCENT: "#56B4E9", SECOND: "#F09B4A", HEAT: "#1F6FA8"}
"""What each colour becomes on a dark page."""
NAMESPACES = ('xmlns="http://www.w3.org/2000/svg', 'xmlns:xlink="http://www.w3.org/1999/xlink')
STACKED_FROM = 4  # columns from which on the rows of a table stand one below the other on a phone


@dataclass(frozen=True)
class Text:
    text: str
    style: str = ""


@dataclass(frozen=True)
class Items:
    items: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """Terms, each with what it means here; without a meaning there is a line to fill it in by hand.

    A meaning without a term is one more of the term before.
    """

    facts: tuple[tuple[str, str], ...]
    style: str = ""


@dataclass(frozen=True)
class Heading:
    """What the blocks below it, within a section, are about."""

    text: str


@dataclass(frozen=True)
class Verbatim:
    """A text of lines, as they are."""

    text: str


@dataclass(frozen=True)
class SignOff:
    """Lines to write on by hand: a row for each person, a column for each thing to write."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Ticks:
    """Statements with a box each, to be ticked by hand."""

    heading: str
    items: tuple[str, ...]
    style: str = ""


@dataclass(frozen=True)
class Badge:
    """A verdict: a word, told by a symbol and a colour too."""

    text: str
    style: str
    symbol: str


@dataclass(frozen=True)
class Table:
    """A table; numbers stand to the right."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | Badge, ...], ...]
    numbers: tuple[bool, ...]

    @property
    def stacked(self) -> bool:
        return len(self.columns) >= STACKED_FROM


@dataclass(frozen=True)
class Figure:
    """A picture with the words that stand for it: one drawing for phones and one for wider screens."""

    title: str
    alt: str
    narrow: str  # SVG
    wide: str
    caption: str = ""
    keys: tuple[Key, ...] = ()


@dataclass(frozen=True)
class Card:
    heading: str
    badge: Badge
    blocks: tuple[Text | Facts | Table, ...]


@dataclass(frozen=True)
class Details:
    """What is folded away until a reader opens it; on paper it is left out unless it was opened."""

    summary: str
    blocks: tuple[Block, ...]


Block = Text | Items | Facts | Heading | Verbatim | SignOff | Ticks | Table | Figure | Card | Details


@dataclass(frozen=True)
class Section:
    """A part of the page; one with a style of its own says which: the sheet is a printed page by itself."""

    anchor: str
    heading: str
    blocks: tuple[Block, ...]
    style: str = ""


@dataclass(frozen=True)
class Notice:
    """What a reader must know first. is_grave: of harm, if it is overlooked."""

    heading: str
    text: str
    is_grave: bool = False


@dataclass(frozen=True)
class Page:
    title: str
    subtitle: str
    notices: tuple[Notice, ...]
    sections: tuple[Section, ...]


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str | Badge]], words: int = 1) -> Table:
    """Return a table whose first columns are words, the others numbers."""
    is_number = tuple(k >= words for k in range(len(columns)))
    return Table(caption, tuple(columns), tuple(tuple(row) for row in rows), is_number)


def first_rows(rows: Sequence[Any], most: int, of: str = "") -> str:
    """Return in brackets that a table shows the first of many rows; nothing where it shows all."""
    return f" (the first {most} of {len(rows):,}{of})" if len(rows) > most else ""


def figure(
    title: str, alt: str, spec: Callable[[Size], dict[str, Any]], caption: str = "", keys: tuple[Key, ...] = ()
) -> Figure:
    """Draw a figure in both widths; `keys` are told in words above it."""
    return Figure(title, alt, _drawn(spec(NARROW), alt), _drawn(spec(WIDE), alt), caption, keys)


def _drawn(spec: dict[str, Any], alt: str) -> str:
    """Return the SVG element: one image with its words, whose parts readers of the page need not hear one by one."""
    drawn = svg(spec)
    for name in NAMESPACES:  # inside a page they go without saying
        drawn = drawn.replace(f' {name}"', "", 1)
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{html.escape(alt)}" ', 1)


def html_of(page: Page) -> str:
    return str(_templates().get_template("page.html").render(page=page, colours=DARK))


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
