"""From the distinct values of a column to the labels under which they are published: bins and merged values.

Times count in UTC where they have a zone, and as they are written where they have none. Texts are dates if they are
written as ISO 8601 has them: 2019-12-31, and a time of day may follow, with or without an offset from UTC.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.errors import PolicyError
from sfumato.values.arrow import as_numpy, from_numpy, is_text, nulls_of
from sfumato.values.attributes import Attribute, Value
from sfumato.values.recoding import EPOCH, Bins, DateBins, Days, Merge, Recoding

DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
"""The length of a day in each unit."""
MINUTES = 24 * 60
NO_DAY = -(1 << 62)
"""Lies in no year: stands for what is no date."""
ISO_DATE = re.compile(
    r"(\d{4}-\d\d-\d\d)"
    r"(?:[T ]([01]\d|2[0-3]):([0-5]\d)(?::[0-5]\d(?:[.,]\d{1,9})?)?(?:(Z)|([+-])([01]\d|2[0-3]):?([0-5]\d))?)?",
    re.ASCII,
)
DATES_HINT = (
    'Bins of dates are bins = "year", "quarter" or "month", or have breaks that are dates: bins = { breaks = '
    '["2019-01-01"] }.'
)
NUMBERS_HINT = "Bins of numbers have a width or breaks that are numbers: bins = { width = 10 }."


Recoded = tuple[list[Value], npt.NDArray[np.int64]]
"""The values under which a dictionary's values are published, and the place of each of the latter among them."""


