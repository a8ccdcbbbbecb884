"""What the methods share that publish two tables, joined by the number of a bucket; `buckets` is of their plans."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from sfumato.claims.buckets import BucketClaim
from sfumato.methods.method import Method
from sfumato.values.attributes import Schema
from sfumato.values.bucket_deal import COUNT, GROUP
from sfumato.values.requirement import Requirement

if TYPE_CHECKING:
    from sfumato.methods.plan import AnyPlan


class Bucketing(Method):
    """Records are published as they are, and the sensitive values of each bucket apart from them."""

    publishes_buckets = True
    added = (GROUP, COUNT)
    drawn_anew = "which group a record is in"
    why_not_one = "how many records of each value are kept is known only when they are drawn"

    @abstractmethod
    def claim(self, requirement: Requirement, sensitive: tuple[str, ...]) -> BucketClaim:
        """Return what is promised; raise `PolicyError` if the requirement is of another kind."""

    def check(self, columns: Schema) -> None:
        """Raise unless one column is sensitive."""
        if len(hidden := columns.names("sensitive")) > 1:
            raise ValueError(
                f"{self.name} takes one sensitive column, not {' and '.join(hidden)}: it bounds the belief in a "
                "combination of their values, and a group of different combinations may have one value of one column "
                "throughout; if combinations are what is to be hidden, join the columns to one, or choose another "
                "method"
            )

    @classmethod
    def read_plan(cls, raw: dict[str, Any]) -> AnyPlan:
        """Return a plan in buckets."""
        from sfumato.methods.bucket_plan import GroupPlan

        return GroupPlan.from_dict(raw)

    def meets(self, plan: AnyPlan, requirement: Requirement, columns: Schema) -> bool:
        """Whether the plan promises the same."""
        from sfumato.methods.bucket_plan import GroupPlan

        return (
            isinstance(plan, GroupPlan)
            and isinstance(requirement, self.takes)
            and plan.claim == self.claim(requirement, tuple(columns.names("sensitive")))
        )
