"""Effects in the outcome's own units: standardised means (g-formula) and average slopes, with errors for both targets.

A *setting* is the design with a column set to a value for every row. With v_s the design of setting s,

    theta_s = sum_i omega_i mu(v_s(w_i, x_i)' beta) / sum_i omega_i

is the mean outcome if all rows had that value and the model held. Other columns may be randomized, so a release gives
sum_i omega_i sum_k b_ik mu(v_s(w_i, k)' beta_hat) over the same sum. To first order its error is the sum over rows of

    sum_k b_ik [ (m_ik - theta)/n + D H^-1 psi_ik ]        D = d theta/d beta

so both variances are those of a sum over the rows. Differences and ratios of settings follow from the joint covariance.
An average slope is the mean of d mu/d x: the difference of the settings x + d and x - d, over 2d, for a small d.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.analyst.regression.blocks import Block, Noise
from sfumato.analyst.regression.problem import Target
from sfumato.analyst.regression.result import Fit
from sfumato.analyst.regression.solution import Solution
from sfumato.analyst.regression.variance import bread, not_negative
from sfumato.errors import UsageError
from sfumato.values.arrays import FloatArray

SMALL_MOVE = 1e-4
"""How far an average slope moves a linear predictor."""

Settings = Callable[[Block], FloatArray]


@dataclass(frozen=True, eq=False)
class Effects:
    """Values in the order of the settings; of the multinomial one for each class after the first, inside a setting."""

    values: FloatArray  # (c,)
    covariances: Noise  # (c, c)

    def covariance(self, target: Target) -> FloatArray:
        """Return the covariance of the values."""
        return self.covariances.of(target)

    def standard_errors(self, target: Target) -> FloatArray:
        """Return the standard errors."""
        return np.asarray(np.sqrt(np.diag(self.covariance(target))))

    def contrasted(self, contrasts: FloatArray) -> Effects:
        """Return linear functions of the values: the rows of `contrasts`."""
        table, population = (contrasts @ c @ contrasts.T for c in (self.covariances.table, self.covariances.population))
        return Effects(contrasts @ self.values, Noise(table, population))


def standardised(fit: Fit) -> Effects:
    """Return the mean outcome under each of the settings that the source's cells have."""
    return _means(solution_of(fit), lambda block: _required(block.cells.settings, "settings"))


def average_slopes(fit: Fit) -> Effects:
    """Return the mean of d mu/d x for each of the slopes that the source's cells have."""
    solution = solution_of(fit)
    small = _small(solution)

    def moved(block: Block) -> FloatArray:
        slopes = _required(block.cells.slopes, "slopes") * small[:, None, None, None]
        return np.concatenate([block.cells.design + slopes, block.cells.design - slopes])

    e, s = fit.family.equations, small.size
    half = np.eye(s * e) / np.repeat(2 * small, e)[:, None]
    return _means(solution, moved).contrasted(np.hstack([half, -half]))


def solution_of(fit: Fit) -> Solution:
    """Return the solution of an inverse fit."""
    if fit.method != "inverse":
        raise UsageError("Effects and these tests are those of an inverse fit.", "Use the method 'inverse'.")
    return fit.solution


def _required(designs: FloatArray | None, name: str) -> FloatArray:
    if designs is None:
        raise ValueError(f"cells need `{name}`")
    return designs


def _small(solution: Solution) -> FloatArray:
    """Return by how much to move each column."""
    B = solution.best.beta.reshape(solution.equations.family.equations, -1).T
    block = next(iter(solution.equations.blocks()))
    moved = np.abs(_required(block.cells.slopes, "slopes") @ B).max(axis=(1, 2, 3))
    return np.where(moved > 0, SMALL_MOVE / np.maximum(moved, np.finfo(np.float64).tiny), 1.0)


def _means(solution: Solution, settings: Settings) -> Effects:
    sums = [_summed(block, solution.best.beta, settings(block)) for block in solution.equations.blocks()]
    rows = sum(part[0] for part in sums)
    total, slope = np.sum([part[1] for part in sums], axis=0), np.sum([part[2] for part in sums], axis=0)
    values, onto = total / rows, bread(solution.best) @ (slope / rows).T

    def influence(block: Block) -> FloatArray:
        around = _predicted(block, solution.best.beta, settings(block)) - values
        if block.used is not None:
            around = around * block.used[..., None]
        return np.asarray(around / rows + block.psi(solution.best.beta) @ onto)

    noise = solution.equations.noise(influence)
    return Effects(values, Noise(not_negative(noise.table), not_negative(noise.population)))


def _predicted(block: Block, beta: FloatArray, designs: FloatArray) -> FloatArray:
    """Return mu under each setting, (G, K, settings x equations)."""
    means = [block.family.mean(block.predictor(beta, design)) for design in designs]
    shape = (*block.shape, block.family.equations)
    return np.concatenate([np.broadcast_to(mean, shape) for mean in means], axis=-1)


def _summed(block: Block, beta: FloatArray, designs: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Return the sum of N, of N mu for each setting, (c,), and of N d mu/d beta, (c, q)."""
    N = block.corrected
    total = np.einsum("gk,gkc->c", N, _predicted(block, beta, designs))
    return float(N.sum()), total, np.concatenate([_slope(block, beta, design) for design in designs])


def _slope(block: Block, beta: FloatArray, design: FloatArray) -> FloatArray:
    """Return the sum of N weight (x) v, (equations, q)."""
    weight = block.family.weight(block.family.mean(block.predictor(beta, design)))
    N = block.corrected if weight.shape[1] > 1 else block.corrected.sum(axis=1, keepdims=True)
    return np.asarray(np.einsum("gk,gkef,gkp->efp", N, weight, design).reshape(weight.shape[2], -1))