class Unfit(str):
    """The text of a value that cannot be recoded. It equals no label, though it may be spelled like one."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unfit) and str(self) == str(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((Unfit, str(self)))


def recoded(dictionary: Any, recoding: Recoding) -> Recoded:
    """Recode the distinct values of a column; dates and times come in days (`in_days`)."""
    if isinstance(recoding, Merge):
        return _merged(dictionary, recoding)
    if isinstance(recoding, DateBins):
        days = _days_of(dictionary)
        fits, is_missing = recoding.holds(days), _missing(dictionary)
        return _named(fits, recoding.numbers(days[fits]), recoding.label, _rest(dictionary, ~fits, is_missing, True))
    single = pa.types.is_float32(dictionary.type)
    numbers = np.array([_number(value, single) for value in dictionary.to_pylist()], dtype=np.float64)
    fits, is_missing = recoding.holds(numbers), _missing(dictionary)
    if pa.types.is_floating(dictionary.type):
        is_missing |= np.isnan(numbers)
    return _named(fits, recoding.numbers(numbers[fits]), recoding.label, _rest(dictionary, ~fits, is_missing, False))


def _named(
    fits: npt.NDArray[np.bool_], numbers: npt.NDArray[np.int64], label: Callable[[int], str], rest: Sequence[Value]
) -> Recoded:
    """Return the labels of the bins that occur, and the rest of the values as they are."""
    distinct, place = np.unique(numbers, return_inverse=True)
    places = np.empty(fits.size, dtype=np.int64)
    places[fits] = place
    places[~fits] = distinct.size + np.arange(len(rest))
    return [*map(label, distinct.tolist()), *rest], places


def _rest(dictionary: Any, which: npt.NDArray[np.bool_], is_missing: npt.NDArray[np.bool_], day: bool) -> list[Value]:
    """Return what has no bin: missing values, and those that cannot be recoded. day: numbers are days."""

    def written(value: Any) -> str:
        return str(np.datetime64(value, "D")) if day and isinstance(value, int) else str(value)

    return [None if is_missing[k] else Unfit(written(dictionary[k].as_py())) for k in np.flatnonzero(which).tolist()]


def _missing(dictionary: Any) -> npt.NDArray[np.bool_]:
    nulls = nulls_of(dictionary)
    return np.zeros(len(dictionary), dtype=np.bool_) if nulls is None else nulls


# --- numbers ----------------------------------------------------------------------------------------------------------


def _number(value: Any, single: bool) -> float:
    """Return a number, one of 32 bits as it is written: 0.7, not 0.699999988079071."""
    try:
        return float(str(np.float32(value)) if single else value)
    except (TypeError, ValueError):
        return math.nan


# --- dates ------------------------------------------------------------------------------------------------------------


def in_days(column: Any) -> Any:
    """Return dates and times as days since 1970, of which there are fewer; missing ones stay so."""
    kind = column.type
    if pa.types.is_date32(kind):
        return column.cast(pa.int32()).cast(pa.int64())
    length = DAY[kind.unit] if pa.types.is_timestamp(kind) else DAY["ms"]
    return from_numpy(as_numpy(column.cast(pa.int64())) // length, nulls_of(column))  # the floor, before 1970 too


def _days_of(dictionary: Any) -> Days:
    """Return the day of each text, or of each number of days; NO_DAY where it is none."""
    if pa.types.is_integer(dictionary.type):
        return np.where(_missing(dictionary), NO_DAY, as_numpy(dictionary))
    return np.array([day_of_text(text) for text in dictionary.to_pylist()], dtype=np.int64)


def day_of_text(text: str | None) -> int:
    """Return the day that a text names, in UTC where it has an offset.

    >>> [day_of_text(text) for text in ("1970-01-02", "1970-01-01T23:30:00-01:00", "1969-12-31 23:59:59.999999999")]
    [1, 1, -1]
    >>> {day_of_text(text) for text in ("1970-02-30", "1970-1-2", "19700102", "1970-01-01T24:00", "0000-01-01")}
    {-4611686018427387904}
    """
    match = ISO_DATE.fullmatch(text or "")
    if match is None:
        return NO_DAY
    day, hour, minute, _, sign, hours, minutes = match.groups()
    try:
        number = (dt.date.fromisoformat(day) - EPOCH).days
    except ValueError:  # such as 2019-02-29
        return NO_DAY
    if sign is None:
        return number
    offset = (60 * int(hours) + int(minutes)) * (1 if sign == "+" else -1)
    return (number * MINUTES + 60 * int(hour) + int(minute) - offset) // MINUTES


# --- merging ----------------------------------------------------------------------------------------------------------


def as_text(dictionary: Any) -> list[str | None]:
    """Return texts, whole numbers and truth values as a policy writes them: 7 as "7", true as "true"."""
    texts: list[str | None] = dictionary.cast(pa.string()).to_pylist()
    return texts


def _merged(dictionary: Any, merge: Merge) -> Recoded:
    places: dict[Value, int] = {}
    found = []
    for text in as_text(dictionary):
        named = None if text is None else Unfit(text) if text in merge.taken else merge.name_of.get(text, text)
        found.append(places.setdefault(named, len(places)))
    return list(places), np.array(found, dtype=np.int64)


# --- what fits which column -------------------------------------------------------------------------------------------


def check_recoding(attribute: Attribute, kind: Any) -> None:
    """Raise unless a column of this Arrow type can be recoded so."""
    name, recoding = attribute.name, attribute.recoding
    is_date = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if isinstance(recoding, DateBins) and not (is_date or is_text(kind)):
        raise PolicyError(
            f"{name!r} has bins of dates, but holds values of type {kind}.",
            NUMBERS_HINT if is_number else "Turn it into dates first, or take the bins away.",
        )
    if isinstance(recoding, Bins) and not (is_number or is_text(kind)):
        raise PolicyError(
            f"{name!r} has bins of numbers, but holds values of type {kind}.",
            DATES_HINT if is_date else "Turn it into numbers first, or take the bins away.",
        )
    if isinstance(recoding, Merge):
        _check_merge(name, recoding, kind)


def _check_merge(name: str, merge: Merge, kind: Any) -> None:
    if not (is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise PolicyError(
            f"{name!r} merges values, but holds values of type {kind}.",
            "Texts, whole numbers and truth values can be merged. For other numbers and for dates there are bins.",
        )
    if pa.types.is_integer(kind):
        wrong = [value for value in merge.name_of if not re.fullmatch("0|-?[1-9][0-9]*", value)]
        holds = "whole numbers"
    else:
        wrong = [v for v in merge.name_of if v not in ("true", "false")] if pa.types.is_boolean(kind) else []
        holds = "truth values"
    if wrong:
        raise PolicyError(
            f"{name!r} holds {holds}, but its merge names {wrong[0]!r}.", "Name values as the table has them."
        )
