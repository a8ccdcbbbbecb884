"""Mechanisms for ordered values against MATRICES.md's table, dense algebra, certificates and brute force."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from sfumato.methods.ordered.design import (
    OrderedErrors,
    Ranges,
    _information_of_windows,
    _Spectrum,
    best_mixture,
    best_plateau,
    best_ranges,
    cards,
    errors_by_information,
    errors_of,
    estimator,
    geometric,
    mixed,
    plateau,
    windows,
)
from sfumato.methods.subset.deck import make_deck
from sfumato.methods.subset.design import Subset, best_subset
from sfumato.values.arrays import FloatArray
from sfumato.values.matrix.dense import MOST_ENTRIES
from tests.conftest import slow

E2 = math.exp(2)


def random_thresholds(m: int, gamma: float) -> FloatArray:
    """P[(c, answer), x]: a random threshold, and a randomised answer to x >= c."""
    above = np.arange(m) >= np.arange(1, m)[:, None]
    chances = np.where(above, gamma, 1.0) / (gamma + 1)
    return np.concatenate((chances, 1 - chances)) / (m - 1)


def covariance(p: FloatArray, n: FloatArray, a: FloatArray) -> FloatArray:
    """Cov(A o) for a table, value by value: a multinomial draw of each."""
    total = np.zeros((n.size, n.size))
    for x, count in enumerate(n):
        total += count * (a @ (np.diag(p[:, x]) - np.outer(p[:, x], p[:, x])) @ a.T)
    return total


def errors_of_all_sets(chosen: Subset) -> OrderedErrors:
    """Errors at equal counts of all sets of k values, by the covariances of counts."""
    m = chosen.values
    n = np.full(m, 1 / m)
    cov = np.full((m, m), chosen.covariance(n[0], n[0], 1.0))
    np.fill_diagonal(cov, chosen.variance(n))
    sums, score = np.tril(np.ones((m, m)))[:-1], np.arange(m) / (m - 1)
    return OrderedErrors(float((sums @ cov @ sums.T).trace() / (m - 1)), float(score @ cov @ score))


# --- the table of 6.4 -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "gamma", "uniform", "subset", "best", "single", "sets", "threshold"),
    [
        (16, 4, (6.93, 3.69), (4.55, 2.43), (4.88, 2.04), (3.01, 0.95), (2.55, 0.84), (9.15, 0.53)),
        (32, 4, (23.2, 12.0), (9.32, 4.81), (11.8, 3.87), (5.45, 1.37), (3.73, 1.01), (18.9, 0.53)),
        (64, E2, (20.4, 10.3), (7.56, 3.84), (7.44, 2.35), (3.12, 0.73), (2.10, 0.55), (21.9, 0.26)),
    ],
)
def test_the_table_of_ordered_mechanisms(
    m: int,
    gamma: float,
    uniform: tuple[float, float],
    subset: tuple[float, float],
    best: tuple[float, float],
    single: tuple[float, float],
    sets: tuple[float, float],
    threshold: tuple[float, float],
) -> None:
    assert_errors(errors_of(windows(m, 1, gamma).chances), uniform)
    assert_errors(errors_of_all_sets(best_subset(gamma, m)), subset)
    assert_errors(best_plateau(m, gamma)[1], best, mean_within=0.03)  # a flat valley for the distribution function
    assert_errors(best_ranges(m, gamma).errors, single)
    assert_errors(best_ranges(m, gamma, sets=True).errors, sets)
    assert_errors(errors_of(random_thresholds(m, gamma)), threshold, mean_within=0.02)


@pytest.mark.parametrize(
    ("m", "gamma", "printed"),
    [(16, 4, (2.55, 0.84)), (32, 4, (3.73, 1.01)), (64, E2, (2.10, 0.55)), (100, 4, (6.62, 1.39))],
)
def test_ranges_and_sets_have_the_printed_errors(m: int, gamma: float, printed: tuple[float, float]) -> None:
    """To every printed digit with all sets; a deck of them is what is drawn, and loses next to nothing."""
    found = best_mixture(m, gamma)
    assert (round(found.errors.distribution, 2), round(found.errors.mean, 2)) == printed
    assert_errors(errors_of(found.mechanism().chances), printed)


def test_the_last_line_of_the_table() -> None:
    single, sets = best_ranges(100, 4), best_ranges(100, 4, sets=True)
    assert errors_of(windows(100, 1, 4).chances).distribution == pytest.approx(198, rel=0.005)
    assert_errors(single.errors, (15.5, 2.21), mean_within=0.1)
    assert_errors(sets.errors, (6.62, 1.39), mean_within=0.05)
    near = errors_of(mixed([windows(100, 14, 4), windows(100, 1, 4)], [0.59, 0.41]).chances)
    assert_errors(near, (15.5, 2.21), mean_within=0.02)


def assert_errors(found: OrderedErrors, expected: tuple[float, float], mean_within: float = 0.01) -> None:
    assert found.distribution == pytest.approx(expected[0], rel=0.01)
    assert found.mean == pytest.approx(expected[1], rel=mean_within)


def test_mean_and_distribution_want_different_plateaus() -> None:
    assert_errors(errors_of(windows(32, 1, E2).chances), (6.0, 3.1), mean_within=0.02)
    assert_errors(best_plateau(32, E2)[1], (3.3, 1.17), mean_within=0.02)
    assert_errors(errors_of(plateau(32, 0.8595, E2)), (110, 0.27), mean_within=0.02)


# --- geometric --------------------------------------------------------------------------------------------------------


def geometric_inverse(m: int, alpha: float) -> FloatArray:
    """Return the three diagonals of the inverse, [above, on, below the diagonal; column], as SciPy's banded solvers do.

    >>> geometric_inverse(3, 0.5).tolist()
    [[0.0, -2.0, -1.0], [2.0, 5.0, 2.0], [-1.0, -2.0, 0.0]]
    """
    inside = 1 / (1 - alpha) ** 2
    bands = np.empty((3, m))
    bands[1], bands[0], bands[2] = (1 + alpha**2) * inside, -alpha * inside, -alpha * inside
    bands[1, [0, -1]], bands[0, -1], bands[2, 0] = 1 / (1 - alpha), -alpha / (1 - alpha), -alpha / (1 - alpha)
    bands[0, 0] = bands[2, -1] = 0.0
    return bands


@pytest.mark.parametrize("m", [2, 3, 4, 10, 60])
@pytest.mark.parametrize("alpha", [0.0, 0.05, 0.5, 0.9])
def test_the_inverse_of_geometric_is_tridiagonal(m: int, alpha: float) -> None:
    p, bands = geometric(m, alpha), geometric_inverse(m, alpha)
    inverse = np.diag(bands[1]) + np.diag(bands[0, 1:], 1) + np.diag(bands[2, :-1], -1)
    assert p.sum(axis=0) == pytest.approx(1)
    assert inverse @ p == pytest.approx(np.eye(m), abs=1e-11)
    assert ((inverse >= 1) | (inverse <= 0)).all()  # no estimated variance is negative
    assert (p[:, 1:] * alpha <= p[:, :-1] * (1 + 1e-12)).all()
    assert (p[:, :-1] * alpha <= p[:, 1:] * (1 + 1e-12)).all()
    score = np.arange(m) @ inverse
    expected = np.arange(m, dtype=np.float64)
    expected[[0, -1]] = -alpha / (1 - alpha), m - 1 + alpha / (1 - alpha)
    assert score == pytest.approx(expected, abs=1e-9)
    b = alpha / (1 - alpha) ** 2
    for c in range(1, m - 2):
        up_to = np.where(np.arange(m) <= c, 1.0, 0.0)
        up_to[c], up_to[c + 1] = 1 + b, -b
        assert inverse[: c + 1].sum(axis=0) == pytest.approx(up_to, abs=1e-9)


@pytest.mark.parametrize("m", [2, 3, 5, 7])
@pytest.mark.parametrize("alpha", [0.3, 0.5, 0.8])
def test_geometric_is_the_best_for_the_mean(m: int, alpha: float) -> None:
    """No mixture of the metric's extreme rows, neighbours in the ratio alpha or 1/alpha, does better for some table."""
    rng = np.random.default_rng(m)
    n = rng.dirichlet(np.full(m, 3.0))
    p, score = geometric(m, alpha), np.arange(m, dtype=np.float64)
    information = p.T @ (p / (p @ n)[:, None])
    direction = np.linalg.solve(information, score)
    steps = np.array(list(product([alpha, 1 / alpha], repeat=m - 1)))
    rows = np.column_stack((np.ones(len(steps)), np.cumprod(steps, axis=1)))
    needed = (rows @ direction) ** 2 / (rows @ n)
    dual = linprog(np.ones(m), A_ub=-rows / needed.max(), b_ub=-needed / needed.max(), bounds=(None, None))
    assert (score @ direction) ** 2 / dual.fun == pytest.approx(score @ direction, rel=1e-6)


