"""Estimates for questions about a release by groups, from the compositions of these."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from sfumato.analyst.ask.cells import Estimates, Place, Question, Source
from sfumato.analyst.counting.tally import tallied
from sfumato.analyst.grouped.dealt import MOST_VALUES, Dealt, loose_notes
from sfumato.analyst.grouped.figures import BucketFigures
from sfumato.analyst.grouped.reading import dealt
from sfumato.analyst.grouped.tally import BucketTally, bucket_tally
from sfumato.analyst.randomized.channel import ChannelTable
from sfumato.analyst.randomized.figures import Figures
from sfumato.errors import UsageError
from sfumato.release.folder import ReleaseFolder
from sfumato.release.manifest import GroupsPart
from sfumato.values.attributes import SensitiveDomain


@dataclass(frozen=True)
class Compositions:
    """Columns that only groups have. (Nothing has to be inverted, and there are no sub-tables.)"""

    domain: SensitiveDomain
    label: None = None
    tables: tuple[ChannelTable, ...] = ()

    def ask(self, question: Question) -> Source:
        """Return the estimates for a question."""
        return _FromGroups(question, self)


@dataclass(frozen=True)
class _FromGroups:
    """Records are summed anew for every grouping set: what is squared by group cannot be added up later."""

    question: Question
    origin: Compositions
    _read: dict[tuple[str, ...], BucketTally] = field(default_factory=dict)

    def figures(self, names: Sequence[str], place: Place, size: int) -> Estimates:
        q = self.question
        untouched = q.untouched(names, self.origin.domain)
        if self._is_whole(names):
            tally = tallied(q.release, self.origin, untouched, q.condition, (*q.totals, *q.products), q.weight, "whole")
            return Figures(self.origin, tally, place, size, q.rows, q.target, q.weight)
        self._check_group_column()
        found = self._dealt
        if not q.is_classical and found.most_values > MOST_VALUES:
            raise UsageError(
                f"Least squares for {found.most_values:,} values needs too much memory; {MOST_VALUES:,} are possible.",
                "Ask for the classical estimate: --method classical",
            )

        def coarser(fewer: Collection[str]) -> BucketTally:
            return self._tally(tuple(name for name in untouched if name in fewer), place)

        return BucketFigures(
            found, self._tally(tuple(untouched), place), place, size, q.rows, q.target, q.is_classical, coarser
        )

    def require_inverse(self, names: Sequence[str]) -> None:
        """Nothing is inverted before it is known what the compositions tell."""

    def notes(self) -> list[str]:
        loose = (
            []
            if not self._read or self.question.is_classical
            else loose_notes(self._dealt.loose, self._groups.dealt_within)
        )
        return [*loose, *withheld_notes(self.question.release)]

    @property
    def _groups(self) -> GroupsPart:
        return self.question.release.manifest.buckets

    @property
    def _dealt(self) -> Dealt:
        return dealt(self.question.release)

    def _is_whole(self, names: Sequence[str]) -> bool:
        asked = set(names) & set(self.origin.domain.names) or self.question.condition.values or self.question.by_value
        return not asked

    def _tally(self, untouched: tuple[str, ...], place: Place) -> BucketTally:
        q = self.question
        if untouched not in self._read:
            self._read[untouched] = bucket_tally(
                q.release, self._dealt, untouched, q.condition, place, q.totals, q.products, q.weight
            )
        return self._read[untouched]

    def _check_group_column(self) -> None:
        q, name = self.question, self._groups.group_column
        numbers = {column for number in q.totals for column in (*number.columns, *number.known)}
        if name in {*q.by, *q.condition.columns, *numbers, q.weight}:
            raise UsageError(
                f"{name!r} numbers the groups that records were dealt to: it is nothing that a record has, and what is "
                f"asked of it together with {self.origin.domain.name!r} cannot be estimated.",
                f"The table of groups tells the values of each group: {self._groups.file}",
            )


def withheld_notes(release: ReleaseFolder) -> list[str]:
    """Return what is said where not all records were published."""
    withheld = release.manifest.withheld
    if not withheld:
        return []
    return [
        f"This is about the {release.manifest.data.rows:,} published records; {withheld:,} were withheld, and "
        "which values these have is not told."
    ]
