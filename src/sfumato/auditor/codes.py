"""Columns as arrays of codes, of a table and of a release: one list of labels for both sides.

Labels are values as they are written (bins by their names), so that a table and a release of different file formats
agree. Rows that the policy leaves out of a release are left out of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.analyst.release import Release
from sfumato.auditor.finding import named
from sfumato.engines.rows.encoding import Encoder, complete_rows, dropping
from sfumato.engines.rows.mapping import positioned
from sfumato.errors import ReleaseError
from sfumato.publisher.table import Table
from sfumato.release.folder import connected, quoted
from sfumato.values.arrays import CodeArray, IntArray
from sfumato.values.arrow import codes_of
from sfumato.values.attributes import MISSING_LABEL, Attribute, Value
from sfumato.values.attributes import label as written
from sfumato.values.mechanism import Mechanism

MOST_PLACES = 8  # for each row, of an array in which combinations are marked; in a larger space they are sorted


def text_of(value: Value) -> str:
    """Return how a value is written; a text that looks like the missing value in quotes, to tell the two apart."""
    return repr(value) if value == MISSING_LABEL else written(value)


def cross_counts(rows: IntArray, columns: CodeArray | IntArray, number: int, size: int) -> IntArray:
    """Return how often each pair of codes occurs: [row, column]."""
    return np.bincount(rows * size + columns, minlength=number * size).reshape(-1, size)


def combined(columns: Sequence[CodeArray | IntArray], sizes: Sequence[int], rows: int = 0) -> tuple[IntArray, IntArray]:
    """Return the number of each row's combination of codes, and a row with each: those that occur, in their order.

    Without any column all of `rows` have the one combination that there is.

    >>> number, first = combined([np.array([1, 0, 1]), np.array([0, 2, 0])], [2, 3])
    >>> number.tolist(), first.tolist()
    ([1, 0, 1], [1, 0])
    """
    number = np.zeros(columns[0].size if columns else rows, dtype=np.int64)
    first, space = np.zeros(1, dtype=np.int64), 1
    for column, size in zip(columns, sizes, strict=True):
        if space * size > MOST_PLACES * number.size:  # else they are sorted once, at the end
            first, number = _numbered(number, space)
            space = first.size
        number, space = number * size + column, space * size
    return (number, first) if not columns else _numbered(number, space)[::-1]


def _numbered(places: IntArray, space: int) -> tuple[IntArray, IntArray]:
    """Return a row with each place that occurs, the first, and the number of that of each row."""
    if space > MOST_PLACES * places.size:
        _, first, number = np.unique(places, return_index=True, return_inverse=True)
        return first, number
    row = np.full(space, -1, dtype=np.int64)
    row[places[::-1]] = np.arange(places.size - 1, -1, -1)
    occurs = row >= 0
    return row[occurs], (np.cumsum(occurs) - 1)[places]


@dataclass(frozen=True, eq=False)
class Signatures:
    """The combinations of some columns that occur, numbered from 0: of the table's rows and of the release's."""

    columns: tuple[str, ...]
    table: IntArray
    release: IntArray
    codes: tuple[CodeArray, ...]  # of each column, by combination
    texts: tuple[tuple[str, ...], ...]  # the labels of each column

    @property
    def size(self) -> int:
        return int(self.codes[0].size) if self.codes else 1

    @cached_property
    def values(self) -> tuple[tuple[str, ...], ...]:
        """The labels of each combination."""
        columns = [
            [texts[code] for code in codes.tolist()] for codes, texts in zip(self.codes, self.texts, strict=True)
        ]
        return tuple(zip(*columns, strict=True)) if columns else ((),)

    @property
    def name(self) -> str:
        return ", ".join(self.columns)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The values of each combination."""
        return tuple(", ".join(values) for values in self.values)

    @cached_property
    def told(self) -> tuple[str, ...]:
        return tuple(named(self.columns, values) for values in self.values)


@dataclass(eq=False)
class ColumnCodes:
    """Codes of a column by its labels; new labels get new codes."""

    attribute: Attribute
    index: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # a learning encoder recodes; missing values have a label like all others
        learning = replace(self.attribute, missing="category", declared=None)
        self._recoded = Encoder(learning) if self.attribute.recoding else None

    def of_table(self, column: Any, position: int) -> CodeArray:
        if self._recoded is None:
            return self.of_release(column)
        codes = self._recoded.encode(column, position)
        self._recoded.check()
        return self._numbered([text_of(value) for value in self._recoded.learned]).take(codes)

    def of_release(self, column: Any) -> CodeArray:
        if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
            column = column.cast(column.type.value_type)
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        values: list[Value] = [*coded.dictionary.to_pylist(), None]
        places = codes_of(coded, len(values) - 1)
        used = np.unique(places)
        table = np.zeros(len(values), dtype=np.int32)
        table[used] = self._numbered([text_of(values[k]) for k in used.tolist()])
        return table.take(places)

    def _numbered(self, labels: Iterable[str]) -> CodeArray:
        return np.array([self.index.setdefault(text, len(self.index)) for text in labels], dtype=np.int32)


def table_codes(table: Table, columns: Mapping[str, ColumnCodes]) -> dict[str, CodeArray]:
    """Read columns of a table, all in one pass."""
    drops = dropping(table.schema)
    parts: dict[str, list[CodeArray]] = {name: [] for name in columns}
    for batch, position in positioned(table.source, list(dict.fromkeys([*columns, *(a.name for a in drops)]))):
        keep = complete_rows(batch.rows, drops)
        for name, column in columns.items():
            codes = column.of_table(batch.rows.column(name), position)
            parts[name].append(codes if keep is None else codes[keep])
    nothing = np.zeros(0, dtype=np.int32)
    return {name: np.concatenate([nothing, *of_batches]) for name, of_batches in parts.items()}


def release_codes(release: Release, columns: Mapping[str, ColumnCodes]) -> dict[str, CodeArray]:
    with connected(release) as connection:
        rows = connection.sql(f"SELECT {', '.join(map(quoted, columns))} FROM release").to_arrow_table()
    return {name: column.of_release(rows.column(name).combine_chunks()) for name, column in columns.items()}


def release_numbers(release: Release, name: str) -> IntArray:
    """Return a column of whole numbers of a release."""
    with connected(release) as connection:
        rows = connection.sql(f"SELECT CAST({quoted(name)} AS BIGINT) AS number FROM release").to_arrow_table()
    return np.asarray(rows.column("number").combine_chunks(), dtype=np.int64)


def published_codes(release: Release, mechanism: Mechanism) -> CodeArray:
    """Return what a release shows of each row, as codes of what its mechanism can publish; no table is needed."""
    domain = mechanism.published
    columns = {
        part.name: ColumnCodes(Attribute(part.name, "other"), {text_of(v): code for code, v in enumerate(part.values)})
        for part in domain.parts
    }
    codes = release_codes(release, columns)
    for part in domain.parts:
        if len(columns[part.name].index) > len(part.values):
            raise ReleaseError(
                f"{part.name!r} of {str(release.folder)!r} has a value that its manifest does not list.",
                "Get the release anew from the publisher.",
            )
    return domain.join([codes[part.name] for part in domain.parts])
