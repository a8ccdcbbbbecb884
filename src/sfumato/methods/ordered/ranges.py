"""Ranges: each record publishes some neighbouring values, or a set of scattered ones, its own likelier than others.

    P[card, x] proportional to gamma if x is on the card, else to 1

A share tau of the records draws windows of w neighbours, cut at both ends of the order, and the others sets of k values
of a deck (k = 1: single values). w and tau are those with the least error of the distribution function at equal counts,
k is best for any of them, and nothing depends on the table. All entries of a row differ by at most the factor gamma:
the promise is that of uniform perturbation (docs/methods/proofs/ranges.md).
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sfumato.methods.ordered.drawing import OrderedDrawing, too_strict
from sfumato.methods.subset.method import MOST_IN_SET
from sfumato.values.arrays import FloatArray
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.matrix.base import Matrix
from sfumato.values.matrix.dense import MOST_ENTRIES
from sfumato.values.mechanism import Bound, Form


class Ranges(OrderedDrawing):
    """Ranges: some neighbouring values are published of each record, or a set of others.

    `mixed_with` says what a record shows that shows no range: a set of scattered values ("sets", the least error), or
    one value ("values"). `form` says whether these values are published ("set") or the numbers of cards that stand for
    them ("card"); left out, short ones are published themselves.
    """

    name = "ranges"
    title = "ranges of neighbouring values"
    promise = (
        "The odds of any statement about an ordered value, such as that it is above a threshold, change by a bounded "
        "factor, for whoever sees the person's row, whatever they believed before."
    )
    avoid_if = "the values have no order, or the counts of single values matter more than counts up to a value."
    proposed = (
        "ranges: some neighbouring values are published of each record, or a set of scattered ones, in which its "
        "own is likelier than any other. The truth may lie outside; analysts ask for the column as ever. The "
        'promise is that of uniform, "at least c" included. It is for shares up to a value, quantiles and means. '
        'Short sets are published as they are (a list, in CSV "a|b|c"); long ones as the number of a card, and the'
        ' manifest says which values it stands for. form = "set" or "card" decides.'
    )
    most_values = math.isqrt(MOST_ENTRIES // 3)  # there are fewer than 2 m windows, and one block of a deck at least

    mixed_with: Annotated[
        Literal["sets", "values"], Field(description="What is published of the records that get no range.")
    ] = "sets"
    form: Annotated[
        Literal["set", "card"] | None,
        Field(description="Publish the ranges themselves, or the numbers of cards that stand for them."),
    ] = None

    def matrix_for(
        self, domain: SensitiveDomain, bounds: tuple[Bound, ...], gamma: FloatArray, weight: FloatArray
    ) -> Matrix:
        """Return the best windows, and what they are mixed with, for the strictest bound."""
        from sfumato.methods.ordered.design import best_mixture, best_ranges
        from sfumato.values.matrix.windows import Parts

        order = self.codes_in_order(domain)
        strictest = min(bound.gamma for bound in bounds if bound.gamma is not None)
        if float(strictest) <= 1:
            raise too_strict()
        search = best_mixture if self.mixed_with == "sets" else best_ranges
        found = search(domain.size, float(strictest))
        blocks = found.deck.blocks if found.share < 1 else np.empty((0, 1), dtype=np.int64)
        try:
            parts = Parts.within(order.tolist(), found.width, found.share, blocks, strictest)
        except ValueError:
            raise too_strict() from None
        return parts.matrix()

    def form_of(self, matrix: Matrix) -> Form:
        """Return how cards are published."""
        longest = max(matrix.card(number).size for number in range(matrix.outputs))
        return self.form or ("set" if longest <= MOST_IN_SET else "card")
