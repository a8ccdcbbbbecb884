"""The root of the corrected equations of a source, held in memory or streamed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.analyst.regression.blocks import Block, Noise
from sfumato.analyst.regression.equations import Equations
from sfumato.analyst.regression.problem import Source
from sfumato.analyst.regression.solving import Point, naive_fit, require_solved, solved
from sfumato.analyst.regression.streaming import streamed
from sfumato.analyst.regression.variance import bread, covariances
from sfumato.values.arrays import FloatArray, Progress


@dataclass(frozen=True, eq=False)
class Solution:
    """The root of the corrected equations, and what was summed there."""

    equations: Equations
    best: Point
    naive: Point
    noise: Noise  # of U
    covariance: Noise  # of the coefficients
    log_likelihood: float
    rows: float
    used: float  # the corrected number of those that count

    def influence(self, block: Block) -> FloatArray:
        """Return H^-1 psi of each pattern and state of a block, (G, K, q)."""
        return np.asarray(block.psi(self.best.beta) @ bread(self.best))


def solve(source: Source, progress: Progress | None = None) -> Solution:
    """Return the solution of the corrected equations; raise CannotMeet where there is none."""
    equations = Equations(source, progress)
    if not equations.whole:
        s = streamed(equations)
        require_solved(equations, s.best)
        covariance = covariances(s.best, s.noise)
        return Solution(equations, s.best, s.naive, s.noise, covariance, s.log_likelihood, s.rows, s.used)
    naive = naive_fit(equations, np.zeros(equations.size))
    best = require_solved(equations, solved(equations, naive.beta))
    noise = equations.score_noise(best.beta)
    likelihood = equations.log_likelihood(best.beta)
    return Solution(equations, best, naive, noise, covariances(best, noise), likelihood, *equations.rows())
