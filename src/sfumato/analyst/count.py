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

from sfumato.analyst.answer import ESTIMATORS, Answer, Estimator, Key, Target, check_target
from sfumato.analyst.ask.cells import Cells, Estimates, Question, Source, cells_of
from sfumato.analyst.ask.conditions import not_too_deep, split_condition, unknown_values, unseen_values
from sfumato.analyst.ask.where import check, no_column, parsed
from sfumato.analyst.counting.counts import CountedRelease
from sfumato.analyst.counting.tally import COUNT, ROWS
from sfumato.analyst.randomized import bayes, inverse
from sfumato.analyst.randomized.figures import UNBIASED, Figures, ValueWeights
from sfumato.analyst.randomized.projection import project
from sfumato.analyst.sources import hidden_columns, origin_of
from sfumato.errors import UsageError
from sfumato.release.folder import ReleaseFolder
from sfumato.release.reading import manifest_types, shown_values
from sfumato.values.arrays import FloatArray
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.text import meant

NO_ROW = "No published row satisfies the condition."
MANY_GROUPS, FEW_ROWS = 20, 3
"""From how many groups on, and below how many rows each, an answer says that it is mostly noise."""
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
    check_columns(release, by)
    check_method(release, method, target, level)
    counted = Counted.of(release, by, where, target, method)
    numbers = counted.estimated(method)
    tree = parsed(where) if where.strip() else None
    empty = (NO_ROW, *unseen_values(release, tree)) if tree and not counted.rows.any() else ()
    order = counted.cells.in_order(release)
    rows = np.add.outer(np.arange(counted.figures.groups) * order.size, order).ravel()
    return Answer(
        tuple(key.take(rows) for key in counted.keys(by)),
        numbers.value.ravel()[rows],
        numbers.error.ravel()[rows],
        numbers.unbiased.ravel()[rows],
        np.repeat(counted.rows, counted.cells.size),
        method,
        target,
        level,
        (*unknown_values(tree, counted.domain), *empty, *counted.notes(method), *numbers.notes),
    )


def check_columns(release: ReleaseFolder, by: Sequence[str]) -> None:
    """Raise unless all are columns of the release, each once."""
    known = manifest_types(release)
    for name in by:
        if name not in known:
            raise no_column(name, known)
    if len(set(by)) < len(by):
        raise UsageError("A column is named more than once in --by.", "Name each once.")


def check_method(release: ReleaseFolder, method: str, target: str, level: float) -> None:
    """Raise unless there are such estimates and intervals of this release."""
    if method not in ESTIMATORS:
        raise UsageError(f"There is no estimator {method!r}.", meant(method, ESTIMATORS, "Estimators are"))
    if method == "classical" and not release.manifest.in_buckets:
        raise UsageError(
            "The classical estimate is for releases by groups; this one is randomized.",
            "Ask for `inverse`; what counting the published rows gives is the `published` table of release.table(...).",
        )
    if method == "em" and release.manifest.in_buckets:
        raise UsageError(
            "EM needs records that were randomized one by one; in a release by groups they were dealt together.",
            "Ask for `inverse` (least squares), or for `projected`, which has no negative counts.",
        )
    check_target(target, level)


