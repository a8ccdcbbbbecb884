"""The estimating equations of a source, held in memory or streamed.

    U_hat(beta) = sum_i omega_i sum_k b_ik psi(beta; w_i, k)        E[U_hat(beta) | table] = U_T(beta)

for every beta, since E[b_ik | x_i] is 1 for the true state and 0 for others. No other estimate is unbiased for all
tables: one would solve (P x ... x P)' a = U_T, and that matrix is invertible. U_hat is the gradient of the sum of
b log p(Y | w, k).

A source of many cells is read again for each sum; what is added up is always in the order of the batches, so that equal
releases give equal answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from operator import add

import numpy as np

from sfumato.analyst.regression.blocks import Block, Noise, blocks_of
from sfumato.analyst.regression.buckets import noise_of_deal
from sfumato.analyst.regression.problem import Cells, Source
from sfumato.analyst.regression.sums import Sums
from sfumato.values.arrays import BoolArray, FloatArray, Progress

NUMBERS_HELD = 12_000_000
"""Of weights, designs and outcomes: more than these are read again whenever they are summed."""


class Equations:
    """The cells of a source, or a sample of them; `whole` tells whether they are held in memory."""

    def __init__(self, source: Source, progress: Progress | None = None, sample: list[Block] | None = None) -> None:
        self.source, self.family, self.progress = source, source.family, progress
        self._held: list[Block] = sample or []
        self.whole = bool(sample) or self._hold()
        designs = [block.cells.design for block in self._held]
        ends = [side(d, axis=(0, 1), initial=0) for d in designs for side in (np.max, np.min)]
        self._widest = np.abs(ends).max(axis=0)

    def _hold(self) -> bool:
        numbers = 0
        for cells in self.source.batches():
            self._tell(cells)
            numbers += sum(a.size for a in (cells.weights, cells.design, cells.outcome))
            if self._held and numbers > NUMBERS_HELD:
                return False
            self._held.append(Block(cells, self.family))
        return True

    def _tell(self, cells: Cells) -> None:
        if self.progress:
            self.progress(cells.count.size)

    @property
    def sample(self) -> Equations:
        """The cells at the beginning, which are in memory: where a solution is sought first."""
        return Equations(self.source, sample=self._held)

    def forget(self) -> None:
        """Let go of the sample but its first cells, which tell what depends on the state."""
        self._held = self._held[:1]

    @property
    def names(self) -> tuple[str, ...]:
        """The coefficients; of the multinomial with their class."""
        classes = getattr(self.family, "classes", ())[1:]
        return tuple(f"{c}: {n}" for c in classes for n in self.source.names) if classes else self.source.names

    @property
    def indicator(self) -> BoolArray:
        """Which coefficients belong to levels, and so may be infinite."""
        return np.tile(np.array(self.source.indicator, dtype=np.bool_), self.family.equations)

    @property
    def opposite(self) -> tuple[str, ...]:
        """What each coefficient is compared with, where its factor has no third level; else ""."""
        return self.source.opposite * self.family.equations

    @property
    def size(self) -> int:
        """q, the number of coefficients."""
        return len(self.source.names) * self.family.equations

    @property
    def told_apart(self) -> bool:
        """Whether a covariate was randomized: then H is noisy, and the equations may have several roots."""
        return any(block.told_apart for block in self._held)

    def blocks(self) -> Iterator[Block]:
        """Yield the cells in their order."""
        if self.whole:
            yield from self._held
            return
        for cells in self.source.batches():
            self._tell(cells)
            yield from blocks_of(cells, self.family)

    def rows(self) -> tuple[float, float]:
        """Return the sum of the weights of all rows, and the corrected one of those that count."""
        sums = [(block.cells.count.sum(), block.corrected.sum()) for block in self.blocks()]
        return float(sum(s[0] for s in sums)), float(sum(s[1] for s in sums))

    def sums(self, beta: FloatArray, share: float = 1.0) -> Sums:
        """Return U, H and their scale; on the way from the naive fit (share 0) to the corrected one (1)."""
        return reduce(add, (block.sums(beta, share) for block in self.blocks()))

    def noise(self, amount: Callable[[Block], FloatArray]) -> Noise:
        """Return the covariance of the sum over all rows of an amount (G, K, c) of each block."""
        if self.source.buckets is not None:
            return noise_of_deal(self.source.buckets, self.blocks, amount)
        parts = (part for block in self.blocks() for part in block.parts())
        return reduce(add, (part.noise(amount(part)) for part in parts)).within_strata()

    def score_noise(self, beta: FloatArray) -> Noise:
        """Return the covariance of U at these coefficients."""
        if self.source.buckets is not None:
            return self.noise(lambda block: block.psi(beta))
        return reduce(add, (block.score_noise(beta) for block in self.blocks())).within_strata()

    def noise_along(self, beta: FloatArray, direction: FloatArray) -> Noise:
        """Return the variance of direction'U at these coefficients, (1, 1)."""
        if self.source.buckets is not None:
            return self.noise(lambda block: block.psi(beta) @ direction[:, None])
        return reduce(add, (block.noise_along(beta, direction) for block in self.blocks())).within_strata()

    def curvature_noise(self, beta: FloatArray, direction: FloatArray) -> Noise:
        """Return the variance of direction'H direction at these coefficients, (1, 1)."""
        if self.source.buckets is not None:
            return self.noise(lambda block: block.curvature(beta, direction[:, None]))
        return reduce(add, (block.curvature_noise(beta, direction) for block in self.blocks())).within_strata()

    def log_likelihood(self, beta: FloatArray) -> float:
        """Return sum b log p(Y | w, k), the unbiased estimate of the table's log-likelihood."""
        return sum(block.log_likelihood(beta) for block in self.blocks())

    def reach(self, step: FloatArray) -> float:
        """Return how far a step moves any linear predictor; of streamed cells, a bound on it."""
        return max(block.reach(step) for block in self._held) if self.whole else self._bound(step)

    def moves_beyond(self, limit: float, step: FloatArray) -> bool:
        """Return whether a step moves a linear predictor by more than a limit."""
        return self._bound(step) > limit and self.reach(step) > limit

    def _bound(self, step: FloatArray) -> float:
        return float((np.abs(step).reshape(self.family.equations, -1) @ self._widest).max())
