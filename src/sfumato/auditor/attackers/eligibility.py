"""The attacker who looks for the dominant value of a table that was suppressed (SK).

It sees how many records are published of each value, and knows the algorithm and |T|. If records are withheld, it knows
that some values have more than |T|/l records (unless the most frequent value is hidden always), and asks which. If
none are withheld, all counts are exact: it reads off which value is the most frequent, and no bound covers that.
Beforehand all values are alike to it. It knows besides either

    shape      the sorted counts of the table, but not whose they are
    uniform    nothing: every table of |T| records in which each of these values occurs is equally likely

By Bayes' rule, in fractions. `uniform` goes through all sorted tables F that can lead to the published counts, each as
often as it can be labelled: only the l most frequent values lose records, so F_i beyond l is published as it is, and
F_1, ..., F_l are what is published or more, with |T_S| more in all. Up to `MOST_TABLES` of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from operator import mul
from typing import Literal

import numpy as np

from sfumato.auditor.attacker import NO_GROUPS, Attacker, Listed
from sfumato.auditor.evidence import DoesNotApply, Evidence
from sfumato.auditor.finding import SHOWN, Exposed, Finding
from sfumato.errors import UsageError
from sfumato.methods.suppression.levels import Levels
from sfumato.methods.suppression.r_suppression import chances
from sfumato.methods.suppression.seats import Belief, Law, Seating, beliefs, law_of_one
from sfumato.methods.suppression.suppress import PROVED, Variant, published, seat, violating
from sfumato.release.manifest import Manifest
from sfumato.show.words import percent
from sfumato.values.arrays import IntArray

Counts = tuple[int, ...]
Prior = Literal["shape", "uniform"]
Aim = Literal["dominant", "violating"]

MOST_TABLES = 20_000  # sorted tables that `uniform` goes through: some seconds


@dataclass(frozen=True, eq=False)
class Suspicion:
    variant: Variant
    ell: int
    prior: Prior
    kept: IntArray  # value -> published records
    size: int  # |T|
    beliefs: Mapping[int, Belief]  # published count -> belief about each value with it, of the l most frequent
    always: bool = False  # whether the most frequent value of every table is hidden

    @property
    def hidden(self) -> bool:
        """Whether the release hides which value is the most frequent: not if the table is published as it is."""
        return self.always or int(self.kept.sum()) < self.size

    def of(self, value: int) -> Belief:
        """Return the belief about a value; one with another count than the l most frequent is not S_1, and whole."""
        count, none = int(self.kept[value]), Fraction(0)
        return self.beliefs.get(count, Belief(none, none, none, member=Fraction(count, self.size)))

    def chance(self, value: int, aim: Aim) -> Fraction:
        belief = self.of(value)
        return belief.dominant if aim == "dominant" else belief.violating

    @property
    def number_violating(self) -> Fraction:
        """How many values are violating in the attacker's eyes: k, or what is expected of it."""
        return sum((self.of(value).violating for value in range(self.kept.size)), Fraction(0))

    def bound(self, aim: Aim) -> Fraction:
        """1/l for being dominant, k/l for being violating."""
        return (Fraction(1) if aim == "dominant" else self.number_violating) / self.ell


# --- someone who knows the sorted counts ------------------------------------------------------------------------------


def by_shape(counts: IntArray, kept: IntArray, ell: int, variant: Variant, always: bool = False) -> Suspicion:
    """Return the beliefs of someone who knows the sorted counts; counts, kept: of the values that occur.

    >>> found = by_shape(np.array([10, 4, 2, 1, 1]), np.array([2, 3, 2, 1, 1]), 3, "rotation")
    >>> {count: str(belief.dominant) for count, belief in found.beliefs.items()}
    {3: '1/3', 2: '1/3'}
    """
    levels, shown = Levels(_descending(counts)), _descending(kept)
    slots = tuple(shown[:ell])
    chance, law = _led_to(levels, ell, variant, always, slots)
    if not chance or shown[ell:] != levels.counts[ell:]:
        raise UsageError(
            f"The published counts are not what {variant} suppression makes of the table.",
            "Give the table that was published, and the variant that the manifest names.",
        )
    seating = Seating(slots, tuple(range(ell)), lambda: law)
    found = beliefs(seating, levels.counts[:ell], violating(levels, ell), levels.size, Counter(shown))
    return Suspicion(variant, ell, "shape", kept, levels.size, found, always)


