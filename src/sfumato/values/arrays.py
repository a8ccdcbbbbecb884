"""What arrays hold, by name; and the few other names that everybody uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
CodeArray = npt.NDArray[np.int32]
"""Codes of values of a domain."""
BoolArray = npt.NDArray[np.bool_]
WordArray = npt.NDArray[np.uint64]
"""Random words, or eight bytes of a file."""

Progress = Callable[[int], None]
"""Is told how many rows were read since the last time."""
Assurance = Literal["proved", "as-published"]
"""Whether a theorem is the proved one, or the paper's own."""


def array_of(numbers: Any, kind: npt.DTypeLike, axes: int = 1) -> npt.NDArray[Any]:
    """Return the array of a list in a file, which can hold anything at all: lists in lists have axes of their own."""
    array = np.array(numbers, dtype=kind)
    if array.ndim != axes:
        raise ValueError(f"numbers in {array.ndim} levels of lists, where {axes} are due")
    return array
