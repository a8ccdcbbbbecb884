"""What the estimators ask of the models that they are given, and of weights of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor

from sfumato.analyst.learning.labels import LabelChannel
from sfumato.errors import UsageError

SQUARED = ("squared_error", "friedman_mse")
"""Names of losses whose minimum is the mean."""
OTHER_LOSSES = (
    "HuberRegressor", "LinearSVR", "NuSVR", "QuantileRegressor", "RANSACRegressor", "SVR", "TheilSenRegressor",
    "GammaRegressor", "PoissonRegressor", "TweedieRegressor", "TransformedTargetRegressor",
)  # fmt: skip
"""scikit-learn's models that do not estimate the mean of any numbers by least squares."""


def check_channel(channel: object) -> None:
    """Raise unless the channel is one."""
    if not isinstance(channel, LabelChannel):
        raise UsageError(
            f"channel is {channel!r:.60}, which does not say how the label was published.",
            "Give the channel of `training_data(release, label, features)`.",
        )


def check_least_squares(model: Any, name: str) -> None:
    """Raise unless the model, and each inside a pipeline, is a regressor that as far as can be seen fits means."""
    if not is_regressor(model):
        raise UsageError(
            f"{name} needs a regressor, and {type(model).__name__} is none.",
            "Pseudo-labels are numbers, some of them negative. For a classifier use UnmixedClassifier.",
        )
    parts = {name: value for name, value in model.get_params().items() if value is not None}
    classes = {type(model).__name__, *(type(value).__name__ for value in parts.values())}
    losses = {str(value) for key, value in parts.items() if key.split("__")[-1] in ("loss", "criterion")}
    if strange := sorted(classes & set(OTHER_LOSSES)) + sorted(losses - set(SQUARED)):
        raise UsageError(
            f"{name} needs least squares, and the model has {', '.join(strange)}.",
            "Pseudo-labels are right on average only: medians, quantiles and other losses would be biased. "
            "Choose loss='squared_error' or another model.",
        )


def check_classifier(model: Any, name: str) -> None:
    """Raise unless the model is a classifier with probabilities."""
    if not is_classifier(model) or not hasattr(model, "predict_proba"):
        raise UsageError(
            f"{name} needs a classifier with predict_proba, and {type(model).__name__} is none.",
            "Wrap it in CalibratedClassifierCV; for a regressor use PseudoLabelClassifier.",
        )


def weights_of_rows(sample_weight: Any) -> dict[str, Any]:
    """Return the argument that passes weights on, none where there are none; raise if one is negative."""
    if sample_weight is None:
        return {}
    weights = np.asarray(sample_weight, dtype=np.float64)
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise UsageError(
            "A weight in sample_weight is negative, infinite or missing.",
            "Give survey weights only. The correction is in the labels and needs no weights: with negative ones a "
            "model's loss has no minimum.",
        )
    return {"sample_weight": weights}
