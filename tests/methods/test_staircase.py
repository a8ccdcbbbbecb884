"""The staircase and cover noise against MATRICES.md's numbers, dense algebra, linear programs and exact fractions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from sfumato.methods.staircase import (
    MOST_LEVELS,
    BlockForm,
    best_staircase,
    cover,
    effective,
    expected_error,
    grouped,
    staircase,
    uniform,
    uniform_error,
)
from sfumato.values.arrays import FloatArray
from tests.conftest import slow

FG_EXAMPLE_1 = np.array([1.5, 3, 9.5, 18])


def two_classes(first: int, second: int, low: float, high: float) -> FloatArray:
    return np.array([low] * first + [high] * second)


def random_gammas(rng: np.random.Generator, m: int) -> FloatArray:
    kinds = [
        lambda: 1 + rng.lognormal(0, 1.5, m),
        lambda: rng.choice([1.5, 2.0, 4.0, 16.0], m),
        lambda: m * (1 + rng.random(m)),  # large enough for the staircase to exist
        lambda: 10 * m * (1 + 9 * rng.random(m)),
        lambda: np.where(rng.random(m) < 0.3, math.inf, 1 + rng.lognormal(1, 1, m)),
    ]
    return np.asarray(kinds[rng.integers(len(kinds))](), dtype=np.float64)


def instances(seed: int, count: int, largest: int = 9) -> Iterator[tuple[np.random.Generator, FloatArray]]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield rng, random_gammas(rng, int(rng.integers(2, largest)))


def pair_bounds(gammas: FloatArray) -> FloatArray:
    """G[i, k] = min(g_i, g_k); 1 on the diagonal."""
    bounds = np.minimum(gammas[:, None], gammas)
    np.fill_diagonal(bounds, 1.0)
    return bounds


def largest_excess(p: FloatArray, bounds: FloatArray) -> float:
    """The largest P[y,i] / (G[i,k] P[y,k]) - 1."""
    finite = np.where(np.isfinite(bounds), bounds, 0.0)  # what is not bounded exceeds nothing
    reciprocal = np.divide(1, finite, out=np.zeros_like(finite), where=finite > 0)
    return float((p[:, :, None] * reciprocal[None] - p[:, None, :]).max() / p.max())


def dense_error(p: FloatArray, shares: FloatArray) -> float:
    """L2 by the inverse of the whole matrix."""
    inverse = np.linalg.inv(p)
    return float((inverse**2 @ (p @ shares)).sum() - shares.sum())


# --- the numbers of MATRICES.md ---------------------------------------------------------------------------------------


def test_fine_grain_example_1() -> None:
    assert uniform_error(1.5, 4) == pytest.approx(60)
    assert expected_error(uniform(1.5, 4)) == pytest.approx(60)
    assert best_staircase(FG_EXAMPLE_1).error == pytest.approx(53.86, abs=0.005)
    assert expected_error(cover(FG_EXAMPLE_1)) == pytest.approx(6.9, abs=0.05)
    kept = cover(FG_EXAMPLE_1)
    assert kept.diagonal - kept.off_diagonal[:, 0] == pytest.approx([0.272] * 4)


@pytest.mark.parametrize(
    ("gammas", "expected_uniform", "expected"),
    [
        (two_classes(5, 35, 2, 4), 1638, 1619),
        (two_classes(1, 39, 2, 4), 1638, 1581),
        (two_classes(5, 35, 4, 16), 199, 192),
        (two_classes(30, 270, 2, 4), 90_298, 90_265),
    ],
)
def test_two_classes(gammas: FloatArray, expected_uniform: float, expected: float) -> None:
    assert uniform_error(gammas.min(), gammas.size) == pytest.approx(expected_uniform, abs=0.5)
    assert best_staircase(gammas).error == pytest.approx(expected, abs=0.5)


@pytest.mark.parametrize("theta", [2, 3, 5, 10, 20])
def test_cover_keeps_by_the_tolerance_alone(theta: float) -> None:
    """Under the rule gamma_i = odds(theta f_i)/odds(f_i) every retention is (theta-1)/(m-1)."""
    shares = np.array([0.4, 0.3, 0.2, 0.1]) / theta * 0.9  # theta f < 1
    shares = np.append(shares, np.full(30, (1 - shares.sum()) / 30))
    assert (theta * shares < 1).all()
    gammas = theta * (1 - shares) / (1 - theta * shares)
    made = cover(gammas)
    assert made.diagonal - made.off_diagonal[:, 0] == pytest.approx((theta - 1) / (gammas.size - 1))


# --- effective gammas and rows ----------------------------------------------------------------------------------------


def test_effective_gammas_are_the_closure_of_the_pairs() -> None:
    for _, gammas in instances(1, 1500):
        closed = pair_bounds(gammas)
        for j in range(gammas.size):
            closed = np.minimum(closed, closed[:, j : j + 1] * closed[j : j + 1, :])
        assert closed == pytest.approx(pair_bounds(effective(gammas)))


def rays(gammas: FloatArray) -> FloatArray:
    """All rows min(rho, g_i) or max(1, rho/g_i), 1.3; each sums to one."""
    found = []
    for rho in np.unique(gammas):
        high, low = np.minimum(rho, gammas), np.maximum(1, rho / gammas)
        found += [np.where(chosen, high, low) for chosen in product([False, True], repeat=gammas.size)]
    rows = np.array(found)
    return np.unique(np.asarray(rows / rows.sum(axis=1, keepdims=True)).round(14), axis=0)


def pair_constraints(gammas: FloatArray) -> FloatArray:
    """Rows a with a.v <= 0: v_i - min(g_i, g_k) v_k."""
    m = gammas.size
    pairs = [(i, k) for i in range(m) for k in range(m) if i != k]
    constraints = np.zeros((len(pairs), m))
    for row, (i, k) in enumerate(pairs):
        constraints[row, i], constraints[row, k] = 1, -min(gammas[i], gammas[k])
    return constraints


def test_admissible_rows_are_those_between_their_extremes() -> None:
    inside = 0
    for rng, gammas in instances(2, 3000, 6):
        g = effective(np.where(np.isinf(gammas), 50, gammas))
        row = np.exp(rng.random(g.size) * np.log(g) * 1.2)
        low, high = row.min(), row.max()
        by_extremes = ((np.maximum(low, high / g) <= row) & (row <= np.minimum(high, g * low))).all()
        by_pairs = (pair_constraints(g) @ row <= 0).all()
        assert by_extremes == by_pairs
        inside += by_pairs
    assert 500 < inside < 2500


def test_extreme_rows_reach_every_linear_optimum() -> None:
    for rng, gammas in instances(3, 250, 6):
        g = effective(np.where(np.isinf(gammas), 50, gammas))
        extreme = rays(g)
        assert (pair_constraints(g) @ extreme.T).max() < 1e-10
        direction = rng.standard_normal(g.size)
        best = linprog(
            -direction,
            A_ub=pair_constraints(g),
            b_ub=np.zeros(g.size * (g.size - 1)),
            A_eq=np.ones((1, g.size)),
            b_eq=[1],
        )
        assert (extreme @ direction).max() == pytest.approx(-best.fun, abs=1e-7)


def test_no_mechanism_leaks_more_than_the_strictest_gamma() -> None:
    """1.4: sum_y max_x P <= g_min and sum_y min_x P >= 1/g_min, for random mechanisms made of extreme rows."""
    reached = 0.0
    for rng, gammas in instances(4, 200, 6):
        g = effective(np.where(np.isinf(gammas), 50, gammas))
        rows = rays(g)
        weights = -rows.max(axis=1) if rng.random() < 0.5 else rng.standard_normal(len(rows))
        chosen = linprog(weights, A_eq=rows.T, b_eq=np.ones(g.size))
        p = rows * chosen.x[:, None]
        assert p.sum(axis=0) == pytest.approx(1)
        leaked = p.max(axis=1).sum() / g.min()
        assert leaked <= 1 + 1e-7
        assert p.min(axis=1).sum() * g.min() >= 1 - 1e-7
        reached = max(reached, float(leaked))
    assert reached == pytest.approx(1)


# --- staircase --------------------------------------------------------------------------------------------------------


def exact_own_chances(gammas: FloatArray) -> list[Fraction]:
    """s of every value by elimination of the columns' equations in fractions."""
    g = [Fraction(value) for value in gammas]
    m = len(g)
    rows = [[1 if x == y else 1 / min(g[x], g[y]) for y in range(m)] + [Fraction(1)] for x in range(m)]
    for k in range(m):
        pivot = next(r for r in range(k, m) if rows[r][k] != 0)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for r in range(m):
            if r != k:
                rows[r] = [value - rows[r][k] * other for value, other in zip(rows[r], rows[k], strict=True)]
    return [row[m] for row in rows]


