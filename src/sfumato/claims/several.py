"""Several sensitive columns, each drawn by a mechanism of its own: what is promised of each, and of all together.

Given a record's values z = (z_1 .. z_k) the columns are drawn independently of each other:

    K(y | z) = prod_j P_j[y_j, z_j];        G_j = the largest ratio of two entries of a row of P_j

Over all priors on z the odds of a statement A change by at most

    max_y  max_{z in A} K(y | z)  /  min_{z not in A} K(y | z)

and by that much for some prior. Let f_i(A) be that quotient for P_i alone. So

    A about column i, read alone         f_i(A): what the mechanism of the column promises
    A about column i, all are read       f_i(A) prod_{j != i} G_j: the others' entries are free, inside A and outside
    any A about the combination          prod_j G_j, at most; reached by A = {z}, z the largest entry of every row

The second is f_i(A) again for a prior under which the columns are independent: they cancel. Proofs:
docs/methods/proofs/several.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sfumato.claims.claim import (
    BOTH,
    NOT_OF,
    PER_ROW,
    UPWARD,
    Check,
    Claim,
    Guarantee,
    Plain,
    Published,
    Scope,
    Shape,
    Strength,
    as_stated,
    percent,
    rounded_up,
)
from sfumato.claims.odds import (
    PRIOR,
    OddsClaim,
    adversary_of_noise,
    assumed,
    bounds_some,
    equal_twice,
    told_factor,
)
from sfumato.claims.plain import BELIEF, after, attacker_of_noise
from sfumato.claims.why import Step, of_product
from sfumato.show.words import at_least
from sfumato.values.computed import Facts
from sfumato.values.mechanism import Mechanism

MOST_TOLD = 2
"""Columns whose promises a card tells by themselves."""
ALL_PRIORS = (
    "Any prior on the record's values, also one in which its sensitive columns depend on each other or on its "
    "quasi-identifiers."
)
KNOWS_ALL = "Someone who knows all other records may learn from what was computed from the table, by that alone."


@dataclass(frozen=True)
class SeveralClaim(Claim):
    """The claim of each mechanism, in their order, with the names of its columns and of its method."""

    columns: tuple[str, ...]
    methods: tuple[str, ...]
    parts: tuple[OddsClaim, ...]

    rests_on = "the methods, the bounds and the matrices of all columns"
    rechecked = (
        "`sfumato verify .` re-checks the guarantee of each column, and what holds of all together, on the integer "
        "matrices of the manifest."
    )

    @property
    def scope(self) -> Scope:
        """The statements of which all columns promise something."""
        return "any predicate" if {part.scope for part in self.parts} == {"any predicate"} else "single values"

    def discloses(self) -> bool:
        return any(part.discloses() for part in self.parts)

    def facts(self) -> Facts:
        named = zip(self.columns, self.parts, strict=True)
        return tuple(f"{name}: {fact}" for name, part in named for fact in part.facts())

    def guarantee(self, shape: Shape) -> Guarantee:
        """Return what holds of each column alone, and of all together."""
        each = [
            part.guarantee(replace(shape, mechanisms=(mechanism,)))
            for part, mechanism in zip(self.parts, shape.mechanisms, strict=True)
        ]
        proved: Strength = "any prior, computed from this table" if shape.computed else "any prior"
        return Guarantee(
            sentence=" ".join([*self._alone(each), *told_together(self, shape)]),
            adversary=adversary_of_noise(shape.computed).replace("Knows the matrix", "Knows the matrices"),
            prior=" ".join([ALL_PRIORS, *self._other_priors(each)]),
            scope=self.scope,
            directions=BOTH if all(part.directions == BOTH for part in self.parts) else UPWARD,
            strength="as published" if "as published" in {own.strength for own in each} else proved,
            limits=tuple(self._limits(each, shape)),
        )

    def plain(self, shape: Shape) -> Plain:
        """Return the promise of each column, and how sure someone can become by all together."""
        each = [
            part.plain(replace(shape, mechanisms=(mechanism,)))
            for part, mechanism in zip(self.parts, shape.mechanisms, strict=True)
        ]
        whole, prior = together(shape.mechanisms), _belief(shape.mechanisms)
        told = [f"{name} read alone: {own.promise}" for name, own in zip(self.columns, each, strict=True)]
        told[MOST_TOLD:] = [f"{len(told) - MOST_TOLD:,} more columns: as listed."] if told[MOST_TOLD:] else []
        reached = "can become certain" if whole is None else f"will not get above {after(whole, prior)}"
        told.append(f"All read together: someone {at_least(prior)} sure of anything {reached}.")
        gaps = dict.fromkeys(gap for own in each for gap in own.gaps)
        return Plain(" ".join(told), attacker_of_noise(shape.computed), tuple(gaps))

    def why(self, shape: Shape) -> Iterator[Step]:
        """Yield the reasons of each column, then what all can do together."""
        for name, part, mechanism in zip(self.columns, self.parts, shape.mechanisms, strict=True):
            for step in part.why(replace(shape, mechanisms=(mechanism,))):
                yield step._replace(about=f"{name}: {step.about}")
        yield of_product(self.columns, [mechanism.matrix.largest_ratio for mechanism in shape.mechanisms])

    def _alone(self, each: Sequence[Guarantee]) -> Iterator[str]:
        """Yield the promise of every column, for what that column itself shows."""
        names = ", ".join(self.columns)
        yield f"The sensitive columns ({names}) are drawn each by itself. For someone who reads one of them alone:"
        yield from (own.sentence for own in each)

    def _other_priors(self, each: Sequence[Guarantee]) -> Iterator[str]:
        yield from (f"{name}: {own.prior}" for name, own in zip(self.columns, each, strict=True) if own.prior != PRIOR)

    def _limits(self, each: Sequence[Guarantee], shape: Shape) -> Iterator[str]:
        """Yield what is not covered: of the combination, of each column, of all."""
        yield (
            "The promise of one column is for what that column itself shows, or for someone to whom the columns of a "
            "record tell nothing of each other. Where they go together, such as an illness and its treatment, the "
            "others tell of it too, by the factors that are stated for all columns read together."
        )
        shared = (KNOWS_ALL, PER_ROW, NOT_OF)
        for name, own in zip(self.columns, each, strict=True):
            yield from (f"{name}: {limit}" for limit in own.limits if limit not in shared)
        yield from shared if shape.computed else shared[1:]

    def second_release(self, shape: Shape, *, keyed: bool) -> str:
        whole = together(shape.mechanisms)
        if keyed:
            worst = _product([equal_twice(mechanism.matrix) for mechanism in shape.mechanisms])
            return (
                "Records keep their draws in later releases of the same series with the same key file, domains and "
                f"matrices. {assumed(shape.mechanisms)} Read together, equal published values of all columns raise "
                f"them by up to {told_factor(worst)}. With another matrix or domain fresh noise is drawn in that "
                "column, and the two add up: the factors are multiplied."
            )
        twice = None if whole is None else whole**2
        return (
            "The key was discarded: a second release of the same people draws fresh noise in every column, and the two "
            f"add up. The odds of a statement about a record can change by up to {told_factor(whole)} in one release, "
            f"and by up to {told_factor(twice)} in two with these matrices."
        )

    def second_releases(self, shape: Shape) -> set[str]:
        """Return both sentences; where nothing is bounded there is no factor to state."""
        return super().second_releases(shape) if all(map(bounds_some, shape.mechanisms)) else set()

    def fits(self, published: Published) -> dict[str, bool]:
        """Return whether there are several columns, each with one matrix for all rows."""
        names = tuple(mechanism.domain.name for mechanism in published.mechanisms)
        whole = all(mechanism.is_whole for mechanism in published.mechanisms)
        weakest = "as-published" if any(part.as_published for part in self.parts) else "proved"
        return {
            "method": len(names) > 1 and names == self.columns and whole,
            "assurance": published.assurance == weakest,
        }

    def checks(self, published: Published) -> Iterator[Check]:
        yield as_stated(self, published)
        for name, part, mechanism in zip(self.columns, self.parts, published.mechanisms, strict=False):
            yield from (replace(check, name=f"{check.name} of {name}") for check in part.proofs(mechanism))


# --- in exact integers ------------------------------------------------------------------------------------------------


def _product(factors: Sequence[Fraction | None]) -> Fraction | None:
    """Return the product; None: one is without bound."""
    known = [factor for factor in factors if factor is not None]
    return math.prod(known, start=Fraction(1)) if len(known) == len(factors) else None


def together(mechanisms: Sequence[Mechanism]) -> Fraction | None:
    """Return by how much the odds of any statement about the combination can change; None: without bound."""
    return _product([mechanism.matrix.largest_ratio for mechanism in mechanisms])


def besides(mechanisms: Sequence[Mechanism], place: int) -> Fraction | None:
    """Return by how much the other columns can multiply the factor of a statement about one of them."""
    return together([*mechanisms[:place], *mechanisms[place + 1 :]])


# --- in words ---------------------------------------------------------------------------------------------------------


def told_together(claim: SeveralClaim, shape: Shape) -> Iterator[str]:
    """Yield what someone can gain who reads all columns together, a sentence each."""
    mechanisms = shape.mechanisms
    if not all(mechanism.is_whole for mechanism in mechanisms):
        return
    others = [besides(mechanisms, place) for place in range(len(mechanisms))]
    told = [
        f"about {name} by {'no bounded factor' if factor is None else f'up to {rounded_up(factor)}'}"
        for name, factor in zip(claim.columns, others, strict=True)
    ]
    yield (
        "Someone who reads them together can gain more where the columns of a record go together. What the others tell "
        f"multiplies the factor of a statement {', of one '.join(told[:-1])}, and of one {told[-1]}."
    )
    whole = together(mechanisms)
    if whole is None:
        yield "The odds of a statement about several of them have no bound."
        return
    prior = _belief(mechanisms)
    yield (
        "For any statement about a record's sensitive values, one or several: seeing the release lets its odds change "
        f"by at most {told_factor(whole)}; a prior belief of {percent(prior)} can become {after(whole, prior)}."
    )


def _belief(mechanisms: Sequence[Mechanism]) -> Fraction:
    """Return the smallest rho1 that is stated for all values of a column; one in ten where there is none."""
    stated = [bounds[0].rho1 for bounds in (mechanism.bounds for mechanism in mechanisms) if len(set(bounds)) == 1]
    return min((rho1 for rho1 in stated if rho1 is not None), default=BELIEF)
