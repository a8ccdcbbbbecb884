"""What releases in buckets promise: Anatomy, Anatomy after suppression (SK), robust Anatomy (PI).

The bounds rest on one exchange. If two records of one bucket swap their values and their random numbers, the same is
published. So whoever holds these two assignments to be equally likely beforehand holds them so afterwards, and believes
in a value by its share of the bucket. The methods differ in whose beliefs these are. docs/methods has the proofs.

If nothing is assumed of the adversary's prior, the bound on beliefs follows from the files too: k/n_s, the multiplicity
of a value over the records with one signature, is at most 1/r. Suppression leaves equal counts, and robust Anatomy at
most one guest in a bucket: so much of how records were withheld and dealt is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np

from sfumato.claims.claim import (
    QUASI_IDENTIFIERS,
    SEVERAL_ROWS,
    UNTOUCHED,
    UPWARD,
    Check,
    Claim,
    Guarantee,
    Plain,
    Published,
    Shape,
    needs_audit,
    one_in,
    outcome,
    percent,
)
from sfumato.claims.claim import (
    SECOND as SECOND_RELEASE,
)
from sfumato.claims.why import Step, of_buckets
from sfumato.show.words import named
from sfumato.values.arrays import IntArray
from sfumato.values.computed import BUCKET_COUNTS, BUCKET_NUMBER, WITHHELD, Facts

SuppressionVariant = Literal["rotation", "spread", "safe-d", "r-suppression"]
PriorSource = Literal["none", "table", "file"]

TIED = {"safe-d": None, "rotation": 2, "spread": 2}
"""Of the l largest published counts, how many of the smallest are equal where records are withheld; None: all."""
LARGEST = (1 << 62) - 1
"""Denominators above it are as good as this one: no bucket has so many records."""

KNOWS_HOW = (
    "Knows all quasi-identifiers, who is in the table, whose each published row is, and how records are withheld and "
    "groups are made; sees the release once."
)
LOOKS_AT_GROUPS = (
    "Knows all quasi-identifiers, who is in the table and whose each published row is; holds records to be "
    "independent; reasons from each published group by itself, as in PI Eqs. (1)-(3), and not from how groups are "
    "made; sees the release once."
)
ONE_BY_ONE = "The bound is on each value by itself: all values of a group may be of one sort, such as cancers."
KNOWN_MEMBERS = "Someone who knows the values of j of the N records of a group is left with the other N - j."
ALIKE_WHEN_MISSING = (
    "Most withheld records may have one value: someone who knows that of one missing person, such as their own, can "
    "tell that of most others."
)
SECOND = (
    "The key was discarded: a second release of the same people makes other groups. Together two releases by groups "
    "can tell all: a record has one of the values that both its groups have, often one only, and no bound is kept."
)
REPEATED = (
    "Per row and for one release: two rows of a person with the same value, or their rows in two releases, narrow "
    "it down to the values that both their groups have."
)


@dataclass(frozen=True)
class BucketCounts:
    """What the two files of a release show, counted."""

    totals: IntArray  # the published records of each value
    sizes: IntArray  # the records of each bucket
    most: IntArray  # the largest count of a value in each bucket
    agree: bool  # whether both files have the same buckets, of the same sizes; else shares mean nothing
    withheld: int
    rarest: Callable[[tuple[str, ...]], IntArray]  # columns -> the records of each bucket's rarest signature
    mixed: Callable[[tuple[str, ...]], int]  # columns -> buckets with several records of other signatures than most


@dataclass(frozen=True)
class BucketClaim(Claim):
    """Which belief in a value of a record is limited, and against whom.

    variant, always: of suppression; always: whether the most frequent value of every table is hidden. attribute_sets,
    prior: of robust Anatomy, what beliefs beforehand may depend on, and where they come from. Plain Anatomy has none.
    """

    method: str
    assurance: Literal["proved", "as-published"]
    sensitive: tuple[str, ...]
    at_most: Fraction
    variant: SuppressionVariant | None = None
    attribute_sets: tuple[tuple[str, ...], ...] = ()
    prior: PriorSource | None = None
    always: bool = False

    rests_on = "the method, its limit and the columns"
    rechecked = (
        "`sfumato verify .` re-checks both files and what they show of the guarantee. That records were dealt at "
        "random only their publisher knows."
    )
    undone_by_seed = "see who has what"
    always_shuffled = True

    @property
    def dealt_within(self) -> tuple[str, ...]:
        """The columns in which records agree among which the deal is random; none: among all records."""
        return tuple(dict.fromkeys(name for names in self.attribute_sets for name in names))

    @property
    def value(self) -> str:
        """What a sensitive value is called."""
        return " / ".join(self.sensitive)

    @property
    def withholds(self) -> bool:
        """Whether the method withholds records, where values are too frequent."""
        return self.suppresses or self.is_robust

    @property
    def suppresses(self) -> bool:
        """Whether records are withheld so that it cannot be told which value is the most frequent."""
        return self.variant is not None

    @property
    def is_robust(self) -> bool:
        """Whether beliefs may depend on other columns."""
        return self.prior is not None

    def facts(self) -> Facts:
        return (BUCKET_COUNTS, BUCKET_NUMBER, *((WITHHELD,) if self.withholds else ()))

    def guarantee(self, shape: Shape) -> Guarantee:
        """Return the guarantee, with what the method's page in docs/methods says of it.

        Whether records are withheld is public, and after suppression it tells whether a value is too frequent.
        """
        if self.suppresses:
            words = _of_suppression(self, withheld=shape.withheld > 0)
        else:
            words = _of_robust_anatomy(self) if self.is_robust else _of_anatomy(self)
        # Anatomy as published promises what is proved; the others, as published, are known to fail
        holds = self.assurance == "proved" or not self.withholds
        return Guarantee(
            sentence=words.sentence,
            adversary=words.adversary,
            prior=words.prior,
            scope="single values",
            directions=UPWARD,
            strength="one stated prior" if holds else "as published",
            limits=(*words.limits, KNOWN_MEMBERS, ONE_BY_ONE, self._told_counts(), REPEATED),
        )

    def plain(self, shape: Shape) -> Plain:
        """Return how sure someone can become of a record's value, and of which values are frequent."""
        withheld = shape.withheld > 0
        return Plain(_promise(self, withheld), _attacker(self), tuple(_gaps(self, withheld)), _start(self))

    def why(self, shape: Shape) -> Iterator[Step]:
        if self.is_robust and self.assurance == "as-published":
            asked = f"The Delta condition of PI Eq. (4) with r = {self.at_most.denominator}."
            return iter([Step("What each group keeps, which bounds no belief", (asked,))])
        return of_buckets(self.value, self.at_most, self.dealt_within)

    def cost(self, shape: Shape, rows: int) -> str:
        """Return that values stay true, and what is lost."""
        every = rows + shape.withheld
        withheld = f"; {shape.withheld:,} of {every:,} records are withheld" if shape.withheld else ""
        return (
            f"all published values are true; who has which {self.value} is not told, so counts that join it with other "
            f"columns are estimates{withheld}."
        )

    def _told_counts(self) -> str:
        columns = ", ".join(self.dealt_within)
        joint = (
            f"; and, as far as the records of a group agree in {columns}, how often it occurs together with each "
            f"combination of {columns}, exactly"
        )
        return (
            "Published are also all other columns that the policy does not drop, and how often each value occurs among "
            f"the published records{joint if columns else ''}."
        )

    def second_release(self, shape: Shape, *, keyed: bool) -> str:
        return SECOND

    def fits(self, published: Published) -> dict[str, bool]:
        as_published = self.assurance == "as-published"
        return {
            "at_most": self.at_most.numerator == 1 and self.at_most.denominator > 1,
            "domain": len(self.sensitive) == 1,
            "always": not self.always or self.variant in TIED,
            "assurance": not self.suppresses or (self.variant == "r-suppression") == as_published,
            "attribute_sets": all(self.attribute_sets) and bool(self.attribute_sets) == self.is_robust,
            "prior": not (self.suppresses and self.is_robust) and not (as_published and self.prior == "none"),
            "dealt_within": published.dealt_within == self.dealt_within,
            "withheld": published.withheld == 0 or self.withholds,
            "columns": set(self.dealt_within) <= set(published.columns[:-1])
            and not set(self.sensitive) & set(published.columns),
        }

    def shown(self, files: BucketCounts) -> Iterator[Check]:
        """Yield what the two files show of the claim, in exact integers."""
        if self.variant in TIED and (files.withheld or self.always):
            yield self._tied(files)
        if files.agree:
            yield self._shares(files)
            if self.prior == "none":
                yield from (self._beliefs(files, names) for names in self.attribute_sets)
            elif self.prior and self.assurance == "proved":
                yield self._guests(files)

    def _tied(self, files: BucketCounts) -> Check:
        """Safe D leaves F_l records of the l most frequent values; rotation and spread give F_l to slots l - 1 and l.

        To hide the most frequent value always without withholding a record, the l most frequent must have as many as
        it.
        """
        limit = self.at_most.denominator
        largest = np.sort(files.totals)[::-1][:limit]
        tied = TIED[self.variant or ""] if files.withheld else None
        equal = largest[-(tied or limit) :]
        some = "the last two" if tied else "all"
        return outcome(
            "suppression",
            largest.size == limit and bool((equal == equal[0]).all()),
            f"Of the {limit} largest counts of values {some} are equal, as {self.variant} makes them.",
            f"Of the {limit} largest counts of values not {some} are equal: that is not {self.variant}.",
        )

    def _shares(self, files: BucketCounts) -> Check:
        beyond = self._beyond(files.most, files.sizes)
        return outcome(
            "guarantee, shares",
            not beyond,
            f"No value has more than {self.at_most} of a group, in exact integers.",
            f"In {beyond:,} group(s) a value has more than {self.at_most}.",
        )

    def _beliefs(self, files: BucketCounts, names: tuple[str, ...]) -> Check:
        """k/n_s <= 1/r for every bucket, value and signature s of an attribute set: it holds under every prior."""
        beyond, told = self._beyond(files.most, files.rarest(names)), ", ".join(names)
        return outcome(
            f"guarantee, any prior on {told}",
            not beyond,
            f"Among a group's records with the same {told} no value has more than {self.at_most}, in exact integers.",
            f"In {beyond:,} group(s) a value can have more than {self.at_most} of the records with the same {told}.",
        )

    def _beyond(self, most: IntArray, of: IntArray) -> int:
        """Return how many exceed the limit 1/l, in integers: most/of > 1/l."""
        return int(np.count_nonzero(most > of // min(self.at_most.denominator, LARGEST)))

    def _guests(self, files: BucketCounts) -> Check:
        """Of the records of a bucket all but one, a guest, were dealt: they agree in the columns of all sets."""
        wrong, told = files.mixed(self.dealt_within), ", ".join(self.dealt_within)
        return outcome(
            "guests",
            not wrong,
            f"The records of each group agree in {told}, but for one guest at most.",
            f"In {wrong:,} group(s) more than one record has another {told} than the others.",
        )

    def unseen(self, withheld: int) -> Iterator[Check]:
        """Yield how records were withheld, and beliefs under a prior that is not published."""
        if withheld or self.variant:
            how = f", and of each value as many as {self.variant} says" if self.variant else ""
            told = f"{withheld:,} records were withheld at random{how}" if withheld else "none was withheld"
            yield needs_audit("withheld records", f"That {told}.")
        if self.prior in ("table", "file"):
            yield needs_audit(
                "posteriors",
                "That every group meets the condition of PI Eq. (4) under the prior, which is not published."
                if self.assurance == "as-published"
                else f"That no belief exceeds {self.at_most} under the prior, which is not published.",
            )


# --- in plain words, for the card -------------------------------------------------------------------------------------


def _promise(claim: BucketClaim, withheld: bool) -> str:
    most = one_in(claim.at_most)
    if claim.is_robust and claim.assurance == "as-published":
        return f"No certainty is limited to {most}: as published, this method is known to fail."
    of_record = (
        f"For no published record is a guess at its {claim.value} right with a chance above {most}, {_if(claim)}. "
        f"Someone who {'knows more' if claim.is_robust else 'does'} may become certain."
    )
    if claim.suppresses and claim.assurance == "proved" and (withheld or claim.always):
        return f"{of_record} A guess at the most frequent {claim.value} of the table has the same limit."
    return of_record


def _if(claim: BucketClaim) -> str:
    """Return on what condition a guess is limited."""
    if claim.prior == "none":
        return f"whatever someone knows of how it goes with {named(claim.dealt_within)}, if of no other column"
    if claim.is_robust:
        return f"if someone knows how it goes with {named(claim.dealt_within)}, and not how groups are made"
    return "if someone does not know how it goes with other columns, such as age"


def _start(claim: BucketClaim) -> str:
    """Return the belief beforehand that the promise is proved for."""
    if claim.prior == "none":
        return f"any about how {claim.value} goes with {named(claim.dealt_within)}, none about other columns"
    if claim.is_robust:
        shares = "the table's own shares" if claim.prior == "table" else "the shares in the publisher's files"
        return f"{shares} of each {claim.value}, by {named(claim.dealt_within)}"
    return f"for each {claim.value}, everyone in the table is equally likely to have it"


def _attacker(claim: BucketClaim) -> str:
    knows = f"knows who is in the table, everyone's {QUASI_IDENTIFIERS}, and whose row is whose"
    goes_with = f"how {claim.value} goes with {named(claim.dealt_within)}" if claim.is_robust else ""
    if claim.prior == "none":
        return f"{knows}; may believe anything about {goes_with}; sees one release."
    if claim.is_robust:
        return f"{knows}; knows {goes_with}, but not how groups are made; sees one release."
    return f"does NOT know how {claim.value} goes with other columns; {knows}; sees one release."


def _gaps(claim: BucketClaim, withheld: bool) -> Iterator[str]:
    beyond = f" than {named(claim.dealt_within)}" if claim.is_robust else ""
    yield f"knowing how {claim.value} goes with other columns{beyond}"
    yield "knowing others of the group"
    if withheld:
        yield "people known to be missing from the release"
    yield "values of one sort in a group, such as cancers"
    yield from (UNTOUCHED, SECOND_RELEASE, SEVERAL_ROWS)


# --- in words ---------------------------------------------------------------------------------------------------------


class _Words(NamedTuple):
    """What the guarantees of the methods differ in."""

    sentence: str
    adversary: str
    prior: str
    limits: list[str]


def _of_a_record(claim: BucketClaim) -> str:
    return (
        f"For each published record and each {claim.value} x: someone who sees the release believes that the record "
        f"has x by at most {percent(claim.at_most)}"
    )


def _of_anatomy(claim: BucketClaim) -> _Words:
    prior = (
        "Beforehand every assignment of the table's values to its records is equally likely to them: they may know "
        f"how often each {claim.value} occurs, but no association of it with other columns or with persons."
    )
    associations = (
        f"Someone who knows how {claim.value} depends on other columns, such as a disease on sex or age, can exceed "
        "the bound: robust-anatomy is for that."
    )
    return _Words(f"{_of_a_record(claim)}.", KNOWS_HOW, prior, [associations])


# --- suppression ------------------------------------------------------------------------------------------------------


def _of_suppression(claim: BucketClaim, withheld: bool) -> _Words:
    """What Anatomy promises, and what is promised of which values are frequent."""
    words, prior = _of_anatomy(claim), ""
    if hidden := withheld or claim.always:
        prior = (
            " Where the belief is about which values are frequent, every way to give the same counts to the values is "
            "equally likely to them (any exchangeable prior)"
            f"{'; they may know the sorted counts' if claim.assurance == 'proved' else ''}."
        )
    if withheld:
        limits = _withheld_limits(claim)
    elif claim.always:
        limits = ["Nothing is withheld: all counts are exact, and which values share the first place is public."]
    else:
        limits = ["Nothing is promised about the most frequent value."]
    if hidden:
        limits.append("Someone who knows from elsewhere which values are frequent needs no release to believe it.")
    sentence = f"{words.sentence} {_of_the_values(claim, withheld)}"
    return words._replace(sentence=sentence, prior=words.prior + prior, limits=[*limits, *words.limits])


def _of_the_values(claim: BucketClaim, withheld: bool) -> str:
    """What is promised of which values are frequent: nothing where the table is published as it is."""
    most, ell = percent(claim.at_most), claim.at_most.denominator
    dominant = (
        f"hat x is the most frequent value (of equally frequent ones, one drawn at random) is believed by at most "
        f"{most}."
    )
    violating = (
        f"If k values have more than {most} of the table, that x is one of them is believed by at most k/{ell} by "
        f"someone who knows k; by someone who does not, by at most the k that they expect, divided by {ell}."
    )
    joint = (
        f"For every table, also one with nothing withheld: that x is the most frequent value and has more than "
        f"{most} of the table is believed by at most {most}."
    )
    if claim.always:
        return f"For every table: t{dominant} {violating}"
    if not withheld:
        public = (
            f"No value has more than {most} of the records. Nothing is withheld, all counts are exact, and which value "
            "is the most frequent is public."
        )
        return f"{public} {joint}" if claim.assurance == "proved" else public
    skewed = f"Some value has more than {most} of the table (that is public)."
    if claim.assurance == "as-published":
        return (
            f"{skewed} That x is the most frequent value is not bounded by {most}: it is one of the {ell} most "
            "frequent published ones, and none of these is excluded for someone who does not know the table's counts."
        )
    return f"{skewed} T{dominant} {violating} {joint}"


def _withheld_limits(claim: BucketClaim) -> list[str]:
    """What is not covered where records are withheld."""
    ell, most, limits = claim.at_most.denominator, percent(claim.at_most), []
    if claim.assurance == "as-published":
        limits.append(
            f"SK Theorem 3 (the most frequent value is believed in by at most {most}) does not hold: with 8 records, 4 "
            "values and l = 3, the published counts 2, 2, 1, 1 let someone believe by 7/17 that one of the first two "
            "is the most frequent one; other counts let them believe it by nearly 1."
        )
    bounded = (
        f"each is believed by at most {most} by someone to whom the values are alike, and who knows the value of no "
        "missing person."
    )
    unbounded = (
        f"one of them can be believed by more than {most}. The variant safe-d, which withholds more, bounds that for "
        "someone who knows the value of no missing person."
    )
    limits += [
        f"A person known to be in the table and missing from the release has one of its {ell} most frequent values: "
        + (bounded if claim.variant == "safe-d" else unbounded),
        ALIKE_WHEN_MISSING,
    ]
    if claim.variant != "safe-d":
        limits.append(
            "Nor is the belief bounded in a value of a person known to be in the table, of whom it is not known "
            "whether they are in the release."
        )
    if claim.variant == "spread":
        limits.append("The bounds are on single values: that one of two given values is violating can be certain.")
    return limits


# --- robust Anatomy ---------------------------------------------------------------------------------------------------


def _of_robust_anatomy(claim: BucketClaim) -> _Words:
    value, columns = claim.value, ", ".join(claim.dealt_within)
    missing = (
        "A person known to be in the table and missing from the release has a value that is too frequent among the "
        f"records with the same {columns}."
    )
    if claim.prior == "none":
        sentence = f"{_of_a_record(claim)}, whatever they knew beforehand of how {value} depends on {columns}."
        prior = (
            f"Any that depends on {columns} alone, by themselves or together: records that agree in all of them are "
            "alike to them. They may know how many of them have each value."
        )
        others = f"Someone who knows how {value} depends on other columns than {columns} is not bounded."
        return _Words(sentence, KNOWS_HOW, prior, [missing, ALIKE_WHEN_MISSING, others])
    together = ", or on several sets together," if len(claim.attribute_sets) > 1 else ""
    limits = [
        ALIKE_WHEN_MISSING,
        f"Someone who knows how {value} depends on other columns than {columns}{together} is not bounded.",
    ]
    given = "; or given ".join(", ".join(names) for names in claim.attribute_sets)
    alike = " or ".join(f"({', '.join(names)})" for names in claim.attribute_sets)
    shares = f"of each {value} among the records with the same {alike}"
    prior = f"The table's own shares {shares}."
    if claim.prior == "file":
        prior = (
            f"The shares {shares} that the publisher's files give; records with other shares may be believed otherwise."
        )
    if claim.assurance == "as-published":
        return _Words(_of_merging(claim, given), LOOKS_AT_GROUPS, prior, [*_merging_limits(claim), *limits])
    sentence = (
        f"{_of_a_record(claim)}, if they knew beforehand how likely each value is given {given}: by PI Eqs. (1)-(3), "
        "one set at a time."
    )
    guests = (
        f"A record in a group of others with another {columns} is a guest: it has a value that is too frequent among "
        "those like it, and someone who knows how groups are made knows that. With r = 2, and values 0, 0, 1 and 2, 3 "
        "of two kinds of records, the guest can only have 0. All other records keep the bound against them too, and "
        f"whatever they knew of {columns}."
    )
    return _Words(sentence, LOOKS_AT_GROUPS, prior, [guests, missing, *limits])


def _of_merging(claim: BucketClaim, given: str) -> str:
    """PI's condition, as published: what holds under it is `published_supremum`."""
    supremum = f"(N-1)/(N-1 + {(claim.at_most.denominator - 1) ** 2})"
    return (
        f"No belief is bounded by {percent(claim.at_most)}. Each published group meets the Delta condition of PI Eq. "
        f"(4) for {claim.value} given {given}; in a group of N records this keeps the belief that one of them has a "
        f"value, by PI Eqs. (1)-(3), within {supremum}."
    )


def _merging_limits(claim: BucketClaim) -> list[str]:
    counterexample = percent(Fraction(361, 561))
    return [
        f"PI Theorem 1 (at most {percent(claim.at_most)}) does not hold: for r = 2 a group of three records meets the "
        f"condition, and one of them has a value with probability {counterexample}.",
        (
            "Someone who knows how groups are made, or that a person of the table is missing from the release, may "
            "learn more."
        ),
    ]
