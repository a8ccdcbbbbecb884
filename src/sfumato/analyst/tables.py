"""Joint tables: estimated counts of every combination of columns, as an array with one axis for each column.

Published rows are summed to the columns that are asked for before anything is corrected, and negative counts are only
removed at the end, if at all (`projected`, `em`): clipping a larger table first would destroy the associations in it
(docs/methods/proofs/randomized-response.md, "Estimates"). Corrections are products with a matrix of the form
diagonal + rank one, never with a dense one, so that tables of 10^7 cells fit in memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.analyst.answer import Answer, Estimator, Key, Target, check_target
from sfumato.analyst.ask.conditions import not_too_deep
from sfumato.analyst.count import Counted
from sfumato.analyst.counting.counts import CountedRelease
from sfumato.analyst.counting.tally import COUNT, MOST_CELLS
from sfumato.errors import UsageError
from sfumato.show.results import Drawn, shape_of
from sfumato.values.arrays import FloatArray, IntArray

LEVEL = 0.95  # of intervals, unless another is asked for
MOST_COVARIANCES = 4_000
"""Cells of a table whose full covariance is computed: 128 MB."""


@dataclass(frozen=True)
class Axis:
    """A column of a table, and the values along it: of an untouched one those that occur."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class JointTable(Drawn):
    """Estimated counts of all combinations of some columns; arrays have one axis for each, in the order asked."""

    axes: tuple[Axis, ...]
    value: FloatArray
    standard_error: FloatArray  # NaN where none can be given
    unbiased: FloatArray  # centre of the intervals
    published: FloatArray  # what counting the published rows would give; of groups, the classical estimate
    rows: FloatArray  # published rows of the group of untouched values that a cell belongs to
    method: Estimator
    target: Target
    level: float
    notes: tuple[str, ...]
    _counted: Counted

    def interval(self, level: float | None = None) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper ends of the confidence intervals."""
        lower, upper = (end.reshape(self.value.shape) for end in self.to_answer().interval(level))
        return lower, upper

    def covariance(self, target: Target | None = None, *, floored: bool = True) -> FloatArray:
        """Return the covariance of the unbiased estimates, [cells, cells], in the order of `value.ravel()`.

        `floored`: values that few rows have count for what is due by chance, as in every standard error.
        """
        check_target(target or self.target, self.level)
        cells = self.value.size
        if cells > MOST_COVARIANCES:
            raise UsageError(
                f"The covariance of {cells:,} cells would have {cells**2:,} entries; {MOST_COVARIANCES:,} cells are "
                "possible.",
                "Ask for fewer columns; `standard_error` has the diagonal of any table.",
            )
        place = _flat_cells(self._counted, self.value.shape)
        covariance = np.zeros((cells, cells))
        covariance[np.ix_(place, place)] = self._counted.figures.joint_covariance(COUNT, target or self.target, floored)
        return covariance

    def to_answer(self) -> Answer:
        """Return the cells as the rows of an answer."""
        codes = np.unravel_index(np.arange(self.value.size), self.value.shape)
        keys = tuple(
            Key(axis.name, axis.values, code.astype(np.int64)) for axis, code in zip(self.axes, codes, strict=True)
        )
        return Answer(
            keys,
            self.value.ravel(),
            self.standard_error.ravel(),
            self.unbiased.ravel(),
            self.rows.ravel(),
            self.method,
            self.target,
            self.level,
            self.notes,
        )

    def to_arrow(self) -> Any:
        """Return the cells as rows of an Arrow table."""
        return self.to_answer().to_arrow()

    def _drawing(self, title: str) -> dict[str, Any]:
        return self.to_answer()._drawing(title)

    def __repr__(self) -> str:
        return f"JointTable({shape_of(self.axes)}, {self.method}, {self.target}, {self.level:.0%})"


@not_too_deep
def table(
    release: CountedRelease,
    columns: str | Sequence[str],
    where: str = "",
    *,
    method: Estimator = "inverse",
    target: Target = "table",
    level: float = LEVEL,
) -> JointTable:
    """Estimate the joint table of some columns, among the records that satisfy `where`: see `Release.table`."""
    counted, axes = _counted(release, columns, where, method, target, level)
    shape = tuple(len(axis.values) for axis in axes)
    numbers, place = counted.estimated(), _flat_cells(counted, shape)

    def array(of_cells: FloatArray) -> FloatArray:
        return _filled(place, of_cells, shape)

    return JointTable(
        axes=axes,
        value=array(numbers.value),
        standard_error=array(numbers.error),
        unbiased=array(numbers.unbiased),
        published=array(counted.figures.published()),
        rows=array(np.repeat(counted.figures.tally.records, counted.cells.size)),
        method=method,
        target=target,
        level=level,
        notes=(*numbers.notes, *(counted.notes() if release.manifest.in_buckets else ())),
        _counted=counted,
    )


@not_too_deep
def unbiased_table(release: CountedRelease, columns: Sequence[str]) -> tuple[tuple[Axis, ...], FloatArray]:
    """Return the axes and values of `table(release, columns)`, and nothing of their errors: much sooner."""
    counted, axes = _counted(release, columns, "", "inverse", "table", LEVEL)
    shape = tuple(len(axis.values) for axis in axes)
    return axes, _filled(_flat_cells(counted, shape), counted.unbiased(), shape)


@dataclass(frozen=True, eq=False)
class Finest:
    """Unbiased counts of the hidden columns in every group of the others that occurs.

    Estimates are sums over published rows, so that those of any fewer columns are sums of these: the rows are counted
    once for all of them.
    """

    groups: tuple[Key, ...]
    hidden: tuple[Axis, ...]
    counts: FloatArray  # [groups, cells]; NaN where the release does not tell one

    @classmethod
    def of(cls, release: CountedRelease, columns: Sequence[str]) -> Finest:
        """Estimate all that occurs of some columns."""
        counted = Counted.of(release, tuple(columns), "", "inverse", "table", LEVEL)
        parts = {part.name: part.values for part in counted.domain.parts}
        hidden = tuple(Axis(name, parts[name]) for name in counted.cells.asked)
        return cls(counted.figures.tally.keys, hidden, counted.unbiased())

    def table(self, columns: Sequence[str]) -> tuple[tuple[Axis, ...], FloatArray]:
        """Return what `unbiased_table` does, for some of its columns with all hidden ones."""
        keys = [key for key in self.groups if key.name in columns]
        axes = (*(Axis(key.name, key.values) for key in keys), *self.hidden)
        shape, cells = [len(axis.values) for axis in axes], self.counts.shape[1]
        place = np.zeros(len(self.counts), dtype=np.int64)
        for key in keys:
            place = place * len(key.values) + key.codes
        flat = (place[:, None] * cells + np.arange(cells)).ravel()
        counts = np.bincount(flat, self.counts.ravel(), math.prod(shape)).astype(np.float64, copy=False).reshape(shape)
        order = [[axis.name for axis in axes].index(name) for name in columns]
        return tuple(axes[k] for k in order), counts.transpose(order)


def _counted(
    release: CountedRelease, columns: str | Sequence[str], where: str, method: Estimator, target: Target, level: float
) -> tuple[Counted, tuple[Axis, ...]]:
    """Count the published rows by some columns, and return with it the axes of their table."""
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not names:
        raise UsageError(
            "A table needs at least one column.", 'Name columns, e.g. release.table(["sex", "diagnosis"]).'
        )
    counted = Counted.of(release, names, where, method, target, level)
    untouched = {key.name: key.values for key in counted.figures.tally.keys}
    values = {part.name: part.values for part in counted.domain.parts} | untouched
    axes = tuple(Axis(name, values[name]) for name in names)
    cells = math.prod(len(axis.values) for axis in axes)
    if cells > MOST_CELLS:
        raise UsageError(
            f"The table has {cells:,} cells; {MOST_CELLS:,} are possible.",
            "Ask for fewer columns, or for the groups that occur (release.count).",
        )
    return counted, axes


def _filled(place: IntArray, of_cells: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Return the table; combinations that no published row has are 0 without error."""
    flat = np.zeros(math.prod(shape))
    flat[place] = of_cells.ravel()
    return flat.reshape(shape)


def _flat_cells(counted: Counted, shape: tuple[int, ...]) -> IntArray:
    """Return the place in a table's `value.ravel()` of every group's cells, group by group."""
    return np.ravel_multi_index([key.codes for key in counted.columns()], shape).astype(np.int64)
