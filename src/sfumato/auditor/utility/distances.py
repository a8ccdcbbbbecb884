"""How near estimated tables come to the true one: distances of distributions, errors of counts.

Tables are counts with one axis for each column. An estimate may have negative cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.values.arrays import FloatArray


@dataclass(frozen=True)
class Distances:
    """Distances between the true distribution and the estimated one; see `distances`."""

    kl: float
    chi_square: float
    l1: float
    l2: float
    total_variation: float
    floor: float  # the least share of an estimated cell, for kl and chi_square
    floored: int  # estimated cells that were raised to it


def distances(truth: FloatArray, estimate: FloatArray, floor: float | None = None) -> Distances:
    """Return the distances between two tables of counts, pi the shares of the truth and h those of the estimate.

        l1 = sum |pi - h|        l2 = sqrt(sum (pi - h)^2)        total_variation = l1 / 2
        kl = sum pi ln(pi / g)   chi_square = sum (pi - g)^2 / g                                       AD section V

    These two divide by the estimate, which may be zero or negative: g is h with every cell below `floor` set to it,
    scaled back to sum 1. The floor is a share, by default that of half a record. Cells with pi = 0 add nothing to kl.

    AD defines d(P, Q) with sum p ln(p/q) and sum (p - q)^2 / p, and does not say which of the two is the truth. Where
    a true cell is empty, kl is finite only with P = pi, and chi-square only with P = the estimate: as they are here.

    >>> distances(np.array([3.0, 1.0]), np.array([2.0, 2.0])).total_variation
    0.25
    """
    _check_shapes(truth, estimate)
    pi, h = _shares(truth, "true"), _shares(estimate, "estimated")
    floor = 0.5 / float(truth.sum()) if floor is None else floor
    if not 0 < floor < 1:
        raise UsageError(f"The floor is a share between 0 and 1, not {floor:g}.", "1% is 0.01.")
    g = np.maximum(h, floor)
    g /= g.sum()
    has = pi > 0
    l1 = float(np.abs(pi - h).sum())
    return Distances(
        kl=float((pi[has] * np.log(pi[has] / g[has])).sum()),
        chi_square=float(((pi - g) ** 2 / g).sum()),
        l1=l1,
        l2=float(np.sqrt(((pi - h) ** 2).sum())),
        total_variation=l1 / 2,
        floor=floor,
        floored=int((h < floor).sum()),
    )


def _check_shapes(truth: FloatArray, estimate: FloatArray) -> None:
    if truth.shape != estimate.shape:
        raise ValueError(f"estimates of shape {estimate.shape} for true counts of shape {truth.shape}")


def _shares(table: FloatArray, name: str) -> FloatArray:
    total = table.sum()
    if not (np.isfinite(total) and total > 0):
        raise UsageError(
            f"The {name} counts sum to {total:g}: they have no shares.",
            "Give counts of which at least one is positive.",
        )
    return np.asarray(table / total, dtype=np.float64)


@dataclass(frozen=True)
class RelativeErrors:
    """Errors |true - estimated| / true of the cells that have records; empty cells apart, where that is not defined."""

    mean: float  # NaN without such a cell
    median: float
    cells: int
    zero_cells: int
    zero_mean_error: float  # mean |estimated| of the empty cells; NaN if there are none


def relative_errors(truth: FloatArray, estimate: FloatArray) -> RelativeErrors:
    """Return the errors of all cells of the joint table: AD's base group-by query (section V.B.2)."""
    _check_shapes(truth, estimate)
    has, error = truth > 0, np.abs(truth - estimate)
    relative, of_zeros = error[has] / truth[has], error[~has]
    return RelativeErrors(
        mean=float(relative.mean()) if relative.size else np.nan,
        median=float(np.median(relative)) if relative.size else np.nan,
        cells=relative.size,
        zero_cells=of_zeros.size,
        zero_mean_error=float(of_zeros.mean()) if of_zeros.size else np.nan,
    )


@dataclass(frozen=True)
class CubeErrors:
    """Errors of the cells of all margins: of all together, and of the margins by k columns in `by_columns[k]`."""

    pooled: RelativeErrors
    by_columns: tuple[RelativeErrors, ...]  # from the grand total to the joint table


def cube_errors(truth: FloatArray, estimate: FloatArray) -> CubeErrors:
    """Return the errors of all 2^k margins of a table with k axes: AD's cube query (section V.B.2).

    A margin of the estimates is the sum of estimates. Every cell of every margin counts the same.
    """
    _check_shapes(truth, estimate)
    true_cube, estimated_cube = _cube(truth), _cube(estimate)
    columns = np.zeros((), dtype=np.int64)  # the number of columns by which a cell of the cube is grouped
    for size in truth.shape:
        columns = np.add.outer(columns, np.arange(size + 1) < size)
    return CubeErrors(
        relative_errors(true_cube, estimated_cube),
        tuple(relative_errors(true_cube[columns == k], estimated_cube[columns == k]) for k in range(truth.ndim + 1)),
    )


def _cube(table: FloatArray) -> FloatArray:
    """Return the table with its sum over each axis appended to that axis: all margins in one array."""
    for axis in range(table.ndim):
        table = np.concatenate([table, table.sum(axis=axis, keepdims=True)], axis=axis)
    return table


def without_nan(value: Any) -> Any:
    """Return values for JSON, which has no number that is none: null stands for it."""
    if isinstance(value, dict):
        return {name: without_nan(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
