"""Fine-grain perturbation: a retention probability per value, record utility the largest that the requirement allows.

    as-published   FG Fig. 3: upward privacy only, although FG Theorem 1 claims both directions
    proved         both directions: (m-1) p_i + G_ij p_j <= G_ij - 1 for all i != j, G_ij = min(gamma_i, gamma_j)

The guarantee is for single values: a predicate that joins several values can gain more than either of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from sfumato.claims.claim import BOTH, UPWARD
from sfumato.methods.fine_grain_solver import solve_both, solve_upward
from sfumato.methods.matrix_file import read_columns
from sfumato.methods.method import Probability
from sfumato.methods.perturbation import Perturbing, Weights
from sfumato.methods.perturbed import PerturbationFigures
from sfumato.values.arrays import Assurance, FloatArray
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.matrix.base import Direction


class FineGrain(Perturbing):
    """Fine-grain perturbation: a retention for each value.

    `weights` are the frequencies for which record utility is maximised: equal ones, a table of public ones, or the
    table's own ("observed": then the matrix itself tells something of them). No retention is below `retention_floor`.
    `matrix` names a CSV file with a matrix, which is taken if it keeps the requirement: see docs/methods/fine-grain.md.
    """

    name = "fine-grain"
    title = "fine-grain perturbation"
    promise = (
        "The odds of each single value change by a bounded factor, for whoever sees the person's row, whatever he "
        "believed before."
    )

    weights: Literal["observed", "equal"] | dict[str, Probability] = "equal"
    matrix: Annotated[str | None, Field(exclude_if=lambda name: name is None)] = None  # old policies keep their hashes

    @model_validator(mode="after")
    def _is_given_alone(self) -> FineGrain:
        if self.matrix is not None and (self.assurance, self.weights, self.retention_floor) != ("proved", "equal", 0):
            raise ValueError(
                "a matrix that is given is not computed: assurance, weights and retention_floor do not go with matrix; "
                "leave them out"
            )
        return self

    def columns(self, domain: SensitiveDomain, gamma: FloatArray) -> Sequence[Sequence[int]] | None:
        """Return the matrix of the file, from the policy's folder."""
        return None if self.matrix is None else read_columns(self.folder / self.matrix, domain)

    def about_matrix(self, figures: PerturbationFigures) -> tuple[str, ...]:
        """Return whence the matrix is."""
        if self.matrix is None:
            return ()
        return (
            "The matrix was given in a file. Its bounds were checked in exact integers; that it was not made from this "
            "table, of which it would tell something, is for you to know.",
        )

    @property
    def directions(self) -> tuple[Direction, ...]:
        """FG Fig. 3 as published asks for the upward direction only."""
        return BOTH if self.assurance == "proved" else UPWARD

    @property
    def weighting(self) -> Weights:
        """The frequencies for which record utility is maximised."""
        return self.weights

    def retention(self, gamma: FloatArray, weight: FloatArray, floor: float, assurance: Assurance) -> FloatArray:
        """Return the optimal retentions."""
        solve = solve_upward if assurance == "as-published" else solve_both
        return solve(gamma, weight, floor)
