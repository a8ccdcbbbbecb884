"""MATRICES.md 2 and 5.1: estimates of any design, why extreme rows suffice, its certificate, minimax, random sets."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from sfumato.methods.subset.design import best_subset
from sfumato.values.arrays import FloatArray
from tests.methods.designs import best_design, information


def all_rows(gamma: float, m: int) -> FloatArray:
    """{1, g}^m but (1, ..., 1): the extreme rows of one gamma."""
    return np.array(list(product([1.0, gamma], repeat=m))[1:])


def random_design(rows: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return weights of a mechanism: the mean of some that linear programs choose."""
    return np.mean(
        [linprog(rng.standard_normal(len(rows)), A_eq=rows.T, b_eq=np.ones(rows.shape[1])).x for _ in range(8)], axis=0
    )


# --- estimates of one mechanism ---------------------------------------------------------------------------------------


def test_the_covariance_of_the_best_estimate_is_the_inverse_information_less_the_table() -> None:
    """J n = 1, and no other A with A P = I has a smaller variance in any direction."""
    rng = np.random.default_rng(1)
    for _ in range(100):
        m = int(rng.integers(2, 7))
        p = rng.dirichlet(np.ones(int(rng.integers(m, 2 * m + 1))), m).T
        n = rng.dirichlet(np.full(m, 2.0))
        j = p.T @ (p / (p @ n)[:, None])
        best = np.linalg.solve(j, (p / (p @ n)[:, None]).T)
        assert j @ n == pytest.approx(np.ones(m))
        assert best @ p == pytest.approx(np.eye(m), abs=1e-7)
        free = np.linalg.svd(p.T)[2][m:]  # rows z with z P = 0
        other = best + 0.1 * rng.standard_normal((m, len(free))) @ free
        covariances = []
        for a in (best, other):
            each = [share * (a @ (np.diag(q) - np.outer(q, q)) @ a.T) for share, q in zip(n, p.T, strict=True)]
            covariances.append(np.sum(each, axis=0))
        assert covariances[0] == pytest.approx(np.linalg.inv(j) - np.diag(n), rel=1e-6, abs=1e-6)
        assert np.linalg.eigvalsh(covariances[1] - covariances[0]).min() >= -1e-7 * np.abs(covariances[1]).max()


def test_splitting_a_row_only_adds_information() -> None:
    rng = np.random.default_rng(2)
    for _ in range(500):
        m = int(rng.integers(2, 8))
        n, parts = rng.dirichlet(np.ones(m)), rng.random((int(rng.integers(2, 5)), m))
        whole = parts.sum(axis=0)
        gained = information(parts, np.ones(len(parts)), n) - np.outer(whole, whole) / (whole @ n)
        assert np.linalg.eigvalsh(gained).min() > -1e-12


# --- the design problem -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0, np.inf])
def test_errors_are_convex_in_the_design(power: float) -> None:
    """sum_i w_i (J^-1)_ii^a, and the largest w_i (J^-1)_ii: squared errors, total variation and the worst count."""
    rng = np.random.default_rng(3)

    def value(weights: FloatArray, rows: FloatArray, n: FloatArray, w: FloatArray) -> float:
        variances = np.linalg.inv(information(rows, weights, n)).diagonal()
        return float((w * variances).max() if np.isinf(power) else w @ variances**power)

    for _ in range(60):
        m = int(rng.integers(2, 6))
        rows, n, w = all_rows(1 + rng.lognormal(), m), rng.dirichlet(np.full(m, 2.0)), rng.random(m)
        one, other = (random_design(rows, rng) for _ in range(2))
        share = rng.random()
        mixed = value(share * one + (1 - share) * other, rows, n, w)
        assert mixed <= (share * value(one, rows, n, w) + (1 - share) * value(other, rows, n, w)) * (1 + 1e-9)


