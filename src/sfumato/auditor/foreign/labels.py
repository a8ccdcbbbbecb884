"""What another tool's table says: which values a label may stand for (`meant`), and which value a row shows (`match`).

*, Any, ?                             every value
nothing                               the missing value, where a person has one; else every value
[20, 30)   (20, 30]   [20, 30[        an interval, ends as the brackets say
20-30   20 - 30   20..30              both ends included
>= 65   < 20   65+                    half-open
{a, b, c}                             one of these
481**   4****                         every * at the end stands for one character, or for none
anything else                         itself; numbers by their value, so that 30 and 30.0 agree

Every label also stands for itself, to the letter but for spaces around it. A sensitive value is one of the table's to
the letter, or by its number; * ? and nothing show no value, unless the table has that very value; anything else is a
value that the table does not have, as tools show that perturb values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

from sfumato.values.arrays import BoolArray, IntArray
from sfumato.values.attributes import label as written

Test = Callable[[str, float | None], bool]
"""Whether a value, as text and (if it is one) as a number, is meant."""
UNKNOWN = -1
"""The code of a row that shows no value."""

EVERYTHING = re.compile(r"\*+|any|all|\?|", re.IGNORECASE)
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
INTERVAL = re.compile(rf"([\[\](])\s*({NUMBER})\s*[,;]\s*({NUMBER})\s*([\])\[])")
RANGE = re.compile(rf"({NUMBER})\s*(?:-|\.\.|–|to)\s*({NUMBER})")
HALF = re.compile(rf"(>=|<=|>|<|≥|≤)\s*({NUMBER})|({NUMBER})\s*\+")
MASKED = re.compile(r"([^*]+)(\*+)")
NO_VALUE = re.compile(r"\*+|\?|")
COMPARED: dict[str, Callable[[float, float], bool]] = {
    ">=": float.__ge__, "≥": float.__ge__, "<=": float.__le__, "≤": float.__le__,
    ">": float.__gt__, "<": float.__lt__,
}  # fmt: skip


def meant(labels: Sequence[Any], values: Sequence[Any]) -> BoolArray:
    """Return [labels, values]: whether each label may stand for each value. None is a missing value or label.

    >>> meant(["[20, 30)", "4*"], [25, 30, "41"]).tolist()
    [[True, False, False], [False, False, True]]
    """
    texts = [_text(value) or "" for value in values]
    numbers = [_number(text) for text in texts]
    found = np.zeros((len(labels), len(values)), dtype=np.bool_)
    for row, text in enumerate(_text(label) or "" for label in labels):
        if not text and "" in texts:
            found[row] = [not value for value in texts]
        else:
            test = _test_of(text)
            found[row] = [test(value, number) for value, number in zip(texts, numbers, strict=True)]
    return found


def _text(value: Any) -> str | None:
    return None if value is None else str(value).strip()


def _test_of(text: str) -> Test:
    """Return what a label means: itself, and what it says."""
    meaning = _meaning(text)
    return lambda value, number: value == text or meaning(value, number)


def _meaning(text: str) -> Test:
    if EVERYTHING.fullmatch(text):
        return lambda value, number: True
    for pattern, meaning in ((INTERVAL, _interval), (RANGE, _range), (HALF, _half), (MASKED, _masked)):
        if match := pattern.fullmatch(text):
            return meaning(match)
    if text.startswith("{") and text.endswith("}"):
        members = [_test_of(member.strip()) for member in text[1:-1].split(",")]
        return lambda value, number: any(test(value, number) for test in members)
    own = _number(text)
    return lambda value, number: own is not None and number == own


def _interval(match: re.Match[str]) -> Test:
    opening, low, high, closing = match.groups()
    above = float.__ge__ if opening == "[" else float.__gt__
    below = float.__le__ if closing == "]" else float.__lt__
    return lambda value, number: number is not None and above(number, float(low)) and below(number, float(high))


def _range(match: re.Match[str]) -> Test:
    low, high = (float(end) for end in match.groups())
    return lambda value, number: number is not None and low <= number <= high


def _half(match: re.Match[str]) -> Test:
    sign, end, least = match.groups()
    compared, limit = (float.__ge__, float(least)) if least else (COMPARED[sign], float(end))
    return lambda value, number: number is not None and compared(number, limit)


def _masked(match: re.Match[str]) -> Test:
    start, stars = match.groups()
    return lambda value, number: value.startswith(start) and len(value) <= len(start) + len(stars)


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(NUMBER, text) else None


# --- sensitive values -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Matched:
    """The values of both tables, and which of them each row has."""

    values: tuple[str, ...]  # in words, no two alike
    own: IntArray
    shown: IntArray  # or UNKNOWN


def match(truth: Any, published: Any, names: Sequence[str]) -> Matched:
    """Match the sensitive columns of two Arrow tables; several columns are one compound value.

    >>> import pyarrow as pa
    >>> found = match(pa.table({"d": [1, 2]}), pa.table({"d": ["2.0", "*", "3"]}), ["d"])
    >>> found.values, found.own.tolist(), found.shown.tolist()
    (('1', '2', '3'), [0, 1], [1, -1, 2])
    """
    columns = {name: _Values() for name in names}
    own = list(zip(*(map(of.own, truth.column(name).to_pylist()) for name, of in columns.items()), strict=True))
    shown = list(zip(*(map(of.shown, published.column(name).to_pylist()) for name, of in columns.items()), strict=True))
    found = list({row for row in (*own, *shown) if UNKNOWN not in row})
    texts = [tuple(of.texts[code] for of, code in zip(columns.values(), row, strict=True)) for row in found]
    order = sorted(range(len(found)), key=lambda k: [(text is None, text or "") for text in texts[k]])
    place = {found[k]: code for code, k in enumerate(order)}
    codes = [np.array([place.get(row, UNKNOWN) for row in rows], dtype=np.int64) for rows in (own, shown)]
    return Matched(_in_words([texts[k] for k in order]), *codes)


def _in_words(values: Sequence[tuple[str | None, ...]]) -> tuple[str, ...]:
    """Return how combinations are written; those that are written alike, part by part."""
    told = [written(parts) for parts in values]
    times = Counter(told)
    return tuple(
        text if times[text] == 1 else " / ".join(map(repr, parts)) for text, parts in zip(told, values, strict=True)
    )


@dataclass
class _Values:
    """The values of one column, numbered as they come."""

    texts: list[str | None] = field(default_factory=list)
    letters: dict[str | None, int] = field(default_factory=dict)
    numbers: dict[Decimal, int] = field(default_factory=dict)

    def own(self, value: Any) -> int:
        """Return the number of a value of the table, a new one for a new value."""
        text = _text(value)
        if text not in self.letters:
            self.letters[text] = len(self.texts)
            self.texts.append(text)
            if (number := _decimal(text)) is not None:
                self.numbers.setdefault(number, self.letters[text])
        return self.letters[text]

    def shown(self, value: Any) -> int:
        """Return the number of a published value, or UNKNOWN."""
        text = _text(value)
        if text in self.letters:
            return self.letters[text]
        if (number := _decimal(text)) in self.numbers and number is not None:
            return self.numbers[number]
        return UNKNOWN if text is None or NO_VALUE.fullmatch(text) else self.own(value)


def _decimal(text: str | None) -> Decimal | None:
    return Decimal(text) if text is not None and re.fullmatch(NUMBER, text) else None
