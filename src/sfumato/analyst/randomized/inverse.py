"""The unbiased estimate of the original counts, and its variance.

o = published counts, x = original counts, A = P^-1; E[o] = P x, so x_hat = A o has E[x_hat] = x (FG section III.C).

A matrix that is made of retentions has an inverse with a diagonal of at least 1 and no positive entry elsewhere:
with S = sum_i 1/p_i,
    A[k, k] = 1 + (1 - p_k) S_-k / (p_k S)        A[i, k] = -(1 - p_k) / (p_i p_k S)        S_-k = S - 1/p_k
"Never negative" below rests on that sign pattern. Of any other matrix entries of A may lie between 0 and 1, and an
estimated variance given the table can come out negative by chance, where 0 takes its place; that in a population
cannot.

There are two questions, and two variances:
    given table    what were the counts in the table that was perturbed? Only the perturbation is random.
    population     the table is a random sample: what is rows * Pr(cell)? Sampling is random as well.

All functions take counts along the last axis: shape [m], or [groups, m].
"""

from __future__ import annotations

import numpy as np

from sfumato.analyst.randomized.channel import require_invertible
from sfumato.values.arrays import FloatArray
from sfumato.values.matrix.base import Estimable


def estimate(matrix: Estimable, observed: FloatArray) -> FloatArray:
    """Return x_hat = P^-1 o, the unbiased estimate; a rare value's may be negative.

    For a uniform matrix that is gamma-amplifying it is

        x_hat_i = ((m - 1 + gamma) o_i - n) / (gamma - 1)        SDR Eq. (7)
    """
    require_invertible(matrix)
    return matrix.solve(observed)


def second_moment(matrix: Estimable, observed: FloatArray) -> FloatArray:
    """Return (A o A) o, the entries of the inverse squared: what both variances begin with."""
    require_invertible(matrix)
    return matrix.inverse_squared_apply(observed)


def variance_given_table(moment: FloatArray, x_hat: FloatArray) -> FloatArray:
    """Return an unbiased estimate of Var[x_hat_i] for the table that was perturbed; of retentions it is never negative.

        Var[x_hat] = diag(A diag(P x) A^T - diag(x)),    estimated by    (A o A) o - x_hat

    (A record with value x_k adds A[i, y] to x_hat_i, with mean [i = k], hence with the variance
    sum_y P[y, k] A[i, y]^2 - [i = k]; the estimate is unbiased since E[o] = P x. Sub-tables add up: `moment` and
    `x_hat` are then sums over them.)

    Never negative: (A o A) o - A o = sum_k A[i, k] (A[i, k] - 1) o_k, and no entry of A lies between 0 and 1:
    those on the diagonal are at least 1, the others at most 0. (Then the maximum with 0 below removes rounding only.)
    """
    return np.maximum(moment - x_hat, 0)


def variance_in_population(moment: FloatArray, x_hat: FloatArray, rows: float) -> FloatArray:
    """Return an unbiased estimate of Var[x_hat_i] where the release's rows are a random sample; never negative.

        rows/(rows - 1) * ((A o A) o - x_hat^2/rows)

    `rows` is the size of the whole release, not of the group: x_hat_i then estimates rows * Pr(group and x_i). It
    is a sum over all rows of independent terms, A[i, y] in the group and 0 outside, and this is `rows` times their
    sample variance: unbiased, and never negative.
    """
    largest = float(np.max(x_hat.sum(axis=-1), initial=0))
    if rows < largest * (1 - 1e-9):
        raise ValueError(f"rows is the size of the whole release: {rows:g} is less than a group's {largest:g}")
    return np.maximum(moment - x_hat**2 / max(rows, 1), 0) * (rows / max(rows - 1, 1))


def covariance_given_table(matrix: Estimable, observed: FloatArray) -> FloatArray:
    """Return an unbiased estimate of Cov[x_hat] for the table that was perturbed, m x m: for small domains.

        A diag(o) A^T - diag(x_hat)        docs/methods/proofs/randomized-response.md, "Estimates"

    Of retentions it is positive semidefinite, so no linear combination c.x_hat has a negative variance: A's columns
    sum to one, hence
        c^T [...] c = sum_k o_k [ (sum_i A[i, k] (c_i - c_k))^2 - sum_{i != k} A[i, k] (c_i - c_k)^2 ],
    and A[i, k] <= 0 for i != k.
    """
    require_invertible(matrix)
    inverse = matrix.solve(np.eye(matrix.size)).T
    x = matrix.solve(observed)
    return (inverse * observed[..., None, :]) @ inverse.T - x[..., None] * np.eye(matrix.size)
