"""Answers to queries: sums over the published rows, corrected by the mechanism, with errors.

Every figure is made of linear ones. With z_r a number of each record (1 for a count, the weight, the weight times x)
and phi a set of values of the domain, the sum of z_r over the records with a value in phi is estimated by

    sum_r z_r a(y_r)        a = P^-T phi, the weights of the published values           [F(z).x below]

unbiased, since E[a(y)] = phi(x). Its variance given the table is sum_r z_r^2 (E[a^2 | x_r] - phi(x_r)), estimated by

    sum_r z_r^2 (a(y_r)^2 - a(y_r))                                                     [F(z^2).m - F(z^2).x]

and in a population by sum_r z_r^2 a(y_r)^2 - (estimate)^2 / n, times n/(n-1). Averages and shares are quotients; their
errors are those of their linear parts (delta method). Sub-tables add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.attributes import label
from sfumato.errors import ReleaseError, UsageError
from sfumato.matrix import FloatArray
from sfumato.mechanism import Mechanism, SubTable
from sfumato.reconstruct import inverse
from sfumato.reconstruct.conditions import Condition, counted, split_condition
from sfumato.reconstruct.estimate import (
    NAN,
    Answer,
    Target,
    cell_values,
    check_target,
    margin,
    mechanism_of,
    merged,
    not_below_chance,
    place_of,
)
from sfumato.reconstruct.query import Query, parse_query
from sfumato.reconstruct.reading import manifest_types, quoted
from sfumato.release import Release

MOST_CELLS = 100_000_000
ALL = "(all)"
"""Stands in a column that a row of the answer is not grouped by (SQL's NULL would look like a missing value)."""
SUMS = {
    "count": ("{w}", "{w}*{w}"),
    "share": ("{w}", "{w}*{w}"),
    "sum": ("{w}*{x}", "{w}*{w}*{x}*{x}"),
    "average": ("{w}*{x}", "{w}*{w}*{x}*{x}", "{w}", "{w}*{w}", "{w}*{w}*{x}"),
}
"""What is summed over the rows for each kind of figure: z, z^2, and of an average also w, w^2 and w^2 x."""


def sql(release: Release, text: str, *, weight: str = "", target: Target = "table", level: float = 0.95) -> Answer:
    """Answer a query: see `Release.sql`."""
    check_target(target, level)
    mechanism = mechanism_of(release)
    types = manifest_types(release)
    query = parse_query(text, types, mechanism.domain.names)
    if weight and (weight not in types or weight in mechanism.domain.names):
        raise UsageError(f"There is no untouched column {weight!r} to weigh by.")
    for table in mechanism.tables:
        inverse.require_invertible(table.matrix)
    condition = split_condition(release, query.where, mechanism.domain)
    parts = [_answered(release, mechanism, query, names, condition, weight, target) for names in query.sets]
    groups = [group for part in parts for group in part.groups]
    value = np.concatenate([part.value for part in parts])
    error = np.concatenate([part.error for part in parts])
    kept = _ordered(query, groups, value)
    return Answer(
        query.by,
        tuple(groups[k] for k in kept),
        value[kept],
        error[kept],
        value[kept],
        np.full(len(kept), np.inf),
        "inverse",
        target,
        level,
        _notes(query, value, error),
    )


@dataclass(frozen=True)
class _Part:
    """The answer of one grouping set; its groups have ALL in the columns of the other sets."""

    groups: list[tuple[Any, ...]]
    value: FloatArray
    error: FloatArray


def _answered(
    release: Release,
    mechanism: Mechanism,
    query: Query,
    names: tuple[str, ...],
    condition: Condition,
    weight: str,
    target: Target,
) -> _Part:
    sums = _summed(release, mechanism, query, names, condition, weight)
    asked = [part.name for part in mechanism.domain.parts if part.name in names]
    cells = margin(mechanism.domain, asked)
    figures = _Figures(mechanism, sums, condition, cells, release.manifest.data.rows, target)
    value, error = figures.of(query.measure.kind)
    in_set = tuple(name for name in query.by if name in names)
    shown = figures.possible_cells()
    values = [cell for cell, possible in zip(cell_values(mechanism.domain, asked), shown, strict=True) if possible]
    keys = [merged(in_set, mechanism.domain.names, group, cell) for group in sums.groups for cell in values]
    groups = [tuple(dict(zip(in_set, key, strict=True)).get(name, ALL) for name in query.by) for key in keys]
    return _Part(groups, value[:, shown].ravel(), error[:, shown].ravel())


# --- sums over the published rows -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sums:
    """For each row (a group and the truths of the condition's atoms) the sums by sub-table and published value."""

    groups: list[tuple[Any, ...]]
    group_of: npt.NDArray[np.int64]
    truths: list[tuple[bool | None, ...]]
    rows: list[FloatArray]  # of each sub-table: [row, value] -> number of published rows
    sums: list[list[FloatArray]]  # of each kind of sum, likewise


def _summed(
    release: Release, mechanism: Mechanism, query: Query, names: tuple[str, ...], condition: Condition, weight: str
) -> _Sums:
    domain = mechanism.domain
    untouched = [name for name in query.by if name in names and name not in domain.names]
    kinds = SUMS[query.measure.kind]
    found = counted(release, _statement(mechanism, query, untouched, condition, weight, kinds), "the query")
    width, atoms = len(untouched), len(condition.atoms)
    keys: dict[tuple[Any, ...], int] = {}
    places: list[tuple[int, int, int]] = []
    index = [{code: place for place, code in enumerate(table.codes.tolist())} for table in mechanism.tables]
    for row in found:
        group = tuple(NAN if v != v else v for v in row[:width])
        key = keys.setdefault((*group, *row[width : width + atoms]), len(keys))
        value = row[width + atoms : width + atoms + len(domain.parts)]
        number = (row[width + atoms + len(domain.parts)] or 0) - 1
        code = domain.index.get(value if len(value) > 1 else value[0], -1)
        if not 0 <= number < len(index) or code not in index[number]:
            raise ReleaseError(
                f"The release holds {label(value)!r}, which is not a value of {domain.name!r} there.",
                "It was changed after it was published: `sfumato verify` says what fails.",
            )
        places.append((key, number, index[number][code]))
    if not width and not keys:
        keys[(None,) * atoms] = 0
    cells = len(keys) * sum(table.codes.size for table in mechanism.tables)
    if cells > MOST_CELLS:
        raise UsageError(f"The answer needs {cells:,} cells in memory.", "Group by fewer columns, or ask for less.")
    numbers = np.array([row[-1 - len(kinds) :] for row in found], dtype=np.float64).reshape(-1, 1 + len(kinds))
    filled = [_dense(mechanism, places, numbers[:, k], len(keys)) for k in range(1 + len(kinds))]
    groups = sorted({key[:width] for key in keys}, key=lambda group: tuple(place_of(v) for v in group))
    number_of = {group: k for k, group in enumerate(groups)}
    return _Sums(
        groups,
        np.array([number_of[key[:width]] for key in keys], dtype=np.int64),
        [key[width:] for key in keys],
        filled[0],
        filled[1:],
    )


def _statement(
    mechanism: Mechanism,
    query: Query,
    untouched: Sequence[str],
    condition: Condition,
    weight: str,
    kinds: Sequence[str],
) -> str:
    """Return the query that DuckDB answers: everything in it is rebuilt from checked parts."""
    x = f"CAST({quoted(query.measure.column)} AS DOUBLE)" if query.measure.column else "1.0"
    w = f"CAST({quoted(weight)} AS DOUBLE)" if weight else "1.0"
    labelled = f"TRY_CAST({quoted(mechanism.label)} AS INTEGER)" if mechanism.label else "1"
    columns = [
        *(f"{quoted(name)} AS k{k}" for k, name in enumerate(untouched)),
        *(f"CAST(({atom}) AS BOOLEAN) AS a{k}" for k, atom in enumerate(condition.atoms)),
        *(f"{quoted(name)} AS v{k}" for k, name in enumerate(mechanism.domain.names)),
        f"{labelled} AS label",
        "count(*) AS n",
        *(f"coalesce(sum({kind.format(w=w, x=x)}), 0) AS s{k}" for k, kind in enumerate(kinds)),
    ]
    needed = [f"({condition.rows})"] if condition.rows else []
    needed += [f"{x} IS NOT NULL"] if query.measure.column else []
    where = f" WHERE {' AND '.join(needed)}" if needed else ""
    return f"SELECT {', '.join(columns)} FROM release{where} GROUP BY ALL"


def _dense(
    mechanism: Mechanism, places: list[tuple[int, int, int]], numbers: FloatArray, rows: int
) -> list[FloatArray]:
    filled = [np.zeros((rows, table.codes.size)) for table in mechanism.tables]
    for (row, table, place), number in zip(places, numbers.tolist(), strict=True):
        filled[table][row, place] += number
    return filled


# --- correcting them --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Figures:
    mechanism: Mechanism
    sums: _Sums
    condition: Condition
    cells: npt.NDArray[np.int64]
    total: int
    target: Target

    def of(self, kind: str) -> tuple[FloatArray, FloatArray]:
        """Return value and standard error of every group and cell."""
        if kind == "average":
            return self._average()
        value = self._linear(0)[0]
        if kind == "share":
            return self._share(value)
        x, m = self._linear(1)
        if self.target == "table":
            return value, np.sqrt(np.maximum(m - x, 0))
        return value, np.sqrt(np.maximum(m - value**2 / self.total, 0) * self._correction)

    @property
    def _correction(self) -> float:
        return self.total / max(self.total - 1, 1)

    def _spread(self, which: int) -> FloatArray:
        """Return the variance that a sum of squares stands for, where the figure's own mean is zero."""
        x, m = self._linear(which)
        return m - x if self.target == "table" else m * self._correction

    def _average(self) -> tuple[FloatArray, FloatArray]:
        """sum(w x)/sum(w): the error is that of sum w (x - average), over sum(w)."""
        top, bottom = self._linear(0)[0], self._linear(2)[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(bottom > 0, top / bottom, np.nan)
            spread = self._spread(1) - 2 * value * self._spread(4) + value**2 * self._spread(3)
            return value, np.sqrt(np.maximum(spread, 0)) / bottom

    def _share(self, value: FloatArray) -> tuple[FloatArray, FloatArray]:
        """value/sum of all: the error is that of value - share * sum, over the sum."""
        whole = float(value.sum())
        if whole <= 0:
            return np.full_like(value, np.nan), np.full_like(value, np.nan)
        share = value / whole
        cross, common = self._with_all()
        spread = self._spread(1) - 2 * share * cross + share**2 * common
        return share, np.sqrt(np.maximum(spread, 0)) / whole

    def _linear(self, which: int) -> tuple[FloatArray, FloatArray]:
        """Return sum of s a and sum of s a^2 for every group and cell; s a^2 - s a of what is not below chance."""
        x, m = self._empty(), self._empty()
        for table, sums, rows in zip(self.mechanism.tables, self.sums.sums[which], self.sums.rows, strict=True):
            likely = not_below_chance(table.matrix, rows, sums)
            for chosen, cells in self._selections(table):
                if cells.max(initial=-1) >= 0:
                    self._add(x, chosen, cells, table.matrix.solve(sums[chosen]))
                    self._add(m, chosen, cells, table.matrix.solve(sums[chosen] - likely[chosen]))
                    self._add_squares(m, chosen, cells, table, likely[chosen])
        return x, m

    def _with_all(self) -> tuple[FloatArray, float]:
        """Return the covariance of every cell with the sum of all, and the variance of the sum."""
        cross, common = self._empty(), 0.0
        for table, sums in zip(self.mechanism.tables, self.sums.sums[1], strict=True):
            for chosen, cells in self._selections(table):
                weights = table.matrix.solve_transposed((cells >= 0).astype(np.float64))
                own = table.matrix.solve(sums[chosen] * weights)
                taken = table.matrix.solve(sums[chosen]) if self.target == "table" else np.zeros_like(own)
                self._add(cross, chosen, cells, own - taken)
                common += float((sums[chosen] @ weights**2).sum() - taken[:, cells >= 0].sum())
        scale = 1.0 if self.target == "table" else self._correction
        return cross * scale, common * scale

    def possible_cells(self) -> npt.NDArray[np.bool_]:
        """Return the cells that some record can belong to under the condition."""
        possible = np.zeros(int(self.cells.max()) + 1, dtype=np.bool_)
        for truths in dict.fromkeys(self.sums.truths):
            possible[self.cells[self.condition.selected(truths)]] = True
        return possible

    def _empty(self) -> FloatArray:
        return np.zeros((len(self.sums.groups), int(self.cells.max()) + 1))

    def _selections(self, table: SubTable) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Return the rows with the same truths, and the cell of each value of the sub-table (-1: not selected)."""
        selections = []
        for truths in dict.fromkeys(self.sums.truths):
            chosen = np.array([k for k, own in enumerate(self.sums.truths) if own == truths], dtype=np.int64)
            selected = self.condition.selected(truths)[table.codes]
            selections.append((chosen, np.where(selected, self.cells[table.codes], -1)))
        return selections

    def _add(
        self, to: FloatArray, chosen: npt.NDArray[np.int64], cells: npt.NDArray[np.int64], numbers: FloatArray
    ) -> None:
        used = np.flatnonzero(cells >= 0)
        np.add.at(to, (self.sums.group_of[chosen][:, None], cells[used][None, :]), numbers[:, used])

    def _add_squares(
        self,
        to: FloatArray,
        chosen: npt.NDArray[np.int64],
        cells: npt.NDArray[np.int64],
        table: SubTable,
        sums: FloatArray,
    ) -> None:
        used = cells[cells >= 0]
        if np.unique(used).size == used.size:
            self._add(to, chosen, cells, table.matrix.inverse_squared_apply(sums))
            return
        for cell in np.unique(used).tolist():
            weights = table.matrix.solve_transposed((cells == cell).astype(np.float64))
            np.add.at(to[:, cell], self.sums.group_of[chosen], sums @ weights**2)


# --- the rows of the answer -------------------------------------------------------------------------------------------


def _ordered(query: Query, groups: list[tuple[Any, ...]], value: FloatArray) -> npt.NDArray[np.int64]:
    """Return which rows are shown, in their order; missing values come last, and totals after them."""
    order = list(range(len(groups)))
    for name, descending in reversed(query.order):
        if name == "estimate":
            known = [k for k in order if not np.isnan(value[k])]
            unknown = [k for k in order if np.isnan(value[k])]
            order = sorted(known, key=lambda k: float(value[k]), reverse=descending) + unknown
        else:
            column = query.by.index(name)
            known = [k for k in order if groups[k][column] is not None and groups[k][column] != ALL]
            last = sorted((k for k in order if k not in set(known)), key=lambda k: groups[k][column] == ALL)
            order = sorted(known, key=lambda k: place_of(groups[k][column]), reverse=descending) + last
    end = None if query.limit is None else query.offset + query.limit
    return np.array(order[query.offset : end], dtype=np.int64)


def _notes(query: Query, value: FloatArray, error: FloatArray) -> tuple[str, ...]:
    notes = ["Unbiased; estimates of rare groups can be negative, and groups that no published row has are left out."]
    if query.measure.kind in ("average", "share"):
        notes = ["A quotient of two estimates: unbiased only nearly, and its error is that of its linear part."]
    if np.isnan(value).any():
        notes.append("No figure where the estimated number of records is not positive.")
    return tuple(notes)
