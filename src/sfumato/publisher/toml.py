"""Writing TOML: names and texts of any kind quoted, comments that cannot break the file."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable

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
