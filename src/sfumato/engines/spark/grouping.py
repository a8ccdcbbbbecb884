"""Anatomy on Spark: rows are ranked in parts, dealt to groups, and written by group.

    values by part   --count-->  rows of each value before each part       (parts x values numbers on the driver)
    rows by part     --rank-->   rank among the rows of the value          (a part is sorted by the rows' numbers first)
    rank             --deal-->   group; rows by range of groups --> files

A row goes to a part by its secret word, as on one machine, and a part is ranked as there: so every row gets the same
group. The groups of robust Anatomy, which looks at all records at once, are found in one task, and come in by number.
What Spark moves between workers holds original values: see docs/publish/spark.md on encrypting it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.engines.base import RESERVED, BucketsWritten, Written
from sfumato.engines.deal.anatomy import Types, in_arrow, separated
from sfumato.engines.deal.buckets import Groups, part_of, parts_of, ranked, value_hash
from sfumato.engines.rows.encoding import SensitiveRows, changed_table, complete_columns
from sfumato.engines.rows.mapping import WORD
from sfumato.engines.spark.mapping import NUMBER, MapRows
from sfumato.engines.spark.source import SparkSource
from sfumato.engines.spark.tasks import NO_KEY, Task, TaskSource, at_once, collected, joined, mapped, numbers
from sfumato.engines.spark.writing import (
    PART,
    Parts,
    Place,
    line_of_sums,
    parts_for,
    parts_in_order,
    plain,
    signed,
    sorted_in_parts,
    spark_schema,
    with_columns,
    write_parts,
)
from sfumato.values.arrays import CodeArray, IntArray, WordArray
from sfumato.values.arrow import as_numpy, from_numpy
from sfumato.values.attributes import Schema, SensitiveDomain
from sfumato.values.bucket_deal import COUNT, GROUP
from sfumato.values.randomness import SecretKey, Step
from sfumato.values.steps import WITHHELD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CODE = f"{RESERVED}code"
"""The column with the code of a row's sensitive value."""
OWN = {CODE: pa.int32(), WORD: pa.int64(), NUMBER: pa.int64(), PART: pa.int32()}
"""Columns that go with rows on their way to groups."""
PLACED = {GROUP: pa.int32(), PART: pa.int32(), WORD: pa.int64()}
"""Columns that go with rows on their way to files."""
NUMBERED = f"{NUMBER} long, {CODE} int"

Assign = Callable[[CodeArray, SecretKey], npt.NDArray[np.integer]]
"""Gives the group of each record, from 0, or WITHHELD, by the codes of all records in the table's order."""


