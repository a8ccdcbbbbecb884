"""methods/NAME: people write these pages; what the code says is put in: the promise, and when not to use a method."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from docs.generate.markdown import cell, sentence
from sfumato.methods import METHODS, Method

FOLDER = Path(__file__).parents[1] / "methods"


def pages() -> dict[str, partial[str]]:
    """Return where the page of each method stands, and what writes it."""
    return {f"docs/methods/{method.name}.md": partial(page, method) for method in METHODS}


def page(method: type[Method]) -> str:
    """Return the page of a method as it is, with the words of the code."""
    text = (FOLDER / f"{method.name}.md").read_text(encoding="utf-8")
    promise = cell(promised(method))
    text = re.sub(r"^\| promise \|.*$", lambda _: f"| promise | {promise} |", text, flags=re.MULTILINE)
    return re.sub(
        r"(?<=^## Do not use it if\n\n).*$", lambda _: sentence(method.avoid_if), text, count=1, flags=re.MULTILINE
    )


def promised(method: type[Method]) -> str:
    """Return what a method promises, without the columns of any policy."""
    return method.promise.replace("{known}", "stated columns")
