"""The likelihood estimate of the original counts: the limit of iterative Bayes (EM).

With published counts o, n = sum(o), the estimate maximises, over x >= 0 with sum(x) = n,

    log L(x) = sum_j o_j log (P x)_j.

Its gradient is g = P^T (o / P x). One step of iterative Bayes gives each value its posterior share of every published
count, x_i <- x_i g_i: it never lowers L, never makes a count negative, and keeps the sum (Agrawal & Srikant; FG
section III.C).

When to stop. log L is concave and sum_i x_i g_i = n, so for every admissible x*

    log L(x*) - log L(x) <= sum_i g_i (x*_i - x_i) <= n (max_i g_i - 1).

The right side is the *gap*: it bounds, without knowing the maximum, how far log L is from it. Iteration stops
when it is below `gap` nats. The default is 1e-3: where log L is about quadratic (curvature = inverse covariance),
no linear combination of counts is then off its maximum-likelihood value by more than sqrt(2 gap) = 0.045 of its
own standard error.

Where to start. From equal shares EM, even accelerated, can need tens of thousands of steps for weak retentions.
But where P is made of retentions, a diagonal plus a rank-one matrix, the maximum is known up to one number
(`_closed_form`). Iteration starts there, and as a rule the gap says at once that nothing is left to do.

Nothing is inverted, so it works for singular matrices too. There the maximum is not unique: values without
retention, which nothing in the release tells apart, get equal shares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.analyst.randomized.projection import project
from sfumato.values.arrays import FloatArray
from sfumato.values.matrix.base import Estimable

GAP = 1e-3
"""Nats of log-likelihood that the estimate may be below the maximum."""

MOST_ITERATIONS = 10_000
"""EM steps after which iteration gives up, and says so."""

SHRINK = 0.01
"""An extrapolation leaves every count at least this share of its EM value: from 0 a count could never return."""

LONGEST = 1e6
"""The longest extrapolation that is tried."""

NO_RETENTION = 1e-12
"""A smaller retention is beyond the numbers' precision: such a value is pure noise."""

ROUNDING = 1e-13
"""Relative error that sums of counts may have."""

HALVINGS = 100
"""Bisection steps; most groups are down to the precision of the numbers after 60."""


@dataclass(frozen=True, eq=False)
class BayesResult:
    """A likelihood estimate, and how near it is to the maximum."""

    value: FloatArray  # like `observed`, for the values of the domain
    iterations: int  # EM steps evaluated for the slowest group
    gap: FloatArray  # one for each group: log L is at most this many nats below its maximum
    converged: bool  # whether every gap is within what was asked


def iterate(
    matrix: Estimable,
    observed: FloatArray,
    gap: float = GAP,
    most: int = MOST_ITERATIONS,
    start: FloatArray | None = None,
) -> BayesResult:
    """Return the likelihood estimate of the original counts of every group.

    The last axis holds what is published, in the result the values. `start` replaces the closed form, for comparison:
    positive numbers, like the result.
    """
    shape = np.shape(observed)
    counts = np.asarray(observed, dtype=np.float64).reshape(-1, matrix.outputs)
    if (counts < 0).any():
        raise ValueError("published counts are not negative")
    x, gaps, done = np.zeros((len(counts), matrix.size)), np.zeros(len(counts)), 0
    active = np.flatnonzero(counts.sum(axis=1) > 0)
    begin = _start(matrix, counts[active]) if start is None else np.reshape(start, x.shape)[active]
    x[active] = _scaled(begin, counts[active])
    while active.size:
        first = _step(matrix, counts[active], x[active])
        gaps[active], going, done = first.gap, first.gap > gap, done + 1
        active = active[going]
        if done >= most or not active.size:
            break
        x[active] = _accelerated(matrix, counts[active], x[active], first.image[going])
        done += 3
    return BayesResult(x.reshape(*shape[:-1], matrix.size), done, gaps.reshape(shape[:-1]), bool((gaps <= gap).all()))


