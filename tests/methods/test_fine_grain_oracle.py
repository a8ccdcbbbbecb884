"""The fine-grain solvers against two oracles that share no formula with them.

- `linear_program`: every constraint written out, solved by HiGHS at a tolerance of 1e-10.
- `best_vertex`: every vertex of the feasible set, in exact rational arithmetic (m = 2 and 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_array

from sfumato.methods.fine_grain_solver import own_cap, solve_both, solve_upward
from tests.conftest import slow

FloatArray = npt.NDArray[np.float64]


class Instance(NamedTuple):
    gamma: FloatArray
    frequency: FloatArray
    floor: float


class Direction(NamedTuple):
    """A solver, and the requirement that its program puts on the ordered pair (i, j)."""

    solve: Callable[[FloatArray, FloatArray, float], FloatArray]
    pair_gamma: Callable[[FloatArray, FloatArray], FloatArray]


UPWARD = Direction(solve_upward, lambda g_i, g_j: g_i)
BOTH = Direction(solve_both, np.minimum)
directions = pytest.mark.parametrize("direction", [UPWARD, BOTH], ids=["upward", "both"])


# --- instances -------------------------------------------------------------------------------------------


def some_gamma(rng: np.random.Generator, m: int) -> FloatArray:
    kinds: list[Callable[[], FloatArray]] = [
        lambda: 1 + rng.lognormal(0, 2, m),
        lambda: 1 + rng.choice([0.5, 2.0, 8.5, 17.0], m),  # ties
        lambda: 1 + (m * rng.lognormal(0, 1, m)),  # around m-1, where the two slopes change places
        lambda: np.maximum(m - 1, 1.5) * (1 + rng.choice([0, 1e-9, -1e-9, 0.1, -0.1], m)),
        lambda: 1 + 10.0 ** rng.uniform(-9, -6, m),  # near one
        lambda: 10.0 ** rng.uniform(9, 15, m),  # very large
        lambda: 10.0 ** rng.choice([0.1, 0.5, 1, 2, 3], m),
        lambda: rng.choice([1 + 1e-9, 1.5, 3, 1e15], m),
        lambda: np.full(m, 1 + rng.lognormal(0, 2)),
    ]
    gamma = kinds[rng.integers(len(kinds))]()
    if rng.random() < 0.3:
        gamma[rng.random(m) < rng.random()] = np.inf
    return gamma


def some_frequency(rng: np.random.Generator, m: int) -> FloatArray:
    kinds: list[Callable[[], FloatArray]] = [
        lambda: rng.dirichlet(np.ones(m)),
        lambda: rng.permutation(1 / np.arange(1, m + 1)),  # Zipf, not normalised
        lambda: np.full(m, 1 / m),
        lambda: rng.dirichlet(np.full(m, 0.2)),  # few values hold nearly everything
        lambda: rng.integers(0, 4, m).astype(float),  # equal counts, zeros
    ]
    frequency = kinds[rng.integers(len(kinds))]()
    if rng.random() < 0.3:
        frequency[rng.random(m) < 0.5] = 0.0
    if rng.random() < 0.3:
        frequency[rng.integers(m)] += rng.exponential(2 * frequency.sum())  # calls for the exception
    return frequency


def some_instance(rng: np.random.Generator, m: int) -> Instance:
    gamma = some_gamma(rng, m)
    floor = rng.choice([0.0, 0.95 * rng.random()]) * float(own_cap(gamma, m).min())
    return Instance(gamma, some_frequency(rng, m), float(floor))


def instances(seed: int, count: int, sizes: list[int]) -> Iterator[Instance]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield some_instance(rng, int(rng.choice(sizes)))


# --- what a solution must be -----------------------------------------------------------------------------


def assert_feasible(p: FloatArray, instance: Instance, direction: Direction) -> None:
    """Every ratio (p_i + q_i)/q_j is within 1e-12 of its limit or below it."""
    gamma, _, floor = instance
    m = gamma.size
    assert p.shape == (m,)
    assert (p >= floor * (1 - 1e-12)).all()
    assert (p <= 1).all()
    i, j = np.nonzero(~np.eye(m, dtype=bool))
    limit = direction.pair_gamma(gamma[i], gamma[j])
    bounded = np.isfinite(limit)
    i, j, limit = i[bounded], j[bounded], limit[bounded]
    assert (1 + (m - 1) * p[i] <= limit * (1 - p[j]) * (1 + 1e-12)).all()


# --- first oracle: a linear program ----------------------------------------------------------------------


def largest_retention(gamma: FloatArray) -> float:
    """An upper bound of every p: the unit of the linear program, so that its tolerances are relative."""
    least = np.sort(gamma)
    if gamma.size == 1 or np.isinf(least[0]):
        return 1.0
    alone = min(1.0, (least[0] - 1) / (gamma.size - 1))  # the value with the least gamma, all others at zero
    return float(max(1 - 1 / least[0], alone))


def linear_program(instance: Instance, direction: Direction) -> tuple[float, float]:
    """Return max sum f_i p_i over all m(m-1) constraints, and the unit of p."""
    gamma, frequency, floor = instance
    m, unit = gamma.size, largest_retention(gamma)
    i, j = np.nonzero(~np.eye(m, dtype=bool))
    limit = direction.pair_gamma(gamma[i], gamma[j])
    bounded = np.isfinite(limit)
    i, j, limit = i[bounded], j[bounded], limit[bounded]
    rows = np.arange(limit.size)
    scale = np.maximum(m - 1, limit)
    coefficients = np.concatenate([(m - 1) / scale, limit / scale])
    matrix = coo_array((coefficients, (np.tile(rows, 2), np.concatenate([i, j]))), shape=(limit.size, m))
    weight = frequency / max(frequency.sum(), 1e-300)
    solution = linprog(
        -weight,
        A_ub=matrix.tocsr() if limit.size else None,
        b_ub=(limit - 1) / scale / unit if limit.size else None,
        bounds=(floor / unit, 1 / unit),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert solution.status == 0, solution.message
    return -float(solution.fun) * unit, unit


def assert_as_good_as_linear_program(instance: Instance, direction: Direction) -> None:
    p = direction.solve(*instance)
    assert_feasible(p, instance, direction)
    best, unit = linear_program(instance, direction)
    weight = instance.frequency / max(instance.frequency.sum(), 1e-300)
    assert float(weight @ p) == pytest.approx(best, rel=0, abs=1e-8 * unit), instance


@directions
@pytest.mark.parametrize("seed", [0, slow(1), slow(2)])
def test_small_domains(direction: Direction, seed: int) -> None:
    for instance in instances(seed, 1_000, sizes=[1, 2, 2, 3, 3, 4, 5, 6, 8, 12]):
        assert_as_good_as_linear_program(instance, direction)


@directions
def test_middle_domains(direction: Direction) -> None:
    for instance in instances(11, 150, sizes=[20, 30, 40]):
        assert_as_good_as_linear_program(instance, direction)


@directions
def test_large_domains(direction: Direction) -> None:
    for instance in instances(12, 25, sizes=[100]):
        assert_as_good_as_linear_program(instance, direction)


# --- second oracle: every vertex, in exact rationals -----------------------------------------------------

Row = tuple[list[Fraction], Fraction]  # coefficients . p <= limit


def exact_rows(instance: Instance, direction: Direction) -> list[Row]:
    gamma, _, floor = instance
    m = gamma.size
    unit_vectors = [[Fraction(int(i == j)) for j in range(m)] for i in range(m)]
    rows = [(vector, Fraction(1)) for vector in unit_vectors]
    rows += [([-x for x in vector], -Fraction(floor)) for vector in unit_vectors]
    for i, j in permutations(range(m), 2):
        limit = float(direction.pair_gamma(gamma[i], gamma[j]))
        if np.isfinite(limit):
            g = Fraction(limit)
            rows.append(([(m - 1) * (k == i) + g * (k == j) for k in range(m)], g - 1))
    return rows


def dot(left: list[Fraction], right: list[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(left, right, strict=True)), Fraction(0))


def determinant(matrix: list[list[Fraction]]) -> Fraction:
    if len(matrix) == 1:
        return matrix[0][0]
    minors = ([row[:c] + row[c + 1 :] for row in matrix[1:]] for c in range(len(matrix)))
    return dot(matrix[0], [(-1) ** c * determinant(minor) for c, minor in enumerate(minors)])


def meeting_point(rows: tuple[Row, ...]) -> list[Fraction] | None:
    """Where all rows hold with equality, by Cramer's rule."""
    matrix = [coefficients for coefficients, _ in rows]
    whole = determinant(matrix)
    if whole == 0:
        return None
    replaced = ([[*r[:c], limit, *r[c + 1 :]] for r, limit in rows] for c in range(len(rows)))
    return [determinant(columns) / whole for columns in replaced]


