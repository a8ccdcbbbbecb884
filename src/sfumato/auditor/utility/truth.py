"""The true table, counted on the axes of a release: what the analyst's estimates are compared with.

A table need not have the types that it was published in: numbers and dates may be text in one and not in the other. So
a value and the labels of its axis are read as values of one kind before they are compared; where both are text, they
must agree to the letter. Numbers and dates of a column that was published in bins fall between the bounds that its
labels state, or in the year, quarter or month; merged values count as the manifest tells.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.analyst.answer import NAN
from sfumato.analyst.release import Release
from sfumato.engines.base import Source
from sfumato.engines.embedded.sources import open_source
from sfumato.engines.rows.recoding import NO_DAY, day_of_text
from sfumato.errors import UsageError
from sfumato.publisher.table import Table
from sfumato.release.folder import manifest_types, value_type
from sfumato.release.manifest import Column
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.arrow import codes_of
from sfumato.values.recoding import DATE_UNITS, EPOCH, DateBins
from sfumato.values.section import InputRule
from sfumato.values.text import meant

MISSING = -1  # the place of a missing value on an axis that has none
STRANGE = -2  # the place of a value that its axis does not have


@dataclass(frozen=True, eq=False)
class Truth:
    """The counts of the true table, and how many of its rows the release lacks.

    Rows that were not published (missing values, repeated persons) cannot be told from others: they are counted, but
    for `outside`, the rows that have a value, or a missing one, that an axis lacks.
    """

    counts: FloatArray
    rows: int
    surplus: int  # rows more than were published
    outside: int  # rows that are not in `counts`, at most `surplus`


def true_counts(
    release: Release,
    table: Any,
    columns: Sequence[str],
    values: Sequence[Sequence[Any]],
    rule: InputRule | None = None,
) -> FloatArray:
    return count_truth(release, table, columns, values, rule).counts


def count_truth(
    release: Release,
    table: Any,
    columns: Sequence[str],
    values: Sequence[Sequence[Any]],
    rule: InputRule | None = None,
) -> Truth:
    """Count the true table by published columns, on axes with the labels `values[k]` (None is the missing value).

    `table` is a `Table`, a path or an object that speaks Arrow; `rule` says how a CSV file is read, as the policy does.
    It is another table, and an error, if it has fewer rows than the release, a value that is not one of a randomized
    column, or more rows outside the axes than the release lacks.
    """
    source = table.source if isinstance(table, Table) else open_source(table, rule)
    axes = [_axis(release, source, name, labels) for name, labels in zip(columns, values, strict=True)]
    counts = np.zeros([len(axis.labels) for axis in axes])
    rows = outside = 0
    for batch in source.batches(list(dict.fromkeys(columns)) or source.names[:1]):
        cells = _cells(axes, batch.rows)
        which, times = np.unique(cells, return_counts=True)
        counts.flat[which] += times
        rows += batch.rows.num_rows
        outside += batch.rows.num_rows - cells.size
    truth = Truth(counts, rows, rows - release.manifest.data.rows, outside)
    _check(truth, axes)
    return truth


def _cells(axes: list[_Axis], rows: Any) -> IntArray:
    cells, inside = np.zeros(rows.num_rows, dtype=np.int64), np.ones(rows.num_rows, dtype=np.bool_)
    for axis in axes:
        places = axis.places(rows.column(axis.column.name))
        cells = cells * len(axis.labels) + places
        inside &= places >= 0
    return cells[inside]


def _check(truth: Truth, axes: list[_Axis]) -> None:
    if truth.surplus < 0:
        raise UsageError(
            f"The table has {truth.rows:,} row(s), and {truth.rows - truth.surplus:,} were published.",
            "Give the table that was published, with all its rows.",
        )
    is_other = truth.outside > truth.surplus
    for axis in axes:
        if axis.strange and (is_other or axis.column.treatment == "randomized"):
            raise axis.about_strange()
    if is_other:
        raise max(axes, key=lambda axis: axis.missing).about_missing(truth.surplus)


# --- axes -------------------------------------------------------------------------------------------------------------


@dataclass
class _Axis:
    """Gives the place of each value on an axis, and remembers those that have none."""

    column: Column
    labels: Sequence[Any]
    read: Reader
    index: dict[Any, int]  # the place of each label, as it is read
    merged: dict[Any, str]  # value, as it is read -> name
    missing: int = 0  # rows
    strange: int = 0
    example: Any = None

    def places(self, column: Any) -> IntArray:
        """Return the place of each row; the work is done on the distinct values."""
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        values = [*_values(coded.dictionary), None]
        codes = codes_of(coded, len(values) - 1)
        places = np.array([self._place(value) for value in values], dtype=np.int64).take(codes)
        self.missing += int((places == MISSING).sum())
        strange = np.flatnonzero(places == STRANGE)
        if strange.size and not self.strange:
            self.example = values[codes[strange[0]]]
        self.strange += strange.size
        return places

    def _place(self, value: Any) -> int:
        """Return the place of a value of the table. NaN is a missing value where it is no label of its own."""
        key, is_recoded = None if value is None else self.read(value), self.column.treatment != "untouched"
        if is_recoded and key in self.merged:
            return self.index.get(self.read(self.merged[key]), STRANGE)
        if key is NAN and NAN not in self.index:
            key = None
        if key in self.index:
            return self.index[key]
        if key is None:
            return MISSING
        return _bin_of(value, self.index, self._bins) if is_recoded else STRANGE

    @cached_property
    def _bins(self) -> list[tuple[float, float, int]]:
        """Lower end, upper end and place of each bin, ascending; nothing unless all labels are bins."""
        matches = {place: BIN.fullmatch(str(label)) for place, label in enumerate(self.labels) if label is not None}
        if None in matches.values():
            return []
        return sorted((*_bounds(match), place) for place, match in matches.items() if match)

    def about_strange(self) -> UsageError:
        known = ", ".join(repr(str(label)) for label in self.labels[:4]) + (", ..." if len(self.labels) > 4 else "")
        return UsageError(
            f"{self.column.name!r} of the table has values that the release does not have, in {self.strange:,} row(s), "
            f"e.g. {str(self.example)!r}; the release has {known}.",
            "Give the table that was published, spelled alike. A text that means a missing value is named in the "
            "policy's `input`.",
        )

    def about_missing(self, surplus: int) -> UsageError:
        return UsageError(
            f"{self.column.name!r} is missing in {self.missing:,} row(s) of the table and in none of the release, "
            f"which lacks {surplus:,} row(s).",
            "Give the table that was published.",
        )


def _axis(release: Release, source: Source, name: str, labels: Sequence[Any]) -> _Axis:
    types = manifest_types(release)
    if name not in types:
        raise _no_column("release", name, release.askable_names)
    hidden = Column(name=name, type=types[name], treatment="randomized")
    column = next((c for c in release.manifest.columns if c.name == name), hidden)
    if column.treatment in ("sub-table", "group"):
        raise UsageError(
            f"{name!r} labels the {column.treatment}s of the release: no true table has it.", "Leave it out of --by."
        )
    if name not in source.names:
        raise _no_column("table", name, source.names)
    read = _reader(types[name], value_type(source.column_type(name)))
    merged = {read(v): new for new, values in (release.manifest.merged or {}).get(name, {}).items() for v in values}
    return _Axis(column, labels, read, _index(name, labels, read), merged)


def _no_column(what: str, name: str, names: Sequence[str]) -> UsageError:
    return UsageError(f"The {what} has no column {name!r}.", meant(name, names, "Its columns are"))


def _index(name: str, labels: Sequence[Any], read: Reader) -> dict[Any, int]:
    """Return the place of each label, as it is read; two that are read alike could not be told apart."""
    index: dict[Any, int] = {}
    for place, label in enumerate(labels):
        twin = index.setdefault(None if label is None else read(label), place)
        if twin != place:
            raise UsageError(
                f"{name!r} has the labels {str(labels[twin])!r} and {str(label)!r}, which are the same in the table.",
                "Give the table in the types in which it was published.",
            )
    return index


# --- bins -------------------------------------------------------------------------------------------------------------

_END = r"(\d{4}-\d\d-\d\d|-?\d+(?:\.\d+)?(?:e[+-]\d+)?)"
BIN = re.compile(rf"\[{_END}, {_END}\)|< {_END}|>= {_END}")
"""How `recoding.Bins` and `recoding.DateBins` label a bin that has ends."""


def _bounds(match: re.Match[str]) -> tuple[float, float]:
    low, high, below, least = match.groups()
    if below is not None:
        return -math.inf, _end(below)
    return (_end(low), _end(high)) if least is None else (_end(least), math.inf)


def _end(text: str) -> float:
    day = day_of_text(text)
    return float(text) if day == NO_DAY else day


def _bin_of(value: Any, index: dict[Any, int], bins: list[tuple[float, float, int]]) -> int:
    """Return the place of the bin that a number falls in, or the day of a date, a time or a text that names one."""
    day = day_of_text(value) if isinstance(value, str) else NO_DAY
    if isinstance(value, date):  # a datetime is one
        day = (date(value.year, value.month, value.day) - EPOCH).days
    if day != NO_DAY and not bins:
        labels = [by.label(int(by.numbers(np.array([day]))[0])) for by in map(DateBins, DATE_UNITS)]
        return next((index[label] for label in labels if label in index), STRANGE)
    try:
        number = float(value) if day == NO_DAY else day
    except (TypeError, ValueError):
        return STRANGE
    k = bisect_right(bins, number, key=lambda low_high_place: low_high_place[0]) - 1
    return bins[k][2] if k >= 0 and math.isfinite(number) and number < bins[k][1] else STRANGE


# --- values -----------------------------------------------------------------------------------------------------------

Reader = Callable[[Any], Any]
"""Gives a value, of the table or of an axis, a form in which equal values are equal; leaves what it cannot read."""


def _values(dictionary: Any) -> list[Any]:
    """Return values as Python has them: times to the microsecond, in UTC; 0.7 of 32 bits as it is written."""
    kind = dictionary.type
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        fine = pa.timestamp("us") if pa.types.is_timestamp(kind) else pa.time64("us")
        return list(dictionary.cast(fine, safe=False).to_pylist())
    values: list[Any] = dictionary.to_pylist()
    return [v if v is None else float(str(np.float32(v))) for v in values] if pa.types.is_float32(kind) else values


def _reader(published: str, given: str) -> Reader:
    """Return how values of two (Arrow) types are compared: text as what the other one is, all else at its coarsest."""
    kinds = {_kind(published), _kind(given)}
    if len(kinds) > 1:
        kinds.discard("text")
    kind = kinds.pop() if len(kinds) == 1 else next((k for k, both in MIXED.items() if kinds == both), "text")
    single = next((to for name, to in SHORT.items() if name in (published, given)), None)
    return partial(_rounded, single) if kind == "number" and single else READERS[kind]


def _kind(arrow: str) -> str:
    return next((kind for kind, names in KINDS.items() if arrow.startswith(names)), "text")


def _number(value: Any) -> Any:
    """Return a number as it is written, exactly: 0.1 is one tenth, 12.30 is 12.3."""
    text = repr(float(value)) if isinstance(value, float) else str(int(value) if isinstance(value, bool) else value)
    try:
        number = Decimal(text)
    except InvalidOperation:
        return value
    return NAN if number.is_nan() else number


def _rounded(to: type[np.floating[Any]], value: Any) -> Any:
    """Return a number in as few bits as it was published in, or is given in."""
    number = _number(value)
    with np.errstate(over="ignore"):
        return float(to(float(number))) if isinstance(number, Decimal) else number


def _truth_value(value: Any) -> Any:
    return {"true": True, "1": True, "false": False, "0": False}.get(str(value).lower(), value)


def _parsed(parse: Callable[[str], Any], value: Any) -> Any:
    """Return what a text says, if it can be read; all else as it is."""
    try:
        return parse(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _moment(value: Any) -> Any:
    """Return a time without its zone, in UTC, and to the microsecond; a date is its midnight."""
    value = _parsed(datetime.fromisoformat, value)
    if isinstance(value, datetime):
        moment = value if value.tzinfo is None else value.astimezone(UTC)
        return datetime.combine(moment.date(), moment.time())
    return datetime.combine(value, time()) if isinstance(value, date) else value


KINDS = {
    "number": ("int", "uint", "halffloat", "float", "double", "decimal"),
    "truth value": ("bool",),
    "date": ("date",),
    "moment": ("timestamp",),
    "time": ("time",),
}
"""What a column holds, by the beginning of its Arrow type's name; all else is text."""
MIXED = {"number": {"number", "truth value"}, "moment": {"date", "moment"}}  # the kind as which two kinds are compared
SHORT: dict[str, type[np.floating[Any]]] = {"halffloat": np.float16, "float": np.float32}
READERS: dict[str, Reader] = {
    "text": str, "number": _number, "truth value": _truth_value, "moment": _moment,
    "date": partial(_parsed, date.fromisoformat), "time": partial(_parsed, time.fromisoformat),
}  # fmt: skip
