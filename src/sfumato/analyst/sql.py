"""Answers to queries: parsed, summed over the published rows, corrected by the mechanism, put in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
from sfumato.analyst.ask.cells import Estimates, Partition, PartTotals, Question, Source, cells_of
from sfumato.analyst.ask.conditions import (
    check_numbers,
    column_names,
    counted,
    not_too_deep,
    split_condition,
    unknown_values,
    unseen_values,
)
from sfumato.analyst.ask.query import NUMERIC, Measure, Query, parse_query
from sfumato.analyst.counting.counts import CountedRelease, Counting
from sfumato.analyst.randomized.figures import hidden_columns, source_of
from sfumato.errors import SingularMatrix, UsageError
from sfumato.release.reading import manifest_types, quoted
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.text import meant

FIGURE = "figure"
"""The column that names the figure of a row, where a query asks for several."""
FIGURES = 7
"""Numbers of a figure: its value, its standard error, and the five of a quotient."""
NEGLIGIBLE = 1e-9
"""Of what was summed: a total below that is nothing but rounding, and nothing can be divided by it."""


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
    query = parse_query(text, types, hidden)
    _check_numbers(release, query, weight, types, tuple(hidden))
    asked = _Asked.of(release, query, weight, target, method)
    if weight:
        _check_weights(release, weight, asked.question.condition.rows)
    try:
        parts = [asked.part(names) for names in query.sets]
    except SingularMatrix as problem:
        raise SingularMatrix(
            problem.message, "Ask for counts with --by and --method em: they need no inverse."
        ) from None
    names = tuple(measure.name for measure in query.measures)
    keys = [_joined(name, [(part.keys.get(name), part.rows) for part in parts]) for name in query.by]
    numbers = np.concatenate([part.numbers for part in parts], axis=2)
    rows = _ordered(query, keys, numbers[:, 0])
    keys = [key.take(np.repeat(rows, len(names))) for key in keys]
    value, error, *quotient = numbers[:, :, rows].transpose(1, 2, 0).reshape(FIGURES, -1)
    figure = _unused(FIGURE, query.by) if len(names) > 1 else ""
    return Answer(
        (*keys, Key(figure, names, np.tile(np.arange(len(names)), rows.size))) if figure else tuple(keys),
        value,
        error,
        value,
        np.full(value.size, np.inf),
        method,
        target,
        level,
        (*asked.warnings(parts), *_notes(query, value, parts), *asked.source.notes(asked.question)),
        Quotient(*quotient),
        figure,
    )


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
    summed = {name for measure in query.measures for total in measure.totals for name in total.columns}
    for name in sorted(summed | ({weight} if weight else set())):
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
    numbers: FloatArray  # [measures, FIGURES, rows]


@dataclass(frozen=True, eq=False)
class _Asked:
    """A query to a release."""

    query: Query
    question: Question
    source: Source

    @classmethod
    def of(cls, release: CountedRelease, query: Query, weight: str, target: Target, method: Estimator) -> _Asked:
        """Return a query with what its estimates come from."""
        source = source_of(release, {*query.by, *column_names(query.where)})
        condition = split_condition(release, query.where, source.domain)
        totals = tuple(number for measure in query.measures for number in measure.totals)
        products = tuple(a * b for measure in query.measures for a in measure.totals for b in measure.totals)
        classical = method == "classical"
        question = Question(release, query.by, query.sets, condition, totals, products, weight, target, classical)
        return cls(query, question, source)

    def part(self, names: tuple[str, ...]) -> _Part:
        """Return the answer of a grouping set."""
        release, cells = self.question.release, cells_of(self.source.domain, names)
        self.source.require_inverse(self.question, names)
        figures = self.source.figures(self.question, names, cells.under(self.question.condition), cells.size)
        order, tally = cells.in_order(release), figures.tally
        shown = order[figures.possible[order]]
        partitions = [Partition.of(tally.keys, tally.groups, cells, m.partition or ()) for m in self.query.measures]
        numbers = [
            evaluate(figures, measure, partition, shown)
            for measure, partition in zip(self.query.measures, partitions, strict=True)
        ]
        keys = cells.keys(tally.keys, tally.groups, shown, release)
        return _Part(figures, keys, tally.groups * shown.size, np.stack(numbers))

    def warnings(self, parts: Sequence[_Part]) -> list[str]:
        """Return what is odd about the condition: nobody can satisfy it, or no row does."""
        condition, domain, tallies = self.question.condition, self.source.domain, [part.figures.tally for part in parts]
        selected = [condition.selected(pattern) for tally in tallies for pattern in tally.patterns]
        warnings = []
        if condition.values and not any(values.any() for values in selected):
            warnings.append(f"No value of {domain.name!r} satisfies the condition.")
        warnings += unknown_values(self.query.where, domain)
        if condition.rows and not any(tally.records.any() for tally in tallies):
            warnings += [NO_ROW, *unseen_values(self.question.release, self.query.where)]
        if {*self.query.by, *condition.columns} & set(domain.names):
            for tally in tallies:
                warnings += scattered([key.name for key in tally.keys], tally.records)
        return warnings


# --- the figures of a grouping set ------------------------------------------------------------------------------------


def evaluate(figures: Estimates, measure: Measure, partition: Partition, shown: IntArray) -> FloatArray:
    """Return value, standard error and the quotient's numbers of every group and cell that is shown, [FIGURES, rows].

    The latter are NaN where it is none; so are value and error where a number is infinite.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        found = _evaluated(figures, measure, partition, shown)
    found[:2, ~np.isfinite(found[0])] = np.nan
    return found


