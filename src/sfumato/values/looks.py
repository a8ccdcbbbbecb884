"""What a column looks like, by its name and by its contents: the judgement that `init`, `profile`, `plan` and `publish`
share.

A column that tells who a person is, or that is nearly different in every row, must not be published because nobody
thought of it. Contents are judged by counts of values (`Seen`), which every engine makes in its own way: a CSV file, a
Parquet file and a table in memory are judged alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from sfumato.errors import PolicyError

LookKind = Literal["identifier", "contact", "free text", "precise date", "nearly unique"]

NEARLY_UNIQUE = 0.5
"""Different values, as a share of the rows that have one, from which a column is nearly unique."""
ENOUGH_ROWS = 30
"""In a smaller table that all values differ means nothing."""
FEW_DAYS = 30
"""Different days up to which dates are those of surveys or visits, and not of people's lives."""
CODES = 50
"""Different values up to which a column named like an identifier holds codes."""
MOSTLY = 0.5
"""Share of the values that must look like something for the column to do so."""
SOME = 0.05
"""Share of e-mail addresses that is too large."""
MANY_TEXTS = 0.2
"""Different texts, as a share of the rows, from which long texts are free text and not the names of categories."""

PATTERNS = {
    "email": r"^\s*[^@\s]+@[^@\s]+\.[A-Za-z]{2,}\s*$",
    "phone": r"^\s*(?:(?:\+|00)[1-9][0-9 ()/.-]{6,17}|\(?0?[0-9]{2,4}\)?[ /.-][0-9]{3,4}[ .-][0-9]{3,5})\s*$",
    "address": (
        r"(?i)^\s*(?:[0-9]{1,5}[a-z]?,?\s+\S.*\b(?:street|st|road|rd|avenue|ave|lane|ln|drive|dr|boulevard|blvd)\b"
        r"|\S.*(?:stra(?:ss|ß)e|str\.|weg|platz|allee|gasse)\s+[0-9]{1,4}\b)"
    ),
    "number": (
        r"(?i)^\s*(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9]{3}-[0-9]{2}-[0-9]{4}"
        r"|[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[a-z]{2}[0-9]{2}(?: ?[0-9a-z]{4}){3,7}(?: ?[0-9a-z]{1,3})?)\s*$"
    ),
    "day": (
        r"^\s*(?:[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.](?:[0-9]{4}|[0-9]{2})"
        r"|(?:18|19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01]))(?:[T ][0-9:.]+(?:Z|[+-][0-9:]+)?)?\s*$"
    ),
    "first of a month": (
        r"^\s*(?:[0-9]{4}[-/.][0-9]{1,2}[-/.]0?1|0?1[-/.][0-9]{1,2}[-/.](?:[0-9]{4}|[0-9]{2})|[0-9]{6}01)"
        r"(?:[T ][0:.]+Z?)?\s*$"
    ),
    "prose": r"^\s*(?:\S+\s+){4,}\S",
}
"""Kinds of texts, in the syntax that Arrow and Spark both read."""


@dataclass(frozen=True)
class Seen:
    """What was seen of a column. `counts` are those of the values that look like something, among `looked` ones.

    Of a column whose values were made coarser (`is_coarse`) neither name nor contents are what is published.
    """

    name: str
    present: int  # rows with a value
    distinct: int
    is_text: bool = False
    is_coarse: bool = False
    looked: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    def share(self, pattern: str) -> float:
        """Return how many of the values look like this."""
        return self.counts.get(pattern, 0) / max(1, self.looked)

    @property
    def nearly_unique(self) -> bool:
        """Whether about every second row has a value of its own."""
        return self.present >= ENOUGH_ROWS and self.distinct >= NEARLY_UNIQUE * self.present


@dataclass(frozen=True)
class Look:
    """What a column looks like, and by which signs."""

    kind: LookKind
    brief: str
    figures: str = ""

    @property
    def why(self) -> str:
        """The signs, with figures."""
        return f"{self.brief}: {self.figures}" if self.figures else self.brief


@dataclass(frozen=True)
class Stop:
    """A column that the policy would publish as it is, and that it must not, unless it says why."""

    column: str
    look: Look

    def __str__(self) -> str:
        return f"{self.column!r} {self.look.why}."


REMEDY = (
    'Leave a column out (role = "drop"), make it coarser (bins = { width = 10 }, bins = "year", merge), or say why it '
    'may be published: publish_as_is = "the reason".'
)


