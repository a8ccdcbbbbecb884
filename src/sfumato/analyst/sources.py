"""Where estimates come from: the matrices of a randomized release, or the compositions of a release by groups.

Both give `Estimates` of any question, so that answers, tables and comparisons are made in one way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sfumato.analyst.answer import IntArray, Target
from sfumato.analyst.ask.cells import Estimates
from sfumato.analyst.ask.conditions import Condition
from sfumato.analyst.counting.counts import CountedRelease
from sfumato.analyst.counting.tally import Detail, Number, Tally, Truths, tallied
from sfumato.analyst.grouped.bucket_figures import BucketFigures
from sfumato.analyst.grouped.bucket_tally import BucketTally, bucket_tally
from sfumato.analyst.grouped.dealing import dealt
from sfumato.analyst.grouped.dealt import MOST_VALUES, Dealt, loose_notes
from sfumato.analyst.randomized import inverse
from sfumato.analyst.randomized.channel import Channel, ChannelTable, randomization_of
from sfumato.analyst.randomized.figures import Figures
from sfumato.errors import UsageError
from sfumato.release.folder import ReleaseFolder
from sfumato.release.manifest import GroupsPart
from sfumato.values.attributes import SensitiveDomain

Place = Callable[[Truths], IntArray]
"""Gives the cell of each code of the domain under a pattern of truths; -1 where it is not meant."""


@dataclass(frozen=True)
class Question:
    """What is asked: by which columns (in one or several sets), of which records, which totals."""

    release: CountedRelease
    by: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]
    condition: Condition
    totals: tuple[Number, ...]
    products: tuple[Number, ...]  # of the totals, for variances
    weight: str = ""
    target: Target = "table"
    is_classical: bool = False
    by_value: bool = False  # whether cells depend on hidden columns that neither `by` nor the condition names

    @property
    def rows(self) -> int:
        """All published records."""
        return self.release.manifest.data.rows

    def untouched(self, names: Collection[str], domain: SensitiveDomain) -> list[str]:
        """Return the columns among these that are not hidden, in their order."""
        return [name for name in self.by if name in names and name not in domain.names]


class Source(Protocol):
    """Estimates for a question."""

    def figures(self, names: Sequence[str], place: Place, size: int) -> Estimates:
        """Return the estimates by these columns, for `size` cells of the hidden ones among them."""

    def require_inverse(self, names: Sequence[str]) -> None:
        """Raise if matrices have to be inverted for these columns and have no inverse."""

    def notes(self) -> list[str]:
        """Return what is to be said of all answers."""


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


@dataclass(frozen=True)
class Compositions:
    """Columns that only groups have. (Nothing has to be inverted, and there are no sub-tables.)"""

    domain: SensitiveDomain
    label: None = None
    tables: tuple[ChannelTable, ...] = ()

    def ask(self, question: Question) -> Source:
        """Return the estimates for a question."""
        return _FromGroups(question, self)


Origin = Matrices | Compositions


def origin_of(release: ReleaseFolder, names: Collection[str]) -> Origin:
    """Return where estimates of a question about these columns come from."""
    if release.manifest.in_buckets:
        return Compositions(release.manifest.domain)
    return Matrices(randomization_of(release).joint(names))


def hidden_columns(release: ReleaseFolder) -> dict[str, str]:
    """Return the columns that are not told row by row, each with the reason."""
    if release.manifest.in_buckets:
        return dict.fromkeys(release.manifest.domain.names, "is only in the table of groups")
    return dict.fromkeys(randomization_of(release).names, "is randomized")


def withheld_notes(release: ReleaseFolder) -> list[str]:
    """Return what is said where not all records were published."""
    withheld = release.manifest.withheld
    if not withheld:
        return []
    return [
        f"This is about the {release.manifest.data.rows:,} published records; {withheld:,} were withheld, and "
        "which values these have is not told."
    ]


# --- randomized -------------------------------------------------------------------------------------------------------


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


# --- by groups --------------------------------------------------------------------------------------------------------


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
