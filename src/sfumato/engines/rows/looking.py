"""What is seen of columns that would be published as they are: counts of values, for `looks` to judge.

Contents are looked at in a sample of the first rows. A column that is nearly unique among the first rows is counted
whole: a sample of rows has, for its size, at least as many different values as all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.base import BATCH_ROWS, Source
from sfumato.engines.embedded.duck import not_nan, plain_kind, run, salt
from sfumato.engines.rows.encoding import fitted, new_encoder
from sfumato.values.arrow import from_numpy, is_text
from sfumato.values.attributes import Attribute
from sfumato.values.looks import PATTERNS, Seen, is_id, words

FIRST_ROWS = BATCH_ROWS
"""Rows from the beginning of the table that are looked at: what the engine reads at a time."""
SAMPLE = 20_000
"""Of these, so many in which contents are looked at."""
DOUBT = 0.4
"""Different values among the sampled ones, as a share, from which all of the first rows are counted."""
DAYS = ("day", "first of a month")


def see(source: Source, attributes: Sequence[Attribute]) -> list[Seen]:
    """Return what is seen of columns of a table."""
    if not attributes:
        return []
    first, whole = _first_rows(source, [a.name for a in attributes])
    found = [seen_in(first, a) for a in attributes]
    return [seen if whole or not seen.nearly_unique or seen.is_coarse else _counted(source, seen) for seen in found]


def seen_in(first: Any, attribute: Attribute) -> Seen:
    """Return what is seen of a column among the first rows of a table."""
    column = first.column(attribute.name)
    places = np.linspace(0, max(0, len(column) - 1), min(len(column), SAMPLE)).astype(np.int64)
    sample = column.take(from_numpy(places))
    if attribute.recoding is not None:
        return _coarse(attribute, sample)
    values = _valid(sample)
    tallied = pc.value_counts(values)
    different = tallied.field(0)
    seen = Seen(
        attribute.name,
        len(values),
        len(different),
        is_text(values.type),
        looked=len(values),
        counts=_counts(different, tallied.field(1)),
    )
    if seen.distinct >= DOUBT * seen.present or is_id(words(attribute.name)) or seen.share("day"):
        values = _valid(column)
        return replace(seen, present=len(values), distinct=len(pc.unique(values)))
    return seen


def _coarse(attribute: Attribute, sample: Any) -> Seen:
    """Return how many different values are published, of a column with bins or merged values."""
    attribute = fitted(attribute, sample.type)
    codes = new_encoder(attribute).encode(_joined(sample), 0)
    published = codes[codes >= 0]
    return Seen(attribute.name, published.size, np.unique(published).size, is_coarse=True)


def _first_rows(source: Source, names: Sequence[str]) -> tuple[Any, bool]:
    """Return the first rows, and whether these are all."""
    batches: list[Any] = []
    rows = 0
    for batch in source.batches(names):
        if rows >= FIRST_ROWS:
            return _table(batches), False
        batches.append(batch.rows)
        rows += batch.rows.num_rows
    if not batches:
        kinds = [(name, source.column_type(name)) for name in names]
        return pa.schema(kinds).empty_table(), True
    return _table(batches), True


def _table(batches: Sequence[Any]) -> Any:
    return pa.Table.from_batches(batches).unify_dictionaries()


def _joined(column: Any) -> Any:
    joined = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined


def _valid(column: Any) -> Any:
    """Return the values that are not missing, in their plain type."""
    values = _joined(column)
    kind = plain_kind(values.type)
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    values = values.drop_null().cast(pa.string() if is_text(kind) else kind)
    return values.filter(pc.invert(pc.is_nan(values))) if pa.types.is_floating(kind) else values


def _counts(different: Any, times: Any) -> dict[str, int]:
    """Return how many values look like something."""
    kind = different.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _days(different, times)
    if not (is_text(kind) or pa.types.is_integer(kind)):
        return {}
    patterns = tuple(PATTERNS) if is_text(kind) else DAYS
    different = different.cast(pa.string())
    return {name: _sum(pc.match_substring_regex(different, PATTERNS[name]), times) for name in patterns}


def _days(different: Any, times: Any) -> dict[str, int]:
    if pa.types.is_timestamp(different.type):
        begins = pc.equal(pc.floor_temporal(different, unit="day"), different)
    else:
        begins = pc.is_valid(different)
    first = pc.and_(pc.equal(pc.day(different), 1), begins)
    return {"day": _sum(pc.is_valid(different), times), "first of a month": _sum(first, times)}


def _sum(which: Any, times: Any) -> int:
    return pc.sum(times.filter(which)).as_py() or 0  # in Arrow: its way to numpy imports pandas, which takes a second


def _counted(source: Source, seen: Seen) -> Seen:
    """Count the whole column."""
    kind = source.column_type(seen.name)
    counts = f"SELECT count(v), count(DISTINCT hash({salt()}, v)) FROM"
    values = f"(SELECT {not_nan('c0', plain_kind(kind))} AS v FROM rows) WHERE v IS NOT NULL"
    present, distinct = run(f"{counts} {values}", (batch.rows for batch in source.batches([seen.name])), [kind])[0]
    return replace(seen, present=present, distinct=distinct)
