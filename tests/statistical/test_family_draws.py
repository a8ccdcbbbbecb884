"""Every family of matrices draws what its integers say: chi-square with the levels and the power of test_sampler.

X2 is summed over the columns of P, [output, value]; outputs that a column does not reach are left out of it. The
sampler that is off draws 5% of the records of each value by another column. Its power is computed first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import chi2, ncx2

from sfumato.values.arrays import CodeArray, FloatArray, WordArray
from sfumato.values.randomness import SecretKey, Step
from tests.statistical.families import FAMILIES
from tests.statistical.test_sampler import ALARM, MISS

VALUES = 8
RECORDS = 60_000  # of each value
OFF = 0.05
Sampler = Callable[[CodeArray, WordArray], CodeArray]


def statistic(expected: FloatArray, sampler: Sampler, seed: int) -> float:
    outputs = len(expected)
    codes = np.repeat(np.arange(VALUES, dtype=np.int32), RECORDS)
    words = SecretKey.from_seed(seed).words(Step.PERTURB, file=0, start=0, count=codes.size)
    drawn = sampler(codes, words).astype(np.int64)
    counts = np.bincount(drawn * VALUES + codes, minlength=outputs * VALUES).reshape(outputs, VALUES)
    assert (counts[expected == 0] == 0).all()
    due = RECORDS * expected[expected > 0]
    return float(((counts[expected > 0] - due) ** 2 / due).sum())


def freedom(p: FloatArray) -> int:
    return int(np.count_nonzero(p)) - VALUES


@pytest.mark.parametrize("name", FAMILIES)
def test_draws_are_those_of_the_integers(name: str) -> None:
    matrix = FAMILIES[name](VALUES).matrix
    p = matrix.dense()
    x2 = statistic(p, matrix.sample, seed=31)
    assert chi2.isf(1 - ALARM, freedom(p)) < x2 < chi2.isf(ALARM, freedom(p))  # not too good either


@pytest.mark.parametrize("name", FAMILIES)
def test_a_sampler_that_is_off_by_five_percent_is_found(name: str) -> None:
    matrix = FAMILIES[name](VALUES).matrix
    p = matrix.dense()

    def off(codes: CodeArray, words: WordArray) -> CodeArray:
        wrong = np.random.default_rng(32).random(codes.size) < OFF
        return matrix.sample(np.where(wrong, (codes + VALUES // 2) % VALUES, codes).astype(np.int32), words)

    shown = (1 - OFF) * p + OFF * np.roll(p, -(VALUES // 2), axis=1)
    shift = RECORDS * float(((shown - p)[p > 0] ** 2 / p[p > 0]).sum())
    assert ncx2.cdf(chi2.isf(ALARM, freedom(p)), freedom(p), shift) < MISS
    assert statistic(p, off, seed=33) > chi2.isf(ALARM, freedom(p))