def scattered(by: Sequence[str], rows: FloatArray) -> tuple[str, ...]:
    """Return a note if rows are spread over so many groups that an estimate in one of them is mostly noise."""
    if rows.size < MANY_GROUPS or rows.sum() >= FEW_ROWS * rows.size:
        return ()
    return (
        f"The {rows.size:,} groups by {' and '.join(by)} have {rows.sum() / rows.size:.1f} published rows each, on "
        "average: an estimate within one is mostly noise. Leave out the column with the most values, or select a range "
        "of it by a condition.",
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

    release: CountedRelease
    domain: SensitiveDomain
    cells: Cells
    figures: Estimates
    source: Source

    @classmethod
    def of(
        cls, release: CountedRelease, by: Sequence[str], where: str, target: Target, method: Estimator = "inverse"
    ) -> Counted:
        """Count the rows that satisfy a condition; of a randomized release it is on untouched columns."""
        tree = parsed(where) if where.strip() else None
        if tree is not None and not release.manifest.in_buckets:
            check(tree, manifest_types(release), tuple(hidden_columns(release)))  # refuses what looks at hidden columns
        origin, by = origin_of(release, by), tuple(by)
        condition = split_condition(release, tree, origin.domain)
        if method == "projected" and condition.values:
            raise UsageError(
                f"`projected` needs groups whose size is known; a condition on {origin.domain.name!r} hides it.",
                f"Group by it instead (--by {origin.domain.names[0]}), or ask for `inverse`.",
            )
        question = Question(
            release, by, (by,), condition, (COUNT,), (COUNT * COUNT,), "", target, is_classical=method == "classical"
        )
        cells, source = cells_of(origin.domain, by), origin.ask(question)
        return cls(release, origin.domain, cells, source.figures(by, cells.under(condition), cells.size), source)

    @property
    def rows(self) -> FloatArray:
        """The published rows of each group."""
        return self.figures.records

    def keys(self, by: Sequence[str]) -> tuple[Key, ...]:
        """Return the columns of all groups and cells, in the order that was asked for."""
        size, groups = self.cells.size, self.figures.groups
        keys = {key.name: key.take(np.repeat(np.arange(groups), size)) for key in self.figures.keys}
        for part in self.domain.parts:
            if part.name in self.cells.asked:
                values = shown_values(self.release, part)
                keys[part.name] = Key(part.name, values, np.tile(self.cells.codes(part.name), groups))
        return tuple(keys[name] for name in by)

    def notes(self, method: Estimator) -> tuple[str, ...]:
        """Return what is to be said of the estimates."""
        if self.release.manifest.in_buckets:
            biased = [BIASED] if method == "projected" else []
            return (*self._scattered(), *biased, *self.figures.notes(), *self.source.notes())
        if self.figures.is_whole:
            return (NOTHING_RANDOMIZED,)
        return (*self._scattered(), UNBIASED if method == "inverse" else BIASED)

    def _scattered(self) -> tuple[str, ...]:
        return scattered([key.name for key in self.figures.keys], self.rows) if self.cells.asked else ()

    def estimated(self, method: Estimator) -> Numbers:
        """Return the estimates; of sub-tables they are summed: SDR 10.10. A value that is in none gets exactly 0."""
        if isinstance(self.figures, Figures) and not self.figures.is_whole:
            return _corrected(self.figures, self.cells, method)
        numbers = _unbiased(self.figures)
        if method != "projected":
            return numbers
        return Numbers(project(numbers.unbiased, self.rows), numbers.error, numbers.unbiased)


def _unbiased(figures: Estimates) -> Numbers:
    value = figures.total(COUNT)
    error = np.sqrt(np.maximum(figures.covariance(COUNT, COUNT), 0)) + figures.slack(COUNT)
    return Numbers(value, error, value)


def _corrected(figures: Figures, cells: Cells, method: Estimator) -> Numbers:
    """Return what the matrices make of the published rows."""
    tables = figures.channel.tables
    if method != "em":
        for table in tables:
            inverse.require_invertible(table.matrix)
    if all(inverse.is_usable(table.matrix) for table in tables):
        numbers = _unbiased(figures)
    else:
        nothing = np.full((figures.groups, cells.size), np.nan)
        numbers = Numbers(nothing, nothing, nothing, ("A matrix has no usable inverse: no error bars.",))
    if method == "inverse":
        return numbers
    if method == "projected":
        return Numbers(project(numbers.unbiased, figures.records), numbers.error, numbers.unbiased, numbers.notes)
    value, notes = _likeliest(figures, cells)
    return Numbers(value, numbers.error, numbers.unbiased, (*numbers.notes, *notes))


def _likeliest(figures: Figures, cells: Cells) -> tuple[FloatArray, tuple[str, ...]]:
    tables, published = figures.channel.tables, figures.tally.sums[ROWS.summed("")]
    gap = bayes.GAP / len(tables)  # log-likelihoods add up over the sub-tables
    results = [bayes.iterate(table.matrix, rows, gap) for table, rows in zip(tables, published, strict=True)]
    value = np.zeros((figures.groups, cells.size))
    for table, result in zip(tables, results, strict=True):
        value += ValueWeights(table.matrix, cells.of_code[table.codes], cells.size).collected(result.value)
    if all(result.converged for result in results):
        return value, ()
    most = max(result.iterations for result in results)
    return value, (f"EM stopped after {most} iterations before its stopping rule was met.",)