def test_few_outputs_have_the_information_of_many() -> None:
    """Of any design there is one with at most m(m+1)/2 outputs, the same J, and so the same column sums J n = 1."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        m = int(rng.integers(2, 6))
        rows, n = all_rows(1 + rng.lognormal(), m), rng.dirichlet(np.full(m, 2.0))
        j = information(rows, random_design(rows, rng) * 0.5 + random_design(rows, rng) * 0.5, n)
        half = np.triu_indices(m)
        squares = np.array([(np.outer(e, e) / (e @ n))[half] for e in rows]).T
        few = linprog(rng.random(len(rows)), A_eq=squares, b_eq=j[half], method="highs-ds").x
        assert np.count_nonzero(few > 1e-9) <= m * (m + 1) // 2
        assert few @ rows == pytest.approx(np.ones(m), abs=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_the_certificate_is_met_by_the_best_design_and_by_no_other(seed: int) -> None:
    """Optimal iff some lambda has e.M e <= (lambda.e)(n.e) for all rows, M = J^-1 W J^-1, lambda.1 = tr(W J^-1)."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 6))
    rows, n = all_rows(1 + rng.lognormal(), m), rng.dirichlet(np.full(m, 3.0))
    errors = np.diag(rng.random(m) + 0.1)
    best = best_design(rows, n, errors, within=1e-7)
    assert best.bound == pytest.approx(best.value, rel=1e-6)
    for weights, is_best in ((best.weights, True), (random_design(rows, rng), False)):
        inverse = np.linalg.inv(information(rows, weights, n))
        value = float(np.trace(errors @ inverse))
        needed = np.einsum("ei,ij,ej->e", rows, inverse @ errors @ inverse, rows) / (rows @ n)
        least = linprog(np.ones(m), A_ub=-rows, b_ub=-needed / needed.max(), bounds=(None, None)).fun * needed.max()
        assert (least <= value * (1 + 1e-4)) == is_best
        assert value**2 / least <= best.value * (1 + 1e-6)  # the bound that a lambda gives holds in any case


@pytest.mark.parametrize(("m", "gamma"), [(2, 3.0), (3, 2.0), (4, 4.0)])
def test_equal_counts_are_the_worst_table_and_the_optimum_is_concave(m: int, gamma: float) -> None:
    rng, rows = np.random.default_rng(m), all_rows(gamma, m)

    def optimum(n: FloatArray) -> float:
        return best_design(rows, n, np.eye(m), within=1e-6).value - 1

    worst = optimum(np.full(m, 1 / m))
    assert worst == pytest.approx(best_subset(gamma, m).error, rel=1e-5)
    for _ in range(6):
        one, other = rng.dirichlet(np.ones(m), 2)
        ends = optimum(one), optimum(other)
        assert max(ends) <= worst * (1 + 1e-5)
        assert optimum((one + other) / 2) >= sum(ends) / 2 * (1 - 1e-5)


# --- 5.1: any random set ----------------------------------------------------------------------------------------------


def test_random_sets_by_their_inclusion_probabilities_are_private_mechanisms() -> None:
    """pi_i = (kappa - lo_i)/(hi_i - lo_i), independent bits, P(S|x) = mu(S) e_S(x)/kappa: over all sets."""
    rng = np.random.default_rng(6)
    for _ in range(100):
        m = int(rng.integers(3, 6))
        least = 1 + rng.lognormal()
        g = np.minimum(least * (1 + rng.random(m) * (least - 1)), np.sort(least * (1 + rng.random(m)))[-2])
        g[0] = least
        rho = float(rng.choice(g))
        high, low = np.minimum(rho, g), np.maximum(1.0, rho / g)
        if not low.max() < high.min():
            continue
        kappa = rng.uniform(low.max(), high.min())
        pi = (kappa - low) / (high - low)
        sets = np.array(list(product([False, True], repeat=m)))
        rows = np.where(sets, high, low)
        p = np.where(sets, pi, 1 - pi).prod(axis=1)[:, None] * rows / kappa
        assert p.sum(axis=0) == pytest.approx(np.ones(m))
        bounds = np.minimum.outer(g, g)
        assert (p[:, :, None] <= bounds * p[:, None, :] * (1 + 1e-12)).all()
        own = pi * high / kappa
        held = sets.T @ p  # [bit, true value]
        assert held == pytest.approx(np.where(np.eye(m, dtype=bool), own, pi[:, None]))


@pytest.mark.parametrize(("m", "gamma"), [(6, 2.0), (10, 4.0), (12, 3.0)])
def test_independent_bits_of_one_gamma_cost_as_stated(m: int, gamma: float) -> None:
    """kappa = 2g/(g+1): own bit 1/2, others 1/(g+1), L2 = 4gm/(g-1)^2 + 1 for every table: (m/(m-1))^2 of subset's."""
    own, other = 0.5, 1 / (gamma + 1)
    n = np.random.default_rng(m).dirichlet(np.ones(m))
    variance = (n * own * (1 - own) + (1 - n) * other * (1 - other)) / (own - other) ** 2
    assert variance.sum() == pytest.approx(4 * gamma * m / (gamma - 1) ** 2 + 1)
    assert m % (gamma + 1) == 0  # then k = m/(g+1), and the statement is exact but for the constants
    subset = best_subset(gamma, m)
    assert (variance.sum() - 1) / (subset.error + (m - 1) / m) == pytest.approx((m / (m - 1)) ** 2)
