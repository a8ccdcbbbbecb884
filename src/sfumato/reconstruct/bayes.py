"""The likelihood estimate of the original counts, by iterative Bayes (EM), accelerated.

With published counts o, n = sum(o), the estimate maximises, over x >= 0 with sum(x) = n,

    log L(x) = sum_j o_j log (P x)_j.

Its gradient is g = P^T (o / P x). One step of iterative Bayes gives each value its posterior share of every published
count and is x_i <- x_i g_i: it never lowers L, never makes a count negative, keeps the sum (Agrawal & Srikant; FG
section III.C).

When to stop. log L is concave and sum_i x_i g_i = n, so for every admissible x*

    log L(x*) - log L(x) <= sum_i g_i (x*_i - x_i) <= n (max_i g_i - 1).

The right side is the *gap*: it bounds, without knowing the maximum, how far log L is from it. Iteration stops when it is
below `gap` nats. The default is 1e-3: where log L is about quadratic (curvature = inverse covariance), no linear
combination of counts is then off its maximum-likelihood value by more than sqrt(2 gap) = 0.045 of its own standard error.

Nothing is inverted, so it works for singular matrices too. There the maximum is not unique; the start has equal shares, and
values with no retention, which nothing tells apart, keep equal shares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.matrix import FloatArray, PerturbationMatrix

GAP = 1e-3
"""Nats of log-likelihood that the estimate may be below the maximum."""

MOST_ITERATIONS = 30_000
"""Evaluations of the EM step after which iteration gives up and says so."""

LONGEST = 1e6
"""The longest extrapolation that is tried."""

SHRINK = 0.01
"""An extrapolation leaves every count at least this share of its EM value: a count that reaches 0 could never return."""


@dataclass(frozen=True, eq=False)
class BayesResult:
    """A likelihood estimate, and how near it is to the maximum."""

    value: FloatArray  # like `observed`
    iterations: int  # EM steps evaluated for the slowest group
    gap: FloatArray  # one for each group: log L is at most this many nats below its maximum
    converged: bool  # whether every gap is within what was asked


@dataclass(frozen=True, eq=False)
class _Step:
    """One EM step for a number of groups: where it leads, and what is known about where it started."""

    image: FloatArray  # [groups, m]
    log_likelihood: FloatArray  # [groups], of the start, up to a constant
    gap: FloatArray  # [groups], of the start


def iterate(
    matrix: PerturbationMatrix, observed: FloatArray, gap: float = GAP, most: int = MOST_ITERATIONS
) -> BayesResult:
    """Return the likelihood estimate of the original counts of every group (the last axis holds the values)."""
    counts = np.asarray(observed, dtype=np.float64).reshape(-1, matrix.size)
    if (counts < 0).any():
        raise ValueError("published counts are not negative")
    x = np.repeat(counts.mean(axis=1, keepdims=True), matrix.size, axis=1)
    gaps = np.zeros(len(counts))
    active = np.flatnonzero(counts.sum(axis=1) > 0)
    done = 0
    while active.size:
        o, start = counts[active], x[active]
        first = _step(matrix, o, start)
        done += 1
        gaps[active] = first.gap
        going = first.gap > gap
        if done >= most or not going.any():
            break
        x[active[going]] = _accelerated(matrix, o[going], start[going], first.image[going])
        done += 3
        active = active[going]
    shape = np.shape(observed)
    return BayesResult(x.reshape(shape), done, gaps.reshape(shape[:-1]), bool((gaps <= gap).all()))


def _step(matrix: PerturbationMatrix, observed: FloatArray, x: FloatArray) -> _Step:
    """Return x_i g_i, with log L(x) and the gap of x."""
    expected = matrix.apply(x)
    seen = observed > 0  # what was not published adds nothing, even where nothing is expected
    expected = np.where(seen, expected, 1.0)
    gradient = matrix.apply_transposed(observed / expected)
    excess = observed.sum(axis=-1) * (gradient.max(axis=-1) - 1)
    return _Step(x * gradient, (observed * np.log(expected)).sum(axis=-1), np.maximum(excess, 0))


def _accelerated(matrix: PerturbationMatrix, observed: FloatArray, x0: FloatArray, x1: FloatArray) -> FloatArray:
    """Return the next point: SQUAREM's if it is at least as likely as two plain EM steps, else those.

    With r = x1 - x0 and v = x2 - x1 - r, squared extrapolation goes to x0 + 2 a r + a^2 v with a = |r|/|v|, where a = 1
    gives x2 itself (Varadhan & Roland 2008, scheme S3). So L never falls, and no less is gained than by plain EM.
    """
    x2 = _step(matrix, observed, x1).image
    r = x1 - x0
    v = x2 - x1 - r
    length = _norm(r) / np.maximum(_norm(v), np.finfo(float).tiny)
    a = np.clip(length, 1, LONGEST)
    jumped = np.maximum(x0 + 2 * a * r + a**2 * v, SHRINK * x2)
    jumped *= observed.sum(axis=-1, keepdims=True) / jumped.sum(axis=-1, keepdims=True)
    landed = _step(matrix, observed, jumped)
    better = landed.log_likelihood >= _step(matrix, observed, x2).log_likelihood
    return np.where(better[:, None], landed.image, x2)


def _norm(x: FloatArray) -> FloatArray:
    return np.linalg.norm(x, axis=-1, keepdims=True)
