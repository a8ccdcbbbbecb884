"""Answers to queries: parsed, summed over the published rows, corrected by the mechanism, put in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from sfumato.analyst.answer import (
    ALL,
    NO_ROW,
    Answer,
    Estimator,
    Key,
    Quotient,
    Target,
    check_method,
    scattered,
    sorted_key,
    value_order,
)
from sfumato.analyst.ask.cells import Cells, Estimates, Partition, Question, Source, cells_of
from sfumato.analyst.ask.conditions import (
    check_comparisons,
    column_names,
    not_too_deep,
    split_condition,
    unknown_values,
    unseen_values,
)
from sfumato.analyst.ask.measure import Columns, Measure, check_texts, check_weight, check_weights
from sfumato.analyst.ask.query import Query, parse_query
from sfumato.analyst.ask.scale import Scale
from sfumato.analyst.counting.counts import CountedRelease
from sfumato.analyst.measures import FIGURES, QUANTILE_NOTE, Found, edge_notes, missing_notes
from sfumato.analyst.randomized.figures import hidden_columns, source_of
from sfumato.errors import SingularMatrix, UsageError
from sfumato.release.folder import hidden_numbers, manifest_types
from sfumato.values.arrays import FloatArray, IntArray

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
    if method not in ("inverse", "classical"):
        raise UsageError("A query is answered by `inverse` or `classical`.", "Other estimators are for counts: --by")
    check_method(release, method, target, level)
    hidden, types = hidden_columns(release), manifest_types(release)
    scale = None if release.manifest.in_buckets else cache(partial(Scale.of, release))
    query = parse_query(text, Columns(types, hidden, scale, hidden_numbers(release)))
    for condition in query.inside:
        check_comparisons(release, condition)
    marks = _marks(query)
    check_weight(release, weight, types, tuple(hidden))
    _check_summed(release, query, types)
    asked = Asked.of(release, query, weight, target, method)
    check_weights(release, weight, asked.question.condition.rows)
    parts = [asked.part(names) for names in query.sets]
    names = tuple(measure.name for measure in query.measures)
    keys = [_joined(name, [(part.keys.get(name), part.rows) for part in parts]) for name in query.by]
    found = [Found.joined([_found(part, measure) for part in parts]) for measure in query.measures]
    numbers = np.stack([each.numbers for each in found])
    rows = _ordered(query, keys, numbers[:, 0])
    keys = [key.take(np.repeat(rows, len(names))) for key in keys]
    value, error, *quotient = numbers[:, :, rows].transpose(1, 2, 0).reshape(FIGURES, -1)
    figure = _unused(FIGURE, query.by) if len(names) > 1 else ""
    quantiles = [
        each.quantile.take(rows, np.arange(rows.size) * len(names) + k)
        for k, each in enumerate(found)
        if each.quantile is not None
    ]
    return Answer(
        (*keys, Key(figure, names, np.tile(np.arange(len(names)), rows.size))) if figure else tuple(keys),
        value,
        error,
        value,
        np.full(value.size, np.inf),
        method,
        target,
        level,
        (*asked.warnings(parts), *_notes(query, value, parts, found), *asked.source.notes(asked.question)),
        Quotient(*quotient),
        figure,
        tuple(quantiles),
        marks,
    )


def _found(part: Part, measure: Measure) -> Found:
    tally = part.figures.tally
    partition = Partition.of(tally.keys, tally.groups, part.cells, measure.partition or ())
    return Found.of(part.figures, measure, partition, part.shown)


def _marks(query: Query) -> tuple[Any, ...]:
    """Return the values that figures are places of, none where they are numbers; raise if some are and some are not."""
    marks = {m.scales[0].marks if m.quantile and not m.scales[0].are_numbers else () for m in query.measures}
    if len(marks) > 1:
        text = next(m.text for m in query.measures if m.quantile and not m.scales[0].are_numbers)
        raise UsageError(
            f"{text} is a text, and another figure of the query is not, or is one of other texts.",
            "Ask for it in a query of its own.",
        )
    return marks.pop()


def _check_summed(release: CountedRelease, query: Query, types: Mapping[str, str]) -> None:
    """Raise unless what is summed of untouched columns is a number, in text or not."""
    summed = {name for measure in query.measures for total in measure.totals for name in total.columns}
    check_texts(release, sorted(summed | query.numeric_texts), types)


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


def _ordered(query: Query, keys: Sequence[Key], figures: FloatArray) -> IntArray:
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


def _unused(name: str, columns: Sequence[str]) -> str:
    while name in columns:
        name += "_"
    return name


def _notes(query: Query, shown: FloatArray, parts: Sequence[Part], found: Sequence[Found]) -> list[str]:
    notes = list(dict.fromkeys(note for part in parts for note in part.figures.notes()))
    if all(measure.divides or measure.quantile for measure in query.measures):
        notes = [note for note in notes if not note.startswith("Unbiased")]
    if any(measure.quantile for measure in query.measures):
        notes.append(QUANTILE_NOTE)
    notes += missing_notes(scale for measure in query.measures for scale in measure.scales)
    notes += edge_notes(query.measures, found)
    if any(measure.is_quotient for measure in query.measures):
        notes.append("A quotient of two estimates is unbiased only nearly; its interval is Fieller's.")
    if any(measure.added and measure.divides for measure in query.measures):
        notes.append("The interval of a sum or a difference of quotients is that of its linear part.")
    if np.isnan(shown).any():
        notes.append(
            "No figure where the estimated total to divide by is negative, or zero up to rounding, or where a number "
            "is NaN or infinite."
        )
    return notes


# --- a query, and the estimates of each of its grouping sets ----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Part:
    """The estimates of one grouping set, for every group and cell."""

    figures: Estimates
    cells: Cells
    release: CountedRelease

    @cached_property
    def shown(self) -> IntArray:
        """The cells that an answer lists, in its order: those that some record can belong to."""
        order = self.cells.in_order(self.release)
        return order[self.figures.possible[order]]

    @property
    def rows(self) -> int:
        """Of the answer: one for each group and cell that is shown."""
        return self.figures.tally.groups * self.shown.size

    @property
    def keys(self) -> dict[str, Key]:
        """The columns of the groups and cells."""
        tally = self.figures.tally
        return self.cells.keys(tally.keys, tally.groups, self.shown, self.release)


@dataclass(frozen=True, eq=False)
class Asked:
    """A query to a release."""

    query: Query
    question: Question
    source: Source

    @classmethod
    def of(cls, release: CountedRelease, query: Query, weight: str, target: Target, method: Estimator) -> Asked:
        """Return a query with what its estimates come from."""
        source = source_of(release, {*query.by, *column_names(query.where), *query.scaled})
        question = Question(
            release,
            query.by,
            query.sets,
            split_condition(release, query.where, source.domain),
            totals=tuple(number for measure in query.measures for number in measure.totals),
            products=tuple(a * b for measure in query.measures for a in measure.totals for b in measure.totals),
            weight=weight,
            target=target,
            is_classical=method == "classical",
            by_value=bool(query.scaled),
        )
        return cls(query, question, source)

    def part(self, names: tuple[str, ...]) -> Part:
        """Return the estimates of a grouping set."""
        cells = cells_of(self.source.domain, names)
        try:
            self.source.require_inverse(self.question, names)
        except SingularMatrix as problem:
            raise SingularMatrix(
                problem.message, "Ask for counts with --by and --method em: they need no inverse."
            ) from None
        figures = self.source.figures(self.question, names, cells.under(self.question.condition), cells.size)
        return Part(figures, cells, self.question.release)

    def warnings(self, parts: Sequence[Part]) -> list[str]:
        """Return what is odd about the condition: nobody can satisfy it, or no row does."""
        condition, domain, tallies = self.question.condition, self.source.domain, [part.figures.tally for part in parts]
        selected = [condition.selected(pattern) for tally in tallies for pattern in tally.patterns]
        warnings = []
        if condition.values and not any(values.any() for values in selected):
            warnings.append(f"No value of {domain.name!r} satisfies the condition.")
        for tree in (self.query.where, *self.query.inside):
            warnings += unknown_values(tree, domain)
        if condition.rows and not any(tally.records.any() for tally in tallies):
            warnings += [NO_ROW, *unseen_values(self.question.release, self.query.where)]
        if {*self.query.by, *condition.columns, *self.query.scaled} & set(domain.names):
            for tally in tallies:
                warnings += scattered([key.name for key in tally.keys], tally.records)
        return warnings
