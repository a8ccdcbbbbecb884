"""A limit on the risk under linking, which holds for one table: randomized response (AD)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sfumato.claims.claim import (
    COMPUTED,
    NOT_OF,
    PER_ROW,
    SECOND,
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
    percent,
)
from sfumato.claims.odds import assumed, bounds_some
from sfumato.claims.why import Step, of_risk
from sfumato.show.words import named
from sfumato.values.computed import RESPONSE_MATRICES, Facts
from sfumato.values.matrix.grid import is_on_grid
from sfumato.values.mechanism import Mechanism
from sfumato.values.requirement import RiskLimit

SEES_QUASI_IDENTIFIERS = (
    "Sees the published quasi-identifiers of one row and nothing else of it; knows the matrices and the table's "
    "distribution; holds records to be independent draws from it, and so believes in a value by its expected share "
    "among rows that are published so; sees the release once."
)
LINKS = (
    "Knows which quasi-identifiers a person is published with, takes one of the rows that are published with these and "
    "learns its true value; hits as often as the expected share of the value among such rows says; knows nothing else "
    "of these rows; sees the release once."
)
RECONSTRUCTS = (
    "Knows a person's true quasi-identifiers; draws the true quasi-identifiers of a row, and then its true value, at "
    "random from their distributions given what is published of it; sees the release once."
)
OWN_DISTRIBUTION = "The table's own distribution: how many records have each combination of values."


@dataclass(frozen=True)
class RiskClaim(Claim):
    """What randomized response limits: which risk, of which columns, to how much; `scope`: what may be randomized."""

    risk: Literal["posterior", "link", "reconstruction"]
    quasi_identifiers: tuple[str, ...]
    sensitive: tuple[str, ...]
    limit: RiskLimit
    scope: Literal["sensitive", "quasi-identifiers", "both"] = "both"

    rests_on = "the method, the risk, its limits and the columns"
    rechecked = (
        "`sfumato verify .` re-checks the integer matrices of the manifest and what follows from them. That the risk "
        "is within its limit depends on the original table, which only its publisher has."
    )
    always_shuffled = True

    def facts(self) -> Facts:
        return (RESPONSE_MATRICES,)

    def guarantee(self, shape: Shape) -> Guarantee:
        """Return the guarantee, with what docs/methods/proofs/randomized-response.md says of it."""
        adversary = {"posterior": SEES_QUASI_IDENTIFIERS, "link": LINKS, "reconstruction": RECONSTRUCTS}
        return Guarantee(
            sentence=_sentence(self),
            adversary=adversary[self.risk],
            prior=OWN_DISTRIBUTION,
            scope="single values",
            directions=UPWARD,
            strength="as published" if self.risk == "reconstruction" else "this table's own risk",
            limits=tuple(_limits(self, shape.mechanisms)),
        )

    def plain(self, shape: Shape) -> Plain:
        """Return how often a value is found by linking, at most."""
        return Plain(_promise(self), _attacker(self), tuple(_gaps(self, shape.mechanisms)))

    def why(self, shape: Shape) -> Iterator[Step]:
        return of_risk(self.risk, Fraction(self.limit.limit), len(self.limit.groups), shape.mechanisms)

    def second_release(self, shape: Shape, *, keyed: bool) -> str:
        if not keyed:
            return (
                "The key was discarded: a second release of the same people draws fresh noise, and the two add up: "
                "rows that can be told to be of one person tell more of its true quasi-identifiers, and the limit is "
                "for one release."
            )
        return (
            "Records keep their draws in later releases of the same series with the same key file, domains and "
            f"matrices. {assumed(shape.mechanisms)} The matrices are computed from the table: a change of it, such as "
            "a new row or a corrected value, can give others. Then fresh noise is drawn for everybody, and the two add "
            "up. The limit is for one release."
        )

    def fits(self, published: Published) -> dict[str, bool]:
        """Return whether the matrices are those of the method, of columns in scope. The limit is the table's."""
        mechanisms = published.mechanisms
        return {
            "assurance": (self.risk == "reconstruction") == (published.assurance == "as-published"),
            "scope": {mechanism.domain.names for mechanism in mechanisms} <= self._in_scope(),
            "matrices": all(m.is_whole and is_on_grid(m.matrix) and m.matrix.uniform_noise for m in mechanisms),
            "bounds": not any(bounds_some(mechanism) for mechanism in mechanisms),
            "columns": {*self.quasi_identifiers, *self.sensitive} <= set(published.columns),
        }

    def _in_scope(self) -> set[tuple[str, ...]]:
        """Return the columns that may be randomized: each quasi-identifier by itself, the sensitive ones together."""
        quasi = {(name,) for name in self.quasi_identifiers} if self.scope != "sensitive" else set()
        return quasi | ({self.sensitive} if self.scope != "quasi-identifiers" else set())

    def is_possible(self, share: Fraction) -> bool:
        """Whether a table in which a value has this share can have so small a risk.

        Let rows be published as y with the chance w_y, and have the value x with the chance p_y then. The mean of the
        posteriors, sum w_y p_y, is the share of x, so that one of them is as large; and links to the records with x hit
        by sum w_y p_y^2 over the share of x, which is at least the share, too.
        """
        limits = (self.limit.limit, *(group.limit for group in self.limit.groups))
        return self.risk == "reconstruction" or share <= max(Fraction(limit) for limit in limits)

    def unseen(self, withheld: int) -> Iterator[Check]:
        yield needs_audit("risk", f"That the risk {self.risk} of the table, with these matrices, is within its limit.")


