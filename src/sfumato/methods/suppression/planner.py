"""The plan of Anatomy after suppression: what is withheld of each value, and what that leaves to believe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from sfumato.claims.buckets import BucketClaim
from sfumato.errors import Infeasible
from sfumato.methods.bucketed import BucketFigures
from sfumato.methods.bucketing import check_values, notes_of
from sfumato.methods.plan import Plan
from sfumato.methods.suppression.figures import SuppressionFigures, ValueBelief
from sfumato.methods.suppression.suppress import Suppression, costs, suppress
from sfumato.methods.suppression.variants import PROVED
from sfumato.values.profile import Profile, counts_hash
from sfumato.values.randomness import SecretKey, Step


def plan(profile: Profile, claim: BucketClaim, key: SecretKey | None) -> Plan:
    """Return the plan. Each one draws anew which values take which places."""
    ell = claim.at_most.denominator
    check_values(profile, ell, "l", withholding=True)
    drawn = SecretKey.fresh() if key is None or key.kept else key
    assert claim.variant is not None
    found = suppress(profile.counts, ell, claim.variant, draw=drawn.drawing(Step.SUPPRESS), always=claim.always)
    groups = int(found.kept.sum()) // ell
    if groups == 0:
        raise Infeasible(
            "R-suppression as published drew to withhold the whole table, as it can where there are as many values as "
            "l.",
            'Say variant = "rotation", which always publishes some.',
        )
    told = _figures(profile, found)
    figures = BucketFigures(
        claim, profile.domain, profile.counts, found.suppressed, groups, counts_hash(profile), suppression=told
    )
    notes = [*_notes(found, told), *notes_of(profile)]
    return replace(Plan.of(profile, (claim.method, claim.assurance), figures, notes), seeded=drawn.seeded)


def _figures(profile: Profile, found: Suppression) -> SuppressionFigures:
    violating = np.flatnonzero(found.ell * found.counts > found.counts.sum())
    values = dict(zip(*(x.tolist() for x in np.unique(found.kept, return_counts=True)), strict=True))
    return SuppressionFigures(
        violating=tuple(profile.domain.labels[code] for code in violating[np.argsort(-found.counts[violating])]),
        share=float(found.share),
        lower_bound=found.lower_bound,
        costs={name: float(cost) for name, cost in costs(found.counts, found.ell, always=found.always).items()},
        dominant_bound=_written(found.dominant_bound),
        violating_bound=_written(found.violating_bound),
        beliefs=tuple(
            ValueBelief(
                published=count,
                values=values[count],
                dominant=float(belief.dominant),
                violating=float(belief.violating),
                missing=float(belief.missing),
                member=float(belief.member),
            )
            for count, belief in sorted(found.beliefs.items(), reverse=True)
        ),
    )


def _written(bound: Fraction | None) -> str | None:
    return None if bound is None else str(bound)


def _notes(found: Suppression, figures: SuppressionFigures) -> Iterator[str]:
    if found.withheld == 0:
        yield from _whole(found)
        return
    yield (
        "Which values lose how many records was drawn when this plan was made. Publish it, or do not. Planning again "
        "until the draw is to your liking tells, by the choice, what the draw was to hide."
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


def _whole(found: Suppression) -> Iterator[str]:
    """What is said where nothing is withheld."""
    ell = found.ell
    if found.always:
        yield f"The {ell} most frequent values occur equally often: nothing has to be withheld to hide which is which."
        return
    yield f"No value has more than 1/{ell} of the table: nothing is withheld, and this is plain Anatomy."
    variant = found.variant if found.variant in PROVED else PROVED[0]
    withheld = int(costs(found.counts, ell, always=True)[variant])
    yield (
        "Must it be hidden which value is the most frequent? Then say always = true. With the variant "
        f"{variant} it is believed by at most 1/{ell}, and {withheld:,} record{'s are' if withheld != 1 else ' is'} "
        "withheld."
    )
