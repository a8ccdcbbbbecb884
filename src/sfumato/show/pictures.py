"""Pictures of Vega-Lite specifications, by vl-convert; nothing is loaded from anywhere."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import UsageError
from sfumato.show.files import by_suffix, new_file
from sfumato.show.terminal import printable


@dataclass(frozen=True, repr=False)
class Picture:
    """A drawing, which a notebook displays. Nothing of it is loaded from anywhere."""

    specification: dict[str, Any]  # Vega-Lite

    def save(self, file: str | Path) -> None:
        """Write it to a new file: .svg, .png, .pdf, .html, or the specification itself, .vl.json."""
        path = Path(file)
        content = by_suffix(path, PICTURES)
        with new_file(path) as partial:
            partial.write_bytes(content(self.specification))

    def _repr_svg_(self) -> str:
        return svg(self.specification)

    def __repr__(self) -> str:
        return f"Picture({' '.join(self.specification['title']['text'])!r})"


def _converter() -> Any:
    try:
        import vl_convert
    except ModuleNotFoundError:
        raise UsageError(
            "A picture needs the package vl-convert-python.", "Install it, or write the specification (.vl.json)."
        ) from None
    return vl_convert


def svg(spec: dict[str, Any]) -> str:
    return _converter().vegalite_to_svg(_printable(spec), allowed_base_urls=[])  # type: ignore[no-any-return]


def by_place(labels: Sequence[Any]) -> str:
    """Return the expression for the labels of an axis whose values are their places: texts that may hold anything."""
    return f"{json.dumps(_printable(labels))}[datum.value]"


def _printable(part: Any) -> Any:
    """Return a specification with codes in place of characters that no SVG can hold: these end the process."""
    if isinstance(part, dict):
        return {_printable(key): _printable(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [_printable(value) for value in part]
    return printable(part) if isinstance(part, str) else part


def _html(spec: dict[str, Any]) -> bytes:
    """Return a page with the drawing in it. It runs no script: a value of the release must not become one."""
    page = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{html.escape(" ".join(spec["title"]["text"]))}</title>
</head>
<body>
{svg(spec)}
</body>
</html>
"""
    return page.encode()


PICTURES: dict[str, Callable[[dict[str, Any]], bytes]] = {
    ".svg": lambda spec: svg(spec).encode(),
    ".png": lambda spec: _converter().svg_to_png(svg(spec), scale=2),
    ".pdf": lambda spec: _converter().svg_to_pdf(svg(spec)),
    ".html": _html,
    ".vl.json": lambda spec: (json.dumps(spec, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode(),
}