# --- plateau ----------------------------------------------------------------------------------------------------------


def test_the_plateau_is_a_mechanism_and_keeps_both_bounds() -> None:
    rng = np.random.default_rng(1)
    for _ in range(400):
        m, gamma = int(rng.integers(2, 40)), 1 + rng.lognormal(1, 1)
        alpha = rng.random() * gamma ** (-1 / (m - 1))
        p = plateau(m, alpha, gamma)
        assert p.sum(axis=0) == pytest.approx(1)
        assert p.min() > 0
        distance = np.abs(np.arange(m)[:, None] - np.arange(m))
        bound = np.minimum(np.power(alpha, -distance.astype(np.float64)), gamma)
        assert (p[:, :, None] <= bound * p[:, None, :] * (1 + 1e-9)).all()


@pytest.mark.parametrize("m", [2, 5, 20])
def test_the_ends_of_the_plateau_are_uniform_and_geometric(m: int) -> None:
    assert plateau(m, 0, 4) == pytest.approx(windows(m, 1, 4).chances)
    largest = 4 ** (-1 / (m - 1))
    assert plateau(m, largest, 4) == pytest.approx(geometric(m, largest))


# --- ranges -----------------------------------------------------------------------------------------------------------


def test_windows_and_cards_are_mechanisms() -> None:
    rng = np.random.default_rng(2)
    for _ in range(60):
        m, gamma = int(rng.integers(2, 20)), 1 + rng.lognormal(1, 1)
        width, k, share = int(rng.integers(1, m + 1)), int(rng.integers(1, m)), rng.random()
        made = [windows(m, width, gamma), cards(make_deck(m, k), gamma)]
        assert len(made[0].held) == m + width - 1
        assert (made[0].held.sum(axis=0) == width).all()
        assert all((np.diff(made[0].members(y)) == 1).all() for y in range(m + width - 1))
        deck = make_deck(m, k)
        assert all((made[1].members(y) == deck.card(y)).all() for y in rng.integers(deck.cards, size=5))
        both = mixed(made, [share, 1 - share])
        for mechanism in (*made, both):
            p = mechanism.chances
            assert p.sum(axis=0) == pytest.approx(1)
            assert (p.max(axis=1) <= gamma * p.min(axis=1) * (1 + 1e-12)).all()
            assert p == pytest.approx(np.where(mechanism.held, p.max(axis=1)[:, None], p.min(axis=1)[:, None]))


