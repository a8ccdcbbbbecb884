"""Anatomy: no value has more than 1/l of a bucket. Both assurances promise the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.claims.buckets import BucketClaim
from sfumato.methods.bucketing import Bucketing
from sfumato.methods.buckets import asked, check_frequencies, check_values, in_groups
from sfumato.values.profile import Profile
from sfumato.values.requirement import Diversity, Requirement

if TYPE_CHECKING:
    from sfumato.methods.bucket_plan import GroupPlan
    from sfumato.values.randomness import SecretKey


class Anatomy(Bucketing):
    """Anatomy: records in buckets of different values. It has no options."""

    name = "anatomy"
    title = "Anatomy"
    promise = (
        "The belief in a value is bounded for who finds the person's group and knows no association of values with "
        "other columns; not for one who does, or who knows others of the group."
    )
    takes = (Diversity,)

    def claim(self, requirement: Requirement, sensitive: tuple[str, ...]) -> BucketClaim:
        """Return what is promised."""
        return BucketClaim("anatomy", self.assurance, sensitive, asked(requirement, Diversity, self.name).at_most)

    def _planned(self, profile: Profile, requirement: Requirement, key: SecretKey | None) -> GroupPlan:
        claim, ell = self.claim(requirement, profile.domain.names), asked(requirement, Diversity, self.name).l
        check_values(profile, ell, "l")
        check_frequencies(
            profile, ell, "l", 'choose the method "suppression", which withholds records of the most frequent values'
        )
        made = in_groups(profile, claim, np.zeros_like(profile.counts), profile.rows // ell)
        if self.assurance == "proved":
            return made
        agree = "Anatomy as published promises the same: the two assurances agree here."
        return replace(made, notes=(agree, *made.notes))
