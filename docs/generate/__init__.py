"""Pages that the code writes: commands, public names, errors, attackers by methods, which method when, and
what suites saw.

    python -m docs.generate            write them anew, from the root of the repository

`tests/house/test_generated.py` holds the committed pages to what the code says today.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from docs.generate import attackers, cards, commands, errors, methods, names, survived, vectors

ROOT = Path(__file__).parents[2]
PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/cli.md": commands.page,
    "docs/reference/python.md": names.page,
    "docs/reference/errors.md": errors.page,
    "docs/reference/survives.md": survived.page,
    "docs/reference/randomness-vectors.json": vectors.text,
    "docs/review/threat-model.md": attackers.page,
    "docs/methods/index.md": methods.page,
    **cards.pages(),
}
"""Where each page stands, and what writes it."""


def write() -> list[str]:
    """Write every page that is not as the code says, and return their names."""
    changed = []
    for name, page in PAGES.items():
        path, text = ROOT / name, page()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(name)
    return changed
