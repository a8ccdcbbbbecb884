"""The published rows as cells of a regression: counted by DuckDB where few are different, else streamed.

    few different rows     one GROUP BY of what the formula looks at and of what was published: sums by cell
    many                   the rows themselves, 131,072 at a time, as often as the fit passes over them

Published values that have the same weights are one class, and are counted as one where that is cheap to say in SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.analyst.ask.conditions import fetched
from sfumato.analyst.ask.survey import text_of
from sfumato.analyst.counting.counts import Counting
from sfumato.analyst.counting.tally import Truths, changed, numbers_in, places_of_rows
from sfumato.analyst.grouped.dealt import Dealt, dealt, whole_numbers
from sfumato.analyst.randomized.channel import Channel
from sfumato.analyst.regression.buckets import dealt_weights
from sfumato.analyst.regression.design import Column
from sfumato.analyst.regression.families import Family, Logistic, Poisson
from sfumato.analyst.regression.model import Model, Values, complete_rows
from sfumato.analyst.regression.problem import Buckets, Cells
from sfumato.analyst.regression.states import Classes
from sfumato.errors import UsageError
from sfumato.release.folder import CONDITION_ERRORS, connected, first_line, quoted, quoted_text
from sfumato.values.arrays import BoolArray, FloatArray, IntArray
from sfumato.values.attributes import Value

MOST_COUNTED = 2_000_000
"""Cells that are held; releases with more different rows are streamed."""
CELLS_AT_ONCE = 131_072
DESIGN_AT_ONCE = 4_000_000
"""Of the design, or of the weights of the states, in one batch."""
DESIGNS_KEPT = 16_000_000
"""Of the designs of all batches together, which are then made once only."""
MOST_LISTED = 2_000
"""Published values that are put into classes in SQL."""


@dataclass(frozen=True, eq=False)
class Asked:
    """What is asked of the rows: the keys of a pattern, those of what was published, and the sums."""

    model: Model

    @property
    def keys(self) -> tuple[str, ...]:
        """What cells are told apart by; first of all what must stay together."""
        apart = [] if self.model.cluster else self._stratum
        return (*self.together, *self._pattern, *self._published, *apart)

    @property
    def together(self) -> list[str]:
        """What tells the rows that must stay in one batch."""
        model = self.model
        if model.in_buckets:
            return [quoted(model.release.manifest.buckets.group_column)]
        if model.cluster:
            return [*self._stratum, quoted(model.cluster)]
        return []

    @property
    def _stratum(self) -> list[str]:
        return [text_of(self.model.survey.column)] if self.model.survey else []

    @property
    def _pattern(self) -> list[str]:
        atoms = [f"CAST(({atom}) AS BOOLEAN)" for atom in self.model.condition.atoms]
        # the GROUP BY of DuckDB takes expressions of the same value for one; casts keep the types of levels
        return [*(known.sql for known in self.model.untouched), *atoms]

    @property
    def _published(self) -> list[str]:
        return [sql for part in self.model.states.parts for sql in published_keys(part)]

    @cached_property
    def where(self) -> str:
        """The rows that are asked, as SQL."""
        return complete_rows(self.model.untouched, self.model.condition.rows)

    @cached_property
    def counting(self) -> Counting:
        """All of it, in the order of the keys."""
        weight = f"CAST({quoted(self.model.weight)} AS DOUBLE)" if self.model.weight else ""
        sums = ("count(*)", f"sum({weight})", f"sum({weight} * {weight})") if weight else ("count(*)",)
        counting = Counting(self.keys, tuple((sql, "sum") for sql in sums), self.where)
        ordered = ", ".join(counting.key_names)
        then = f"SELECT * FROM {{counted}} AS counted ORDER BY {ordered}" if ordered else ""
        return Counting(counting.keys, counting.sums, counting.where, then)

    @property
    def rows_sql(self) -> str:
        """The rows themselves, with the same columns."""
        weight = f"CAST({quoted(self.model.weight)} AS DOUBLE)" if self.model.weight else ""
        sums = ("1", weight, f"{weight} * {weight}") if weight else ("1",)
        columns = [f"{sql} AS c{k}" for k, sql in enumerate(self.keys)] + [f"{s} AS s{k}" for k, s in enumerate(sums)]
        order = f" ORDER BY {', '.join(str(k + 1) for k in range(len(self.together)))}" if self.together else ""
        where = f" WHERE {self.where}" if self.where else ""
        return f"SELECT {', '.join(columns)} FROM release{where}{order}"


def published_keys(part: Classes) -> list[str]:
    """Return what is asked of a mechanism's columns: the class, where SQL can say it; else what was published."""
    mechanism, classes = part.mechanism, len(part.weights)
    if _is_short(part):
        (domain,) = mechanism.domain.parts
        cases = [
            _listed(domain.name, [domain.values[k] for k in np.flatnonzero(part.class_of == c)], c)
            for c in range(classes)
        ]
        return [f"CASE {' '.join(cases)} END"]
    label = [f"TRY_CAST({quoted(mechanism.label)} AS INTEGER)"] if mechanism.label else []
    return [*map(quoted, mechanism.domain.names), *label]


