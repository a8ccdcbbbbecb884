"""Finding a deal on Spark: words are counted by class and leading bits in every partition, and Spark adds up.

The driver gets counters, at most 2^22 of them, and the words of the rows in boundary buckets, at most 2^21.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.engines.deal.allocation import Picked, Rows, Stream
from sfumato.engines.deal.labels import dealing_stream
from sfumato.engines.rows.sensitive import SensitiveRows
from sfumato.engines.spark.running import collected, mapped
from sfumato.engines.spark.source import SparkSource
from sfumato.engines.spark.tasks import TaskSource
from sfumato.values.arrays import IntArray
from sfumato.values.arrow import as_numpy, from_numpy
from sfumato.values.attributes import Schema
from sfumato.values.mechanism import Mechanism
from sfumato.values.randomness import SecretKey, Step


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
