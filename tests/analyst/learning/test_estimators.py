"""scikit-learn's conventions, and models that find the truth behind the noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import sfumato.sklearn as sk
from tests.analyst.learning.made import channel

VALUES = (1, 3, 7)
SHIFTED, _ = channel([[10, 3, 3], [2, 12, 2], [1, 5, 10]], VALUES)
SHARES = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])  # of the classes, for the two values of the feature


def rows(number: int = 30_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a feature, the true label and the published one."""
    rng = np.random.default_rng(8)
    w = rng.integers(0, 2, number)
    x = (rng.random(number)[:, None] > SHARES.cumsum(axis=1)[w]).sum(axis=1)
    noise = np.array([[10, 3, 3], [2, 12, 2], [1, 5, 10]]) / 16
    y = (rng.random(number)[:, None] > noise.cumsum(axis=1)[x]).sum(axis=1)
    return w[:, None].astype(float), np.array(VALUES)[x], np.array(VALUES)[y]


MODELS: list[Any] = [
    sk.PseudoLabelClassifier(DecisionTreeRegressor(), SHIFTED),
    sk.UnmixedClassifier(LogisticRegression(), SHIFTED),
    sk.PseudoLabelRegressor(make_pipeline(StandardScaler(), LinearRegression()), SHIFTED),
]


def named(model: Any) -> str:
    return type(model).__name__


@pytest.mark.parametrize("model", MODELS, ids=named)
def test_conventions(model: Any) -> None:
    X, _, y = rows(200)
    copy = clone(model)
    assert copy is not model
    assert set(copy.get_params(deep=False)) >= {"estimator", "channel"}
    assert any(name.startswith("estimator__") for name in copy.get_params())
    with pytest.raises(NotFittedError):
        copy.predict(X)
    assert copy.fit(X, y) is copy
    assert not hasattr(model.estimator, "tree_")  # the given model is cloned, never fitted
    assert copy.n_features_in_ == 1
    with pytest.raises(ValueError, match="expecting 1 feature"):
        copy.predict(np.hstack([X, X]))
    assert is_regressor(model) != is_classifier(model)


@pytest.mark.parametrize("model", MODELS[:2], ids=named)
def test_chances_are_those_of_the_true_labels(model: Any) -> None:
    """Standard errors of the shares are about 0.008: four of them."""
    X, _, y = rows()
    fitted = clone(model).fit(X, y)
    chances = fitted.predict_proba(np.array([[0.0], [1.0]]))
    assert chances == pytest.approx(SHARES, abs=0.032)
    assert chances.sum(axis=1) == pytest.approx(1)
    assert fitted.predict(np.array([[0.0], [1.0]])).tolist() == [1, 7]
    published = LogisticRegression().fit(X, y).predict_proba(np.array([[0.0], [1.0]]))
    assert np.abs(published - SHARES).max() > 0.1


def test_the_mean_of_a_randomized_number() -> None:
    X, x, y = rows()
    fitted = clone(MODELS[2]).fit(X, y)
    assert fitted.predict(np.array([[0.0], [1.0]])) == pytest.approx(SHARES @ VALUES, abs=0.2)
    truth = 1 - np.mean((x - fitted.predict(X)) ** 2) / np.var(x)
    assert fitted.score(X, y) == pytest.approx(truth, abs=0.03)
    twos = sk.PseudoLabelRegressor(LinearRegression(), SHIFTED, {1: 0, 3: 0, 7: 1}).fit(X, y)
    assert twos.predict(X[:5]) == pytest.approx(SHARES[X[:5, 0].astype(int), 2], abs=0.032)


@pytest.mark.parametrize("model", MODELS[:2], ids=named)
def test_accuracy_is_that_on_true_labels(model: Any) -> None:
    X, x, y = rows()
    fitted = clone(model).fit(X, y)
    assert fitted.score(X, y) == pytest.approx(np.mean(fitted.predict(X) == x), abs=0.02)
    assert np.mean(fitted.predict(X) == y) < np.mean(fitted.predict(X) == x) - 0.05


def test_predictions_stay_in_range() -> None:
    """A tree that learns each row by heart would predict its pseudo-label, which is negative or above one."""
    _, _, y = rows(12)
    each = np.arange(12.0)[:, None]
    chances = sk.PseudoLabelClassifier(DecisionTreeRegressor(), SHIFTED).fit(each, y).predict_proba(each)
    assert chances.min() >= 0
    assert chances.sum(axis=1) == pytest.approx(1)
    numbers = sk.PseudoLabelRegressor(DecisionTreeRegressor(), SHIFTED).fit(each, y).predict(each)
    assert (SHIFTED.pseudo_labels(y) @ VALUES).min() < 1 <= numbers.min()


def test_cross_validation_and_searches_take_the_corrected_score() -> None:
    X, _, y = rows(600)
    scorer = sk.corrected_score("brier", SHIFTED).scorer
    found = cross_val_score(MODELS[0], X, y, scoring=scorer, cv=3)
    assert ((found < 0) & (found > -1)).all()
    search = GridSearchCV(MODELS[0], {"estimator__max_depth": [1, 2]}, scoring=scorer, cv=2).fit(X, y)
    assert search.best_params_["estimator__max_depth"] in (1, 2)


def test_survey_weights_reach_the_model() -> None:
    X, _, y = rows(300)
    times = np.arange(300) % 3
    model = MODELS[2]
    weighted = clone(model).set_params(estimator=LinearRegression()).fit(X, y, times).predict(X)
    repeated = (
        clone(model).set_params(estimator=LinearRegression()).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    )
    assert weighted == pytest.approx(repeated.predict(X))
