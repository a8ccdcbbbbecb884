"""How often independent draws are equal: against enumeration in fractions, and against draws that share their words."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.auditor.attackers.draws import both_kept
from sfumato.auditor.attackers.reuse import LEVEL, equal_rows, equal_shares
from sfumato.methods.small_domain.method import uniform_matrix
from sfumato.values.matrix.retention import WORDS, PerturbationMatrix
from sfumato.values.randomness import SecretKey, Step
from tests.conftest import exact_weights


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 5).flatmap(lambda m: st.tuples(*[st.lists(st.floats(0, 1), min_size=m, max_size=m)] * 2)))
def test_no_two_values_are_equal_more_or_less_often(retentions: tuple[list[float], list[float]]) -> None:
    """Over all pairs of values, sum_y P[y, a] R[y, b]."""
    first, second = (PerturbationMatrix.from_retention(each) for each in retentions)
    p, r = exact_weights(first), exact_weights(second)
    m = first.size
    chances = [Fraction(sum(p[y][a] * r[y][b] for y in range(m)), WORDS**2) for a in range(m) for b in range(m)]
    assert equal_shares(first, second) == pytest.approx((float(min(chances)), float(max(chances))), abs=1e-12)


def test_uniform_matrices_by_the_formula() -> None:
    """Between (1 - p1 p2)/m and p1 p2 + (1 - p1 p2)/m."""
    first, second = uniform_matrix(Fraction(3), 12), uniform_matrix(Fraction(9), 12)
    product = 2 / 14 * 8 / 20
    assert equal_shares(first, second) == pytest.approx(((1 - product) / 12, product + (1 - product) / 12))


def drawn(matrix: PerturbationMatrix, codes: np.ndarray, file: int) -> np.ndarray:
    return matrix.sample(codes.astype(np.int32), SecretKey.from_seed(9).words(Step.PERTURB, file, 0, codes.size))


@pytest.mark.parametrize("gamma", [3, 30])
def test_fresh_draws_raise_no_alarm_and_shared_words_do(gamma: int) -> None:
    """Of 200 pairs of releases none is beyond chance; with shared words 40 linked rows suffice."""
    matrix, rng = uniform_matrix(Fraction(gamma), 12), np.random.default_rng(4)
    codes = rng.integers(0, 12, 500)
    for k in range(200):
        equal = drawn(matrix, codes, 2 * k) == drawn(matrix, codes, 2 * k + 1)
        tallies = equal_rows(equal, matrix, matrix)
        assert (tallies.log_tails >= tallies.log_level(LEVEL)).all()
    few = codes[:40]
    tallies = equal_rows(drawn(matrix, few, 1) == drawn(matrix, few, 1), matrix, matrix)
    assert tallies.log_tails[0] < tallies.log_level(LEVEL)


def test_values_that_changed_raise_no_alarm_either() -> None:
    matrix, rng = uniform_matrix(Fraction(3), 12), np.random.default_rng(5)
    before, after = rng.integers(0, 12, (2, 5000))
    tallies = equal_rows(drawn(matrix, before, 1) == drawn(matrix, after, 2), matrix, matrix)
    assert (tallies.log_tails >= tallies.log_level(LEVEL)).all()


@pytest.mark.parametrize("shared", [False, True])
def test_two_columns_of_a_record(shared: bool) -> None:
    """Other values, another matrix: with one word for both the fates go together all the same."""
    one, two = uniform_matrix(Fraction(4), 3), uniform_matrix(Fraction(3), 7)
    rng = np.random.default_rng(6)
    codes = rng.integers(0, 3, 2000), rng.integers(0, 7, 2000)
    shown = drawn(one, codes[0], 1), drawn(two, codes[1], 1 if shared else 2)
    kept = shown[0] == codes[0], shown[1] == codes[1]
    chances = one.diagonal[codes[0]], two.diagonal[codes[1]]
    tallies = both_kept(kept[0], chances[0], kept[1], chances[1], "a and b")
    assert (tallies.log_tails < tallies.log_level(LEVEL)).any() == shared