@dataclass(frozen=True)
class TwoTables:
    """Both tables of a release by groups, before they are written."""

    source: SparkSource
    rows: MapRows
    domain: SensitiveDomain
    types: Types
    key: SecretKey
    folder: Path

    def dealt(self, deal: Groups) -> Written:
        """Deal the rows to groups, none of which gets a value twice, and write both tables."""
        from pyspark.sql import functions as f

        parts, ranges = parts_of(int(deal.counts.sum()), self.domain.size), parts_for(deal.rows)
        before, checked = self._rows_before(parts)
        if not np.array_equal(before[-1], deal.counts):
            raise changed_table()
        tasks = min(parts, 2 * self.source.session.sparkContext.defaultParallelism)
        task_of_part = f.floor(f.col(PART) * tasks / parts).cast("int")  # consecutive parts go together
        in_parts = self._by_part(parts).repartitionById(tasks, task_of_part).sortWithinPartitions(PART, NUMBER)
        data = self._by_group(in_parts, partial(_rank, deal, before[:-1], ranges), ranges)
        if data.checked != checked:
            raise changed_table()
        # the deal tells the values of each group without looking at a row
        frame = self.source.session.range(ranges, numPartitions=ranges)
        stage = partial(_compositions, deal, self.domain, self.types, ranges)
        lines = write_parts(frame, stage, NO_KEY, self.folder, "groups")
        return self._written(data, lines, deal.number, deal.counts - deal.withheld)

    def assigned(self, counted: SensitiveDomain, assign: Assign) -> Written:
        """Write both tables for groups that `assign` finds, in one task that holds the codes of all records.

        counted: the domain whose codes `assign` takes; the last of its parts are those of this domain.
        """
        from pyspark import StorageLevel
        from pyspark.sql import functions as f

        at_one = self._values(_codes, counted, NUMBERED).repartitionById(1, f.lit(0)).sortWithinPartitions(NUMBER)
        found = mapped(at_one, partial(_assign_all, assign), f"{NUMBERED}, {GROUP} int", self.key)
        found = found.persist(StorageLevel.DISK_ONLY)
        try:
            of_value = found.filter(f"{GROUP} >= 0").select(GROUP, (f.col(CODE) % self.domain.size).alias(CODE))
            counts = collected(of_value.groupBy(CODE).agg(f.count("*"), f.max(GROUP)))
            codes, of_code, last = (np.asarray(column.combine_chunks()) for column in counts.columns)
            published = np.zeros(self.domain.size, dtype=np.int64)
            published[codes] = of_code
            number, records = int(last.max()) + 1, int(published.sum())
            lines = self._counted(of_value.groupBy(GROUP, CODE).agg(f.count("*").alias(COUNT)), number, records)
            ranges = parts_for(records)
            joined_rows = self._by_part(1).drop(CODE, WORD, PART).join(found.select(NUMBER, GROUP), on=NUMBER)
            data = self._by_group(joined_rows, partial(_ranged, number, ranges), ranges)
        finally:
            found.unpersist()
        if data.table.rows != records:
            raise changed_table()
        return self._written(data, lines, number, published)

    def _written(self, data: Parts, lines: Parts, number: int, published: IntArray) -> Written:
        return Written(data.table, BucketsWritten(lines.table, self.domain, number, published))

    def _values(self, task: Any, domain: SensitiveDomain, schema: str) -> DataFrame:
        """Return what the task makes of the values of a partition's rows."""
        columns = SensitiveRows(self.rows.schema, domain).columns
        given = partial(task, self.source.in_task(columns), self.rows.schema, domain)
        return mapped(self.source.addressed(columns), given, schema, self.key)

    def _rows_before(self, parts: int) -> tuple[IntArray, int]:
        """Return how many rows of each value are before each part [parts + 1, values], and a secret hash."""
        from pyspark.sql import functions as f

        found = self._values(partial(_count_parts, parts), self.domain, "place long, number long")
        added = collected(found.groupBy("place").agg(f.sum(f.col("number").cast("decimal(38,0)")).alias("number")))
        sums = dict(zip(*(column.to_pylist() for column in added.columns), strict=True))
        checked = int(sums.pop(-1, 0)) % (1 << 64)
        counts = np.zeros(parts * self.domain.size, dtype=np.int64)
        counts[list(sums)] = list(map(int, sums.values()))
        ends = np.cumsum(counts.reshape(parts, self.domain.size), axis=0)
        return np.vstack([np.zeros_like(ends[:1]), ends]), checked

    def _fields(self) -> list[Any]:
        return [f for f in self.rows.published_schema() if f.name not in self.domain.names]

    def _by_part(self, parts: int) -> DataFrame:
        """Return the rows that are published with the part that each goes to; the sensitive columns become one code."""
        frame, schema = self.source.addressed(self.rows.source.names), pa.schema([*self._fields(), *OWN.items()])
        return mapped(frame, partial(_to_part, self.rows, self.domain, parts), spark_schema(schema), self.key)

    def _by_group(self, frame: DataFrame, task: Task, ranges: int) -> Parts:
        """Write rows by group, those of a group by their words."""
        grouped = mapped(frame, task, spark_schema(pa.schema([*self._fields(), *PLACED.items()])), self.key)
        in_order, complete = sorted_in_parts(grouped, ranges, [GROUP, WORD]), complete_columns(self.rows.schema)
        return write_parts(in_order, partial(parts_in_order, ranges), self.key, self.folder, "data", complete)

    def _counted(self, lines: DataFrame, number: int, rows: int) -> Parts:
        """Write counted values of groups."""
        from pyspark.sql import functions as f

        ranges = parts_for(rows)
        ranged = lines.withColumn(PART, f.floor(f.col(GROUP).cast("long") * ranges / number).cast("int"))
        in_order = ranged.repartitionById(ranges, f.col(PART)).sortWithinPartitions(GROUP, CODE)
        return write_parts(in_order, partial(_lines, self.domain, self.types), NO_KEY, self.folder, "groups")


# --- what workers do: values to parts -------------------------------------------------------------------------------


def _count_parts(
    parts: int, source: TaskSource, schema: Schema, domain: SensitiveDomain, given: Iterator[Any], key: SecretKey
) -> Iterator[Any]:
    """Count the values of a partition's rows by part, and hash them."""
    values, checked = SensitiveRows(schema, domain), np.zeros(1, dtype=np.uint64)
    counts = np.zeros(parts * domain.size, dtype=np.int64)
    for batch in source.of(given).batches(values.columns):
        codes, words = values.with_words(batch, key, Step.ANATOMY)
        checked += value_hash(codes, words)
        counts += np.bincount(part_of(words, parts) * domain.size + codes, minlength=counts.size)
    found = np.flatnonzero(counts)
    yield numbers(place=np.append(found, -1), number=np.append(counts[found], checked.view(np.int64)))


