"""Subset selection: each record publishes a card, a set of k values, in which its own is likelier than any other.

    P[card, x] proportional to gamma if x is on the card, else to 1;    k next to m/(gamma + 1)

All entries of a row differ by at most the factor gamma, so that the promise is that of uniform perturbation, for any
statement and in both directions; and for its counts no mechanism with this promise has a smaller largest error over all
tables (docs/methods/proofs/subset.md). k = 1 is uniform perturbation.

Graded: values in two or three classes of gammas, and sets with some members of each. A row's entries then differ by
what the two values allow, min(gamma_i, gamma_k): the promise is for single values, and joined statements move by the
square of the smallest gamma at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from sfumato.claims.claim import BOTH
from sfumato.claims.odds import OddsClaim
from sfumato.errors import Infeasible, PolicyError
from sfumato.methods.least_error import least_error
from sfumato.methods.perturbation import Drawing
from sfumato.methods.perturbed import Choice, PerturbationFigures
from sfumato.methods.staircase import effective
from sfumato.methods.subset.design import best_subset
from sfumato.show.words import share
from sfumato.values.arrays import FloatArray
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.bound import of_each, strictest_gamma
from sfumato.values.matrix.base import Matrix
from sfumato.values.matrix.deck import MOST_CARDS, DeckMatrix
from sfumato.values.mechanism import MOST_LISTED, Bound, Form
from sfumato.values.profile import Profile

if TYPE_CHECKING:
    from sfumato.methods.subset.graded_deck import GradedDeck

MOST_IN_SET = 8
"""Values of a set that is published as such, where the policy leaves it open: longer lists tell nobody anything, and
every value of a list takes the writer about 7 ns (benchmarks/publish.py)."""


QUICK_CLASSES = 3
"""Gammas in force for which graded sets are tried beside another choice; more are first joined, which takes seconds."""


MOST_SHOWN = 1_000_000
"""Values of all sets together, likewise: to list more takes longer than all the rest of a plan."""


class Subset(Drawing):
    """Subset selection: a set of values is published of each record.

    `members` is the number of values in a set; left out, the one with the least error is taken. `form` says whether the
    sets are published ("set") or the numbers of cards that stand for them ("card"); left out, short ones are. With
    `graded` every value is held to its own requirement, in place of the strictest one for any statement.
    """

    name = "subset"
    title = "subset selection"
    promise = (
        "The odds of any statement about a value change by a bounded factor, for whoever sees the person's row, "
        "whatever they believed before."
    )
    proposed = (
        "subset: a set of values is published of each record, in which its own is likelier than any other. The truth "
        "may lie outside, and nothing says which value it is; analysts ask for the column as ever. The promise is that "
        'of uniform. Short sets are published as they are (a list, in CSV "a|b|c"); long ones as the number of a card, '
        'and the manifest says which values it stands for. form = "set" or "card" decides. If somebody must read a '
        "value in each row, choose uniform."
    )
    beside_uniform = "Leave out members, or choose uniform."
    avoid_if = "analysts must have one value in each row: a set of values is published instead."
    scope = "any predicate"
    takes_one_column = True

    members: Annotated[
        Annotated[int, Field(ge=1)] | None,
        Field(description="How many values a set has. Left open, the number with the least error is taken."),
    ] = None
    form: Annotated[
        Literal["set", "card"] | None,
        Field(description="Publish the sets themselves, or the numbers of cards that stand for them."),
    ] = None
    graded: Annotated[
        bool,
        Field(
            description="Use a requirement for each value: those that may be told more of are on more cards.",
            exclude_if=lambda chosen: not chosen,  # old policies keep their hashes
        ),
    ] = False

    @model_validator(mode="after")
    def _is_computed(self) -> Subset:
        if self.graded and self.members is not None:
            raise ValueError(
                "graded sets have as many members of each class as serve best; leave members or graded out"
            )
        return self

    @classmethod
    def unfit(cls, domain: SensitiveDomain) -> str:
        """Return that there are several columns, or too many values."""
        too_many = f"There are {domain.size:,} values; sets are drawn of at most {MOST_CARDS:,}."
        return super().unfit(domain) or (too_many if domain.size > MOST_CARDS else "")

    def matrix_for(
        self, domain: SensitiveDomain, bounds: tuple[Bound, ...], gamma: FloatArray, weight: FloatArray
    ) -> Matrix:
        """Return the deck of the best sets, for the strictest bound or for each value's own."""
        if self.graded and (found := graded_deck(bounds)) is not None:
            listed = found.matrix.outputs * found.matrix.card_sizes[1]
            is_joined = self.form_of(found.matrix) == "set" and listed <= MOST_LISTED
            return found.matrix.with_distinct_cards() if is_joined else found.matrix
        strictest = min(bound.gamma for bound in bounds if bound.gamma is not None)
        members = self.members or best_subset(float(strictest), domain.size).members
        if 2 * members > domain.size:
            raise PolicyError(
                f"A set of {members} of the {domain.size} values of {domain.name!r} holds more than half of them.",
                f"Ask for members = {domain.size // 2} or fewer, or leave it out.",
            )
        deck = deck_of(domain.size, members, strictest)
        is_written = self.form_of(deck) == "set" and deck.outputs * members <= MOST_LISTED
        return deck.with_distinct_cards() if is_written else deck

    def form_of(self, matrix: Matrix) -> Form:
        """Return how cards are published."""
        size = matrix.card_sizes[1]
        return self.form or ("set" if size <= MOST_IN_SET and size * matrix.outputs <= MOST_SHOWN else "card")

    def claimed(
        self, matrix: Matrix, bounds: tuple[Bound, ...], odds: OddsClaim
    ) -> tuple[OddsClaim, tuple[Bound, ...]]:
        """Return what is claimed: of single values where cards are graded, else of any statement."""
        return (replace(odds, scope="single values") if self.graded and _differ(matrix) else odds), bounds

    def about_matrix(self, figures: PerturbationFigures) -> tuple[str, ...]:
        """Return the classes of values, and what the cards cost beside all sets."""
        if not self.graded:
            return ()
        if (found := graded_deck(_each(figures))) is None:
            return ("graded: one gamma is in force for all values, so that the sets are those of subset without it.",)
        matrix, told = found.matrix, []
        for number, gamma in enumerate(found.gammas):
            members = matrix.classes == number
            held = float(matrix.holds_truth[members][0])
            told.append(
                f"{int(members.sum()):,} with gamma {gamma:.4g} ({share(held)} of their sets hold their own value)"
            )
        joined = "" if found.asked <= len(told) else f" ({found.asked:,} are in force; classes are joined downwards)"
        return (
            f"Classes of values{joined}: {'; '.join(told)}. A gamma is worth no more than what those of other "
            "values leave in force.",
            "The cards are some of all the sets that would serve best. At equal counts their error is "
            f"{share(found.loss, 2)} above that of all these sets.",
        )

    def beside(
        self, profile: Profile, figures: PerturbationFigures, gamma: FloatArray, weight: FloatArray
    ) -> PerturbationFigures:
        """Return the figures with the expected errors of other choices, where requirements differ."""
        if np.unique(effective(gamma)).size == 1:
            return figures
        return replace(figures, choices=tuple(_choices(figures, gamma, self.graded)))


