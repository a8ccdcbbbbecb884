"""Subset selection against MATRICES.md's numbers, all sets in exact fractions, and a convex program over all rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from sfumato.methods.staircase import uniform_error
from sfumato.methods.subset.design import Subset, best_subset
from sfumato.values.arrays import FloatArray

GAINS = {  # section 3: m -> (k, gain) at eps 0.5, 1, g = 4, eps 2, eps 3
    12: [(5, 2.20), (3, 1.58), (2, 1.28), (2, 1.00), (1, 1)],
    40: [(15, 6.43), (11, 4.13), (8, 2.99), (5, 1.90), (2, 1.13)],
    300: [(113, 45.8), (81, 28.0), (60, 19.2), (36, 10.7), (14, 4.29)],
}
GAMMAS = [math.exp(0.5), math.e, 4, math.exp(2), math.exp(3)]


# --- the numbers of MATRICES.md ---------------------------------------------------------------------------------------


def uniform_is_best_from(m: int) -> float:
    """Return the gamma from which on uniform has the least L2 of all mechanisms, for m > 2 values.

        g = (sqrt(2(m-2)) (m-1) - sqrt(m-1) (m-2)) / (2 sqrt(m-1) - sqrt(2(m-2)))

    >>> round(uniform_is_best_from(12), 1), round(uniform_is_best_from(40), 1)
    (7.4, 27.2)
    """
    one, two = math.sqrt(m - 1), math.sqrt(2 * (m - 2))
    return (two * (m - 1) - one * (m - 2)) / (2 * one - two)


@pytest.mark.parametrize(
    ("m", "gamma", "members", "gain"),
    [(m, gamma, *row) for m, rows in GAINS.items() for gamma, row in zip(GAMMAS, rows, strict=True)],
)
def test_the_table_of_gains(m: int, gamma: float, members: int, gain: float) -> None:
    chosen = best_subset(gamma, m)
    assert chosen.members == members
    assert chosen.gain == pytest.approx(gain, rel=0.005)
    assert chosen.gain == pytest.approx(uniform_error(gamma, m) / chosen.error)


def test_the_numbers_of_the_text() -> None:
    assert best_subset(math.e, 40).error == pytest.approx(139.1, abs=0.05)
    assert Subset(math.e, 40, 13).error == pytest.approx(141.6, abs=0.05)
    assert Subset(math.e, 40, 1).error == pytest.approx(573.8, abs=0.05)
    assert best_subset(2, 7).error == pytest.approx(40.8, abs=0.05)
    assert Subset(2, 7, 3).error == pytest.approx(42)
    assert Subset(2, 7, 1).error == pytest.approx(54)


def test_the_fano_plane_is_a_design_of_seven_sets() -> None:
    lines = [{0, 1, 3}, {1, 2, 4}, {2, 3, 5}, {3, 4, 6}, {4, 5, 0}, {5, 6, 1}, {6, 0, 2}]
    p = np.array([[2 if x in line else 1 for x in range(7)] for line in lines]) / 10
    inverse = np.linalg.inv(p)
    assert (inverse**2).sum() / 7 - 1 == pytest.approx(Subset(2, 7, 3).error)


# --- the formulas, by enumeration in fractions ------------------------------------------------------------------------


def exact_moments(m: int, k: int, gamma: Fraction) -> Iterator[tuple[int, dict[tuple[int, int], Fraction]]]:
    """Yield every x with Pr[i and j in S | x] of all i <= j, over all sets of k values."""
    sets = list(combinations(range(m), k))
    for x in range(m):
        weights = [gamma if x in chosen else Fraction(1) for chosen in sets]
        total = sum(weights)
        pairs = {(i, j): Fraction(0) for i in range(m) for j in range(i, m)}
        for chosen, weight in zip(sets, weights, strict=True):
            for i, j in combinations(chosen, 2):
                pairs[i, j] += weight / total
            for i in chosen:
                pairs[i, i] += weight / total
        yield x, pairs


@pytest.mark.parametrize(("m", "k"), [(m, k) for m in range(2, 8) for k in range(1, m)])
def test_every_formula_is_that_of_all_sets(m: int, k: int) -> None:
    rng = np.random.default_rng(100 * m + k)
    gamma = Fraction(int(rng.integers(11, 90)), 10)
    counts = [int(n) for n in rng.integers(0, 50, m)]
    subset = Subset(float(gamma), m, k)
    records = sum(counts)
    covariance = np.zeros((m, m))
    first_own = first_other = None
    for x, pairs in exact_moments(m, k, gamma):
        for i, j in pairs:
            exact = pairs[i, j] - pairs[i, i] * pairs[j, j]
            covariance[i, j] += counts[x] * float(exact)
            covariance[j, i] = covariance[i, j]
            if i != j:
                own, other = subset.member_covariances()
                assert float(exact) == pytest.approx(own if x in (i, j) else other, abs=1e-14)
        first_own, first_other = pairs[x, x], pairs[(x + 1) % m, (x + 1) % m]
        assert float(first_own) == pytest.approx(subset.own)
        assert float(first_other) == pytest.approx(subset.other)
        assert float(first_own - first_other) == pytest.approx(subset.difference)
    covariance /= subset.difference**2
    n = np.array(counts, dtype=np.float64)
    assert subset.variance(n) == pytest.approx(covariance.diagonal())
    assert subset.covariance(n[0], n[1], records) == pytest.approx(covariance[0, 1], abs=1e-9)
    assert subset.error == pytest.approx(covariance.trace() / records)
    assert covariance.sum(axis=1) == pytest.approx(0, abs=1e-8)  # the estimates sum to N


def test_the_estimate_is_unbiased_and_sums_to_the_records() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        m = int(rng.integers(2, 40))
        subset = Subset(1 + rng.lognormal(), m, int(rng.integers(1, m)))
        counts = rng.integers(0, 100, m).astype(np.float64)
        held = counts * subset.own + (counts.sum() - counts) * subset.other
        assert held.sum() == pytest.approx(subset.members * counts.sum())
        assert subset.estimate(held, counts.sum()) == pytest.approx(counts, abs=1e-7)


def test_the_best_number_of_members_is_next_to_the_stated_one() -> None:
    rng = np.random.default_rng(2)
    for _ in range(2000):
        m, gamma = int(rng.integers(2, 120)), 1 + rng.lognormal(1, 1.5)
        errors = [Subset(gamma, m, k).error for k in range(1, m)]
        chosen = best_subset(gamma, m)
        assert chosen.error == pytest.approx(min(errors), rel=1e-12)
        if m > 2 and abs(gamma / uniform_is_best_from(m) - 1) > 1e-6:
            assert (chosen.members == 1) == (gamma > uniform_is_best_from(m))


def test_an_infinite_gamma_publishes_the_truth() -> None:
    chosen = best_subset(math.inf, 10)
    assert (chosen.members, chosen.own, chosen.other, chosen.error, chosen.gain) == (1, 1, 0, 0, 1)


@pytest.mark.parametrize(("gamma", "m", "k"), [(1.0, 5, 2), (math.nan, 5, 2), (2.0, 5, 0), (2.0, 5, 5)])
def test_what_is_no_design_is_refused(gamma: float, m: int, k: int) -> None:
    with pytest.raises(ValueError, match=r"gamma|set"):
        Subset(gamma, m, k)


# --- optimality -------------------------------------------------------------------------------------------------------


def rows_of_one_gamma(gamma: float, m: int) -> FloatArray:
    """All extreme rows {1, g}^m."""
    return np.array(list(product([1.0, gamma], repeat=m))[1:])


def certified_bound(rows: FloatArray, counts: FloatArray, weights: FloatArray) -> float:
    """A lower bound of tr(J^-1) over all mechanisms made of these rows: section 2's certificate.

    For every lambda with e.M e <= (lambda.e)(n.e), M = J^-2, all designs have at least tr(J^-1)^2 / sum(lambda).
    """
    expected = rows @ counts
    inverse = np.linalg.inv((rows * (weights / expected)[:, None]).T @ rows)
    needed = np.einsum("ei,ij,ej->e", rows, inverse @ inverse, rows) / expected
    best = linprog(np.ones(counts.size), A_ub=-rows, b_ub=-needed, bounds=(None, None))
    return float(np.trace(inverse) ** 2 / best.fun)


@pytest.mark.parametrize("m", [2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("gamma", [1.3, 2.0, 4.0, 9.0])
def test_no_mechanism_is_better_at_equal_counts(m: int, gamma: float) -> None:
    chosen = best_subset(gamma, m)
    rows, counts = rows_of_one_gamma(gamma, m), np.ones(m)
    members = (rows > 1).sum(axis=1)
    weights = np.where(members == chosen.members, 1.0, 0.0)
    weights /= (weights @ rows)[0]
    assert weights @ rows == pytest.approx(1)
    assert certified_bound(rows, counts, weights) / m - 1 == pytest.approx(chosen.error, rel=1e-7)


@pytest.mark.parametrize(("m", "gamma"), [(3, 2.0), (4, 1.5), (4, 3.0), (5, 2.0), (5, 6.0), (6, 2.0)])
def test_a_convex_solver_finds_the_same(m: int, gamma: float) -> None:
    rows = rows_of_one_gamma(gamma, m)
    expected = rows.sum(axis=1)

    def moment(weights: FloatArray) -> tuple[float, FloatArray]:
        inverse = np.linalg.inv((rows * (weights / expected)[:, None]).T @ rows)
        slope = -np.einsum("ei,ij,ej->e", rows, inverse @ inverse, rows) / expected
        return float(np.trace(inverse)), slope

    found = minimize(
        moment,
        np.full(len(rows), 1 / rows.sum(axis=0)[0]),
        jac=True,
        method="SLSQP",
        bounds=[(0, None)] * len(rows),
        constraints={"type": "eq", "fun": lambda c: rows.T @ c - 1, "jac": lambda c: rows.T},
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert found.fun / m - 1 == pytest.approx(best_subset(gamma, m).error, rel=1e-6)
