"""Pictures inside a page: one drawing for phones and one for wider screens, in colours that follow the reader's theme.

vl-convert writes colours as attributes. Rules of the page's style for these attributes replace them, so that one
drawing serves light and dark; without the style it is the light one.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sfumato.auditor.report.page_figures import ACCENT, FAINT, HEAT, INK, NARROW, QUIET, SECOND, WIDE, Key, Size
from sfumato.show.pictures import svg

DARK = {INK: "#E8E6E1", QUIET: "#B4B2AC", FAINT: "#3A3D42", ACCENT: "#56B4E9", SECOND: "#F09B4A", HEAT: "#1F6FA8"}
"""What each colour becomes on a dark page."""
NAMESPACES = ('xmlns="http://www.w3.org/2000/svg', 'xmlns:xlink="http://www.w3.org/1999/xlink')


@dataclass(frozen=True)
class Figure:
    """A picture with the words that stand for it."""

    title: str
    alt: str
    narrow: str  # SVG
    wide: str
    caption: str = ""
    keys: tuple[Key, ...] = ()


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


def dark_rules() -> Iterator[str]:
    """Give the style rules that put dark colours in place of the light ones."""
    for light, dark in DARK.items():
        for part in ("fill", "stroke"):
            yield f'svg [{part}="{light}"] {{ {part}: {dark}; }}'
        yield f'.key [data-colour="{light}"] {{ color: {dark}; }}'


def light_rules() -> Iterator[str]:
    """Give the colours of symbols in texts."""
    for light in DARK:
        yield f'.key [data-colour="{light}"] {{ color: {light}; }}'
