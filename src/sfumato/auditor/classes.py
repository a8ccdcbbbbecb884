"""Values and ranges of a column as classes, the same ones for the table's records and the release's rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pyarrow as pa

from sfumato.auditor.evidence import UNMATCHED, Evidence
from sfumato.release.verify.order import RANGES, Classes, classes_of
from sfumato.values.arrays import CodeArray, IntArray
from sfumato.values.attributes import MISSING_LABEL


def other_columns(evidence: Evidence) -> list[str]:
    """Return the columns of the table that are published and not sensitive."""
    shown = {column.name for column in evidence.manifest.columns}
    held = {attribute.name for attribute in evidence.table.schema.attributes}
    return [name for name in evidence.release.column_names if name in shown & held and name not in evidence.sensitive]


def classes_of_records(evidence: Evidence, name: str) -> Iterator[Classes]:
    """Yield the classes of the table's records by a column."""
    yield from classes_of(name, _column(evidence, name, evidence.in_table(name)))


def classes_of_both(evidence: Evidence, name: str, ranges: int = RANGES) -> Iterator[tuple[Classes, Classes]]:
    """Yield the classes of the records and of the rows by a column that is published as it is."""
    own, shown = evidence.in_table(name), evidence.in_release(name)
    for both in classes_of(name, _column(evidence, name, np.concatenate([own, shown])), ranges):
        yield Classes(both.codes[: own.size], both.names), Classes(both.codes[own.size :], both.names)


def classes_by_place(evidence: Evidence, ranges: int = RANGES) -> tuple[Classes, Classes]:
    """Return stretches of the table as classes: of all records, and of the rows whose record is known."""
    place = np.arange(evidence.rows) * ranges // max(1, evidence.rows)
    names = [f"records of part {k + 1} of {ranges} of the table" for k in range(ranges)]
    return Classes(place, names), Classes(codes_of_rows(evidence, place), names)


def codes_of_rows(evidence: Evidence, of_records: CodeArray | IntArray) -> IntArray:
    """Return a code of each row, that of its record; -1 where it is not known whose row it is."""
    codes = np.full(evidence.manifest.data.rows, -1, dtype=np.int64)
    known = np.flatnonzero(evidence.matched != UNMATCHED)
    codes[evidence.matched[known]] = of_records[known]
    return codes


def _column(evidence: Evidence, name: str, codes: CodeArray) -> pa.DictionaryArray:
    """Return codes with their labels, as numbers where all of them are."""
    labels = pa.array([None if text == MISSING_LABEL else text for text in evidence.labels(name)], type=pa.string())
    with suppress(pa.ArrowInvalid):
        labels = labels.cast(pa.float64())
    return pa.DictionaryArray.from_arrays(pa.array(codes, type=pa.int32()), labels)
