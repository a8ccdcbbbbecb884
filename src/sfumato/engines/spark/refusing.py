"""What is wrong with a column, said as on one machine: which values, in how many rows, and the first of them.

A worker that meets a value that is not allowed raises `Refused`, with the column's name and nothing else. The driver
then has the whole column looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from sfumato.engines.rows.encoding import Encoder, Refusal
from sfumato.engines.rows.identity import missing_identifier
from sfumato.engines.rows.mapping import changed_table, checking_encoder, missing_values
from sfumato.engines.rows.recoding import Unfit
from sfumato.engines.spark.running import collected, mapped
from sfumato.engines.spark.source import SparkSource
from sfumato.engines.spark.tasks import Addressed, AnyBatch, Refused, TaskSource
from sfumato.values.arrow import first_null
from sfumato.values.attributes import Attribute, Domain, Schema, Value
from sfumato.values.randomness import SecretKey

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
