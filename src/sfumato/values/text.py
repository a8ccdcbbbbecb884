"""Plain text that reads well in a terminal, a log and a mail; and which word was meant by a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path

from sfumato.show.words import listed

WIDTH = 110


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], width: int = 0) -> str:
    """Return a plain table, numbers to the right; with a `width` that it exceeds, words of its heads stand in lines.

    >>> print(table(["value", "assumed_share"], [["a", "12%"]], [False, True], 16))
    value  assumed
             share
    -----  -------
    a          12%
    """
    heads = [[name] for name in columns]
    if width and len(_line(columns, _widths([[name] for name in columns], rows), right)) > width:
        heads = [name.replace("_", " ").split() if r else [name] for name, r in zip(columns, right, strict=True)]
    widths, deep = _widths(heads, rows), max(map(len, heads))
    stacked = zip(*([*head, *[""] * (deep - len(head))] for head in heads), strict=True)
    lines = [*stacked, ["-" * w for w in widths], *rows]
    return "\n".join(_line(cells, widths, right) for cells in lines)


def _widths(heads: Sequence[Sequence[str]], rows: Sequence[Sequence[str]]) -> list[int]:
    cells = zip(*rows, strict=True) if rows else [()] * len(heads)
    return [max(map(len, (*head, *column))) for head, column in zip(heads, cells, strict=True)]


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    aligned = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True)]
    return "  ".join(aligned).rstrip()


def indented(text: str, mark: str = "  ") -> str:
    """Return a paragraph with a margin; a terminal folds it."""
    return f"{mark}{text}"


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


def near_file(path: str | Path) -> str:
    """Return a hint that names the file of the same folder which was probably meant, if there is one."""
    folder = Path(path).parent
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    near = nearest(Path(path).name, names)
    return f"Did you mean {str(folder / near)!r}?" if near else ""


def _plain(word: str) -> str:
    return word.strip().lower().replace("-", "_").replace(" ", "_")
