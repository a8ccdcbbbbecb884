"""What the methods share that publish two tables, joined by the number of a bucket: options, notes, refusals."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, TypeVar

import numpy as np

from sfumato.claims.buckets import BucketClaim
from sfumato.errors import Infeasible, PolicyError, TableError
from sfumato.methods.bucketed import BucketFigures
from sfumato.methods.method import Method
from sfumato.show.words import share
from sfumato.values.attributes import Schema
from sfumato.values.bucket_deal import COUNT, GROUP
from sfumato.values.profile import Profile, domain_notes
from sfumato.values.requirement import Diversity, Requirement, Robustness

Asked = TypeVar("Asked", Diversity, Robustness)

TRUE_VALUES = (
    "All published values are true. An analyst estimates how they go with other columns from the groups, with error "
    "bars: docs/analyse/groups.md."
)


class Bucketing(Method):
    """Records are published as they are, and the sensitive values of each bucket apart from them."""

    figures = BucketFigures
    publishes_buckets = True
    added = (GROUP, COUNT)
    drawn_anew = "which group a record is in"
    why_not_one = "how many records of each value are kept is known only when they are drawn"

    @abstractmethod
    def claim(self, requirement: Requirement, sensitive: tuple[str, ...]) -> BucketClaim:
        """Return what is promised; raise `PolicyError` if the requirement is of another kind."""

    def asked(self, requirement: Requirement, columns: Schema) -> BucketClaim:
        """Return what is promised."""
        return self.claim(requirement, tuple(columns.names("sensitive")))

    def check(self, columns: Schema) -> None:
        """Raise unless one column is sensitive."""
        if len(hidden := columns.names("sensitive")) > 1:
            raise ValueError(
                f"{self.name} takes one sensitive column, not {' and '.join(hidden)}: it bounds the belief in a "
                "combination of their values, and a group of different combinations may have one value of one column "
                "throughout; if combinations are what is to be hidden, join the columns to one, or choose another "
                "method"
            )


def notes_of(profile: Profile) -> list[str]:
    """Return what is said of all such releases."""
    return [TRUE_VALUES, *domain_notes(profile)]


# --- refusals ---------------------------------------------------------------------------------------------------------


def required(requirement: Requirement, kind: type[Asked], method: str) -> Asked:
    """Return the requirement, if it is of the method's kind."""
    if not isinstance(requirement, kind):
        key = "l" if kind is Diversity else "r"
        raise PolicyError(
            f"The method {method} takes the requirement {key}, and no other.",
            f"State {key} = 3, for instance: no value of a record is believed in by more than one third.",
        )
    return requirement


def check_values(profile: Profile, number: int, letter: Literal["l", "r"], *, withholding: bool = False) -> None:
    """Raise if fewer than l (or r) values occur. Where nothing is withheld, the most frequent one limits l too."""
    name, occurring = profile.domain.name, int(np.count_nonzero(profile.counts))
    if occurring == 1:
        raise TableError(
            f"One value of {name!r} only occurs: every release tells it of everybody.",
            "Choose another sensitive column.",
        )
    if occurring < number:
        largest = occurring if withholding else min(occurring, profile.rows // int(profile.counts.max()))
        less = f"Ask for {letter} <= {largest}, or c" if largest > 1 else "C"
        raise Infeasible(
            f"Only {occurring} values of {name!r} occur, fewer than {letter} = {number}: one of them has more than "
            f"1/{number} of whatever is published.",
            f"{less}hoose a column with more values.",
        )


def check_frequencies(profile: Profile, number: int, letter: Literal["l", "r"], instead: str) -> None:
    """Raise if a value has more than 1/l (or 1/r) of the records."""
    most = int(profile.counts.argmax())
    records = int(profile.counts[most])
    if number * records > profile.rows:
        largest = profile.rows // records
        less = f"Ask for {letter} <= {largest}, or {instead}" if largest > 1 else instead[0].upper() + instead[1:]
        raise Infeasible(
            f"{profile.domain.labels[most]!r} is {share(records / profile.rows)} of {profile.domain.name!r}, above "
            f"1/{number} = {share(1 / number)} ({letter} = {number}).",
            f"{less}.",
        )
