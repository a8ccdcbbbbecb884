"""What releases by groups guarantee, in words: Anatomy, Anatomy after suppression (SK), robust Anatomy (PI).

The bounds rest on one exchange. If two records of one group swap their values and their random numbers, the same is
published. So whoever holds these two assignments to be equally likely beforehand holds them so afterwards, and believes
in a value by its share of the group. The methods differ in whose beliefs these are. docs/methods has the proofs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

from sfumato.claims.guarantee import UPWARD, Guarantee, percent
from sfumato.values.bucket_columns import GroupClaim
from sfumato.values.computed import Strength

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
KNOWN_MEMBERS = "Who knows the values of j of the N records of a group is left with the other N - j."
ALIKE_WHEN_MISSING = (
    "Most withheld records may have one value: who knows that of one missing person, his own for instance, can tell "
    "that of most others."
)
REPEATED = (
    "Per row and for one release: two rows of a person with the same value, or his rows in two releases, narrow it "
    "down to the values that both their groups have."
)


def state_group_guarantee(claim: GroupClaim, *, withheld: bool) -> Guarantee:
    """Return the guarantee of a release by groups, with what the method's page in docs/methods says of it.

    `withheld` says whether records are; that is public, and after suppression it tells whether a value is too frequent.
    """
    if claim.method == "suppression":
        return _of_suppression(claim, withheld)
    state: dict[str, Callable[[GroupClaim], Guarantee]] = {
        "anatomy": _of_anatomy,
        "robust-anatomy": _of_robust_anatomy if claim.assurance == "proved" else _of_merging,
    }
    return state[claim.method](claim)


def _guarantee(claim: GroupClaim, sentence: str, adversary: str, prior: str, limits: Iterator[str]) -> Guarantee:
    common = (KNOWN_MEMBERS, ONE_BY_ONE, _told_counts(claim), REPEATED)
    return Guarantee(sentence, adversary, prior, "single values", UPWARD, _strength(claim), (*limits, *common))


def _strength(claim: GroupClaim) -> Strength:
    """Anatomy as published promises what is proved; the others, as published, are known to fail."""
    return "one stated prior" if claim.assurance == "proved" or claim.method == "anatomy" else "as published"


def _told_counts(claim: GroupClaim) -> str:
    columns = ", ".join(claim.dealt_within)
    joint = (
        f"; and, as far as the records of a group agree in {columns}, how often it occurs together with each "
        f"combination of {columns}, exactly"
    )
    return (
        "Published are also all other columns that the policy does not drop, and how often each value occurs among the "
        f"published records{joint if columns else ''}."
    )


def _value(claim: GroupClaim) -> str:
    return " / ".join(claim.sensitive)


def _of_a_record(claim: GroupClaim) -> str:
    return (
        f"For each published record and each {_value(claim)} x: who sees the release believes that the record has x by "
        f"at most {percent(claim.at_most)}"
    )


def _no_association(claim: GroupClaim) -> str:
    return (
        "Beforehand every assignment of the table's values to its records is equally likely to him: he may know how "
        f"often each {_value(claim)} occurs, but no association of it with other columns or with persons."
    )


# --- Anatomy --------------------------------------------------------------------------------------------------------


def _of_anatomy(claim: GroupClaim) -> Guarantee:
    return _guarantee(claim, f"{_of_a_record(claim)}.", KNOWS_HOW, _no_association(claim), _associations(claim))


def _associations(claim: GroupClaim) -> Iterator[str]:
    yield (
        f"Who knows how {_value(claim)} depends on other columns, such as a disease on sex or age, can exceed the "
        "bound: robust-anatomy is for him."
    )


# --- suppression ----------------------------------------------------------------------------------------------------


def _of_suppression(claim: GroupClaim, withheld: bool) -> Guarantee:
    hidden = withheld or claim.always
    return _guarantee(
        claim,
        f"{_of_a_record(claim)}. {_of_the_values(claim, withheld)}",
        KNOWS_HOW,
        f"{_no_association(claim)} {_alike(claim)}" if hidden else _no_association(claim),
        _suppression_limits(claim, withheld),
    )


def _of_the_values(claim: GroupClaim, withheld: bool) -> str:
    """What is promised of which values are frequent: nothing where the table is published as it is."""
    most, ell = percent(claim.at_most), claim.at_most.denominator
    dominant = (
        f"That x is the most frequent value (of equally frequent ones, one drawn at random) is believed by at most "
        f"{most}."
    )
    violating = (
        f"If k values have more than {most} of the table, that x is one of them is believed by at most k/{ell} by "
        f"someone who knows k; by someone who does not, by at most the k that they expect, divided by {ell}."
    )
    if claim.always:
        return f"For every table: {dominant[0].lower()}{dominant[1:]} {violating}"
    joint = (
        f"For every table, also one of which nothing is withheld: that x is the most frequent value and has more than "
        f"{most} of the table is believed by at most {most}."
    )
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
    return f"{skewed} {dominant} {violating} {joint}"


def _alike(claim: GroupClaim) -> str:
    alike = (
        "Where the belief is about which values are frequent, every way to give the same counts to the values is "
        "equally likely to them (any exchangeable prior)"
    )
    return f"{alike}{'; they may know the sorted counts' if claim.assurance == 'proved' else ''}."


def _suppression_limits(claim: GroupClaim, withheld: bool) -> Iterator[str]:
    if withheld:
        yield from _withheld_limits(claim)
    elif claim.always:
        yield "Nothing is withheld: all counts are exact, and which values share the first place is public."
    else:
        yield "Nothing is promised of which value is the most frequent."
    if withheld or claim.always:
        yield "Someone who knows from elsewhere which values are frequent needs no release to believe it."
    yield from _associations(claim)


def _withheld_limits(claim: GroupClaim) -> Iterator[str]:
    """What is not covered where records are withheld."""
    ell, most = claim.at_most.denominator, percent(claim.at_most)
    if claim.assurance == "as-published":
        yield (
            f"SK Theorem 3 (the most frequent value is believed in by at most {most}) does not hold: with 8 records, 4 "
            "values and l = 3, the published counts 2, 2, 1, 1 let someone believe by 7/17 that one of the first two "
            "is the most frequent one; other counts let them believe it by nearly 1."
        )
    yield (
        f"A person known to be in the table and missing from the release has one of its {ell} most frequent values: "
        + (
            f"each is believed by at most {most} by someone to whom the values are alike, and who knows the value of "
            "no missing person."
            if claim.variant == "safe-d"
            else f"one of them can be believed by more than {most}. The variant safe-d, which withholds more, bounds "
            "that for someone who knows the value of no missing person."
        )
    )
    yield ALIKE_WHEN_MISSING
    if claim.variant != "safe-d":
        yield (
            "Nor is the belief bounded in a value of a person known to be in the table, of whom it is not known "
            "whether they are in the release."
        )
    if claim.variant == "spread":
        yield "The bounds are on single values: that one of two given values is violating can be certain."


# --- robust Anatomy -------------------------------------------------------------------------------------------------


def _of_robust_anatomy(claim: GroupClaim) -> Guarantee:
    if claim.prior == "none":
        columns = ", ".join(claim.dealt_within)
        sentence = f"{_of_a_record(claim)}, whatever he knew beforehand of how {_value(claim)} depends on {columns}."
        prior = (
            f"Any that depends on {columns} alone, by themselves or together: records that agree in all of them are "
            "alike to him. He may know how many of them have each value."
        )
        return _guarantee(claim, sentence, KNOWS_HOW, prior, _robust_limits(claim))
    sentence = (
        f"{_of_a_record(claim)}, if he knew beforehand how likely each value is given {_sets(claim)}: by PI Eqs. "
        "(1)-(3), one set at a time."
    )
    return _guarantee(claim, sentence, LOOKS_AT_GROUPS, _known_shares(claim), _robust_limits(claim))


def _sets(claim: GroupClaim) -> str:
    return "; or given ".join(", ".join(names) for names in claim.attribute_sets)


def _known_shares(claim: GroupClaim) -> str:
    columns = " or ".join(f"({', '.join(names)})" for names in claim.attribute_sets)
    shares = f"of each {_value(claim)} among the records with the same {columns}"
    if claim.prior == "table":
        return f"The table's own shares {shares}."
    return f"The shares {shares} that the publisher's files give; records with other shares may be believed otherwise."


def _robust_limits(claim: GroupClaim) -> Iterator[str]:
    columns = ", ".join(claim.dealt_within)
    if claim.prior != "none":
        yield (
            f"A record in a group of others with another {columns} is a guest: it has a value that is too frequent "
            "among those like it, and who knows how groups are made knows that. With r = 2, and values 0, 0, 1 and "
            "2, 3 of two kinds of records, the guest can only have 0. All other records keep the bound against him "
            f"too, and whatever he knew of {columns}."
        )
    yield (
        "A person known to be in the table and missing from the release has a value that is too frequent among the "
        f"records with the same {columns}."
    )
    yield ALIKE_WHEN_MISSING
    yield _other_columns(claim)


def _other_columns(claim: GroupClaim) -> str:
    several = claim.prior != "none" and len(claim.attribute_sets) > 1
    others = f"other columns than {', '.join(claim.dealt_within)}{', or on several sets together,' if several else ''}"
    return f"Who knows how {_value(claim)} depends on {others} is not bounded."


def _of_merging(claim: GroupClaim) -> Guarantee:
    """PI's condition, as published: what holds under it is `published_supremum`."""
    r = claim.at_most.denominator
    sentence = (
        f"No belief is bounded by {percent(claim.at_most)}. Each published group meets the Delta condition of PI Eq. "
        f"(4) for {_value(claim)} given {_sets(claim)}; in a group of N records this keeps the belief that one of them "
        f"has a value, by PI Eqs. (1)-(3), within {_supremum(r)}."
    )
    return _guarantee(claim, sentence, LOOKS_AT_GROUPS, _known_shares(claim), _merging_limits(claim))


def _supremum(r: int) -> str:
    return f"(N-1)/(N-1 + {(r - 1) ** 2})"


def _merging_limits(claim: GroupClaim) -> Iterator[str]:
    counterexample = percent(Fraction(361, 561))
    yield (
        f"PI Theorem 1 (at most {percent(claim.at_most)}) does not hold: for r = 2 a group of three records meets the "
        f"condition, and one of them has a value with probability {counterexample}."
    )
    yield "Who knows how groups are made, or that a person of the table is missing from the release, may learn more."
    yield ALIKE_WHEN_MISSING
    yield _other_columns(claim)
