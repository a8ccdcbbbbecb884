"""All releases that a tiny table can have, with exact chances: models and scores are those of the truth on average."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.metrics import brier_score_loss, log_loss

from sfumato.analyst.learning.classifiers import PseudoLabelClassifier
from sfumato.analyst.learning.labels import LabelChannel
from sfumato.analyst.learning.scores import corrected_score
from sfumato.values.mechanism import Mechanism
from tests.analyst.learning.made import channel

W = np.array([[0.0], [1.0], [2.0], [4.0]])
VALUES = ("a", "b", "c")
TRUE = ["a", "c", "b", "c"]
SHIFTED = [[10, 3, 3], [2, 12, 2], [1, 5, 10]]
CHANCES = np.array([[0.5, 0.2, 0.3], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [0.25, 0.5, 0.25]])


def releases(mechanism: Mechanism, true: list[str]) -> Iterator[tuple[float, list[str]]]:
    """Yield each list of labels that can be published, with its chance, in integers."""
    matrix, codes = mechanism.matrix, [VALUES.index(x) for x in true]
    for outputs in product(range(matrix.outputs), repeat=len(true)):
        chance = Fraction(prod(matrix.weight(y, x) for y, x in zip(outputs, codes, strict=True)), 1 << 64 * len(true))
        yield float(chance), [VALUES[y] for y in outputs]


@pytest.fixture(scope="module")
def made() -> tuple[LabelChannel, Mechanism]:
    return channel(SHIFTED, VALUES)


def test_models_by_pseudo_labels_are_right_on_average(made: tuple[LabelChannel, Mechanism]) -> None:
    """Least squares are linear in the labels: the mean over all releases is the fit to the true ones."""
    of_label, mechanism = made
    mean = np.zeros(3)
    for chance, y in releases(mechanism, TRUE):
        model = PseudoLabelClassifier(LinearRegression(), of_label).fit(W, y)
        mean += chance * np.array([each.coef_[0] for each in model.estimators_])
    for slope, value in zip(mean, VALUES, strict=True):
        assert slope == pytest.approx(LinearRegression().fit(W, np.array(TRUE) == value).coef_[0], abs=1e-12)


@pytest.mark.parametrize("loss", ["brier", "log", "zero_one"])
def test_losses_are_right_on_average(loss: str, made: tuple[LabelChannel, Mechanism]) -> None:
    of_label, mechanism = made
    score = corrected_score(loss, of_label)  # type: ignore[arg-type]
    mean = sum(chance * score(y, CHANCES).value for chance, y in releases(mechanism, TRUE))
    truth = {
        "brier": brier_score_loss(TRUE, CHANCES, labels=list(VALUES)),
        "log": log_loss(TRUE, CHANCES, labels=list(VALUES)),
        "zero_one": np.mean([VALUES[k] != x for k, x in zip(CHANCES.argmax(axis=1), TRUE, strict=True)]),
    }[loss]
    assert mean == pytest.approx(truth, abs=1e-12)


def test_the_published_labels_taken_for_true_are_not(made: tuple[LabelChannel, Mechanism]) -> None:
    _, mechanism = made
    naive = sum(c * log_loss(y, CHANCES, labels=list(VALUES)) for c, y in releases(mechanism, TRUE))
    assert abs(naive - log_loss(TRUE, CHANCES, labels=list(VALUES))) > 0.05


def test_pairs_are_right_on_average(made: tuple[LabelChannel, Mechanism]) -> None:
    """Above and below the line of the AUC, by loops over all pairs of different rows."""
    of_label, mechanism = made
    predicted = [0.3, 0.3, 0.1, 0.9]

    def wins(i: int, j: int) -> float:
        return (predicted[i] > predicted[j]) + (predicted[i] == predicted[j]) / 2

    def pairs(label: np.ndarray) -> np.ndarray:
        chosen = [(i, j) for i in range(4) for j in range(4) if i != j]
        return sum(label[i] * (1 - label[j]) * np.array([wins(i, j), 1]) for i, j in chosen)

    mean = sum(c * pairs(of_label.pseudo_labels(y)[:, 2]) for c, y in releases(mechanism, TRUE))
    assert mean == pytest.approx(pairs(np.array([x == "c" for x in TRUE], dtype=float)), abs=1e-12)
