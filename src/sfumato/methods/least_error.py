"""The integers of the staircase and of cover noise: matrices of values with the least error of counts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sfumato.claims.odds import keeps
from sfumato.errors import Infeasible
from sfumato.methods.perturbation import round_within, strictest_retention
from sfumato.methods.set_staircase import least_error_blocks
from sfumato.methods.staircase import cover
from sfumato.values.arrays import FloatArray
from sfumato.values.bound import SetBound, of_each
from sfumato.values.matrix.base import Direction, Matrix
from sfumato.values.matrix.block import BlockMatrix
from sfumato.values.mechanism import Bound

MORE_NOISE = range(52, 20, -2)
"""Added to all entries alike, in powers of 1/2, until all bounds hold on the integers."""


def least_error(
    bounds: Sequence[Bound],
    directions: Sequence[Direction],
    gamma: FloatArray,
    weight: FloatArray,
    sets: Sequence[SetBound] = (),
) -> Matrix:
    """Return the integers of the staircase, or upward only of cover noise, that keep every bound exactly.

    Noise is rounded up, which helps the ratios of own entries; a little more of it, alike for all values, helps those
    of others. The least that passes the exact check is taken. `gamma` holds each value to the sets that it is in.
    """
    stated = [(each.inside(gamma.size), float(each.bound.gamma)) for each in sets if each.bound.gamma is not None]
    upward = "downward" not in directions
    blocks = cover(gamma) if upward else least_error_blocks(gamma, _gammas(bounds), stated, weight / weight.sum())
    if blocks.gammas.size == 1:
        return round_within(strictest_retention(gamma), of_each(bounds, sets), directions)
    for noise in (0.0, *(2.0**-bits for bits in MORE_NOISE)):
        matrix = BlockMatrix.from_floats(blocks.classes.astype(np.int32), blocks.off_diagonal, noise)
        if keeps(matrix, bounds, directions, sets):
            return matrix
    raise Infeasible(
        "A gamma is so close to 1 that 64-bit sampling cannot keep it.",
        "Ask for a gamma that is larger by a millionth.",
    )


def _gammas(bounds: Sequence[Bound]) -> FloatArray:
    return np.array([math.inf if bound.gamma is None else float(bound.gamma) for bound in bounds])