def test_information_of_windows_is_that_of_the_matrix() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        m, gamma = int(rng.integers(2, 25)), 1 + rng.lognormal(1, 1)
        width = int(rng.integers(1, m + 1))
        p = windows(m, width, gamma).chances
        expected = p.T @ (p / p.mean(axis=1)[:, None])
        assert _information_of_windows(m, width, gamma) == pytest.approx(expected)


def test_information_and_errors_of_windows_and_cards_are_those_of_the_matrix() -> None:
    rng = np.random.default_rng(6)
    for _ in range(100):
        m, gamma = int(rng.integers(3, 25)), 1 + rng.lognormal(1, 1)
        found = Ranges(
            gamma, m, int(rng.integers(1, m + 1)), rng.random(), int(rng.integers(1, m)), OrderedErrors(0, 0)
        )
        p = found.mechanism().chances
        assert found.information() == pytest.approx(p.T @ (p / p.mean(axis=1)[:, None]))
        own, expected = errors_by_information(found.information()), errors_of(p)
        assert (own.distribution, own.mean) == pytest.approx((expected.distribution, expected.mean), rel=1e-6)


@pytest.mark.parametrize("sets", [False, True])
@pytest.mark.parametrize(
    ("m", "gamma"), [(2, 3), (3, 2), (5, 1.5), (8, 4), (11, 2), slow(12, 10), slow(14, 4), slow(50, 4)]
)
def test_the_search_finds_what_trying_all_finds(m: int, gamma: float, sets: bool) -> None:
    found = best_ranges(m, gamma, sets)
    k = best_subset(gamma, m).members if sets else 1
    deck = cards(make_deck(m, k), gamma)
    tried = [
        errors_of(mixed([windows(m, width, gamma), deck], [share, 1 - share]).chances).distribution
        for width in range(1, m + 1)
        for share in np.linspace(0, 0.98, 50)
    ]
    assert found.members == k
    assert found.errors.distribution <= min(tried) * (1 + 1e-9 + 3 * make_deck(m, k).loss)
    made = errors_of(found.mechanism().chances)
    assert made.distribution == pytest.approx(found.errors.distribution, rel=1e-9 + 3 * make_deck(m, k).loss)
    assert made.mean == pytest.approx(found.errors.mean, rel=1e-9 + 3 * make_deck(m, k).loss)


