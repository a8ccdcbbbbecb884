"""Whether a model is right: against the likelihood's estimate, by cells, and by groups of like fitted means."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.analyst.regression.blocks import Block
from sfumato.analyst.regression.comparison import Test, chi_square
from sfumato.analyst.regression.effects import solution_of
from sfumato.analyst.regression.likelihood import best_maximum, posterior_residual, require_likelihood
from sfumato.analyst.regression.result import Fit
from sfumato.analyst.regression.solution import Solution
from sfumato.errors import UsageError
from sfumato.show.results import Result
from sfumato.values.arrays import FloatArray
from sfumato.values.text import table

AGREE = 1e-9
"""Of a variance: below it two estimates are the same but for rounding."""


def hausman(fit: Fit) -> Test:
    """Test whether the model is right: whether the inverse and the likelihood estimate are the same coefficients.

        d = beta_inverse - beta_likelihood        V_d = sum_i (IF_inverse - IF_likelihood)(..)'        d'V_d^- d

    It rejects a right model less often than its level says. Of a saturated model both estimates are the same and there
    is nothing to test: 0 degrees of freedom.
    """
    solution = solution_of(fit)
    require_likelihood(solution.equations, "Look at `residuals()`, or compare with a larger model.")
    beta, at = best_maximum(solution)
    forward = np.asarray(np.linalg.inv(at.observed), dtype=np.float64)
    d = solution.best.beta - beta
    V = reduce(add, (_difference(block, solution, beta, forward) for block in solution.equations.blocks()))
    unit = 1 / np.sqrt(np.diag(solution.covariance.population))
    values, vectors = np.linalg.eigh(V * unit * unit[:, None])
    told = values > AGREE
    along = (vectors.T @ (unit * d))[told]
    return chi_square("Hausman", float((along**2 / values[told]).sum()), int(told.sum()))


def _difference(block: Block, solution: Solution, beta: FloatArray, forward: FloatArray) -> FloatArray:
    """Return the sum of squares of what a row moves the two estimates apart."""
    design = block.cells.design[:, 0] if block.cells.pattern is None else block.cells.design[block.cells.pattern, 0]
    shown = posterior_residual(block, beta)[1]
    score = (shown[:, :, None] * design[:, None, :]).reshape(len(design), -1)
    d = block.tilde(solution.influence(block)) - score @ forward
    return np.asarray(d.T @ (d * block.cells.squares[:, None]))


def fit_by_cells(fit: Fit) -> Test:
    """Test an outcome-only model by its cells: published counts against those that the likelihood fit expects.

        sum over patterns z and published y of (o_zy - n_z lambda_zy)^2/(n_z lambda_zy)        df (K - 1) patterns - q

    For a yes or no it is sum_z (o_z - n_z lambda_z)^2/(n_z lambda_z (1 - lambda_z)). Cells without rows need not be
    given: the sum is that of o^2/(n lambda) - n.
    """
    solution = fit.solution
    if fit.method != "likelihood":
        raise UsageError("The fit by cells is that of a likelihood fit.", "Use the method 'likelihood'.")
    total, patterns = 0.0, 0
    for block in solution.equations.blocks():
        if block.cells.pattern is None:
            raise UsageError("There are no cells: each row has its own pattern.", "Use `residuals_by_fitted`.")
        chance = np.exp(posterior_residual(block, fit.coefficients)[0])
        rows = np.bincount(block.cells.pattern, block.cells.count, minlength=block.patterns)
        total += float((block.cells.count**2 / (rows[block.cells.pattern] * chance)).sum() - rows.sum())
        patterns += block.patterns
    return chi_square("Pearson", total, patterns * (block.shape[1] - 1) - fit.coefficients.size)


@dataclass(frozen=True, eq=False, repr=False)
class FittedGroups(Result):
    """Rows in groups of like fitted means: corrected mean outcomes, fitted ones, and how many deviations apart."""

    fitted: FloatArray  # (groups,)
    corrected: FloatArray  # (groups,)
    deviations: FloatArray  # (groups,)

    def to_arrow(self) -> Any:
        """Return a row for each group, from the lowest fitted mean to the highest."""
        return pa.table(vars(self))

    def __repr__(self) -> str:
        figures = [
            [f"{mean:.4g}", f"{seen:.4g}", f"{d:+.1f}"] for mean, seen, d in zip(*vars(self).values(), strict=True)
        ]
        told = table(list(vars(self)), figures, [True] * 3)
        return f"FittedGroups({self.fitted.size} groups)\n{told}"


def residuals_by_fitted(fit: Fit, groups: int = 10) -> FittedGroups:
    """Return sums of (y~ - mu) over their standard deviations, in groups of rows by their fitted mean.

    Where the model is right the deviations are about standard normal. Residuals of single rows are noise.
    """
    solution = solution_of(fit)
    if solution.equations.told_apart or fit.family.equations > 1 or not solution.equations.whole:
        raise UsageError(
            "Groups by fitted means are for one outcome and covariates that were not randomized.",
            "Compare this model with a larger one instead.",
        )
    beta, blocks = solution.best.beta, list(solution.equations.blocks())
    fitted = [block.family.mean(block.predictor(beta)) for block in blocks]
    ends = np.unique(np.quantile(np.concatenate(fitted), np.arange(1, groups) / groups))

    def amounts(block: Block) -> FloatArray:
        """Return 1, mu and the residual of each group, (G, K, 3 x groups)."""
        mu = block.family.mean(block.predictor(beta))
        inside = np.asarray(np.searchsorted(ends, mu) == np.arange(ends.size + 1), dtype=np.float64)
        parts = (inside, inside * mu, inside * block.residual(beta))
        return np.concatenate([np.broadcast_to(part, (*block.shape, ends.size + 1)) for part in parts], axis=-1)

    total = reduce(add, (np.einsum("gk,gkc->c", block.corrected, amounts(block)) for block in blocks))
    some = total[: ends.size + 1] > 0
    rows, mean, residual = total.reshape(3, -1)[:, some]
    variance = np.diag(solution.equations.noise(amounts).population)[-some.size :][some]
    return FittedGroups(mean / rows, (mean + residual) / rows, residual / np.sqrt(variance))
