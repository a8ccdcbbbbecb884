"""The map on Spark: the same as on one machine, in the table's order or on to the parts of a shuffle.

A deal to sub-tables is found by counting words by class and leading bits in every partition; Spark adds up. The driver
gets counters, at most 2^22 of them, and the words of the rows in boundary buckets, at most 2^21.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.engines.base import RESERVED, Batch
from sfumato.engines.deal.allocation import Deal, Labels, Picked, Rows, Stream, dealing_stream
from sfumato.engines.deal.buckets import part_of
from sfumato.engines.rows.mapping import WORD, Beside, RowMapper
from sfumato.engines.rows.selection import RecordKey, SensitiveRows, complete_columns, key_bytes
from sfumato.engines.spark.selection import with_drawn
from sfumato.engines.spark.source import SparkSource
from sfumato.engines.spark.tasks import DRAWN, NO_KEY, Addressed, TaskSource, collected, mapped
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
from sfumato.values.arrays import IntArray, WordArray
from sfumato.values.arrow import as_numpy, from_numpy
from sfumato.values.attributes import Schema
from sfumato.values.mechanism import Mechanism
from sfumato.values.randomness import SecretKey, Step, release_id

NUMBER = f"{RESERVED}number"
"""The column with the number of a row in the whole table."""
CHECKS = 1 << 40
"""The stream of words that values are hashed with."""


class FoundDeal(NamedTuple):
    """A deal, and the attempt whose words it is for. (Without the key: see `running.mapped`.)"""

    deal: Deal
    attempt: int


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
    """Maps the rows of a partition. `hashed`: add up a secret hash of the values, for so large a domain."""

    schema: Schema
    source: TaskSource
    mechanisms: tuple[Mechanism, ...]
    record_key: RecordKey | None = None
    deal: FoundDeal | None = None
    hashed: int = 0
    order: Order | None = None

    def __call__(self, given: Iterator[Any], key: SecretKey, tally: Tally) -> Iterator[tuple[Place, Any]]:
        """Yield the published rows of each batch, and where they were."""
        source = self.source.of(given)
        mapper = RowMapper(
            self.schema,
            source,
            self.mechanisms,
            key,
            record_key=self.record_key,
            dealt=self._dealt(key),
            seen=_HashedValues(value_words(key, self.hashed), tally) if self.hashed else None,
            beside=self.order.beside(key) if self.order else None,
        )
        for read, rows in mapper.batches():
            tally.read += read
            yield source.place, rows

    def published_schema(self) -> Any:
        """Return the Arrow schema of what it yields, found by mapping no row."""
        source, dealt = _NoRows(self.source.names, self.source.types, None), self._dealt(NO_KEY)
        mapper = RowMapper(self.schema, source, self.mechanisms, NO_KEY, record_key=self.record_key, dealt=dealt)
        _, rows = next(mapper.batches())
        return rows.schema

    def _dealt(self, key: SecretKey) -> Labels | None:
        return Labels(self.deal.deal, key, self.deal.attempt) if self.deal else None


class _NoRows(TaskSource):
    """A table without a row, for its schema."""

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield one empty batch."""
        nothing, none = [pa.array([], self.column_type(name)) for name in columns], np.zeros(0, dtype=np.int64)
        yield Addressed(pa.RecordBatch.from_arrays(nothing, names=list(columns)), none, none, none)


def value_words(key: SecretKey, values: int) -> WordArray:
    """Return the secret word of each value: the sum over all rows tells whether their values are those planned."""
    return key.words(Step.HASH, CHECKS, 0, values)


def hash_of_counts(key: SecretKey, counts: npt.NDArray[np.int64]) -> int:
    """Return what the secret words of all rows' values add up to, if there are so many of each value."""
    return int(np.vdot(value_words(key, counts.size), counts.astype(np.uint64)))


@dataclass
class _HashedValues:
    """Adds up the secret words of values. Other counts give the same sum with a probability of about 2^-64."""

    words: WordArray
    tally: Tally

    def add(self, codes: npt.NDArray[np.int32]) -> None:
        self.tally.checked += self.words.take(codes).sum(dtype=np.uint64)

    def finish(self) -> None:
        """Leave it to the driver, which has the sums of all partitions."""


# --- on the driver ------------------------------------------------------------------------------------------------


def write_in_order(source: SparkSource, rows: MapRows, key: SecretKey, folder: Path) -> Parts:
    """Write the published rows in the table's order."""
    in_order = replace(rows, source=replace(rows.source, in_order=True))
    return write_parts(
        source.addressed(rows.source.names), in_order, key, folder, "data", complete_columns(rows.schema)
    )


