"""Which of the known words was meant: what every refusal of a misspelt name says."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

MOST_LISTED = 10
"""Names that a hint lists."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most like this one, if any is; letter case and joints of words count little.

    >>> nearest("quasi-identifier", ["identifier", "quasi_identifier"]), nearest("SEX", ["age", "sex"])
    ('quasi_identifier', 'sex')
    >>> nearest("height", ["age", "sex"])
    """
    plain = {_plain(name): name for name in known if name != word}
    close = difflib.get_close_matches(_plain(word), plain, n=1)
    return plain[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that asks for the word that was meant, if any is like it.

    >>> did_you_mean("sxe", ["age", "sex"])
    "; did you mean 'sex'?"
    """
    near = nearest(word, known)
    return f"; did you mean {near!r}?" if near else ""


def meant(word: str, known: Iterable[str], those: str = "The columns are") -> str:
    """Return a hint: the word that was meant, or else all known ones.

    >>> meant("sxe", ["age", "sex"]), meant("height", ["age", "sex"])
    ("Did you mean 'sex'?", 'The columns are age, sex.')
    """
    names = list(known)
    near = nearest(word, names)
    return f"Did you mean {near!r}?" if near else f"{those} {listed(names)}."


def listed(names: Iterable[str]) -> str:
    """Return the first names of a list.

    >>> listed("abcdefghijklm")
    'a, b, c, d, e, f, g, h, i, j, ...'
    """
    every = list(names)
    return ", ".join(every[:MOST_LISTED]) + (", ..." if len(every) > MOST_LISTED else "")


def near_file(path: str | Path) -> str:
    """Return a hint that names the file of the same folder which was probably meant, if there is one."""
    folder = Path(path).parent
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    near = nearest(Path(path).name, names)
    return f"Did you mean {str(folder / near)!r}?" if near else ""


def _plain(word: str) -> str:
    return word.strip().lower().replace("-", "_").replace(" ", "_")
