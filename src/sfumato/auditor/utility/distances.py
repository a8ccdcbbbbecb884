"""How near estimated tables come to the true one: distances of distributions, errors of counts.

Tables are counts with one axis for each column. An estimate may have negative cells. `nearness` compares a release with
the table that was published: for publishers, who hold both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sfumato.analyst.answer import Estimator
from sfumato.analyst.release import Release
from sfumato.analyst.tables import JointTable, table
from sfumato.auditor.utility.truth import count_truth
from sfumato.errors import UsageError
from sfumato.show.words import share
from sfumato.values.arrays import BoolArray, FloatArray

WORDS = {
    "kl": "Kullback-Leibler, nats",
    "chi_square": "chi-square",
    "l1": "L1",
    "l2": "L2",
    "total_variation": "total variation",
}


@dataclass(frozen=True)
class Distances:
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


def _shares(counts: FloatArray, name: str) -> FloatArray:
    total = counts.sum()
    if not (np.isfinite(total) and total > 0):
        raise UsageError(
            f"The {name} counts sum to {total:g}: they have no shares.",
            "Give counts with at least one above 0.",
        )
    return np.asarray(counts / total, dtype=np.float64)


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


def _cube(cells: FloatArray) -> FloatArray:
    """Return the table with its sum over each axis appended to that axis: all margins in one array."""
    for axis in range(cells.ndim):
        cells = np.concatenate([cells, cells.sum(axis=axis, keepdims=True)], axis=axis)
    return cells


def without_nan(value: Any) -> Any:
    """Return values for JSON, which has no number that is none: null stands for it."""
    if isinstance(value, dict):
        return {name: without_nan(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- a release and its table ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Nearness:
    """Distances and errors of a joint table of some columns: AD section V."""

    columns: tuple[str, ...]
    method: Estimator
    cells: int
    distances: Distances
    naive: Distances  # of the published counts, not corrected
    base: RelativeErrors  # of the joint table's cells
    cube: CubeErrors  # of the cells of all its margins
    level: float
    covered: float  # share of the cells with an error bar whose interval holds the true count; NaN without one
    surplus: int  # true rows that were not published
    outside: int  # ... of which so many are on no axis

    def to_dict(self) -> dict[str, Any]:
        """Return all figures with stable keys (docs/reference/json.md); null for what does not exist."""
        found: dict[str, Any] = without_nan(asdict(self))
        return found

    def explain(self) -> str:
        d, naive = asdict(self.distances), asdict(self.naive)
        lines = [f"Joint table of {', '.join(self.columns)}: {self.cells:,} cells, estimated by {self.method}."]
        lines += [f"  {word}: {d[name]:.4g} (uncorrected {naive[name]:.4g})" for name, word in WORDS.items()]
        lines.append(
            f"  Kullback-Leibler and chi-square with {d['floored']:,} cell(s) raised to the floor, a share of "
            f"{d['floor']:.3g}."
        )
        lines += [_errors("every cell", self.base), _errors("every cell of the cube", self.cube.pooled)]
        lines += [
            _errors(f"margins by {k} column(s)", errors) for k, errors in enumerate(self.cube.by_columns[:-1]) if k
        ]
        if not np.isnan(self.covered):
            lines.append(f"  {self.level:.0%} intervals hold the true count in {share(self.covered)} of the cells.")
        if self.surplus:
            apart = f" ({self.outside:,} of them have a value of no cell)" if self.outside else ""
            lines.append(
                f"  {self.surplus:,} row(s) of the table were not published{apart}: estimates are of the published "
                "ones, and true counts of all."
            )
        return "\n".join(lines)


def nearness(
    release: Release, truth: Any, columns: Sequence[str], *, method: Estimator = "inverse", level: float = 0.95
) -> Nearness:
    """Compare the estimated joint table of some columns with the true one.

    `truth` is the table that was published: a path, or an object that speaks Arrow. Empty and negative cells have a
    floor in the distances that divide (`distances`).
    """
    estimated = table(release, columns, method=method, level=level)
    true = count_truth(release, truth, columns, [axis.values for axis in estimated.axes])
    return Nearness(
        columns=tuple(columns),
        method=method,
        cells=estimated.value.size,
        distances=distances(true.counts, estimated.value),
        naive=distances(true.counts, estimated.published),
        base=relative_errors(true.counts, estimated.value),
        cube=cube_errors(true.counts, estimated.value),
        level=level,
        covered=covered(estimated, true.counts),
        surplus=true.surplus,
        outside=true.outside,
    )


def _errors(what: str, errors: RelativeErrors) -> str:
    apart = (
        f"; {errors.zero_cells:,} truly empty cell(s) apart, estimated {errors.zero_mean_error:,.1f} off on average"
        if errors.zero_cells
        else ""
    )
    return (
        f"  relative error, {what}: mean {share(errors.mean)}, median {share(errors.median)} "
        f"of {errors.cells:,} cell(s){apart}"
    )


def covered(estimated: JointTable, true: FloatArray) -> float:
    """Return the share of the cells with an error bar whose interval holds the true count; NaN without one."""
    noisy = estimated.standard_error > 0
    return float(held(estimated, true)[noisy].mean()) if noisy.any() else np.nan


def held(estimated: JointTable, true: FloatArray) -> BoolArray:
    lower, upper = estimated.interval()
    return np.asarray((lower <= true) & (true <= upper))
