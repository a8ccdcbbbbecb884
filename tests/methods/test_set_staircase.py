"""The staircase with bounds on sets: closure and rows against brute force, and the promises on the integers drawn."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

import sfumato as sf
from sfumato.claims.claim import BOTH, UPWARD
from sfumato.claims.odds import broken_sets, exceeds_any_predicate, keeps, set_factor
from sfumato.methods.perturbation import Drawing
from sfumato.methods.set_staircase import best_with_sets, least_error_blocks, separation, staircase_of
from sfumato.methods.staircase import best_staircase, expected_error, uniform_error
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.bound import Bound, SetBound, of_each, strictest_gamma
from sfumato.values.matrix.base import Direction, Matrix
from sfumato.values.matrix.block import BlockMatrix
from sfumato.values.matrix.dense import DenseMatrix
from sfumato.values.matrix.retention import WORDS, PerturbationMatrix
from sfumato.values.requirement import posterior_of_gamma

NONE = Bound(None)


# --- the worked example -----------------------------------------------------------------------------------------------


def test_two_pairs_of_values_by_hand() -> None:
    """{a, b} against {c, d} with factor 3, and nothing else: a and b are told apart by 9, and s = 9/16."""
    found = separation(np.full(4, np.inf), [(np.array([True, True, False, False]), 3.0)])
    assert found is not None
    assert found.factors.round(9).tolist() == [[9, 3], [3, 9]]
    blocks = staircase_of(found)
    assert blocks is not None
    assert [[Fraction(x).limit_denominator(64) for x in row] for row in blocks.dense().tolist()] == [
        [Fraction(9, 16), Fraction(1, 16), Fraction(3, 16), Fraction(3, 16)],
        [Fraction(1, 16), Fraction(9, 16), Fraction(3, 16), Fraction(3, 16)],
        [Fraction(3, 16), Fraction(3, 16), Fraction(9, 16), Fraction(1, 16)],
        [Fraction(3, 16), Fraction(3, 16), Fraction(1, 16), Fraction(9, 16)],
    ]


def test_a_distance_without_a_staircase_is_capped() -> None:
    """Two of twelve values with factor 2: the others would have to be published with negative chances."""
    inside = np.arange(12) < 2
    found = separation(np.full(12, np.inf), [(inside, 2.0)])
    assert found is not None
    assert staircase_of(found) is None
    assert staircase_of(found, 2.0) is not None
    assert expected_error(best_with_sets(found)) < uniform_error(2.0, 12)


@pytest.mark.parametrize(
    ("m", "members", "gamma", "together", "each"),
    [
        (12, 6, 2, 44, 151.922),
        (40, 20, 2, 418.318, 1634.813),
        (300, 30, 4, 2583.022, 10151.961),
        (12, 2, 4, 18.612, 18.899),
    ],
)
def test_a_set_costs_less_than_all_its_values(m: int, members: int, gamma: int, together: float, each: float) -> None:
    inside = np.arange(m) < members
    held = np.where(inside, float(gamma), np.inf)
    shares = np.full(m, 1 / m)
    blocks = least_error_blocks(held, np.full(m, np.inf), [(inside, float(gamma))], shares)
    assert expected_error(blocks) == pytest.approx(together, abs=1e-3)
    assert best_staircase(held).error == pytest.approx(each, abs=1e-3)


def test_fifteen_thousand_values_are_planned_by_classes() -> None:
    m = 15_000
    inside = [np.arange(m) < 700, (np.arange(m) > 500) & (np.arange(m) < 3000)]
    found = separation(np.where(np.arange(m) % 2, 9.0, np.inf), [(inside[0], 3.0), (inside[1], 4.0)])
    assert found is not None
    assert found.factors.shape == (8, 8)
    assert staircase_of(found, 3.0) is not None


def test_more_classes_than_a_matrix_holds_are_not_separated() -> None:
    assert separation(np.arange(2.0, 72.0), [(np.arange(70) < 9, 3.0)]) is None


# --- closure, against brute force -------------------------------------------------------------------------------------


def _random_statements(
    rng: np.random.Generator, most: int = 7
) -> tuple[tuple[Bound, ...], tuple[SetBound, ...], SensitiveDomain]:
    """Return random bounds on single values (often none) and one to three sets of two values or more."""
    m = int(rng.integers(3, most))
    levels = [Fraction(int(rng.integers(1050, 12_000)), 1000) for _ in range(3)]

    def drawn() -> Bound:
        return Bound(levels[int(rng.integers(0, 3))])

    bounds = tuple(drawn() if rng.random() < 0.4 else NONE for _ in range(m))
    sets = {}
    for _ in range(int(rng.integers(1, 4))):
        codes = tuple(sorted(rng.permutation(m)[: int(rng.integers(2, m))].tolist()))
        sets[codes] = SetBound(codes, drawn())
    return bounds, tuple(sets.values()), SensitiveDomain((Domain("v", tuple("abcdefghijkl"[:m])),))


def _floats(bounds: Sequence[Bound]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([np.inf if bound.gamma is None else float(bound.gamma) for bound in bounds])


def test_factors_are_the_shortest_chains_of_all_statements() -> None:
    rng = np.random.default_rng(31)
    for _ in range(200):
        bounds, sets, domain = _random_statements(rng)
        m = domain.size
        stated = [(each.inside(m), float(each.bound.gamma or 0)) for each in sets]
        found = separation(_floats(bounds), stated)
        assert found is not None
        statements = [({i}, float(b.gamma)) for i, b in enumerate(bounds) if b.gamma is not None]
        statements += [(set(each.codes), float(each.bound.gamma or 0)) for each in sets]
        oracle = np.full((m, m), np.inf)
        for i, k in product(range(m), repeat=2):
            apart = [gamma for inside, gamma in statements if (i in inside) != (k in inside)]
            oracle[i, k] = 1.0 if i == k else min(apart, default=np.inf)
        for _ in range(m):  # chains of any length
            oracle = np.minimum(oracle, (oracle[:, :, None] * oracle[None, :, :]).min(axis=1))
        for i, k in product(range(m), repeat=2):
            if i != k:
                assert found.factors[found.classes[i], found.classes[k]] == pytest.approx(oracle[i, k])
        strictest = min(gamma for _, gamma in statements)
        assert oracle.max() <= strictest**2 * (1 + 1e-9)


# --- exact factors, over all predicates -------------------------------------------------------------------------------


def _worst(matrix: Matrix, inside: set[int]) -> Fraction | None:
    """Return the largest ratio of an entry of the set to one outside, entry by entry; None: without bound."""
    found = Fraction(0)
    for y in range(matrix.outputs):
        for i, k in product(inside, set(range(matrix.size)) - inside):
            above, below = matrix.weight(y, i), matrix.weight(y, k)
            if above and not below:
                return None
            found = max(found, Fraction(above, below)) if above else found
    return found


def _random_matrices(rng: np.random.Generator, m: int) -> list[Matrix]:
    columns = [[int(w) for w in rng.integers(0, 50, m)] for _ in range(m)]
    for i, column in enumerate(columns):
        column[i] += 1
        column[(i + 1) % m] += 1
    classes = np.sort(np.concatenate([np.arange(2), rng.integers(0, 2, m - 2)])).astype(np.int32)
    weights = rng.random((2, 2)) / m
    return [
        DenseMatrix.from_shares(columns),
        BlockMatrix.from_floats(classes, weights, 2.0**-20),
        PerturbationMatrix.from_retention(rng.random(m)),
    ]


def test_every_set_is_judged_exactly_by_every_kind_of_matrix() -> None:
    rng = np.random.default_rng(32)
    seen = {True: 0, False: 0}
    for _ in range(40):
        m = int(rng.integers(3, 7))
        for matrix in _random_matrices(rng, m):
            for size in range(2, m):
                for codes in combinations(range(m), size):
                    gamma = Fraction(int(rng.integers(1100, 9000)), 1000)
                    due = {"upward": _worst(matrix, set(codes)), "downward": _worst(matrix, set(range(m)) - set(codes))}
                    each = SetBound(codes, Bound(gamma))
                    assert {way: set_factor(matrix, each, way) for way in BOTH} == due
                    broken = {way for way, factor in due.items() if factor is None or factor > gamma}
                    assert {way for _, way, _ in broken_sets(matrix, (each,), BOTH)} == broken
                    assert keeps(matrix, (NONE,) * m, BOTH, (each,)) == (not broken)
                    seen[bool(broken)] += 1
    assert min(seen.values()) > 100


# --- all methods, on the integers that are drawn ----------------------------------------------------------------------

METHODS: dict[str, tuple[Drawing, tuple[Direction, ...]]] = {
    "fine-grain, error": (sf.FineGrain(), BOTH),
    "fine-grain, records": (sf.FineGrain(objective="records"), BOTH),
    "fine-grain, upward only": (sf.FineGrain(upward_only=True), UPWARD),
    "fine-grain, as published": (sf.FineGrain(assurance="as-published"), UPWARD),
    "uniform": (sf.Uniform(), BOTH),
    "subset": (sf.Subset(), BOTH),
}


@pytest.mark.parametrize("name", METHODS)
def test_values_and_unions_keep_their_bounds_on_the_integers(name: str) -> None:
    """200 random requirements: (rho1, rho2) of each value and each set for the worst prior, in fractions."""
    method, directions = METHODS[name]
    rng = np.random.default_rng(33)
    nearest = Fraction(0)
    for _ in range(200):
        bounds, sets, domain = _random_statements(rng)
        m = domain.size
        gamma = _floats(of_each(bounds, sets))
        matrix = method.matrix_within(domain, bounds, sets, gamma, np.ones(m))
        assert all(sum(matrix.weight(y, x) for y in range(matrix.outputs)) == WORDS for x in range(m))
        statements = [({code}, bound.gamma) for code, bound in enumerate(bounds) if bound.gamma is not None]
        statements += [(set(each.codes), each.bound.gamma) for each in sets if each.bound.gamma is not None]
        for inside, allowed in statements:
            for direction in directions:
                factor = _worst(matrix, inside if direction == "upward" else set(range(m)) - inside)
                assert factor is not None
                assert factor <= allowed
                nearest = max(nearest, factor / allowed)
                rho1 = Fraction(int(rng.integers(1, 99)), 100)
                assert factor * rho1 / (1 - rho1 + factor * rho1) <= posterior_of_gamma(allowed, rho1)
        if method.scope == "any predicate":
            strictest = strictest_gamma(bounds, sets)
            assert strictest is not None
            assert not exceeds_any_predicate(matrix, bounds, sets)
            for size in range(1, m):
                for codes in combinations(range(m), size):
                    found = _worst(matrix, set(codes))
                    assert found is not None
                    assert found <= strictest
    assert nearest > 1 - Fraction(1, 10**6)  # nothing is given away


def test_the_error_is_never_above_that_of_holding_each_value() -> None:
    rng = np.random.default_rng(34)
    better = 0
    for _ in range(100):
        bounds, sets, domain = _random_statements(rng, 12 if rng.random() < 0.5 else 7)
        m, held = domain.size, _floats(of_each(bounds, sets))
        stated = [(each.inside(m), float(each.bound.gamma or 0)) for each in sets]
        found = expected_error(least_error_blocks(held, _floats(bounds), stated, np.full(m, 1 / m)))
        alone = best_staircase(held).error
        assert found <= alone * (1 + 1e-9)
        better += found < alone * 0.99
    assert better > 30