def test_the_staircase_is_what_the_columns_ask_for_and_exists_when_positive() -> None:
    found = {True: 0, False: 0}
    for _, gammas in instances(5, 600, 7):
        g = effective(gammas)
        if np.isinf(g).any():
            continue
        exact = exact_own_chances(g)
        made = staircase(gammas)
        found[made is not None] += 1
        assert (made is not None) == (min(exact) > 0)
        if made is not None:
            assert made.diagonal[made.classes] == pytest.approx([float(s) for s in exact], rel=1e-9)
    assert min(found.values()) > 100


def test_the_staircase_keeps_its_promise_and_is_tight() -> None:
    for rng, gammas in instances(6, 500, 12):
        made = best_staircase(gammas).blocks
        p = made.dense()
        granted = made.gammas[made.classes]
        assert p.sum(axis=0) == pytest.approx(1, abs=1e-12)
        assert (p >= 0).all()
        assert (granted <= effective(gammas)).all()
        assert largest_excess(p, pair_bounds(gammas)) < 1e-12
        assert p == pytest.approx(made.diagonal[made.classes][:, None] / pair_bounds(granted))
        inside = rng.random(gammas.size) < 0.5  # no statement moves by more than g_min^2
        if inside.any() and not inside.all() and math.isfinite(gammas.min()):
            moved = p[:, inside].max(axis=1) / p[:, ~inside].min(axis=1)
            assert moved.max() <= gammas.min() ** 2 * (1 + 1e-9)