def best_vertex(instance: Instance, direction: Direction) -> Fraction:
    """max sum f_i p_i: the feasible set is a bounded polytope, so that a vertex attains it."""
    rows = exact_rows(instance, direction)
    weight = [Fraction(f) for f in instance.frequency]
    points = (meeting_point(chosen) for chosen in combinations(rows, instance.gamma.size))
    vertices = (p for p in points if p and all(dot(row, p) <= limit for row, limit in rows))
    return max(dot(weight, p) for p in vertices)


@directions
@pytest.mark.parametrize(("m", "count"), [(2, 300), (3, 60)])
def test_tiny_domains_exactly(direction: Direction, m: int, count: int) -> None:
    for instance in instances(20 + m, count, sizes=[m]):
        p = direction.solve(*instance)
        exact_p = [Fraction(x) for x in p]
        for coefficients, limit in exact_rows(instance, direction):
            assert dot(coefficients, exact_p) <= limit + abs(limit) * Fraction(1e-14), instance
        utility = dot([Fraction(f) for f in instance.frequency], exact_p)
        lost = best_vertex(instance, direction) - utility
        unit = largest_retention(instance.gamma) * instance.frequency.sum()
        assert abs(float(lost)) <= 1e-13 * unit, instance


def test_the_exact_oracle_knows_a_worked_example() -> None:
    instance = Instance(np.array([3.0, 9.0]), np.array([3.0, 1.0]), 0.0)
    assert best_vertex(instance, UPWARD) == 3 * Fraction(11, 13) + Fraction(5, 13)
    assert best_vertex(instance, BOTH) == 2
