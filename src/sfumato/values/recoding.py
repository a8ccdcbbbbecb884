"""How a column's values are recoded before anything else is done with them: bins of numbers, bins of dates, merging.

A recoded column is published as text, under labels. What the labels are is public beforehand: the policy states it.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from sfumato.errors import PolicyError

Days = npt.NDArray[np.int64]
"""Days since 1970-01-01, in the Gregorian calendar carried on to all years."""

DOUBTFUL = 1e-6
"""A quotient this near to an integer may lie on the wrong side of it: 0.3 / 0.1 is below 3 in binary."""
EXACT_DIGITS = 14
"""Decimals of so many digits are told apart by the nearest binary number, and divided exactly rounded."""

Break = TypeVar("Break")


@dataclass(frozen=True)
class Bins:
    """Half-open intervals of a numeric column: of one width from an origin, or between stated breaks.

    >>> Bins(width=10).label(2), Bins(breaks=(18, 65)).label(0), Bins(breaks=(18, 65)).label(2)
    ('[20, 30)', '< 18', '>= 65')
    """

    width: float | None = None
    origin: float = 0
    breaks: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        numbers = [*self.breaks, self.origin] + ([] if self.width is None else [self.width])
        if not all(math.isfinite(x) for x in numbers):
            raise PolicyError("bins: width, origin and breaks must be finite numbers.", "E.g. bins = { width = 10 }.")
        if (self.width is None) == (not self.breaks):
            raise PolicyError("bins: give either a width or breaks.", "E.g. bins = { width = 10 }.")
        if self.width is not None and self.width <= 0:
            raise PolicyError(f"bins: the width must be positive, not {self.width:g}.", "E.g. bins = { width = 10 }.")
        if list(self.breaks) != sorted(set(self.breaks)):
            ascending = ", ".join(_plain(x) for x in sorted(set(self.breaks)))
            raise PolicyError("bins: breaks must be ascending, each once.", f"Write breaks = [{ascending}].")

    def numbers(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return the number of the bin of each (finite) value, as decimal arithmetic has it.

        >>> Bins(width=0.1).numbers(np.array([0.3, 0.29999999999999993])).tolist()
        [3, 2]
        """
        if self.width is None:
            return np.searchsorted(np.array(self.breaks), values, side="right").astype(np.int64)
        quotient = (values - self.origin) / self.width
        error = 4 * np.finfo(np.float64).eps * ((np.abs(values) + abs(self.origin)) / self.width + np.abs(quotient))
        doubtful = np.abs(quotient - np.rint(quotient)) <= DOUBTFUL + error
        numbers = np.floor(quotient).astype(np.int64)
        if doubtful.any():
            numbers[doubtful] = self._exact_numbers(values[doubtful], np.rint(quotient[doubtful]).astype(np.int64))
        return numbers

    def _exact_numbers(self, values: npt.NDArray[np.float64], nearest: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the bins' numbers of values near the lower end of the bin `nearest`.

        That end is (o + nearest w) / s in integers, s a power of ten. Where these are short, their quotient is the
        binary number nearest to the decimal end, and the value is compared with it; else in fractions.
        """
        origin, width = _decimal(self.origin), _decimal(float(self.width or 1))
        scale = max(_power_of_ten(origin.denominator), _power_of_ten(width.denominator))
        o, w, most = int(origin * scale), int(width * scale), 10**EXACT_DIGITS
        far = np.abs(nearest.astype(np.float64)) * w + abs(o) >= most
        if max(scale, w, abs(o)) >= most or far.all():
            return self._slow_numbers(values)
        numbers = nearest - (values < (o + np.where(far, 0, nearest) * w) / scale)
        if far.any():
            numbers[far] = self._slow_numbers(values[far])
        return numbers

    def _slow_numbers(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        origin, width = _decimal(self.origin), _decimal(float(self.width or 1))
        return np.array([(_decimal(x) - origin) // width for x in values.tolist()], dtype=np.int64)

    def holds(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Return which values have a bin: finite ones whose bin number is an exact integer."""
        scale = 1.0 if self.width is None else self.width
        with np.errstate(over="ignore", invalid="ignore"):
            return np.isfinite(values) & (np.abs((values - self.origin) / scale) < 2**53)

    def label(self, number: int) -> str:
        """Return the name under which a bin is published."""
        if self.width is not None:
            origin, width = _decimal(self.origin), _decimal(self.width)
            return f"[{_plain(float(origin + number * width))}, {_plain(float(origin + (number + 1) * width))})"
        return _between(self.breaks, number, _plain)

    def all_labels(self) -> tuple[str, ...] | None:
        """Return all labels where the bins are finitely many (breaks), else None."""
        return None if self.width is not None else tuple(self.label(k) for k in range(len(self.breaks) + 1))

    def order(self, label: str) -> tuple[float, float]:
        """Return what sorts labels from low to high: the ends of the bin.

        >>> sorted(["[100, 110)", "[20, 30)", "[-10, 0)"], key=Bins(width=10).order)
        ['[-10, 0)', '[20, 30)', '[100, 110)']
        """
        low, high = label[1:-1].split(", ") if label.startswith("[") else label.split(" ")
        ends = {"<": "-inf", ">=": high}.get(low, low), "inf" if low == ">=" else high
        return float(ends[0]), float(ends[1])


DateUnit = Literal["year", "quarter", "month"]
DATE_UNITS: tuple[DateUnit, ...] = ("year", "quarter", "month")
MONTHS: dict[DateUnit, int] = {"year": 12, "quarter": 3, "month": 1}
EPOCH = dt.date(1970, 1, 1)
FIRST_DAY, LAST_DAY = (dt.date.min - EPOCH).days, (dt.date.max - EPOCH).days
"""Years have four digits: labels sort as the dates do."""
LABELS: dict[DateUnit, str] = {"year": "", "quarter": "-Q[1-4]", "month": "-(0[1-9]|1[0-2])"}
"""What follows the year."""


@dataclass(frozen=True)
class DateBins:
    """Years, quarters or months of a column of dates; or half-open intervals between stated days.

    >>> day = np.array([(dt.date(2019, 8, 31) - EPOCH).days])
    >>> [bins.label(int(bins.numbers(day)[0])) for bins in map(DateBins, DATE_UNITS)]
    ['2019', '2019-Q3', '2019-08']
    >>> DateBins(breaks=(dt.date(2019, 1, 1), dt.date(2020, 7, 1))).all_labels()
    ('< 2019-01-01', '[2019-01-01, 2020-07-01)', '>= 2020-07-01')
    """

    unit: DateUnit | None = None
    breaks: tuple[dt.date, ...] = ()

    def __post_init__(self) -> None:
        if list(self.breaks) != sorted(set(self.breaks)):
            ascending = ", ".join(x.isoformat() for x in sorted(set(self.breaks)))
            raise PolicyError("bins: breaks must be ascending, each once.", f"Write breaks = [{ascending}].")

    def numbers(self, days: Days) -> npt.NDArray[np.int64]:
        """Return the number of the bin of each day; months, quarters and years count from 1970."""
        if self.unit is None:
            return np.searchsorted([(day - EPOCH).days for day in self.breaks], days, side="right").astype(np.int64)
        months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
        return months // MONTHS[self.unit]

    def holds(self, days: Days) -> npt.NDArray[np.bool_]:
        """Return which days have a bin: those of the years 1 to 9999."""
        return (days >= FIRST_DAY) & (days <= LAST_DAY)

    def label(self, number: int) -> str:
        """Return the name under which a bin is published."""
        if self.unit is None:
            return _between(self.breaks, number, dt.date.isoformat)
        year, part = divmod(number, 12 // MONTHS[self.unit])
        parts = {"year": "", "quarter": f"-Q{part + 1}", "month": f"-{part + 1:02}"}
        return f"{EPOCH.year + year:04}{parts[self.unit]}"

    def all_labels(self) -> tuple[str, ...] | None:
        """Return all labels where the bins are finitely many (breaks), else None."""
        return None if self.unit is not None else tuple(self.label(k) for k in range(len(self.breaks) + 1))

    def check_label(self, label: str) -> None:
        """Raise unless a bin has this label."""
        if self.unit is None:
            labels = self.all_labels() or ()
            if label not in labels:
                raise PolicyError(f"domain: no bin is called {label!r}.", f"The bins are {', '.join(labels)}.")
        elif not re.fullmatch(r"(?!0000)[0-9]{4}" + LABELS[self.unit], label):
            number = int(self.numbers(np.array([(dt.date(2019, 8, 31) - EPOCH).days]))[0])
            raise PolicyError(
                f"domain: {label!r} is no {self.unit}.", f"The {self.unit}s are written like {self.label(number)}."
            )

    def order(self, label: str) -> str:
        """Return what sorts labels from early to late; between breaks all labels are declared, in their order."""
        return label


@dataclass(frozen=True)
class Merge:
    """Values that are published under a common name; all others stay, written as text.

    `values` are written as text: 7 is "7", true is "true".

    >>> merge = Merge((("respiratory", ("COPD", "asthma")),))
    >>> merge.name_of, merge.names
    ({'COPD': 'respiratory', 'asthma': 'respiratory'}, frozenset({'respiratory'}))
    """

    values: tuple[tuple[str, tuple[str, ...]], ...]  # name -> its values

    def __post_init__(self) -> None:
        if not self.values:
            raise PolicyError("merge: no value is named.", 'E.g. merge = { respiratory = ["COPD", "asthma"] }.')
        for name, values in self.values:
            if not name or not values:
                raise PolicyError(
                    f"merge: {name!r} needs a name and values.", 'E.g. merge = { respiratory = ["COPD", "asthma"] }.'
                )
        listed = Counter(value for _, values in self.values for value in values)
        if twice := [value for value, number in listed.items() if number > 1]:
            raise PolicyError(f"merge: {twice[0]!r} is named twice.", "A value goes to one name, and is listed once.")
        for name, values in self.values:
            if name in listed and name not in values:
                raise PolicyError(
                    f"merge: {name!r} is a name, and is itself merged into {self.name_of[name]!r}.",
                    "Choose another name.",
                )

    @cached_property
    def name_of(self) -> dict[str, str]:
        """The name of each value that is merged."""
        return {value: name for name, values in self.values for value in values}

    @cached_property
    def names(self) -> frozenset[str]:
        """The names."""
        return frozenset(name for name, _ in self.values)

    @cached_property
    def taken(self) -> frozenset[str]:
        """The names that no value of the table may have: they are not listed among their own values."""
        return self.names - self.name_of.keys()

    def all_labels(self) -> None:
        """Return None: values that are not listed stay, and the policy does not know them."""
        return None

    def check_domain(self, labels: Iterable[str]) -> None:
        """Raise unless a declared domain is one of published values: the names, and no value that is merged."""
        stated = set(labels)
        for value, name in self.name_of.items():
            if value in stated and value not in self.names:
                raise PolicyError(
                    f"domain: {value!r} is merged into {name!r}, and is not published.",
                    f"The domain lists what is published: put {name!r} there instead of {value!r}.",
                )
        for name, values in self.values:
            if name not in stated:
                raise PolicyError(
                    f"domain: {name!r} is missing, into which {_some(values)} are merged.",
                    f"The domain lists what is published: add {name!r}.",
                )

    def order(self, label: str) -> tuple[bool, int, str]:
        """Return what sorts labels: whole numbers by size, then texts.

        >>> sorted(["low", "10", "9", "high"], key=Merge((("low", ("1",)),)).order)
        ['9', '10', 'high', 'low']
        """
        is_number = re.fullmatch("0|-?[1-9][0-9]*", label) is not None
        return not is_number, int(label) if is_number else 0, label


Recoding = Bins | DateBins | Merge


def _between(breaks: Sequence[Break], number: int, written: Callable[[Break], str]) -> str:
    """Return the label of the interval of this number between breaks."""
    if number == 0:
        return f"< {written(breaks[0])}"
    if number == len(breaks):
        return f">= {written(breaks[-1])}"
    return f"[{written(breaks[number - 1])}, {written(breaks[number])})"


def _some(values: tuple[str, ...], most: int = 3) -> str:
    return ", ".join(map(repr, values[:most])) + (", ..." if len(values) > most else "")


def _decimal(number: float) -> Fraction:
    """Return a number as it is written: 0.1 is one tenth."""
    return Fraction(repr(float(number)))


def _power_of_ten(denominator: int) -> int:
    """Return the smallest power of ten that is a multiple of a decimal's denominator."""
    power = 1
    while power % denominator:
        power *= 10
    return power


def _plain(number: float) -> str:
    """Return a number as people write it, exact enough that no two bins share a label.

    >>> _plain(0.1), _plain(1e15), _plain(1e15 + 1), _plain(1.0000000000000002)
    ('0.1', '1e+15', '1000000000000001', '1.0000000000000002')
    """
    short = f"{number:.15g}"
    return short if float(short) == number else f"{number:.17g}" if number.is_integer() else repr(number)


# --- labels read back: the order of bins is not that of their texts ---------------------------------------------------

BIN = re.compile(r"< (?P<below>\S+)|>= (?P<least>\S+)|\[(?P<low>\S+), (?P<high>\S+)\)")
"""How `Bins` labels a bin: of numbers, or of dates (which are in the order of their texts)."""

PERIOD = re.compile(r"\d{4}(-Q[1-4]|-\d{2})?")
"""How bins of dates label a year, a quarter or a month."""

Place = tuple[float, str]


def are_bins(values: Iterable[Any]) -> bool:
    """Whether all values, but for missing ones, are labels of bins with two ends or one.

    >>> are_bins(["< 18", ">= 18", None]), are_bins(["2019", "< 2019"])
    (True, False)
    """
    return _are_all(values, BIN)


def are_periods(values: Iterable[Any]) -> bool:
    """Whether all values, but for missing ones, are labels of years, quarters or months.

    >>> are_periods(["2019-Q1", None]), are_periods(["< 2019-01-01", ">= 2019-01-01"])
    (True, False)
    """
    return _are_all(values, PERIOD)


def _are_all(values: Iterable[Any], labels: re.Pattern[str]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(value, str) and labels.fullmatch(value) for value in known)


def bin_ends(label: str) -> tuple[float, float] | None:
    """Return the ends of a bin of numbers, infinite where it has none; None for a bin of dates.

    >>> bin_ends("[20, 30)"), bin_ends("< 18"), bin_ends(">= 2019-01-01")
    ((20.0, 30.0), (-inf, 18.0), None)
    """
    found = BIN.fullmatch(label)
    if found is None:
        return None
    try:
        return float(found["least"] or found["low"] or "-inf"), float(found["below"] or found["high"] or "inf")
    except ValueError:
        return None


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
