"""The sampler draws from the matrix: chi-square tests with a stated false-alarm rate and a stated power.

For each value x_i, N records are published with words of the release generator. Over all columns

    X2 = sum_i sum_j (n_ij - N P[j, i])^2 / (N P[j, i])

is chi-square with m(m - 1) degrees of freedom if the sampler is right. A test alarms when X2 is in the upper ALARM
tail: the false-alarm rate. Against a sampler with other columns P', X2 is noncentral, lambda = N sum (P' - P)^2/P:
the power is computed, asserted to be above 1 - MISS, and then shown: samplers with retentions that are off by 5% are
drawn from and rejected.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import chi2, ncx2

from sfumato.values.arrays import CodeArray, FloatArray, WordArray
from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato.values.randomness import SecretKey, Step

ALARM = 1e-6
MISS = 1e-6
RECORDS = 100_000  # of each value

Sampler = Callable[[CodeArray, WordArray], CodeArray]

MATRICES = {
    "uniform": [0.25] * 10,
    "fine-grain": [0.6, 0.45, 0.3, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05, 0.0],
    "two values": [0.3, 0.5],
    "forty values": list(np.linspace(0.05, 0.5, 40)),
}


def statistic(expected: FloatArray, sampler: Sampler, seed: int) -> float:
    """Return X2 of a sampler against the columns of `expected`, with the words of one file of a release."""
    m = len(expected)
    codes = np.repeat(np.arange(m, dtype=np.int32), RECORDS)
    words = SecretKey.from_seed(seed).words(Step.PERTURB, file=0, start=0, count=codes.size)
    counts = np.bincount(codes * m + sampler(codes, words), minlength=m * m).reshape(m, m).T  # [j, i], like P
    return float(((counts - RECORDS * expected) ** 2 / (RECORDS * expected)).sum())


def limit(m: int) -> float:
    return float(chi2.isf(ALARM, m * (m - 1)))


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_sampler_passes(name: str, seed: int) -> None:
    matrix = PerturbationMatrix.from_retention(MATRICES[name])
    x2 = statistic(matrix.dense(), matrix.sample, seed)
    assert chi2.isf(1 - ALARM, matrix.size * (matrix.size - 1)) < x2 < limit(matrix.size)  # not too good either


@pytest.mark.parametrize("factor", [0.95, 1.05])
@pytest.mark.parametrize("name", MATRICES)
def test_a_sampler_that_is_off_by_five_percent_fails(name: str, factor: float) -> None:
    matrix = PerturbationMatrix.from_retention(MATRICES[name])
    m, p = matrix.size, matrix.dense()
    off = PerturbationMatrix.from_retention(np.array(MATRICES[name]) * factor)
    shift = RECORDS * ((off.dense() - p) ** 2 / p).sum()
    assert ncx2.cdf(limit(m), m * (m - 1), shift) < MISS
    assert statistic(p, off.sample, seed=3) > limit(m)


def test_classical_mistakes_fail() -> None:
    """A new value that is never the old one; the retention of one value for all of them."""
    matrix = PerturbationMatrix.from_retention(MATRICES["fine-grain"])
    m, p = matrix.size, matrix.dense()

    def never_the_old_one(codes: CodeArray, words: WordArray) -> CodeArray:
        drawn = matrix.sample(codes, words)
        changed = words < matrix.noise[codes] * np.uint64(m)
        return np.where(changed & (drawn == codes), (codes + 1) % m, drawn).astype(np.int32)

    def one_column_for_all(codes: CodeArray, words: WordArray) -> CodeArray:
        drawn = matrix.sample(np.full_like(codes, 4), words)
        return np.where(drawn == 4, codes, drawn).astype(np.int32)

    assert statistic(p, never_the_old_one, seed=4) > limit(m)
    assert statistic(p, one_column_for_all, seed=4) > limit(m)


def test_neighbouring_rows_are_independent() -> None:
    """Pairs (row, next row) of published values: chi-square against the product of the columns."""
    matrix = PerturbationMatrix.from_retention([0.5, 0.2, 0.3])
    rows = 600_000
    codes = np.zeros(rows, dtype=np.int32)
    drawn = matrix.sample(codes, SecretKey.from_seed(5).words(Step.PERTURB, 0, 0, rows))
    column = matrix.dense()[:, 0]
    for first, second in ((drawn[0::2], drawn[1::2]), (drawn[1:-1:2], drawn[2::2])):  # inside and across AES blocks
        counts = np.bincount(first * 3 + second, minlength=9).reshape(3, 3)
        expected = len(first) * np.outer(column, column)
        assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(ALARM, 8)
