"""Fine-grain perturbation: a retention probability per value, record utility the largest that the requirement allows.

    as-published   FG Fig. 3: upward privacy only, although FG Theorem 1 claims both directions
    proved         both directions: (m-1) p_i + G_ij p_j <= G_ij - 1 for all i != j, G_ij = min(gamma_i, gamma_j)

The guarantee is for single values: a predicate that joins several values can gain more than either of them.
"""

from __future__ import annotations

from typing import Literal

from sfumato.methods.fine_grain_solver import solve_both, solve_upward
from sfumato.methods.method import Assurance, Probability
from sfumato.methods.perturbing import Perturbing, Weights
from sfumato.values.matrix.retention import FloatArray


class FineGrain(Perturbing):
    """Fine-grain perturbation: a retention for each value.

    `weights` are the frequencies for which record utility is maximised: equal ones, a table of public ones, or the
    table's own ("observed": then the matrix itself tells something of them). No retention is below `retention_floor`.
    """

    name = "fine-grain"
    title = "fine-grain perturbation"
    promise = (
        "The odds of each single value change by a bounded factor, for whoever sees the person's row, whatever he "
        "believed before."
    )

    weights: Literal["observed", "equal"] | dict[str, Probability] = "equal"

    @property
    def weighting(self) -> Weights:
        """The frequencies for which record utility is maximised."""
        return self.weights

    def retention(self, gamma: FloatArray, weight: FloatArray, floor: float, assurance: Assurance) -> FloatArray:
        """Return the optimal retentions."""
        solve = solve_upward if assurance == "as-published" else solve_both
        return solve(gamma, weight, floor)