# --- iterative Bayes ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Step:
    """One EM step of every group: where it leads, and what is known about where it started."""

    image: FloatArray  # [groups, m]
    log_likelihood: FloatArray  # [groups], of the start, up to a constant
    gap: FloatArray  # [groups], of the start


def _step(matrix: Estimable, observed: FloatArray, x: FloatArray) -> _Step:
    """Return x_i g_i, with log L(x) and the gap of x."""
    # what was never published adds nothing, even where nothing is expected
    expected = np.where(observed > 0, matrix.apply(x), 1.0)
    gradient = matrix.apply_transposed(observed / expected)
    excess = observed.sum(axis=-1) * (gradient.max(axis=-1) - 1)
    return _Step(x * gradient, (observed * np.log(expected)).sum(axis=-1), np.maximum(excess, 0))


def _accelerated(matrix: Estimable, observed: FloatArray, x0: FloatArray, x1: FloatArray) -> FloatArray:
    """Return the next point: SQUAREM's if it is at least as likely as two plain EM steps, else those.

    With r = x1 - x0 and v = x2 - x1 - r, squared extrapolation goes to x0 + 2 a r + a^2 v with a = |r|/|v|, where
    a = 1 gives x2 itself (Varadhan & Roland 2008, scheme S3). So L never falls, and gains what plain EM gains.
    """
    x2 = _step(matrix, observed, x1).image
    r = x1 - x0
    v = x2 - x1 - r
    a = np.clip(_norm(r) / np.maximum(_norm(v), np.finfo(float).tiny), 1, LONGEST)
    jumped = _scaled(np.maximum(x0 + 2 * a * r + a**2 * v, SHRINK * x2), observed)
    landed = _step(matrix, observed, jumped)
    better = landed.log_likelihood >= _step(matrix, observed, x2).log_likelihood
    return np.where(better[:, None], landed.image, x2)


def _norm(x: FloatArray) -> FloatArray:
    norm: FloatArray = np.linalg.norm(x, axis=-1, keepdims=True)
    return norm


def _scaled(x: FloatArray, observed: FloatArray) -> FloatArray:
    """Return x with the sum of `observed`."""
    factor: FloatArray = observed.sum(axis=-1, keepdims=True) / x.sum(axis=-1, keepdims=True)
    return x * factor


def _start(matrix: Estimable, observed: FloatArray) -> FloatArray:
    """Return where to begin: the closed form, or where there is none the projected inverse mixed with equal shares."""
    if matrix.retention is not None:
        return _closed_form(matrix, matrix.retention, observed)
    total = observed.sum(axis=-1, keepdims=True)
    equal = np.broadcast_to(total / matrix.size, (len(observed), matrix.size))
    if not matrix.is_invertible:
        return equal
    return (1 - SHRINK) * project(matrix.solve(observed), total[:, 0]) + SHRINK * equal


# --- the maximum, up to one number --------------------------------------------------------------------------


