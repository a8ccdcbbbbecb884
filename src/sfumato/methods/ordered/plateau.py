"""Plateau: each record publishes a value, its own or a neighbour more often than a far one.

    P[y, x] = c_y max(alpha^|x-y|, 1/gamma)

Two entries of a row differ by at most min(alpha^-d, gamma) for values d steps apart: the promise is that of uniform
perturbation, and neighbours are harder still to tell apart (docs/methods/proofs/plateau.md).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

from pydantic import Field

from sfumato.errors import PolicyError
from sfumato.methods.method import Probability, between
from sfumato.methods.ordered.drawing import OrderedDrawing, in_codes, rounded
from sfumato.values.arrays import FloatArray
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.matrix.base import Matrix
from sfumato.values.mechanism import Bound

MOST_SEARCHED = 1_000
"""Values for which the best alpha is searched, in some ten seconds."""


class Plateau(OrderedDrawing):
    """Plateau: a value is published of each record, neighbours of its own more often than far ones.

    `alpha`, between 0 and 1, says how slowly the chance falls with each step; left out, the one with the least error of
    the distribution function is taken. A larger one is better for means.
    """

    name = "plateau"
    title = "plateau perturbation"
    promise = (
        "The odds of any statement about an ordered value, such as that it is above a threshold, change by a bounded "
        "factor, for whoever sees the person's row, whatever they believed before."
    )
    avoid_if = "the values have no order, or the counts of single values matter more than counts up to a value."

    proposed = (
        "plateau: a value is published of each record, its own or a near one more often than a far one. The promise is "
        'that of uniform, "at least c" included.'
    )

    alpha: Annotated[
        Probability | None,
        Field(description="How slowly the chance of a value falls with each step away from the truth: 0 to 1."),
    ] = None

    def check_numbers(self) -> None:
        """Raise if alpha is no probability."""
        _ = self._stated

    @property
    def _stated(self) -> Fraction | None:
        return None if self.alpha is None else between(self.alpha, "alpha", strictly=True)

    def matrix_for(
        self, domain: SensitiveDomain, bounds: tuple[Bound, ...], gamma: FloatArray, weight: FloatArray
    ) -> Matrix:
        """Return the matrix of alpha, for the strictest bound."""
        from sfumato.methods.ordered.design import plateau

        order = self.codes_in_order(domain)
        strictest = min(bound.gamma for bound in bounds if bound.gamma is not None)
        alpha = self._alpha_for(domain, float(strictest))
        try:
            chances = plateau(domain.size, alpha, float(strictest))
        except ValueError:
            raise PolicyError(
                f"With alpha = {alpha:g} there is no plateau matrix of {domain.size:,} values for this requirement.",
                "Ask for a smaller alpha, or leave it out.",
            ) from None
        return rounded(
            in_codes(chances, order),
            lambda matrix: matrix.largest_ratio is not None and matrix.largest_ratio <= strictest,
        )

    def _alpha_for(self, domain: SensitiveDomain, gamma: float) -> float:
        from sfumato.methods.ordered.design import best_plateau

        if self._stated is not None:
            return float(self._stated)
        if domain.size > MOST_SEARCHED:
            raise PolicyError(
                f"The best alpha is searched for up to {MOST_SEARCHED:,} values, and {domain.name!r} has "
                f"{domain.size:,}.",
                "State alpha = 0.7, say, or make the column coarser with bins = { width = ... }.",
            )
        return best_plateau(domain.size, gamma)[0]