def test_the_best_cap_is_found() -> None:
    gains = []
    for rng, gammas in instances(7, 60, 30):
        shares = rng.dirichlet(np.ones(gammas.size)) if rng.random() < 0.5 else None
        found = best_staircase(gammas, shares)
        g = effective(gammas)
        if np.isinf(g).any():
            assert found.error == pytest.approx(0, abs=1e-12)
            continue
        tried = [staircase(gammas, float(cap)) for cap in np.geomspace(g.min(), g.max(), 600)]
        errors = [expected_error(made, shares) for made in tried if made is not None]
        assert found.error <= min(errors) * (1 + 1e-7)
        assert found.error <= uniform_error(g.min(), g.size) * (1 + 1e-9)
        gains.append(found.error / uniform_error(g.min(), g.size))
    assert min(gains) < 0.8


def test_large_domains_are_grouped_downwards() -> None:
    rng = np.random.default_rng(8)
    gammas = 1000 * (1 + 3 * rng.random(15_000))
    lowered = grouped(gammas)
    assert np.unique(lowered).size == MOST_LEVELS
    assert (lowered <= gammas).all()
    assert lowered.min() == gammas.min()
    assert (lowered / gammas).min() > 0.9
    assert best_staircase(gammas).blocks.gammas.size <= MOST_LEVELS
    # What grouping costs: 300 values of 300 levels, by all of them and by 64.
    fine = 300 * (1 + rng.random(300))
    all_levels = expected_error_of_cover(fine)
    assert expected_error(cover(fine)) == pytest.approx(all_levels, rel=0.02)


def expected_error_of_cover(gammas: FloatArray) -> float:
    """L2 of the matrix of 4.4, without classes."""
    excess = 1 / (gammas - 1)
    kept = 1 / (1 + excess.sum())
    p = np.repeat((kept * excess)[:, None], gammas.size, axis=1) + kept * np.eye(gammas.size)
    return dense_error(p, np.full(gammas.size, 1 / gammas.size))


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_grouping_keeps_the_order_and_the_strictest(most: int) -> None:
    for _, gammas in instances(9, 300, 30):
        lowered = grouped(gammas, most)
        assert np.unique(lowered).size == min(most, np.unique(gammas).size)
        assert (lowered <= gammas).all()
        assert set(lowered) <= set(gammas)
        in_order = lowered[np.argsort(gammas)]
        assert (in_order[:-1] <= in_order[1:]).all()


