"""MATRICES.md 1.4, 4.1, 4.2 and 4.5: mechanisms that publish a value, against linear programs and general solvers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from sfumato.methods.staircase import best_staircase, cover, effective, uniform_error
from sfumato.values.arrays import FloatArray
from tests.methods.test_staircase import FG_EXAMPLE_1, pair_bounds

EXAMPLE_1 = FG_EXAMPLE_1
EQUAL = np.full(4, 0.25)


def uniform_noise(p: FloatArray) -> FloatArray:
    """P = diag(p) + 1 (1 - p)^T/m."""
    return np.asarray(np.diag(p) + (1 - p) / p.size)


def error(matrix: FloatArray, n: FloatArray) -> float:
    inverse = np.linalg.inv(matrix)
    return float((inverse**2 @ (matrix @ n)).sum() - n.sum())


def best_diagonal(g: FloatArray, weights: FloatArray, upward: bool = False, without: int | None = None) -> float:
    """max sum_x w_x P[x, x] over all m x m matrices that keep every bound, by HiGHS."""
    m = g.size
    index = np.arange(m * m).reshape(m, m)  # [published, true]
    bounds, rows = np.broadcast_to(g[:, None], (m, m)) if upward else pair_bounds(g), []
    for y in range(m):
        for i in range(m):
            for k in range(m):
                if i != k:
                    row = np.zeros(m * m)
                    row[index[y, i]], row[index[y, k]] = 1, -bounds[i, k]
                    rows.append(row)
    sums = np.zeros((m, m * m))
    for x in range(m):
        sums[x, index[:, x]] = 1
    aim = np.zeros(m * m)
    aim[index.diagonal()] = -weights
    most = np.ones((m, m))
    if without is not None:
        most[without] = 0
    return -linprog(
        aim,
        A_ub=np.array(rows),
        b_ub=np.zeros(len(rows)),
        A_eq=sums,
        b_eq=np.ones(m),
        bounds=[(0, b) for b in most.ravel()],
    ).fun


# --- 1.4 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_the_mean_diagonal_is_at_most_the_strictest_gamma_over_the_values(seed: int) -> None:
    """So fine-grain requirements raise uniform's by 1 + (g_min - 1)/m at most."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(3, 6))
    g = effective(1 + rng.lognormal(0, 1, m))
    reached = best_diagonal(g, np.full(m, 1 / m))
    uniform = g.min() / (m - 1 + g.min())
    assert uniform <= reached * (1 + 1e-9)
    assert reached <= g.min() / m * (1 + 1e-9)
    assert (g.min() / m) / uniform == pytest.approx(1 + (g.min() - 1) / m)


# --- 4.1: uniform noise -----------------------------------------------------------------------------------------------


def test_the_inverse_of_uniform_noise_by_its_columns() -> None:
    """Column y is omega + z_y (e_y - omega), z = 1/p, omega = z/sum z."""
    rng = np.random.default_rng(1)
    for _ in range(100):
        p = rng.uniform(0.05, 1, int(rng.integers(2, 9)))
        z = 1 / p
        omega = z / z.sum()
        columns = omega[:, None] + z * (np.eye(p.size) - omega[:, None])
        assert columns == pytest.approx(np.linalg.inv(uniform_noise(p)), rel=1e-8, abs=1e-8)


def test_theorem_1_the_error_falls_with_every_retention_for_every_table() -> None:
    """Steps small and large, tables of a single value: the error is linear in the table, so these are all of them."""
    rng = np.random.default_rng(2)
    for _ in range(400):
        m = int(rng.integers(2, 8))
        p = rng.uniform(0.02, 0.98, m) if rng.random() < 0.7 else rng.choice([0.02, 0.97], m)
        i = int(rng.integers(m))
        more = p.copy()
        more[i] += (1 - p[i]) * rng.choice([1e-4, 0.1, 1.0])
        for k in range(m):
            table = np.eye(m)[k]
            assert error(uniform_noise(more), table) < error(uniform_noise(p), table)


def test_the_error_is_not_convex_in_the_retentions() -> None:
    """Two values: it is concave in p_1 - p_2."""
    n = np.array([0.5, 0.5])

    def along(d: float) -> float:
        return error(uniform_noise(np.array([0.5 + d, 0.5 - d])), n)

    assert along(0.2) + along(-0.2) < 2 * along(0.0)