def _led_to(levels: Levels, ell: int, variant: Variant, always: bool, slots: Counts) -> tuple[Fraction, Law]:
    """Return the probability that a table leads to these counts, and who then sits where."""
    if variant == "r-suppression" and violating(levels, ell):
        found = chances(levels, ell, slots)
        total = sum(found, Fraction(0))
        return total, law_of_one([chance / total for chance in found]) if total else ()
    if published(levels, ell, variant, always) != slots:
        return Fraction(0), ()
    return Fraction(1), seat(levels, ell, variant, lambda n: 0, always).law()


def _descending(counts: IntArray) -> list[int]:
    return sorted(counts.tolist(), reverse=True)


# --- someone who knows nothing of the counts --------------------------------------------------------------------------


def by_uniform_prior(kept: IntArray, size: int, ell: int, variant: Variant, always: bool = False) -> Suspicion:
    """Return the beliefs of someone to whom all tables of so many records are equally likely.

    SK's algorithm does not bound them by 1/l:

    >>> found = by_uniform_prior(np.array([2, 2, 1, 1]), 8, 3, "r-suppression")
    >>> {count: str(belief.dominant) for count, belief in found.beliefs.items()}
    {2: '7/17', 1: '3/34'}
    """
    shown = _descending(kept)
    slots, lost = shown[:ell], size - sum(shown)
    weight, sums = (
        Fraction(0),
        {count: [Fraction(0)] * 3 for count in slots},
    )  # of S_1, of violating ones, of records lost
    for table in _tables(shown, size, ell):
        levels = Levels(list(table))
        chance, law = _led_to(levels, ell, variant, always, tuple(slots))
        chance *= _labellings(table)
        weight, k = weight + chance, violating(levels, ell)
        for count, here in zip(slots, law, strict=True) if chance else ():
            for rank, share in here.items():
                for place, amount in enumerate((rank == 0, rank < k, table[rank] - count)):
                    sums[count][place] += chance * share * amount
    if not weight:
        raise UsageError(
            f"No table of {size:,} records leads to these counts by {variant} suppression.",
            "Give the number of records of the table, and the variant that the manifest names.",
        )
    values, found = Counter(shown), {}
    for count, totals in sums.items():
        dominant, above, gone = (total / weight / values[count] for total in totals)
        found[count] = Belief(dominant, above, gone / lost if lost else Fraction(0), member=(count + gone) / size)
    return Suspicion(variant, ell, "uniform", kept, size, found, always)


def _labellings(table: Counts) -> int:
    return math.factorial(len(table)) // math.prod(math.factorial(number) for number in Counter(table).values())


def _tables(shown: list[int], size: int, ell: int) -> list[Counts]:
    rest = tuple(shown[ell:])
    found = list(islice(_above(shown[:ell], size - sum(rest), size), MOST_TABLES + 1))
    if len(found) > MOST_TABLES:
        raise UsageError(
            f"More than {MOST_TABLES:,} sorted tables of {size:,} records can lead to these counts.",
            "The uniform prior is computed for small tables only; the attacker who knows the sorted counts for all.",
        )
    return [(*first, *rest) for first in found]


