"""How good predictions of true labels are, from rows that have published labels only.

    loss    mean_i sum_k b(y_i, k) loss(k, f(w_i))                                     unbiased
    AUC     sum_{i != j} t_i (1 - t_j) h(f_i, f_j) / sum_{i != j} t_i (1 - t_j)        t_i = b(y_i, positive)

h is 1 where f_i > f_j, 1/2 where they are equal, else 0. Above and below the line are unbiased, since the noise of two
rows is independent; the quotient is nearly so. Standard errors are by rows: they cover the noise and the choice of the
rows from a population. The model must not have seen the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sfumato.analyst.answer import check_level
from sfumato.analyst.learning.labels import LabelChannel
from sfumato.errors import UsageError
from sfumato.show.plots import error_bars
from sfumato.show.results import Drawn
from sfumato.values.arrays import FloatArray

LossName = Literal["brier", "log", "zero_one", "squared"]
Loss = Callable[[Any, Any], FloatArray]
"""Of a class, the same for all rows, and of the predictions: a number for each row."""
LEAST_CHANCE = 1e-15
"""Below it the logarithm of a chance is that of this one."""


@dataclass(frozen=True)
class Score:
    """An estimate with its standard error."""

    value: float
    standard_error: float

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the two ends of the normal interval."""
        check_level(level)
        half = NormalDist().inv_cdf((1 + level) / 2) * self.standard_error
        return self.value - half, self.value + half

    def __repr__(self) -> str:
        lower, upper = self.interval()
        return f"{self.value:.4g} +- {self.standard_error:.2g} (95% interval {lower:.4g} to {upper:.4g})"


@dataclass(frozen=True, eq=False)
class CorrectedScore:
    """A loss on true labels, to be called with published labels and predictions. Make one with `corrected_score`."""

    loss: Loss
    channel: LabelChannel

    def __call__(self, y: Any, prediction: Any, sample_weight: Any = None) -> Score:
        """Return the mean loss. `prediction`: chances [rows, classes], or a class or number for each row."""
        labels, predicted = self.channel.pseudo_labels(y), np.asarray(prediction)
        _check_rows(len(labels), len(predicted))
        columns = [
            share * np.asarray(self.loss(label, predicted), dtype=np.float64)
            for label, share in zip(self.channel.classes, labels.T, strict=True)
        ]
        return _mean(np.sum(columns, axis=0), sample_weight)

    def scorer(self, estimator: Any, X: Any, y: Any) -> float:
        """Return the mean loss, negative: what `scoring=` takes in cross-validation, where more is better."""
        predicted = estimator.predict_proba(X) if hasattr(estimator, "predict_proba") else estimator.predict(X)
        return -self(y, predicted).value


def corrected_score(
    loss: LossName | Loss, channel: LabelChannel, scores: Mapping[Any, float] | None = None
) -> CorrectedScore:
    """Return the score of predictions on rows whose labels are randomized.

    loss: "brier" (halved for two classes, as scikit-learn does) or "log" of chances, "zero_one" of classes or chances,
    "squared" of numbers, with `scores` where classes are none; or a function of a class and the predictions.
    """
    if callable(loss):
        return CorrectedScore(loss, channel)
    losses: dict[str, Callable[[], Loss]] = {
        "brier": lambda: _Brier(channel),
        "log": lambda: _Log(channel),
        "zero_one": lambda: _ZeroOne(channel),
        "squared": lambda: _Squared(channel, numbers_of(channel, scores)),
    }
    if loss not in losses:
        raise UsageError(
            f"There is no loss {loss!r}: there are {', '.join(losses)}.",
            "Choose one, or give a function of a class and the predictions that returns a number for each row.",
        )
    return CorrectedScore(losses[loss](), channel)


# --- losses (classes, so that scorers can be sent to other processes) -------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Brier:
    channel: LabelChannel

    def __call__(self, label: Any, chances: Any) -> FloatArray:
        """Return sum_k (f_k - 1{k = label})^2, halved for two classes."""
        _check_chances(self.channel, chances)
        true = self.channel.classes == label
        squares: FloatArray = ((chances - true) ** 2).sum(axis=1)
        return squares / 2 if true.size == 2 else squares


@dataclass(frozen=True, eq=False)
class _Log:
    channel: LabelChannel

    def __call__(self, label: Any, chances: Any) -> FloatArray:
        _check_chances(self.channel, chances)
        own = chances[:, self.channel.number_of(label)]
        return np.asarray(-np.log(np.clip(own, LEAST_CHANCE, None)))


