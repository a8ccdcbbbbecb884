"""Which rows are published: those without a missing value that drops them, and of a person perhaps one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.base import Batch, Source
from sfumato.engines.rows.by_record import RecordKey
from sfumato.engines.rows.identity import IdentityIndex, key_bytes
from sfumato.values.arrays import BoolArray, WordArray
from sfumato.values.arrow import nulls_of
from sfumato.values.attributes import Attribute, Schema
from sfumato.values.randomness import SecretKey, Step


def dropping(schema: Schema) -> list[Attribute]:
    """Return the published attributes whose missing values leave a row out."""
    return [a for a in schema.attributes if a.missing == "drop" and a.is_published]


def complete_columns(schema: Schema) -> frozenset[str]:
    """Return the published columns of which no published row misses a value: by the policy, whatever the table has."""
    return frozenset(a.name for a in schema.attributes if a.is_published and a.missing != "category")


def complete_rows(rows: Any, attributes: list[Attribute]) -> BoolArray | None:
    """Return the rows in which none of these attributes is missing; None for all."""
    gaps = [gap for a in attributes if (gap := _gaps(rows.column(a.name), a)) is not None]
    return ~np.logical_or.reduce(gaps) if gaps else None


def _gaps(column: Any, attribute: Attribute) -> BoolArray | None:
    # where numbers are binned, NaN is missing too: the encoder says so
    if attribute.recoding is not None and pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    return nulls_of(column)


def needed_to_draw(schema: Schema, name: str, record_key: RecordKey | None) -> list[str]:
    """Return the columns by which one row of each person is drawn."""
    own = [record_key.column] if record_key else []
    return list(dict.fromkeys([name, *own, *(a.name for a in dropping(schema))]))


def person_words(
    batch: Batch, persons: list[bytes], key: SecretKey, record_key: RecordKey | None, position: int
) -> WordArray:
    """Return a word for each row: by its record key, so that rows that come or go move no other; else by its place."""
    if record_key is None:
        return batch.words(key, Step.PERSON)
    return record_key.person_words(key, persons, batch.rows, position)


def draw_persons(
    source: Source, schema: Schema, name: str, key: SecretKey, record_key: RecordKey | None = None
) -> BoolArray:
    """Return, for each row, whether it is the one that is drawn of its person, among the person's complete rows."""
    attributes = dropping(schema)
    with IdentityIndex() as index:
        for batch in source.batches(needed_to_draw(schema, name, record_key)):
            persons = key_bytes(batch.rows.column(name), name, index.rows)
            words = person_words(batch, persons, key, record_key, index.rows)
            index.add(key.keyed_words(Step.HASH, persons), words, complete_rows(batch.rows, attributes))
        return index.drawn()
