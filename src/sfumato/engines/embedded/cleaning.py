"""What is written holds only what is published.

Dictionaries are cut down to the values that rows really have, in sorted order: Arrow writes unused values too, and the
order in which values were first seen tells the file's order. The schema is made from scratch, without metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.arrow import as_numpy, codes_of, from_numpy, nulls_of


def bare_schema(schema: Any) -> Any:
    """Return names and types, and nothing else."""
    return pa.schema([pa.field(f.name, f.type) for f in schema])


def clean_table(table: Any) -> Any:
    """Return the table (of one chunk) with clean dictionaries and a bare schema."""
    columns = [clean_dictionary(c.chunk(0)) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    return pa.Table.from_arrays(columns, schema=bare_schema(table.schema))


def clean_dictionary(column: Any) -> Any:
    """Return the same values with a dictionary of the values of its valid rows, sorted."""
    dictionary = column.dictionary
    used = _used(column, len(dictionary))
    order = as_numpy(pc.sort_indices(dictionary))
    if used.all() and (order == np.arange(order.size)).all():
        return column
    order = order[used[order]]
    rank = np.zeros(len(dictionary) + 1, dtype=np.int32)
    rank[order] = np.arange(order.size, dtype=np.int32)
    codes = from_numpy(rank.take(codes_of(column, len(dictionary))), nulls_of(column))
    return pa.DictionaryArray.from_arrays(codes, dictionary.take(from_numpy(order)))


def _used(column: Any, size: int) -> npt.NDArray[np.bool_]:
    """Which dictionary values a valid row has. Frequent values show up early: mostly one short round."""
    valid = column.indices.drop_null() if column.null_count else column.indices
    codes = as_numpy(valid)
    used = np.zeros(size, dtype=np.bool_)
    start, step = 0, max(4 * size, 1 << 12)
    while start < codes.size and not used.all():
        used[codes[start : start + step]] = True
        start, step = start + step, 4 * step
    return used


def row_groups(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """Join and cut batches to clean tables of exactly `rows` rows, the last one of what is left.

    Exactly: groups that follow the source's would tell how many rows were left out of each. `rows` 0 lets batches
    pass as they come, for files in which no group is seen.
    """
    pending: list[Any] = []
    count = 0
    for batch in batches:
        pending.append(batch)
        count += batch.num_rows
        del batch
        while rows and count >= rows:
            joined = _joined(pending)
            pending, count = [], count - rows
            if count:
                pending = joined.slice(rows).to_batches()
            yield clean_table(joined.slice(0, rows) if count else joined)
            del joined
        if not rows:
            yield clean_table(_joined(pending))
            pending, count = [], 0
    if pending:
        yield clean_table(_joined(pending))


def _joined(batches: list[Any]) -> Any:
    table = pa.Table.from_batches(batches)
    return table if len(batches) == 1 else table.unify_dictionaries().combine_chunks()
