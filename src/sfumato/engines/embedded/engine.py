"""The engine on this machine: rows stream through threads, in bounded memory."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sfumato.engines.base import Source
from sfumato.engines.deal.allocation import dealt, table_rows
from sfumato.engines.deal.anatomy import (
    TwoTables,
    anatomized,
    dealing_word,
    for_once,
    regrouped,
    sensitive_codes,
    sensitive_values,
)
from sfumato.engines.embedded.counting import count_sensitive, group_sizes
from sfumato.engines.embedded.csv_source import CsvSource
from sfumato.engines.embedded.shuffle import shuffled
from sfumato.engines.embedded.writing import Written as FileWritten
from sfumato.engines.embedded.writing import kept_memory, reported, write_file
from sfumato.engines.engine import BucketsWritten, FilesWritten, Rows, Written
from sfumato.engines.rows.looking import NumberColumns, PublishedRows, see
from sfumato.engines.rows.mapping import CountedValues, RowMapper, integer_types
from sfumato.engines.rows.mapping import Dealt as LabelOf
from sfumato.engines.rows.selection import complete_columns, draw_persons, index_column
from sfumato.errors import UsageError
from sfumato.release.format import Format
from sfumato.release.formats import FORMATS, FormatName
from sfumato.values.arrays import BoolArray, CodeArray, Progress, WordArray
from sfumato.values.attributes import Attribute, Schema, SensitiveDomain
from sfumato.values.looks import Seen
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey
from sfumato.values.steps import WITHHELD, Allocate, Counts, Dealt, Perturb, RowStep, Separate, Shuffle


class EmbeddedEngine:
    """Carries out everything in this process."""

    def look(self, rows: Rows, attributes: Sequence[Attribute]) -> list[Seen]:
        """Return what is seen of columns that would be published as they are."""
        return see(rows.source, attributes)

    def count(self, rows: Rows, checked: Sequence[str], key: SecretKey, progress: Progress) -> Profile:
        """Return the counts of the sensitive columns; `checked` are columns with values that are refused."""
        return count_sensitive(rows.source, rows.schema, progress, drawn_rows(rows, key), rows.linked, checked)

    def sizes(self, rows: Rows, names: Sequence[str]) -> Mapping[int, int]:
        """Return how many combinations of these columns so many records have, as they would be published."""
        published = PublishedRows(rows.source, rows.schema, names)
        return group_sizes(published.batches(lambda _: None), published.kinds)

    def distinct(self, rows: Rows, column: str) -> tuple[int, int]:
        """Return how many rows there are, and how many different values of an identifier."""
        with index_column(rows.source, column, SecretKey.fresh()) as index:
            return index.rows, index.distinct()

    def check(self, rows: Rows, format: FormatName, *, keeps_order: bool, draws_each_row: bool) -> None:
        """Raise if there is no such format; all else can be done here."""
        if format not in FORMATS:
            raise UsageError(f"There is no format {format!r}.", f"Name one of {', '.join(map(repr, FORMATS))}.")

    def rehearse(self, rows: Rows, progress: Progress) -> None:
        """Raise what `write` would raise because of a value: read every row, and write nothing."""
        for read, _ in RowMapper(rows.schema, rows.source, (), SecretKey.fresh()).batches():
            progress(read)

    def write(
        self,
        rows: Rows,
        steps: Sequence[RowStep],
        key: SecretKey,
        folder: Path,
        format: FormatName,
        progress: Progress,
        reads: int,
    ) -> Written:
        """Carry out the steps on all rows, and write what comes of it."""
        source, schema = _widened(rows) if FORMATS[format].takes_runs else (rows.source, rows.schema)
        written = _Files(rows, source, schema, key, folder, format, progress)
        with kept_memory():
            separate = next((step for step in steps if isinstance(step, Separate)), None)
            return written.perturbed(steps) if separate is None else written.separated(separate)


def drawn_rows(rows: Rows, key: SecretKey) -> BoolArray | None:
    """Return which row of each person is drawn by this key, if one of each is."""
    if rows.person is None:
        return None
    return draw_persons(rows.source, rows.schema, rows.person, key, rows.record_key)


class _Files(NamedTuple):
    """The files of a release, before they are written. `source` and `schema` may have runs of columns as one."""

    rows: Rows
    source: Source
    schema: Schema
    key: SecretKey
    folder: Path
    format: FormatName
    progress: Progress

    # --- rows that stay rows ----------------------------------------------------------------------------------------

    def perturbed(self, steps: Sequence[RowStep]) -> Written:
        """Draw every row's values, in the table's order or in a random one."""
        perturb = next(step for step in steps if isinstance(step, Perturb))
        shuffle = next((step for step in steps if isinstance(step, Shuffle)), None)
        stopped = threading.Event()
        mapper = RowMapper(
            self.schema,
            self.source,
            perturb.mechanisms,
            self.key,
            record_key=self.rows.record_key,
            drawn=drawn_rows(self.rows, self.key),
            dealt=self._labels(steps),
            seen=None if perturb.counts is None else CountedValues(perturb.counts),
        )
        numbers = self._numbers([name for m in perturb.mechanisms for name in m.domain.names])
        with closing(reported(mapper.batches(reading_ahead=True), self.progress, stopped)) as rows:
            published = rows if shuffle is None else shuffled(rows, shuffle.rows, self.key, self.folder)
            file = write_file(numbers.watched(published), self._path("data"), self._kind(), stopped)
        return Written(self._named("data", file, numbers))

    def _labels(self, steps: Sequence[RowStep]) -> LabelOf | None:
        """Return who deals records to sub-tables, if there are several."""
        allocate = next((step for step in steps if isinstance(step, Allocate)), None)
        if allocate is None:
            return None
        again = table_rows(self.rows.source, self.rows.schema, allocate.mechanism, self.key)
        return dealt(again, allocate.mechanism, allocate.quotas, self.key)

    # --- rows in buckets --------------------------------------------------------------------------------------------

    def separated(self, step: Separate) -> Written:
        """Write the rows with their buckets, and the values of each bucket."""
        stopped, key = threading.Event(), for_once(self.key)
        mapper = RowMapper(self.schema, self.source, (), key, beside=dealing_word(key))
        numbers = self._numbers()
        with closing(reported(mapper.batches(), self.progress, stopped)) as rows:
            tables, number, published = self._tables(step, rows, key, stopped)
            data, lines = self._write_both(tables._replace(rows=numbers.watched(tables.rows)), stopped)
        buckets = BucketsWritten(self._named("groups", lines), step.domain, number, published)
        return Written(self._named("data", data, numbers), buckets)

    def _tables(
        self, step: Separate, rows: Iterator[Any], key: SecretKey, stopped: threading.Event
    ) -> tuple[TwoTables, int, Counts]:
        """Return both tables, the number of buckets, and the published records of each value."""
        domain, buckets = step.domain, step.buckets
        types = integer_types(domain.parts, self.rows.source)
        if isinstance(buckets, Dealt):
            values = takewhile(lambda _: not stopped.is_set(), self._values(domain, key))
            deal = (buckets.counts, buckets.withheld, buckets.number)
            tables = anatomized(rows, values, domain, *deal, types, key, self.folder)
            return tables, buckets.number, buckets.counts - buckets.withheld
        codes = np.concatenate(list(self._codes(buckets.counted)))
        own, of_row = codes % domain.size, buckets.assign(codes, key)
        published = np.bincount(own[of_row != WITHHELD], minlength=domain.size)
        return regrouped(rows, own, of_row, domain, types, key, self.folder), int(of_row.max()) + 1, published

    def _codes(self, domain: SensitiveDomain) -> Iterator[CodeArray]:
        """Give the values of all rows that are published, and report how many were read."""
        for codes in sensitive_codes(self.rows.source, self.rows.schema, domain):
            self.progress(codes.size)
            yield codes

    def _values(self, domain: SensitiveDomain, key: SecretKey) -> Iterator[tuple[CodeArray, WordArray]]:
        """Give value and word of all rows that are published, and report how many were read."""
        for codes, words in sensitive_values(self.rows.source, self.rows.schema, domain, key):
            self.progress(codes.size)
            yield codes, words

    def _write_both(self, tables: TwoTables, stopped: threading.Event) -> tuple[FileWritten, FileWritten]:
        """Write the values of each bucket, which are known before the first row is read, beside the rows."""
        failed = threading.Event()
        values = takewhile(lambda _: not failed.is_set(), tables.values)
        with ThreadPoolExecutor(1) as beside:
            lines = beside.submit(write_file, values, self._path("groups"), FORMATS[self.format](), threading.Event())
            try:
                data = write_file(tables.rows, self._path("data"), self._kind(), stopped)
            except BaseException:
                failed.set()
                raise
            return data, lines.result()

    # --- files ------------------------------------------------------------------------------------------------------

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.{self.format}"

    def _kind(self) -> Format:
        return FORMATS[self.format](complete_columns(self.schema), self.source.wide)

    def _named(self, name: str, file: FileWritten, numbers: NumberColumns | None = None) -> FilesWritten:
        schema = file.schema if numbers is None else numbers.noted(file.schema)
        return FilesWritten(self._path(name).name, file.rows, file.sha256, schema)

    def _numbers(self, randomized: Collection[str] = ()) -> NumberColumns:
        return watched_numbers(self.rows, self.source, randomized)


def watched_numbers(rows: Rows, source: Source, randomized: Collection[str] = ()) -> NumberColumns:
    """Return what finds out which columns of text hold numbers that are published as they are; only CSV has such."""
    if not isinstance(rows.source, CsvSource):
        return NumberColumns({})
    shown = [a for a in rows.schema.attributes if a.role in ("quasi_identifier", "other") and not a.recoding]
    return NumberColumns({a.name: a.type for a in shown if a.name not in randomized}, source.wide)


def _widened(rows: Rows) -> tuple[Source, Schema]:
    """Return the table and its schema with runs of columns that are published as they are as one, where that can be.

    Such columns of a CSV file are copied in one piece, which is much faster than to take them apart and to join them.
    """
    if not isinstance(rows.source, CsvSource):
        return rows.source, rows.schema
    needed = {*rows.linked, *([rows.record_key.column] if rows.record_key else [])}
    untouched = {
        a.name: a.missing
        for a in rows.schema.attributes
        if a.role in ("quasi_identifier", "other") and not a.recoding and a.declared is None and a.name not in needed
    }
    source = rows.source.widened(untouched)
    runs = {name: Attribute(name, "other", untouched[run[0]]) for name, run in source.wide.items()}
    return source, Schema(tuple(runs.get(name) or rows.schema[name] for name in source.names))
