"""PerturbationMatrix against dense numpy, and against exact fractions of the integers that are sampled."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt
import pytest

from sfumato.values.matrix.base import SAMPLE_BLOCK
from sfumato.values.matrix.retention import (
    DENSE_LIMIT,
    WORDS,
    PerturbationMatrix,
    amplification,
    largest_noise,
    uniform_retention,
)
from sfumato.values.mechanism import epsilon_of

Exact = list[list[Fraction]]  # [j][i], as the convention says


def random_retention(rng: np.random.Generator, m: int) -> npt.NDArray[np.float64]:
    """Return retentions of one of several kinds: equal, any, weak, one zero, nearly one, skewed with a one."""
    p = rng.random(m)
    kind = rng.integers(6)
    if kind == 0:
        p[:] = p[0]
    elif kind == 2:
        p *= 0.1
    elif kind == 3:
        p[rng.integers(m)] = 0
    elif kind == 4:
        p = 1 - p * 1e-6
    elif kind == 5:
        p = p**3
        p[rng.integers(m)] = 1
    return p


def exact_matrix(matrix: PerturbationMatrix) -> Exact:
    """Return P in fractions, from the convention and the stored integers alone."""
    m, q = matrix.size, [Fraction(int(w), WORDS) for w in matrix.noise]
    return [[1 - (m - 1) * q[i] if i == j else q[i] for i in range(m)] for j in range(m)]


def exact_inverse(a: Exact) -> Exact:
    """Return the inverse by Gauss-Jordan elimination, without rounding."""
    m = len(a)
    rows = [[*row, *(Fraction(int(i == j)) for i in range(m))] for j, row in enumerate(a)]
    for c in range(m):
        pivot = next(r for r in range(c, m) if rows[r][c] != 0)
        rows[c], rows[pivot] = rows[pivot], rows[c]
        rows[c] = [v / rows[c][c] for v in rows[c]]
        for r in range(m):
            if r != c and rows[r][c] != 0:
                rows[r] = [v - rows[r][c] * w for v, w in zip(rows[r], rows[c], strict=True)]
    return [row[m:] for row in rows]


# --- construction -------------------------------------------------------------------------------------------


def test_columns_are_what_the_convention_says() -> None:
    p = PerturbationMatrix.from_retention([0.5, 0.2, 0.0, 1.0])
    columns = [[0.625, 0.125, 0.125, 0.125], [0.2, 0.4, 0.2, 0.2], [0.25, 0.25, 0.25, 0.25], [0, 0, 0, 1]]
    assert np.allclose(p.dense(), np.array(columns).T, rtol=0, atol=1e-15)


@pytest.mark.parametrize("seed", range(10))
def test_columns_sum_to_all_words_and_noise_is_rounded_up(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(100):
        m = int(rng.integers(1, 50))
        p = random_retention(rng, m)
        matrix = PerturbationMatrix.from_retention(p)
        for i, exact in enumerate(Fraction(float(v)) for v in p):
            q = int(matrix.noise[i])
            assert matrix.diagonal_weight(i) + (m - 1) * q == WORDS
            assert matrix.diagonal_weight(i) >= q  # retention is not negative
            wanted = (1 - exact) * WORDS / m
            assert (
                wanted <= q < wanted + 1 or q == largest_noise(m) < wanted
            )  # nearest from above, or the most there is
            assert matrix.retention[i] == pytest.approx(float(1 - Fraction(m * q, WORDS)), rel=1e-15)
            assert matrix.diagonal[i] == pytest.approx(matrix.diagonal_weight(i) / WORDS, rel=1e-15)


def test_refuses_what_is_no_matrix() -> None:
    for retention in ([-0.1, 0.5], [0.5, 1.1], []):
        with pytest.raises(ValueError, match="retention"):
            PerturbationMatrix.from_retention(retention)
    with pytest.raises(ValueError, match="more than one"):
        PerturbationMatrix(np.array([largest_noise(2) + 1, 1], dtype=np.uint64))


def test_keeps_a_copy_and_leaves_the_callers_array_alone() -> None:
    noise = np.array([5, 7], dtype=np.uint64)
    matrix = PerturbationMatrix(noise)
    noise[0] = 9
    assert matrix.noise.tolist() == [5, 7]
    with pytest.raises(ValueError, match="read-only"):
        matrix.noise[0] = 1


def test_gamma_formulas() -> None:
    assert amplification(Fraction(1, 10), Fraction(1, 4)) == 3
    for gamma, m in ((3.0, 2), (5.0, 50), (1.5, 7)):
        matrix = PerturbationMatrix.from_retention([uniform_retention(gamma, m)] * m)
        upward = matrix.upward(0)
        assert upward is not None
        assert float(upward) == pytest.approx(gamma, rel=1e-14)
    assert uniform_retention(math.inf, 4) == uniform_retention(2.0, 1) == 1.0


# --- products and solutions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_products_and_solutions_agree_with_dense_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(250):
        m = int(rng.integers(1, 12))
        matrix = PerturbationMatrix.from_retention(random_retention(rng, m))
        dense, x = matrix.dense(), rng.random((3, m)) * 100
        assert np.allclose(dense.sum(axis=0), 1, rtol=0, atol=1e-14)
        assert np.allclose(matrix.apply(x), x @ dense.T, rtol=1e-13)
        assert np.allclose(matrix.apply_transposed(x), x @ dense, rtol=1e-13)
        assert np.allclose(matrix.apply(x[0]), dense @ x[0], rtol=1e-13)
        condition = np.linalg.cond(dense)
        if condition > 1e6:
            continue
        inverse = np.linalg.inv(dense)
        loss = 1e-14 * condition * np.abs(inverse).max() * 100 * m  # what the dense inverse itself may be off
        assert np.allclose(matrix.solve(x), x @ inverse.T, rtol=0, atol=loss)
        assert np.allclose(matrix.solve(x[0]), inverse @ x[0], rtol=0, atol=loss)
        assert np.allclose(matrix.solve_transposed(x[0]), inverse.T @ x[0], rtol=0, atol=loss)
        squared_loss = 2 * loss * np.abs(inverse).max()
        assert np.allclose(matrix.inverse_squared_apply(x), x @ (inverse**2).T, rtol=1e-12, atol=squared_loss)


@pytest.mark.parametrize("seed", range(5))
def test_solutions_agree_with_exact_fractions_even_where_a_retention_vanishes(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    for _ in range(30):
        m = int(rng.integers(1, 6))
        p = 0.01 + 0.99 * rng.random(m)
        p[rng.integers(m)] = rng.choice([0.0, 1e-15, 1e-9, 1e-3])
        matrix = PerturbationMatrix.from_retention(p)
        inverse = exact_inverse(exact_matrix(matrix))
        o = rng.integers(0, 1000, m)
        x = [float(sum(a * int(v) for a, v in zip(row, o, strict=True))) for row in inverse]
        squared = [float(sum(a * a * int(v) for a, v in zip(row, o, strict=True))) for row in inverse]
        transposed = [float(sum(inverse[j][i] * int(o[j]) for j in range(m))) for i in range(m)]
        counts = o.astype(float)
        scale = 1e-12 * max(1.0, *(abs(float(a)) for row in inverse for a in row)) * 1000 * m
        assert matrix.solve(counts) == pytest.approx(x, rel=1e-11, abs=scale)
        assert matrix.solve_transposed(counts) == pytest.approx(transposed, rel=1e-11, abs=scale)
        assert matrix.inverse_squared_apply(counts) == pytest.approx(squared, rel=1e-10)


# --- condition number ---------------------------------------------------------------------------------------


def test_condition_number_agrees_with_numpy() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        m = int(rng.integers(1, 30))
        matrix = PerturbationMatrix.from_retention(random_retention(rng, m))
        dense = np.linalg.cond(matrix.dense())
        if dense < 1e8:
            assert matrix.condition_number == pytest.approx(dense, rel=1e-6)


def test_two_values_without_retention_are_singular_and_one_is_not() -> None:
    one = PerturbationMatrix.from_retention([0, 0.2, 0.3, 0.2])
    two = PerturbationMatrix.from_retention([0, 0.2, 0, 0.2])
    assert one.is_invertible
    assert one.condition_number == pytest.approx(np.linalg.cond(one.dense()), rel=1e-9)
    assert not two.is_invertible
    assert two.condition_number == math.inf
    assert np.linalg.matrix_rank(two.dense()) == 3
    assert PerturbationMatrix.from_retention([0.0]).condition_number == 1


def large_retentions(m: int) -> list[npt.NDArray[np.float64]]:
    """Return kinds that are hard for an iteration: crowded spectra, single outliers, pairs that nearly coincide."""
    k, u = np.arange(m), np.random.default_rng(m).random(m)
    return [
        u,
        0.01 + 0.05 * u,
        1 - 1e-3 * u,
        1 / (k + 2.0),
        np.where(k == 11, 0.45, 0.5),
        np.where(k == 11, 0, 0.1 + 0.1 * u),
        np.where((k == 10) | (k == 300), 1e-6, 0.5),
        np.where((k == 11) | (k == 12), 1e-6, 0.1 + 0.5 * u),
        np.where(k == 3, 1.0, 0.01),
        np.full(m, 0.3),
    ]


@pytest.mark.parametrize("kind", range(10))
def test_iterated_condition_number_agrees_with_numpy(kind: int) -> None:
    matrix = PerturbationMatrix.from_retention(large_retentions(DENSE_LIMIT + 1)[kind])
    assert matrix.size > DENSE_LIMIT
    assert matrix.condition_number == pytest.approx(np.linalg.cond(matrix.dense()), rel=1e-3)


# --- the guarantee, on the integers -------------------------------------------------------------------------


def brute_upward(p: Exact, i: int) -> Fraction | None:
    """Return the largest factor on the odds of x_i over all published values and two-point priors {i, k}."""
    pairs = [(row[i], row[k]) for row in p for k in range(len(p)) if k != i]
    return None if any(b == 0 < a for a, b in pairs) else max(a / b for a, b in pairs if b)


def brute_downward(p: Exact, i: int) -> Fraction | None:
    pairs = [(row[k], row[i]) for row in p for k in range(len(p)) if k != i]
    return None if any(b == 0 < a for a, b in pairs) else max(a / b for a, b in pairs if b)


def random_matrix(rng: np.random.Generator) -> PerturbationMatrix:
    m = int(rng.integers(2, 7))
    if rng.random() < 0.3:  # coarse integers: ties and zeros
        return PerturbationMatrix(rng.integers(0, 4, m).astype(np.uint64) * np.uint64(largest_noise(m) // 3))
    return PerturbationMatrix.from_retention(random_retention(rng, m))


def test_upward_downward_and_epsilon_agree_with_all_pairs() -> None:
    rng = np.random.default_rng(4)
    unbounded = 0
    for _ in range(600):
        matrix = random_matrix(rng)
        p = exact_matrix(matrix)
        for i in range(matrix.size):
            assert matrix.upward(i) == brute_upward(p, i)
            assert matrix.downward(i) == brute_downward(p, i)
        if any(v == 0 for row in p for v in row):
            unbounded += 1
            assert epsilon_of(matrix) == math.inf
        else:
            assert epsilon_of(matrix) == pytest.approx(math.log(max(max(row) / min(row) for row in p)), rel=1e-12)
    assert unbounded > 20


def test_no_prior_moves_the_odds_further_than_the_two_point_priors() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        matrix = random_matrix(rng)
        p, m = exact_matrix(matrix), matrix.size
        prior = [Fraction(int(w), 1000) for w in rng.integers(1, 1000, m)]
        for y, i in product(range(m), range(m)):
            others = sum(prior[k] * p[y][k] for k in range(m) if k != i)
            before = prior[i] / sum(prior[k] for k in range(m) if k != i)
            up, down = matrix.upward(i), matrix.downward(i)
            assert up is None or prior[i] * p[y][i] <= up * before * others
            assert down is None or others * before <= down * prior[i] * p[y][i]


def test_more_noise_never_weakens_the_guarantee() -> None:
    rng = np.random.default_rng(6)
    for _ in range(200):
        matrix = random_matrix(rng)
        noise = matrix.noise.copy()
        j = rng.integers(matrix.size)
        noise[j] += np.uint64(rng.integers(0, largest_noise(matrix.size) - int(noise[j]) + 1, dtype=np.uint64))
        louder = PerturbationMatrix(noise)
        for i in range(matrix.size):
            for before, after in ((matrix.upward(i), louder.upward(i)), (matrix.downward(i), louder.downward(i))):
                assert before is None or (after is not None and after <= before)


def test_a_single_value_has_nothing_to_hide() -> None:
    matrix = PerturbationMatrix.from_retention([0.3])
    assert matrix.upward(0) == matrix.downward(0) == 1
    assert epsilon_of(matrix) == 0
    assert matrix.dense().tolist() == [[1.0]]


# --- sampling -----------------------------------------------------------------------------------------------


def test_every_word_of_small_columns() -> None:
    """Noise weights small enough to count all words that change anything: Q_i for each value, exactly."""
    matrix = PerturbationMatrix(np.array([3, 1, 0, 7], dtype=np.uint64))
    words = np.arange(40, dtype=np.uint64)
    for i, q in enumerate(matrix.noise.tolist()):
        drawn = matrix.sample(np.full(40, i, dtype=np.int32), words)
        counts = np.bincount(drawn, minlength=4).tolist()
        assert counts == [q + (40 - 4 * q) * (i == j) for j in range(4)]


@pytest.mark.parametrize("m", [1, 2, 3, 14, 1000])
def test_words_are_cut_exactly_at_the_multiples_of_the_noise(m: int) -> None:
    """w // Q is monotone, so right values on both sides of each cut mean Q_i words for each value."""
    rng = np.random.default_rng(m)
    matrix = PerturbationMatrix.from_retention(random_retention(rng, m))
    for i in {0, m // 2, m - 1}:
        q = int(matrix.noise[i])
        cuts = {w for k in range(m + 1) for w in (k * q - 1, k * q, k * q + 1)} | {0, WORDS - 1}
        words = sorted(w for w in cuts if 0 <= w < WORDS)
        drawn = matrix.sample(np.full(len(words), i, dtype=np.int32), np.array(words, dtype=np.uint64))
        assert drawn.tolist() == [w // q if w < m * q else i for w in words]


def test_full_noise_leaves_no_word_out_of_range() -> None:
    matrix = PerturbationMatrix.from_retention([0.0] * 3)
    q = int(matrix.noise[0])
    assert WORDS - 3 * q == 1  # 2^64 = 3 q + 1: a single word keeps the value
    words = np.array([0, q - 1, q, 3 * q - 1, 3 * q], dtype=np.uint64)
    assert matrix.sample(np.full(5, 1, dtype=np.int32), words).tolist() == [0, 0, 1, 2, 1]


def test_a_row_draws_the_same_whatever_the_batch() -> None:
    rng = np.random.default_rng(8)
    matrix = PerturbationMatrix.from_retention(rng.random(9))
    n = 2 * SAMPLE_BLOCK + 17
    codes = rng.integers(0, 9, n).astype(np.int32)
    words = rng.integers(0, WORDS, n, dtype=np.uint64)
    whole, before = matrix.sample(codes, words), codes.copy()
    cuts = [0, 1, SAMPLE_BLOCK - 1, SAMPLE_BLOCK + 5, n]
    parts = [matrix.sample(codes[a:b], words[a:b]) for a, b in pairwise(cuts)]
    assert np.array_equal(whole, np.concatenate(parts))
    assert np.array_equal(codes, before)  # the input is not written to
    assert whole.dtype == np.int32
    assert matrix.sample(codes[:0], words[:0]).size == 0