def test_with_one_gamma_no_unequal_retentions_are_better_than_uniform() -> None:
    """Random directions, each as far as the bound allows, for random tables."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        m, gamma = int(rng.integers(2, 7)), 1 + rng.lognormal()
        direction, n = rng.uniform(0.2, 1, m), rng.dirichlet(np.ones(m))
        low, high = 0.0, 1 / direction.max()
        for _ in range(60):
            middle = (low + high) / 2
            matrix = uniform_noise(middle * direction)
            kept = (matrix.max(axis=1) <= gamma * matrix.min(axis=1)).all()
            low, high = (middle, high) if kept else (low, middle)
        assert error(uniform_noise(low * direction), n) >= uniform_error(gamma, m) * (1 - 1e-9)


# --- 4.2: free noise --------------------------------------------------------------------------------------------------


def free_noise(g: FloatArray, rho: float) -> FloatArray | None:
    """P = diag(p) + r (1-p)^T by one number rho; None where it is no mechanism."""
    high, low = np.minimum(rho, g), np.maximum(1.0, rho / g)
    d = high - low
    if d.min() <= 0:
        return None
    scale = (1 / d).sum() / (1 + (low / d).sum())
    p = 1 - scale * low
    r = p / (scale * d)
    return None if p.min() < 0 else np.asarray(np.diag(p) + np.outer(r, 1 - p))


def test_free_noise_is_a_mechanism_that_keeps_and_uses_up_its_bounds() -> None:
    rng, seen = np.random.default_rng(4), 0
    for _ in range(400):
        g = effective(1 + rng.lognormal(0.5, 0.7, int(rng.integers(3, 8))))
        matrix = free_noise(g, rng.uniform(g.min(), g.min() ** 2))
        if matrix is None:
            continue
        seen += 1
        assert matrix.sum(axis=0) == pytest.approx(np.ones(g.size))
        used = (matrix[:, :, None] / (pair_bounds(g) * matrix[:, None, :])).max()
        assert used == pytest.approx(1)
    assert seen > 100


def test_free_noise_of_example_1_and_what_a_general_solver_finds() -> None:
    """53.9 as the staircase; the solver is over all p and r, from many starts."""
    g = effective(EXAMPLE_1)
    made = [
        matrix for rho in np.linspace(g.min(), g.min() ** 2, 2000)[:-1] if (matrix := free_noise(g, rho)) is not None
    ]
    best = min(error(matrix, EQUAL) for matrix in made)
    assert best == pytest.approx(53.9, abs=0.05)
    assert best == pytest.approx(best_staircase(EXAMPLE_1).error, rel=1e-3)
    bounds, rng = pair_bounds(g), np.random.default_rng(5)

    def matrix_of(x: FloatArray) -> FloatArray:
        r = np.exp(x[4:] - x[4:].max())
        return np.asarray(np.diag(x[:4]) + np.outer(r / r.sum(), 1 - x[:4]))

    def slack(x: FloatArray) -> FloatArray:
        p = matrix_of(x)
        off = ~np.eye(4, dtype=bool)
        return np.concatenate([(bounds * row[None, :] - row[:, None])[off] for row in p]) * 10

    found = []
    for _ in range(12):
        start = np.concatenate((rng.uniform(0.02, 0.1, 4), rng.standard_normal(4) * 0.3))
        run = minimize(
            lambda x: np.log(error(matrix_of(x), EQUAL)),
            start,
            method="SLSQP",
            bounds=[(1e-3, 0.999)] * 4 + [(-5, 5)] * 4,
            constraints={"type": "ineq", "fun": slack},
            options={"maxiter": 300},
        )
        if slack(run.x).min() > -1e-7:
            found.append(float(np.exp(run.fun)))
    assert min(found) == pytest.approx(best, rel=2e-3)


# --- 4.4 and 4.5: record utility --------------------------------------------------------------------------------------


def test_record_utility_over_all_matrices_degenerates() -> None:
    """Example 1: g_min/m in both directions, reached without ever publishing the strictest value."""
    assert best_diagonal(EXAMPLE_1, EQUAL) == pytest.approx(0.375)
    assert best_diagonal(EXAMPLE_1, EQUAL, without=int(np.argmin(EXAMPLE_1))) == pytest.approx(0.375)
    assert best_diagonal(EXAMPLE_1, EQUAL, upward=True) == pytest.approx(0.4718, abs=5e-5)
    assert cover(EXAMPLE_1).diagonal.mean() == pytest.approx(0.454, abs=5e-4)


@pytest.mark.parametrize("seed", range(6))
def test_with_one_gamma_it_randomizes_the_most_frequent_values_only(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, gamma = int(rng.integers(2, 6)), 1 + rng.lognormal()
    shares = np.sort(rng.dirichlet(np.full(m, 0.7)))[::-1]
    of_top = [shares[:k].sum() * gamma / (gamma + k - 1) for k in range(1, m + 1)]
    assert best_diagonal(np.full(m, gamma), shares) == pytest.approx(max(of_top), rel=1e-6)
