"""Counts with error bars from the release alone.

    inverse     unbiased, P^-1 o; may be negative for rare groups                       SDR Eq. (7), FG section III.C
    projected   the nearest table without negative counts; biased near zero
    em          iterative Bayes: the most likely table, never negative; needs no inverse; biased near zero

An interval is for the given table (only the randomization is random) or for the population that the table is a random
sample of. For `projected` and `em` it is the unbiased estimate's interval, cut to what is possible.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sfumato.attributes import SensitiveDomain, Value, label
from sfumato.errors import ReleaseError, UsageError
from sfumato.matrix import FloatArray, PerturbationMatrix
from sfumato.mechanism import Mechanism
from sfumato.reconstruct import bayes, inverse
from sfumato.reconstruct.conditions import check_comparisons, counted
from sfumato.reconstruct.projection import project
from sfumato.reconstruct.reading import manifest_types, quoted
from sfumato.reconstruct.where import condition_sql, parsed
from sfumato.release import Release

Estimator = Literal["inverse", "projected", "em"]
Target = Literal["table", "population"]
ESTIMATORS: tuple[Estimator, ...] = ("inverse", "projected", "em")
TARGETS: tuple[Target, ...] = ("table", "population")
NAN = float("nan")
"""The one NaN of all groups: two of them would be two groups, for NaN is not equal to NaN."""
FEW = 10
"""Rows of a value that are expected by chance alone, below which their number is too uncertain to tell the error."""
NO_ROW = "No published row satisfies the condition."


@dataclass(frozen=True, eq=False)
class Answer:
    """Estimated counts, one for each group. `value`, `standard_error` and `interval()` are arrays in the same order."""

    by: tuple[str, ...]
    groups: tuple[tuple[Any, ...], ...]
    value: FloatArray
    standard_error: FloatArray  # NaN where none can be given
    unbiased: FloatArray  # centre of the intervals; NaN where there is no inverse
    most: FloatArray  # rows of the group that the count belongs to
    method: Estimator
    target: Target
    level: float
    notes: tuple[str, ...] = ()

    def interval(self, level: float | None = None) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper ends of the confidence intervals."""
        half = NormalDist().inv_cdf((1 + (self.level if level is None else level)) / 2) * self.standard_error
        lower, upper = self.unbiased - half, self.unbiased + half
        if self.method == "inverse":
            return lower, upper
        return np.clip(lower, 0, self.most), np.clip(upper, 0, self.most)

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary for each group; None where no error bar can be given."""
        lower, upper = self.interval()
        numbers = {
            "estimate": self.value,
            "standard_error": self.standard_error,
            "lower": lower,
            "upper": upper,
        }
        return [
            dict(zip(self.by, group, strict=True))
            | {name: None if np.isnan(column[k]) else float(column[k]) for name, column in numbers.items()}
            for k, group in enumerate(self.groups)
        ]

    def to_arrow(self) -> Any:
        """Return the rows as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.rows())

    def __repr__(self) -> str:
        lower, upper = self.interval()
        lines = [
            f"{', '.join(label(v) for v in group) or 'all'}: {value:,.1f} ± {error:,.1f} [{low:,.1f}, {high:,.1f}]"
            for group, value, error, low, high in zip(
                self.groups, self.value, self.standard_error, lower, upper, strict=True
            )
        ]
        return f"Answer({self.method}, {self.target}, {self.level:.0%})\n" + "\n".join(lines[:50])


def count(
    release: Release,
    by: str | Sequence[str] = (),
    where: str = "",
    *,
    method: Estimator = "inverse",
    target: Target = "table",
    level: float = 0.95,
) -> Answer:
    """Estimate the number of records in each group of `by`, among those that satisfy `where`."""
    by = (by,) if isinstance(by, str) else tuple(by)
    _check(release, by, method, target, level)
    mechanism = mechanism_of(release)
    domain = mechanism.domain
    groups, observed = _observed(release, by, where, mechanism)
    rows = np.sum([of_table.sum(axis=1) for of_table in observed], axis=0)
    asked = [name for name in by if name in domain.names]
    cells = margin(domain, asked)
    empty = (NO_ROW,) if where.strip() and not rows.any() else ()
    if not asked:
        return _plain_counts(release, by, groups, rows, method, target, level, empty)
    numbers = _estimates(mechanism, observed, cells, method, target, release.manifest.data.rows)
    labels = cell_values(domain, asked)
    keys = tuple(merged(by, domain.names, group, cell) for group in groups for cell in labels)
    notes = (*empty, *_notes(method), *numbers.notes)
    most = np.repeat(rows, len(labels))
    return Answer(
        by,
        keys,
        numbers.value.ravel(),
        numbers.error.ravel(),
        numbers.unbiased.ravel(),
        most,
        method,
        target,
        level,
        notes,
    )


def mechanism_of(release: Release) -> Mechanism:
    try:
        return release.manifest.mechanism_value
    except (ArithmeticError, IndexError, ValueError, UsageError) as problem:
        raise ReleaseError(f"The mechanism of {str(release.folder)!r} cannot be read: {problem}.") from None


