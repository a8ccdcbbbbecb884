"""Tests and criteria: against closed forms, and their level over many releases."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, norm

from sfumato.analyst.regression.comparison import (
    compare,
    information_criterion,
    score_test,
    wald_test,
    weighted_chi_square_tail,
)
from sfumato.analyst.regression.diagnostics import fit_by_cells, hausman, residuals_by_fitted
from sfumato.analyst.regression.families import Logistic
from sfumato.analyst.regression.fit import fit
from sfumato.analyst.regression.problem import Target
from sfumato.values.arrays import FloatArray
from tests.analyst.regression.cases import CASES, source_of
from tests.analyst.regression.made import Model, uniform
from tests.conftest import slow

TARGETS: tuple[Target, ...] = ("table", "population")
W = np.linspace(-1.5, 1.5, 8)


def outcome(*columns: FloatArray) -> Model:
    """Return a randomized yes or no with these columns of the design."""
    return Model(
        Logistic(), np.stack([np.ones(8), *columns], axis=-1)[:, None], np.array([[0.0, 1.0]]), uniform(2, 0.5)
    )


def covariate(*, full: bool) -> Model:
    """Return an untouched yes or no, a number, and (in the full model) a randomized covariate of three."""
    level = np.eye(3)[:, 1:] if full else np.zeros((3, 0))
    design = np.array([[[1, w, *level[k]] for k in range(3)] for w in np.repeat(W, 2)])
    return Model(Logistic(), design, (np.arange(16) % 2.0)[:, None], uniform(3, 0.5))


@pytest.mark.parametrize("target", TARGETS)
def test_one_coefficient(target: Target) -> None:
    """Wald's statistic is (estimate/error)^2; the score statistic is within z^2 where the interval holds 0."""
    found = fit(source_of(CASES["logistic, covariate of 5"]))
    j = 5
    ratio = (found.coefficients[j] / found.standard_errors(target)[j]) ** 2
    assert wald_test(found, [found.names[j]], target).statistic == pytest.approx(ratio)
    tested = score_test(found, [found.names[j]], target)
    z = float(np.sqrt(tested.statistic))
    level = 1 - 2 * float(norm.sf(z))
    assert found.interval(target, level)[j, 0] == pytest.approx(0, abs=1e-5)
    assert tested.p_value == pytest.approx(1 - level)


def test_weighted_sums_of_chi_squares() -> None:
    """Against equal weights, two pairs of equal weights (exponentials), and simulation."""
    assert weighted_chi_square_tail(np.full(3, 2.0), 10.0) == pytest.approx(chi2.sf(5.0, 3))
    both = weighted_chi_square_tail(np.array([3.0, 3, 1, 1]), 12.0)  # the sum of exponentials with means 6 and 2
    assert both == pytest.approx((6 * np.exp(-12 / 6) - 2 * np.exp(-12 / 2)) / 4, abs=1e-7)
    weights = np.array([0.2, 1.0, 2.7, 5.0])
    drawn = np.random.default_rng(0).chisquare(1, size=(400_000, 4)) @ weights
    for value in (1.0, 10.0, 30.0):
        assert weighted_chi_square_tail(weights, value) == pytest.approx((drawn > value).mean(), abs=0.004)
    assert weighted_chi_square_tail(np.zeros(2), 1.0) == 0


@pytest.mark.parametrize("target", TARGETS)
def test_tests_agree_in_large_tables(target: Target) -> None:
    """Wald, score and 2 (L1 - L0) of two coefficients have about the same p-value."""
    random = np.random.default_rng(5)
    larger, smaller = covariate(full=True), covariate(full=False)
    published = larger.published(random, random.integers(3000, 3300, size=(16, 3)).astype(float))
    full, part = fit(larger.source(published)), fit(smaller.source(published))
    p = [t.p_value for t in (wald_test(full, ["x2", "x3"], target), score_test(full, ["x2", "x3"], target))]
    p.append(compare(full, part, target).p_value)
    assert min(p) > 0.001
    assert max(p) - min(p) < 0.01


def test_criterion() -> None:
    """-2 L + 2 tr(H^-1 V) by its definition; without noise in a right saturated model the trace is q."""
    model = outcome(W)
    found = fit(model.truth(np.tile([100.0, 100.0], (8, 1))))
    assert information_criterion(found, "population") == pytest.approx(-2 * found.log_likelihood + 2 * 2)
    assert information_criterion(found, "table") == pytest.approx(-2 * found.log_likelihood)


def drawn(model: Model, random: np.random.Generator, beta: FloatArray, rows: int) -> FloatArray:
    """Return published counts of a table drawn from the model."""
    chance = 1 / (1 + np.exp(-model.design[:, 0] @ beta))
    table = random.multinomial(rows, np.stack([1 - chance, chance], axis=1))
    return model.published(random, table.astype(float))


@pytest.mark.parametrize("releases", [60, slow(1000)])
def test_levels(releases: int) -> None:
    """At 5% true hypotheses are rejected in 5% (Hausman: less), and an omitted square is found."""
    random, names = np.random.default_rng(6), ("Wald", "score", "2 (L1 - L0)", "likelihood ratio", "Pearson", "Hausman")
    rejected = dict.fromkeys(names, 0)
    found = 0
    large, small = outcome(W, W**2), outcome(W)
    for _ in range(releases):
        published = drawn(small, random, np.array([-0.5, 0.8]), 1500)
        full, part = fit(large.source(published)), fit(small.source(published))
        forward = [fit(model.source(published), method="likelihood") for model in (large, small)]
        tests = [wald_test(full, ["x2"], "population"), score_test(full, ["x2"], "population")]
        tests += [
            compare(full, part, "population"),
            compare(*forward, "population"),
            fit_by_cells(forward[1]),
            hausman(part),
        ]
        for test in tests:
            rejected[test.name] += test.p_value < 0.05
        square = drawn(large, random, np.array([-0.5, 0.8, 0.6]), 1500)
        found += fit_by_cells(fit(small.source(square), method="likelihood")).p_value < 0.05
    bound = 4 * np.sqrt(0.05 * 0.95 / releases)
    assert all(abs(rejected[name] / releases - 0.05) < bound for name in names[:-1])
    assert rejected["Hausman"] / releases < 0.05 + bound
    assert found / releases > 0.5


def test_groups_of_fitted_means() -> None:
    """Deviations are standard normal where the model is right, and show an omitted square."""
    random, small, large = np.random.default_rng(7), outcome(W), outcome(W, W**2)
    right = residuals_by_fitted(fit(small.source(drawn(small, random, np.array([-0.5, 0.8]), 4000))), groups=4)
    wrong = residuals_by_fitted(fit(small.source(drawn(large, random, np.array([-0.5, 0.8, 0.8]), 4000))), groups=4)
    assert np.all(np.diff(right.fitted) > 0)
    assert np.abs(right.deviations).max() < 3.5
    assert np.abs(wrong.deviations).max() > 5
    assert np.allclose(right.corrected, right.fitted, atol=0.1)
