"""Anatomy after suppression as a method: its options, what it claims, and its plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, replace
from typing import Annotated

import numpy as np
from pydantic import Field, field_validator, model_validator

from sfumato.claims.buckets import BucketClaim, SuppressionVariant
from sfumato.errors import Infeasible
from sfumato.methods.bucketed import BucketFigures
from sfumato.methods.bucketing import Bucketing, check_values, notes_of, required
from sfumato.methods.plan import Plan
from sfumato.methods.suppression.figures import SuppressionFigures, ValueBelief
from sfumato.methods.suppression.suppress import PROVED, Suppressed, costs, suppress
from sfumato.values.profile import Profile, counts_hash
from sfumato.values.randomness import SecretKey, Step
from sfumato.values.requirement import Diversity, Requirement

COMPARISONS = ("unsafe-d", "minimal")  # variants that are never published


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
    avoid_if = "every record must be published, or the secret depends on other published columns."
    takes = (Diversity,)
    draws_plan = True

    variant: Annotated[
        SuppressionVariant | None,
        Field(description="How records are chosen that are withheld; left open, by the assurance."),
    ] = None
    always: Annotated[
        bool, Field(description="Also hide which value is the most frequent where no value is too frequent.")
    ] = False

    @property
    def chosen(self) -> SuppressionVariant:
        """The variant: by default the one of the assurance."""
        return self.variant or ("rotation" if self.assurance == "proved" else "r-suppression")

    @field_validator("variant", mode="before")
    @classmethod
    def _is_published(cls, variant: object) -> object:
        if variant in COMPARISONS:
            raise ValueError(
                f"{variant} is for comparisons only: someone who knows how it works can tell too well which value was "
                "the most frequent one; choose rotation, spread or safe-d"
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
        at_most = required(requirement, Diversity, self.name).at_most
        return BucketClaim(self.name, self.assurance, sensitive, at_most, self.chosen, always=self.always)

    def _planned(self, profile: Profile, requirement: Requirement, key: SecretKey | None) -> Plan:
        """Draw anew which values take which places."""
        claim = self.claim(requirement, profile.domain.names)
        ell = claim.at_most.denominator
        check_values(profile, ell, "l", withholding=True)
        drawn = SecretKey.fresh() if key is None or key.kept else key
        found = suppress(profile.counts, ell, self.chosen, draw=drawn.drawing(Step.SUPPRESS), always=self.always)
        groups = int(found.kept.sum()) // ell
        if groups == 0:
            raise Infeasible(
                "R-suppression as published drew to withhold the whole table, as it can where there are as many values "
                "as l.",
                'Say variant = "rotation", which always publishes some.',
            )
        told = _figures(profile, found)
        figures = BucketFigures(
            claim, profile.domain, profile.counts, found.suppressed, groups, counts_hash(profile), suppression=told
        )
        notes = [*_notes(found, told), *notes_of(profile)]
        return replace(Plan.of(profile, self, figures, notes), seeded=drawn.seeded)


def _figures(profile: Profile, found: Suppressed) -> SuppressionFigures:
    violating = np.flatnonzero(found.ell * found.counts > found.counts.sum())
    values = dict(zip(*(x.tolist() for x in np.unique(found.kept, return_counts=True)), strict=True))
    return SuppressionFigures(
        violating=tuple(profile.domain.labels[code] for code in violating[np.argsort(-found.counts[violating])]),
        share=float(found.share),
        lower_bound=found.lower_bound,
        costs={name: float(cost) for name, cost in costs(found.counts, found.ell, always=found.always).items()},
        dominant_bound=None if found.dominant_bound is None else str(found.dominant_bound),
        violating_bound=None if found.violating_bound is None else str(found.violating_bound),
        beliefs=tuple(
            ValueBelief(count, values[count], *map(float, astuple(belief)))
            for count, belief in sorted(found.beliefs.items(), reverse=True)
        ),
    )


def _notes(found: Suppressed, figures: SuppressionFigures) -> Iterator[str]:
    if found.withheld == 0:
        yield from _whole(found)
        return
    yield (
        "Plan once: choosing among draws tells what this draw hides. Which values lose how many records was drawn for "
        "this plan: publish it, or do not publish."
    )
    yield (
        f"Answers refer to the {int(found.kept.sum()):,} published records. The {found.withheld:,} withheld ones have "
        f"the most frequent values, so shares of these come out too small."
    )
    if found.variant != "safe-d":
        yield (
            "The variant safe-d is the strict choice: it also bounds what someone who knows the value of no missing "
            "person believes of a person who is missing from the release, and withholds "
            f"{int(figures.costs['safe-d']):,} records."
        )


def _whole(found: Suppressed) -> Iterator[str]:
    """What is said where nothing is withheld."""
    ell = found.ell
    if found.always:
        yield f"The {ell} most frequent values occur equally often: nothing has to be withheld to hide which is which."
        return
    yield f"No value has more than 1/{ell} of the table: nothing is withheld, and this is plain Anatomy."
    variant = found.variant if found.variant in PROVED else PROVED[0]
    withheld = int(costs(found.counts, ell, always=True)[variant])
    yield (
        f"Must it be hidden which value is the most frequent? Then say always = true. With the variant {variant} it is "
        f"believed by at most 1/{ell}, and {withheld:,} record{'s are' if withheld != 1 else ' is'} withheld."
    )
