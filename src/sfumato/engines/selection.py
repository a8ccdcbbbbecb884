"""Which rows are published: those without a missing value that drops them, and of a person perhaps one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.attributes import Attribute, Schema
from sfumato.engines.arrays import nulls_of
from sfumato.engines.base import Source
from sfumato.engines.identity import IdentityIndex, key_bytes
from sfumato.randomness import SecretKey, Step

Mask = npt.NDArray[np.bool_]


def dropping(schema: Schema) -> list[Attribute]:
    """Return the published attributes whose missing values leave a row out."""
    return [a for a in schema.attributes if a.missing == "drop" and a.is_published]


def complete_rows(rows: Any, attributes: list[Attribute]) -> Mask | None:
    """Return the rows in which none of these attributes is missing; None for all."""
    gaps = [gap for a in attributes if (gap := _gaps(rows.column(a.name), a)) is not None]
    return ~np.logical_or.reduce(gaps) if gaps else None


def _gaps(column: Any, attribute: Attribute) -> Mask | None:
    # where numbers are binned, NaN is missing too: the encoder says so
    if attribute.bins is not None and pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    return nulls_of(column)


def draw_persons(source: Source, schema: Schema, name: str, key: SecretKey) -> Mask:
    """Return, for each row, whether it is the one that is drawn of its person, among the person's complete rows."""
    attributes = dropping(schema)
    columns = list(dict.fromkeys([name, *(a.name for a in attributes)]))
    with IdentityIndex() as index:
        for batch in source.batches(columns):
            keys = key_bytes(batch.rows.column(name), name, index.rows)
            words = batch.words(key, Step.PERSON)
            index.add(key.keyed_words(Step.HASH, keys), words, complete_rows(batch.rows, attributes))
        return index.drawn()
