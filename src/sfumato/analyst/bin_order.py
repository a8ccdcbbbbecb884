"""The order of bins: '< 18', '[18, 30)', '>= 80', which is not that of their texts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

BIN = re.compile(r"< (?P<below>\S+)|>= (?P<least>\S+)|\[(?P<low>\S+), \S+\)")
"""How `attributes.Bins` labels a bin: of numbers, or of dates (which are in the order of their texts)."""

PERIOD = re.compile(r"\d{4}(-Q[1-4]|-\d{2})?")
"""How bins of dates label a year, a quarter or a month."""

Place = tuple[float, str]


def are_bins(values: Iterable[Any]) -> bool:
    """Whether all values, but for missing ones, are labels of bins with two ends or one.

    >>> are_bins(["< 18", ">= 18", None]), are_bins(["2019", "< 2019"])
    (True, False)
    """
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(value, str) and BIN.fullmatch(value) for value in known)


def are_periods(values: Iterable[Any]) -> bool:
    """Whether all values, but for missing ones, are labels of years, quarters or months.

    >>> are_periods(["2019-Q1", None]), are_periods(["< 2019-01-01", ">= 2019-01-01"])
    (True, False)
    """
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(value, str) and PERIOD.fullmatch(value) for value in known)


def bin_place(label: str) -> Place:
    """Return what bins are sorted by.

    >>> sorted([">= 80", "[18, 30)", "< 18", "[100, 110)"], key=bin_place)
    ['< 18', '[18, 30)', '>= 80', '[100, 110)']
    """
    found = BIN.fullmatch(label)
    if found is None:
        return float("inf"), label
    low = found["least"] or found["low"]
    if low is None:
        return float("-inf"), ""
    try:
        return float(low), ""
    except ValueError:
        return 0.0, low
