"""(rho1, rho2) on the integers that are drawn, in fractions, of 200 random instances of each family.

Subset, least error and cover noise: test_least_error.py; ranges, plateau and geometric: test_ordered_methods.py. Here
are uniform, fine-grain for records in both directions and upward only, and a matrix from a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest

from sfumato.claims.claim import BOTH, UPWARD
from sfumato.methods.fine_grain_solver import solve_both, solve_upward
from sfumato.methods.matrix_file import round_given
from sfumato.methods.perturbation import round_within
from sfumato.methods.uniform import Uniform
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.base import Direction, Matrix
from sfumato.values.mechanism import Bound
from tests.conftest import exact_weights

INSTANCES = 200
WORDS = 2**64
Made = tuple[Matrix, Sequence[Bound], Sequence[Direction]]


def domain_of(m: int) -> SensitiveDomain:
    return SensitiveDomain((Domain("d", tuple(f"v{k}" for k in range(m))),))


def random_bound(rng: np.random.Generator) -> Bound:
    rho1 = Fraction(int(rng.integers(1, 40)), 100)
    rho2 = rho1 + (1 - rho1) * Fraction(int(rng.integers(1, 95)), 100)
    return Bound(rho2 / (1 - rho2) * (1 - rho1) / rho1, rho1, rho2)


def gammas_of(bounds: Sequence[Bound]) -> np.ndarray:
    return np.array([np.inf if bound.gamma is None else float(bound.gamma) for bound in bounds])


def uniform(rng: np.random.Generator) -> Made:
    m = int(rng.integers(2, 12))
    bounds = (random_bound(rng),) * m
    return Uniform().matrix_for(domain_of(m), bounds, gammas_of(bounds), np.ones(m)), bounds, BOTH


def for_records(rng: np.random.Generator) -> Made:
    bounds = [random_bound(rng) for _ in range(int(rng.integers(2, 9)))]
    retention = solve_both(gammas_of(bounds), rng.dirichlet(np.ones(len(bounds))))
    return round_within(retention, bounds, BOTH), bounds, BOTH


def for_records_upward(rng: np.random.Generator) -> Made:
    bounds = [random_bound(rng) for _ in range(int(rng.integers(2, 9)))]
    retention = solve_upward(gammas_of(bounds), rng.dirichlet(np.ones(len(bounds))))
    return round_within(retention, bounds, UPWARD), bounds, UPWARD


def from_file(rng: np.random.Generator) -> Made:
    """Any columns, and bounds that their numbers use up exactly: rounding alone would break some of them."""
    m = int(rng.integers(2, 9))
    given = [rng.integers(1, 50, m).tolist() for _ in range(m)]  # [true][published]
    exact = [[Fraction(entry, sum(column)) for entry in column] for column in given]
    bounds = []
    for i in range(m):
        pairs = [(exact[i][y], exact[k][y]) for k in range(m) if k != i for y in range(m)]
        gamma = max(max(own / other, other / own) for own, other in pairs)
        rho1 = Fraction(int(rng.integers(1, 40)), 100)
        bounds.append(Bound(gamma, rho1, rho1 * gamma / (1 - rho1 + rho1 * gamma)))
    return round_given(given, bounds, BOTH, domain_of(m)), bounds, BOTH


@pytest.mark.parametrize("make", [uniform, for_records, for_records_upward, from_file])
def test_no_belief_leaves_its_limits(make: Callable[[np.random.Generator], Made]) -> None:
    """The prior that has rho1 (or rho2) on a value and the rest on others, for every value and every published one."""
    rng = np.random.default_rng(23)
    for _ in range(INSTANCES):
        matrix, bounds, directions = make(rng)
        weights, m = exact_weights(matrix), matrix.size
        assert [sum(column) for column in zip(*weights, strict=True)] == [WORDS] * m
        for i, bound in enumerate(bounds):
            assert bound.rho1 is not None
            assert bound.rho2 is not None
            others = [Fraction(int(w)) for w in rng.integers(1, 50, m)]
            others[i] = Fraction(0)
            single = int(rng.choice([k for k in range(m) if k != i]))
            for rest in (others, [Fraction(int(k == single)) for k in range(m)]):
                for row in weights:
                    against = sum(p * w for p, w in zip(rest, row, strict=True)) / sum(rest)
                    for prior, direction in ((bound.rho1, "upward"), (bound.rho2, "downward")):
                        if direction in directions:
                            belief = prior * row[i] / (prior * row[i] + (1 - prior) * against)
                            assert belief <= bound.rho2 if direction == "upward" else belief >= bound.rho1


def test_the_bounds_of_uniform_and_of_files_are_used_up() -> None:
    """What is kept is kept tightly: otherwise the test above would pass with too much noise."""
    rng = np.random.default_rng(24)
    for make in (uniform, from_file):
        for _ in range(20):
            matrix, bounds, _ = make(rng)
            factors = [max(matrix.upward(i) or 0, matrix.downward(i) or 0) for i in range(matrix.size)]
            for factor, bound in zip(factors, bounds, strict=True):
                assert bound.gamma is not None
                assert bound.gamma * (1 - Fraction(1, 10**9)) <= factor <= bound.gamma
