"""Saturated models are today's corrected tables: the same numbers to 1e-9, and the same errors by the delta method."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.analyst.regression.families import Linear, Logistic, Multinomial, Poisson
from sfumato.analyst.regression.fit import fit
from sfumato.values.arrays import FloatArray
from tests.analyst.regression.made import Model, uniform

FINE = np.array([[0.8, 0.1, 0.15], [0.1, 0.7, 0.15], [0.1, 0.2, 0.7]])


def test_a_randomized_covariate() -> None:
    """Log odds of corrected counts, and their errors from the corrected table's covariance."""
    model = Model(
        Logistic(),
        np.tile(np.array([[1.0, 0, 0], [1, 1, 0], [1, 0, 1]]), (2, 1, 1)),
        np.array([[0.0], [1.0]]),
        FINE,
    )
    published = np.array([[400.0, 300, 350], [150, 260, 210]])  # by outcome, then state
    found = fit(model.source(published))
    B = np.linalg.inv(FINE)
    counts = published @ B.T
    odds = np.log(counts[1] / counts[0])
    assert np.allclose(found.coefficients, [odds[0], odds[1] - odds[0], odds[2] - odds[0]], rtol=0, atol=1e-9)
    given_table = _of_log_odds(
        counts, [B @ np.diag(o) @ B.T - np.diag(c) for o, c in zip(published, counts, strict=True)]
    )
    population = _of_log_odds(counts, [B @ np.diag(o) @ B.T for o in published])
    assert np.allclose(found.table, given_table, rtol=1e-9)
    assert np.allclose(found.population, population, rtol=1e-9)


def _of_log_odds(counts: FloatArray, covariances: list[FloatArray]) -> FloatArray:
    own = sum(c / np.outer(n, n) for n, c in zip(counts, covariances, strict=True))
    contrast = np.array([[1.0, 0, 0], [-1, 1, 0], [-1, 0, 1]])
    return np.asarray(contrast @ own @ contrast.T)


def test_a_randomized_outcome() -> None:
    """Multinomial in two strata: log ratios of corrected counts; Poisson and linear: corrected means."""
    design, published = np.array([[[1.0, 0]], [[1.0, 1]]]), np.array([[400.0, 300, 350], [150, 260, 210]])
    counts = published @ np.linalg.inv(FINE).T
    classes, numbers = np.array([[0.0, 1, 2]]), np.array([[0.0, 2, 5]])
    found = fit(Model(Multinomial(("a", "b", "c")), design, classes, FINE).source(published)).coefficients
    log = np.log(counts[:, 1:] / counts[:, :1])
    assert np.allclose(found, np.stack([log[0], log[1] - log[0]], axis=1).ravel(), rtol=0, atol=1e-9)
    means = counts @ numbers[0] / counts.sum(axis=1)
    found = fit(Model(Poisson(), design, numbers, FINE).source(published)).coefficients
    assert np.allclose(found, [np.log(means[0]), np.log(means[1] / means[0])], rtol=0, atol=1e-9)
    found = fit(Model(Linear(), design, numbers, FINE).source(published)).coefficients
    assert np.allclose(found, [means[0], means[1] - means[0]], rtol=0, atol=1e-9)


@pytest.mark.parametrize("p", [0.2, 0.5, 0.9])
def test_score_interval_of_a_share(p: float) -> None:
    """Of an intercept alone the score interval has a closed form: (n_hat - n mu)^2 <= z^2 Var at that mu.

    Given the table Var[n_hat] = sum (y~ - mu)^2 - sum_k n_hat_k (k - mu)^2 does not depend on mu, so the ends are
    logits of (n_hat +- z sd)/n.
    """
    model = Model(Logistic(), np.ones((1, 1, 1)), np.array([[0.0, 1.0]]), uniform(2, p))
    published = np.array([[550.0, 450.0]])
    n, y = 1000.0, (np.array([0.0, 1.0]) - (1 - p) / 2) / p
    corrected = 550 * y[0] + 450 * y[1]
    variance = 550 * y[0] ** 2 + 450 * y[1] ** 2 - corrected
    ends = (corrected + 1.959963984540054 * np.sqrt(variance) * np.array([-1, 1])) / n
    expected = np.log(ends / (1 - ends))
    assert np.allclose(fit(model.source(published)).interval("table")[0], expected, rtol=0, atol=1e-6)