def _closed_form(matrix: Estimable, retention: FloatArray, observed: FloatArray) -> FloatArray:
    """Return the maximum of L for groups that are not empty, by bisection on one number d of each.

    r = P x has r_i = p_i x_i + t, t = sum_i q_i x_i. With R = sum_j o_j/r_j the KKT conditions are
        g_i = p_i o_i/r_i + q_i R <= 1,    = 1 where x_i > 0,
    so, with d = 1 - R/m (g <= 1 implies 0 <= d < 1),
        r_i = max(t, h_i),    h_i = p_i o_i / (p_i + (1 - p_i) d),    x_i = (r_i - t)/p_i,
    and t, d follow from R = sum_j o_j/r_j (`_level`) and n = sum_i x_i (`_level_of_sum`). With the t of the first,
    as d grows, h falls and t rises, so sum(x) falls: there is one d for which it is n. If it is not above n at
    d = 0, what is missing belongs to the values without retention, in equal shares; if there are none, no
    x_i >= 0 binds and x = P^-1 o.
    """
    p = np.where(retention > NO_RETENTION, retention, 0.0)
    n = observed.sum(axis=-1, keepdims=True)
    low, high = np.zeros_like(n), np.ones_like(n)
    first = _table(p, observed, low, _level(p, observed, low))
    missing = np.maximum(n - first.sum(axis=-1, keepdims=True), 0)
    easy = first.sum(axis=-1, keepdims=True) <= n * (1 + ROUNDING)
    high[easy] = 0
    for _ in range(HALVINGS):
        d = (low + high) / 2
        if not ((low < d) & (d < high)).any():
            break
        above = _table(p, observed, d, _level(p, observed, d)).sum(axis=-1, keepdims=True) > n
        low, high = np.where(above, d, low), np.where(above, high, d)
    noise = p == 0
    rest = first + missing * noise / noise.sum() if noise.any() else np.maximum(matrix.solve(observed), 0)
    x = _table(p, observed, high, _level_of_sum(p, _heights(p, observed, high), n))
    return np.where(easy, rest, x)


def _heights(p: FloatArray, observed: FloatArray, d: FloatArray) -> FloatArray:
    """Return h; 0 for values without retention."""
    return np.where(p > 0, p * observed / np.where(p > 0, p + (1 - p) * d, 1), 0.0)


def _table(p: FloatArray, observed: FloatArray, d: FloatArray, t: FloatArray) -> FloatArray:
    """Return x, 0 for values without retention."""
    return np.where(p > 0, np.maximum(_heights(p, observed, d) - t, 0) / np.where(p > 0, p, 1), 0.0)


def _level(p: FloatArray, observed: FloatArray, d: FloatArray) -> FloatArray:
    """Return the largest t with sum_j o_j / max(t, h_j) = m (1 - d).

    If the k smallest h are below t, their counts O and the others' S = sum 1/p_i give O/t = k (1 - d) - d S; it is the
    smallest k whose t does not exceed the next h.
    """
    m, h = p.size, _heights(p, observed, d)
    order = np.argsort(h, axis=-1)
    below = np.cumsum(np.take_along_axis(observed, order, axis=-1), axis=-1)
    reciprocal = np.divide(1, p, out=np.zeros_like(p), where=p > 0)[order]
    beyond = np.zeros_like(h)
    beyond[:, :-1] = np.cumsum(reciprocal[:, :0:-1], axis=-1)[:, ::-1]
    rate = np.arange(1, m + 1) * (1 - d) - d * beyond
    following = np.take_along_axis(h, order, axis=-1)[:, 1:]
    fits = np.ones(h.shape, dtype=bool)
    fits[:, :-1] = (following > 0) & (below[:, :-1] <= following * rate[:, :-1])
    k = fits.argmax(axis=-1)[:, None]
    counts = np.take_along_axis(below, k, axis=-1)
    return np.divide(counts, np.take_along_axis(rate, k, axis=-1), out=np.zeros_like(counts), where=counts > 0)


def _level_of_sum(p: FloatArray, h: FloatArray, total: FloatArray) -> FloatArray:
    """Return t with sum_i max(h_i - t, 0)/p_i = total, over the values with retention."""
    order = np.argsort(-h, axis=-1)
    weight = np.divide(1, p, out=np.zeros_like(p), where=p > 0)[order]
    height = np.take_along_axis(h, order, axis=-1)
    weights = np.cumsum(weight, axis=-1)
    excess = np.cumsum(weight * height, axis=-1) - total
    k = np.maximum((height * weights > excess).sum(axis=-1, keepdims=True), 1) - 1
    level: FloatArray = np.take_along_axis(excess, k, axis=-1) / np.maximum(np.take_along_axis(weights, k, axis=-1), 1)
    return level