def _is_short(part: Classes) -> bool:
    mechanism, size = part.mechanism, part.mechanism.domain.size
    is_plain = mechanism.form == "value" and mechanism.is_whole and len(mechanism.domain.parts) == 1
    return is_plain and size <= MOST_LISTED and 2 * len(part.weights) <= size


def _listed(name: str, values: Sequence[Any], number: int) -> str:
    """Return WHEN x IN (...) THEN number."""
    listed = ", ".join(_literal(value) for value in values if value is not None)
    tests = [f"{quoted(name)} IN ({listed})"] if listed else []
    tests += [f"{quoted(name)} IS NULL"] if None in values else []
    return f"WHEN {' OR '.join(tests)} THEN {number}"


def _literal(value: Value) -> str:
    return quoted_text(value) if isinstance(value, str) else str(value)


# --- answers as arrays ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rows:
    """Cells (or rows) with what is known of each; nothing is multiplied out yet."""

    together: IntArray | None  # the cluster, or the bucket from 0
    stratum: IntArray | None  # of the survey
    factors: dict[str, FloatArray]  # of each untouched factor, its numbers
    truths: IntArray  # of the condition's atoms, a digit to the base 3 for each
    classes: tuple[IntArray, ...]  # under each mechanism
    rows: FloatArray
    count: FloatArray
    squares: FloatArray

    @property
    def size(self) -> int:
        return self.rows.size

    def slice(self, part: slice) -> Rows:
        """Return some of them."""
        return Rows(
            None if self.together is None else self.together[part],
            None if self.stratum is None else self.stratum[part],
            {name: values[part] for name, values in self.factors.items()},
            self.truths[part],
            tuple(own[part] for own in self.classes),
            *(array[part] for array in (self.rows, self.count, self.squares)),
        )

    @cached_property
    def starts(self) -> BoolArray:
        """Where a cell has another pattern than the one before it."""
        starts = np.zeros(self.size, dtype=np.bool_)
        starts[:1] = True
        for values in (*self.factors.values(), self.truths):
            starts[1:] |= values[1:] != values[:-1]
        return starts


def rows_of(model: Model, table: Any) -> Rows:
    """Return an Arrow table of what `Asked` asks for as arrays."""
    columns, together, stratum = iter(table.columns), None, None
    if model.in_buckets:
        together = whole_numbers(next(columns).combine_chunks()) - 1
    elif model.cluster:
        stratum = model.survey.codes(next(columns)) if model.survey else None
        together = _clusters(next(columns), stratum)
    factors = {known.text: known.column(next(columns)) for known in model.untouched}
    truths = np.zeros(table.num_rows, dtype=np.int64)
    for k in range(len(model.condition.atoms)):
        truth = next(columns).combine_chunks()
        truths += 3**k * np.asarray(truth.cast("int8").fill_null(2)).astype(np.int64)
    classes = tuple(_classes(part, columns, table.num_rows) for part in model.states.parts)
    if model.survey and not model.cluster:
        stratum = model.survey.codes(next(columns))
    rows, *weighted = (numbers_in(column) for column in columns)
    count, squares = weighted or (rows, rows)
    return Rows(together, stratum, factors, truths, classes, rows, count, squares)


