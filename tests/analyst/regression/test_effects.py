"""Standardised means and slopes: by their definition, by differences of counts, and over many releases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sfumato.analyst.regression.effects import average_slopes, standardised
from sfumato.analyst.regression.families import Logistic, Multinomial
from sfumato.analyst.regression.fit import fit
from sfumato.values.arrays import FloatArray
from tests.analyst.regression.made import Model, uniform
from tests.analyst.regression.whole import Whole

W = np.repeat([-1.0, 0.0, 1.0, 2.0], 2)


def covariate() -> Model:
    """Return a randomized covariate of three beside an untouched number; settings put the covariate to each value."""
    level = np.eye(3)[:, 1:]
    design = np.array([[[1, w, *level[k]] for k in range(3)] for w in W])
    settings = np.array([[[[1, w, *level[k]]] for w in W] for k in range(3)])
    slopes = np.zeros((1, 1, 1, 4))
    slopes[..., 1] = 1
    more = {"settings": settings, "slopes": slopes}
    return Model(Logistic(), design, (np.arange(8) % 2.0)[:, None], uniform(3, 0.6), (False, False, True, True), more)


def outcome() -> Model:
    """Return a randomized outcome of three classes; settings put the untouched number to 0 and 1."""
    design = np.array([[[1.0, w]] for w in W])
    settings = np.array([[[[1.0, x]] for _ in W] for x in (0.0, 1.0)])
    more = {"settings": settings, "slopes": np.array([[[[0.0, 1.0]]]])}
    return Model(Multinomial(("a", "b", "c")), design, np.array([[0.0, 1, 2]]), uniform(3, 0.6), more=more)


MODELS = {"covariate": covariate, "outcome": outcome}


def counts(model: Model, scale: float = 1.0) -> FloatArray:
    """Return a table."""
    return scale * np.random.default_rng(1).integers(100, 300, size=(8, 3)).astype(float)


def means(model: Model, beta: FloatArray, table: FloatArray) -> FloatArray:
    """Return the standardised means of a table by their definition."""
    B = beta.reshape(model.family.equations, -1).T
    share = table.sum(axis=1) / table.sum()
    return np.concatenate([share @ model.family.mean(design @ B)[:, 0] for design in model.more["settings"]])


@pytest.mark.parametrize("kind", MODELS)
def test_without_noise(kind: str) -> None:
    """The mean over rows of mu with the column set to a value; slopes by small differences."""
    model = MODELS[kind]()
    table = counts(model)
    found = fit(model.truth(table))
    assert np.allclose(standardised(found).values, means(model, found.coefficients, table), rtol=0, atol=1e-12)
    assert np.allclose(standardised(found).standard_errors("table"), 0, atol=1e-9)
    B, small = found.coefficients.reshape(model.family.equations, -1).T, 1e-6
    moved = [model.family.mean((model.design + d * model.more["slopes"][0]) @ B) for d in (small, -small)]
    slope = np.broadcast_to((moved[0] - moved[1]) / (2 * small), (8, 3, model.family.equations))
    expected = np.einsum("gk,gke->e", table, slope) / table.sum()
    assert np.allclose(average_slopes(found).values, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("effect", [standardised, average_slopes])
def test_population_errors_by_moving_counts(kind: str, effect: type) -> None:
    """Var = sum over cells of count (d theta/d count)^2, the derivative by fitting again."""
    model = MODELS[kind]()
    published = model.published(np.random.default_rng(2), counts(model))
    whole = model.source(published)
    found = effect(fit(whole))
    total = np.zeros_like(found.values)
    for r, count in enumerate(whole.cells.count):
        ends = [effect(fit(_moved(whole, r, d))).values for d in (1e-3, -1e-3)]
        total += count * ((ends[0] - ends[1]) / 2e-3) ** 2
    assert np.allclose(found.standard_errors("population") ** 2, total, rtol=1e-4)


def _moved(whole: Whole, r: int, by: float) -> Whole:
    count = whole.cells.count.copy()
    count[r] += by
    return replace(whole, cells=replace(whole.cells, count=count, squares=count))


@pytest.mark.parametrize("kind", MODELS)
def test_table_errors_over_releases(kind: str) -> None:
    """Squared distances from the table's own value, over their variances: chi-square; errors off by 15% are found."""
    model, random, releases = MODELS[kind](), np.random.default_rng(3), 150
    table = counts(model, 10)
    truth = standardised(fit(model.truth(table))).values
    total = 0.0
    for _ in range(releases):
        found = standardised(fit(model.source(model.published(random, table))))
        off = found.values - truth
        total += float(off @ np.linalg.solve(found.covariance("table"), off))
    freedom = releases * truth.size
    assert abs(total / freedom - 1) < 4 * np.sqrt(2 / freedom)
    assert abs(total * 1.15**2 / freedom - 1) > 4 * np.sqrt(2 / freedom)


def test_contrasts() -> None:
    """A risk difference, with the covariance between both risks."""
    model = covariate()
    found = standardised(fit(model.source(model.published(np.random.default_rng(4), counts(model)))))
    difference = found.contrasted(np.array([[-1.0, 1.0, 0.0]]))
    c = found.covariance("table")
    assert difference.values[0] == pytest.approx(found.values[1] - found.values[0])
    assert difference.standard_errors("table")[0] ** 2 == pytest.approx(c[0, 0] + c[1, 1] - 2 * c[0, 1])
