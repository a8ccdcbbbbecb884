"""Newton over cells that do not fit in memory: solved on the cells at the beginning, then on all of them.

Each pass sums the corrected and the naive equations together, so that both need the same few passes. After a step that
moves no linear predictor by more than d the error is of order d^2; passes end where that is nothing beside the noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from sfumato.analyst.regression.blocks import Block, Noise
from sfumato.analyst.regression.equations import Equations
from sfumato.analyst.regression.solving import EDGE, Point, closed_edges, naive_fit, newton_step, settled, solved
from sfumato.analyst.regression.sums import Sums
from sfumato.analyst.regression.variance import bread
from sfumato.values.arrays import FloatArray

MOST_PASSES = 15
NOTHING = 1e-10
"""Of the smallest standard error: what the last step may leave."""
NEAR_EDGE = 5.0
"""Where a level starts that ran off in the sample."""
SMALL = 1e-4
"""How far the last step of the naive fit may move a linear predictor."""


@dataclass(frozen=True, eq=False)
class _Pass:
    corrected: Sums
    shown: Sums
    noise: Noise
    totals: FloatArray  # the log-likelihood, the rows, those that count

    def __add__(self, other: _Pass) -> _Pass:
        return _Pass(
            self.corrected + other.corrected,
            self.shown + other.shown,
            self.noise + other.noise,
            self.totals + other.totals,
        )


@dataclass(frozen=True, eq=False)
class Streamed:
    """Both solutions, and the sums beside them."""

    best: Point
    naive: Point
    noise: Noise
    log_likelihood: float
    rows: float
    used: float


def streamed(equations: Equations) -> Streamed:
    """Return the solution of all cells; `best.solved` tells whether there is one."""
    sample = equations.sample
    naive = naive_fit(sample, np.zeros(equations.size))
    best, naive = (_start(point) for point in (solved(sample, naive.beta), naive))
    del sample
    equations.forget()
    for number in range(MOST_PASSES):
        last = number > 0  # the first pass is never the last one: it does without the noise
        sums = reduce(add, (_summed(block, best.beta, naive.beta, last) for block in equations.blocks()))
        best, naive = replace(best, sums=sums.corrected), replace(naive, sums=sums.shown)
        steps = [newton_step(equations, point) for point in (best, naive)]
        if not np.isfinite(steps[0]).all():
            break
        if last and _nothing_left(equations, best, steps[0], sums.noise) and equations.reach(steps[1]) < SMALL:
            best = replace(_moved(best, steps[0]), solved=best.definite and settled(best))
            dealt = equations.source.buckets is not None
            noise = equations.score_noise(best.beta) if dealt else sums.noise.within_strata()
            return Streamed(best, _moved(naive, steps[1]), noise, *sums.totals)
        best, naive = (closed_edges(equations, _moved(p, s)) for p, s in zip((best, naive), steps, strict=True))
    return Streamed(replace(best, solved=False), naive, sums.noise, *sums.totals)


def _start(point: Point) -> Point:
    """Return where to start on all cells: a level that ran off in the sample need not do so there."""
    beta = np.where(point.edge, np.sign(point.beta) * NEAR_EDGE, point.beta) if point.solved else 0 * point.beta
    return Point(beta, np.ones_like(point.free), np.zeros_like(point.edge), point.sums)


def _summed(block: Block, beta: FloatArray, shown: FloatArray, last: bool) -> _Pass:
    corrected, naive = block.sums(beta), block.sums(shown, 0.0)
    if not last:
        nothing = np.zeros_like(corrected.information)
        return _Pass(corrected, naive, Noise(nothing, nothing), np.zeros(3))
    totals = (block.log_likelihood(beta), block.cells.count.sum(), block.corrected.sum())
    return _Pass(corrected, naive, block.score_noise(beta), np.array(totals, dtype=np.float64))


def _moved(point: Point, step: FloatArray) -> Point:
    return replace(point, beta=point.beta + step)


def _nothing_left(equations: Equations, point: Point, step: FloatArray, noise: Noise) -> bool:
    if not equations.family.curved:
        return equations.reach(step) < NOTHING * EDGE
    if not point.definite:
        return False
    inverse = bread(point)
    smallest = np.sqrt(np.diag(inverse @ noise.population @ inverse)[point.free].min())
    return bool(equations.reach(step) ** 2 <= NOTHING * smallest)
