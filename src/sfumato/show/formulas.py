"""Texts that a spreadsheet program takes for formulas when it opens a CSV file, and an apostrophe that stops it.

A text is a formula if it begins with = or @ (also as wide as an ideograph), with a tab or an end of line, or with + or
- and goes on as anything but a number. `escaped` puts an apostrophe before it, and before every text that begins with
an apostrophe: taking the first apostrophe away, where there is one, gives back every text.

    escaped("=1+1") = "'=1+1"    escaped("'s") = "''s"    escaped("-5") = "-5"
"""

from __future__ import annotations

import re
from collections.abc import Iterable

FORMULA = r"^(?:[=@\t\r\n＝＠]|[+\-＋－](?s:.))"
"""Fits a text that is a formula, or a number with a sign; a sign alone calculates nothing. Arrow and Python read it."""
SIGNED_NUMBER = r"^[+-](?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?$"
MARK = "'"
"""What stops it. Spreadsheet programs show it; some take it away."""
ESCAPE = 'Say formulas = "escape" in [output] of the policy, or publish Parquet.'

_formula, _signed_number = re.compile(FORMULA), re.compile(SIGNED_NUMBER.removesuffix("$") + r"\Z")


def is_formula(text: str) -> bool:
    """Whether a spreadsheet program would calculate the text.

    >>> [is_formula(text) for text in ("=1+1", "+cmd|' /C calc'!A0", "-5", "+4.5e3", "-", "a=b", "")]
    [True, True, False, False, False, False, False]
    """
    return bool(_formula.match(text)) and not _signed_number.match(text)


def escaped(text: str) -> str:
    """Return the text with an apostrophe before it where it is a formula, or begins with one.

    >>> escaped("@SUM(A1)"), escaped("'s-Hertogenbosch"), escaped("-5")
    ("'@SUM(A1)", "''s-Hertogenbosch", '-5')
    """
    return MARK + text if text.startswith(MARK) or is_formula(text) else text


def warning(names: Iterable[str], remedy: str) -> str:
    """Return what is said where a CSV file has formulas, by the columns that hold them."""
    listed = ", ".join(map(repr, names))
    return f"Text of {listed} begins like a formula, which spreadsheet programs calculate when they open CSV. {remedy}"
