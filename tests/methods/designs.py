"""The best design of all mechanisms made of given rows, by a general convex method, with a certificate: MATRICES.md 2.

A design gives row e the weight c_e >= 0, sum_e c_e e = 1. Its information at the shares n is J = sum_e c_e e e^T/(e.n),
linear in c, and tr(W J^-1) is convex. Each step adds the design that is best for the slope, by a linear program, and
weighs all designs so far anew. By convexity no design is below value + slope.(best - c): the stated bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog, minimize

from sfumato.values.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Found:
    """A design, its value, and what no design is below."""

    weights: FloatArray
    value: float
    bound: float


def information(rows: FloatArray, weights: FloatArray, shares: FloatArray) -> FloatArray:
    """Return J of rows with these weights."""
    return np.asarray((rows * (weights / (rows @ shares))[:, None]).T @ rows)


def best_design(
    rows: FloatArray, shares: FloatArray, errors: FloatArray, within: float = 1e-4, steps: int = 200
) -> Found:
    """Return the design with the least tr(W J^-1), W = `errors`, its bound within the stated share of its value."""
    designs = [_some_design(rows)]
    mixture = np.ones(1)
    best = -np.inf
    while True:
        weights = mixture @ np.array(designs)
        inverse = np.linalg.inv(information(rows, weights, shares))
        slope = -np.einsum("ei,ij,ej->e", rows, inverse @ errors @ inverse, rows) / (rows @ shares)
        value = float(np.trace(errors @ inverse))
        step = linprog(slope / -slope.min(), A_eq=rows.T, b_eq=np.ones(len(shares)))
        best = max(best, value + float(slope @ (step.x - weights)))
        if value - best <= within * value or len(designs) >= steps:
            return Found(weights, value, best)
        designs.append(step.x)
        mixture = _weighed(rows, shares, errors, np.array(designs), np.append(mixture * 0.9, 0.1))


def _some_design(rows: FloatArray) -> FloatArray:
    """Return a design whose smallest weight is as large as possible."""
    count, m = rows.shape
    found = linprog(
        np.append(np.zeros(count), -1.0),
        A_ub=np.column_stack((-np.eye(count), np.ones(count))),
        b_ub=np.zeros(count),
        A_eq=np.column_stack((rows.T, np.zeros(m))),
        b_eq=np.ones(m),
    )
    return np.asarray(found.x[:-1])


def _weighed(
    rows: FloatArray, shares: FloatArray, errors: FloatArray, designs: FloatArray, start: FloatArray
) -> FloatArray:
    """Return the best mixture of these designs."""
    parts = np.array([information(rows, design, shares) for design in designs])

    def value(mixture: FloatArray) -> tuple[float, FloatArray]:
        inverse = np.linalg.inv(np.tensordot(mixture, parts, 1))
        return float(np.trace(errors @ inverse)), -np.einsum("kij,ji->k", parts, inverse @ errors @ inverse)

    scale = value(start)[0]

    def scaled(mixture: FloatArray) -> tuple[float, FloatArray]:
        found, slope = value(mixture)
        return found / scale, slope / scale

    found = minimize(
        scaled,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * len(start),
        constraints={"type": "eq", "fun": lambda t: t.sum() - 1, "jac": np.ones_like},
        options={"maxiter": 200, "ftol": 1e-12},
    )
    mixture = np.maximum(found.x, 0)
    return np.asarray(mixture / mixture.sum())
