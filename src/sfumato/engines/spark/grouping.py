"""Anatomy on Spark: rows are ranked in parts, dealt to groups, and written by group.

    values by part   --count-->  rows of each value before each part       (parts x values numbers on the driver)
    rows by part     --rank-->   rank among the rows of the value          (a part is sorted by the rows' numbers first)
    rank             --deal-->   group; rows by range of groups --> files

A row goes to a part by its secret word, as on one machine, and a part is ranked as there: so every row gets the same
group. The groups of robust Anatomy, which looks at all records at once, are found in one task, and come in by number.
What Spark moves between workers holds original values: see docs/spark.md on encrypting it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.engines.base import RESERVED
from sfumato.engines.deal.anatomy import Types, in_arrow
from sfumato.engines.deal.buckets import Groups, part_of, parts_of, ranked, value_hash
from sfumato.engines.rows.encoding import Encoder
from sfumato.engines.rows.mapping import WORD
from sfumato.engines.rows.selection import SensitiveRows, changed_table, complete_columns
from sfumato.engines.spark.mapping import NUMBER, MapRows
from sfumato.engines.spark.source import SparkSource
from sfumato.engines.spark.tasks import NO_KEY, TaskSource, at_once, collected, joined, mapped
from sfumato.engines.spark.writing import (
    PART,
    Parts,
    PartsInOrder,
    Place,
    Tally,
    line_of_sums,
    parts_for,
    plain,
    signed,
    sorted_in_parts,
    spark_schema,
    write_parts,
)
from sfumato.values.arrays import CodeArray, IntArray
from sfumato.values.arrow import as_numpy, from_numpy
from sfumato.values.attributes import Attribute, Schema, SensitiveDomain
from sfumato.values.bucket_deal import COUNT, GROUP
from sfumato.values.randomness import SecretKey, Step
from sfumato.values.steps import WITHHELD

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CODE = f"{RESERVED}code"
"""The column with the code of a row's sensitive value."""
OWN = {CODE: pa.int32(), WORD: pa.int64(), NUMBER: pa.int64(), PART: pa.int32()}
"""Columns that go with rows on their way to groups."""

Assign = Callable[[CodeArray, SecretKey], npt.NDArray[np.integer]]
"""Gives the group of each record, from 0, or WITHHELD, by the codes of all records in the table's order."""


class TwoParts(NamedTuple):
    """The files of both tables, how many groups there are, and how many records of each value are published."""

    rows: Parts
    values: Parts
    number: int
    published: IntArray


def write_dealt(
    source: SparkSource,
    rows: MapRows,
    domain: SensitiveDomain,
    deal: Groups,
    types: Types,
    key: SecretKey,
    folder: Path,
) -> TwoParts:
    """Deal the rows to groups, none of which gets a value twice, and write both tables."""
    parts = parts_of(int(deal.counts.sum()), domain.size)
    before, checked = _rows_before(source, rows.schema, domain, parts, key)
    if not np.array_equal(before[-1], deal.counts):
        raise changed_table()
    frame = source.addressed(rows.source.names)
    schema = [f for f in rows.published_schema() if f.name not in domain.names]
    sent = pa.schema([*schema, *(pa.field(name, kind) for name, kind in OWN.items())])
    by_part = mapped(frame, _ByPart(rows, domain, parts), spark_schema(sent), key)
    tasks = min(parts, 2 * source.session.sparkContext.defaultParallelism)
    in_parts = by_part.repartitionById(tasks, _task_of(parts, tasks)).sortWithinPartitions(PART, NUMBER)
    rank = _Rank(deal, before[:-1], parts_for(deal.rows))
    written = _write_by_group(in_parts, rank, schema, complete_columns(rows.schema), rank.ranges, key, folder)
    if written.checked != checked:
        raise changed_table()
    lines = _write_lines(source, _Compositions(deal, domain, types, parts_for(deal.rows)), folder)
    return TwoParts(written, lines, deal.number, deal.counts - deal.withheld)


def _task_of(parts: int, tasks: int) -> Column:
    """Return which task has a part: consecutive parts go together."""
    from pyspark.sql import functions as f

    return f.floor(f.col(PART) * tasks / parts).cast("int")


# --- how many rows of each value come before a part ---------------------------------------------------------------


