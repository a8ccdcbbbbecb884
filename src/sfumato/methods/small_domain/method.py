"""Small domain randomization as a method: its options, its words, and what its plan must meet."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from sfumato.methods.method import Method, Probability, between
from sfumato.methods.small_domain.partition import MINIMUM_SIZE
from sfumato.values.attributes import Schema
from sfumato.values.mechanism import LABEL
from sfumato.values.profile import Profile
from sfumato.values.requirement import Requirement, RhoPrivacy, exact

if TYPE_CHECKING:
    from sfumato.methods.plan import AnyPlan
    from sfumato.values.randomness import SecretKey


class SmallDomain(Method):
    """Small domain randomization: records are dealt to sub-tables with few values each, and perturbed there.

    `minimum_sub_table` is the least number of records of a sub-table, where the bound is proved. Error bounds hold with
    the confidence 1 - `delta`.
    """

    name = "small-domain"
    title = "small domain randomization"
    promise = (
        "The belief in a value is bounded for who sees the person's row and has the shares of its sub-table for his "
        "prior; not for one who knows how many records of the sub-table have each value."
    )
    takes = (RhoPrivacy,)
    keeps_order = True
    added = (LABEL,)
    drawn_anew = "which sub-table a record is in"
    why_not_one = "how many records of each value are kept is known only when they are drawn"

    minimum_sub_table: Annotated[int, Field(ge=1)] = MINIMUM_SIZE
    delta: Probability = 0.05

    @property
    def doubt(self) -> Fraction:
        """Delta, exactly."""
        return between(self.delta, "delta", strictly=True)

    def check_numbers(self) -> None:
        """Raise if delta is no probability."""
        _ = self.doubt

    def _planned(self, profile: Profile, requirement: Requirement, key: SecretKey | None) -> AnyPlan:
        from sfumato.methods.small_domain import planner

        return planner.plan(profile, requirement, self)

    def meets(self, plan: AnyPlan, requirement: Requirement, columns: Schema) -> bool:
        """Whether the partition is of the requirement, the doubt and the size that are asked for."""
        from sfumato.methods.plan import Plan

        if not isinstance(plan, Plan) or plan.partition is None or not isinstance(requirement, RhoPrivacy):
            return False
        asked = [str(number) for number in (exact(requirement.rho1), exact(requirement.rho2), self.doubt)]
        least = 0 if self.assurance == "as-published" else self.minimum_sub_table
        planned = plan.partition
        return (asked, least) == ([planned.rho1, planned.rho2, planned.delta], planned.minimum_size)