def _clusters(column: Any, stratum: IntArray | None) -> IntArray:
    """Return the number of each row's cluster; those of one name in two survey strata are two."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    number = np.asarray(encoded.indices).astype(np.int64)
    return number if stratum is None else number + stratum * (int(number.max(initial=0)) + 1)


def _classes(part: Classes, columns: Iterator[Any], rows: int) -> IntArray:
    """Return the class of what each row published."""
    mechanism = part.mechanism
    if _is_short(part):
        found = next(columns).combine_chunks()
        if found.null_count:
            raise changed(f"a value of {mechanism.domain.name!r} that is none of its domain")
        classes: IntArray = np.asarray(found).astype(np.int64)
        return classes
    channel = Channel(mechanism.domain, mechanism.tables, mechanism.published, mechanism.label)
    table, place = places_of_rows(channel, columns, rows, "values")
    return np.asarray(part.class_of[part.start[table] + place])


# --- sources ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """Questions about effects: a factor set to a number, or to the number of a level, and factors with a slope."""

    values: tuple[tuple[str, float], ...] = ()
    slopes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Reading:
    """What cells and streams have in common: the columns, and how rows become cells."""

    model: Model
    settings: Settings = field(default=Settings(), kw_only=True)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the design."""
        return tuple(column.name for column in self.model.columns)

    @property
    def indicator(self) -> tuple[bool, ...]:
        """Which of them are 0 or 1 for a level."""
        return tuple(column.is_indicator for column in self.model.columns)

    @property
    def opposite(self) -> tuple[str, ...]:
        """Of whom the outcome is looked at on the other side of a factor with two levels."""
        outcome = self.model.outcome.text
        return tuple(c.opposite and f"{outcome} among {c.opposite}" for c in self.model.columns)

    @property
    def family(self) -> Family:
        """That of the outcome."""
        return self.model.family

    @cached_property
    def _deal(self) -> Dealt:
        return dealt(self.model.release)

    @cached_property
    def buckets(self) -> Buckets | None:
        """The deal, of a release by buckets."""
        if not self.model.in_buckets:
            return None
        return _buckets(self._deal, self.model)

    @cached_property
    def _dealt_weights(self) -> FloatArray:
        assert self.buckets is not None
        return dealt_weights(self.buckets)

    @property
    def states(self) -> int:
        """The states that the design tells apart: one where no covariate is hidden."""
        hidden = {known.text for known in self.model.hidden}
        seen = any(name in hidden for column in self.model.columns for name in column.factors)
        return self.model.states.size if seen else 1

    @property
    def step(self) -> int:
        """How many cells a batch has; designs of questions count, too."""
        numbers = max(len(self.model.columns) * self.states, self.model.states.size)
        designs = 1 + len(self.settings.values) + len(self.settings.slopes)
        return max(1, min(CELLS_AT_ONCE, DESIGN_AT_ONCE // (numbers * designs)))

    def cells(self, rows: Rows, *, patterned: bool) -> Cells:
        """Return rows multiplied out."""
        model = self.model
        _check_outcome(model, rows)
        first = np.flatnonzero(rows.starts) if patterned else np.arange(rows.size)
        values = {name: numbers[first][:, None] for name, numbers in rows.factors.items()}
        weights, published, naive, chances = self._weights(rows)
        return Cells(
            weights=weights,
            design=_for_each(model.design(values), first.size),
            outcome=model.outcomes(values),
            count=rows.count,
            squares=rows.squares,
            pattern=np.cumsum(rows.starts) - 1 if patterned else None,
            published=published,
            naive=naive,
            chances=chances,
            used=self._used(rows.truths[first]),
            offset=model.offsets(values, first.size),
            cluster=rows.together if model.cluster else None,
            stratum=rows.stratum,
            units=None if model.survey is None else model.survey.units,
            group=rows.together if model.in_buckets else None,
            settings=self._designs([(values, {name: x}) for name, x in self.settings.values], first.size),
            slopes=self._slopes(values, first.size),
        )

    def _designs(self, asked: Sequence[tuple[Values, dict[str, float]]], patterns: int) -> FloatArray | None:
        """Return the design with a factor set to a number, for each question."""
        if not asked:
            return None
        made = [self.model.design(values, set_to) for values, set_to in asked]
        states = max(design.shape[1] for design in made)
        return np.array([np.broadcast_to(design, (patterns, states, design.shape[2])) for design in made])

    def _slopes(self, values: Values, patterns: int) -> FloatArray | None:
        """Return the derivative of the design by a factor, for each question: columns without it have none."""
        made = self._designs([(values, {name: 1.0}) for name in self.settings.slopes], patterns)
        if made is not None:
            for place, name in enumerate(self.settings.slopes):
                made[place][..., [name not in column.factors for column in self.model.columns]] = 0.0
        return made

    def _weights(self, rows: Rows) -> tuple[FloatArray, IntArray | None, FloatArray | None, FloatArray | None]:
        """Return b, the state that is shown or the weights of the naive fit, and the chances."""
        states = self.model.states
        if self.buckets is not None:
            assert rows.together is not None
            shares = self.buckets.compositions / self.buckets.compositions.sum(axis=1, keepdims=True)
            return self._dealt_weights[rows.together], None, shares[rows.together], None
        if not states.parts:
            return np.ones((rows.size, 1)), np.zeros(rows.size, dtype=np.int64), None, np.ones((rows.size, 1))
        weights, chances = states.weights(rows.classes), states.chances(rows.classes)
        if states.shows_states:
            return weights, states.published(rows.classes), None, chances
        return weights, None, states.shown(rows.classes), chances

    def _used(self, truths: IntArray) -> BoolArray | None:
        """Return the states that count, (patterns or 1, states)."""
        model, atoms = self.model, len(self.model.condition.atoms)
        seen, place = np.unique(truths, return_inverse=True) if atoms else (np.zeros(1, dtype=np.int64), None)
        used = np.array([model.used(_truths(code, atoms)) for code in seen.tolist()])
        if used.all():
            return None
        return used if place is None else used[place.reshape(-1)]


def _truths(code: int, atoms: int) -> Truths:
    return tuple((False, True, None)[code // 3**k % 3] for k in range(atoms))


def _for_each(design: FloatArray, patterns: int) -> FloatArray:
    """Return the design with a row for each pattern."""
    return design if len(design) == patterns else np.broadcast_to(design, (patterns, *design.shape[1:]))


def _check_outcome(model: Model, rows: Rows) -> None:
    """Raise if the outcome of a row is not possible."""
    values = rows.factors.get(model.outcome.text)
    if values is None or model.outcome.levels is not None:
        return
    wrong, wanted = np.zeros(0), ""
    if isinstance(model.family, Logistic):
        wrong, wanted = values[(values != 0) & (values != 1)], "0 or 1"
    if isinstance(model.family, Poisson):
        wrong, wanted = values[values < 0], "0 or more"
    if wrong.size:
        raise UsageError(
            f"The outcome {model.outcome.text} must be {wanted}, and a row has {wrong[0]:g}.",
            f"Write a condition, {model.outcome.text} > 0 ~ ..., or take the family linear (--family linear).",
        )


@dataclass(frozen=True, eq=False)
class CellSource(_Reading):
    """Cells that were counted."""

    counted: Rows
    _kept: list[Cells] = field(default_factory=list)

    def asked(self, settings: Settings) -> CellSource:
        """Return the same cells with the designs of these settings."""
        return CellSource(self.model, self.counted, settings=settings)

    @property
    def _is_small(self) -> bool:
        """Whether all cells can be held at once."""
        patterns = self.counted.size if self.counted.together is not None else int(self.counted.starts.sum())
        designs = 1 + len(self.settings.values) + len(self.settings.slopes)
        numbers = patterns * len(self.model.columns) * self.states * designs
        return numbers + self.counted.size * self.model.states.size <= DESIGNS_KEPT // 2

    def batches(self) -> Iterator[Cells]:
        """Yield the cells, as many at a time as can be held."""
        if self._kept:
            yield from self._kept
            return
        patterned = not (self.model.cluster or self.model.in_buckets)
        slices = [slice(0, self.counted.size)] if self._is_small else list(_slices(self.counted, self.step))
        numbers = 0
        for part in slices:
            cells = self.cells(self.counted.slice(part), patterned=patterned)
            numbers += cells.design.size + cells.weights.size
            if numbers <= DESIGNS_KEPT:
                self._kept.append(cells)
            yield cells
        if len(self._kept) < len(slices):
            self._kept.clear()


@dataclass(frozen=True, eq=False)
class StreamSource(_Reading):
    """Rows that are read anew for each pass."""

    def asked(self, settings: Settings) -> StreamSource:
        """Return the same rows with the designs of these settings."""
        return StreamSource(self.model, settings=settings)

    def batches(self) -> Iterator[Cells]:
        """Yield the rows in their order, those that must stay together in one batch."""
        model, asked, rest = self.model, Asked(self.model), None
        query, keys = asked.rows_sql, asked.together
        with connected(model.release, as_numbers=True) as opened:
            try:
                for batch in opened.sql(query).to_arrow_reader(self.step):
                    table = pa.Table.from_batches([batch])
                    if model.cluster or model.in_buckets:
                        table, rest = _cut(table if rest is None else pa.concat_tables([rest, table]), len(keys))
                    if table.num_rows:
                        yield self.cells(rows_of(model, table), patterned=False)
                if rest is not None and rest.num_rows:
                    yield self.cells(rows_of(model, rest), patterned=False)
            except CONDITION_ERRORS as problem:
                raise UsageError(f"The formula does not fit: {first_line(problem)}.", "Change it.") from None


def _cut(table: Any, keys: int) -> tuple[Any, Any]:
    """Return the rows before the last cluster or bucket, told by the first columns, and its own."""
    same = np.ones(table.num_rows, dtype=np.bool_)
    for column in table.columns[:keys]:
        codes = np.asarray(column.combine_chunks().dictionary_encode(null_encoding="encode").indices)
        same &= codes == codes[-1] if codes.size else same
    first = int(np.flatnonzero(same)[0]) if same.size else 0
    return table.slice(0, first), table.slice(first)


def _slices(rows: Rows, step: int) -> Iterator[slice]:
    """Give the batches; what must stay together is not cut."""
    ends = np.arange(step, rows.size + step, step)
    if rows.together is not None:
        whole = np.append(np.flatnonzero(np.diff(rows.together)) + 1, rows.size)
        ends = np.unique(whole[np.searchsorted(whole, np.minimum(ends, rows.size))])
    start = 0
    for end in np.minimum(ends, rows.size).tolist():
        if end > start:
            yield slice(start, end)
        start = end


def _buckets(deal: Dealt, model: Model) -> Buckets:
    """Return the compositions of all groups, their strata and which of them are loose."""
    domain, kinds = model.release.manifest.domain, np.asarray(deal.kinds.column("kind")).astype(np.int64)
    compositions = np.zeros((kinds.size, domain.size))
    stratum = np.zeros(kinds.size, dtype=np.int64)
    for number, (own, start) in enumerate(zip(deal.deal.strata, deal.deal.first_kind[:-1].tolist(), strict=True)):
        dense = np.zeros((own.counts.rows, domain.size))
        dense[own.counts.row, own.codes[own.counts.value]] = own.counts.count
        inside = (kinds >= start) & (kinds < start + own.counts.rows)
        compositions[inside] = dense[kinds[inside] - start]
        stratum[inside] = number
    loose = kinds >= deal.first_loose
    if loose.any():
        counts = deal.loose.counts
        dense = np.zeros((counts.rows, domain.size))
        dense[counts.row, counts.value] = counts.count
        compositions[loose] = dense[deal.loose.kind[kinds[loose] - deal.first_loose]]
    strata = len(deal.deal.strata)
    return Buckets(compositions, domain.labels, stratum if strata > 1 else None, loose if loose.any() else None)


def source_of(model: Model) -> CellSource | StreamSource:
    """Return the rows of a release for a model: counted into cells, or streamed where too many are different."""
    asked = Asked(model)
    rows = model.release.manifest.data.rows
    if rows > MOST_COUNTED and (asked.together or _different(asked) > MOST_COUNTED):
        return StreamSource(model)
    counted = rows_of(model, fetched(model.release, asked.counting, "The formula"))
    if not counted.rows.sum():
        raise UsageError("No published row is left to fit a model to.", "Choose a wider condition, or other columns.")
    return CellSource(_without_empty(model, counted), counted)


def _without_empty(model: Model, rows: Rows) -> Model:
    """Return the model without products of levels that no row has: nothing tells their coefficients."""
    kept = tuple(column for column in model.columns if _has_rows(column, rows))
    return model if len(kept) == len(model.columns) else replace(model, columns=kept)


def _has_rows(column: Column, rows: Rows) -> bool:
    inside = np.ones(rows.size, dtype=np.bool_)
    for name, level in column.levels:
        if name in rows.factors:
            inside &= rows.factors[name] == level
    return bool(inside.any())


def _different(asked: Asked) -> float:
    """Return how many cells there are, to a few percent, without holding them."""
    hashed = f"approx_count_distinct(hash({', '.join(asked.keys)}))" if asked.keys else "1"
    found = fetched(asked.model.release, Counting((), ((hashed, "sum"),), asked.where), "The formula")
    return float(found.columns[0][0].as_py())
