"""The nearest table without negative counts."""

from __future__ import annotations

import numpy as np

from sfumato.values.arrays import FloatArray


def project(values: FloatArray, total: FloatArray | float | None = None) -> FloatArray:
    """Return the Euclidean projection of every row onto {x >= 0, sum(x) = total}; by default the row keeps its sum.

        x_i = max(v_i - theta, 0),    theta = (v_(1) + ... + v_(k) - total)/k,    v_(1) >= v_(2) >= ...

    with k the largest number for which v_(k) > theta (KKT: theta is the multiplier of the sum). A projection onto a
    convex set brings nearer to all of its points, the true table among them: the squared error never grows.

    >>> project(np.array([6.0, 5.0, -1.0])).tolist()
    [5.5, 4.5, 0.0]
    """
    sums = np.broadcast_to(np.asarray(values.sum(axis=-1) if total is None else total), values.shape[:-1])
    if (sums < 0).any():
        raise ValueError("counts that are not negative cannot have a negative sum")
    shifted = values - values.max(axis=-1, keepdims=True)  # theta moves along; small numbers round less
    theta = _threshold(-np.sort(-shifted, axis=-1), sums[..., None])
    projected: FloatArray = np.maximum(shifted - theta, 0)
    return projected


def _threshold(descending: FloatArray, total: FloatArray) -> FloatArray:
    """Return theta for rows in descending order."""
    k = np.arange(1, descending.shape[-1] + 1)
    excess = np.cumsum(descending, axis=-1) - total
    kept = np.maximum((descending * k > excess).sum(axis=-1, keepdims=True), 1)
    theta: FloatArray = np.take_along_axis(excess, kept - 1, axis=-1) / kept
    return theta
