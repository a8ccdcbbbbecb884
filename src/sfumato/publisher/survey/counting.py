"""Exact counts of every column of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from sfumato.engines.base import Source
from sfumato.engines.embedded.counting import is_numeric, not_nan, number_of, plain_kind, run, salt
from sfumato.engines.embedded.csv_source import CsvSource
from sfumato.engines.rows.looking import NumberColumns
from sfumato.publisher.survey.found import Column
from sfumato.publisher.table import no_progress
from sfumato.values.arrays import Progress
from sfumato.values.arrow import from_numpy, is_text

TOGETHER = 8  # columns that are counted in one pass: each takes a hash table, and these must fit side by side
VALUES = 8_000_000  # that fit side by side: of short tables more columns are counted in one pass
BYTES = 1 << 26  # of values that are put one below the other at a time
SHORT = 250_000  # rows of a table whose columns are counted one below the other
_MARKS = ("", "?", "NA", "N/A", "n/a", "na", "NULL", "null", "None", "NaN", "nan", "-", ".")
MISSING_TEXTS = (*_MARKS, *(f" {mark}" for mark in _MARKS))
"""Texts by which others say "missing"; they are taken as values unless the policy says otherwise."""
FIGURES = 7  # of a column


def describe_columns(source: Source, progress: Progress) -> tuple[int, tuple[Column, ...]]:
    """Return the number of rows, and every column with its counts."""
    rows, columns, names = 0, list[Column](), source.names[:TOGETHER]
    report = _by_columns(progress, len(source.names))
    while names:
        try:
            if 0 < rows <= SHORT:
                described = _one_below_the_other(source, names, report)
            else:
                rows, described = _describe(source, names, report(len(names)))
        except duckdb.OutOfMemoryException:  # too many values side by side: one after the other, all reported before
            described = [column for name in names for column in _describe(source, [name], no_progress)[1]]
        columns += described
        # a pass reads every line of a CSV file, however few of its columns: of short tables fewer passes
        together = VALUES // rows if 0 < rows <= SHORT else TOGETHER
        names = source.names[len(columns) : len(columns) + together]
    return rows, tuple(columns)


def _by_columns(progress: Progress, columns: int) -> Callable[[int], Progress]:
    """Report rows of a pass as the share of the columns that it counts, so that all passes add up to the rows."""
    done = told = 0

    def of(counted: int) -> Progress:
        def report(rows: int) -> None:
            nonlocal done, told
            done += rows * counted
            progress(done // columns - told)
            told = done // columns

        return report

    return of


def _describe(source: Source, names: Sequence[str], progress: Progress) -> tuple[int, list[Column]]:
    kinds = [source.column_type(name) for name in names]
    held = NumberColumns(dict.fromkeys(names) if isinstance(source, CsvSource) else {})
    batches = held.watched(_reported(batch.rows, progress) for batch in source.batches(names))
    values = ", ".join(_values(k, plain_kind(kind)) for k, kind in enumerate(kinds))
    figures = ", ".join(_figures(k) for k in range(len(kinds)))
    (rows, *counts) = run(f"SELECT count(*), {figures} FROM (SELECT {values} FROM rows)", batches, kinds)[0]
    described = [
        _column(name, plain_kind(kind), rows, counts[FIGURES * k : FIGURES * (k + 1)], held)
        for k, (name, kind) in enumerate(zip(names, kinds, strict=True))
    ]
    return rows, described


def _one_below_the_other(source: Source, names: Sequence[str], report: Callable[[int], Progress]) -> list[Column]:
    """Count columns of one type as one column, by the number that each value comes with.

    A query takes as long to plan as it has figures; this one has those of a single column.
    """
    by_kind: dict[Any, list[str]] = {}
    for name in names:
        by_kind.setdefault(plain_kind(source.column_type(name)), []).append(name)
    found: dict[str, Column] = {}
    for kind, own in by_kind.items():
        held = NumberColumns(dict.fromkeys(own) if isinstance(source, CsvSource) else {})
        progress = report(len(own))
        batches = held.watched(_reported(batch.rows, progress) for batch in source.batches(own))
        lines = run(
            f"SELECT c1, count(*), {_figures(0)} FROM (SELECT c1, {_values(0, kind)} FROM rows) GROUP BY c1",
            _below(batches),
            [kind, pa.int32()],
        )
        found |= {own[place]: _column(own[place], kind, rows, counts, held) for place, rows, *counts in lines}
    return [found[name] for name in names]


def _below(batches: Iterable[Any]) -> Iterator[Any]:
    """Give the values of all columns, each with the number of its column."""
    for rows in batches:
        columns = [_plain(column) for column in rows.columns]
        step = max(1, len(columns) * BYTES // max(BYTES, sum(column.nbytes for column in columns)))
        for start in range(0, len(columns), step):
            own = columns[start : start + step]
            numbers = np.arange(start, start + len(own), dtype=np.int32)
            beside = from_numpy(np.repeat(numbers, rows.num_rows))
            yield pa.record_batch([pa.chunked_array(own).combine_chunks(), beside], ["c0", "c1"])


def _plain(column: Any) -> Any:
    column = column.storage if isinstance(column, pa.ExtensionArray) else column
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _reported(rows: Any, progress: Progress) -> Any:
    progress(rows.num_rows)
    return rows


# --- one column ---------------------------------------------------------------------------------------------


def _values(k: int, kind: Any) -> str:
    """The column, NaN as missing; which of the texts that look missing it is, from 1, else 0; its number, if any."""
    texts = ", ".join(f"'{text}'" for text in MISSING_TEXTS)
    doubtful = f"coalesce(list_position([{texts}], c{k}), 0)" if is_text(kind) else "0"
    return f"{not_nan(f'c{k}', kind)} AS v{k}, {doubtful} AS t{k}, {number_of(f'c{k}', kind)} AS n{k}"


def _figures(k: int) -> str:
    """Seven figures: present, distinct, how many look missing, which texts, numbers, whole ones, their range."""
    # the missing value has a hash like any other: it is not counted as a value of its own
    distinct = f"count(DISTINCT hash({salt()}, v{k})) - CAST(count(v{k}) < count(*) AS INTEGER)"
    doubtful = f"count(*) FILTER (t{k} > 0), bit_or(1::BIGINT << t{k})"
    numbers = f"count(n{k}), count(*) FILTER (n{k} = floor(n{k})), [min(n{k}), max(n{k})]"
    return f"count(v{k}), {distinct}, {doubtful}, {numbers}"


def _column(name: str, kind: Any, rows: int, counts: Sequence[Any], held: NumberColumns) -> Column:
    present, distinct, looks_missing, which, numbers, whole, (low, high) = counts
    all_whole = bool(numbers) and whole == numbers
    is_number = bool(present) and numbers == present
    is_coded = is_number and held.is_no_number(name)  # 007: digits that are published as text
    return Column(
        name=name,
        type="text (codes)" if is_coded else _type_name(kind, is_number, all_whole),
        role=None,
        distinct=distinct,
        missing=rows - present,
        looks_missing=looks_missing,
        missing_texts=tuple(text for bit, text in enumerate(MISSING_TEXTS, start=1) if (which or 0) >> bit & 1),
        numbers=numbers,
        whole=all_whole,
        low=low,
        high=high,
    )


def _type_name(kind: Any, all_numbers: bool, whole: bool) -> str:
    if is_text(kind):
        return "text" if not all_numbers else "text (whole numbers)" if whole else "text (numbers)"
    if pa.types.is_integer(kind):
        return "whole numbers"
    if is_numeric(kind):
        return "numbers"
    if pa.types.is_boolean(kind):
        return "true/false"
    if pa.types.is_null(kind):
        return "nothing"
    return "date or time" if pa.types.is_temporal(kind) else str(kind)
