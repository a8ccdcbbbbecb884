"""Plain text that reads well in a terminal, a log and a mail; and which word was meant by a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path

WIDTH = 110
LONGEST_COUNT = 12
"""Digits beyond which a count says nothing by its digits."""
MOST_LISTED = 10
"""Names that a hint lists."""
MOST_NAMED = 4
"""Columns or values that a sentence names by themselves."""


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


def many(number: int) -> str:
    """Return a count as people read it: its digits, or the power of ten that it reaches.

    >>> many(80_040_000), many(3 * 10**25)
    ('80,040,000', 'about 10^25')
    """
    return f"{number:,}" if number < 10**LONGEST_COUNT else f"about 10^{len(str(number)) - 1}"


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


def listed(names: Iterable[str]) -> str:
    """Return the first names of a list.

    >>> listed("abcdefghijklm")
    'a, b, c, d, e, f, g, h, i, j, ...'
    """
    every = list(names)
    return ", ".join(every[:MOST_LISTED]) + (", ..." if len(every) > MOST_LISTED else "")


def named(names: Sequence[str], last: str = "and") -> str:
    """Return a list of names as people say it; of many the first ones.

    >>> named(["age", "sex", "region"]), named("abcdef"), named(["flu", "HIV"], "or")
    ('age, sex and region', 'a, b, c and 3 more', 'flu or HIV')
    """
    if len(names) > MOST_NAMED:
        return f"{', '.join(names[: MOST_NAMED - 1])} {last} {len(names) - MOST_NAMED + 1:,} more"
    return f" {last} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def near_file(path: str | Path) -> str:
    """Return a hint that names the file of the same folder which was probably meant, if there is one."""
    folder = Path(path).parent
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    near = nearest(Path(path).name, names)
    return f"Did you mean {str(folder / near)!r}?" if near else ""


def _plain(word: str) -> str:
    return word.strip().lower().replace("-", "_").replace(" ", "_")


def some(names: list[str], most: int = 5) -> str:
    """Return the first names, and how many more there are."""
    return ", ".join(map(repr, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")
