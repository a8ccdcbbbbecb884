"""MATRICES.md 4.1 and 4.3: keeping more never costs an analyst; the staircase beside all rows of one value each.

4.1: under uniform noise the squared error falls in every retention, for every table; with one gamma no admissible
change of the retentions improves on equal ones, in the first order. 4.3: V* is the least error of all mechanisms whose
rows favour one value each, with several rows for a value; it is found by a convex program with a certificate.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from sfumato.methods.staircase import best_staircase, effective
from sfumato.values.arrays import FloatArray
from tests.methods.test_staircase import dense_error, two_classes

# --- uniform noise: P[y,x] = p_x 1{x = y} + (1 - p_x)/m ---------------------------------------------------------------


def error_of_one_value(p: list[Fraction], k: int) -> Fraction:
    """sum_i Var(n_hat_i) of a table with one record of value k: sum_y P[y,k] |column y of the inverse|^2 - 1."""
    m, z = len(p), [1 / kept for kept in p]
    omega = [weight / sum(z) for weight in z]
    total = Fraction(-1)
    for y in range(m):
        column = [omega[i] + z[y] * ((i == y) - omega[i]) for i in range(m)]
        total += (p[k] * (y == k) + (1 - p[k]) / m) * sum(entry * entry for entry in column)
    return total


def random_retentions(rng: np.random.Generator) -> list[Fraction]:
    """Retentions of very different size, none of them 0 or 1."""
    m = int(rng.integers(2, 8))
    return [Fraction(int(part), 1000) for part in np.clip(1000 * rng.random(m) ** rng.choice([0.3, 1, 3]), 1, 989)]


def test_the_error_of_one_value_is_that_of_the_dense_matrix() -> None:
    rng = np.random.default_rng(41)
    for _ in range(50):
        p = random_retentions(rng)
        kept, k = np.array(p, dtype=np.float64), int(rng.integers(len(p)))
        dense = np.diag(kept) + (1 - kept) / kept.size
        assert float(error_of_one_value(p, k)) == pytest.approx(dense_error(dense, np.eye(kept.size)[k]), rel=1e-6)


def test_the_error_falls_in_every_retention_for_every_table() -> None:
    """Errors are linear in the table, so tables of one value speak for all. In fractions."""
    rng = np.random.default_rng(42)
    for _ in range(200):
        p = random_retentions(rng)
        raised, k = int(rng.integers(len(p))), int(rng.integers(len(p)))
        more = [kept + (Fraction(int(rng.integers(1, 10)), 1000) if i == raised else 0) for i, kept in enumerate(p)]
        assert error_of_one_value(more, k) < error_of_one_value(p, k), (p, raised, k)


def gradient(p: FloatArray, k: int) -> FloatArray:
    """Derivatives of the error of a table with value k alone, by a complex step."""
    step, slopes = 1e-30, np.empty(p.size)
    for i in range(p.size):
        moved = p.astype(np.complex128)
        moved[i] += step * 1j
        dense = np.diag(moved) + (1 - moved) / p.size
        slopes[i] = ((np.linalg.inv(dense) ** 2 @ dense[:, k]).sum()).imag / step
    return slopes


@pytest.mark.parametrize("gamma", [1.3, 2.0, 4.0, 20.0])
@pytest.mark.parametrize("m", [2, 3, 5, 9])
def test_with_one_gamma_no_change_of_the_retentions_pays(m: int, gamma: float) -> None:
    """Every pair binds: (m-1) d_y + gamma d_x <= 0 for a direction d that keeps the bounds."""
    pairs = [(y, x) for y in range(m) for x in range(m) if y != x]
    bounds = np.zeros((len(pairs), m))
    for row, (y, x) in enumerate(pairs):
        bounds[row, y], bounds[row, x] = m - 1, gamma
    p = np.full(m, (gamma - 1) / (m - 1 + gamma))
    slopes = gradient(p, 0)  # of one value; the others by symmetry
    best = linprog(slopes, A_ub=bounds, b_ub=np.zeros(len(pairs)), bounds=[(-1, 1)] * m)
    assert best.success
    assert best.fun >= -1e-9 * np.abs(slopes).max()
    # a direction that breaks a bound does pay, so the program could have found one
    assert slopes[0] < 0


# --- V*: rows that favour one value each, at several levels -----------------------------------------------------------


def rows_of_one_value(gammas: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Every extreme row with one favoured value, at every level rho (MATRICES 1.3), and which rows are alike.

    A row is max(1, rho/g), and min(rho, g_y) at its own value y. Alike are those of one level and one gamma of y.
    """
    rows, kinds = [], []
    for level in np.unique(gammas):
        for y, gamma in enumerate(gammas):
            row = np.maximum(1, level / gammas)
            row[y] = min(level, gamma)
            rows.append(row)
            kinds.append((level, gamma))
    alike = np.unique(np.array(kinds), axis=0, return_inverse=True)[1].ravel()
    return np.array(rows), np.eye(alike.max() + 1)[alike]  # (rows, values), (rows, kinds)


