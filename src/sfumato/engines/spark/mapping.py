"""The map on Spark: the same as on one machine, in the table's order or on to the parts of a shuffle.

A deal to sub-tables is found by counting words by class and leading bits in every partition; Spark adds up. The driver
gets counters, at most 2^22 of them, and the words of the rows in boundary buckets, at most 2^21.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.engines.base import RESERVED, Batch, RecordKey, key_bytes
from sfumato.engines.deal.allocation import Labels, Picked, Rows, dealing_stream
from sfumato.engines.deal.buckets import part_of
from sfumato.engines.rows.encoding import SensitiveRows, complete_columns
from sfumato.engines.rows.mapping import WORD, Beside, RowMapper, SeenValues
from sfumato.engines.spark.selection import with_drawn
from sfumato.engines.spark.source import SparkSource
from sfumato.engines.spark.tasks import DRAWN, NO_KEY, Addressed, TaskSource, collected, mapped, numbers
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
from sfumato.values.arrays import IntArray, WordArray
from sfumato.values.arrow import as_numpy
from sfumato.values.attributes import Schema, SensitiveDomain
from sfumato.values.mechanism import Mechanism, set_columns
from sfumato.values.randomness import SecretKey, Step, release_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NUMBER = f"{RESERVED}number"
"""The column with the number of a row in the whole table."""


@dataclass(frozen=True)
class Order:
    """What decides the place of a row: a word of this step, in a column WORD; and its number in the table, in NUMBER.

    A row that has a record key has a word by it and a nonce, another one in every release: a key that is kept must not
    give the same order again.
    """

    step: Step
    record_key: RecordKey | None = None
    nonce: bytes = b""

    def beside(self, key: SecretKey) -> Beside:
        """Return what gives these to the rows of a batch."""

        def numbers(batch: Batch) -> dict[str, npt.NDArray[Any]]:
            if self.record_key is None:
                assert isinstance(batch, Addressed)
                return {WORD: batch.words(key, self.step), NUMBER: batch.positions}
            keys = key_bytes(batch.rows.column(self.record_key.column), self.record_key.column, 0)
            words = key.keyed_words(self.step, [self.nonce + of_row for of_row in keys])
            return {WORD: words, NUMBER: np.zeros(words.size, dtype=np.int64)}

        return numbers


@dataclass(frozen=True)
class MapRows:
    """Maps the rows of a partition. `hashed`: the sizes of the domains whose values are added up, by secret words."""

    schema: Schema
    source: TaskSource
    mechanisms: tuple[Mechanism, ...]
    record_key: RecordKey | None = None
    labels: Labels | None = None
    hashed: tuple[int, ...] = ()
    order: Order | None = None

    def __call__(self, given: Iterator[Any], key: SecretKey, checked: WordArray) -> Iterator[tuple[Place, Any]]:
        """Yield the published rows of each batch, and where they were."""
        source = self.source.of(given)
        mapper = RowMapper(
            self.schema,
            source,
            self.mechanisms,
            key,
            record_key=self.record_key,
            dealt=self.labels,
            seen=SeenValues(key, self.hashed, checked) if self.hashed else None,
            beside=self.order.beside(key) if self.order else None,
        )
        for _, rows in mapper.batches():
            yield source.place, rows

    def published_schema(self) -> Any:
        """Return the Arrow schema of what it yields, found by mapping no row."""
        source = _NoRows(self.source.names, self.source.types, None)
        mapper = RowMapper(self.schema, source, self.mechanisms, NO_KEY, record_key=self.record_key, dealt=self.labels)
        _, rows = next(mapper.batches())
        return rows.schema


class _NoRows(TaskSource):
    """A table without a row, for its schema."""

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield one empty batch."""
        nothing, none = [pa.array([], self.column_type(name)) for name in columns], np.zeros(0, dtype=np.int64)
        yield Addressed(pa.RecordBatch.from_arrays(nothing, names=list(columns)), none, none, none)


# --- on the driver ------------------------------------------------------------------------------------------------


def write_in_order(source: SparkSource, rows: MapRows, key: SecretKey, folder: Path) -> Parts:
    """Write the published rows in the table's order."""
    in_order = replace(rows, source=replace(rows.source, in_order=True))
    frame, complete = source.addressed(rows.source.names), complete_columns(rows.schema)
    return write_parts(frame, in_order, key, folder, "data", complete, set_columns(rows.mechanisms))


