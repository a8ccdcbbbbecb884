"""From real retentions to the integers that are sampled, so that the guarantee holds on the integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.claims.odds import violations
from sfumato.errors import Infeasible
from sfumato.values.matrix.base import Direction
from sfumato.values.matrix.retention import FloatArray, PerturbationMatrix
from sfumato.values.requirement import Bound

SHRINK_BITS = range(52, 20, -2)


def round_within(
    retention: FloatArray, bounds: Sequence[Bound], directions: Sequence[Direction], floor: float = 0.0
) -> PerturbationMatrix:
    """Return the integer matrix next below `retention` that keeps every bound exactly.

    Rounding noise up helps every constraint; what remains is the solver's own rounding (about 2^-52) and the cap on
    pure noise. Less retention always helps: the constraints are (m-1) p_i + G p_j <= G - 1 with non-negative
    coefficients, so scaling all p by 1 - 2^-b leaves a slack of 2^-b (G-1). The least shrinking that passes the
    exact check is taken.
    """
    retention = np.clip(retention, 0.0, 1.0)
    for shrink in (0.0, *(2.0**-bits for bits in SHRINK_BITS), 1.0):
        matrix = PerturbationMatrix.from_retention(retention * (1 - shrink))
        if next(violations(matrix, bounds, directions), None) is None:
            if matrix.retention.min() < floor * (1 - 1e-6):
                break
            return matrix
    raise Infeasible(
        "A gamma is so close to 1 that 64-bit sampling cannot keep it, or not with this retention floor.",
        "Ask for a gamma that is larger by a millionth.",
    )