def _sentence(claim: RiskClaim) -> str:
    quasi, value = ", ".join(claim.quasi_identifiers), " / ".join(claim.sensitive)
    what = {
        "posterior": (
            f"For each combination of {quasi} that can be published and each {value} x: someone who sees that a row is "
            "published with the combination believes that its true value is x by"
        ),
        "link": (
            f"For each record and its {value} x: the expected share of the true value x among rows that are published "
            f"with the same {quasi} as the record (expected rows with x over expected rows), averaged over what the "
            "record is published with, is"
        ),
        "reconstruction": (
            f"For each {quasi} and each {value} x that occur together: that a person with these quasi-identifiers has "
            "x, and that drawing first the true quasi-identifiers and then the true value of its published row gives "
            "these and x, has a probability (AD Eq. (6)) of"
        ),
    }
    return f"{what[claim.risk]} {_at_most(claim)}."


def _attacker(claim: RiskClaim) -> str:
    quasi = named(claim.quasi_identifiers)
    return {
        "posterior": f"knows how the noise works and how common every combination is in the table; sees only the "
        f"published {quasi} of a row; sees one release.",
        "link": f"knows which {quasi} a person is published with, and takes a row that is published so; sees one "
        "release.",
        "reconstruction": f"knows a person's true {quasi}; guesses by drawing at random; sees one release.",
    }[claim.risk]


def _promise(claim: RiskClaim) -> str:
    quasi, value = named(claim.quasi_identifiers), " / ".join(claim.sensitive)
    limit, groups = percent(Fraction(claim.limit.limit)), len(claim.limit.groups)
    promise = {
        "posterior": f"Someone who sees the published {quasi} of a row will be at most {limit} sure of its {value}.",
        "link": f"Someone who links a person by the published {quasi} hits the true {value} at most {limit} of the "
        "time.",
        "reconstruction": f"Someone who draws the true {quasi} and the {value} of a person at random is right at most "
        f"{limit} of the time.",
    }[claim.risk]
    return f"{promise} {groups:,} group(s) of people have limits of their own." if groups else promise


def _gaps(claim: RiskClaim, mechanisms: Sequence[Mechanism]) -> Iterator[str]:
    value = " / ".join(claim.sensitive)
    if not any(claim.sensitive[0] in mechanism.domain.names for mechanism in mechanisms):
        yield f"{value} itself, which is published unchanged in every row"
    yield "someone who knows a person's true quasi-identifiers and guesses the likeliest value"
    yield "inference by anything but such a draw" if claim.risk == "reconstruction" else "rows that few others resemble"
    yield from (COMPUTED, UNTOUCHED, SECOND, SEVERAL_ROWS)


def _at_most(claim: RiskClaim) -> str:
    overall, groups = Fraction(claim.limit.limit), claim.limit.groups
    if not groups:
        return f"at most {percent(overall)}"
    own = "; ".join(f"{group.told}: {percent(Fraction(group.limit))}" for group in groups)
    whose = "of the records with x that can be published with it" if claim.risk == "posterior" else "of the record"
    return f"at most the strictest limit {whose} ({own}; all others: {percent(overall)})"


def _limits(claim: RiskClaim, mechanisms: Sequence[Mechanism]) -> Iterator[str]:
    value = " / ".join(claim.sensitive)
    randomized = {name: mechanism for mechanism in mechanisms for name in mechanism.domain.names}
    if claim.sensitive[0] not in randomized:
        yield (
            f"{value} is published untouched: every row shows the true one, and its local epsilon is infinite. Only "
            "the quasi-identifiers beside it are randomized."
        )
    yield (
        f"Someone who knows the table's distribution and a person's true quasi-identifiers guesses the likeliest "
        f"{value} there: no mechanism helps against that, and the distribution can be estimated from the release."
    )
    if claim.risk == "reconstruction":
        yield (
            "It bounds no inference: hits by wrongly linked rows are not counted, and guessing the likeliest value "
            "hits more often than drawing one."
        )
    else:
        yield (
            f"Not for someone who sees the published {value} of the row too: it is "
            + ("randomized, and tells more." if claim.sensitive[0] in randomized else "the true one.")
        )
    if claim.risk == "link":
        yield (
            "Shares are expected ones, as if the record's own row were one of many: it is always among the rows that "
            "are taken from, and where few others are published alike, hits are more frequent than the limit says."
        )
    if len(claim.sensitive) > 1:
        yield (
            f"The limit is on combinations of {', '.join(claim.sensitive)}: one of these columns by itself has fewer "
            "values, and the risk of a value of it can be larger."
        )
    if fixed := [name for name in claim.quasi_identifiers if name not in randomized]:
        yield f"Published untouched: {', '.join(fixed)}."
    yield (
        "The matrices were computed from the table and tell something of it: the limit holds for this table only. "
        "Their retentions have two significant digits; one record can still decide a digit, and someone who knows all "
        "other records learns from that."
    )
    yield PER_ROW
    yield NOT_OF
