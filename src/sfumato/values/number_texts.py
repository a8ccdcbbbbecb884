"""Numbers in text: a CSV file holds nothing else, and '9' comes after '10' as text.

A column of text holds numbers if every value is written in one and the same way, so that two different texts are never
the same number: 007, 1e5 and "250.0 beside 250.00" are codes, and stay text.

    whole                  7, 12, -3               no zero in front, at most 18 digits
    as short as it can be  7, 12.5, -3             no zero at the end of the decimals
    with a point always    7.0, 12.5, -3.0         the same, and .0 for whole numbers
    as many decimals       7.00, 12.50, -3.00      in every value

A column that the policy declares to be a number may be written in any way. What a column holds is told by its published
values alone, or by a domain that is published too: it tells nothing besides them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Holds = Literal["integer", "decimal"]
"""Numbers that text holds: whole ones, or any."""
ColumnType = Literal["number", "text"]
"""What a policy may declare of a column."""

MOST_DIGITS = 18
"""Of a whole number: those of 64 bits."""
EXACT_DIGITS = 15
"""Before the point of a decimal: more would not be told apart in double precision."""
MOST_DECIMALS = 17
CANONICAL = re.compile(
    rf"-?(?P<whole>0|[1-9][0-9]{{0,{MOST_DIGITS - 1}}})(?:\.(?P<decimals>[0-9]{{1,{MOST_DECIMALS}}}))?"
)
ANY_WHOLE = rf"[+-]?[0-9]{{1,{MOST_DIGITS}}}"
ANY_NUMBER = r"[+-]?(?:[0-9]{1,200}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?"
"""All that double precision holds: 1e400 would be read as infinite."""


@dataclass(frozen=True)
class Spelling:
    """How the numbers so far are written. `pattern` fits every number that changes nothing of this."""

    fewest: int  # decimals
    most: int
    ends_in_zero: bool  # some decimals do
    long_zero: bool  # and there are more of them than that one
    is_long: bool  # some number has more digits before its point than a decimal may have

    def joined(self, other: Spelling) -> Spelling:
        """Return how both are written."""
        return Spelling(
            min(self.fewest, other.fewest),
            max(self.most, other.most),
            self.ends_in_zero or other.ends_in_zero,
            self.long_zero or other.long_zero,
            self.is_long or other.is_long,
        )

    @property
    def holds(self) -> Holds | None:
        """What a column of such numbers holds; None if two of them could be one number in two spellings."""
        if self.most == 0:
            return "integer"
        zeros = self.long_zero if self.fewest else self.ends_in_zero
        return None if self.is_long or (zeros and self.fewest < self.most) else "decimal"

    @property
    def pattern(self) -> str:
        """A regular expression (RE2)."""
        digits = MOST_DIGITS if self.is_long else EXACT_DIGITS
        whole = f"[1-9][0-9]{{0,{digits - 1}}}"
        ways = [f"0|-?{whole}"] if self.fewest == 0 else []
        decimals = []
        if self.fewest <= 1 <= self.most:
            decimals.append(r"[0-9]" if self.ends_in_zero else r"[1-9]")
        if self.most >= 2:
            last = "[0-9]" if self.long_zero else "[1-9]"
            decimals.append(f"[0-9]{{{max(self.fewest, 2) - 1},{self.most - 1}}}{last}")
        if decimals:
            ways.append(rf"-?(?:0|{whole})\.(?:{'|'.join(decimals)})")
        return "|".join(ways)


@dataclass(frozen=True)
class AnySpelling:
    """Numbers of a column that is declared to hold them, written in whatever way."""

    are_whole: bool

    def joined(self, other: AnySpelling) -> AnySpelling:
        """Return how both are written."""
        return AnySpelling(self.are_whole and other.are_whole)

    @property
    def holds(self) -> Holds:
        """What a column of such numbers holds."""
        return "integer" if self.are_whole else "decimal"

    @property
    def pattern(self) -> str:
        """A regular expression (RE2)."""
        return ANY_WHOLE if self.are_whole else ANY_NUMBER


def spelling_of(text: str) -> Spelling | None:
    """Return how a number is written; None if it is none, or not one in canonical form.

    >>> spelling_of("12.50"), spelling_of("007"), spelling_of("-0")
    (Spelling(fewest=2, most=2, ends_in_zero=True, long_zero=True, is_long=False), None, None)
    """
    found = CANONICAL.fullmatch(text)
    if found is None or text == "-0":
        return None
    decimals = found["decimals"] or ""
    zero = decimals.endswith("0")
    return Spelling(len(decimals), len(decimals), zero, zero and len(decimals) > 1, len(found["whole"]) > EXACT_DIGITS)


def any_spelling_of(text: str) -> AnySpelling | None:
    """Return how a number is written in whatever way; None if it is none.

    >>> any_spelling_of("007"), any_spelling_of("1e5"), any_spelling_of("1,5")
    (AnySpelling(are_whole=True), AnySpelling(are_whole=False), None)
    """
    if re.fullmatch(ANY_WHOLE, text):
        return AnySpelling(True)
    return AnySpelling(False) if re.fullmatch(ANY_NUMBER, text) else None


def held_by(texts: Iterable[str], declared: ColumnType | None = None) -> Holds | None:
    """Return what numbers these texts hold, all of them; None if they hold none, or are declared to be text.

    >>> held_by(["7", "12"]), held_by(["7", "12.5"]), held_by(["7", "007"]), held_by(["7", "007"], "number")
    ('integer', 'decimal', None, 'integer')
    """
    if declared == "text":
        return None
    if declared == "number":
        loose = [any_spelling_of(text) for text in texts]
        return None if not loose or None in loose else AnySpelling(all(s.are_whole for s in loose if s)).holds
    spelling: Spelling | None = None
    for text in texts:
        one = spelling_of(text)
        if one is None:
            return None
        spelling = one if spelling is None else spelling.joined(one)
    return spelling.holds if spelling else None
