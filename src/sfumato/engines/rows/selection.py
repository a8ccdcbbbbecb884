"""Which rows are published, and what is known of each: its sensitive value, its person, its record.

Rows with a missing value that drops them are left out, and of a person perhaps all rows but one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.base import Batch, Numbering, RecordKey, by_file
from sfumato.engines.rows.encoding import Encoder
from sfumato.errors import PlanMismatch
from sfumato.values.arrays import BoolArray, CodeArray, WordArray
from sfumato.values.arrow import nulls_of
from sfumato.values.attributes import Attribute, Schema, SensitiveDomain
from sfumato.values.randomness import SecretKey, Step


def dropping(schema: Schema) -> list[Attribute]:
    """Return the published attributes whose missing values leave a row out."""
    return [a for a in schema.attributes if a.missing == "drop" and a.is_published]


def complete_columns(schema: Schema) -> frozenset[str]:
    """Return the published columns of which no published row misses a value: by the policy, whatever the table has."""
    return frozenset(a.name for a in schema.attributes if a.is_published and a.missing != "category")


def complete_rows(rows: Any, attributes: Sequence[Attribute]) -> BoolArray | None:
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


class SensitiveRows:
    """The values of the rows that are published."""

    def __init__(self, schema: Schema, domain: SensitiveDomain) -> None:
        self._domain, self._drops = domain, dropping(schema)
        self._encoders = [Encoder(schema[part.name], part) for part in domain.parts]
        self.columns = list(dict.fromkeys([*domain.names, *(a.name for a in self._drops)]))

    def codes(self, batch: Batch) -> tuple[CodeArray, BoolArray | None]:
        """Return the codes of the rows that are kept, and which these are; None for all."""
        columns = [encoder.encode(batch.rows.column(encoder.attribute.name), 0) for encoder in self._encoders]
        keep = complete_rows(batch.rows, self._drops)
        if keep is not None:
            columns = [column[keep] for column in columns]
        if any(encoder.refused for encoder in self._encoders):
            raise changed_table()
        return self._domain.join(columns), keep

    def with_words(
        self, batch: Batch, key: SecretKey, step: Step, stream: Numbering = by_file
    ) -> tuple[CodeArray, WordArray]:
        """Return value and word of the rows that are kept."""
        codes, keep = self.codes(batch)
        words = batch.words(key, step, stream)
        return codes, words if keep is None else words[keep]


def changed_table() -> PlanMismatch:
    """Return what is raised where a plan depends on the table's counts, and these are others."""
    return PlanMismatch(
        "The table is not the one that was planned: it has other values, or other numbers of them.",
        "Plan again with the table as it is now.",
    )
