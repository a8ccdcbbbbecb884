"""Small domain randomization as a method: its options, its words, and what its plan must meet."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

from pydantic import Field

from sfumato.methods.method import Method, Probability, between
from sfumato.methods.perturbed import PerturbationFigures
from sfumato.methods.plan import Plan
from sfumato.methods.small_domain.partition import MINIMUM_SIZE
from sfumato.values.attributes import Schema
from sfumato.values.mechanism import LABEL
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey
from sfumato.values.requirement import Requirement, RhoPrivacy, exact


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
    figures = PerturbationFigures
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

    def _planned(self, profile: Profile, requirement: Requirement, key: SecretKey | None) -> Plan:
        from sfumato.methods.small_domain import planner

        return planner.plan(profile, requirement, self)

    def asked(self, requirement: Requirement, columns: Schema) -> object:
        """Return the requirement, the doubt and the size that are asked for."""
        assert isinstance(requirement, RhoPrivacy)
        least = 0 if self.assurance == "as-published" else self.minimum_sub_table
        return str(exact(requirement.rho1)), str(exact(requirement.rho2)), str(self.doubt), least
