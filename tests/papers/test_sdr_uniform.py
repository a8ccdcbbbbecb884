"""SDR sections 1-3: Table 1 and uniform perturbation."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.analyst.randomized import inverse
from sfumato.values.matrix.retention import PerturbationMatrix, uniform_retention

TABLE_1 = {77: (5, 1), 70: (5, 1), 50: (7, 2), 14: (22, 6), 9: (31, 8), 7: (36, 9), 6: (40, 10), 2: (67, 17)}


@pytest.mark.parametrize(("m", "percent"), TABLE_1.items())
def test_table_1(m: int, percent: tuple[int, int]) -> None:
    p = uniform_retention(5, m)
    assert (round(100 * p), round(100 * (1 - p) / m)) == percent


def test_section_1_1_large_domains() -> None:
    """ICD-9, m = 15,000: q = 6.7e-5, p + q = 3.3e-4; m = 5,390: q = 1.9e-4, and the printed 7.4e-4 is p."""
    p = uniform_retention(5, 15_000)
    assert (1 - p) / 15_000 == pytest.approx(6.7e-5, rel=0.01)
    assert p + (1 - p) / 15_000 == pytest.approx(3.3e-4, rel=0.02)
    p = uniform_retention(5, 5390)
    assert p == pytest.approx(7.4e-4, rel=0.01)
    assert p + (1 - p) / 5390 == pytest.approx(9.3e-4, rel=0.01)


def test_equation_5_and_7() -> None:
    """The matrix is (gamma on the diagonal, 1 elsewhere) / (m-1+gamma), and f* = ((m-1+gamma) o - |T|)/(gamma-1)."""
    m, gamma = 10, 4.0
    matrix = PerturbationMatrix.from_retention([uniform_retention(gamma, m)] * m)
    expected = (np.ones((m, m)) + (gamma - 1) * np.eye(m)) / (m - 1 + gamma)
    assert matrix.dense() == pytest.approx(expected, abs=1e-15)
    observed = np.array([9, 7, 6, 5, 4, 3, 3, 2, 2, 1], dtype=float)
    by_equation_7 = ((m - 1 + gamma) * observed - observed.sum()) / (gamma - 1)
    assert inverse.estimate(matrix, observed) == pytest.approx(by_equation_7, abs=1e-12)
