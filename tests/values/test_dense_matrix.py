"""Any columns of integers: a worked example, and every answer against fractions, entry by entry."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.analyst.randomized.bayes import iterate
from sfumato.analyst.randomized.channel import is_usable, require_invertible
from sfumato.analyst.randomized.inverse import estimate, second_moment
from sfumato.claims.odds import counterexample, equal_twice, violations
from sfumato.errors import SingularMatrix
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.base import Matrix
from sfumato.values.matrix.dense import MOST_VALUES, DenseMatrix, alias_tables
from sfumato.values.matrix.product import ProductMatrix
from sfumato.values.matrix.retention import WORDS, PerturbationMatrix
from sfumato.values.mechanism import Bound, Mechanism, domains, epsilon_of, read_mechanism, sub_tables

STAIRS = DenseMatrix.from_shares([(4, 2, 2), (1, 6, 1), (1, 1, 2)])
"""x_0 stays with 1/2, x_1 with 3/4, x_2 with 1/2."""


# --- the worked example -----------------------------------------------------------------------------------------------


def test_an_example_by_hand() -> None:
    assert STAIRS.size == 3
    assert [[STAIRS.weight(y, x) * 8 // WORDS for x in range(3)] for y in range(3)] == [[4, 1, 2], [2, 6, 2], [2, 1, 4]]
    assert STAIRS.diagonal.tolist() == [1 / 2, 3 / 4, 1 / 2]
    assert STAIRS.least_chance.tolist() == [1 / 8, 1 / 4, 1 / 8]
    assert STAIRS.most_chance.tolist() == [1 / 2, 3 / 4, 1 / 2]
    assert STAIRS.pure_noise.tolist() == [3 / 4, 3 / 8, 3 / 4]
    assert STAIRS.noise_range == (1 / 8, 1 / 4)
    assert STAIRS.apply(np.array([8.0, 16.0, 0.0])).tolist() == [6, 14, 4]
    assert STAIRS.chances(np.array([0, 1]), np.array([1, 0])).tolist() == [1 / 8, 1 / 4]


def test_its_odds_by_hand() -> None:
    assert [STAIRS.upward(i) for i in range(3)] == [4, 3, 4]
    assert [STAIRS.downward(i) for i in range(3)] == [3, 4, 3]
    assert STAIRS.worst_case(0, "upward") == (0, 1)  # published x_0, against x_1
    assert STAIRS.worst_case(1, "downward") in [(0, 0), (2, 2)]
    assert STAIRS.raised(np.array([True, False, True])) == 4
    assert STAIRS.largest_ratio == 4
    assert math.isclose(epsilon_of(STAIRS), math.log(4))
    assert STAIRS.equal_twice(0) == Fraction(4, 8) / (Fraction(1, 8) * Fraction(2, 8))


def test_a_broken_bound_is_found_with_its_pair() -> None:
    bounds = [Bound(Fraction(3), Fraction(1, 4), Fraction(1, 2))] * 3
    found = {(v.code, v.direction, v.factor) for v in violations(STAIRS, bounds, ("upward", "downward"))}
    assert found == {(0, "upward", 4), (2, "upward", 4), (1, "downward", 4)}
    breach = counterexample(STAIRS, bounds)
    assert breach is not None
    assert (breach.code, breach.prior, breach.posterior) == (1, Fraction(1, 2), Fraction(1, 5))


# --- against fractions ------------------------------------------------------------------------------------------------


def _random(rng: np.random.Generator, zeros: bool = False) -> DenseMatrix:
    m = int(rng.integers(2, 8))
    columns = rng.integers(0 if zeros else 1, int(rng.choice([3, 50, 2**40])), (m, m))
    columns += np.diag(rng.integers(1, 2 * m, m)) + (columns.sum(axis=1) == 0)[:, None]
    columns[:, 0] += (np.count_nonzero(columns, axis=1) < 2) & (np.arange(m) > 0)
    columns[0, 1] += np.count_nonzero(columns[0]) < 2
    return DenseMatrix.from_shares(columns.tolist())


def _entries(matrix: Matrix) -> list[list[Fraction]]:
    """P[y][x]."""
    return [[Fraction(matrix.weight(y, x), WORDS) for x in range(matrix.size)] for y in range(matrix.size)]


def _ratio(above: Fraction, below: Fraction) -> float | Fraction:
    return above / below if below else math.inf if above else Fraction(0)


def _finite(found: float | Fraction) -> Fraction | None:
    return None if found == math.inf else Fraction(found)


@pytest.mark.parametrize("zeros", [False, True])
def test_odds_of_random_matrices(zeros: bool) -> None:
    rng = np.random.default_rng(1 + zeros)
    for _ in range(1_000):
        matrix = _random(rng, zeros)
        p, every = _entries(matrix), range(matrix.size)
        assert matrix.largest_ratio == _finite(max(_ratio(max(row), min(row)) for row in p))
        for i in every:
            others = [k for k in every if k != i]
            upward = max(_ratio(row[i], min(row[k] for k in others)) for row in p)
            downward = max(_ratio(max(row[k] for k in others), row[i]) for row in p)
            assert (matrix.upward(i), matrix.downward(i)) == (_finite(upward), _finite(downward))
            (y, k), (z, r) = matrix.worst_case(i, "upward"), matrix.worst_case(i, "downward")
            assert i not in (k, r)
            assert (_ratio(p[y][i], p[y][k]), _ratio(p[z][r], p[z][i])) == (upward, downward)
            twice = max(_ratio(row[i], sorted(row)[0] * sorted(row)[1]) for row in p)
            assert matrix.equal_twice(i) == _finite(twice)
        inside = rng.random(matrix.size) < 0.5
        if inside.any() and not inside.all():
            a, b = np.flatnonzero(inside).tolist(), np.flatnonzero(~inside).tolist()
            factor = max(_ratio(max(row[i] for i in a), min(row[k] for k in b)) for row in p)
            assert matrix.raised(inside) == _finite(factor)


def test_ratios_that_floating_point_cannot_tell_apart() -> None:
    """Two rows whose ratios differ by 2^-63: the larger one is found."""
    fourth = WORDS // 4
    columns = [(2 * fourth + 1, fourth, fourth - 1), (fourth, 2 * fourth, fourth), (fourth - 1, fourth, 2 * fourth + 1)]
    matrix = DenseMatrix(np.array(columns, dtype=np.uint64))
    assert matrix.upward(0) == Fraction(2 * fourth + 1, fourth - 1)
    assert matrix.largest_ratio == Fraction(2 * fourth + 1, fourth - 1)
    assert matrix.upward(1) == 2


def _retentions() -> Iterator[PerturbationMatrix]:
    rng = np.random.default_rng(3)
    for m in (2, 3, 7):
        yield PerturbationMatrix.from_retention(rng.random(m) * 0.9)
        yield PerturbationMatrix.from_retention([0.3] * m)


def _same_as(matrix: PerturbationMatrix) -> DenseMatrix:
    every = range(matrix.size)
    return DenseMatrix(np.array([[matrix.weight(y, x) for y in every] for x in every], dtype=np.uint64))


@pytest.mark.parametrize("matrix", list(_retentions()), ids=lambda matrix: f"m={matrix.size}")
def test_both_kinds_answer_alike(matrix: PerturbationMatrix) -> None:
    dense, m = _same_as(matrix), matrix.size
    rng = np.random.default_rng(4)
    for i in range(m):
        assert dense.upward(i) == matrix.upward(i)
        assert dense.downward(i) == matrix.downward(i)
        assert dense.equal_twice(i) == matrix.equal_twice(i)
        inside = np.arange(m) == i
        assert matrix.raised(inside) == dense.raised(inside) == matrix.upward(i)
        assert matrix.raised(~inside) == dense.raised(~inside) == matrix.downward(i)
    assert dense.largest_ratio == matrix.largest_ratio
    assert equal_twice(dense) == equal_twice(matrix)
    a, b = rng.integers(0, m, (2, 50))
    shares, counts = rng.random(m), rng.random((3, m)) * 100
    for name in ("diagonal", "least_chance", "most_chance", "pure_noise", "noise_range", "condition_number"):
        assert np.allclose(getattr(dense, name), getattr(matrix, name), rtol=1e-9, atol=1e-15), name
    for name in ("chances", "alike", "alike_changed"):
        assert np.allclose(getattr(dense, name)(a, b), getattr(matrix, name)(a, b)), name
    assert np.allclose(dense.likeliest(shares), matrix.likeliest(shares))
    for name in ("apply", "apply_transposed", "solve", "solve_transposed", "inverse_squared_apply"):
        assert np.allclose(getattr(dense, name)(counts), getattr(matrix, name)(counts), rtol=1e-8), name
    assert dense.integers != matrix.integers


# --- integers, and drawing --------------------------------------------------------------------------------------------


def test_rounding_stays_within_a_unit_and_sums_up() -> None:
    rng = np.random.default_rng(5)
    for _ in range(500):
        m = int(rng.integers(2, 9))
        shares = [[int(n) for n in column] for column in rng.integers(1, 10**9, (m, m))]
        matrix = DenseMatrix.from_shares(shares)
        for x, column in enumerate(shares):
            exact = [Fraction(n * WORDS, sum(column)) for n in column]
            assert sum(matrix.weight(y, x) for y in range(m)) == WORDS
            assert all(abs(matrix.weight(y, x) - e) < 1 for y, e in enumerate(exact))


def test_alias_tables_give_every_value_its_words() -> None:
    """By all thresholds, not by drawing: the words of a value are those below its own, and those left to it."""
    rng = np.random.default_rng(6)
    for trial in range(2_000):
        matrix = _random(rng, zeros=trial % 2 == 0)
        bits, thresholds, alias = matrix._alias
        size, capacity = 2**bits, 2 ** (64 - bits)
        for x in range(matrix.size):
            own = [int(t) for t in thresholds[x * size : (x + 1) * size]]
            assert max(own) <= capacity
            words = dict(enumerate(own))
            for bucket, other in enumerate(alias[x * size : (x + 1) * size].tolist()):
                words[other] += capacity - own[bucket]
            assert [words[y] for y in range(size)] == [
                matrix.weight(y, x) if y < matrix.size else 0 for y in range(size)
            ]


@pytest.mark.parametrize(
    "weights", [[4, 4, 4, 4], [0, 0, 0, 16], [16, 0, 0, 0], [4, 8, 4, 0], [5, 5, 3, 3], [1, 7, 1, 7]]
)
def test_alias_tables_of_odd_columns(weights: list[int]) -> None:
    thresholds, alias = alias_tables(np.array([weights], dtype=np.uint64), np.uint64(4))
    drawn = [
        bucket if low < thresholds[0, bucket] else int(alias[0, bucket]) for bucket in range(4) for low in range(4)
    ]
    assert np.bincount(drawn, minlength=4).tolist() == weights


def test_a_word_is_drawn_as_its_thresholds_say() -> None:
    """At every threshold, one word before it and at the ends of every bucket."""
    rng = np.random.default_rng(7)
    for _ in range(50):
        matrix = _random(rng, zeros=True)
        bits, thresholds, alias = matrix._alias
        size, capacity = 2**bits, 2 ** (64 - bits)
        for x, bucket in itertools.product(range(matrix.size), range(size)):
            t, other = int(thresholds[x * size + bucket]), int(alias[x * size + bucket])
            for low in {low for low in (0, t - 1, t, capacity - 1) if 0 <= low < capacity}:
                word = np.array([bucket * capacity + low], dtype=np.uint64)
                assert matrix.sample(np.array([x], dtype=np.int32), word)[0] == (bucket if low < t else other)


def test_draws_do_not_depend_on_how_rows_are_cut() -> None:
    rng = np.random.default_rng(8)
    codes = rng.integers(0, 3, 100_000, dtype=np.int32)
    words = rng.integers(0, WORDS, codes.size, dtype=np.uint64, endpoint=False)
    whole = STAIRS.sample(codes, words)
    parts = [STAIRS.sample(codes[k : k + 777], words[k : k + 777]) for k in range(0, codes.size, 777)]
    assert np.array_equal(whole, np.concatenate(parts))
    assert whole.dtype == np.int32


# --- estimates --------------------------------------------------------------------------------------------------------


def _inverse(p: list[list[Fraction]]) -> list[list[Fraction]] | None:
    """By Gauss and Jordan; None for a singular matrix."""
    m = len(p)
    rows = [[*row, *(Fraction(int(i == k)) for k in range(m))] for i, row in enumerate(p)]
    for k in range(m):
        pivot = next((i for i in range(k, m) if rows[i][k]), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [entry / rows[k][k] for entry in rows[k]]
        rows = [
            row if i == k else [a - row[k] * b for a, b in zip(row, rows[k], strict=True)] for i, row in enumerate(rows)
        ]
    return [row[m:] for row in rows]


def test_estimates_and_variances_of_random_matrices() -> None:
    rng, compared = np.random.default_rng(9), 0
    for _ in range(400):
        matrix = _random(rng)
        if matrix.condition_number > 1e5:
            continue
        inverse = _inverse(_entries(matrix))
        assert inverse is not None
        observed = rng.integers(0, 1000, matrix.size)
        exact = [sum(a * int(o) for a, o in zip(row, observed, strict=True)) for row in inverse]
        moment = [sum(a * a * int(o) for a, o in zip(row, observed, strict=True)) for row in inverse]
        back = [sum(row[k] * int(observed[i]) for i, row in enumerate(inverse)) for k in range(matrix.size)]
        counts = observed.astype(np.float64)
        scale = max(1.0, *(abs(float(x)) for x in exact))
        assert np.allclose(estimate(matrix, counts), [float(x) for x in exact], rtol=1e-9, atol=1e-9 * scale)
        assert np.allclose(second_moment(matrix, counts), [float(x) for x in moment], rtol=1e-8)
        assert np.allclose(matrix.solve_transposed(counts), [float(x) for x in back], rtol=1e-8, atol=1e-8 * scale)
        compared += 1
    assert compared > 300


def _em(matrix: DenseMatrix, observed: np.ndarray[Any, Any], steps: int) -> np.ndarray[Any, Any]:
    """Plain iterative Bayes from equal shares, the slow way."""
    p, x = matrix.dense(), np.full(matrix.size, observed.sum() / matrix.size)
    for _ in range(steps):
        x = x * (p.T @ (observed / (p @ x)))
    return x


def test_em_reaches_what_plain_iteration_does() -> None:
    rng = np.random.default_rng(10)
    for _ in range(40):
        matrix = _random(rng)
        observed = rng.integers(1, 500, matrix.size).astype(np.float64)
        found = iterate(matrix, observed)
        assert found.converged
        plain = _em(matrix, observed, 3_000)
        likelihood = [float(observed @ np.log(matrix.apply(x))) for x in (found.value, plain)]
        assert likelihood[0] >= likelihood[1] - 2e-3
        assert math.isclose(found.value.sum(), observed.sum())


def test_em_of_a_matrix_without_an_inverse() -> None:
    matrix = DenseMatrix.from_shares([(3, 1, 1), (3, 1, 1), (1, 1, 3)])
    assert not matrix.is_invertible
    assert math.isinf(matrix.condition_number)
    assert not is_usable(matrix)
    with pytest.raises(SingularMatrix, match="has no inverse: nothing in the release tells"):
        require_invertible(matrix)
    found = iterate(matrix, np.array([60.0, 20.0, 20.0]))
    assert found.converged
    assert np.allclose(found.value.sum(), 100)


def test_a_product_with_a_dense_factor() -> None:
    other = PerturbationMatrix.from_retention([0.4, 0.7])
    product = ProductMatrix((STAIRS, other))
    whole = np.kron(STAIRS.dense(), other.dense())
    counts = np.arange(6.0)
    assert np.allclose(product.apply(np.eye(len(whole))), whole.T)
    assert np.allclose(product.solve(product.apply(counts)), counts)
    assert np.allclose(product.inverse_squared_apply(counts), np.linalg.inv(whole) ** 2 @ counts)
    singular = ProductMatrix((other, DenseMatrix.from_shares([(1, 1), (1, 1)])))
    with pytest.raises(SingularMatrix, match="nothing in the release tells"):
        require_invertible(singular)


def test_the_condition_number_of_a_large_one() -> None:
    rng = np.random.default_rng(11)
    matrix = DenseMatrix.from_shares((rng.integers(1, 50, (500, 500)) + 5_000 * np.eye(500, dtype=np.int64)).tolist())
    assert matrix.condition_number == pytest.approx(float(np.linalg.cond(matrix.dense())), rel=5e-3)
    assert matrix.is_invertible


# --- JSON, and what is refused ----------------------------------------------------------------------------------------


def test_it_is_written_and_read_again() -> None:
    domain = SensitiveDomain((Domain("disease", ("flu", "HIV", "SARS")),))
    mechanism = Mechanism.single(domain, STAIRS, (Bound(Fraction(4)),) * 3)
    written = sub_tables(mechanism)
    assert written[0]["columns"][0] == ["9223372036854775808", "4611686018427387904", "4611686018427387904"]
    assert "noise" not in written[0]
    read = read_mechanism(domains(domain), written, None)
    assert read.matrix.integers == STAIRS.integers


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ([[WORDS // 2, WORDS // 2]], "a dense matrix has 2 to"),
        ([[1]], "a dense matrix has 2 to"),
        ([[WORDS // 2, WORDS // 2], [WORDS // 2, WORDS // 2 - 1]], "column 2 of the matrix does not sum to 2"),
        ([[0, 0], [WORDS // 2, WORDS // 2]], "column 1"),
    ],
)
def test_columns_that_are_no_matrix(columns: list[list[int]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        DenseMatrix(np.array(columns, dtype=np.uint64))


def test_a_column_that_is_certain_is_refused() -> None:
    with pytest.raises(ValueError, match="one value only"):
        DenseMatrix.from_shares([(1, 0), (1, 1)])


def test_too_many_values_are_refused() -> None:
    with pytest.raises(ValueError, match="2,000"):
        DenseMatrix(np.zeros((MOST_VALUES + 1, MOST_VALUES + 1), dtype=np.uint64))
