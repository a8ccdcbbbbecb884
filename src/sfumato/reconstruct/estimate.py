"""Counts with error bars from the release alone.

    inverse     unbiased, P^-1 o; may be negative for rare groups                       SDR Eq. (7), FG section III.C
    projected   the nearest table without negative counts; biased near zero
    em          iterative Bayes: the most likely table, never negative; needs no inverse; biased near zero

An interval is for the given table (only the randomization is random) or for the population that the table is a random
sample of. For `projected` and `em` it is the unbiased estimate's interval, cut to what is possible.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.errors import UsageError
from sfumato.matrix import FloatArray
from sfumato.reconstruct import bayes, inverse
from sfumato.reconstruct.answer import ESTIMATORS, Answer, Estimator, Key, Target, check_target
from sfumato.reconstruct.channel import Channel, randomization_of
from sfumato.reconstruct.conditions import not_too_deep, split_condition
from sfumato.reconstruct.figures import Cells, Figures, ValueWeights, cells_of
from sfumato.reconstruct.projection import project
from sfumato.reconstruct.reading import manifest_types
from sfumato.reconstruct.tally import ROWS, Detail, Number, Tally, tallied
from sfumato.reconstruct.where import check, parsed
from sfumato.release import Release

COUNT = Number()
NO_ROW = "No published row satisfies the condition."
UNBIASED = "Unbiased; estimates of rare groups can be negative, and groups that no published row has are left out."
BIASED = "Never negative, and therefore biased near zero; the interval is the unbiased estimate's, cut to the possible."


@not_too_deep
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
    check_columns(release, by)
    check_method(method, target, level)
    counted = Counted.of(release, by, where, target)
    numbers = counted.estimated(method)
    empty = (NO_ROW,) if where.strip() and not counted.rows.any() else ()
    said = ("No randomized column is asked.",) if counted.tally.detail == "whole" else _notes(method)
    return Answer(
        counted.keys(by),
        numbers.value.ravel(),
        numbers.error.ravel(),
        numbers.unbiased.ravel(),
        np.repeat(counted.rows, counted.cells.size),
        method,
        target,
        level,
        (*empty, *said, *numbers.notes),
    )


def check_columns(release: Release, by: Sequence[str]) -> None:
    """Raise unless all are columns of the release, each once."""
    for name in by:
        if name not in release.column_names:
            near = difflib.get_close_matches(name, release.column_names, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Its columns are {', '.join(release.column_names)}."
            raise UsageError(f"The release has no column {name!r}.", hint)
    if len(set(by)) < len(by):
        raise UsageError("A column is named more than once in --by.")


def check_method(method: str, target: str, level: float) -> None:
    """Raise unless there are such estimates and intervals."""
    if method not in ESTIMATORS:
        raise UsageError(f"Estimators are {', '.join(ESTIMATORS)}.")
    check_target(target, level)


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

    channel: Channel
    tally: Tally
    cells: Cells
    figures: Figures

    @classmethod
    def of(cls, release: Release, by: Sequence[str], where: str, target: Target) -> Counted:
        """Count the rows that satisfy a condition on untouched columns."""
        randomization = randomization_of(release)
        channel = randomization.joint(by)
        domain = channel.domain
        tree = parsed(where) if where.strip() else None
        if tree is not None:
            check(tree, manifest_types(release), randomization.names)  # refuses what looks at randomized columns
        condition = split_condition(release, tree, domain)
        untouched = [name for name in by if name not in domain.names]
        detail: Detail = "whole" if len(untouched) == len(by) else "values"
        tally = tallied(release, channel, untouched, condition, [COUNT], "", detail)
        cells = cells_of(domain, tuple(by))
        rows = release.manifest.data.rows
        return cls(channel, tally, cells, Figures(channel, tally, cells.under(condition), cells.size, rows, target))

    @property
    def rows(self) -> FloatArray:
        """The published rows of each group."""
        rows: FloatArray = sum(array.sum(axis=1) for array in self.published)
        return rows

    @property
    def published(self) -> list[FloatArray]:
        """The published rows of each sub-table, [groups, values]."""
        return self.tally.sums[ROWS.summed("")]

    def keys(self, by: Sequence[str]) -> tuple[Key, ...]:
        """Return the columns of all groups and cells, in the order that was asked for."""
        size, groups = self.cells.size, self.tally.groups
        keys = {key.name: key.take(np.repeat(np.arange(groups), size)) for key in self.tally.keys}
        for part in self.channel.domain.parts:
            if part.name in self.cells.asked:
                keys[part.name] = Key(part.name, part.values, np.tile(self.cells.codes(part.name), groups))
        return tuple(keys[name] for name in by)

    def estimated(self, method: Estimator) -> Numbers:
        """Sum the sub-tables' estimates and variances: SDR Appendix 10.10. A value that is in none gets exactly 0."""
        if self.tally.detail == "whole":
            return self._unbiased()
        if method != "em":
            for table in self.channel.tables:
                inverse.require_invertible(table.matrix)
        if all(inverse.is_usable(table.matrix) for table in self.channel.tables):
            numbers = self._unbiased()
        else:
            nothing = np.full((self.tally.groups, self.cells.size), np.nan)
            numbers = Numbers(nothing, nothing, nothing, ("A matrix has no usable inverse: no error bars.",))
        if method == "inverse":
            return numbers
        if method == "projected":
            return Numbers(project(numbers.unbiased, self.rows), numbers.error, numbers.unbiased, numbers.notes)
        value, notes = self._likeliest()
        return Numbers(value, numbers.error, numbers.unbiased, (*numbers.notes, *notes))

    def _unbiased(self) -> Numbers:
        value = self.figures.total(COUNT)
        error = np.sqrt(np.maximum(self.figures.covariance(COUNT, COUNT), 0))
        return Numbers(value, error, value)

    def _likeliest(self) -> tuple[FloatArray, tuple[str, ...]]:
        tables = self.channel.tables
        gap = bayes.GAP / len(tables)  # log-likelihoods add up over the sub-tables
        results = [bayes.iterate(table.matrix, rows, gap) for table, rows in zip(tables, self.published, strict=True)]
        value = np.zeros((self.tally.groups, self.cells.size))
        for table, result in zip(tables, results, strict=True):
            value += ValueWeights(table.matrix, self.cells.of_code[table.codes], self.cells.size).collected(
                result.value
            )
        if all(result.converged for result in results):
            return value, ()
        most = max(result.iterations for result in results)
        return value, (f"EM stopped after {most} iterations before its stopping rule was met.",)


def _notes(method: Estimator) -> tuple[str, ...]:
    return (UNBIASED,) if method == "inverse" else (BIASED,)
