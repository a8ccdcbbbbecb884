"""Graded subsets against MATRICES.md's numbers, and against a certificate over all extreme rows of small domains."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from sfumato.methods.staircase import effective
from sfumato.methods.subset.design import best_subset
from sfumato.methods.subset.graded import Graded, Orbit, graded_subsets
from sfumato.values.arrays import FloatArray
from tests.conftest import slow
from tests.constants import set_constants


class Case:
    """Classes with gammas and shares, and what follows for every value."""

    def __init__(self, rng: np.random.Generator, most: int) -> None:
        count = int(rng.integers(1, 4))
        self.sizes = [int(m) for m in rng.integers(1, 5, count)]
        while not 2 <= sum(self.sizes) <= most:
            self.sizes = [int(m) for m in rng.integers(1, 5, count)]
        self.gammas = [float(g) for g in 1 + rng.lognormal(0.5, 1, count)]
        self.shares = None if rng.random() < 0.5 else [float(f) for f in rng.dirichlet(np.full(count, 3.0))]
        self.of_values = effective(np.repeat(self.gammas, self.sizes))
        whole = np.array(self.shares or self.sizes) / sum(self.shares or self.sizes)
        self.counts = np.repeat(whole / self.sizes, self.sizes)

    def solved(self) -> Graded:
        return graded_subsets(self.sizes, self.gammas, self.shares)


def cases(seed: int, count: int, most: int = 7) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield Case(rng, most)


def rows_of(orbit: Orbit, sizes: list[int]) -> Iterator[FloatArray]:
    """All rows of an orbit: one for each set."""
    starts = np.cumsum([0, *sizes])
    choices = [
        combinations(range(start, start + m), k) for start, m, k in zip(starts, sizes, orbit.members, strict=False)
    ]
    for members in product(*choices):
        row = np.repeat(orbit.outside, sizes)
        held = [i for part in members for i in part]
        row[held] = np.repeat(orbit.inside, sizes)[held]
        yield row


def mechanism(found: Graded, sizes: list[int]) -> FloatArray:
    """P[set, x]: every set of every orbit as a row."""
    rows = []
    for orbit in found.orbits:
        of_orbit = list(rows_of(orbit, sizes))
        rows += [row * orbit.weight / len(of_orbit) for row in of_orbit]
    return np.array(rows)


def extreme_rows(gammas: FloatArray) -> FloatArray:
    rows = []
    for rho in np.unique(gammas):
        high, low = np.minimum(rho, gammas), np.maximum(1, rho / gammas)
        rows += [np.where(held, high, low) for held in product([False, True], repeat=gammas.size)]
    return np.array(rows)


def information(p: FloatArray, counts: FloatArray) -> FloatArray:
    return np.asarray(p.T @ (p / (p @ counts)[:, None]))


def lower_bound(rows: FloatArray, counts: FloatArray, j: FloatArray) -> float:
    """Section 2: what no mechanism made of these rows is below, by the best lambda for M = J^-2."""
    inverse = np.linalg.inv(j)
    needed = ((rows @ inverse) ** 2).sum(axis=1) / (rows @ counts)
    scale = needed.max()
    best = linprog(np.ones(counts.size), A_ub=-rows, b_ub=-needed / scale, bounds=(None, None))
    return float(np.trace(inverse) ** 2 / (best.fun * scale))


# --- the numbers of MATRICES.md ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "gammas", "expected"),
    [
        ([5, 35], [2, 4], 163.03),
        ([1, 39], [2, 4], 99.95),
        ([5, 35], [4, 16], 33.27),
        ([30, 270], [2, 4], 1295.0),
    ],
)
def test_the_table_of_graded_subsets(sizes: list[int], gammas: list[float], expected: float) -> None:
    found = graded_subsets(sizes, gammas)
    assert found.error == pytest.approx(expected, abs=0.05 if expected > 1000 else 0.005)
    assert found.gap < 1e-6
    assert len(found.orbits) <= 5
    backwards = graded_subsets(sizes[::-1], gammas[::-1])
    assert backwards.error == pytest.approx(found.error, rel=1e-6)


def test_four_cards_of_fine_grain_example_1() -> None:
    """Of one strict value and three with 2.25 in force: 31.75 of all mechanisms, 31.8 by four cards."""
    found = graded_subsets([1, 1, 1, 1], [1.5, 3, 9.5, 18])
    assert found.error == pytest.approx(31.75, abs=0.005)
    assert graded_subsets([1, 3], [1.5, 9]).error == pytest.approx(found.error, rel=1e-6)
    cards = np.array([[1.5, 1, 1, 1], *([1.5, *row] for row in ([2.25, 2.25, 1], [2.25, 1, 2.25], [1, 2.25, 2.25]))])
    p = cards * np.array([4, 2, 2, 2])[:, None] / 15
    assert p.sum(axis=0) == pytest.approx(1)
    assert (np.linalg.inv(p) ** 2 @ p.sum(axis=1)).sum() / 4 - 1 == pytest.approx(31.8, abs=0.05)


@pytest.mark.parametrize("m", [2, 3, 12, 40, 300])
@pytest.mark.parametrize("gamma", [1.3, 4.0, 30.0])
def test_one_class_is_subset_selection(m: int, gamma: float) -> None:
    found = graded_subsets([m], [gamma])
    assert found.error == pytest.approx(best_subset(gamma, m).error, rel=1e-6)
    halves = graded_subsets([m // 2, m - m // 2], [gamma, gamma])
    assert halves.error == pytest.approx(best_subset(gamma, m).error, rel=1e-6)


# --- small domains, by all their rows ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "count"), [(1, 60), slow(11, 400)])
def test_the_mechanism_is_private_and_estimates_as_stated(seed: int, count: int) -> None:
    for case in cases(seed, count):
        found = case.solved()
        p = mechanism(found, case.sizes)
        assert p.sum(axis=0) == pytest.approx(1, abs=1e-11)
        bounds = np.minimum(case.of_values[:, None], case.of_values)
        np.fill_diagonal(bounds, 1.0)
        assert (p[:, :, None] <= bounds * p[:, None, :] * (1 + 1e-12)).all()
        inverse = np.linalg.inv(information(p, case.counts))
        assert found.error == pytest.approx(np.trace(inverse) - 1, rel=1e-6)


@pytest.mark.parametrize(("seed", "count"), [(2, 80), slow(12, 500)])
def test_no_mechanism_is_better(seed: int, count: int) -> None:
    for case in cases(seed, count, most=8):
        found = case.solved()
        j = information(mechanism(found, case.sizes), case.counts)
        bound = lower_bound(extreme_rows(case.of_values), case.counts, j)
        assert bound <= (1 + found.error) * (1 + 1e-7)
        assert 1 + found.error <= bound * (1 + 2e-4)
        assert found.gap < 1e-6


def test_a_general_solver_finds_nothing_better() -> None:
    for case in cases(3, 25, most=4):
        rows = np.unique(extreme_rows(case.of_values).round(12), axis=0)
        graded = 1 + case.solved().error

        def value(c: FloatArray, rows: FloatArray, expected: FloatArray, scale: float) -> tuple[float, FloatArray]:
            inverse = np.linalg.inv((rows * (c / expected)[:, None]).T @ rows)
            slope = -((rows @ inverse) ** 2).sum(axis=1) / expected
            return float(np.trace(inverse)) / scale, slope / scale

        found = minimize(
            value,
            most_inside(rows),
            args=(rows, rows @ case.counts, graded),
            jac=True,
            method="SLSQP",
            bounds=[(0, None)] * len(rows),
            constraints={"type": "eq", "fun": lambda c, r: r.T @ c - 1, "jac": lambda c, r: r.T, "args": (rows,)},
            options={"maxiter": 1000, "ftol": 1e-12},
        )
        assert found.fun == pytest.approx(1, rel=1e-4)
        assert found.fun >= 1 - 1e-6


def most_inside(rows: FloatArray) -> FloatArray:
    """Weights of a mechanism, the smallest as large as possible."""
    count, m = rows.shape
    found = linprog(
        np.append(np.zeros(count), -1.0),
        A_ub=np.column_stack((-np.eye(count), np.ones(count))),
        b_ub=np.zeros(count),
        A_eq=np.column_stack((rows.T, np.zeros(m))),
        b_eq=np.ones(m),
    )
    return np.asarray(found.x[:-1])


def test_scores_and_chances_are_those_of_the_mechanism() -> None:
    for case in cases(4, 40):
        found = case.solved()
        class_of = np.repeat(np.arange(len(case.sizes)), case.sizes)
        inside, outside = found.scores()
        p = mechanism(found, case.sizes)
        estimates = np.linalg.inv(information(p, case.counts)) @ (p / (p @ case.counts)[:, None]).T
        assert estimates @ p == pytest.approx(np.eye(class_of.size), abs=1e-6)
        row = 0
        for o, orbit in enumerate(found.orbits):
            for weights in rows_of(orbit, case.sizes):
                held = weights == np.array(orbit.inside)[class_of]
                expected = np.where(held, inside[o, class_of], outside[o, class_of])
                assert estimates[:, row] == pytest.approx(expected, rel=1e-5, abs=1e-5)
                row += 1
        assert (found.inside_chances + found.outside_chances).sum(axis=0) == pytest.approx(1, abs=1e-11)


# --- the certificate --------------------------------------------------------------------------------------------------


def test_the_gap_is_certified_by_all_orbits() -> None:
    """The bound again, by every orbit one by one and a linear program for lambda."""
    rng = np.random.default_rng(5)
    for _ in range(25):
        sizes = [int(m) for m in rng.integers(1, 9, 2)]
        gammas = np.sort(1 + rng.lognormal(0.5, 0.8, 2))
        found = graded_subsets(sizes, gammas.tolist())
        of_class = effective(np.repeat(gammas, sizes))[[0, -1]]
        alpha, between = np.zeros(2), np.zeros((2, 2))
        for orbit in found.orbits:
            mean, variance = moments(orbit, sizes)
            expected = mean @ sizes / sum(sizes)
            alpha += orbit.weight * variance / expected
            s = np.sqrt(sizes) * mean
            between += orbit.weight * np.outer(s, s) / expected
        alpha[np.array(sizes) == 1] = 1
        inverse = np.linalg.inv(between)
        value = ((np.array(sizes) - 1) / alpha).sum() + np.trace(inverse)
        assert value - 1 == pytest.approx(found.error, rel=1e-9)
        means, needed = [], []
        for rho in np.unique(of_class):
            for members in product(*(range(m + 1) for m in sizes)):
                inside, outside = np.minimum(rho, of_class), np.maximum(1, rho / of_class)
                mean, variance = moments(Orbit(rho, members, 1, tuple(inside), tuple(outside)), sizes)
                means.append(mean)
                gained = ((np.array(sizes) - 1) * variance / alpha**2).sum() + (
                    (inverse @ (np.sqrt(sizes) * mean)) ** 2
                ).sum()
                needed.append(gained / (mean @ sizes / sum(sizes)))
        scale = max(needed)
        best = linprog(np.ones(2), A_ub=-np.array(means), b_ub=-np.array(needed) / scale, bounds=(None, None))
        bound = value**2 / (best.fun * scale)
        assert value / bound - 1 < 2e-4  # at the weights returned; the bound of the search is tighter
        assert value >= bound * (1 - 1e-6)  # the linear program errs by so much


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_a_search_that_ends_early_states_an_honest_gap(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    optimum = graded_subsets([30, 270], [2, 4]).error
    set_constants(monkeypatch, "sfumato.methods.subset", MOST_ROUNDS=rounds)
    early = graded_subsets([30, 270], [2, 4])
    assert early.error > optimum * (1 + 1e-6)
    assert (1 + early.error) / (1 + early.gap) - 1 <= optimum


def moments(orbit: Orbit, sizes: list[int]) -> tuple[FloatArray, FloatArray]:
    """The mean and the variance (divided by m_l - 1) of one row of an orbit in each class."""
    row = next(rows_of(orbit, sizes))
    parts = np.split(row, np.cumsum(sizes)[:-1])
    return np.array([part.mean() for part in parts]), np.array(
        [part.var(ddof=1) if part.size > 1 else 0 for part in parts]
    )


@pytest.mark.parametrize(
    ("sizes", "gammas"),
    [
        ([5, 10, 25], [2, 3, 4]),
        ([30, 14_970], [2, 4]),
        ([20, 30, 50], [1.2, 1.3, 1.44]),
        ([1, 1, 60], [2, 50, math.inf]),
        ([10, 10], [1000, 1e5]),
        slow([50, 100, 150], [2, 3, 4]),
        slow([200, 300, 500], [3, 5, 9]),
        slow([7000, 8000], [2, 4]),
    ],
)
def test_larger_classes_are_certified(sizes: list[int], gammas: list[float]) -> None:
    found = graded_subsets(sizes, gammas)
    assert found.gap < 1e-6
    sums = found.inside_chances.sum(axis=0) + found.outside_chances.sum(axis=0)
    assert sums == pytest.approx(1, abs=1e-11)
    m = sum(sizes)
    strict, lax = (best_subset(float(g), m).error for g in (min(gammas), max(effective(np.repeat(gammas, sizes)))))
    assert lax * (1 - 1e-6) <= found.error <= strict * (1 + 1e-6)


@pytest.mark.parametrize(
    ("sizes", "gammas"), [([1], [2.0]), ([3, 0], [2.0, 3.0]), ([3, 4], [math.inf] * 2), ([3], [1.0])]
)
def test_what_are_no_classes_is_refused(sizes: list[int], gammas: list[float]) -> None:
    with pytest.raises(ValueError, match=r"gamma|class"):
        graded_subsets(sizes, gammas)
