"""Ranges: each record publishes some neighbouring values, or a single one, in which its own is likelier than others.

    P[card, x] proportional to gamma if x is on the card, else to 1

A share tau of the cards are windows of w neighbours, cut at both ends of the order, and the others single values; w and
tau are those with the least error of the distribution function at equal counts, and do not depend on the table. All
entries of a row differ by at most the factor gamma: the promise is that of uniform perturbation
(docs/methods/ranges.md).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from sfumato.methods.ordered.drawing import OrderedDrawing, rounded
from sfumato.methods.subset.method import MOST_IN_SET
from sfumato.values.arrays import FloatArray
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.matrix.base import Matrix
from sfumato.values.matrix.dense import MOST_ENTRIES
from sfumato.values.mechanism import Bound, Form


class Ranges(OrderedDrawing):
    """Ranges: some neighbouring values are published of each record, or one.

    `form` says whether these values are published ("set") or the numbers of cards that stand for them ("card"); left
    out, short ranges are published themselves.
    """

    name = "ranges"
    title = "ranges of neighbouring values"
    promise = (
        "The odds of any statement about an ordered value, such as that it is above a threshold, change by a bounded "
        "factor, for whoever sees the person's row, whatever they believed before."
    )
    most_values = math.isqrt(MOST_ENTRIES // 3)  # there are fewer than 3 m windows and single values

    form: Literal["set", "card"] | None = None

    def matrix_for(
        self, domain: SensitiveDomain, bounds: tuple[Bound, ...], gamma: FloatArray, weight: FloatArray
    ) -> Matrix:
        """Return the best windows and single values, for the strictest bound."""
        from sfumato.methods.ordered.design import best_ranges, joined

        order = self.codes_in_order(domain)
        strictest = min(bound.gamma for bound in bounds if bound.gamma is not None)
        found = joined(best_ranges(domain.size, float(strictest)).mechanism())
        place = np.argsort(order)
        cards = tuple(tuple(np.flatnonzero(held).tolist()) for held in found.held[:, place])
        return rounded(
            found.chances[:, place],
            lambda matrix: matrix.largest_ratio is not None and matrix.largest_ratio <= strictest,
            cards,
        )

    def form_of(self, matrix: Matrix) -> Form:
        """Return how cards are published."""
        longest = max(matrix.card(number).size for number in range(matrix.outputs))
        return self.form or ("set" if longest <= MOST_IN_SET else "card")
