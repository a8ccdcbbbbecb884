"""Errors of the coefficients, and what must be said of them.

With psi~_i = omega_i sum_k b_ik psi_ik at beta_hat, V = sum psi~ psi~', S = sum_i omega_i^2 sum_k b_ik psi_ik psi_ik',

    population  H^-1 V H^-1        table  H^-1 (V - S) H^-1

Given the table rows are independent, and Var(psi~_i | x_i) = E[psi~ psi~' | x_i] - psi(x_i) psi(x_i)'. The second term
is estimated unbiasedly by sum_k b psi psi', so V - S is exactly unbiased for Var(U_hat | table) at any fixed beta.
"""

from __future__ import annotations

import numpy as np

from sfumato.analyst.regression.blocks import Block, Noise
from sfumato.analyst.regression.equations import Equations
from sfumato.analyst.regression.solving import Point, is_definite
from sfumato.values.arrays import BoolArray, FloatArray

WEAK = 4.0
"""Below this the information about a coefficient is itself half noise."""


def bread(point: Point) -> FloatArray:
    """Return H^-1 of the free coefficients, (q, q), with 0 for the others."""
    inverse = np.zeros_like(point.sums.information)
    inverse[np.ix_(point.free, point.free)] = np.linalg.inv(point.inner)
    return inverse


def covariances(point: Point, noise: Noise) -> Noise:
    """Return both covariances of the coefficients; nan for those at the edge."""
    inverse = bread(point)
    table, population = (not_negative(inverse @ meat @ inverse) for meat in (noise.table, noise.population))
    if noise.steady is not None:
        least = np.array([noise.variance(row, "table") for row in inverse])
        table = table + np.diag(np.maximum(least - np.diag(table), 0))
    return Noise(*(_without(~point.free, covariance) for covariance in (table, population)))


def _without(gone: BoolArray, covariance: FloatArray) -> FloatArray:
    return np.where(gone | gone[:, None], np.nan, covariance)


def not_negative(covariance: FloatArray) -> FloatArray:
    """Return the covariance, symmetric and with eigenvalues below 0 set to 0: next to no noise they come by chance."""
    covariance = (covariance + covariance.T) / 2
    values, vectors = np.linalg.eigh(covariance)
    if values.size == 0 or values[0] >= 0:
        return covariance
    return np.asarray((vectors * np.maximum(values, 0)) @ vectors.T)


def strengths(equations: Equations, point: Point) -> FloatArray:
    """Return u'Hu over its standard deviation given the table, for u = H^-1 e_j: how well H itself is known.

    Where no covariate was randomized H has no noise, and this is infinite.
    """
    strength = np.full(equations.size, np.inf)
    if not equations.told_apart:
        return strength
    directions = bread(point)[:, point.free]
    deviation = np.sqrt(np.maximum(_variances(equations, point.beta, directions), 0))
    with np.errstate(divide="ignore"):
        strength[point.free] = np.diag(directions[point.free]) / deviation
    return strength


def _variances(equations: Equations, beta: FloatArray, directions: FloatArray) -> FloatArray:
    """Return the variance of u'Hu given the table, for the columns u of `directions`; one by one where that is less."""
    if not equations.whole:
        return np.diag(equations.noise(lambda block: block.curvature(beta, directions)).table)
    return np.array([float(equations.curvature_noise(beta, u).table[0, 0]) for u in directions.T])


def alone(equations: Equations, point: Point, covariance: FloatArray) -> bool:
    """Return whether H is positive definite at +-3 standard errors along the covariance's axes.

    Then another root in there is unlikely; it is no proof. Where no covariate was randomized there is no other root.
    """
    if not equations.told_apart or not equations.family.curved:
        return True
    values, vectors = np.linalg.eigh(covariance[np.ix_(point.free, point.free)])
    for axis in 3 * (vectors * np.sqrt(np.maximum(values, 0))).T:
        for sign in (-1, 1):
            beta = point.beta.copy()
            beta[point.free] += sign * axis
            sums = equations.sums(beta)
            inner = sums.information[np.ix_(point.free, point.free)]
            if not is_definite(inner, sums.scale[point.free]):
                return False
    return True


def events(equations: Equations, coefficient: int, *, happened: bool) -> tuple[float, float]:
    """Return the corrected events of a coefficient's level (or those that did not happen), and their standard error."""
    equation, column = divmod(coefficient, len(equations.source.names))

    def amount(block: Block) -> FloatArray:
        outcome = block.indicated[..., equation]
        counted = outcome if happened else _base(block)
        level = counted * block.cells.design[..., column]
        level = np.broadcast_to(level, block.shape)
        return np.asarray(level if block.used is None else level * block.used)[..., None]

    total = sum(float((block.tilde(amount(block))[:, 0] * block.cells.count).sum()) for block in equations.blocks())
    variance = float(equations.noise(amount).table[0, 0])
    return total, float(np.sqrt(max(variance, 0)))


def _base(block: Block) -> FloatArray:
    """Return 1 where the outcome is of the base class."""
    return np.asarray(1 - block.indicated.sum(axis=-1))