@pytest.mark.parametrize(("m", "gamma"), [(300, 4), (200, 1.2), slow(600, 4), slow(2000, 4)])
def test_large_domains(m: int, gamma: float) -> None:
    single, sets = best_ranges(m, gamma), best_ranges(m, gamma, sets=True)
    uniform = (m + 1) / 6 * Subset(gamma, m, 1).moment / m - (m + 1) / (6 * m)  # all directions but one alike
    assert sets.errors.distribution < single.errors.distribution < uniform
    if m <= 300:
        assert errors_of(windows(m, 1, gamma).chances).distribution == pytest.approx(uniform, rel=1e-6)


@pytest.mark.parametrize(("m", "gamma"), [(6, 2), (16, 4), (40, 1.2), slow(100, 4)])
def test_no_other_size_of_sets_is_better_beside_windows(m: int, gamma: float) -> None:
    """Sets of k values are alike in all directions, so that the best k for counts is the best beside any windows."""
    best = best_ranges(m, gamma, sets=True)
    for width in range(1, m + 1, max(1, m // 12)):
        own = _Spectrum.of_windows(m, width, Subset(gamma, m, 1))
        for k in range(1, m):
            spectrum = replace(own, of_others=m / Subset(gamma, m, k).moment)
            tried = [spectrum.distribution(share) for share in np.linspace(0.1, 0.9, 9)]
            assert best.errors.distribution <= min(tried) * (1 + 1e-9)


@pytest.mark.parametrize(("m", "gamma"), [(3, 4), (10, 100), (150, 4), slow(1_000, 4), slow(1_154, 100)])
def test_the_mixture_is_never_worse_than_single_values(m: int, gamma: float) -> None:
    """Also where a dense matrix has room for one block of the deck only, which costs a third: 1,154 values."""
    single, found = best_ranges(m, gamma), best_mixture(m, gamma)
    assert errors_of(found.mechanism().chances).distribution <= single.errors.distribution * (1 + 1e-9)
    assert m * len(found.mechanism().chances) <= MOST_ENTRIES
    assert (found.members == 1) == (m in (3, 1_154) or gamma == 100)


# --- errors -----------------------------------------------------------------------------------------------------------


def test_errors_are_those_of_draws_from_the_table() -> None:
    rng = np.random.default_rng(4)
    for _ in range(200):
        m = int(rng.integers(2, 9))
        p = rng.dirichlet(np.ones(int(rng.integers(m, 2 * m + 1))), m).T
        n = rng.dirichlet(np.ones(m))
        a = estimator(p)
        assert a @ p == pytest.approx(np.eye(m), abs=1e-6)
        cov = covariance(p, n, a)
        sums = np.tril(np.ones((m, m)))[:-1]
        score = np.arange(m) / (m - 1)
        found = errors_of(p, n)
        assert found.distribution == pytest.approx((sums @ cov @ sums.T).trace() / (m - 1), rel=1e-5)
        assert found.mean == pytest.approx(score @ cov @ score, rel=1e-5)


def test_an_estimate_for_the_right_shares_is_the_best() -> None:
    rng = np.random.default_rng(5)
    for _ in range(100):
        m = int(rng.integers(2, 9))
        p = mixed([windows(m, max(1, m // 2), 3), windows(m, 1, 3)], [0.5, 0.5]).chances
        n = rng.dirichlet(np.ones(m))
        right, equal = (np.trace(covariance(p, n, estimator(p, assumed))) for assumed in (n, None))
        assert right <= equal * (1 + 1e-9)
        information = p.T @ (p / (p @ n)[:, None])
        assert right == pytest.approx(np.trace(np.linalg.inv(information)) - 1)


@pytest.mark.parametrize("width", [0, 6])
def test_what_is_no_window_is_refused(width: int) -> None:
    with pytest.raises(ValueError, match="window"):
        windows(5, width, 4)


def test_an_infinite_gamma_publishes_the_truth() -> None:
    found = best_ranges(10, math.inf)
    assert (found.width, found.share, found.members) == (1, 1, 1)
    assert found.errors.distribution == pytest.approx(0, abs=1e-12)