def write_shuffled(
    source: SparkSource, rows: MapRows, number: int, key: SecretKey, folder: Path, person: str | None = None
) -> Parts:
    """Write the published rows, about so many, in random order; `person`: one row of each."""
    order = Order(Step.SHUFFLE, rows.record_key, release_id().encode())
    frame = with_drawn(source, rows.schema, rows.source.names, person, key, rows.record_key)
    if person is not None:
        frame = frame.filter(f"`{DRAWN}`").drop(DRAWN)
    parts = parts_for(number)
    task = _ToParts(replace(rows, order=order), parts)
    schema = [*rows.published_schema(), pa.field(PART, pa.int32()), pa.field(WORD, pa.int64())]
    drawn = mapped(frame, task, spark_schema(pa.schema(schema)), key)
    frame, complete = sorted_in_parts(drawn, parts, [WORD]), complete_columns(rows.schema)
    return write_parts(frame, PartsInOrder(parts), key, folder, "data", complete)


@dataclass(frozen=True)
class _ToParts:
    """Maps rows, and says which part each goes to by the leading bits of its word."""

    rows: MapRows
    parts: int

    def __call__(self, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
        tally, schema = Tally(), None
        for _, batch in self.rows(given, key, tally):
            words = as_numpy(batch.column(WORD))
            part = from_numpy(part_of(words, self.parts).astype(np.int32))
            published = plain(batch.drop_columns([WORD, NUMBER]))
            schema = published.schema
            yield published.append_column(PART, part).append_column(WORD, signed(words))
        if schema is not None:
            yield line_of_sums(schema, self.parts, tally.checked)


def spark_rows(source: SparkSource, schema: Schema, mechanism: Mechanism, key: SecretKey) -> Callable[[int], Stream]:
    """Return, for an attempt, all rows of a table as they are dealt."""
    return lambda attempt: _SparkRows(source, schema, mechanism, key, attempt)


@dataclass(frozen=True)
class _SparkRows:
    """The rows of a table on Spark, with the words of an attempt."""

    source: SparkSource
    schema: Schema
    mechanism: Mechanism
    key: SecretKey
    attempt: int

    def counted(self, places: Callable[[Rows], IntArray], size: int) -> IntArray:
        """Return how many rows have each of the places 0 .. size-1."""
        from pyspark.sql import functions as f

        columns = SensitiveRows(self.schema, self.mechanism.domain).columns
        task = _Count(self.source.in_task(columns), self.schema, self.mechanism, self.attempt, places, size)
        found = mapped(self.source.addressed(columns), task, "place long, number long", self.key)
        added = collected(found.groupBy("place").agg(f.sum("number")))
        counts = np.zeros(size, dtype=np.int64)
        counts[np.asarray(added.column(0).combine_chunks())] = np.asarray(added.column(1).combine_chunks())
        return counts

    def picked(self, pick: Callable[[Rows], Picked]) -> Iterable[Picked]:
        """Return what is picked of all rows."""
        columns = SensitiveRows(self.schema, self.mechanism.domain).columns
        task = _Pick(self.source.in_task(columns), self.schema, self.mechanism, self.attempt, pick)
        found = collected(mapped(self.source.addressed(columns), task, "bucket long, word long", self.key))
        for batch in found.to_batches():
            yield as_numpy(batch.column(0)), as_numpy(batch.column(1)).view(np.uint64)


@dataclass(frozen=True)
class _Dealing:
    """What a partition's rows are dealt by."""

    source: TaskSource
    schema: Schema
    mechanism: Mechanism
    attempt: int

    def rows(self, given: Iterator[Any], key: SecretKey) -> Iterator[Rows]:
        values, source = SensitiveRows(self.schema, self.mechanism.domain), self.source.of(given)
        for batch in source.batches(values.columns):
            yield values.with_words(batch, key, Step.ALLOCATE, dealing_stream(self.attempt))


@dataclass(frozen=True)
class _Count(_Dealing):
    places: Callable[[Rows], IntArray]
    size: int

    def __call__(self, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
        """Yield the places that rows have, and how many."""
        counts = np.zeros(self.size, dtype=np.int64)
        for rows in self.rows(given, key):
            counts += np.bincount(self.places(rows), minlength=self.size)
        found = np.flatnonzero(counts)
        yield pa.RecordBatch.from_arrays([from_numpy(found), from_numpy(counts[found])], names=["place", "number"])


@dataclass(frozen=True)
class _Pick(_Dealing):
    pick: Callable[[Rows], Picked]

    def __call__(self, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
        """Yield what is picked."""
        for rows in self.rows(given, key):
            bucket, words = self.pick(rows)
            columns = [from_numpy(bucket), from_numpy(words.view(np.int64))]
            yield pa.RecordBatch.from_arrays(columns, names=["bucket", "word"])
