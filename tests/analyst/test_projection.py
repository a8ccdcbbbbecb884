"""Projection onto tables without negative counts, against all active sets and against SciPy."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from sfumato.analyst.randomized.projection import project
from sfumato.values.arrays import FloatArray


def best_of_all_supports(v: FloatArray, total: float) -> FloatArray:
    """Return the nearest point among the projections onto the affine hull of every face of the simplex."""
    best, distance = np.zeros_like(v), np.inf
    for size in range(1, len(v) + 1):
        for support in map(list, combinations(range(len(v)), size)):
            x = np.zeros_like(v)
            x[support] = v[support] + (total - v[support].sum()) / size
            if x.min() >= -1e-12 and np.sum((x - v) ** 2) < distance:
                best, distance = x, float(np.sum((x - v) ** 2))
    return best


def test_agrees_with_the_best_of_all_supports() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        m = int(rng.integers(1, 7))
        v = rng.normal(size=m) * 10 + rng.choice([0, 5])
        if rng.random() < 0.3:
            v = np.round(v / 5) * 5  # ties
        total = float(rng.choice([0.0, 1.0, 30.0, 1000.0]))
        assert project(v, total) == pytest.approx(best_of_all_supports(v, total), abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_slsqp(seed: int) -> None:
    rng = np.random.default_rng(seed)
    v = rng.normal(size=12) * 3
    v += (10 - v.sum()) / 12
    found = minimize(
        lambda x: float(np.sum((x - v) ** 2)),
        np.full(12, 10 / 12),
        jac=lambda x: 2 * (x - v),
        bounds=[(0, None)] * 12,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 10, "jac": lambda x: np.ones(12)},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert project(v) == pytest.approx(found.x, abs=1e-5)


def test_rows_are_projected_one_by_one_and_keep_their_sums() -> None:
    rng = np.random.default_rng(2)
    v = rng.normal(size=(50, 9)) * 100 + 20
    v -= np.minimum(v.sum(axis=1, keepdims=True) - 1, 0) / 9  # no negative sums
    x = project(v)
    assert x.min() >= 0
    assert x.sum(axis=1) == pytest.approx(v.sum(axis=1), abs=1e-9)
    assert np.allclose(x, [project(row) for row in v])
    totals = rng.integers(0, 1000, 50).astype(float)
    assert project(v, totals).sum(axis=1) == pytest.approx(totals, abs=1e-9)
    assert project(v.reshape(5, 10, 9)).shape == (5, 10, 9)
    assert project(np.empty((0, 4))).shape == (0, 4)


def test_leaves_a_table_without_negative_counts_alone_and_comes_nearer_to_each() -> None:
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 30, (200, 6)).astype(float)
    assert np.allclose(project(truth), truth)
    estimate = truth + rng.normal(size=truth.shape) * 20
    estimate += (truth.sum(axis=1) - estimate.sum(axis=1))[:, None] / 6
    after = np.sum((project(estimate, truth.sum(axis=1)) - truth) ** 2, axis=1)
    assert (after <= np.sum((estimate - truth) ** 2, axis=1) + 1e-9).all()


def test_large_counts_do_not_round() -> None:
    v = np.array([1e12 + 3.0, 1e12 + 1.0, -5.0])
    assert project(v, 4.0) == pytest.approx([3.0, 1.0, 0.0], abs=1e-3)


def test_refuses_a_negative_sum() -> None:
    with pytest.raises(ValueError, match="negative sum"):
        project(np.array([1.0, -2.0]))
