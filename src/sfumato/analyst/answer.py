"""Answers: a figure of each group with its standard error and interval.

A count or a sum is one estimate, and its interval is estimate -+ z * standard error. An average, a share or a ratio is
a quotient r = top/bottom of two estimates. What is normal about it is top - r bottom, so the interval holds every r for
which that is not too far from zero (Fieller 1954):

    (top - r bottom)^2 <= z^2 (Var[top] - 2 r Cov[top, bottom] + r^2 Var[bottom])

It need not be symmetric, and it has no ends where the bottom is not told apart from zero. The standard error of a
quotient is that of its linear part, sqrt(Var[top - r bottom])/bottom.

A quantile is the least value that a share q of the records does not exceed. At each value in turn

    distance = (records at or below) - q (records that have a value)

is one estimate. The interval holds every value at which it may be the first that is not negative: from the first value
with distance + z error >= 0 to the one after the last with distance - z error < 0. The distances need not rise from
value to value, and are never put in order before; where they cross 0 several times, the quantile is in the middle of
the first and the last crossing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from sfumato.errors import UsageError
from sfumato.release.folder import ReleaseFolder
from sfumato.show.files import NUMBERS, document, write_answer
from sfumato.show.results import SHOWN, Drawn, values_array
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.attributes import label
from sfumato.values.recoding import are_bins, bin_place
from sfumato.values.text import meant

Estimator = Literal["inverse", "projected", "em", "classical"]
Target = Literal["table", "population"]
ESTIMATORS: tuple[Estimator, ...] = ("inverse", "projected", "em", "classical")
TARGETS: tuple[Target, ...] = ("table", "population")
ALL = "(all)"
"""Stands in a column that a row of the answer is not grouped by (SQL's NULL would look like a missing value)."""
NO_ROW = "No published row satisfies the condition."
SAMPLING = "Intervals cover the added noise and sampling: the rows are taken as a random sample."
"""Of intervals for a population."""
MANY_GROUPS, FEW_ROWS = 20, 3
"""From how many groups on, and below how many rows each, an answer says that it is mostly noise."""
ROUNDING = 1e-9
"""Of what was summed: a difference below that is none."""
NAN = float("nan")
"""The one NaN of all groups: two of them would be two groups, for NaN is not equal to NaN."""


@dataclass(frozen=True, eq=False)
class Key:
    """A column of the groups: its different values, and the number of the value of each row."""

    name: str
    values: tuple[Any, ...]
    codes: IntArray

    def take(self, rows: IntArray) -> Key:
        """Return the column of some rows."""
        return Key(self.name, self.values, self.codes[rows])

    def column(self) -> list[Any]:
        """Return the value of each row."""
        return [self.values[code] for code in self.codes.tolist()]

    def to_arrow(self) -> Any:
        """Return an Arrow array; text where subtotals are marked in it."""
        import pyarrow as pa

        values = [v if v is None else label(v) for v in self.values] if ALL in self.values else list(self.values)
        return values_array(values).take(pa.array(self.codes))


@dataclass(frozen=True, eq=False)
class Quotient:
    """Top and bottom of quotients, with their variances and covariance; NaN for figures that are no quotients."""

    top: FloatArray
    bottom: FloatArray
    top_variance: FloatArray
    covariance: FloatArray
    bottom_variance: FloatArray

    def interval(self, z: float) -> tuple[FloatArray, FloatArray]:
        """Return the ends of Fieller's interval; infinite where it has none (also where a gap would be left out)."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            a = self.bottom**2 - z**2 * self.bottom_variance
            b = self.top * self.bottom - z**2 * self.covariance
            c = self.top**2 - z**2 * self.top_variance
            bounded = (a > 0) & (self.bottom > 0)
            half = np.sqrt(np.maximum(b**2 - a * c, 0))
            return np.where(bounded, (b - half) / a, -np.inf), np.where(bounded, (b + half) / a, np.inf)


@dataclass(frozen=True, eq=False)
class Quantile:
    """Quantiles of some rows of an answer: the distances of the distribution function from the share that is asked."""

    at: IntArray  # the rows
    numbers: FloatArray  # of each place
    distance: FloatArray  # [rows, places]
    error: FloatArray

    @classmethod
    def of(cls, below: Quotient, share: float, numbers: FloatArray) -> Quantile:
        """Return the quantiles at a share, of the sums at or below each place and of those of all, [rows, places]."""
        distance = below.top - share * below.bottom
        distance = np.where(np.abs(distance) <= ROUNDING * np.abs(below.bottom), 0, distance)
        variance = below.top_variance - 2 * share * below.covariance + share**2 * below.bottom_variance
        return cls(np.arange(len(distance)), numbers, distance, np.sqrt(np.maximum(variance, 0)))

    @classmethod
    def joined(cls, parts: Sequence[Quantile]) -> Quantile | None:
        """Return the quantiles of several parts of an answer, one after another."""
        if not parts:
            return None
        distance, error = (np.concatenate([getattr(part, name) for part in parts]) for name in ("distance", "error"))
        return cls(np.arange(len(distance)), parts[0].numbers, distance, error)

    def take(self, rows: IntArray, at: IntArray) -> Quantile:
        """Return some of the quantiles, as rows of an answer."""
        return Quantile(at, self.numbers, self.distance[rows], self.error[rows])

    @property
    def value(self) -> FloatArray:
        """The quantiles; NaN where the estimated number of records is not positive."""
        first, last = self._crossings(0)
        return np.where(self.distance[:, -1] > 0, self.numbers[(first + last) // 2], np.nan)

    def interval(self, z: float) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the intervals; where nothing is told, the first and the last value."""
        first, last = self._crossings(z)
        return self.numbers[first], self.numbers[last]

    def _crossings(self, z: float) -> tuple[IntArray, IntArray]:
        last = self.numbers.size - 1
        may_reach, may_miss = self.distance + z * self.error >= 0, self.distance - z * self.error < 0
        missed = np.where(may_miss.any(axis=1), last + 1 - np.argmax(may_miss[:, ::-1], axis=1), 0)
        return np.argmax(may_reach, axis=1), np.minimum(missed, last)


@dataclass(frozen=True, eq=False)
class Answer(Drawn):
    """One figure for each group. `value`, `standard_error` and `interval()` are arrays in the same order.

    Quantiles of a column of texts or bins are places in its order; `marks` are the values there, and rows and tables
    have these.
    """

    keys: tuple[Key, ...]
    value: FloatArray
    standard_error: FloatArray  # NaN where none can be given
    unbiased: FloatArray  # centre of the intervals; NaN where there is no inverse
    most: FloatArray  # rows of the group that a count belongs to
    method: Estimator
    target: Target
    level: float
    notes: tuple[str, ...] = ()
    quotient: Quotient | None = None
    figure: str = ""  # the column that names the figure of a row, where there are several
    quantiles: tuple[Quantile, ...] = ()
    marks: tuple[Any, ...] = ()  # none where figures are numbers

    @property
    def by(self) -> tuple[str, ...]:
        """The names of the columns of the groups."""
        return tuple(key.name for key in self.keys)

    @cached_property
    def groups(self) -> tuple[tuple[Any, ...], ...]:
        """The values of each group."""
        return tuple(zip(*(key.column() for key in self.keys), strict=True)) if self.keys else ((),) * self.value.size

    def interval(self, level: float | None = None) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper ends of the confidence intervals; infinite where a quotient has none."""
        level = self.level if level is None else level
        check_level(level)
        z = NormalDist().inv_cdf((1 + level) / 2)
        lower, upper = self.unbiased - z * self.standard_error, self.unbiased + z * self.standard_error
        if self.quotient is not None:
            ends = self.quotient.interval(z)
            is_quotient = ~np.isnan(self.quotient.bottom)
            lower, upper = np.where(is_quotient, ends[0], lower), np.where(is_quotient, ends[1], upper)
        for quantile in self.quantiles:
            lower[quantile.at], upper[quantile.at] = quantile.interval(z)
        if self.method == "inverse":
            return lower, upper
        return np.clip(lower, 0, self.most), np.clip(upper, 0, self.most)

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary for each group; None where no figure or error bar can be given."""
        columns = self.figures()
        return [
            dict(zip(self.by, group, strict=True)) | {name: column[k] for name, column in columns.items()}
            for k, group in enumerate(self.groups)
        ]

    def to_arrow(self) -> Any:
        """Return the rows as an Arrow table; null where no figure or error bar can be given."""
        import pyarrow as pa

        if self.marks:
            numbers = {name: pa.array(column, _arrow_type(name)) for name, column in self.figures().items()}
        else:
            numbers = {name: pa.array(column, mask=np.isnan(column)) for name, column in self.numbers().items()}
        return pa.table(dict(zip(self.by, (key.to_arrow() for key in self.keys), strict=True)) | numbers)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it with stable keys (docs/reference/json.md)."""
        return document(self.to_arrow(), self.about())

    def save(self, file: Any, escape_formulas: bool = False) -> None:
        """Write the rows to a new file: .csv, .json, .parquet or .arrow.

        escape_formulas: in CSV, put an apostrophe before text that a spreadsheet program would calculate.
        """
        write_answer(self.to_arrow(), file, self.about(), escape_formulas)

    def _drawing(self, title: str) -> dict[str, Any]:
        """Return the figures with error bars."""
        from sfumato.show.plots import error_bars, subtitle_of

        if self.marks:
            raise UsageError(
                "These quantiles are texts, which have no axis to be drawn on.",
                "Draw the distribution function that they are read off: release.distribution(...).plot(), or "
                "sfumato distribution ... --plot FILE",
            )
        table, by = self.to_arrow(), [name for name in self.by if name != self.figure]
        if self.figure:
            table = table.rename_columns(["figure" if name == self.figure else name for name in table.column_names])
        return error_bars(table, by, title, subtitle_of(self.about()), self.level)

    def about(self) -> dict[str, Any]:
        """Return what is said of all rows."""
        return {"method": self.method, "target": self.target, "level": self.level, "notes": list(self.notes)}

    def numbers(self) -> dict[str, FloatArray]:
        """Return the figures by name, as arrays; NaN where none can be given."""
        return dict(zip(NUMBERS, (self.value, self.standard_error, *self.interval()), strict=True))

    def figures(self) -> dict[str, list[Any]]:
        """Return the figures by name, places as the values there; None where none can be given."""
        columns = {name: _without_nan(column) for name, column in self.numbers().items()}
        if not self.marks:
            return columns
        texts = [label(mark) for mark in self.marks]
        return {name: [None if x is None else texts[int(x)] for x in column] for name, column in columns.items()}

    def __repr__(self) -> str:
        more = self.value.size - SHOWN
        rest = (
            f"\n... and {more:,} more: .rows(), .to_arrow() or .save(FILE) give all {self.value.size:,}."
            if more > 0
            else ""
        )
        numbers = zip(*(column[:SHOWN] for column in self.figures().values()), strict=True)
        lines = [
            f"{', '.join(label(v) for v in group) or 'all'}: {_told(value)} ± {_told(error)} "
            f"[{_told(low)}, {_told(high)}]"
            for group, (value, error, low, high) in zip(self.groups, numbers, strict=False)
        ]
        return f"Answer({self.method}, {self.target}, {self.level:.0%})\n" + "\n".join(lines) + rest


def check_target(target: str, level: float) -> None:
    """Raise unless intervals of this kind and level exist."""
    if target not in TARGETS:
        raise UsageError(
            f"Intervals are for a {' or a '.join(TARGETS)}, not for {target!r}.",
            "--target table: the noise alone; --target population: sampling too.",
        )
    check_level(level)


def check_level(level: float) -> None:
    """Raise unless intervals of this level exist."""
    if not 0 < level < 1 or (1 + level) / 2 >= 1:  # the next number below 1 gives an infinite interval
        raise UsageError(
            f"The confidence level must lie between 0 and 1, not {level}.",
            f"{level:g}% is {level / 100:g}: write {level / 100:g}." if 1 < level < 100 else "0.95 is usual.",
        )


def check_method(release: ReleaseFolder, method: str, target: str, level: float) -> None:
    """Raise unless there are such estimates and intervals of this release."""
    if method not in ESTIMATORS:
        raise UsageError(f"There is no estimator {method!r}.", meant(method, ESTIMATORS, "Estimators are"))
    if method == "classical" and not release.manifest.in_buckets:
        raise UsageError(
            "The classical estimate is for releases by groups; this one is randomized.",
            "Ask for `inverse`; what counting the published rows gives is the `published` table of release.table(...).",
        )
    if method == "em" and release.manifest.in_buckets:
        raise UsageError(
            "EM needs records that were randomized one by one; in a release by groups they were dealt together.",
            "Ask for `inverse` (least squares), or for `projected`, which has no negative counts.",
        )
    check_target(target, level)


def scattered(by: Sequence[str], rows: FloatArray) -> tuple[str, ...]:
    """Return a note if rows are spread over so many groups that an estimate in one of them is mostly noise."""
    if rows.size < MANY_GROUPS or rows.sum() >= FEW_ROWS * rows.size:
        return ()
    return (
        f"The {rows.size:,} groups by {' and '.join(by)} have {rows.sum() / rows.size:.1f} published rows each, on "
        "average: an estimate within one is mostly noise. Leave out the column with the most values, or select a range "
        "of it by a condition.",
    )


def sorted_key(name: str, values: Sequence[Any], codes: IntArray, stated: Sequence[Any] = ()) -> Key:
    """Return a column with each value once, in order: values (bins in theirs), then NaN, then the missing value.

    Where an order is stated, values that it has come before all others.
    """
    known = dict.fromkeys(NAN if is_nan(v) else v for v in values)
    first = {value: k for k, value in enumerate(stated)}
    ordered = sorted(sorted(known, key=_place_in(known)), key=lambda value: first.get(value, len(first)))
    place = {value: k for k, value in enumerate(ordered)}
    new = np.array([place[NAN if is_nan(v) else v] for v in values], dtype=np.int64)
    return Key(name, tuple(ordered), new[codes] if new.size else codes)


def is_nan(value: Any) -> bool:
    """Whether a value is the number that is none."""
    return isinstance(value, float) and math.isnan(value)


def _place_in(values: Iterable[Any]) -> Callable[[Any], tuple[bool, bool, Any]]:
    """Return what gives the place of a value among these."""
    binned = are_bins(values)

    def place(value: Any) -> tuple[bool, bool, Any]:
        if value is None or is_nan(value):
            return value is None, is_nan(value), ("", "") if binned else ""
        return False, False, bin_place(value) if binned else value

    return place


def _arrow_type(name: str) -> str:
    """Return the type of a figure of an answer whose figures are texts."""
    return "double" if name == "standard_error" else "string"


def _told(figure: float | str | None) -> str:
    return figure if isinstance(figure, str) else "nan" if figure is None else f"{figure:,.5g}"


def _without_nan(column: FloatArray) -> list[float | None]:
    return [None if is_nan(number) else number for number in column.tolist()]


def value_order(values: Sequence[Any], descending: bool = False) -> FloatArray:
    """Return the place of each value in the order; the missing value comes last in any case, then (all)."""
    known = [value for value in values if value is not None and value is not ALL]
    ordered = sorted(known, key=_place_in(known), reverse=descending)
    place: dict[Any, float] = {v: float(k) for k, v in enumerate(ordered)}
    place[None] = float(len(known))
    return np.array([place[v] if v is not ALL else len(known) + 1.0 for v in values])
