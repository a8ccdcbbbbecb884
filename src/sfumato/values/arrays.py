"""What arrays hold, by name."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
CodeArray = npt.NDArray[np.int32]
"""Codes of values of a domain."""
BoolArray = npt.NDArray[np.bool_]
WordArray = npt.NDArray[np.uint64]
"""Random words, or eight bytes of a file."""