def _evaluated(figures: Estimates, measure: Measure, partition: Partition, shown: IntArray) -> FloatArray:
    top, variance = figures.total(measure.top), figures.covariance(measure.top, measure.top)
    slack, f = figures.slack(measure.top), measure.factor
    if not measure.is_quotient:
        value, error = f * top, abs(f) * (np.sqrt(np.maximum(variance, 0)) + slack)
        found = np.full((FIGURES, top[:, shown].size), np.nan)
        found[:2] = value[:, shown].ravel(), error[:, shown].ravel()
        return found
    if measure.bottom is not None:
        below = PartTotals(
            figures.total(measure.bottom),
            figures.covariance(measure.top, measure.bottom),
            figures.covariance(measure.bottom, measure.bottom),
            figures.slack(measure.bottom),
        )
        nothing = NEGLIGIBLE * np.repeat(figures.magnitude(measure.bottom)[:, None], top.shape[1], axis=1)
    else:
        below = figures.of_parts(measure.top, partition)
        each = NEGLIGIBLE * figures.magnitude(measure.top)[:, None] / top.shape[1]
        nothing = partition.sums(np.repeat(each, top.shape[1], axis=1))
    bottom = np.where(np.abs(below.total) <= nothing, 0, below.total)
    parts = [f * top, bottom, f**2 * variance, f * below.covariance, below.variance, abs(f) * slack, below.slack]
    *numbers, top_slack, bottom_slack = (array[:, shown].ravel() for array in parts)
    return _quotient_figure(widened(Quotient(*numbers), top_slack, bottom_slack))


def widened(q: Quotient, top: FloatArray, bottom: FloatArray) -> Quotient:
    """Return a quotient whose top and bottom may be off by so much, besides what chance does.

    For every r, with d the standard error of top - r bottom by chance, its interval needs d + top + |r| bottom. Its
    square is at most (1 + e) d^2 + (1 + 1/e) ((1 + k) top^2 + (1 + 1/k) r^2 bottom^2) for all e, k > 0, with equality
    at the estimated r for e = (top + |r| bottom)/d and k = |r| bottom/top.
    """
    if not (top.any() or bottom.any()):
        return q
    with np.errstate(divide="ignore", invalid="ignore"):
        r = np.abs(np.where(q.bottom > 0, q.top / q.bottom, 1))
        chance = np.sqrt(np.maximum(q.top_variance - 2 * r * q.covariance + r**2 * q.bottom_variance, 0))
        e = np.clip((top + r * bottom) / chance, 0.01, 100)
        k = np.clip(r * bottom / top, 0.01, 100)
    e, k = (np.where(np.isnan(each), 1, each) for each in (e, k))
    return Quotient(
        q.top,
        q.bottom,
        (1 + e) * q.top_variance + (1 + 1 / e) * (1 + k) * top**2,
        (1 + e) * q.covariance,
        (1 + e) * q.bottom_variance + (1 + 1 / e) * (1 + 1 / k) * bottom**2,
    )


def _quotient_figure(q: Quotient) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(q.bottom > 0, q.top / q.bottom, np.nan)
        variance = q.top_variance - 2 * value * q.covariance + value**2 * q.bottom_variance
        error = np.sqrt(np.maximum(variance, 0)) / q.bottom
    nothing = np.where(np.isnan(error) & ~np.isnan(value), np.nan, 0)  # no error is known, so there are no ends
    return np.stack([value, error, *(array + nothing for array in vars(q).values())])


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


def _notes(query: Query, shown: FloatArray, parts: Sequence[_Part]) -> list[str]:
    quotients = [measure.is_quotient for measure in query.measures]
    notes = list(dict.fromkeys(note for part in parts for note in part.figures.notes()))
    if all(quotients):
        notes = [note for note in notes if not note.startswith("Unbiased")]
    if any(quotients):
        notes.append("A quotient of two estimates is unbiased only nearly; its interval is Fieller's.")
    if np.isnan(shown).any():
        notes.append(
            "No figure where the estimated total to divide by is negative, or zero up to rounding, or where a number "
            "is NaN or infinite."
        )
    return notes
