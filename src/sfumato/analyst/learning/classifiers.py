"""Chances of the true label, by two ways that suit any learner.

    pseudo-labels   regress b(y, k) on w: E[b(y, k) | w] = E[E[b(y, k) | x] | w] = Pr[x = k | w]
    unmixing        learn Pr[y | w], then weigh: sum_y Pr[y | w] b(y, k) = Pr[x = k | w]

Least squares estimates means, so that any learner with squared loss can regress. The noise of a pseudo-label is the
same for all splits of a tree and needs no correction there. At a retention p it is about 1/p^2 times that of a true
label: leaves should hold about 50/p^2 rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from sfumato.analyst.learning.checks import check_channel, check_classifier, check_least_squares, weights_of_rows
from sfumato.analyst.learning.labels import LabelChannel
from sfumato.analyst.learning.scores import corrected_score
from sfumato.analyst.randomized.projection import project
from sfumato.values.arrays import FloatArray


class _TrueLabelClassifier(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier of true labels that is fitted to published ones."""

    def __init__(self, estimator: Any, channel: LabelChannel) -> None:
        self.estimator = estimator
        self.channel = channel

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit to features and published labels. `sample_weight` are survey weights, never negative."""
        check_channel(self.channel)
        self._check_estimator()
        validate_data(self, X, skip_check_array=True)
        weights = weights_of_rows(sample_weight)
        self.classes_ = self.channel.classes
        self._fit(X, y, weights)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the chances of all classes, [rows, classes], in the order of `classes_`."""
        check_is_fitted(self)
        validate_data(self, X, skip_check_array=True, reset=False)
        return project(self._corrected(X), 1.0)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the likeliest class of each row."""
        chances = self.predict_proba(X)
        return np.asarray(self.classes_[chances.argmax(axis=1)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of true labels that are predicted, estimated from published labels."""
        wrong = corrected_score("zero_one", self.channel)
        return 1 - wrong(y, self.predict(X), sample_weight).value

    @abstractmethod
    def _check_estimator(self) -> None:
        """Raise if the model cannot be used."""

    @abstractmethod
    def _fit(self, X: Any, y: Any, weights: dict[str, Any]) -> None:
        """Fit the model or models."""

    @abstractmethod
    def _corrected(self, X: Any) -> FloatArray:
        """Return estimated chances, [rows, classes]; some may be negative."""


class PseudoLabelClassifier(_TrueLabelClassifier):
    """Chances of the true label, by regressing a pseudo-label for each class.

    estimator: a regressor with squared loss, fitted once for each class (once in all for two classes).
    channel: of `training_data`; `y` are the published labels.

    Calibrated as far as the regressor estimates means: on average over rows of the population, after the fitted chances
    are moved to the nearest that are not negative and add up to one. No row's chance has an interval.
    `score` is the accuracy on true labels, corrected.
    """

    def _check_estimator(self) -> None:
        check_least_squares(self.estimator, type(self).__name__)

    def _fit(self, X: Any, y: Any, weights: dict[str, Any]) -> None:
        labels = self.channel.pseudo_labels(y)
        regressed = labels[:, 1:] if self.classes_.size == 2 else labels  # of two the other is one less it
        self.estimators_ = [clone(self.estimator).fit(X, column, **weights) for column in regressed.T]

    def _corrected(self, X: Any) -> FloatArray:
        fitted = np.stack([model.predict(X) for model in self.estimators_], axis=1)
        return np.hstack([1 - fitted, fitted]) if self.classes_.size == 2 else fitted


class UnmixedClassifier(_TrueLabelClassifier):
    """Chances of the true label, from a classifier of the published labels.

    estimator: a classifier whose predict_proba is calibrated on published labels (boosting, logistic regression, or
    any other inside CalibratedClassifierCV). channel: of `training_data`; `y` are the published labels.

    As calibrated as the classifier is: its error of a chance is multiplied by the weights, which at a retention p grow
    as 1/p. Chances are then moved to the nearest that are not negative and add up to one. No row's has an interval.
    `score` is the accuracy on true labels, corrected.
    """

    def _check_estimator(self) -> None:
        check_classifier(self.estimator, type(self).__name__)

    def _fit(self, X: Any, y: Any, weights: dict[str, Any]) -> None:
        self.estimator_ = clone(self.estimator).fit(X, self.channel.codes(y), **weights)

    def _corrected(self, X: Any) -> FloatArray:
        published = np.asarray(self.estimator_.predict_proba(X), dtype=np.float64)
        return np.asarray(published @ self.channel.weights[self.estimator_.classes_])
