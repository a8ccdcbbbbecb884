"""Subset selection: each record publishes a card, a set of k values, in which its own is likelier than any other.

    P[card, x] proportional to gamma if x is on the card, else to 1;    k next to m/(gamma + 1)

All entries of a row differ by at most the factor gamma, so that the promise is that of uniform perturbation, for any
statement and in both directions; and for its counts no mechanism with this promise has a smaller largest error over all
tables (docs/methods/subset.md). k = 1 is uniform perturbation.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sfumato.errors import Infeasible, PolicyError
from sfumato.methods.perturbation import Drawing
from sfumato.methods.subset.design import best_subset
from sfumato.values.arrays import FloatArray
from sfumato.values.attributes import Schema, SensitiveDomain
from sfumato.values.matrix.base import Matrix
from sfumato.values.matrix.deck import MOST_CARDS, DeckMatrix
from sfumato.values.mechanism import MOST_LISTED, Bound, Form

MOST_IN_SET = 8
"""Values of a set that is published as such, where the policy leaves it open: longer lists tell nobody anything, and
take more than twice as long as a plain copy of the table to write (benchmarks/publish.py)."""


MOST_SHOWN = 1_000_000
"""Values of all sets together, likewise: to list more takes longer than all the rest of a plan."""


class Subset(Drawing):
    """Subset selection: a set of values is published of each record.

    `members` is the number of values in a set; left out, the one with the least error is taken. `form` says whether the
    sets are published ("set") or the numbers of cards that stand for them ("card"); left out, short ones are.
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
    scope = "any predicate"

    members: Annotated[int, Field(ge=1)] | None = None
    form: Literal["set", "card"] | None = None

    @classmethod
    def unfit(cls, domain: SensitiveDomain) -> str:
        """Return that there are several columns, or too many values."""
        if len(domain.parts) > 1:
            return f"It takes one sensitive column, and there are {len(domain.parts)}."
        if domain.size > MOST_CARDS:
            return f"There are {domain.size:,} values; sets are drawn of at most {MOST_CARDS:,}."
        return ""

    def check(self, columns: Schema) -> None:
        """Raise unless there is one sensitive column."""
        if len(names := columns.names("sensitive")) > 1:
            raise ValueError(
                f"subset takes one sensitive column, and there are {len(names)}; choose one, or give "
                "the others a method and a requirement of their own: [columns.NAME.method], [columns.NAME.requirement]"
            )

    def matrix_for(
        self, domain: SensitiveDomain, bounds: tuple[Bound, ...], gamma: FloatArray, weight: FloatArray
    ) -> Matrix:
        """Return the deck of the best sets, for the strictest bound."""
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
        size = matrix.card(0).size
        return self.form or ("set" if size <= MOST_IN_SET and size * matrix.outputs <= MOST_SHOWN else "card")


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
