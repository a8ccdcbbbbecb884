"""Between numpy and Arrow without a copy.

(pyarrow's own conversions import pandas where it is installed, which takes longer than to publish a million rows.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def from_numpy(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None = None) -> Any:
    """Return an Arrow array over the numbers; null where `missing`."""
    kind = pa.from_numpy_dtype(values.dtype)
    valid = None
    if missing is not None and missing.any():
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    if values.dtype == np.bool_:
        content = pa.py_buffer(np.packbits(values, bitorder="little"))
    else:
        content = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, values.size, [valid, content])


def from_text(values: Sequence[str]) -> Any:
    """Return an Arrow array of texts."""
    encoded = [value.encode() for value in values]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int32)
    np.cumsum([len(value) for value in encoded], out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def with_nulls(texts: Any, missing: npt.NDArray[np.bool_]) -> Any:
    """Return an array of texts with null where `missing` (their bytes stay, for a writer to leave out)."""
    if not missing.any():
        return texts
    valid = np.packbits(np.concatenate([np.zeros(texts.offset, dtype=np.bool_), ~missing]), bitorder="little")
    buffers = [pa.py_buffer(valid), *texts.buffers()[1:]]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers, offset=texts.offset)


def codes_of(column: Any, null: int) -> npt.NDArray[Any]:
    """Return the codes of a dictionary column, `null` under nulls (what lies there is undefined)."""
    indices = column.indices
    if not indices.null_count:
        return as_numpy(indices)
    if null > np.iinfo(indices.type.to_pandas_dtype()).max:  # a full dictionary: there is no room for one more code
        indices = indices.cast(pa.int64())
    return as_numpy(indices.fill_null(null))


def as_numpy(numbers: Any) -> npt.NDArray[Any]:
    """Return an array of fixed-width numbers as numpy sees it; what lies under nulls is undefined."""
    content = np.frombuffer(numbers.buffers()[1], dtype=numbers.type.to_pandas_dtype())
    return content[numbers.offset : numbers.offset + len(numbers)]


def nulls_of(column: Any) -> npt.NDArray[np.bool_] | None:
    """Return where a column is null; None for nowhere."""
    if not column.null_count:
        return None
    if pa.types.is_null(column.type):  # which keeps no bits
        return np.ones(len(column), dtype=np.bool_)
    bits = np.frombuffer(column.buffers()[0], dtype=np.uint8)
    valid = np.unpackbits(bits, bitorder="little", count=column.offset + len(column))[column.offset :]
    return np.equal(valid, 0)


def nan_as_null(column: Any) -> Any:
    """Return a column in which NaN is missing."""
    if pa.types.is_dictionary(column.type) and pa.types.is_floating(column.type.value_type):
        column = column.cast(column.type.value_type)
    return pc.if_else(pc.is_nan(column), None, column) if pa.types.is_floating(column.type) else column


def first_null(column: Any) -> int:
    """Return the first row that is null; there must be one."""
    nulls = nulls_of(column)
    assert nulls is not None
    return int(np.argmax(nulls))


def take(column: Any, order: Any) -> Any:
    """Return the rows in this order; the order is known to be in range."""
    return pc.take(column, order, boundscheck=False)


def is_text(kind: Any) -> bool:
    """Whether values of this type are text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