def refuse(stops: Sequence[Stop]) -> None:
    """Raise if there are columns that must not be published as they are."""
    if not stops:
        return
    raise PolicyError(
        f"The policy publishes {len(stops)} column(s) that can tell who people are:\n"
        + "\n".join(f"  {stop}" for stop in stops),
        REMEDY,
    )


def look_at(seen: Seen) -> Look | None:
    """Return what a column looks like; None if nothing is wrong with it."""
    return _unique(seen) if seen.is_coarse else _named(seen) or _held(seen) or _unique(seen)


def _named(seen: Seen) -> Look | None:
    """Judge by the name; a name means nothing where there are few values."""
    found = words(seen.name)
    if is_personal(found) and seen.distinct > 2:
        kind: LookKind = "contact" if set(found) & CONTACT_WORDS else "identifier"
        return Look(kind, "is named like something that tells who a person is")
    if is_id(found) and seen.distinct > max(CODES, seen.present // 100):
        return Look("identifier", "is named like an identifier", f"{seen.distinct:,} different values")
    return None


def _held(seen: Seen) -> Look | None:
    """Judge by the contents."""
    if seen.share("day") > MOSTLY:
        exact = seen.share("day") - seen.share("first of a month") > SOME
        figures = f"{seen.distinct:,} different ones"
        return Look("precise date", "holds dates to the day", figures) if exact and seen.distinct > FEW_DAYS else None
    if not seen.is_text:
        return None
    if seen.share("email") > SOME:
        return Look("contact", "holds e-mail addresses")
    for pattern, kind, what in _TEXTS:
        if seen.share(pattern) > MOSTLY and seen.distinct > CODES:
            return Look(kind, f"holds {what}")
    if seen.share("prose") > MOSTLY and seen.present >= ENOUGH_ROWS and seen.distinct > MANY_TEXTS * seen.present:
        return Look("free text", "holds free text", _values(seen))
    return None


_TEXTS: tuple[tuple[str, LookKind, str], ...] = (
    ("phone", "contact", "what looks like telephone numbers"),
    ("address", "contact", "what looks like street addresses"),
    ("number", "identifier", "what looks like the numbers of persons, accounts or machines"),
)


def _unique(seen: Seen) -> Look | None:
    return Look("nearly unique", "is nearly unique", _values(seen)) if seen.nearly_unique else None


def _values(seen: Seen) -> str:
    return f"{seen.distinct:,} different values in {seen.present:,} rows"


# --- names --------------------------------------------------------------------------------------------------------


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


PERSON_WORDS = _listed(
    "patient person subject member client customer user employee case report respondent participant individual student"
)
HOUSEHOLD_WORDS = _listed("household family hid hhid")
ID_ENDINGS = _listed("id ids nr no nbr key uuid guid hid hhid pid")
NUMBER_ENDINGS = _listed("number num code")
JOINED_ID = re.compile(rf"({'|'.join(sorted(PERSON_WORDS | HOUSEHOLD_WORDS))})(id|nr|no|nbr|num|number|key)")
CONTACT_WORDS = _listed("email mail phone telephone mobile fax address street latitude longitude")
PERSONAL_WORDS = CONTACT_WORDS | _listed(
    "surname firstname lastname fullname forename username ssn nin passport iban mrn login url ip"
)
NAME_OWNERS = PERSON_WORDS | _listed("first last full given family sur middle maiden")


def words(name: str) -> list[str]:
    """Return the words of a column name, without numbers at their ends.

    >>> words("diag_1"), words("ICD10 code"), words("maritalStatus"), words("NET.PROFIT")
    (['diag'], ['icd', 'code'], ['marital', 'status'], ['net', 'profit'])
    """
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower()
    stems = [re.sub(r"\d+$", "", word) for word in re.split(r"[\W_]+", spaced)]
    return [stem for stem in stems if stem]


def is_personal(found: Sequence[str]) -> bool:
    """Whether a column is named like something that tells who a person is.

    >>> is_personal(words("E-Mail")), is_personal(words("patient name")), is_personal(words("product_name"))
    (True, True, False)
    """
    if set(found) & PERSONAL_WORDS:
        return True
    return "name" in found and (len(found) == 1 or bool(set(found) & NAME_OWNERS))


def is_id(found: Sequence[str]) -> bool:
    """Whether a column is named like an identifier.

    >>> is_id(words("patient_nbr")), is_id(words("caseid")), is_id(words("paid"))
    (True, True, False)
    """
    if not found:
        return False
    if found[-1] in ID_ENDINGS or any(JOINED_ID.fullmatch(word) for word in found):
        return True
    return found[-1] in NUMBER_ENDINGS and bool(set(found) & PERSON_WORDS)
