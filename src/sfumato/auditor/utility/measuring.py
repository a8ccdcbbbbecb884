"""Measuring what analysts keep: the release's own estimates against the table, in tables and on random counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.analyst.tables import JointTable
from sfumato.auditor.beliefs import compositions
from sfumato.auditor.codes import text_of
from sfumato.auditor.evidence import DoesNotApply, Evidence
from sfumato.auditor.utility.distances import covered, distances, held
from sfumato.auditor.utility.usefulness import (
    AssociationUtility,
    ByColumns,
    QueryUtility,
    TableUtility,
    Utility,
    cramers_v,
    uncertainty,
)
from sfumato.errors import SfumatoError
from sfumato.release.reading import as_written
from sfumato.values.arrays import FloatArray
from sfumato.values.randomness import simulation

LEVEL = 0.95
CONDITIONS = 200
"""Of the pool of queries, each with every sensitive value: SDR Appendix 10.9."""
MOST_COLUMNS = 3
"""Of a condition."""
SELECTIVITY = 0.001
MOST_VALUES = 1_000
"""Of a column that is asked for: of more, none could have the share that counts."""
MOST_TABLES = 24
"""Sets of columns that conditions are drawn from: each is one estimated table."""
MOST_CELLS = 300_000
MOST_ASSOCIATED = 600
"""Cells of a table whose association is estimated: the covariance of all of them is needed."""
MEASURES: dict[str, Callable[[FloatArray], float]] = {"uncertainty": uncertainty, "Cramer": cramers_v}
"""By the beginning of the names that estimates have."""


def measure(evidence: Evidence) -> Utility:
    """Return what the release is still good for."""
    notes: list[str] = []
    names = [name for name in evidence.quasi_identifiers if len(evidence.labels(name)) <= MOST_VALUES]
    sets = [evidence.sensitive, *((name, *evidence.sensitive) for name in names)]
    compared = [found for columns in sets if (found := _compared(evidence, columns, notes)) is not None]
    alone = compared[0] if compared and compared[0].columns == evidence.sensitive else None
    return Utility(
        published_share=evidence.manifest.data.rows / max(1, evidence.rows),
        record_utility=_record_utility(evidence),
        aggregate_utility=None if alone is None else 1 - 2 * alone.distance / alone.true.size,
        tables=tuple(
            TableUtility.of(c.columns, c.true, c.estimated.value, c.estimated.published, covered(c.estimated, c.true))
            for c in compared
        ),
        queries=_queries(evidence, names, notes),
        associations=tuple(_associations(evidence, compared, notes)),
        notes=tuple(dict.fromkeys(notes)),
    )


def _record_utility(evidence: Evidence) -> float | None:
    if evidence.kind == "groups":
        return None
    if evidence.kind == "response":
        own = next((m for m in evidence.manifest.mechanism_values if m.domain.names == evidence.sensitive), None)
        if own is None:
            return 1.0
        return float(
            own.matrix.diagonal
            @ np.bincount(evidence.joined(evidence.in_table, own.domain), minlength=own.domain.size)
            / evidence.rows
        )
    try:
        quotas = evidence.once(compositions).quotas
    except DoesNotApply:
        return None
    kept = sum(float(q @ table.matrix.diagonal) for table, q in zip(evidence.mechanism.tables, quotas, strict=True))
    return kept / max(1, evidence.rows)


# --- estimated tables -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Compared:
    """An estimated joint table and the true one, on the same axes."""

    columns: tuple[str, ...]
    true: FloatArray
    estimated: JointTable

    @property
    def distance(self) -> float:
        """The total variation."""
        return distances(self.true, self.estimated.value).total_variation


def _compared(evidence: Evidence, columns: Sequence[str], notes: list[str]) -> Compared | None:
    """Estimate a table, and count the true one; None, and a note, where that cannot be done."""
    if math.prod(len(evidence.labels(name)) for name in columns) > MOST_CELLS:
        notes.append(f"The table of {', '.join(columns)} has too many cells to be compared.")
        return None
    try:
        estimated = as_written(evidence.release).table(columns, level=LEVEL)
    except SfumatoError as problem:
        notes.append(f"The table of {', '.join(columns)} cannot be estimated: {problem.message}")
        return None
    if not np.isfinite(estimated.value).all():
        notes.append(f"The release does not tell the table of {', '.join(columns)}.")
        return None
    return Compared(tuple(columns), _true(evidence, estimated), estimated)


def _true(evidence: Evidence, estimated: JointTable) -> FloatArray:
    """Count the table on the axes of an estimate; records with a value that is on no axis are left out."""
    shape = estimated.value.shape
    cells, inside = np.zeros(evidence.rows, dtype=np.int64), np.ones(evidence.rows, dtype=np.bool_)
    for axis, size in zip(estimated.axes, shape, strict=True):
        place = {text_of(value): k for k, value in enumerate(axis.values)}
        places = np.array([place.get(text, -1) for text in evidence.labels(axis.name)], dtype=np.int64)
        codes = places.take(evidence.in_table(axis.name))
        cells, inside = cells * size + codes, inside & (codes >= 0)
    return np.bincount(cells[inside], minlength=math.prod(shape)).reshape(shape).astype(np.float64)


# --- random counts ----------------------------------------------------------------------------------------------------


def _queries(evidence: Evidence, names: Sequence[str], notes: list[str]) -> QueryUtility | None:
    """Ask conditions A1 = a1 AND .. AND Ad = ad, d from 1 to 3, each with every sensitive value.

    Columns and values are drawn with equal probability. Conditions on the same columns come from one table.
    """
    if not names:
        return None
    draw = simulation(evidence.seed)
    sets = conditions(draw, names)
    parts = {columns: _asked(evidence, columns, number, draw, notes) for columns, number in sets.items()}
    answers = {columns: part for columns, part in parts.items() if part is not None}
    return _pooled(evidence, answers, sum(sets.values())) if answers else None


def conditions(
    draw: np.random.Generator, names: Sequence[str], fits: Callable[[tuple[str, ...]], bool] = bool
) -> dict[tuple[str, ...], int]:
    """Draw columns of conditions with equal probability, and return how many conditions are on the same ones."""
    sets: dict[tuple[str, ...], int] = {}
    for _ in range(CONDITIONS if names else 0):
        size = int(draw.integers(1, min(MOST_COLUMNS, len(names)) + 1))
        chosen = sorted(draw.choice(len(names), size, replace=False).tolist())
        columns = tuple(names[k] for k in chosen)
        if fits(columns) and (columns in sets or len(sets) < MOST_TABLES):
            sets[columns] = sets.get(columns, 0) + 1
    return sets


def _asked(
    evidence: Evidence, columns: Sequence[str], number: int, draw: np.random.Generator, notes: list[str]
) -> FloatArray | None:
    """Ask some conditions on the same columns with every sensitive value; those that have enough records count.

    Returns the relative errors, those of the published counts, and whether intervals hold the truth: [3, conditions].
    """
    found = _compared(evidence, (*columns, *evidence.sensitive), notes)
    if found is None:
        return None
    estimated, cells = found.estimated, math.prod(found.true.shape[: len(columns)])
    where = draw.integers(0, cells, number)
    true, value, naive, holds = (
        array.reshape(cells, -1)[where].ravel()
        for array in (found.true, estimated.value, estimated.published, held(estimated, found.true))
    )
    enough = true >= SELECTIVITY * evidence.rows
    true, value, naive, holds = true[enough], value[enough], naive[enough], holds[enough]
    return np.stack([np.abs(value - true) / true, np.abs(naive - true) / true, holds])


def _pooled(evidence: Evidence, answers: Mapping[tuple[str, ...], FloatArray], conditions: int) -> QueryUtility:
    error, naive, holds = np.concatenate(list(answers.values()), axis=1)
    sizes = sorted({len(columns) for columns in answers})
    of_size = {k: np.concatenate([part[0] for columns, part in answers.items() if len(columns) == k]) for k in sizes}
    values = math.prod(len(evidence.labels(name)) for name in evidence.sensitive)
    return QueryUtility(
        pool=conditions * values,
        asked=error.size,
        selectivity=SELECTIVITY,
        mean_error=_mean(error),
        median_error=float(np.median(error)) if error.size else math.nan,
        naive_mean_error=_mean(naive),
        naive_median_error=float(np.median(naive)) if naive.size else math.nan,
        covered=_mean(holds),
        by_columns=tuple(ByColumns(k, errors.size, _mean(errors)) for k, errors in of_size.items()),
    )


def _mean(figures: npt.NDArray[np.generic]) -> float:
    return float(figures.mean()) if figures.size else math.nan


# --- associations -----------------------------------------------------------------------------------------------------


def _associations(evidence: Evidence, compared: Sequence[Compared], notes: list[str]) -> Iterator[AssociationUtility]:
    for found in compared:
        if len(found.columns) != 2:
            continue
        first, second = found.columns
        if found.true.size > MOST_ASSOCIATED:
            notes.append(f"The association of {first} and {second} is not estimated: {found.true.size:,} cells.")
            continue
        try:
            after = evidence.release.association(first, second, level=LEVEL)
        except SfumatoError as problem:
            notes.append(f"The association of {first} and {second} cannot be estimated: {problem.message}")
            continue
        for strength in after.measures:
            before = next((of for start, of in MEASURES.items() if strength.name.startswith(start)), None)
            if before is not None:
                figures = strength.estimate, strength.lower, strength.upper, strength.naive
                yield AssociationUtility(first, second, strength.name, before(found.true), *figures)
