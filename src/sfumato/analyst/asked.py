"""A query to a release, and the estimates of each of its grouping sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sfumato.analyst.answer import NO_ROW, Estimator, Key, Target, scattered
from sfumato.analyst.ask.cells import Cells, Estimates, Question, Source, cells_of
from sfumato.analyst.ask.conditions import column_names, split_condition, unknown_values, unseen_values
from sfumato.analyst.ask.query import Query
from sfumato.analyst.counting.counts import CountedRelease
from sfumato.analyst.randomized.figures import source_of
from sfumato.errors import SingularMatrix
from sfumato.values.arrays import IntArray


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
        warnings += unknown_values(self.query.where, domain)
        if condition.rows and not any(tally.records.any() for tally in tallies):
            warnings += [NO_ROW, *unseen_values(self.question.release, self.query.where)]
        if {*self.query.by, *condition.columns, *self.query.scaled} & set(domain.names):
            for tally in tallies:
                warnings += scattered([key.name for key in tally.keys], tally.records)
        return warnings
