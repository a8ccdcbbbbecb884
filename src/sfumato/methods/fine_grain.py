"""Fine-grain perturbation: a retention probability per value, record utility the largest that the requirement allows.

    as-published   FG Fig. 3: upward privacy only, although FG Theorem 1 claims both directions
    proved         both directions: (m-1) p_i + G_ij p_j <= G_ij - 1 for all i != j, G_ij = min(gamma_i, gamma_j)

The guarantee is for single values: a predicate that joins several values can gain more than either of them.
"""

from __future__ import annotations

from sfumato.methods.fine_grain_solver import solve_both, solve_upward
from sfumato.values.matrix.retention import FloatArray


def retention(gamma: FloatArray, frequency: FloatArray, floor: float, assurance: str) -> FloatArray:
    """Return the optimal retentions; the floor has been checked."""
    solve = solve_upward if assurance == "as-published" else solve_both
    return solve(gamma, frequency, floor)
