"""Uniform perturbation: one retention probability for all values.

    p = (gamma - 1)/(m - 1 + gamma),  gamma = min_i gamma_i        SDR Eq. (4)-(5), FG Eq. (2)

All entries of a row differ by at most the factor gamma, in both directions, so the guarantee holds for any predicate on
the sensitive value. As-published and proved are the same matrix.
"""

from __future__ import annotations

from sfumato.methods.perturbation import Perturbing


class Uniform(Perturbing):
    """Uniform perturbation. `retention_floor`: refuse to retain less than this."""

    name = "uniform"
    title = "uniform perturbation"
    promise = (
        "The odds of any statement about a value change by a bounded factor, for whoever sees the person's row, "
        "whatever they believed before."
    )
    proposed = (
        "uniform: every value is kept with the same probability, and the promise holds for any statement about a "
        'record. "fine-grain" can protect some values more than others, and holds for single values.'
    )
    avoid_if = (
        "the column has so many values that little of each count is left, or some values need much more protection "
        "than others."
    )
    assurances_agree = True
    scope = "any predicate"