def _check(release: Release, by: tuple[str, ...], method: str, target: str, level: float) -> None:
    for name in by:
        if name not in release.column_names:
            near = difflib.get_close_matches(name, release.column_names, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Its columns are {', '.join(release.column_names)}."
            raise UsageError(f"The release has no column {name!r}.", hint)
    if len(set(by)) < len(by):
        raise UsageError("A column is named more than once in --by.")
    if method not in ESTIMATORS:
        raise UsageError(f"Estimators are {', '.join(ESTIMATORS)}.")
    check_target(target, level)


def check_target(target: str, level: float) -> None:
    """Raise unless intervals of this kind and level exist."""
    if target not in TARGETS:
        raise UsageError(f"Intervals are for a {' or a '.join(TARGETS)}.")
    if not 0 < level < 1:
        raise UsageError(f"The confidence level must lie between 0 and 1, not {level}.")


# --- counting the published rows --------------------------------------------------------------------------------------


def _observed(
    release: Release, by: tuple[str, ...], where: str, mechanism: Mechanism
) -> tuple[list[tuple[Any, ...]], list[FloatArray]]:
    """Return the groups of untouched columns and, for each sub-table, their published counts of its values."""
    domain = mechanism.domain
    untouched = [name for name in by if name not in domain.names]
    labels = [] if mechanism.label is None else [mechanism.label]
    condition = f" WHERE {_condition(release, where, domain)}" if where.strip() else ""
    select = ", ".join(quoted(name) for name in (*untouched, *domain.names)) + "".join(
        f", TRY_CAST({quoted(name)} AS INTEGER) AS label" for name in labels
    )
    query = f"SELECT {select}, count(*) AS rows FROM release{condition} GROUP BY ALL"
    places = [{code: place for place, code in enumerate(table.codes.tolist())} for table in mechanism.tables]
    found: dict[tuple[Any, ...], dict[tuple[int, int], int]] = {} if untouched else {(): {}}
    for *key, rows in counted(release, query, where):
        number = (key.pop() or 0) - 1 if labels else 0  # a label that is missing is that of no sub-table
        value = tuple(key[len(untouched) :])
        code = domain.index.get(value if len(value) > 1 else value[0], -1)
        if not 0 <= number < len(places) or code not in places[number]:
            of_table = f" of sub-table {number + 1}" if labels else ""
            raise ReleaseError(
                f"The release holds {label(value)!r}, which is not a value of {domain.name!r}{of_table}.",
                "It was changed after it was published: `sfumato verify` says what fails.",
            )
        counts = found.setdefault(tuple(NAN if _is_nan(v) else v for v in key[: len(untouched)]), {})
        cell = number, places[number][code]
        counts[cell] = counts.get(cell, 0) + rows
    groups = sorted(found, key=lambda group: tuple(place_of(v) for v in group))
    observed = [np.zeros((len(groups), table.codes.size)) for table in mechanism.tables]
    for row, group in enumerate(groups):
        for (number, place), rows in found[group].items():
            observed[number][row, place] = rows
    return groups, observed


def _condition(release: Release, where: str, domain: SensitiveDomain) -> str:
    """Return the condition as SQL; raise if it takes a text as a number that is none: it would silently fail."""
    sql = condition_sql(where, manifest_types(release), domain.names)
    check_comparisons(release, parsed(where))
    return sql


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def place_of(value: Any) -> tuple[bool, bool, Any]:
    """Return what groups are sorted by: values, then NaN, then the missing value."""
    return value is None, _is_nan(value), "" if value is None or _is_nan(value) else value


def _plain_counts(
    release: Release,
    by: tuple[str, ...],
    groups: list[tuple[Any, ...]],
    rows: FloatArray,
    method: Estimator,
    target: Target,
    level: float,
    notes: tuple[str, ...] = (),
) -> Answer:
    """Return counts of untouched columns: exact for the table, binomial for a population."""
    total = release.manifest.data.rows
    error = np.zeros_like(rows) if target == "table" else np.sqrt(rows * (1 - rows / total))
    notes = (*notes, "No randomized column is asked.")
    return Answer(by, tuple(groups), rows, error, rows, rows, method, target, level, notes)


# --- correcting them --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Numbers:
    value: FloatArray  # [groups, cells]
    error: FloatArray
    unbiased: FloatArray
    notes: tuple[str, ...] = ()


def _estimates(
    mechanism: Mechanism,
    observed: list[FloatArray],
    cells: npt.NDArray[np.int64],
    method: Estimator,
    target: Target,
    rows: int,
) -> _Numbers:
    """Sum the sub-tables' estimates and the variances: SDR Appendix 10.10. A value that is in none gets exactly 0."""
    size = int(cells.max()) + 1
    tables = [
        _Observed(table.matrix, of_table, cells[table.codes], size)
        for table, of_table in zip(mechanism.tables, observed, strict=True)
    ]
    if method != "em":
        for table in mechanism.tables:
            inverse.require_invertible(table.matrix)
    notes: tuple[str, ...] = ()
    if all(inverse.is_usable(table.matrix) for table in mechanism.tables):
        unbiased = _total(table.summed(inverse.estimate(table.matrix, table.counts)) for table in tables)
        moment = _total(table.second_moment() for table in tables)
        given = target == "table"
        error = np.sqrt(
            inverse.variance_given_table(moment, unbiased)
            if given
            else inverse.variance_in_population(moment, unbiased, rows)
        )
    else:
        unbiased = np.full((len(observed[0]), size), np.nan)
        error = unbiased
        notes = ("A matrix has no usable inverse: no error bars.",)
    if method == "inverse":
        return _Numbers(unbiased, error, unbiased, notes)
    if method == "projected":
        most = np.sum([of_table.sum(axis=1) for of_table in observed], axis=0)
        return _Numbers(project(unbiased, most), error, unbiased, notes)
    gap = bayes.GAP / len(tables)  # log-likelihoods add up over the sub-tables
    results = [bayes.iterate(table.matrix, table.counts, gap) for table in tables]
    if not all(result.converged for result in results):
        most_steps = max(result.iterations for result in results)
        notes += (f"EM stopped after {most_steps} iterations before its stopping rule was met.",)
    value = _total(table.summed(result.value) for table, result in zip(tables, results, strict=True))
    return _Numbers(value, error, unbiased, notes)


@dataclass(frozen=True)
class _Observed:
    """The published counts of a sub-table, and the cell that each of its values belongs to."""

    matrix: PerturbationMatrix
    counts: FloatArray  # [groups, values]
    cells: npt.NDArray[np.int64]
    size: int  # of all cells

    def summed(self, values: FloatArray) -> FloatArray:
        """Return the sum over the values of each cell."""
        summed = np.zeros((self.size, len(values)))
        np.add.at(summed, self.cells, values.T)
        return summed.T

    def second_moment(self) -> FloatArray:
        """Return sum_y a_y^2 o_y of each cell; one that joins several values needs the inverse's rows summed.

        What the randomization adds, sum_y (a_y^2 - a_y) o_y, is taken of counts that are not below chance.
        """
        counts = not_below_chance(self.matrix, self.counts, self.counts)
        return self._squares(counts) + self.summed(self.matrix.solve(self.counts - counts))

    def _squares(self, expected: FloatArray) -> FloatArray:
        if np.unique(self.cells).size == self.cells.size:
            return self.summed(inverse.second_moment(self.matrix, expected))
        moment = np.zeros((len(self.counts), self.size))
        for cell in np.unique(self.cells).tolist():
            weights = self.matrix.solve_transposed((self.cells == cell).astype(np.float64))
            moment[:, cell] = expected @ weights**2
        return moment


def not_below_chance(matrix: PerturbationMatrix, counts: FloatArray, sums: FloatArray) -> FloatArray:
    """Return sums over the rows of each published value, at least their share by chance of values that few rows have.

    No value is published less often than by chance, n min_i P[y, i]. Where that is a small number and even fewer rows
    have it, it takes their place in a variance: a value that nobody happens to publish would seem to have no error.
    """
    chance = counts.sum(axis=1, keepdims=True) * matrix.least_chance
    due = sums.sum(axis=1, keepdims=True) * matrix.least_chance
    return np.where((chance < FEW) & (due > sums), due, sums)


def _total(of_tables: Iterable[FloatArray]) -> FloatArray:
    total: FloatArray = sum(of_tables, start=np.zeros(()))
    return total


def margin(domain: SensitiveDomain, asked: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return, for each code of a compound, the cell of the asked columns that it belongs to."""
    codes = domain.split(np.arange(domain.size, dtype=np.int32))
    cell = np.zeros(domain.size, dtype=np.int64)
    for part, column in zip(domain.parts, codes, strict=True):
        if part.name in asked:
            cell = cell * len(part.values) + column
    return cell


def cell_values(domain: SensitiveDomain, asked: Sequence[str]) -> list[tuple[Value, ...]]:
    """Return the combinations of values of the asked columns, in the order of their cells; one if none is asked."""
    if not asked:
        return [()]
    parts = SensitiveDomain(tuple(part for part in domain.parts if part.name in asked))
    return [v if isinstance(v, tuple) else (v,) for v in parts.values]


def merged(
    by: tuple[str, ...], randomized: tuple[str, ...], group: tuple[Any, ...], cell: tuple[Value, ...]
) -> tuple[Any, ...]:
    """Return the key in the order that was asked for."""
    plain = iter(group)
    drawn = dict(zip([name for name in randomized if name in by], cell, strict=True))
    return tuple(drawn[name] if name in drawn else next(plain) for name in by)


def _notes(method: Estimator) -> tuple[str, ...]:
    if method == "inverse":
        return (
            "Unbiased; estimates of rare groups can be negative, and groups that no published row has are left out.",
        )
    return (
        "Never negative, and therefore biased near zero; the interval is the unbiased estimate's, cut to the possible.",
    )
