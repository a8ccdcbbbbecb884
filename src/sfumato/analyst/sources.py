"""Where estimates come from: the matrices of a randomized release, or the compositions of a release by groups.

Both give `Estimates` of any question, so that answers, tables and comparisons are made in one way.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sfumato.analyst.ask.cells import Place, Question, Source
from sfumato.analyst.counting.tally import Detail, Tally, tallied
from sfumato.analyst.randomized import inverse
from sfumato.analyst.randomized.channel import Channel, randomization_of
from sfumato.analyst.randomized.figures import Figures
from sfumato.release.folder import ReleaseFolder
from sfumato.values.attributes import SensitiveDomain

if TYPE_CHECKING:
    from sfumato.analyst.grouped.source import Compositions


@dataclass(frozen=True)
class Matrices:
    """Columns that were randomized."""

    channel: Channel

    @property
    def domain(self) -> SensitiveDomain:
        """The randomized columns that are asked for, and those that go with them."""
        return self.channel.domain

    def ask(self, question: Question) -> Source:
        """Return the estimates for a question."""
        return _FromMatrices(question, self.channel)


def origin_of(release: ReleaseFolder, names: Collection[str]) -> Matrices | Compositions:
    """Return where estimates of a question about these columns come from."""
    if release.manifest.in_buckets:
        from sfumato.analyst.grouped.source import Compositions

        return Compositions(release.manifest.domain)
    return Matrices(randomization_of(release).joint(names))


def hidden_columns(release: ReleaseFolder) -> dict[str, str]:
    """Return the columns that are not told row by row, each with the reason."""
    if release.manifest.in_buckets:
        return dict.fromkeys(release.manifest.domain.names, "is only in the table of groups")
    return dict.fromkeys(randomization_of(release).names, "is randomized")


@dataclass(frozen=True)
class _FromMatrices:
    """Published rows are read once for all grouping sets that lie in one of them."""

    question: Question
    channel: Channel
    _read: dict[frozenset[str], Tally] = field(default_factory=dict)

    def figures(self, names: Sequence[str], place: Place, size: int) -> Figures:
        q = self.question
        tally = self._tally(self._largest(names)).margin(names)
        return Figures(self.channel, tally, place, size, q.rows, q.target, q.weight)

    def require_inverse(self, names: Sequence[str]) -> None:
        if self._detail(self._largest(names)) != "whole":
            for table in self.channel.tables:
                inverse.require_invertible(table.matrix)

    def notes(self) -> list[str]:
        return []

    def _largest(self, names: Sequence[str]) -> frozenset[str]:
        sets = [frozenset(each) for each in self.question.sets]
        return next(large for large in sets if large >= set(names) and not any(large < other for other in sets))

    def _tally(self, names: frozenset[str]) -> Tally:
        q = self.question
        if names not in self._read:
            untouched, numbers = q.untouched(names, self.channel.domain), (*q.totals, *q.products)
            detail = self._detail(names)
            self._read[names] = tallied(q.release, self.channel, untouched, q.condition, numbers, q.weight, detail)
        return self._read[names]

    def _detail(self, names: Collection[str]) -> Detail:
        """Return how much has to be told apart of the published values."""
        if self.question.by_value or set(names) & set(self.channel.domain.names) or self.question.condition.atoms:
            return "values"
        if not self.question.condition.values:
            return "whole"
        return "chosen" if all(table.matrix.uniform_noise is not None for table in self.channel.tables) else "values"
