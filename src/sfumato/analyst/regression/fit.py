"""Fit a model to a release: the unbiased equations solved, with errors, intervals and what must be said beside them."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from sfumato.analyst.regression import notes
from sfumato.analyst.regression.buckets import loose_errors
from sfumato.analyst.regression.likelihood import fit_likelihood
from sfumato.analyst.regression.problem import Source, Target
from sfumato.analyst.regression.result import Fit, Method
from sfumato.analyst.regression.score_intervals import score_interval
from sfumato.analyst.regression.solution import Solution, solve
from sfumato.analyst.regression.variance import strengths
from sfumato.values.arrays import FloatArray, Progress


def fit(source: Source, *, method: Method = "inverse", progress: Progress | None = None) -> Fit:
    """Return the fit of a source, by the unbiased equations or by the likelihood of what was published."""
    solution = solve(source, progress)
    return fitted(solution) if method == "inverse" else fit_likelihood(solution)


def fitted(solution: Solution) -> Fit:
    """Return the fit of a solution."""
    equations, best = solution.equations, solution.best
    strength, slack = strengths(equations, best), _slack(solution)
    return Fit(
        names=equations.names,
        family=equations.family,
        method="inverse",
        coefficients=best.infinite,
        table=solution.covariance.table,
        population=solution.covariance.population,
        naive=solution.naive.infinite,
        rows=solution.rows,
        used=solution.used,
        log_likelihood=solution.log_likelihood,
        information=best.sums.information,
        strength=strength,
        slack=slack,
        intervals_by="score" if equations.whole else "wald",
        notes=notes.of_fit(equations, best, solution.covariance.table, strength),
        ends=_ends(solution, slack),
        solution=solution,
    )


def _slack(solution: Solution) -> FloatArray:
    buckets = solution.equations.source.buckets
    if buckets is None or buckets.loose is None or not buckets.loose.any():
        return np.zeros(solution.equations.size)
    return loose_errors(buckets, solution.equations.blocks, solution.influence)


def _ends(solution: Solution, slack: FloatArray) -> Callable[[Target, float], FloatArray]:
    def ends(target: Target, level: float) -> FloatArray:
        errors = np.sqrt(np.diag(solution.covariance.of(target)))
        found = score_ends if solution.equations.whole else wald_ends
        return found(solution, errors, target, level) + slack[:, None] * [-1, 1]

    return ends


def score_ends(solution: Solution, errors: FloatArray, target: Target, level: float) -> FloatArray:
    """Return the score intervals of all coefficients, (q, 2)."""
    equations, best = solution.equations, solution.best
    return np.array([score_interval(equations, best, j, target, level, float(e)) for j, e in enumerate(errors)])


def wald_ends(solution: Solution, errors: FloatArray, target: Target, level: float) -> FloatArray:
    """Return estimate +- z standard errors; of a coefficient that ran off nothing is known."""
    estimate = np.where(solution.best.edge, 0.0, solution.best.beta)
    margin = NormalDist().inv_cdf((1 + level) / 2) * np.where(solution.best.edge, np.inf, errors)
    return np.asarray(estimate[:, None] + margin[:, None] * [-1, 1])
