"""The mean of a randomized number given the features, from pseudo-labels: E[sum_k b(y, k) score(k) | w]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from sfumato.analyst.learning.checks import check_channel, check_least_squares, weights_of_rows
from sfumato.analyst.learning.labels import LabelChannel
from sfumato.analyst.learning.scores import corrected_score, numbers_of
from sfumato.errors import UsageError
from sfumato.values.arrays import FloatArray


class PseudoLabelRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The mean of a randomized number, or of any score of the label, by regressing sum_k b(y, k) score(k).

    estimator: a regressor with squared loss. channel: of `training_data`; `y` are the published labels.
    scores: a number for each class, as a mapping; by default the classes themselves, which must be numbers.

    Predictions are clipped to the range of the scores. They are means of the population; no row's has an interval.
    `score` is the share of the true variance that is explained (R^2), corrected.
    """

    def __init__(self, estimator: Any, channel: LabelChannel, scores: Mapping[Any, float] | None = None) -> None:
        self.estimator = estimator
        self.channel = channel
        self.scores = scores

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> PseudoLabelRegressor:
        """Fit the regressor to features and published labels."""
        check_channel(self.channel)
        check_least_squares(self.estimator, type(self).__name__)
        validate_data(self, X, skip_check_array=True)
        weights = weights_of_rows(sample_weight)
        self.numbers_ = numbers_of(self.channel, self.scores)
        self.estimator_ = clone(self.estimator).fit(X, self.channel.pseudo_labels(y) @ self.numbers_, **weights)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the mean score of rows with these features."""
        check_is_fitted(self)
        validate_data(self, X, skip_check_array=True, reset=False)
        fitted = np.asarray(self.estimator_.predict(X), dtype=np.float64)
        return np.clip(fitted, self.numbers_.min(), self.numbers_.max())

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return 1 - (squared error of the predictions)/(squared error of the mean), both corrected."""
        squared = corrected_score("squared", self.channel, self.scores)
        predicted = self.predict(X)
        weights = weights_of_rows(sample_weight).get("sample_weight")
        mean = np.average(self.channel.pseudo_labels(y) @ numbers_of(self.channel, self.scores), weights=weights)
        spread = squared(y, np.full(predicted.size, mean), sample_weight).value
        if spread <= 0:
            raise UsageError(
                "The variance of the true label, estimated from these rows, is not positive.",
                "Score on more rows, or look at corrected_score('squared', channel).",
            )
        return 1 - squared(y, predicted, sample_weight).value / spread
