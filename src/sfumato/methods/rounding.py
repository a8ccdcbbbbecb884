"""From real numbers to the integers that are sampled, so that the guarantee holds on the integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.claims.odds import violations
from sfumato.errors import Infeasible
from sfumato.values.arrays import FloatArray
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.matrix.base import Direction
from sfumato.values.matrix.dense import DenseMatrix
from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato.values.requirement import Bound

SHRINK_BITS = range(52, 20, -2)
MIXED_BITS = range(62, 30, -2)
"""A given matrix may be mixed with so little uniform noise, 2^-62 to 2^-32, that it is no more than rounding."""


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


def round_given(
    columns: Sequence[Sequence[int]], bounds: Sequence[Bound], directions: Sequence[Direction], domain: SensitiveDomain
) -> DenseMatrix:
    """Return the integer matrix next to a given one that keeps every bound exactly; columns are in proportion.

    Every entry is within a unit of 2^-64 of the one given. Where that breaks a bound which the given numbers keep,
    (1 - d) P + d/m is taken with the least d = 2^-b: it leaves each bound a slack of (gamma - 1) d/m, far more than a
    unit. A matrix that breaks a bound by more than rounding is refused.
    """
    plain = DenseMatrix.from_shares(columns)
    if next(violations(plain, bounds, directions), None) is None:
        return plain
    for bits in MIXED_BITS:
        mixed = DenseMatrix.from_shares(_mixed(column, bits) for column in columns)
        if next(violations(mixed, bounds, directions), None) is None:
            return mixed
    raise _broken(plain, bounds, directions, domain)


def _mixed(column: Sequence[int], bits: int) -> list[int]:
    """Return (1 - 2^-bits) p + 2^-bits/m, in integers of another total."""
    total, m = sum(column), len(column)
    return [((1 << bits) - 1) * m * entry + total for entry in column]


def _broken(
    matrix: DenseMatrix, bounds: Sequence[Bound], directions: Sequence[Direction], domain: SensitiveDomain
) -> Infeasible:
    """Name the value whose bound is broken most, and the two entries that do it."""
    found = list(violations(matrix, bounds, directions))
    worst = max(found, key=lambda broken: (broken.factor is None, (broken.factor or 0) / broken.gamma))
    published, rival = (domain.labels[code] for code in matrix.worst_case(worst.code, worst.direction))
    value, values = domain.labels[worst.code], len({broken.code for broken in found})
    by = "without bound" if worst.factor is None else f"by a factor of {float(worst.factor):.6g}"
    way = "raises" if worst.direction == "upward" else "lowers"
    return Infeasible(
        f"The given matrix breaks the requirement on {value!r}: a published {published!r} {way} its odds against "
        f"{rival!r} {by}; {float(worst.gamma):.6g} is allowed. {values:,} of {domain.size:,} values are beyond theirs.",
        f"In the line {published!r} bring the entries of {value!r} and {rival!r} nearer to each other, or loosen the "
        "requirement.",
    )