# --- cover noise ------------------------------------------------------------------------------------------------------


def test_cover_noise_is_tight_upwards_and_keeps_all_alike() -> None:
    for _, gammas in instances(10, 500, 12):
        made = cover(gammas)
        p = made.dense()
        assert p.sum(axis=0) == pytest.approx(1, abs=1e-12)
        for y, gamma in enumerate(gammas):
            others = np.delete(p[y], y)
            assert others == pytest.approx(p[y, y] / gamma)
        noise = p - np.diag(p.diagonal() - made.off_diagonal[made.classes, made.classes])
        assert p - noise == pytest.approx(np.eye(gammas.size) * (p - noise)[0, 0])


def test_cover_noise_is_the_only_mixture_of_its_rows() -> None:
    for _, gammas in instances(11, 200, 8):
        g = np.where(np.isinf(gammas), 50, gammas)
        own_rows = 1 + np.diag(g - 1)
        weights = np.linalg.solve(own_rows.T, np.ones(g.size))
        assert cover(g).dense() == pytest.approx(weights[:, None] * own_rows)


# --- expected error ---------------------------------------------------------------------------------------------------


def random_blocks(rng: np.random.Generator) -> BlockForm:
    """Any matrix of this form, also one with a class of one value."""
    count = int(rng.integers(1, 5))
    classes = np.concatenate((np.arange(count), rng.integers(count, size=int(rng.integers(2, 8)))))
    sizes = np.bincount(classes, minlength=count)
    off_diagonal = rng.random((count, count)) / (1.5 * classes.size)
    diagonal = 1 - sizes @ off_diagonal + off_diagonal.diagonal()
    return BlockForm(rng.permutation(classes), np.full(count, 2.0), off_diagonal, diagonal)


def test_expected_error_is_that_of_the_dense_matrix() -> None:
    rng = np.random.default_rng(12)
    for _ in range(500):
        blocks = random_blocks(rng)
        assert blocks.dense().sum(axis=0) == pytest.approx(1)
        equal = np.full(blocks.size, 1 / blocks.size)
        shares = rng.dirichlet(np.ones(blocks.size))
        assert expected_error(blocks) == pytest.approx(dense_error(blocks.dense(), equal), rel=1e-8)
        assert expected_error(blocks, shares) == pytest.approx(dense_error(blocks.dense(), shares), rel=1e-8)
        assert expected_error(blocks, 1000 * shares) == pytest.approx(expected_error(blocks, shares))


def test_a_matrix_that_tells_nothing_has_no_error() -> None:
    blind = BlockForm(np.zeros(4, dtype=np.int64), np.array([2.0]), np.array([[0.25]]), np.array([0.25]))
    assert expected_error(blind) == math.inf


@pytest.mark.parametrize("m", [2, 3, 40, slow(300)])
@pytest.mark.parametrize("gamma", [1.1, 4, 1e6])
def test_uniform_error_is_the_same_for_every_table(m: int, gamma: float) -> None:
    rng = np.random.default_rng(m)
    for _ in range(5):
        shares = rng.dirichlet(np.full(m, 0.3))
        assert dense_error(uniform(gamma, m).dense(), shares) == pytest.approx(uniform_error(gamma, m), rel=1e-7)


@pytest.mark.parametrize(
    "gammas",
    [
        [math.inf] * 3,
        [1e200, math.inf, math.inf],
        [2, math.inf, math.inf],
        [1 + 1e-9, 5, 5],
        [1e16, 1e17, 1e18],
        [3, 4],
    ],
)
def test_extreme_gammas(gammas: list[float]) -> None:
    g = np.array(gammas)
    found = best_staircase(g)
    assert found.blocks.dense().sum(axis=0) == pytest.approx(1)
    assert found.error <= uniform_error(g.min(), g.size) * (1 + 1e-9) + 1e-12
    assert cover(g).dense().sum(axis=0) == pytest.approx(1)


@pytest.mark.parametrize("gammas", [[], [2.0], [2.0, 1.0], [2.0, math.nan], [[2.0, 3.0]]])
def test_what_is_no_gamma_is_refused(gammas: list[float]) -> None:
    with pytest.raises(ValueError, match="gamma"):
        effective(np.array(gammas))
