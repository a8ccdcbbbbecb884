"""The plan of releases by groups: Anatomy, also after suppression, and robust Anatomy. Private to the publisher."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato import plan_files
from sfumato.attributes import SensitiveDomain
from sfumato.errors import PlanMismatch
from sfumato.groups import GroupClaim, GroupMethod
from sfumato.guarantee import Guarantee
from sfumato.plan_files import written

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class KnownShares:
    """Pr(value | signature) of one attribute set as integers: weights[s, x] / totals[s]."""

    weights: IntArray  # (signature that occurs, in ascending order of codes; value of the domain)
    totals: IntArray


@dataclass(frozen=True, eq=False)
class GroupPlan:
    """Which records are published, and in how many groups."""

    claim: GroupClaim
    domain: SensitiveDomain
    counts: IntArray  # records of each value
    withheld: IntArray  # of them, those that are not published; which ones is drawn. Robust Anatomy: in a rehearsal
    groups: int  # how many; robust Anatomy: in a rehearsal
    guarantee: Guarantee
    counts_hash: str  # of the table that was counted: for robust Anatomy the joint table
    priors: tuple[KnownShares, ...] = ()  # of each attribute set, where there is a prior
    seeded: bool = False  # whether a test seed decided which values lose records
    notes: tuple[str, ...] = ()
    dropped: int = 0
    observed: tuple[str, ...] = ()
    table_hash: str = ""
    policy_hash: str = ""

    shuffle = True
    from_table = True
    discloses_frequencies = True  # the table of the groups counts the published values

    @property
    def method(self) -> GroupMethod:
        """The name of the method."""
        return self.claim.method

    @property
    def assurance(self) -> str:
        """Proved or as published."""
        return self.claim.assurance

    @property
    def rows(self) -> int:
        """The records of the table, published or withheld."""
        return int(self.counts.sum())

    @property
    def published(self) -> IntArray:
        """The published records of each value."""
        return self.counts - self.withheld

    def bound_to(self, table_hash: str, policy_hash: str) -> GroupPlan:
        """Return the plan, valid only for this table and policy."""
        return replace(self, table_hash=table_hash, policy_hash=policy_hash)

    def require(self, table_hash: str, policy_hash: str) -> None:
        """Raise unless table and policy are the ones that were signed off."""
        plan_files.require_same("policy", self.policy_hash, policy_hash)
        plan_files.require_same("table", self.table_hash, table_hash)

    def require_counts(self, counts_hash: str) -> None:
        """Raise unless the table is the one that was planned."""
        if counts_hash != self.counts_hash:
            raise PlanMismatch(
                "The table is not the one that was planned: it has other values, or other numbers of them.",
                "Plan again with the table as it is now.",
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready values. Keys: docs/json.md."""
        raise NotImplementedError

    def to_json(self) -> str:
        """Return the plan as JSON."""
        return written(self.to_dict())
