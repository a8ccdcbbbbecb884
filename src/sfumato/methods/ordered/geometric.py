"""Geometric perturbation: each record publishes a value; the chance falls by one factor with every step from its own.

    P[y, x] = (1-alpha)/(1+alpha) alpha^|x-y|, in the first and the last row divided by 1-alpha

Neighbours have a ratio of 1/alpha in a row, and values d steps apart one of alpha^-d: the promise is about values near
each other, for someone who already knows the rest. alpha = gamma^(-1/W) keeps gamma over W steps
(docs/methods/proofs/geometric.md).
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sfumato.claims.odds import OddsClaim
from sfumato.claims.steps import StepsClaim, within_steps
from sfumato.errors import PolicyError
from sfumato.methods.ordered.drawing import OrderedDrawing, in_codes, rounded
from sfumato.methods.perturbed import PerturbationFigures
from sfumato.values.arrays import FloatArray
from sfumato.values.attributes import Schema, SensitiveDomain
from sfumato.values.matrix.base import Matrix
from sfumato.values.mechanism import Bound
from sfumato.values.requirement import Amplification, LocalPrivacy, Requirement, RhoPrivacy


class Geometric(OrderedDrawing):
    """Geometric perturbation: a value is published of each record, the nearer to its own the more often.

    The requirement is kept for someone who already knows a value up to so many `steps` of the order.
    """

    name = "geometric"
    title = "geometric perturbation"
    promise = (
        "The odds of any statement about an ordered value change by a bounded factor, for whoever sees the person's "
        "row and already knew the value up to some steps; for others by more, the further apart values are."
    )
    left_out = (
        "It promises less, and only to someone who knows a value up to some steps already: how many is for you to say. "
        "To compare it, choose it in the policy, with steps."
    )
    alternative = (
        "WEAKER PROMISE: geometric keeps the requirement only for someone who already knows the value up to so many "
        "steps of the order; everybody else can learn roughly how large it is. For values whose rough size is known:",
        ('name = "geometric"', "steps = 2"),
    )
    avoid_if = "someone may know little of a value beforehand: the bound is for those who know it up to some steps."
    takes = (RhoPrivacy, Amplification, LocalPrivacy)
    most_values = 1_000

    steps: Annotated[
        int,
        Field(ge=1, description="The bound is for someone who already knows the value up to this many steps."),
    ]

    def asked(self, requirement: Requirement, columns: Schema) -> object:
        """Return the steps for which a plan must have been made."""
        return self.steps

    def matrix_for(
        self, domain: SensitiveDomain, bounds: tuple[Bound, ...], gamma: FloatArray, weight: FloatArray
    ) -> Matrix:
        """Return the matrix whose neighbours keep the bound over the steps."""
        from sfumato.methods.ordered.design import geometric

        order = self.codes_in_order(domain)
        if self.steps >= domain.size:
            raise PolicyError(
                f"{domain.name!r} has {domain.size:,} values, and so {domain.size - 1:,} steps, not {self.steps:,}.",
                f"Ask for steps = {domain.size - 1} or fewer. For one factor over all steps choose ranges or plateau.",
            )
        alpha = float(gamma[0]) ** (-1 / self.steps)
        return rounded(
            in_codes(geometric(domain.size, alpha), order),
            lambda matrix: within_steps(matrix, order.tolist(), self.steps, bounds[0]),
        )

    def claimed(
        self, matrix: Matrix, bounds: tuple[Bound, ...], odds: OddsClaim
    ) -> tuple[OddsClaim, tuple[Bound, ...]]:
        """Return the claim for values within the steps, and the factor of the matrix for everybody."""
        claim = StepsClaim(**vars(odds), steps=self.steps, bound=bounds[0])
        return claim, (Bound(matrix.largest_ratio),) * matrix.size

    def about_matrix(self, figures: PerturbationFigures) -> tuple[str, ...]:
        """Tell the errors, and that uniform perturbation would promise more."""
        return (
            *super().about_matrix(figures),
            f"This plan promises the factor {self.factor_of(figures):.4g} to someone who knows {figures.domain.name!r} "
            f"up to {self.steps} step(s) already, and to everybody else {min(figures.gamma):.4g}; uniform perturbation "
            f"promises {self.factor_of(figures):.4g} to everybody.",
        )

    def factor_of(self, figures: PerturbationFigures) -> float:
        """Return the factor within the steps."""
        assert isinstance(figures.claim, StepsClaim)
        assert figures.claim.bound.gamma is not None
        return float(figures.claim.bound.gamma)