def _above(least: list[int], total: int, most: int) -> Iterator[Counts]:
    """Yield descending counts of this sum, none below `least` and the first not above `most`."""
    if not least:
        yield from [()] if total == 0 else []
        return
    needed = max(1, *least[:1], -(-total // len(least)))  # a value occurs; the first is no smaller than the mean
    for first in range(min(most, total - sum(max(1, count) for count in least[1:])), needed - 1, -1):
        yield from ((first, *others) for others in _above(least[1:], total - first, first))


QUESTIONS = {
    "dominant": "Which value is the most frequent one of the table?",
    "violating": "Which values have more than 1/l of the table?",
}
KNOWS = "Sees how many records are published of each value; knows the algorithm, l, |T| and which values occur. Prior: "
PRIORS = {
    "shape": "the sorted counts are known, and every way to give them to the values is equally likely.",
    "uniform": "every table of so many records, in which each of these values occurs, is equally likely.",
}


def eligibility_finding(found: Suspicion, aim: Aim, names: Sequence[str] = ()) -> Finding:
    """Return how sure the attacker is of a value. names: of the values.

    Promised is 1/l (k/l for violating values, with the k that the attacker knows or expects) by the proved variants,
    whichever the prior; by R-suppression as published 1/l for the dominant value, to someone who knows no counts (SK
    Theorem 3). Nothing is promised of a table that is published as it is.
    """
    values, kept = range(found.kept.size), found.kept.tolist()
    chances = [found.chance(value, aim) for value in values]
    bound, worst, withheld = found.bound(aim), max(chances), found.size - sum(kept)
    published = (found.variant, aim, found.prior) == ("r-suppression", "dominant", "uniform")
    promised = found.hidden and (found.variant in PROVED or published)
    baseline = bound * found.ell / len(values)
    above = [value for value in values if chances[value] > (bound if found.hidden else baseline)]
    order = sorted(values, key=lambda value: (-chances[value], value))[:SHOWN]
    exact = f" ({worst})" if len(str(worst)) < SHOWN * 2 else ""
    return Finding(
        attacker="eligibility",
        question=QUESTIONS[aim],
        assumption=KNOWS + PRIORS[found.prior],
        measured=f"the belief that a value is {aim} (worst), and that a published record's value is (mean); exact",
        worst=float(worst),
        mean=float(sum(map(mul, chances, kept)) / max(1, sum(kept))),
        records=sum(kept),
        at_risk=sum(kept[value] for value in above),
        promised=float(bound) if promised else None,
        stated=float(bound) if found.hidden and not promised else None,
        baseline=float(baseline),
        exposed=tuple(
            Exposed(names[value] if names else f"value {value + 1}", kept[value], float(chances[value]))
            for value in order
            if chances[value]
        ),
        remark=f"{withheld:,} record(s) are withheld. The worst belief is {percent(float(worst))}{exact}."
        if found.hidden
        else f"Nothing is withheld: no value has more than 1/{found.ell} of the table. All counts are exact, and which "
        "value is the most frequent is public. always = true would hide it.",
        broken=bool(above),
    )


SK_CLAIM = "The paper promises this bound (SK Theorem 3); the guarantee of the release does not."


def of_groups(evidence: Evidence) -> Iterator[Finding]:
    found, names = evidence.once(suspicion), evidence.values.labels
    yield eligibility_finding(found, "dominant", names).named("dominant")
    if not found.hidden:  # all counts are published: no prior changes what is known of them
        return
    if found.number_violating:
        yield eligibility_finding(found, "violating", names).named("violating")
    try:
        blind = by_uniform_prior(found.kept, evidence.rows, evidence.group_bound, found.variant, found.always)
    except UsageError as problem:
        evidence.notes.append(f"eligibility, every table equally likely: not computed. {problem.message}")
        return
    finding = eligibility_finding(blind, "dominant", names).named("dominant, no counts known")
    yield finding if evidence.is_proved else finding.with_remark(SK_CLAIM)


def suspicion(evidence: Evidence) -> Suspicion:
    part, tables = evidence.groups_part, evidence.group_tables
    if part.variant is None:
        raise DoesNotApply(f"{evidence.manifest.method} suppresses no value for being frequent.")
    kept = np.bincount(tables.values, tables.counts, evidence.values.size).astype(np.int64)
    return by_shape(table_counts(evidence), kept, evidence.group_bound, part.variant, part.always)


def table_counts(evidence: Evidence) -> IntArray:
    return np.bincount(evidence.values.table, minlength=evidence.values.size)


def _public(manifest: Manifest) -> Listed | None:
    if not manifest.in_buckets or manifest.bucket_claim.variant is None:
        return None
    # where nothing is withheld, which value is the most frequent is public
    return Listed(10, covered=manifest.withheld > 0 or manifest.bucket_claim.always)


ATTACKER = Attacker(
    name="eligibility",
    knows="asks which value was the most frequent one",
    why_not_covered=(
        "How often each value is published is public, and the guarantee does not hide what follows from it."
    ),
    acceptable=(
        "Acceptable if it is no secret which value is the most frequent. Not if that alone would harm a group of "
        "people."
    ),
    on={"randomized": NO_GROUPS, "response": NO_GROUPS, "groups": of_groups},
    promised={"groups": of_groups},
    public=_public,
    place=13,
)
