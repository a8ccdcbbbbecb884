"""What suppression withholds and what is left to believe: figures of a plan, and their words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sfumato.claims.buckets import BucketClaim
from sfumato.methods.plan import SHOWN_VALUES
from sfumato.show.words import share
from sfumato.values.arrays import IntArray
from sfumato.values.attributes import SensitiveDomain

COSTS = {
    "rotation": "proved",
    "spread": "proved; the least that is",
    "safe-d": "proved; bounds the belief about one missing person too",
    "r-suppression": "as published, expected; its theorem fails",
    "unsafe-d": "for comparison: no way to l-dichotomy withholds less",
    "minimal": "for comparison: the most frequent value can be told",
}


@dataclass(frozen=True)
class ValueBelief:
    """What is believed of each value with so many published records, by someone who knows the sorted counts."""

    published: int  # records
    values: int  # how many values are published with as many
    dominant: float  # that it is the most frequent value of the table
    violating: float  # that it has more than 1/l of the table
    missing: float  # that a person has it who is known to be in the table and missing from the release; 0: nobody is
    member: float  # that a person has it who is known to be in the table, and of whom nothing else is known


@dataclass(frozen=True)
class SuppressionFigures:
    """What suppression withholds, and what is left to believe. Fractions are written out, exactly."""

    violating: tuple[str, ...]  # values with more than 1/l of the table; none: nothing is suppressed, unless `always`
    share: float  # of the table that is withheld
    lower_bound: int  # no way to l-dichotomy withholds less: SK Theorem 2; 0 where no value is violating
    costs: dict[str, float]  # variant -> records it withholds; of r-suppression the expected number
    dominant_bound: str | None  # that a value is the most frequent one is believed by at most this; None: no bound
    violating_bound: str | None  # that it is one of the violating ones, by someone who knows how many there are
    beliefs: tuple[ValueBelief, ...]  # of the l most frequent values; none of the others is the most frequent one

    def explained(self, claim: BucketClaim, domain: SensitiveDomain, counts: IntArray, withheld: int) -> Iterator[str]:
        """Yield what is withheld, at what cost, and what is left to believe."""
        ell = claim.at_most.denominator
        if not withheld and not claim.always:
            yield _nothing_withheld(domain, counts, ell)
            return
        why = (
            f"more than 1/{ell} of the table has {', '.join(map(repr, self.violating))}"
            if self.violating
            else f"no value has more than 1/{ell} of the table; always = true hides all the same which is the most "
            "frequent"
        )
        yield (
            f"Suppression: {why}. The variant {claim.variant} withholds {withheld:,} records ({share(self.share, 2)}); "
            "which ones of a value is drawn."
        )
        yield f"  {'variant':14} {'withholds':>11}"
        for name, cost in self.costs.items():
            yield f"  {name:14} {cost:>11,.{0 if cost.is_integer() else 1}f}  {COSTS[name]}"
        if self.violating:
            yield f"  lower bound: {self.lower_bound:,} records"
        yield ""
        yield from self._believed()

    def _believed(self) -> Iterator[str]:
        yield "How sure someone can be of a value who knows the sorted counts of the table but not whose they are"
        yield (
            f"  {'published with':>14} {'values':>7} {'most frequent':>14} {'violating':>10} {'missing person':>15} "
            f"{'any person':>11}"
        )
        for belief in self.beliefs[:SHOWN_VALUES]:
            yield (
                f"  {belief.published:>14,} {belief.values:>7,} {belief.dominant:>14.4f} {belief.violating:>10.4f} "
                f"{belief.missing:>15.4f} {belief.member:>11.4f}"
            )
        bounds = (
            f"for each value at most {self.dominant_bound} and {self.violating_bound}, by proof; the second for "
            "someone who knows how many values are violating"
            if self.dominant_bound
            else "no bound is proved"
        )
        yield (
            f"  Most frequent, violating (more than 1/l of the table): {bounds}. Missing person: that a person has it "
            "who is known to be in the table and missing from the release. Any person: of one known to be in the "
            "table. Values with other published counts lost no record."
        )


def _nothing_withheld(domain: SensitiveDomain, counts: IntArray, ell: int) -> str:
    """A table in which no value is too frequent is published as it is."""
    top = int(counts.max())
    first = [repr(domain.labels[code]) for code in np.flatnonzero(counts == top)[:SHOWN_VALUES]]
    tied = f"The most frequent values ({', '.join(first)}) share" if len(first) > 1 else f"{first[0]} has"
    return (
        f"Suppression: no value has more than 1/{ell} of the table, so nothing is withheld. All counts are exact, and "
        f"which value is the most frequent is public: {tied} {share(top / int(counts.sum()), 2)}"
        f"{' each' if len(first) > 1 else ''}."
    )
