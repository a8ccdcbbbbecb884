"""Exact counts of any column by DuckDB, over a stream of batches, in bounded memory.

What does not fit in memory goes to a temporary folder, as salted 64-bit hashes: no original value is written
there. Two different values share a hash with probability n^2 / 2^65: 7e-5 for 50 million.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from sfumato.engines.base import Source
from sfumato.randomness import SecretKey, Step
from sfumato.survey.model import Column

MEMORY = "400MB"
THREADS = 2
TOGETHER = 8
"""Columns that are counted in one pass: each takes a hash table, and these must fit side by side."""
_MARKS = ("", "?", "NA", "N/A", "n/a", "na", "NULL", "null", "None", "NaN", "nan", "-", ".")
MISSING_TEXTS = (*_MARKS, *(f" {mark}" for mark in _MARKS))
"""Texts by which others say "missing"; they are taken as values unless the policy says otherwise."""
FIGURES = 7  # of a column

Progress = Callable[[int], None]


def describe_columns(source: Source, progress: Progress) -> tuple[int, tuple[Column, ...]]:
    """Return the number of rows, and every column with its counts."""
    groups = [source.names[k : k + TOGETHER] for k in range(0, len(source.names), TOGETHER)]
    report = shared(progress, len(groups))
    rows, columns = 0, []
    for names in groups:
        try:
            rows, described = _describe(source, names, report)
        except duckdb.OutOfMemoryException:  # too many values side by side: one column after the other
            described = [column for name in names for column in _describe(source, [name], _quiet)[1]]
        columns += described
    return rows, tuple(columns)


def _describe(source: Source, names: Sequence[str], progress: Progress) -> tuple[int, list[Column]]:
    kinds = [source.column_type(name) for name in names]
    batches = (_reported(batch.rows, progress) for batch in source.batches(names))
    values = ", ".join(_values(k, plain_kind(kind)) for k, kind in enumerate(kinds))
    figures = ", ".join(_figures(k) for k in range(len(kinds)))
    (rows, *counts) = run(f"SELECT count(*), {figures} FROM (SELECT {values} FROM rows)", batches, kinds)[0]
    described = [
        _column(name, plain_kind(kind), rows, counts[FIGURES * k : FIGURES * (k + 1)])
        for k, (name, kind) in enumerate(zip(names, kinds, strict=True))
    ]
    return rows, described


def shared(progress: Progress, passes: int) -> Progress:
    """Report the rows of several passes as if they were one."""
    seen = 0

    def report(rows: int) -> None:
        nonlocal seen
        before, seen = seen, seen + rows
        progress(seen // passes - before // passes)

    return report


def _quiet(rows: int) -> None:
    """Report nothing: these rows were reported before."""


def group_sizes(batches: Iterable[Any], kinds: Sequence[Any]) -> dict[int, int]:
    """Return how many groups of equal rows there are of each size: size -> groups."""
    key = ", ".join(_not_nan(f"c{k}", plain_kind(kind)) for k, kind in enumerate(kinds))
    groups = f"SELECT count(*) AS size FROM (SELECT hash({_salt()}, {key}) AS h FROM rows) GROUP BY h"
    return dict(run(f"SELECT size, count(*) FROM ({groups}) GROUP BY size ORDER BY size", batches, kinds))


def rough_median(batches: Iterable[Any], kind: Any) -> float | None:
    """Return the median of the numbers of one column, approximately; None if there are none."""
    number = _number("c0", plain_kind(kind))
    found: float | None = run(f"SELECT approx_quantile({number}, 0.5) FROM rows", batches, [kind])[0][0]
    return found


def run(query: str, batches: Iterable[Any], kinds: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of a query over `rows`, the batches with their columns named c0, c1, ..."""
    stream = _Stream(batches, kinds)
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder:
        config: dict[str, Any] = {"memory_limit": MEMORY, "temp_directory": folder, "threads": THREADS}
        with duckdb.connect(config=config) as connection:
            connection.execute("SET enable_progress_bar = false")  # it would be printed among the results
            connection.register("rows", stream.reader())
            try:
                found: list[tuple[Any, ...]] = connection.execute(query).fetchall()
            except Exception:
                if stream.problem is not None:  # what the source said, not what became of it on the way
                    raise stream.problem from None
                raise
    return found