def least_error_of_rows(rows: FloatArray, alike: FloatArray) -> tuple[float, float]:
    """Return a least tr(J^-1) - 1, J = sum_e c_e e e'/(e.f), sum_e c_e e = 1, f equal shares; and a bound from below.

    If e'J^-2 e <= (lambda.e)(f.e) for all rows, then tr(J*^-1) >= tr(J^-1)^2/tr(J^-2 J*) >= tr(J^-1)^2/(lambda.1) for
    every J*: the trace of an inverse is convex, and its scale is free. lambda is fitted to the rows in use, and raised.
    """
    scaled = rows / np.sqrt(rows.mean(axis=1))[:, None]

    def inverse(c: FloatArray) -> FloatArray:
        return np.asarray(np.linalg.inv((scaled * (alike @ c)[:, None]).T @ scaled))

    def slopes(c: FloatArray) -> FloatArray:
        return np.asarray(-alike.T @ ((scaled @ inverse(c)) ** 2).sum(axis=1))

    sums = np.unique(rows.T @ alike, axis=0)  # one equation for each class of values
    start = np.zeros(alike.shape[1])
    start[: len(sums)] = 1 / rows[0].sum()  # the strictest level alone: uniform perturbation
    found = minimize(
        lambda c: float(np.trace(inverse(c))), start, jac=slopes, method="SLSQP", bounds=[(1e-9, None)] * start.size,
        constraints={"type": "eq", "fun": lambda c: sums @ c - 1, "jac": lambda c: sums},
        options={"ftol": 1e-13, "maxiter": 500},
    )  # fmt: skip
    used = (alike @ found.x) > 1e-7
    spread = ((scaled @ inverse(found.x)) ** 2).sum(axis=1)  # e'J^-2 e/(f.e)
    weights = np.linalg.lstsq(rows[used], spread[used], rcond=None)[0]
    weights *= (spread / (rows @ weights)).max()
    return float(found.fun) - 1, float(found.fun**2 / weights.sum()) - 1


@pytest.mark.parametrize(
    ("gammas", "expected"),
    [(two_classes(5, 35, 2, 4), 1544), (two_classes(1, 39, 2, 4), 1348), (two_classes(5, 35, 4, 16), 175)],
)
def test_rows_of_one_value_at_their_best(gammas: FloatArray, expected: float) -> None:
    """Their levels would have to be published beside the values, which is why the staircase is shipped."""
    least, bound = least_error_of_rows(*rows_of_one_value(gammas))
    assert bound > 0.9999 * least
    assert least == pytest.approx(expected, abs=0.5)
    assert 0.83 < least / best_staircase(gammas).error < 0.97


@pytest.mark.parametrize("theta", [2, 3, 5, 10, 20])
def test_by_tolerance_the_staircase_is_nearly_the_best_of_them(theta: float) -> None:
    """Gammas of shares f by tolerance, g = theta (1-f)/(1 - theta f): within 1% of the best."""
    f = np.array([0.4, 0.22, 0.16, 0.1, 0.07, 0.03, 0.015, 0.005])
    room = 1 - theta * f
    gammas = effective(np.where(room > 0, theta * (1 - f) / np.where(room > 0, room, 1), np.inf))
    least, bound = least_error_of_rows(*rows_of_one_value(gammas))
    assert bound > 0.999 * least
    assert bound <= best_staircase(gammas).error <= 1.01 * least
