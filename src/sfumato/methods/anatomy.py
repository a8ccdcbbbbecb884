"""Anatomy: no value has more than 1/l of a bucket. Both assurances promise the same."""

from __future__ import annotations

import numpy as np

from sfumato.claims.buckets import BucketClaim
from sfumato.methods.bucketed import BucketFigures
from sfumato.methods.bucketing import Bucketing, check_frequencies, check_values, notes_of, required
from sfumato.methods.plan import Plan
from sfumato.values.profile import Profile, counts_hash
from sfumato.values.randomness import SecretKey
from sfumato.values.requirement import Diversity, Requirement

AGREE = "Anatomy as published promises the same: the two assurances agree here."


class Anatomy(Bucketing):
    """Anatomy: records in buckets of different values. It has no options."""

    name = "anatomy"
    title = "Anatomy"
    promise = (
        "The belief in a value is bounded for someone who finds the person's group and knows no association of values "
        "with other columns; not for someone who does, or who knows others of the group."
    )
    avoid_if = "the secret depends on other published columns, or someone may know others of a group."
    takes = (Diversity,)

    def claim(self, requirement: Requirement, sensitive: tuple[str, ...]) -> BucketClaim:
        return BucketClaim(self.name, self.assurance, sensitive, required(requirement, Diversity, self.name).at_most)

    def _planned(self, profile: Profile, requirement: Requirement, key: SecretKey | None) -> Plan:
        claim, ell = self.claim(requirement, profile.domain.names), required(requirement, Diversity, self.name).l
        check_values(profile, ell, "l")
        check_frequencies(
            profile, ell, "l", 'choose the method "suppression", which withholds records of the most frequent values'
        )
        none, groups = np.zeros_like(profile.counts), profile.rows // ell
        figures = BucketFigures(claim, profile.domain, profile.counts, none, groups, counts_hash(profile))
        notes = [*([] if self.assurance == "proved" else [AGREE]), *notes_of(profile)]
        return Plan.of(profile, self, figures, notes)