class _Stream:
    """Batches as DuckDB reads them: plain columns named by number; remembers why reading failed."""

    def __init__(self, batches: Iterable[Any], kinds: Sequence[Any]) -> None:
        self._batches, self._kinds = batches, [_readable_kind(kind) for kind in kinds]
        self._names = [f"c{k}" for k in range(len(self._kinds))]
        self.problem: BaseException | None = None

    def reader(self) -> Any:
        schema = pa.schema(list(zip(self._names, self._kinds, strict=True)))
        return pa.RecordBatchReader.from_batches(schema, self._converted())

    def _converted(self) -> Iterator[Any]:
        try:
            for rows in self._batches:
                columns = [_cast(c, kind) for c, kind in zip(rows.columns, self._kinds, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, names=self._names)
        except BaseException as problem:
            self.problem = problem
            raise


def plain_kind(kind: Any) -> Any:
    """Return the Arrow type of the values: of the dictionary's or the extension's, if it is one."""
    if pa.types.is_dictionary(kind):
        return plain_kind(kind.value_type)
    return plain_kind(kind.storage_type) if isinstance(kind, pa.BaseExtensionType) else kind


def _readable_kind(kind: Any) -> Any:
    """Return the type under which DuckDB reads a column, without changing what is equal; coded text stays coded."""
    if pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type):
        return kind
    kind = plain_kind(kind)
    if pa.types.is_float16(kind):
        return pa.float32()
    return pa.string() if pa.types.is_decimal256(kind) or pa.types.is_string_view(kind) else kind


def _cast(column: Any, kind: Any) -> Any:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    return column if column.type == kind else column.cast(kind)


def _salt() -> int:
    return int(SecretKey.fresh().words(Step.HASH, 0, 0, 1)[0])


def _reported(rows: Any, progress: Progress) -> Any:
    progress(rows.num_rows)
    return rows


# --- one column ---------------------------------------------------------------------------------------------


def _values(k: int, kind: Any) -> str:
    """The column, NaN as missing; which of the texts that look missing it is, from 1, else 0; its number, if any."""
    texts = ", ".join(f"'{text}'" for text in MISSING_TEXTS)
    doubtful = f"coalesce(list_position([{texts}], c{k}), 0)" if is_text(kind) else "0"
    return f"{_not_nan(f'c{k}', kind)} AS v{k}, {doubtful} AS t{k}, {_number(f'c{k}', kind)} AS n{k}"


def _figures(k: int) -> str:
    """Seven figures: present, distinct, how many look missing, which texts, numbers, whole ones, their range."""
    # the missing value has a hash like any other: it is not counted as a value of its own
    distinct = f"count(DISTINCT hash({_salt()}, v{k})) - CAST(count(v{k}) < count(*) AS INTEGER)"
    doubtful = f"count(*) FILTER (t{k} > 0), bit_or(1::BIGINT << t{k})"
    numbers = f"count(n{k}), count(*) FILTER (n{k} = floor(n{k})), [min(n{k}), max(n{k})]"
    return f"count(v{k}), {distinct}, {doubtful}, {numbers}"


def _not_nan(name: str, kind: Any) -> str:
    return f"CASE WHEN isnan({name}) THEN NULL ELSE {name} END" if pa.types.is_floating(kind) else name


def _number(name: str, kind: Any) -> str:
    """The value as a finite number, or NULL."""
    if not (is_text(kind) or is_numeric(kind)):
        return "NULL::DOUBLE"
    cast = f"TRY_CAST({name} AS DOUBLE)"
    if pa.types.is_integer(kind):
        return cast
    finite = f"CASE WHEN isfinite({cast}) THEN {cast} END"
    # a text that begins behind '9' is none; asking first is much faster than a cast that fails
    return f"CASE WHEN ascii({name}) <= 57 THEN {finite} END" if is_text(kind) else finite


def _column(name: str, kind: Any, rows: int, counts: Sequence[Any]) -> Column:
    present, distinct, looks_missing, which, numbers, whole, (low, high) = counts
    all_whole = bool(numbers) and whole == numbers
    return Column(
        name=name,
        type=_type_name(kind, bool(present) and numbers == present, all_whole),
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


def is_text(kind: Any) -> bool:
    """Whether values of this type are text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_numeric(kind: Any) -> bool:
    """Whether values of this type are numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
