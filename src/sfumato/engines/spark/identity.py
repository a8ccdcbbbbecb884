"""Persons and record keys on Spark: repeated ones are counted, and one row of a person is drawn, by keyed hashes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.engines.base import Batch
from sfumato.engines.rows.by_record import RecordKey
from sfumato.engines.rows.identity import key_bytes
from sfumato.engines.rows.selection import complete_rows, dropping, needed_to_draw, person_words
from sfumato.engines.spark.refusing import complete
from sfumato.engines.spark.running import collected, mapped
from sfumato.engines.spark.source import SparkSource, quoted
from sfumato.engines.spark.tasks import DRAWN, FILE, ROW, Refused, TaskSource, at_once
from sfumato.errors import UsageError
from sfumato.values.arrays import WordArray
from sfumato.values.arrow import from_numpy
from sfumato.values.attributes import Attribute, Schema
from sfumato.values.randomness import SecretKey, Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HASHED = "identity long, file long, row long, word long"
LOWEST = np.uint64(1 << 63)
"""Words less this, as Spark's signed numbers, have the words' order."""


def repeated(source: SparkSource, name: str) -> tuple[int, int]:
    """Return the number of rows, and of different values of a column."""
    from pyspark.sql import functions as f

    hashes = _Hashes(source.in_task([name]), name, (), drawing=False)
    found = mapped(source.addressed([name]), hashes.of, HASHED, SecretKey.fresh())
    counted = found.agg(f.count("*").alias("rows"), f.count_distinct("identity").alias("different"))
    with complete(source, [name]):
        rows, different = collected(counted).to_pylist()[0].values()
    return int(rows), int(different)


def with_drawn(
    source: SparkSource,
    schema: Schema,
    columns: Sequence[str],
    person: str | None,
    key: SecretKey,
    record_key: RecordKey | None = None,
) -> DataFrame:
    """Return some columns with addresses, and with DRAWN where one row of each person is to be drawn.

    The row is the one with the smallest word among the person's complete rows, as on one machine.
    """
    from pyspark.sql import functions as f

    frame = source.addressed(columns)
    if person is None:
        return frame
    if source.why_no_address:
        raise UsageError(
            f"One row of each {person!r} is drawn by where rows are, and the rows of {source.description} have no "
            f"address that stays the same: {source.why_no_address}.",
            "Write the table to Parquet files, and publish these.",
        )
    needed = needed_to_draw(schema, person, record_key)
    hashes = _Hashes(source.in_task(needed), person, dropping(schema), drawing=True, record_key=record_key)
    found = mapped(source.addressed(needed), hashes.of, HASHED, key)
    chosen = found.groupBy("identity").agg(f.min_by(f.struct("file", "row"), "word").alias("drawn"))
    places = chosen.select(f.col("drawn.file").alias(FILE), f.col("drawn.row").alias(ROW), f.lit(True).alias(DRAWN))
    joined = frame.join(places, on=[FILE, ROW], how="left")
    is_drawn = f.coalesce(f.col(DRAWN), f.lit(False)).alias(DRAWN)
    return joined.select(*(f.col(quoted(name)) for name in frame.columns), is_drawn)


@dataclass(frozen=True)
class _Hashes:
    """Gives identifiers as keyed hashes, with address and word where one row of each is to be drawn."""

    source: TaskSource
    name: str
    drops: Sequence[Attribute]
    drawing: bool
    record_key: RecordKey | None = None

    def of(self, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
        """Yield (identity, file, row, word) of the rows of a partition that may be drawn."""
        names = ["identity", "file", "row", "word"]
        for rows in at_once(given):
            batch = self.source.batch(rows, self.source.names)
            for name in [self.name, *([self.record_key.column] if self.record_key else [])]:
                if batch.rows.column(name).null_count:
                    raise Refused(name)
            persons = key_bytes(batch.rows.column(self.name), self.name, 0)
            identity = key.keyed_words(Step.HASH, persons)
            word = self._words(batch, persons, key) - LOWEST if self.drawing else np.zeros_like(identity)
            columns = [from_numpy(identity.view(np.int64)), rows.column(FILE), rows.column(ROW)]
            made = pa.RecordBatch.from_arrays([*columns, from_numpy(word.view(np.int64))], names=names)
            keep = complete_rows(batch.rows, list(self.drops))
            yield made if keep is None else made.filter(from_numpy(keep))

    def _words(self, batch: Batch, persons: list[bytes], key: SecretKey) -> WordArray:
        return person_words(batch, persons, key, self.record_key, 0)
