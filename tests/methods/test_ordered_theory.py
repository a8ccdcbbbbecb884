"""MATRICES.md 6: thresholds, geometric and ranges beside the best of all mechanisms, plateau, coarse values."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from sfumato.methods.ordered.design import _information_of_windows, errors_of, geometric, plateau
from sfumato.methods.subset.design import best_subset
from sfumato.values.arrays import FloatArray
from tests.conftest import slow
from tests.methods.designs import best_design
from tests.methods.test_design_theory import all_rows


def of_distribution(m: int) -> FloatArray:
    """W with tr(W Cov) the mean of Var F(c) over the m-1 thresholds."""
    sums = np.tril(np.ones((m, m)))[:-1]
    return np.asarray(sums.T @ sums / (m - 1))


def of_metric(m: int, alpha: float) -> FloatArray:
    """The extreme rows of the metric: neighbours in the ratio alpha or 1/alpha."""
    steps = np.array(list(product([alpha, 1 / alpha], repeat=m - 1)))
    rows = np.column_stack((np.ones(len(steps)), np.cumprod(steps, axis=1)))
    return np.asarray(rows / rows.mean(axis=1, keepdims=True))


# --- 6.1: two guarantees ----------------------------------------------------------------------------------------------


def test_protecting_thresholds_gives_the_square_to_values_that_none_separates() -> None:
    """Bounds of pairs that a threshold separates, chained by all paths."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        m, gamma = int(rng.integers(3, 9)), 1 + rng.lognormal()
        thresholds = np.flatnonzero(rng.random(m - 1) < 0.4)
        if not thresholds.size:
            continue
        part = np.searchsorted(thresholds, np.arange(m), side="left")
        separated = part[:, None] != part
        bounds = np.where(separated, gamma, np.inf)
        np.fill_diagonal(bounds, 1)
        for j in range(m):
            bounds = np.minimum(bounds, bounds[:, j : j + 1] * bounds[j : j + 1])
        expected = np.where(separated, gamma, gamma**2)
        np.fill_diagonal(expected, 1)
        assert bounds == pytest.approx(expected)


@pytest.mark.parametrize(("m", "steps"), [(4, 1), (5, 2), (6, 3)])
def test_the_metric_moves_near_statements_by_gamma_and_far_ones_by_much_more(m: int, steps: int) -> None:
    """alpha = gamma^(-1/W), in fractions: every statement within every window, and "at least c" for everybody."""
    alpha = Fraction(1, 2)
    gamma = alpha**-steps
    rows = [[alpha ** abs(x - y) for x in range(m)] for y in range(m)]
    for row, first in product(rows, range(m - steps)):
        window = row[first : first + steps + 1]
        for size in range(1, steps + 1):
            for inside in combinations(range(steps + 1), size):
                held = [w for place, w in enumerate(window) if place in inside]
                others = [w for place, w in enumerate(window) if place not in inside]
                assert max(held) <= gamma * min(others)  # odds of any prior on the window
    reached = max(max(row[c:]) / min(row[:c]) for row in rows for c in range(1, m))
    assert reached == alpha ** -(m - 1)


# --- 6.2: geometric among all mechanisms of its metric ----------------------------------------------------------------


@pytest.mark.parametrize("m", [5, 8, slow(9)])
@pytest.mark.parametrize(("alpha", "least", "most"), [(0.3, 1, 1), (0.5, 1.03, 1.09), (0.7, 1.5, 1.8), (0.9, 6, 7)])
def test_geometric_beside_the_best_distribution_function(m: int, alpha: float, least: float, most: float) -> None:
    """0% off at 0.3, 3 to 9% at 0.5, 1.5 to 1.8 times at 0.7, 6 to 7 times at 0.9, at equal counts."""
    shares, errors = np.full(m, 1 / m), of_distribution(m)
    best, own = (
        best_design(of_metric(m, alpha), shares, errors, within=5e-3),
        errors_of(geometric(m, alpha)).distribution,
    )
    table = float(np.trace(errors @ np.diag(shares)))
    assert own >= (best.bound - table) * (1 - 1e-9)
    assert least * (1 - 1e-6) <= own / (best.value - table)
    assert own / (best.bound - table) <= most * (1 + 1e-6)


def test_geometric_is_the_best_for_the_mean_of_eight_values() -> None:
    m, alpha = 8, 0.5
    score = np.arange(m) / (m - 1)
    for shares in (np.full(m, 1 / m), np.random.default_rng(8).dirichlet(np.ones(m))):
        best = best_design(of_metric(m, alpha), shares, np.outer(score, score) + 1e-9 * np.eye(m), within=1e-4)
        p = geometric(m, alpha)
        own = score @ np.linalg.solve(p.T @ (p / (p @ shares)[:, None]), score)
        assert own == pytest.approx(best.value, rel=2e-4)