@dataclass(frozen=True, eq=False)
class _ZeroOne:
    channel: LabelChannel

    def __call__(self, label: Any, predicted: Any) -> FloatArray:
        if predicted.ndim == 2:
            _check_chances(self.channel, predicted)
            predicted = self.channel.classes[predicted.argmax(axis=1)]
        return np.asarray(predicted != label, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Squared:
    channel: LabelChannel
    numbers: FloatArray

    def __call__(self, label: Any, predicted: Any) -> FloatArray:
        return np.asarray((predicted - self.numbers[self.channel.number_of(label)]) ** 2)


def numbers_of(channel: LabelChannel, scores: Mapping[Any, float] | None) -> FloatArray:
    """Return the number of each class: by the scores, or the classes themselves."""
    if scores is None:
        if channel.classes.dtype.kind not in "iuf":
            raise UsageError(
                f"The classes of {channel.column!r} are no numbers.",
                "Give scores, a number for each class: scores={'low': 1, 'high': 2}.",
            )
        return channel.classes.astype(np.float64)
    if missing := [label for label in channel.classes.tolist() if label not in scores]:
        raise UsageError(f"scores has no number for {missing[0]!r}.", "Give a number for each class.")
    return np.array([scores[label] for label in channel.classes.tolist()], dtype=np.float64)


# --- ranking ----------------------------------------------------------------------------------------------------------


def corrected_auc(channel: LabelChannel, y: Any, prediction: Any, positive: Any) -> Score:
    """Return the chance that a row of the class `positive` gets a larger prediction than one of the other classes."""
    label = channel.pseudo_labels(y)[:, channel.number_of(positive)]
    predicted = np.asarray(prediction, dtype=np.float64)
    _check_rows(label.size, predicted.size)
    won, lost = _pairs(1 - label, predicted), _pairs(label, -predicted)
    against = (1 - label).sum() - (1 - label)  # of the other rows
    pairs = float(label @ against)
    if pairs <= 0:
        raise UsageError(
            f"The numbers of rows with and without '{positive}', estimated from these rows, are not both positive.",
            "Score on more rows, or on a class that is less rare.",
        )
    auc = float(label @ won) / pairs
    # a row is first or second in a pair: each row's share in (above - AUC below), to first order
    share = label * (won - auc * against) + (1 - label) * (lost - auc * (label.sum() - label))
    return Score(auc, math.sqrt(float(share @ share)) / pairs)


def _pairs(other: FloatArray, predicted: FloatArray) -> FloatArray:
    """Return sum_{j != i} other_j h(f_i, f_j) for each row i."""
    _, place = np.unique(predicted, return_inverse=True)
    tied = np.bincount(place, weights=other)
    below = np.cumsum(tied) - tied
    return below[place] + (tied[place] - other) / 2


# --- calibration ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Drawn):
    """Predicted chances of a class beside the corrected shares, by bins of equal numbers of rows."""

    positive: Any
    rows: npt.NDArray[np.int64]
    predicted: FloatArray  # mean chance of each bin
    share: FloatArray  # mean pseudo-label
    standard_error: FloatArray

    @property
    def error(self) -> float:
        """The mean distance of predicted chances and shares, by rows; noise in the shares makes it larger."""
        return float(np.average(np.abs(self.predicted - self.share), weights=self.rows))

    def __repr__(self) -> str:
        return f"Calibration of the chance of '{self.positive}': off by {self.error:.3f} on average"

    def to_arrow(self) -> Any:
        """Return a row for each bin."""
        import pyarrow as pa

        half = NormalDist().inv_cdf(0.975) * self.standard_error
        numbers = {"predicted": self.predicted, "rows": self.rows, "estimate": self.share}
        ends = {"standard_error": self.standard_error, "lower": self.share - half, "upper": self.share + half}
        return pa.table(numbers | ends)

    def _drawing(self, title: str) -> dict[str, Any]:
        import pyarrow as pa

        bins = [f"bin {number}: predicted {chance:.3f}" for number, chance in enumerate(self.predicted, 1)]
        drawn = self.to_arrow().select(["estimate", "lower", "upper"])
        table = drawn.add_column(0, "chance", pa.array(bins))
        return error_bars(table, ("chance",), title or repr(self), "Share of rows with the label, corrected", 0.95)


def corrected_calibration(channel: LabelChannel, y: Any, prediction: Any, positive: Any, bins: int = 10) -> Calibration:
    """Return the mean predicted chance and the corrected share of the class `positive` in bins of the chance."""
    label = channel.pseudo_labels(y)[:, channel.number_of(positive)]
    predicted = np.asarray(prediction, dtype=np.float64)
    _check_rows(label.size, predicted.size)
    if not 1 <= bins <= label.size // 2:
        raise UsageError(f"{label.size} rows do not make {bins} bins of two or more.", "Ask for fewer bins.")
    parts = np.array_split(np.argsort(predicted, kind="stable"), bins)
    scores = [_mean(label[part], None) for part in parts]
    return Calibration(
        positive,
        np.array([part.size for part in parts]),
        np.array([predicted[part].mean() for part in parts]),
        np.array([score.value for score in scores]),
        np.array([score.standard_error for score in scores]),
    )


# --- shared -----------------------------------------------------------------------------------------------------------


def _mean(losses: FloatArray, sample_weight: Any) -> Score:
    """Return the (weighted) mean and its standard error by rows."""
    weights = np.ones(losses.size) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    total = weights.sum()
    if not ((weights >= 0).all() and total > 0):
        raise UsageError(
            "Weights of rows must not be negative, and not all be zero.", "Give survey weights, or leave them out."
        )
    mean = float(losses @ weights / total)
    spread = float((weights**2) @ (losses - mean) ** 2) * losses.size / (losses.size - 1)
    return Score(mean, math.sqrt(spread) / float(total))


def _check_rows(labels: int, predictions: int) -> None:
    if labels != predictions or labels < 2:
        raise UsageError(
            f"There are {labels:,} labels and {predictions:,} predictions.",
            "Give a prediction for each of two or more rows.",
        )


def _check_chances(channel: LabelChannel, chances: Any) -> None:
    if chances.ndim != 2 or chances.shape[1] != channel.classes.size:
        raise UsageError(
            f"Predictions have the shape {chances.shape}, and {channel.column!r} has {channel.classes.size} classes.",
            "Give predict_proba(X), with a column for each class of the channel.",
        )
