"""What a release is still good for: estimates from it, by the analyst's own tools, beside the true table.

record utility       expected share of records that are published with their own value        FG Def. 3
aggregate utility    1 - (1/m) sum |f_i - f'_i| of the estimated shares                         FG Def. 2
tables               distances and errors of estimated joint tables                             AD section V
queries              relative error of counts, on a pool that is drawn at random                SDR Appendix 10.9
associations         uncertainty coefficient and Cramer's V, before and after                   AD Eq. (12)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.analyst.tables import JointTable
from sfumato.auditor.beliefs import compositions
from sfumato.auditor.codes import text_of
from sfumato.auditor.evidence import DoesNotApply, Evidence
from sfumato.auditor.utility.distances import covered, distances, held, relative_errors, without_nan
from sfumato.errors import SfumatoError
from sfumato.release.folder import as_written
from sfumato.show.words import share
from sfumato.values.arrays import FloatArray
from sfumato.values.randomness import simulation
from sfumato.values.text import indented

LEVEL = 0.95
CONDITIONS = 200  # of the pool of queries, each with every sensitive value: SDR Appendix 10.9
MOST_COLUMNS = 3  # of a condition
SELECTIVITY = 0.001
MOST_VALUES = 1_000  # of a column that is asked for: of more, none could have the share that counts
MOST_TABLES = 24  # sets of columns that conditions are drawn from: each is one estimated table
MOST_CELLS = 300_000
MOST_ASSOCIATED = 600  # cells of a table whose association is estimated: the covariance of all of them is needed


@dataclass(frozen=True)
class TableUtility:
    """How near an estimated joint table comes. NaN where there is no figure."""

    columns: tuple[str, ...]
    cells: int
    total_variation: float
    l1: float
    l2: float
    kl: float
    chi_square: float
    mean_error: float  # relative, of the cells that have records
    median_error: float
    naive_total_variation: float  # of the published counts
    covered: float  # share of the 95% intervals that hold the true count

    @classmethod
    def of(
        cls, columns: tuple[str, ...], true: FloatArray, estimated: FloatArray, published: FloatArray, covered: float
    ) -> TableUtility:
        """Measure an estimated table, and the published counts, against the true one."""
        near, errors = asdict(distances(true, estimated)), relative_errors(true, estimated)
        return cls(
            columns=columns,
            cells=true.size,
            **{name: near[name] for name in ("total_variation", "l1", "l2", "kl", "chi_square")},
            mean_error=errors.mean,
            median_error=errors.median,
            naive_total_variation=distances(true, published).total_variation,
            covered=covered,
        )


@dataclass(frozen=True)
class ByColumns:
    """Queries with so many columns besides the sensitive ones."""

    columns: int
    asked: int
    mean_error: float


@dataclass(frozen=True)
class QueryUtility:
    """Relative errors of counts from a random pool: those that are true of a share of the records, at least."""

    pool: int
    asked: int
    selectivity: float
    mean_error: float
    median_error: float
    naive_mean_error: float
    naive_median_error: float
    covered: float
    by_columns: tuple[ByColumns, ...]


@dataclass(frozen=True)
class AssociationUtility:
    """A measure of association in the true table, and as it is estimated from the release."""

    first: str
    second: str
    measure: str
    truth: float
    estimate: float
    lower: float
    upper: float
    naive: float


@dataclass(frozen=True)
class Utility:
    """All of it. None, NaN or empty: what a method has no figure for."""

    published_share: float
    record_utility: float | None = None
    aggregate_utility: float | None = None
    tables: tuple[TableUtility, ...] = ()
    queries: QueryUtility | None = None
    associations: tuple[AssociationUtility, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready values. Keys: docs/reference/json.md."""
        found: dict[str, Any] = without_nan(asdict(self))
        return found

    def explain(self) -> str:
        return "\n".join(["What analysts keep:", *map(indented, self._lines())])

    def _lines(self) -> Iterator[str]:
        yield f"{share(self.published_share)} of the records are published."
        if self.record_utility is not None:
            yield f"Record utility: {share(self.record_utility)} are expected to be published with their own value."
        if self.aggregate_utility is not None:
            yield f"Aggregate utility of the estimated shares: {self.aggregate_utility:.3f}."
        for table in self.tables:
            yield (
                f"{', '.join(table.columns)} ({table.cells:,} cells): total variation {table.total_variation:.3f} "
                f"(published rows as they are {table.naive_total_variation:.3f}), median error "
                f"{_percent(table.median_error)}{_covering(table.covered)}."
            )
        if self.queries is not None:
            q = self.queries
            yield (
                f"{q.asked:,} of {q.pool:,} random counts are of {share(q.selectivity)} of the records or more: mean "
                f"error {_percent(q.mean_error)} (published rows as they are {_percent(q.naive_mean_error)}), median "
                f"{_percent(q.median_error)}{_covering(q.covered)}."
            )
        for a in self.associations:
            limits = "without an interval" if math.isnan(a.lower) else f"[{a.lower:.3f}, {a.upper:.3f}]"
            yield (
                f"{a.measure} of {a.first} and {a.second}: true {a.truth:.3f}, estimated {a.estimate:.3f} "
                f"{limits}, published rows as they are {a.naive:.3f}."
            )
        yield from self.notes


