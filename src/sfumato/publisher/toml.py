"""Writing TOML: names and texts of any kind quoted, comments that cannot break the file."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sfumato.values.attributes import Value

WIDTH = 108
BARE = re.compile(r"[A-Za-z0-9_-]+")


def quote(text: str) -> str:
    r"""Return a TOML string.

    >>> print(quote('a "b"\n'))
    "a \"b\"\n"
    """
    # JSON's escapes are TOML's; only DEL and C1 controls are left for us
    return re.sub(r"[\x7f-\x9f\u2028\u2029]", lambda m: f"\\u{ord(m[0]):04x}", json.dumps(text, ensure_ascii=False))


def key(name: str) -> str:
    """Return a TOML key, quoted where it must be.

    >>> key("age"), key("blood pressure"), key("a.b")
    ('age', '"blood pressure"', '"a.b"')
    """
    return name if BARE.fullmatch(name) else quote(name)


def value(x: Value) -> str:
    if isinstance(x, bool):
        return str(x).lower()
    return quote(str(x)) if isinstance(x, str) else str(x)


def number(x: float) -> str:
    """Return a number, a whole one without a point."""
    return str(int(x)) if x == int(x) and abs(x) < 2**53 else repr(x)


def numbers(xs: Iterable[float]) -> str:
    return "[" + ", ".join(map(number, xs)) + "]"


def comment(text: str) -> str:
    """Return comment lines; what is not printable is escaped, so that a comment ends where its line does."""
    safe = "".join(c if c.isprintable() else quote(c)[1:-1] for c in text)
    lines = textwrap.wrap(safe, WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(f"# {line}" for line in lines)


def commented(lines: Iterable[str]) -> list[str]:
    """Return lines of TOML as a suggestion that can be switched on by removing the mark."""
    return [f"# {line}" for line in lines]


# --- a whole document -------------------------------------------------------------------------------------------------


def document(content: Mapping[str, Any]) -> str:
    """Return a document that `tomllib` reads as this content: sections of their own for tables, inline where nested.

    >>> print(document({"version": 1, "columns": {"age": {"role": "other", "bins": {"width": 10}}}}), end="")
    version = 1
    <BLANKLINE>
    [columns.age]
    role = "other"
    bins = { width = 10 }
    """
    sections = ["\n".join(lines) for lines in _sections(content, ())]
    return "\n\n".join(section for section in sections if section) + "\n"


def _sections(content: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[list[str]]:
    """Yield a section of plain values, then one for each table and for each table of a list of them."""
    # a column's bins, merged values and the like stay on its own lines
    nested = {} if len(path) >= 2 else {name: x for name, x in content.items() if isinstance(x, Mapping)}
    listed = {name: x for name, x in content.items() if _is_tables(x)}
    plain = [f"{key(name)} = {_inline(x)}" for name, x in content.items() if name not in nested and name not in listed]
    if plain or (path and not nested and not listed):
        yield [*([f"[{_heading(path)}]"] if path else []), *plain]
    for name, x in nested.items():
        yield from _sections(x, (*path, name))
    for name, tables in listed.items():
        for table in tables:
            yield [f"[[{_heading((*path, name))}]]", *(f"{key(k)} = {_inline(x)}" for k, x in table.items())]


def _is_tables(x: object) -> bool:
    return isinstance(x, list | tuple) and bool(x) and all(isinstance(each, Mapping) for each in x)


def _heading(path: tuple[str, ...]) -> str:
    return ".".join(map(key, path))


def _inline(x: Any) -> str:
    """Return a value on one line."""
    if isinstance(x, Mapping):
        return "{ " + ", ".join(f"{key(name)} = {_inline(each)}" for name, each in x.items()) + " }" if x else "{}"
    if isinstance(x, list | tuple):
        return "[" + ", ".join(map(_inline, x)) + "]"
    if isinstance(x, float):
        return repr(x)
    if isinstance(x, bool | int | str):
        return value(x)
    return x.isoformat()  # type: ignore[no-any-return]  # a date, or a time