def _differ(matrix: Matrix) -> bool:
    """Whether some value is held to less than what other statements can move by, exactly: gammas may hardly differ."""
    ratio, strictest = matrix.largest_ratio, min(matrix.upward(i) or 0 for i in range(matrix.size))
    return ratio is None or ratio > strictest


def _each(figures: PerturbationFigures) -> tuple[Bound, ...]:
    """Return what each value is held to: its own bound, or that of a set that it is in."""
    return of_each(figures.bounds, figures.mechanism.sets)


def graded_deck(bounds: tuple[Bound, ...]) -> GradedDeck | None:
    """Return the cards for the classes of these bounds; None if one gamma is in force for all values."""
    from sfumato.methods.subset.graded_deck import make_graded_deck

    return make_graded_deck(bounds)


def graded_choice(figures: PerturbationFigures) -> Iterator[Choice]:
    """Yield what graded sets would cost."""
    if (found := graded_deck(_each(figures))) is not None:
        yield Choice("subset, graded = true", figures.error_under(found.matrix))


def _choices(figures: PerturbationFigures, gamma: FloatArray, graded: bool) -> Iterator[Choice]:
    bounds, sets = figures.bounds, figures.mechanism.sets
    strictest, weight = strictest_gamma(bounds, sets), np.ones(figures.domain.size)
    assert strictest is not None  # else nothing would have been planned
    yield Choice("subset", figures.error_under(best_deck(figures.domain.size, strictest)))
    if graded or np.unique(effective(gamma)).size <= QUICK_CLASSES:
        yield from graded_choice(figures)
    staircase = least_error(bounds, BOTH, gamma, weight, sets)
    yield Choice('fine-grain, objective = "error"', figures.error_under(staircase))


def best_deck(values: int, gamma: Fraction) -> DeckMatrix:
    """Return the deck of the sets with the least error."""
    return deck_of(values, best_subset(float(gamma), values).members, gamma)


def deck_of(values: int, members: int, gamma: Fraction) -> DeckMatrix:
    """Return a deck of sets of so many values."""
    from sfumato.methods.subset.deck import make_deck

    if values > MOST_CARDS:
        raise Infeasible(
            f"There are {values:,} values; sets are drawn of at most {MOST_CARDS:,}.",
            "Merge values, or choose the method uniform.",
        )
    return DeckMatrix.within(values, make_deck(values, members).blocks.astype(np.int32), gamma)
