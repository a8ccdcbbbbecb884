"""Anatomy after suppression as a method: its options, its words, and what it claims."""

from __future__ import annotations

from pydantic import field_validator, model_validator

from sfumato.claims.buckets import BucketClaim, SuppressionVariant
from sfumato.methods.bucketing import Bucketing, required
from sfumato.methods.plan import Plan
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey
from sfumato.values.requirement import Diversity, Requirement

COMPARISONS = ("unsafe-d", "minimal")
"""Variants that are never published."""


class Suppression(Bucketing):
    """Anatomy of what is left when records of too frequent values are withheld.

    `variant` is how: "rotation" (the default), "spread" or "safe-d", which are proved, or "r-suppression", which is as
    published. `always`: hide which value is the most frequent one of every table, not only of those that are not
    l-eligible. What is withheld is drawn when it is planned.
    """

    name = "suppression"
    title = "suppression and Anatomy"
    promise = (
        "As with anatomy for published records, and, where a value has more than 1/l of the table, the belief in which "
        "value that is; not for someone who misses a person in the release."
    )
    takes = (Diversity,)
    draws_plan = True

    variant: SuppressionVariant | None = None
    always: bool = False

    @property
    def chosen(self) -> SuppressionVariant:
        """The variant: by default the one of the assurance."""
        return self.variant or ("rotation" if self.assurance == "proved" else "r-suppression")

    @field_validator("variant", mode="before")
    @classmethod
    def _is_published(cls, variant: object) -> object:
        if variant in COMPARISONS:
            raise ValueError(
                f"{variant} is for comparisons only: who knows how it works can tell too much of which value was the "
                "most frequent one; choose rotation, spread or safe-d"
            )
        return variant

    @model_validator(mode="after")
    def _variant_fits(self) -> Suppression:
        if (self.chosen == "r-suppression") != (self.assurance == "as-published"):
            raise ValueError(
                f'the variant {self.chosen} does not go with assurance = "{self.assurance}": r-suppression (SK as '
                "published) does not keep its bound; rotation, spread and safe-d are the ones that are proved"
            )
        if self.always and self.chosen == "r-suppression":
            raise ValueError(
                "always does not go with r-suppression, which bounds the belief in the most frequent value of no "
                "table; it goes with rotation, spread and safe-d"
            )
        return self

    def claim(self, requirement: Requirement, sensitive: tuple[str, ...]) -> BucketClaim:
        """Return what is promised."""
        at_most = required(requirement, Diversity, self.name).at_most
        return BucketClaim(self.name, self.assurance, sensitive, at_most, self.chosen, always=self.always)

    def _planned(self, profile: Profile, requirement: Requirement, key: SecretKey | None) -> Plan:
        from sfumato.methods.suppression import planner

        return planner.plan(profile, self.claim(requirement, profile.domain.names), key)