def _percent(part: float) -> str:
    return "-" if math.isnan(part) else share(part)


def _covering(part: float) -> str:
    """Return how many of the intervals hold the truth; nothing where estimates have none, being exact or not known."""
    return "" if math.isnan(part) else f", 95% intervals cover {share(part)}"


# --- measures of association in a true table --------------------------------------------------------------------------


def uncertainty(counts: FloatArray) -> float:
    """Return I(X; Y)/H(Y), Y the columns: AD Eq. (12). NaN if there is one column only.

    >>> uncertainty(np.array([[2.0, 0.0], [0.0, 2.0]]))
    1.0
    """
    p = counts / counts.sum()
    own = _entropy(p.sum(axis=0))
    return (own + _entropy(p.sum(axis=1)) - _entropy(p.ravel())) / own if own > 0 else math.nan


def _entropy(p: FloatArray) -> float:
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


def cramers_v(counts: FloatArray) -> float:
    """Return sqrt(chi-square/(n min(r - 1, c - 1))), over the values that occur.

    >>> cramers_v(np.array([[2.0, 0.0], [0.0, 2.0]]))
    1.0
    """
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    least = min(counts.shape) - 1
    if least < 1:
        return math.nan
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    return math.sqrt(float(((counts - expected) ** 2 / expected).sum()) / counts.sum() / least)


# --- measuring --------------------------------------------------------------------------------------------------------

MEASURES: dict[str, Callable[[FloatArray], float]] = {"uncertainty": uncertainty, "Cramer": cramers_v}
"""By the beginning of the names that estimates have."""


def measure(evidence: Evidence) -> Utility:
    notes: list[str] = []
    names = [name for name in evidence.quasi_identifiers if len(evidence.labels(name)) <= MOST_VALUES]
    own = [part.sensitive for part in evidence.by_mechanism]  # where columns have methods of their own, each of them
    sets = [*own, evidence.sensitive, *((name, *each) for name in names for each in own or [evidence.sensitive])]
    compared = [found for columns in sets if (found := _compared(evidence, columns, notes)) is not None]
    tables = tuple(
        TableUtility.of(c.columns, c.true, c.estimated.value, c.estimated.published, covered(c.estimated, c.true))
        for c in compared
    )
    alone = next((table for table in tables if table.columns == evidence.sensitive), None)
    return Utility(
        published_share=evidence.manifest.data.rows / max(1, evidence.rows),
        record_utility=_record_utility(evidence),
        aggregate_utility=None if alone is None else 1 - 2 * alone.total_variation / alone.cells,
        tables=tables,
        queries=_queries(evidence, names, notes),
        associations=tuple(_associations(evidence, compared, notes)),
        notes=tuple(dict.fromkeys(notes)),
    )


def _record_utility(evidence: Evidence) -> float | None:
    if evidence.kind == "groups" or any(own.form != "value" for own in evidence.manifest.mechanism_values):
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
    if evidence.by_mechanism:
        kept_by = [part.mechanism.matrix.diagonal[part.true] for part in evidence.by_mechanism]
        return float(np.prod(kept_by, axis=0).mean())
    try:
        quotas = evidence.once(compositions).quotas
    except DoesNotApply:
        return None
    kept = sum(float(q @ table.matrix.diagonal) for table, q in zip(evidence.mechanism.tables, quotas, strict=True))
    return kept / max(1, evidence.rows)


# --- estimated tables -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Compared:
    columns: tuple[str, ...]
    true: FloatArray
    estimated: JointTable


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
