"""What is wrong with a column of a table on Spark, said as on one machine; and which row of a person is drawn.

A worker that meets a value that is not allowed raises `Refused`, with the column's name and nothing else. The driver
then has the whole column looked at: which values, in how many rows, and the first of them. Persons and record keys are
counted and drawn by keyed hashes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.engines.base import Batch
from sfumato.engines.rows.encoding import Encoder, Refusal
from sfumato.engines.rows.mapping import checking_encoder, missing_values
from sfumato.engines.rows.recoding import Unfit
from sfumato.engines.rows.selection import (
    RecordKey,
    changed_table,
    complete_rows,
    dropping,
    key_bytes,
    missing_identifier,
    needed_to_draw,
    person_words,
)
from sfumato.engines.spark.source import SparkSource, quoted
from sfumato.engines.spark.tasks import (
    DRAWN,
    FILE,
    ROW,
    Addressed,
    AnyBatch,
    Refused,
    TaskSource,
    at_once,
    collected,
    mapped,
)
from sfumato.errors import UsageError
from sfumato.values.arrays import WordArray
from sfumato.values.arrow import first_null, from_numpy
from sfumato.values.attributes import Attribute, Domain, Schema, Value
from sfumato.values.randomness import SecretKey, Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NOTHING = json.dumps([None, False])
LINES = "text string, number long, first long"
MOST_TOLD = 1000
"""Values that come to the driver; of the others, how many there are."""


@contextmanager
def explained(source: SparkSource, schema: Schema, parts: Sequence[Domain] = ()) -> Iterator[None]:
    """Turn `Refused` into an error that says what is wrong with the column.

    parts: the domains of the columns that are randomized.
    """
    try:
        yield
    except Refused as refused:
        name, domains = refused.column, {part.name: part for part in parts}
    else:
        return
    attribute = schema[name]
    if name in domains:
        complain(source, Encoder(attribute, domains[name]))
    elif attribute.recoding or attribute.declared:
        complain(source, checking_encoder(attribute, source))
    if lacking := _found(source, name, _Missing())[0].get(None):
        raise missing_values(name, lacking)
    raise changed_table()


@contextmanager
def complete(source: SparkSource, identities: Sequence[str]) -> Iterator[None]:
    """Turn `Refused` into an error that says which row has none, of columns that need a value in every row."""
    try:
        yield
    except Refused as refused:
        name = refused.column
        lacking = _found(source, name, _Missing())[0].get(None) if name in identities else None
        if lacking is None:
            raise
    else:
        return
    raise missing_identifier(name, lacking.first)


def complain(source: SparkSource, encoder: Encoder) -> None:
    """Raise if a column has values that are not allowed: which, how many rows, the first row."""
    look = _Encoded(encoder.attribute, encoder.domain)
    encoder.refused, encoder.untold = _found(source, encoder.attribute.name, look)
    encoder.check()


def _found(source: SparkSource, name: str, look: _Encoded | _Missing) -> tuple[dict[Value, Refusal], tuple[int, int]]:
    """Return what is not allowed, in the order of the table; and how many more values and rows there are."""
    from pyspark.sql import functions as f

    task = _InTable(replace(source.in_task([name]), in_order=True), look)
    lines = mapped(source.addressed([name]), task, LINES)
    added = lines.groupBy("text").agg(f.sum("number").alias("number"), f.min("first").alias("first"))
    missing_first = f.when(f.col("text") == NOTHING, 0).otherwise(1)
    told = collected(added.orderBy(missing_first, "first", "text").limit(MOST_TOLD)).to_pylist()
    found: dict[Value, Refusal] = {}
    for line in told:
        value, is_odd = json.loads(line["text"])
        found[Unfit(value) if is_odd else value] = Refusal(line["number"], line["first"])
    if len(told) < MOST_TOLD:
        return found, (0, 0)
    values, rows = (column[0].as_py() for column in collected(added.agg(f.count("*"), f.sum("number"))).columns)
    return found, (values - len(told), rows - sum(line["number"] for line in told))


# --- in a partition -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Encoded:
    """What an encoder refuses."""

    attribute: Attribute
    domain: Domain | None

    def __call__(self, column: Any) -> dict[Value, Refusal]:
        encoder = Encoder(self.attribute, self.domain)
        encoder.encode(column, 0)
        return encoder.refused


@dataclass(frozen=True)
class _Missing:
    """Missing values."""

    def __call__(self, column: Any) -> dict[Value, Refusal]:
        return {None: Refusal(column.null_count, first_null(column) + 1)} if column.null_count else {}


@dataclass(frozen=True)
class _InTable:
    """What is not allowed in the batches of a partition, with row numbers of the whole table."""

    source: TaskSource
    look: _Encoded | _Missing

    def __call__(self, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
        for batch in self.source.of(given).batches(self.source.names):
            refused = self.look(batch.rows.column(0))
            texts = [_text(value) for value in refused]
            numbers = [refusal.rows for refusal in refused.values()]
            first = [_row_number(batch, refusal.first) for refusal in refused.values()]
            columns = [pa.array(texts, pa.string()), pa.array(numbers, pa.int64()), pa.array(first, pa.int64())]
            yield pa.RecordBatch.from_arrays(columns, names=["text", "number", "first"])


def _text(value: Value) -> str:
    return json.dumps([value, isinstance(value, Unfit)])


def _row_number(batch: AnyBatch, row: int) -> int:
    """Return the number in the table, from 1, of a row of a batch; 0 where rows have none."""
    return int(batch.positions[row - 1]) + 1 if isinstance(batch, Addressed) else 0


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
