"""Counts with error bars from the release alone.

    inverse     unbiased, P^-1 o; may be negative for rare groups                       SDR Eq. (7), FG section III.C
    projected   the nearest table without negative counts; biased near zero
    em          iterative Bayes: the most likely table, never negative; needs no inverse; biased near zero
    classical   for releases by groups only: value and condition taken as independent inside a group; biased

Of a release by groups `inverse` is least squares on the groups' compositions, the inverse of what dealing does.
An interval is for the given table (only the randomization is random) or for the population that the table is a random
sample of. For `projected` and `em` it is the unbiased estimate's interval, cut to what is possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sqlglot import exp

from sfumato.analyst.answer import NO_ROW, Answer, Estimator, Key, Target, check_method, scattered
from sfumato.analyst.ask.cells import Cells, Estimates, Question, Source, cells_of
from sfumato.analyst.ask.conditions import not_too_deep, split_condition, unknown_values, unseen_values
from sfumato.analyst.ask.where import check, no_column, parsed
from sfumato.analyst.counting.counts import CountedRelease
from sfumato.analyst.counting.tally import COUNT, ROWS
from sfumato.analyst.randomized import bayes
from sfumato.analyst.randomized.channel import ValueWeights, is_usable
from sfumato.analyst.randomized.figures import UNBIASED, Figures, hidden_columns, source_of
from sfumato.analyst.randomized.projection import project
from sfumato.errors import UsageError
from sfumato.release.folder import manifest_types
from sfumato.values.arrays import FloatArray
from sfumato.values.attributes import SensitiveDomain

NOTHING_RANDOMIZED = "No randomized column is asked."
BIASED = "Never negative, and therefore biased near zero; the interval is the unbiased estimate's, cut to the possible."


@not_too_deep
def count(
    release: CountedRelease,
    by: str | Sequence[str] = (),
    where: str = "",
    *,
    method: Estimator = "inverse",
    target: Target = "table",
    level: float = 0.95,
) -> Answer:
    """Estimate the number of records in each group of `by`, among those that satisfy `where`."""
    by = (by,) if isinstance(by, str) else tuple(by)
    counted = Counted.of(release, by, where, method, target, level)
    numbers, tree, published = counted.estimated(), counted.tree, counted.figures.tally.records
    empty = (NO_ROW, *unseen_values(release, tree)) if tree and not published.any() else ()
    order = counted.cells.in_order(release)
    rows = np.add.outer(np.arange(published.size) * order.size, order).ravel()
    return Answer(
        tuple(key.take(rows) for key in counted.columns()),
        numbers.value.ravel()[rows],
        numbers.error.ravel()[rows],
        numbers.unbiased.ravel()[rows],
        np.repeat(published, counted.cells.size),
        method,
        target,
        level,
        (*unknown_values(tree, counted.domain), *empty, *counted.notes(), *numbers.notes),
    )


@dataclass(frozen=True, eq=False)
class Numbers:
    """Estimates of every group and cell, with standard errors and the unbiased estimates."""

    value: FloatArray  # [groups, cells]
    error: FloatArray
    unbiased: FloatArray
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Counted:
    """Published rows, counted by columns; and what can be estimated of them."""

    question: Question
    method: Estimator
    tree: exp.Expression | None
    cells: Cells
    figures: Estimates
    source: Source

    @classmethod
    def of(
        cls, release: CountedRelease, by: tuple[str, ...], where: str, method: Estimator, target: Target, level: float
    ) -> Counted:
        """Count the rows that satisfy a condition; of a randomized release it is on untouched columns."""
        types = manifest_types(release)
        for name in by:
            if name not in types:
                raise no_column(name, types)
        if len(set(by)) < len(by):
            raise UsageError("A column is named more than once in --by.", "Name each once.")
        check_method(release, method, target, level)
        tree = parsed(where, types) if where.strip() else None
        if tree is not None and not release.manifest.in_buckets:
            check(tree, types, tuple(hidden_columns(release)))  # refuses what looks at hidden columns
        source = source_of(release, by)
        condition = split_condition(release, tree, source.domain)
        if method == "projected" and condition.values:
            raise UsageError(
                f"`projected` needs groups whose size is known; a condition on {source.domain.name!r} hides it.",
                f"Group by it instead (--by {source.domain.names[0]}), or ask for `inverse`.",
            )
        classical = method == "classical"
        question = Question(release, by, (by,), condition, (COUNT,), (COUNT * COUNT,), "", target, classical)
        cells = cells_of(source.domain, by)
        figures = source.figures(question, by, cells.under(condition), cells.size)
        return cls(question, method, tree, cells, figures, source)

    @property
    def domain(self) -> SensitiveDomain:
        """The hidden columns that are asked for, and those that go with them."""
        return self.source.domain

    def columns(self) -> tuple[Key, ...]:
        """Return the columns of all groups and cells, in the order that was asked for."""
        tally, every = self.figures.tally, np.arange(self.cells.size)
        keys = self.cells.keys(tally.keys, tally.groups, every, self.question.release)
        return tuple(keys[name] for name in self.question.by)

    def notes(self) -> tuple[str, ...]:
        """Return what is to be said of the estimates."""
        tally = self.figures.tally
        spread = scattered([key.name for key in tally.keys], tally.records) if self.cells.asked else ()
        if self.question.release.manifest.in_buckets:
            biased = [BIASED] if self.method == "projected" else []
            return (*spread, *biased, *self.figures.notes(), *self.source.notes(self.question))
        if self.figures.is_whole:
            return (NOTHING_RANDOMIZED,)
        return (*spread, UNBIASED if self.method == "inverse" else BIASED)

    def estimated(self) -> Numbers:
        """Return the estimates; of sub-tables they are summed: SDR 10.10. A value that is in none gets exactly 0."""
        figures, notes = self.figures, []
        if self._has_inverse():
            numbers = _unbiased(figures)
        else:
            nothing = np.full((figures.tally.groups, self.cells.size), np.nan)
            numbers, notes = Numbers(nothing, nothing, nothing), ["A matrix has no usable inverse: no error bars."]
        value = numbers.value
        if self.method == "projected":
            value = project(value, figures.tally.records)
        elif self.method == "em" and isinstance(figures, Figures) and not figures.is_whole:
            value, more = _likeliest(figures, self.cells)
            notes += more
        return Numbers(value, numbers.error, numbers.unbiased, tuple(notes))

    def unbiased(self) -> FloatArray:
        """Return the unbiased estimates alone, [groups, cells]: their errors can take ten times as long."""
        if self._has_inverse():
            return self.figures.total(COUNT)
        return np.full((self.figures.tally.groups, self.cells.size), np.nan)

    def _has_inverse(self) -> bool:
        """Whether there are unbiased estimates; raise if there are none and nothing else was asked for."""
        figures = self.figures
        if not isinstance(figures, Figures) or figures.is_whole:
            return True
        if self.method != "em":
            figures.channel.require_inverse()
        return all(is_usable(table.matrix) for table in figures.channel.tables)


def _unbiased(figures: Estimates) -> Numbers:
    value = figures.total(COUNT)
    error = np.sqrt(np.maximum(figures.covariance(COUNT, COUNT), 0)) + figures.slack(COUNT)
    return Numbers(value, error, value)


def _likeliest(figures: Figures, cells: Cells) -> tuple[FloatArray, list[str]]:
    tables, published = figures.channel.tables, figures.tally.sums[ROWS.summed("")]
    gap = bayes.GAP / len(tables)  # log-likelihoods add up over the sub-tables
    results = [bayes.iterate(table.matrix, rows, gap) for table, rows in zip(tables, published, strict=True)]
    value = np.zeros((figures.tally.groups, cells.size))
    for table, result in zip(tables, results, strict=True):
        value += ValueWeights(table.matrix, cells.of_code[table.codes], cells.size).collected(result.value)
    if all(result.converged for result in results):
        return value, []
    most = max(result.iterations for result in results)
    return value, [f"EM stopped after {most} iterations before its stopping rule was met."]
