"""What the planners of Anatomy, suppression and robust Anatomy share."""

from __future__ import annotations

from typing import Literal, TypeVar

import numpy as np

from sfumato.claims.buckets import BucketClaim
from sfumato.claims.claim import Shape
from sfumato.errors import Infeasible, PolicyError, TableError
from sfumato.methods.bucket_plan import GroupPlan
from sfumato.methods.notes import domain_notes
from sfumato.values.arrays import IntArray
from sfumato.values.profile import Profile, counts_hash
from sfumato.values.requirement import Diversity, Requirement, Robustness

Asked = TypeVar("Asked", Diversity, Robustness)

TRUE_VALUES = (
    "All published values are true. An analyst estimates how they go with other columns from the groups, with error "
    "bars: docs/analyst.md."
)


def in_groups(profile: Profile, claim: BucketClaim, withheld: IntArray, groups: int) -> GroupPlan:
    """Return a plan with what all methods state alike."""
    return GroupPlan(
        claim=claim,
        domain=profile.domain,
        counts=profile.counts,
        withheld=withheld,
        groups=groups,
        guarantee=claim.guarantee(Shape(withheld=int(withheld.sum()))),
        counts_hash=counts_hash(profile),
        notes=(TRUE_VALUES, *domain_notes(profile)),
        dropped=profile.dropped,
        uniqueness=profile.uniqueness,
        observed=profile.observed,
        computed_from_table=(*profile.computed_from_table, *claim.facts()),
    )


# --- refusals ---------------------------------------------------------------------------------------------------------


def asked(requirement: Requirement, kind: type[Asked], method: str) -> Asked:
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
            f"{profile.domain.labels[most]!r} is {records / profile.rows:.1%} of {profile.domain.name!r}, above "
            f"1/{number} = {1 / number:.1%} ({letter} = {number}).",
            f"{less}.",
        )
