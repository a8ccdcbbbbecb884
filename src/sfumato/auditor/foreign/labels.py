"""Combinations of values in words, and which values a label of another tool's table may stand for (`meant`).

*, Any, ?                             every value
nothing                               the missing value, where a person has one; else every value
[20, 30)   (20, 30]   [20, 30[        an interval, ends as the brackets say
20-30   20 - 30   20..30              both ends included
>= 65   < 20   65+                    half-open
{a, b, c}                             one of these
481**   4****                         every * at the end stands for one character, or for none
anything else                         itself; numbers by their value, so that 30 and 30.0 agree

Every label also stands for itself, to the letter but for spaces around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sfumato.values.arrays import BoolArray

Test = Callable[[str, float | None], bool]
"""Whether a value, as text and (if it is one) as a number, is meant."""

EVERYTHING = re.compile(r"\*+|any|all|\?|", re.IGNORECASE)
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
INTERVAL = re.compile(rf"([\[\](])\s*({NUMBER})\s*[,;]\s*({NUMBER})\s*([\])\[])")
RANGE = re.compile(rf"({NUMBER})\s*(?:-|\.\.|–|to)\s*({NUMBER})")
HALF = re.compile(rf"(>=|<=|>|<|≥|≤)\s*({NUMBER})|({NUMBER})\s*\+")
MASKED = re.compile(r"([^*]+)(\*+)")
COMPARED: dict[str, Callable[[float, float], bool]] = {
    ">=": float.__ge__, "≥": float.__ge__, "<=": float.__le__, "≤": float.__le__,
    ">": float.__gt__, "<": float.__lt__,
}  # fmt: skip


def meant(labels: Sequence[Any], values: Sequence[Any]) -> BoolArray:
    """Return [labels, values]: whether each label may stand for each value. None is a missing value or label.

    >>> meant(["[20, 30)", "4*"], [25, 30, "41"]).tolist()
    [[True, False, False], [False, False, True]]
    """
    texts = [_text(value) for value in values]
    numbers = [_number(text) for text in texts]
    found = np.zeros((len(labels), len(values)), dtype=np.bool_)
    for row, text in enumerate(map(_text, labels)):
        test = _missing if not text and "" in texts else _test_of(text)
        found[row] = [test(value, number) for value, number in zip(texts, numbers, strict=True)]
    return found


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _missing(value: str, number: float | None) -> bool:
    return not value


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
