"""Answers to queries: parsed, summed over the published rows, corrected by the mechanism, put in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.analyst.answer import ALL, Answer, Estimator, Key, Target, sorted_key, value_order
from sfumato.analyst.ask.cells import Estimates, Partition, Question, Source, cells_of
from sfumato.analyst.ask.conditions import (
    Condition,
    check_numbers,
    column_names,
    counted,
    not_too_deep,
    split_condition,
    unknown_values,
    unseen_values,
)
from sfumato.analyst.ask.query import NUMERIC, Query, parse_query
from sfumato.analyst.count import NO_ROW, check_method, scattered
from sfumato.analyst.counting.counts import CountedRelease, Counting
from sfumato.analyst.grouped import buckets
from sfumato.analyst.measures import Values, evaluate, products_of, totals_of
from sfumato.analyst.randomized.figures import UNBIASED
from sfumato.analyst.sources import hidden_columns, origin_of
from sfumato.errors import SingularMatrix, UsageError
from sfumato.release.reading import manifest_types, quoted, shown_values
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.text import meant

FIGURE = "figure"
"""The column that names the figure of a row, where a query asks for several."""


@not_too_deep
def sql(
    release: CountedRelease,
    text: str,
    *,
    weight: str = "",
    method: Estimator = "inverse",
    target: Target = "table",
    level: float = 0.95,
) -> Answer:
    """Answer a query: see `Release.sql`."""
    _check_method(release, method, target, level)
    hidden, types = hidden_columns(release), manifest_types(release)
    query = parse_query(text, types, hidden)
    _check_numbers(release, query, weight, types, tuple(hidden))
    asked = _Asked.of(release, query, weight, target, method)
    if weight:
        _check_weights(release, weight, asked.condition.rows)
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
        method,
        target,
        level,
        (*asked.warnings(parts), *_notes(query, shown, parts), *asked.source.notes()),
        shown.quotient,
        figure_name,
    )


def _check_method(release: CountedRelease, method: str, target: Target, level: float) -> None:
    if method not in ("inverse", "classical"):
        raise UsageError("A query is answered by `inverse` or `classical`.", "Other estimators are for counts: --by")
    check_method(release, method, target, level)


def _check_numbers(
    release: CountedRelease, query: Query, weight: str, types: dict[str, str], randomized: tuple[str, ...]
) -> None:
    """Raise unless the weight is an untouched column, and what is summed is a number, in text or not."""
    if weight and (weight not in types or weight in randomized):
        weighing = [name for name in types if name not in randomized]
        raise UsageError(f"There is no untouched column {weight!r} to weigh by.", meant(weight, weighing, "There are"))
    if weight and not types[weight].startswith((*NUMERIC, "string")):
        raise UsageError(
            f"{weight!r} is of type {types[weight]}: it cannot be a weight.",
            "Name a column of numbers: --weight COLUMN",
        )
    totals = [total for measure in query.measures for total in (measure.top, measure.bottom) if total is not None]
    summed = {name for total in totals for name in total.columns} | ({weight} if weight else set())
    for name in sorted(summed):
        if types[name] == "string":
            try:
                check_numbers(release, name)
            except UsageError as problem:
                raise UsageError(problem.message, f"Name a column of numbers, or count instead: --by {name}") from None


def _check_weights(release: CountedRelease, weight: str, where: str) -> None:
    """Raise unless every record that is asked about has a weight, and none is negative or infinite."""
    number = f"CAST({quoted(weight)} AS DOUBLE)"
    wrong = {
        "no weight": f"{number} IS NULL",
        "a negative weight": f"{number} < 0",
        "a weight that is not finite": f"NOT isfinite({number})",
    }
    asked = Counting((), tuple((f"count(*) FILTER (WHERE {sql})", "sum") for sql in wrong.values()), where)
    (counts,) = counted(release, asked, "")
    for what, rows in zip(wrong, counts, strict=True):
        if rows:
            raise UsageError(
                f"{rows:,} published record(s) have {what} ({weight!r}): an estimate would silently leave them out or "
                "take them off.",
                f"Say in the query which records are meant, e.g. WHERE {quoted(weight)} >= 0"
                + (f" AND {quoted(weight)} < 1e300." if "finite" in what else "."),
            )


# --- one grouping set -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Part:
    """The answer of one grouping set, one row for each group and cell."""

    figures: Estimates
    keys: dict[str, Key]
    rows: int
    numbers: list[Values]  # of each figure


@dataclass(frozen=True, eq=False)
class _Asked:
    """A query to a release."""

    release: CountedRelease
    query: Query
    condition: Condition
    domain: SensitiveDomain
    source: Source

    @classmethod
    def of(cls, release: CountedRelease, query: Query, weight: str, target: Target, method: Estimator) -> _Asked:
        """Return a query with what its estimates come from."""
        origin = origin_of(release, {*query.by, *column_names(query.where)})
        condition = split_condition(release, query.where, origin.domain)
        totals = tuple(number for measure in query.measures for number in totals_of(measure))
        products = tuple(number for measure in query.measures for number in products_of(measure))
        question = Question(
            release, query.by, query.sets, condition, totals, products, weight, target, method == "classical"
        )
        return cls(release, query, condition, origin.domain, origin.ask(question))

    def part(self, names: tuple[str, ...]) -> _Part:
        """Return the answer of a grouping set."""
        cells = cells_of(self.domain, names)
        self.source.require_inverse(names)
        figures = self.source.figures(names, cells.under(self.condition), cells.size)
        order, groups = cells.in_order(self.release), figures.groups
        shown = order[figures.possible[order]]
        keys = {key.name: key.take(np.repeat(np.arange(groups), shown.size)) for key in figures.keys}
        for part in self.domain.parts:
            if part.name in cells.asked:
                values = shown_values(self.release, part)
                keys[part.name] = Key(part.name, values, np.tile(cells.codes(part.name)[shown], groups))
        numbers = [
            evaluate(figures, measure, Partition.of(figures.keys, groups, cells, measure.partition or ()), shown)
            for measure in self.query.measures
        ]
        return _Part(figures, keys, groups * shown.size, numbers)

    def warnings(self, parts: Sequence[_Part]) -> list[str]:
        """Return what is odd about the condition: nobody can satisfy it, or no row does."""
        selected = [self.condition.selected(pattern) for part in parts for pattern in part.figures.patterns]
        warnings = []
        if self.condition.values and not any(values.any() for values in selected):
            warnings.append(f"No value of {self.domain.name!r} satisfies the condition.")
        warnings += unknown_values(self.query.where, self.domain)
        if self.condition.rows and not any(part.figures.records.any() for part in parts):
            warnings += [NO_ROW, *unseen_values(self.release, self.query.where)]
        asked = {*self.query.by, *self.condition.columns} & set(self.domain.names)
        for part in parts if asked else ():
            warnings += scattered([key.name for key in part.figures.keys], part.figures.records)
        return warnings


# --- the rows of the answer -------------------------------------------------------------------------------------------


def _joined(name: str, parts: Sequence[tuple[Key | None, int]]) -> Key:
    """Return one column of all grouping sets; a set without it has (all) there."""
    present = [key for key, _ in parts if key is not None]
    if len(present) < len(parts) and any(ALL in key.values for key in present):
        raise UsageError(
            f"{name!r} has a value {ALL!r}, and so have the totals: they could not be told apart.",
            "Ask for the groups and for their totals in queries of their own.",
        )
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


def _notes(query: Query, shown: Values, parts: Sequence[_Part]) -> list[str]:
    quotients = [measure.is_quotient for measure in query.measures]
    notes = list(dict.fromkeys(note for part in parts for note in part.figures.notes()))
    if all(quotients):
        notes = [n for n in notes if n not in (UNBIASED, buckets.UNBIASED, buckets.UNBIASED_IN_PART)]
    if any(quotients):
        notes.append("A quotient of two estimates is unbiased only nearly; its interval is Fieller's.")
    if np.isnan(shown.value).any():
        notes.append(
            "No figure where the estimated total to divide by is negative, or zero up to rounding, or where a number "
            "is NaN or infinite."
        )
    return notes