def write_shuffled(
    source: SparkSource, rows: MapRows, number: int, key: SecretKey, folder: Path, person: str | None = None
) -> Parts:
    """Write the published rows, about so many, in random order; `person`: one row of each."""
    order = Order(Step.SHUFFLE, rows.record_key, release_id().encode())
    frame = with_drawn(source, rows.schema, rows.source.names, person, key, rows.record_key)
    if person is not None:
        frame = frame.filter(f"`{DRAWN}`").drop(DRAWN)
    parts, task = parts_for(number), replace(rows, order=order)
    schema = [*rows.published_schema(), pa.field(PART, pa.int32()), pa.field(WORD, pa.int64())]
    drawn = mapped(frame, partial(_to_parts, task, parts), spark_schema(pa.schema(schema)), key)
    frame, complete = sorted_in_parts(drawn, parts, [WORD]), complete_columns(rows.schema)
    return write_parts(
        frame, partial(parts_in_order, parts), key, folder, "data", complete, set_columns(rows.mechanisms)
    )


def _to_parts(rows: MapRows, parts: int, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
    """Map rows, and say which part each goes to by the leading bits of its word."""
    checked, schema = np.zeros(1, dtype=np.uint64), None
    for _, batch in rows(given, key, checked):
        words = as_numpy(batch.column(WORD))
        published = plain(batch.drop_columns([WORD, NUMBER]))
        schema = published.schema
        yield with_columns(published, {PART: part_of(words, parts).astype(np.int32), WORD: signed(words)})
    if schema is not None:
        yield line_of_sums(schema, parts, checked)


# --- sub-tables ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DealtRows:
    """All rows of a table on Spark as they are dealt in an attempt, by the values of a domain: a `Stream`."""

    source: SparkSource
    schema: Schema
    domain: SensitiveDomain
    key: SecretKey
    attempt: int

    def counted(self, places: Callable[[Rows], IntArray], size: int) -> IntArray:
        """Return how many rows have each of the places 0 .. size-1."""
        from pyspark.sql import functions as f

        found = self._mapped(partial(_count, places, size), "place long, number long")
        added = collected(found.groupBy("place").agg(f.sum("number")))
        counts = np.zeros(size, dtype=np.int64)
        counts[np.asarray(added.column(0).combine_chunks())] = np.asarray(added.column(1).combine_chunks())
        return counts

    def picked(self, pick: Callable[[Rows], Picked]) -> Iterable[Picked]:
        """Return what is picked of all rows."""
        for batch in collected(self._mapped(partial(_pick, pick), "bucket long, word long")).to_batches():
            yield as_numpy(batch.column(0)), as_numpy(batch.column(1)).view(np.uint64)

    def _mapped(self, task: Callable[[Iterator[Rows]], Iterator[Any]], schema: str) -> DataFrame:
        columns = SensitiveRows(self.schema, self.domain).columns
        dealing = partial(_dealing, task, self.source.in_task(columns), self.schema, self.domain, self.attempt)
        return mapped(self.source.addressed(columns), dealing, schema, self.key)


def _dealing(
    task: Callable[[Iterator[Rows]], Iterator[Any]],
    source: TaskSource,
    schema: Schema,
    domain: SensitiveDomain,
    attempt: int,
    given: Iterator[Any],
    key: SecretKey,
) -> Iterator[Any]:
    """Let the task see values and words of a partition's rows."""
    values, stream = SensitiveRows(schema, domain), dealing_stream(attempt)
    batches = source.of(given).batches(values.columns)
    return task(values.with_words(batch, key, Step.ALLOCATE, stream) for batch in batches)


def _count(places: Callable[[Rows], IntArray], size: int, dealt: Iterator[Rows]) -> Iterator[Any]:
    """Yield the places that rows have, and how many."""
    counts = np.zeros(size, dtype=np.int64)
    for rows in dealt:
        counts += np.bincount(places(rows), minlength=size)
    found = np.flatnonzero(counts)
    yield numbers(place=found, number=counts[found])


def _pick(pick: Callable[[Rows], Picked], dealt: Iterator[Rows]) -> Iterator[Any]:
    """Yield what is picked."""
    for bucket, words in map(pick, dealt):
        yield numbers(bucket=bucket, word=words.view(np.int64))
