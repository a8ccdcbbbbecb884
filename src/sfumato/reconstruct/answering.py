"""Answers to queries: parsed, summed over the published rows, corrected by the mechanism, put in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.errors import SingularMatrix, UsageError
from sfumato.matrix import FloatArray
from sfumato.reconstruct import inverse
from sfumato.reconstruct.answer import (
    ALL,
    Answer,
    IntArray,
    Key,
    Target,
    check_target,
    sorted_key,
    value_order,
)
from sfumato.reconstruct.channel import Channel, randomization_of
from sfumato.reconstruct.conditions import Condition, check_numbers, column_names, not_too_deep, split_condition
from sfumato.reconstruct.estimate import NO_ROW, UNBIASED
from sfumato.reconstruct.figures import Figures, cells_of
from sfumato.reconstruct.measures import Values, evaluate, numbers_of, partition
from sfumato.reconstruct.query import NUMERIC, Query, parse_query
from sfumato.reconstruct.reading import manifest_types
from sfumato.reconstruct.tally import ROWS, Detail, Tally, tallied
from sfumato.release import Release

FIGURE = "figure"
"""The column that names the figure of a row, where a query asks for several."""


@not_too_deep
def sql(release: Release, text: str, *, weight: str = "", target: Target = "table", level: float = 0.95) -> Answer:
    """Answer a query: see `Release.sql`."""
    check_target(target, level)
    randomization = randomization_of(release)
    types = manifest_types(release)
    query = parse_query(text, types, randomization.names)
    _check_numbers(release, query, weight, types, randomization.names)
    channel = randomization.joint({*query.by, *column_names(query.where)})
    condition = split_condition(release, query.where, channel.domain)
    asked = _Asked(release, channel, query, condition, weight, target)
    try:
        parts = [asked.part(names) for names in query.sets]
    except SingularMatrix as problem:
        raise SingularMatrix(
            problem.message, "Ask for counts with --by and --method em: they need no inverse."
        ) from None
    keys = [_joined(name, [(part.keys.get(name), part.rows) for part in parts]) for name in query.by]
    numbers = [Values.joined([part.numbers[k] for part in parts]) for k in range(len(query.measures))]
    rows = _ordered(query, keys, [each.value for each in numbers])
    figure = _spread([measure.name for measure in query.measures], rows.size)
    keys = [key.take(np.repeat(rows, len(numbers))) for key in keys]
    shown = Values.interleaved([each.take(rows) for each in numbers])
    figure_name = _unused(FIGURE, query.by) if len(numbers) > 1 else ""
    return Answer(
        (*keys, Key(figure_name, *figure)) if figure_name else tuple(keys),
        shown.value,
        shown.error,
        shown.value,
        np.full(shown.value.size, np.inf),
        "inverse",
        target,
        level,
        (*asked.warnings(), *_notes(query, shown)),
        shown.quotient,
        figure_name,
    )


def _check_numbers(
    release: Release, query: Query, weight: str, types: dict[str, str], randomized: tuple[str, ...]
) -> None:
    """Raise unless the weight is an untouched column, and what is summed is a number, in text or not."""
    if weight and (weight not in types or weight in randomized):
        raise UsageError(f"There is no untouched column {weight!r} to weigh by.")
    if weight and not types[weight].startswith((*NUMERIC, "string")):
        raise UsageError(f"{weight!r} is of type {types[weight]}: it cannot be a weight.")
    totals = [total for measure in query.measures for total in (measure.top, measure.bottom) if total is not None]
    summed = {name for total in totals for name in total.columns} | ({weight} if weight else set())
    for name in sorted(summed):
        if types[name] == "string":
            check_numbers(release, name)


# --- one grouping set -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Part:
    """The answer of one grouping set, one row for each group and cell."""

    keys: dict[str, Key]
    rows: int
    numbers: list[Values]  # of each figure


@dataclass(eq=False)
class _Asked:
    """A query to a release; published rows are read once for all grouping sets that lie in one of them."""

    release: Release
    channel: Channel
    query: Query
    condition: Condition
    weight: str
    target: Target

    def __post_init__(self) -> None:
        sets = [set(names) for names in self.query.sets]
        self._read: dict[frozenset[str], Tally] = {}
        self._largest = [names for names in sets if not any(names < other for other in sets)]

    def part(self, names: tuple[str, ...]) -> _Part:
        """Return the answer of a grouping set."""
        tally = self._tally(frozenset(next(large for large in self._largest if large >= set(names)))).margin(names)
        cells = cells_of(self.channel.domain, names)
        rows, place = self.release.manifest.data.rows, cells.under(self.condition)
        figures = Figures(self.channel, tally, place, cells.size, rows, self.target, self.weight)
        shown = np.flatnonzero(figures.possible)
        keys = {key.name: key.take(np.repeat(np.arange(tally.groups), shown.size)) for key in tally.keys}
        for part in self.channel.domain.parts:
            if part.name in cells.asked:
                keys[part.name] = Key(part.name, part.values, np.tile(cells.codes(part.name)[shown], tally.groups))
        numbers = [
            evaluate(figures, measure, partition(tally, cells, measure.partition), shown)
            for measure in self.query.measures
        ]
        return _Part(keys, tally.groups * shown.size, numbers)

    def warnings(self) -> list[str]:
        """Return what is odd about the condition: nobody can satisfy it, or no row does."""
        tallies = list(self._read.values())
        selected = [self.condition.selected(pattern) for tally in tallies for pattern in tally.patterns]
        warnings = []
        if self.condition.values and not any(values.any() for values in selected):
            warnings.append(f"No value of {self.channel.domain.name!r} satisfies the condition.")
        rows = ROWS.summed("")
        if self.condition.rows and not any(array.any() for tally in tallies for array in tally.sums[rows]):
            warnings.append(NO_ROW)
        return warnings

    def _tally(self, names: frozenset[str]) -> Tally:
        if names not in self._read:
            untouched = [n for n in self.query.by if n in names and n not in self.channel.domain.names]
            detail = self._detail(names)
            if detail != "whole":
                for table in self.channel.tables:
                    inverse.require_invertible(table.matrix)
            numbers = [number for measure in self.query.measures for number in numbers_of(measure)]
            self._read[names] = tallied(
                self.release, self.channel, untouched, self.condition, numbers, self.weight, detail
            )
        return self._read[names]

    def _detail(self, names: frozenset[str]) -> Detail:
        """Return how much has to be told apart of the published values."""
        if names & set(self.channel.domain.names) or self.condition.atoms:
            return "values"
        if not self.condition.values:
            return "whole"
        return "chosen" if all(table.matrix.is_uniform for table in self.channel.tables) else "values"


# --- the rows of the answer -------------------------------------------------------------------------------------------


def _joined(name: str, parts: Sequence[tuple[Key | None, int]]) -> Key:
    """Return one column of all grouping sets; a set without it has (all) there."""
    present = [key for key, _ in parts if key is not None]
    if len(present) == len(parts) == 1:
        return present[0]
    values: dict[Any, int] = {}
    for key in present:
        for value in key.values:
            values.setdefault(value, len(values))
    ordered = sorted_key(name, list(values), np.arange(len(values)))
    numbers = dict(zip(values, ordered.codes.tolist(), strict=True))
    codes = [
        np.full(rows, len(values)) if key is None else np.array([numbers[v] for v in key.values])[key.codes]
        for key, rows in parts
    ]
    everything = (*ordered.values, ALL) if len(present) < len(parts) else ordered.values
    return Key(name, everything, np.concatenate(codes).astype(np.int64))


def _ordered(query: Query, keys: Sequence[Key], figures: Sequence[FloatArray]) -> IntArray:
    """Return which rows are shown, in their order; missing values come last, and totals after them."""
    order = np.arange(figures[0].size)
    for name, descending in reversed(query.order):
        if name in query.by:
            key = keys[query.by.index(name)]
            place = value_order(key.values, descending)[key.codes]
        else:
            value = figures[[measure.name for measure in query.measures].index(name)]
            place = np.where(np.isnan(value), np.inf, -value if descending else value)
        order = order[np.argsort(place[order], kind="stable")]
    end = None if query.limit is None else query.offset + query.limit
    return order[query.offset : end]


def _spread(names: Sequence[str], rows: int) -> tuple[tuple[str, ...], IntArray]:
    return tuple(names), np.tile(np.arange(len(names)), rows)


def _unused(name: str, columns: Sequence[str]) -> str:
    while name in columns:
        name += "_"
    return name


def _notes(query: Query, shown: Values) -> tuple[str, ...]:
    quotients = [measure.is_quotient for measure in query.measures]
    notes = [] if all(quotients) else [UNBIASED]
    if any(quotients):
        notes.append("A quotient of two estimates is unbiased only nearly; its interval is Fieller's.")
    if np.isnan(shown.value).any():
        notes.append("No figure where the estimated total to divide by is not positive, or a number is NaN.")
    return tuple(notes)