def _rows_before(
    source: SparkSource, schema: Schema, domain: SensitiveDomain, parts: int, key: SecretKey
) -> tuple[IntArray, int]:
    """Return how many rows of each value are in the parts before each part [parts + 1, values], and a secret hash."""
    from pyspark.sql import functions as f

    columns = SensitiveRows(schema, domain).columns
    task = _CountParts(source.in_task(columns), schema, domain, parts)
    found = mapped(source.addressed(columns), task, "place long, number long", key)
    added = collected(found.groupBy("place").agg(f.sum(f.col("number").cast("decimal(38,0)")).alias("number")))
    counts, checked = np.zeros(parts * domain.size, dtype=np.int64), 0
    for place, number in zip(*(column.to_pylist() for column in added.columns), strict=True):
        if place < 0:
            checked = int(number) % (1 << 64)
        else:
            counts[place] = int(number)
    ends = np.cumsum(counts.reshape(parts, domain.size), axis=0)
    return np.vstack([np.zeros_like(ends[:1]), ends]), checked


@dataclass(frozen=True)
class _CountParts:
    """Counts the values of a partition's rows by part, and hashes them."""

    source: TaskSource
    schema: Schema
    domain: SensitiveDomain
    parts: int

    def __call__(self, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
        values, checked = SensitiveRows(self.schema, self.domain), np.zeros(1, dtype=np.uint64)
        counts = np.zeros(self.parts * self.domain.size, dtype=np.int64)
        for batch in self.source.of(given).batches(values.columns):
            codes, words = values.with_words(batch, key, Step.ANATOMY)
            checked += value_hash(codes, words)
            counts += np.bincount(part_of(words, self.parts) * self.domain.size + codes, minlength=counts.size)
        found = np.flatnonzero(counts)
        place, number = np.append(found, -1), np.append(counts[found], checked.view(np.int64))
        yield pa.RecordBatch.from_arrays([from_numpy(place), from_numpy(number)], names=["place", "number"])


# --- rows to parts, parts to groups -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ByPart:
    """Maps rows and says which part each goes to; the sensitive columns become one code."""

    rows: MapRows
    domain: SensitiveDomain
    parts: int

    def __call__(self, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
        encoders = [Encoder(Attribute(part.name, "sensitive", "category"), part) for part in self.domain.parts]
        for _, batch in self.rows(given, key, Tally()):
            codes = self.domain.join(e.encode(batch.column(e.attribute.name), 0) for e in encoders)
            if any(encoder.refused for encoder in encoders):
                raise changed_table()
            words, numbers = as_numpy(batch.column(WORD)), batch.column(NUMBER)
            own = [from_numpy(codes), from_numpy(words.view(np.int64)), numbers]
            own.append(from_numpy(part_of(words, self.parts).astype(np.int32)))
            yield with_columns(
                plain(batch.drop_columns([*self.domain.names, WORD, NUMBER])), dict(zip(OWN, own, strict=True))
            )


def with_columns(batch: Any, columns: dict[str, Any]) -> Any:
    """Return the rows with further columns."""
    arrays, names = [*batch.columns, *columns.values()], [*batch.schema.names, *columns]
    return pa.RecordBatch.from_arrays(arrays, names=names)


@dataclass(frozen=True)
class _Rank:
    """Ranks the rows of each part, and gives them their groups: a part is ranked as a whole."""

    deal: Groups
    before: IntArray
    ranges: int

    def __call__(self, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
        checked, schema = np.zeros(1, dtype=np.uint64), None
        for part, batch in whole_parts(given):
            codes, words = as_numpy(batch.column(CODE)), as_numpy(batch.column(WORD)).view(np.uint64)
            checked += value_hash(codes, words)
            ranks = ranked(codes, part, key).ranks + self.before[part].take(codes)
            made = to_ranges(
                batch.drop_columns(list(OWN)),
                self.deal.group_of(codes, ranks),
                batch.column(NUMBER),
                self.deal.number,
                self.ranges,
                key,
            )
            schema = made.schema
            yield made
        if schema is not None:
            yield line_of_sums(schema, self.ranges, checked)


def whole_parts(given: Iterator[Any]) -> Iterator[tuple[int, Any]]:
    """Give the rows of each part, which come one part after another."""
    pending: list[Any] = []
    for batch in at_once(given):
        ends = np.flatnonzero(np.diff(as_numpy(batch.column(PART)))) + 1
        for start, end in zip([0, *ends], [*ends, batch.num_rows], strict=True):
            piece = batch[start:end]
            if pending and _part(pending[0]) != _part(piece):
                yield _part(pending[0]), joined(pending)
                pending = []
            pending.append(piece)
    if pending:
        yield _part(pending[0]), joined(pending)


def _part(batch: Any) -> int:
    return int(as_numpy(batch.column(PART))[0])


def to_ranges(batch: Any, groups: npt.NDArray[np.int32], numbers: Any, number: int, ranges: int, key: SecretKey) -> Any:
    """Return the published rows with their groups, the range of groups that each belongs to, and a word for its place.

    The words are those of the rows' numbers in the table, of a step of their own.
    """
    places = as_numpy(numbers)
    words = key.words_at(Step.GROUP_ORDER, np.zeros_like(places), places)
    part = (groups.astype(np.int64) * ranges // number).astype(np.int32)
    own = {GROUP: from_numpy(groups + np.int32(1)), PART: from_numpy(part), WORD: signed(words)}
    published = groups != WITHHELD
    made = with_columns(batch, own)
    return made if published.all() else made.filter(from_numpy(published))


def _write_by_group(
    frame: DataFrame, task: Any, schema: list[Any], complete: frozenset[str], ranges: int, key: SecretKey, folder: Path
) -> Parts:
    """Write rows by group, those of a group by their words."""
    own = {GROUP: pa.int32(), PART: pa.int32(), WORD: pa.int64()}
    made = pa.schema([*schema, *(pa.field(name, kind) for name, kind in own.items())])
    grouped = mapped(frame, task, spark_schema(made), key)
    in_order = sorted_in_parts(grouped, ranges, [GROUP, WORD])
    return write_parts(in_order, PartsInOrder(ranges), key, folder, "data", complete)


# --- the values of each group -------------------------------------------------------------------------------------


def _write_lines(source: SparkSource, stage: _Compositions, folder: Path) -> Parts:
    """Write the values of each group, which the deal tells without looking at a row."""
    frame = source.session.range(stage.parts, numPartitions=stage.parts)
    return write_parts(frame, stage, NO_KEY, folder, "groups")


@dataclass(frozen=True)
class _Compositions:
    """The stage that gives the lines of some ranges of groups."""

    deal: Groups
    domain: SensitiveDomain
    types: Types
    parts: int

    def __call__(self, given: Iterator[Any], key: SecretKey, tally: Tally) -> Iterator[tuple[Place, Any]]:
        for batch in given:
            for part in as_numpy(batch.column(0)).tolist():
                first, last = (k * self.deal.number // self.parts for k in (part, part + 1))
                for lines in in_arrow(self.deal.compositions(first, last), self.domain, self.types):
                    yield (part, 0), lines


# --- groups that are found at once --------------------------------------------------------------------------------


def write_assigned(
    source: SparkSource,
    rows: MapRows,
    domain: SensitiveDomain,
    counted: SensitiveDomain,
    assign: Assign,
    types: Types,
    key: SecretKey,
    folder: Path,
) -> TwoParts:
    """Write both tables for groups that `assign` finds, in one task that holds the codes of all records.

    counted: the domain whose codes `assign` takes; the last of its parts are those of `domain`.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as f

    columns = SensitiveRows(rows.schema, counted).columns
    codes = mapped(source.addressed(columns), _Codes(source.in_task(columns), rows.schema, counted), NUMBERED, key)
    at_one = codes.repartitionById(1, f.lit(0)).sortWithinPartitions(NUMBER)
    found = mapped(at_one, _AssignAll(assign), GROUPED, key).persist(StorageLevel.DISK_ONLY)
    try:
        of_value = found.filter(f"{GROUP} >= 0").select(GROUP, (f.col(CODE) % domain.size).alias(CODE))
        counted_values = collected(of_value.groupBy(CODE).agg(f.count("*"), f.max(GROUP)))
        counts = list(zip(*(column.to_pylist() for column in counted_values.columns), strict=True))
        published = np.zeros(domain.size, dtype=np.int64)
        for code, of_code, _ in counts:
            published[code] = of_code
        number = max(last for _, _, last in counts) + 1
        lines = of_value.groupBy(GROUP, CODE).agg(f.count("*").alias(COUNT))
        values = _write_counted(lines, domain, types, number, int(published.sum()), folder)
        written = _write_joined(
            source, rows, domain, found.select(NUMBER, GROUP), number, int(published.sum()), key, folder
        )
    finally:
        found.unpersist()
    if written.rows != int(published.sum()):
        raise changed_table()
    return TwoParts(written, values, number, published)


NUMBERED = f"{NUMBER} long, {CODE} int"
GROUPED = f"{NUMBER} long, {CODE} int, {GROUP} int"


@dataclass(frozen=True)
class _Codes:
    """Gives number and code of a partition's rows."""

    source: TaskSource
    schema: Schema
    domain: SensitiveDomain

    def __call__(self, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
        values = SensitiveRows(self.schema, self.domain)
        for batch in self.source.of(given).batches(values.columns):
            codes, keep = values.codes(batch)
            numbers = batch.positions  # type: ignore[union-attr]
            kept = numbers if keep is None else numbers[keep]
            yield pa.RecordBatch.from_arrays([from_numpy(kept), from_numpy(codes)], names=[NUMBER, CODE])


@dataclass(frozen=True)
class _AssignAll:
    """Finds the groups of all records at once."""

    assign: Assign

    def __call__(self, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
        batches = list(at_once(given))
        if not batches:
            return
        codes = np.concatenate([as_numpy(batch.column(CODE)) for batch in batches])
        groups, start = self.assign(codes, key).astype(np.int32), 0
        for batch in batches:
            own = groups[start : start + batch.num_rows]
            yield with_columns(batch, {GROUP: from_numpy(own)})
            start += batch.num_rows


def _write_counted(
    lines: DataFrame, domain: SensitiveDomain, types: Types, number: int, rows: int, folder: Path
) -> Parts:
    """Write counted values of groups."""
    from pyspark.sql import functions as f

    ranges = parts_for(rows)
    ranged = lines.withColumn(PART, f.floor(f.col(GROUP).cast("long") * ranges / number).cast("int"))
    in_order = ranged.repartitionById(ranges, f.col(PART)).sortWithinPartitions(GROUP, CODE)
    return write_parts(in_order, _Lines(domain, types), NO_KEY, folder, "groups")


@dataclass(frozen=True)
class _Lines:
    """The stage that gives counted values of groups as they are written."""

    domain: SensitiveDomain
    types: Types

    def __call__(self, given: Iterator[Any], key: SecretKey, tally: Tally) -> Iterator[tuple[Place, Any]]:
        for batch in at_once(given):
            groups, codes, counts = (as_numpy(batch.column(name)) for name in (GROUP, CODE, COUNT))
            for lines in in_arrow([(groups, codes, counts)], self.domain, self.types):
                yield (_part(batch), 0), lines


def _write_joined(
    source: SparkSource,
    rows: MapRows,
    domain: SensitiveDomain,
    groups: DataFrame,
    number: int,
    records: int,
    key: SecretKey,
    folder: Path,
) -> Parts:
    """Write the published rows that have a group, found by their numbers."""
    schema, ranges = [f for f in rows.published_schema() if f.name not in domain.names], parts_for(records)
    sent = pa.schema([*schema, *(pa.field(name, kind) for name, kind in OWN.items())])
    mapped_rows = mapped(source.addressed(rows.source.names), _ByPart(rows, domain, 1), spark_schema(sent), key)
    together = mapped_rows.drop(CODE, WORD, PART).join(groups, on=NUMBER)
    complete = complete_columns(rows.schema)
    return _write_by_group(together, _Ranged(number, ranges), schema, complete, ranges, key, folder)


@dataclass(frozen=True)
class _Ranged:
    """Sends rows whose groups are known to the ranges of these."""

    number: int
    ranges: int

    def __call__(self, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
        for batch in at_once(given):
            groups = as_numpy(batch.column(GROUP))
            rest = batch.drop_columns([NUMBER, GROUP])
            yield to_ranges(rest, groups, batch.column(NUMBER), self.number, self.ranges, key)
