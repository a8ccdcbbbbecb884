"""What is wrong with a column of a table on Spark, said as on one machine; and which row of a person is drawn.

A worker that meets a value that is not allowed raises `Refused`, with the column's name and nothing else. The driver
then has the whole column looked at: which values, in how many rows, and the first of them. Persons and record keys are
counted and drawn by keyed hashes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.engines.base import RecordKey, key_bytes, missing_identifier
from sfumato.engines.rows.encoding import (
    Encoder,
    Refusal,
    changed_table,
    complete_rows,
    dropping,
    needed_to_draw,
    person_words,
)
from sfumato.engines.rows.mapping import checking_encoder, missing_values
from sfumato.engines.rows.recoding import Unfit
from sfumato.engines.spark.source import SparkSource, quoted
from sfumato.engines.spark.tasks import (
    DRAWN,
    FILE,
    ROW,
    Addressed,
    Refused,
    TaskSource,
    at_once,
    collected,
    in_arrow,
    mapped,
    numbers,
)
from sfumato.errors import UsageError
from sfumato.values.arrow import as_numpy, first_null, from_numpy, nan_as_null
from sfumato.values.attributes import Attribute, Domain, Schema, Value
from sfumato.values.randomness import SecretKey, Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Look = Callable[[Any], dict[Value, Refusal]]
"""Tells what is not allowed in a column."""
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
    if lacking := _found(source, name, _missing)[0].get(None):
        raise missing_values(name, lacking)
    raise changed_table()


@contextmanager
def complete(source: SparkSource, identities: Sequence[str]) -> Iterator[None]:
    """Turn `Refused` into an error that says which row has none, of columns that need a value in every row."""
    try:
        yield
    except Refused as refused:
        name = refused.column
        lacking = _found(source, name, _nobody)[0].get(None) if name in identities else None
        if lacking is None:
            raise
    else:
        return
    raise missing_identifier(name, lacking.first)


def complain(source: SparkSource, encoder: Encoder) -> None:
    """Raise if a column has values that are not allowed: which, how many rows, the first row."""
    look = partial(_refused, encoder.attribute, encoder.domain)
    encoder.refused, encoder.untold = _found(source, encoder.attribute.name, look)
    encoder.check()


def _found(source: SparkSource, name: str, look: Look) -> tuple[dict[Value, Refusal], tuple[int, int]]:
    """Return what is not allowed, in the order of the table; and how many more values and rows there are."""
    from pyspark.sql import functions as f

    task = partial(_in_table, replace(source.in_task([name]), in_order=True), look)
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


def _refused(attribute: Attribute, domain: Domain | None, column: Any) -> dict[Value, Refusal]:
    """Return what an encoder refuses."""
    encoder = Encoder(attribute, domain)
    encoder.encode(column, 0)
    return encoder.refused


def _missing(column: Any) -> dict[Value, Refusal]:
    """Return the missing values."""
    return {None: Refusal(column.null_count, first_null(column) + 1)} if column.null_count else {}


def _nobody(column: Any) -> dict[Value, Refusal]:
    """Return what identifies nobody: missing values, and NaN."""
    return _missing(nan_as_null(column))


def _in_table(source: TaskSource, look: Look, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
    """Yield what is not allowed in the batches of a partition, with row numbers of the whole table (0: none)."""
    for batch in source.of(given).batches(source.names):
        places = batch.positions if isinstance(batch, Addressed) else np.full(batch.rows.num_rows, -1)
        refused = look(batch.rows.column(0)).items()
        texts = [(json.dumps([value, isinstance(value, Unfit)]), refusal) for value, refusal in refused]
        yield in_arrow(LINES, [(text, of.rows, int(places[of.first - 1]) + 1) for text, of in texts])


# --- persons and record keys ----------------------------------------------------------------------------------------


HASHED = "identity long, file long, row long, word long"
LOWEST = np.uint64(1 << 63)
"""Words less this, as Spark's signed numbers, have the words' order."""


def repeated(source: SparkSource, name: str) -> tuple[int, int]:
    """Return the number of rows, and of different values of a column."""
    from pyspark.sql import functions as f

    task = partial(_hashes, source.in_task([name]), name, (), False, None)
    found = mapped(source.addressed([name]), task, HASHED, SecretKey.fresh())
    with complete(source, [name]):
        counted = collected(found.agg(f.count("*"), f.count_distinct("identity")))
    return counted.column(0)[0].as_py(), counted.column(1)[0].as_py()


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
    task = partial(_hashes, source.in_task(needed), person, dropping(schema), True, record_key)
    found = mapped(source.addressed(needed), task, HASHED, key)
    chosen = found.groupBy("identity").agg(f.min_by(f.struct("file", "row"), "word").alias("drawn"))
    places = chosen.select(f.col("drawn.file").alias(FILE), f.col("drawn.row").alias(ROW), f.lit(True).alias(DRAWN))
    joined = frame.join(places, on=[FILE, ROW], how="left")
    is_drawn = f.coalesce(f.col(DRAWN), f.lit(False)).alias(DRAWN)
    return joined.select(*(f.col(quoted(name)) for name in frame.columns), is_drawn)


def _hashes(
    source: TaskSource,
    person: str,
    drops: Sequence[Attribute],
    is_drawing: bool,
    record_key: RecordKey | None,
    given: Iterator[Any],
    key: SecretKey,
) -> Iterator[Any]:
    """Yield the rows that may be drawn: identifiers as keyed hashes, with address and word where they are to be."""
    for rows in at_once(given):
        batch = source.batch(rows, source.names)
        for name in [person, *([record_key.column] if record_key else [])]:
            if nan_as_null(batch.rows.column(name)).null_count:
                raise Refused(name)
        persons = key_bytes(batch.rows.column(person), person, 0)
        identity = key.keyed_words(Step.HASH, persons)
        word = person_words(batch, persons, key, record_key, 0) - LOWEST if is_drawing else np.zeros_like(identity)
        address = {"file": as_numpy(rows.column(FILE)), "row": as_numpy(rows.column(ROW))}
        made = numbers(identity=identity.view(np.int64), **address, word=word.view(np.int64))
        keep = complete_rows(batch.rows, drops)
        yield made if keep is None else made.filter(from_numpy(keep))