# --- 6.3: plateau -----------------------------------------------------------------------------------------------------


def test_the_kernel_of_the_plateau_is_positive_definite() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        m, gamma = int(rng.integers(2, 40)), 1 + rng.lognormal(1, 1)
        alpha = rng.random() * gamma ** (-1 / (m - 1))
        kernel = np.maximum(alpha ** np.abs(np.arange(m)[:, None] - np.arange(m)), 1 / gamma)
        assert np.linalg.eigvalsh(kernel).min() > 0
        assert plateau(m, alpha, gamma) == pytest.approx(np.linalg.solve(kernel, np.ones(m))[:, None] * kernel)


# --- 6.4: ranges among all mechanisms ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "gamma"), [(5, 4.0), (7, 4.0), (7, 2.0), slow(10, 4.0)])
def test_all_widths_and_sets_are_near_the_best_of_all_mechanisms(m: int, gamma: float) -> None:
    """Within 7%: the best mixture of windows of all widths and sets of k values, beside a certified bound."""
    shares, errors = np.full(m, 1 / m), of_distribution(m)
    table = float(np.trace(errors @ np.diag(shares)))
    best = best_design(all_rows(gamma, m), shares, errors, within=5e-3)
    sets = m / best_subset(gamma, m).moment * (np.eye(m) - 1 / m) + np.ones((m, m))
    parts = np.array([*(_information_of_windows(m, width, gamma) for width in range(1, m + 1)), sets])

    def value(mixture: FloatArray) -> tuple[float, FloatArray]:
        inverse = np.linalg.inv(np.tensordot(mixture, parts, 1))
        return float(np.trace(errors @ inverse)), -np.einsum("kij,ji->k", parts, inverse @ errors @ inverse)

    found = minimize(
        value,
        np.full(len(parts), 1 / len(parts)),
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * len(parts),
        constraints={"type": "eq", "fun": lambda t: t.sum() - 1, "jac": np.ones_like},
    )
    assert best.bound - table <= (found.fun - table) * (1 + 1e-9)
    assert found.fun - table <= (best.bound - table) * 1.07


# --- 6.5: the least expected distance ---------------------------------------------------------------------------------


def least_distance(m: int, gamma: float) -> float:
    """min mean |x - y| over all matrices of one gamma, by HiGHS: each row between its L and gamma L."""
    entries = m * m
    aim = np.append(np.abs(np.arange(m)[:, None] - np.arange(m)).ravel() / m, np.zeros(m))  # [published, true], then L
    above, below = np.zeros((entries, entries + m)), np.zeros((entries, entries + m))
    for place in range(entries):
        above[place, place], above[place, entries + place // m] = 1, -gamma
        below[place, place], below[place, entries + place // m] = -1, 1
    sums = np.zeros((m, entries + m))
    for x in range(m):
        sums[x, x:entries:m] = 1
    bounds = np.vstack((above, below))
    return float(linprog(aim, A_ub=bounds, b_ub=np.zeros(len(bounds)), A_eq=sums, b_eq=np.ones(m)).fun)


def by_bins(m: int, gamma: float, count: int) -> float:
    """Mean |x - y| of randomised response on the best bins, each published as one value; by trying all."""
    distance = np.abs(np.arange(m)[:, None] - np.arange(m)).astype(np.float64)
    best = np.inf
    for cuts in combinations(range(1, m), count - 1):
        ends = (0, *cuts, m)
        total = 0.0
        for low, high in pairwise(ends):
            inside = np.zeros(m, dtype=bool)
            inside[low:high] = True
            total += float((distance @ np.where(inside, gamma, 1.0)).min())
        best = min(best, total / m / (gamma + count - 1))
    return best


@pytest.mark.parametrize(("m", "gamma", "bins"), [(9, 4.0, 3), (12, 4.0, 3), (10, 20.0, 6), (6, 1.5, 2)])
def test_the_least_distance_is_that_of_coarse_values(m: int, gamma: float, bins: int) -> None:
    """Few bins, the truth inside them lost: the matrix has no inverse, and is not what is shipped."""
    tried = {count: by_bins(m, gamma, count) for count in range(1, 7)}
    assert least_distance(m, gamma) == pytest.approx(min(tried.values()), rel=1e-7)
    assert min(tried, key=tried.__getitem__) == bins
