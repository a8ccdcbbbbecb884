"""A release without noise gives what statsmodels gives for the true table, with its robust errors (HC0)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm

from sfumato.analyst.regression.families import Family, Linear, Logistic, Multinomial, Poisson
from sfumato.analyst.regression.fit import fit
from sfumato.analyst.regression.problem import Cells
from sfumato.values.arrays import FloatArray, IntArray
from tests.analyst.regression.whole import Whole

N = 400


def columns() -> tuple[FloatArray, IntArray]:
    """Return two covariates: a number, and a level of three."""
    random = np.random.default_rng(11)
    return random.normal(size=N), random.integers(0, 3, N)


def noiseless(family: Family, outcome: FloatArray, **more: FloatArray | IntArray) -> Whole:
    """Return rows whose level is a state that is published as it is."""
    w, level = columns()
    states = np.arange(3)
    design = np.stack(
        [np.stack([np.ones(N), w, np.full(N, k == 1), np.full(N, k == 2)], axis=-1) for k in states], axis=1
    )
    one = np.ones(N)
    cells = Cells(np.eye(3)[level], design.astype(float), outcome[:, None], one, one, published=level)
    return Whole(("one", "w", "b", "c"), (False, False, True, True), family, replace(cells, **more))  # type: ignore[arg-type]


def theirs() -> FloatArray:
    """Return the design of the true table."""
    w, level = columns()
    return np.stack([np.ones(N), w, level == 1, level == 2], axis=-1).astype(float)


def outcomes(kind: str) -> FloatArray:
    """Return an outcome of a family."""
    random, eta = np.random.default_rng(12), theirs() @ [0.1, 0.5, -0.4, 0.6]
    if kind == "logistic":
        return (random.random(N) < 1 / (1 + np.exp(-eta))).astype(float)
    return random.poisson(np.exp(eta)).astype(float) if kind == "poisson" else eta + random.normal(size=N)


FAMILIES = {
    "logistic": (Logistic(), sm.families.Binomial()),
    "poisson": (Poisson(), sm.families.Poisson()),
    "linear": (Linear(), sm.families.Gaussian()),
}


@pytest.mark.parametrize("kind", FAMILIES)
def test_coefficients_and_robust_errors(kind: str) -> None:
    """Population errors are those of a sandwich; given the table there is no error at all."""
    ours, family = FAMILIES[kind]
    y = outcomes(kind)
    expected = sm.GLM(y, theirs(), family=family).fit(cov_type="HC0", tol=1e-13)
    found = fit(noiseless(ours, y))
    assert np.allclose(found.coefficients, expected.params, rtol=0, atol=1e-9)
    assert np.allclose(found.population, expected.cov_params(), rtol=1e-6)
    assert np.allclose(found.table, 0, atol=1e-15)
    assert np.allclose(found.naive, found.coefficients, rtol=0, atol=1e-9)


def test_offset() -> None:
    """Poisson with exposure."""
    y, exposure = outcomes("poisson"), np.exp(np.random.default_rng(3).normal(size=N))
    expected = sm.GLM(y, theirs(), family=sm.families.Poisson(), offset=np.log(exposure)).fit(tol=1e-13)
    found = fit(noiseless(Poisson(), y, offset=np.log(exposure)[:, None]))
    assert np.allclose(found.coefficients, expected.params, rtol=0, atol=1e-9)


def test_weights() -> None:
    """Weights of a survey, with the sandwich of weighted equations."""
    y, omega = outcomes("logistic"), np.random.default_rng(3).uniform(0.5, 3, N)
    expected = sm.GLM(y, theirs(), family=sm.families.Binomial(), var_weights=omega).fit(cov_type="HC0", tol=1e-13)
    found = fit(noiseless(Logistic(), y, count=omega, squares=omega**2))
    assert np.allclose(found.coefficients, expected.params, rtol=0, atol=1e-9)
    assert np.allclose(found.population, expected.cov_params(), rtol=1e-6)


def test_clusters() -> None:
    """Persons with several rows."""
    y, person = outcomes("logistic"), np.random.default_rng(3).integers(0, 80, N)
    model = sm.GLM(y, theirs(), family=sm.families.Binomial())
    expected = model.fit(
        cov_type="cluster", cov_kwds={"groups": person, "use_correction": False, "df_correction": False}, tol=1e-13
    )
    found = fit(noiseless(Logistic(), y, cluster=person))
    assert np.allclose(found.population, expected.cov_params(), rtol=1e-6)


def test_multinomial() -> None:
    """Classes by class, then by column."""
    random = np.random.default_rng(4)
    y = random.integers(0, 3, N)
    expected = sm.MNLogit(y, theirs()).fit(disp=0, tol=1e-14, method="newton")
    found = fit(noiseless(Multinomial(("a", "b", "c")), y.astype(float)))
    assert found.names[:2] == ("b: one", "b: w")
    assert np.allclose(found.coefficients, expected.params.T.ravel(), rtol=0, atol=1e-8)
    assert np.allclose(np.linalg.inv(found.information), expected.cov_params(), rtol=1e-6)
