"""Beliefs by the shares of sub-tables, each with a matrix of its own: small domain randomization."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from sfumato.claims.claim import (
    COMPUTED,
    NOT_OF,
    PER_ROW,
    QUASI_IDENTIFIERS,
    RELATIVES,
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
from sfumato.claims.odds import bounds_checks, bounds_some, second_of
from sfumato.claims.why import Step, of_odds
from sfumato.show.words import at_least, at_most, named
from sfumato.values.computed import SUB_TABLE_MATRICES, SUB_TABLES, Facts
from sfumato.values.mechanism import Mechanism, SubTable

TAKES_SHARES = (
    "Knows the matrices, the sub-table of every record, all quasi-identifiers and who is in the table; takes the "
    "records of a sub-table for independent draws with its shares, and the domains and matrices, which were computed "
    "from the table, to tell nothing of a single record; sees the release once."
)
PRIOR_OF_SUB_TABLE = (
    "The frequencies of the values in the record's sub-table, whatever its quasi-identifiers are; of each protected "
    "value they are at most the rho1 of that sub-table."
)


@dataclass(frozen=True)
class SubTableClaim(Claim):
    """How far someone who believes by the shares of a record's sub-table can come.

    `rho1` is that of the requirement: values with a share of at most this are protected, of one column alone too.
    `label` names the column that tells the sub-table of a record; None: there is one.
    """

    assurance: str
    rho1: Fraction
    minimum_sub_table: int | None = None
    label: str | None = None

    rests_on = "the method, the bounds and the matrix"
    rechecked = "`sfumato verify .` re-checks the guarantee on the integer matrix of the manifest."

    def facts(self) -> Facts:
        return SUB_TABLES, SUB_TABLE_MATRICES

    def guarantee(self, shape: Shape) -> Guarantee:
        """Return the guarantee of SDR Def. 2, with what docs/methods/proofs/small-domain.md adds."""
        mechanism = shape.mechanisms[0]
        domain = mechanism.domain
        rho2 = _rho2(mechanism)
        promised = f"believes in it by at most {percent(rho2)} after seeing" if rho2 else "may learn all from"
        return Guarantee(
            sentence=(
                f"For each protected value x of {domain.name} (those with a bound, listed with the matrices)"
                f"{self._alone(domain.names)}: someone who believes that a record has x by as much as the share of x "
                f"in the record's sub-table {promised} the release."
            ),
            adversary=TAKES_SHARES,
            prior=PRIOR_OF_SUB_TABLE,
            scope="single values",
            directions=UPWARD,
            strength="one stated prior" if self.assurance == "proved" else "as published",
            limits=tuple(_limits(mechanism, self.assurance)),
        )

    def plain(self, shape: Shape) -> Plain:
        """Return how sure someone can become who is as sure beforehand as the shares of a sub-table say."""
        mechanism = shape.mechanisms[0]
        rho2, name = _rho2(mechanism), mechanism.domain.name
        reached = f"will not get above {at_most(rho2)}" if rho2 else "can become certain"
        first = "someone who starts from anything else, or who uses the exact counts of a sub-table"
        return Plain(
            f"Someone at most {at_least(self.rho1)} sure of a record's {name} {reached}, if they start from the shares "
            "in its sub-table (the records that are randomized together).",
            f"knows how the noise works, who is in the table, each record's sub-table with its shares, and everyone's "
            f"{QUASI_IDENTIFIERS}; sees one release.",
            (first, *self._free(mechanism), COMPUTED, UNTOUCHED, SECOND, SEVERAL_ROWS, RELATIVES),
            f"each {name} is as likely as its share in the record's sub-table",
        )

    def why(self, shape: Shape) -> Iterator[Step]:
        """Yield what is believed beforehand, and how the shares of a sub-table give its matrix."""
        yield Step(
            "What is believed beforehand: the share that a value has in the record's sub-table",
            ("Pr[x] = records of the sub-table with x / records of the sub-table <= its rho1",),
        )
        yield from of_odds(shape.mechanisms[0], UPWARD, joined=False)

    def _free(self, mechanism: Mechanism) -> Iterator[str]:
        """Yield which values are too frequent to be protected."""
        if free := [mechanism.domain.labels[code] for code in _unprotected(mechanism)]:
            told = f"the {len(free):,} values" if len(free) > 1 else "the value"
            yield f"{told} that more than {percent(self.rho1)} of the records have ({named(free)}), NOT protected"

    def _alone(self, columns: tuple[str, ...]) -> str:
        if self.assurance != "proved" or len(columns) == 1:
            return ""
        return (
            f", and each value x of {' or '.join(columns)} alone that at most {percent(self.rho1)} of the records have"
        )

    def second_release(self, shape: Shape, *, keyed: bool) -> str:
        return second_of(shape.mechanisms, UPWARD, keyed)

    def second_releases(self, shape: Shape) -> set[str]:
        """Return the one sentence: records keep no draws."""
        return {self.second_release(shape, keyed=False)} if bounds_some(shape.mechanisms[0]) else set()

    def fits(self, published: Published) -> dict[str, bool]:
        """Return whether the numbers that sub-tables are made for can be so."""
        has_minimum = self.assurance == "proved" and self.label is not None
        return {
            "method": len(published.mechanisms) == 1,
            "minimum_sub_table": (self.minimum_sub_table is not None) == has_minimum,
            "rho1": 0 < self.rho1 < (_rho2(published.mechanisms[0]) or 1),
        }

    def checks(self, published: Published) -> Iterator[Check]:
        return bounds_checks(self, published, UPWARD, one_rho2=True)

    def unseen(self, withheld: int) -> Iterator[Check]:
        if self.label:
            yield needs_audit(
                "dealing",
                "That records were dealt to sub-tables at random, that no protected value has a larger share of its "
                "sub-table than its rho1, and how far someone who knows a sub-table's composition could exceed rho2.",
            )


def _rho2(mechanism: Mechanism) -> Fraction | None:
    return max((bound.rho2 for bound in mechanism.bounds if bound.rho2 is not None), default=None)


def _unprotected(mechanism: Mechanism) -> list[int]:
    """Return the values that occur and have no bound."""
    bounds, occurring = mechanism.bounds, {code for table in mechanism.tables for code in table.codes.tolist()}
    return [code for code in sorted(occurring) if bounds[code].gamma is None]


def _limits(mechanism: Mechanism, assurance: str) -> Iterator[str]:
    told = sum(tells_composition(table) for table in mechanism.tables)
    known = f" Of {told} of {len(mechanism.tables)} sub-table(s) the matrix itself tells these numbers." if told else ""
    yield (
        "Someone who knows how many records of a sub-table have each value knows that its records are no independent "
        f"draws, and can exceed the bound, the more so the smaller the sub-table.{known}"
    )
    if assurance == "as-published":
        yield (
            "As published a sub-table may be of any size: in SDR Example 1 one of six records with six values lets "
            "such an adversary reach .9325 where rho2 is 2/3."
        )
    if not mechanism.is_whole:
        yield (
            "A record's sub-table excludes every value that is not in it: there is no local differential privacy, and "
            "a prior other than the sub-table's frequencies is not covered."
        )
    if len(mechanism.domain.parts) > 1:
        yield (
            "A value of one column alone that more of the records have is not protected: a sub-table may hold no other "
            "value of that column, and its number then tells it."
            if assurance == "proved"
            else "Only statements about combinations are bounded, not those about one of these columns alone: a "
            "sub-table may hold one value of a column only, and its number then tells it."
        )
    if free := len(_unprotected(mechanism)):
        yield f"{free} value(s) that occur have no bound; they are not protected and can become easier to infer."
    yield (
        "The sub-tables are computed from the table: which values occur is published, and each matrix tells of the "
        "shares in its sub-table, with one sensitive column the largest share of a protected value."
    )
    yield PER_ROW
    yield NOT_OF


def tells_composition(table: SubTable) -> bool:
    """Whether the largest protected share, which the matrix of one column tells, fixes the share of every value."""
    protected = [bound for bound in table.bounds if bound.gamma is not None]
    if len(protected) == len(table.bounds):
        return all(bound.rho1 == Fraction(1, len(protected)) for bound in protected)
    return len(table.bounds) <= 2