def _to_part(rows: MapRows, domain: SensitiveDomain, parts: int, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
    """Map rows and say which part each goes to."""
    mapped_rows = (batch for _, batch in rows(given, key, np.zeros(1, dtype=np.uint64)))
    for codes, words, batch in separated(mapped_rows, domain):
        own: dict[str, npt.NDArray[Any]] = {CODE: codes, WORD: words.view(np.int64)}
        own |= {NUMBER: as_numpy(batch.column(NUMBER)), PART: part_of(words, parts).astype(np.int32)}
        yield with_columns(plain(batch.drop_columns([NUMBER])), own)


# --- parts to groups ------------------------------------------------------------------------------------------------


def _rank(deal: Groups, before: IntArray, ranges: int, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
    """Rank the rows of each part, and give them their groups: a part is ranked as a whole."""
    checked, schema = np.zeros(1, dtype=np.uint64), None
    for part, batch in whole_parts(given):
        codes, words = as_numpy(batch.column(CODE)), as_numpy(batch.column(WORD)).view(np.uint64)
        checked += value_hash(codes, words)
        groups = deal.group_of(codes, ranked(codes, part, key).ranks + before[part].take(codes))
        made = _placed(batch.drop_columns(list(OWN)), groups, batch.column(NUMBER), deal.number, ranges, key)
        schema = made.schema
        yield made
    if schema is not None:
        yield line_of_sums(schema, ranges, checked)


def whole_parts(given: Iterator[Any]) -> Iterator[tuple[int, Any]]:
    """Give the rows of each part, which come one part after another."""
    pieces = (piece for batch in at_once(given) for piece in _pieces(batch))
    for part, of_part in groupby(pieces, key=_part):
        yield part, joined(list(of_part))


def _pieces(batch: Any) -> Iterator[Any]:
    """Cut rows where the next part begins."""
    ends = np.flatnonzero(np.diff(as_numpy(batch.column(PART)))) + 1
    for start, end in zip([0, *ends], [*ends, batch.num_rows], strict=True):
        yield batch[start:end]


def _part(batch: Any) -> int:
    return int(as_numpy(batch.column(PART))[0])


def _ranged(number: int, ranges: int, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
    """Send rows whose groups are known to the ranges of these."""
    for batch in at_once(given):
        groups, rest = as_numpy(batch.column(GROUP)), batch.drop_columns([NUMBER, GROUP])
        yield _placed(rest, groups, batch.column(NUMBER), number, ranges, key)


def _placed(batch: Any, groups: npt.NDArray[np.int32], rows: Any, number: int, ranges: int, key: SecretKey) -> Any:
    """Return the published rows with their groups, the range of groups that each belongs to, and a word for its place.

    The words are those of the rows' numbers in the table, of a step of their own.
    """
    places = as_numpy(rows)
    words = key.words_at(Step.GROUP_ORDER, np.zeros_like(places), places)
    part = (groups.astype(np.int64) * ranges // number).astype(np.int32)
    made = with_columns(batch, {GROUP: groups + np.int32(1), PART: part, WORD: signed(words)})
    published = groups != WITHHELD
    return made if published.all() else made.filter(from_numpy(published))


# --- the values of each group ---------------------------------------------------------------------------------------


def _compositions(
    deal: Groups,
    domain: SensitiveDomain,
    types: Types,
    parts: int,
    given: Iterator[Any],
    key: SecretKey,
    checked: WordArray,
) -> Iterator[tuple[Place, Any]]:
    """Give the lines of some ranges of groups."""
    for part in (part for batch in given for part in as_numpy(batch.column(0)).tolist()):
        first, last = (k * deal.number // parts for k in (part, part + 1))
        for lines in in_arrow(deal.compositions(first, last), domain, types):
            yield (part, 0), lines


def _lines(
    domain: SensitiveDomain, types: Types, given: Iterator[Any], key: SecretKey, checked: WordArray
) -> Iterator[tuple[Place, Any]]:
    """Give counted values of groups as they are written."""
    for batch in at_once(given):
        groups, codes, counts = (as_numpy(batch.column(name)) for name in (GROUP, CODE, COUNT))
        for lines in in_arrow([(groups, codes, counts)], domain, types):
            yield (_part(batch), 0), lines


# --- groups that are found at once ----------------------------------------------------------------------------------


def _codes(
    source: TaskSource, schema: Schema, domain: SensitiveDomain, given: Iterator[Any], key: SecretKey
) -> Iterator[Any]:
    """Give number and code of a partition's rows."""
    values = SensitiveRows(schema, domain)
    for batch in source.of(given).batches(values.columns):
        codes, keep = values.codes(batch)
        places = batch.positions  # type: ignore[union-attr]
        yield numbers(**{NUMBER: places if keep is None else places[keep], CODE: codes})


def _assign_all(assign: Assign, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
    """Find the groups of all records at once."""
    batches = list(at_once(given))
    if not batches:
        return
    groups = assign(np.concatenate([as_numpy(batch.column(CODE)) for batch in batches]), key).astype(np.int32)
    ends = np.cumsum([batch.num_rows for batch in batches])
    for batch, own in zip(batches, np.split(groups, ends[:-1]), strict=True):
        yield with_columns(batch, {GROUP: own})
