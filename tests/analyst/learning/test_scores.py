"""Scores beside scikit-learn's where there is no noise, beside loops where there is, and their standard errors."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from sfumato.analyst.learning.labels import LabelChannel
from sfumato.analyst.learning.scores import Score, corrected_auc, corrected_calibration, corrected_score
from tests.analyst.learning.made import channel

KEPT = LabelChannel("x", np.array(["no", "yes"]), np.array(["no", "yes"]), np.eye(2))
NOISY, _ = channel([[13, 3], [5, 11]], ("no", "yes"))


def simulated(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return chances, true labels drawn with them, and labels published by NOISY."""
    chance = rng.choice([0.1, 0.3, 0.35, 0.8], rows)
    true = rng.random(rows) < chance
    published = rng.random(rows) < np.where(true, 11 / 16, 3 / 16)
    return chance, true, np.where(published, "yes", "no")


def test_without_noise_they_are_scikit_learns() -> None:
    chance, true, _ = simulated(np.random.default_rng(1), 200)
    y, both = np.where(true, "yes", "no"), np.stack([1 - chance, chance], axis=1)
    assert corrected_score("brier", KEPT)(y, both).value == pytest.approx(brier_score_loss(true, chance))
    assert corrected_score("log", KEPT)(y, both).value == pytest.approx(log_loss(true, chance))
    assert corrected_score("zero_one", KEPT)(y, both).value == pytest.approx(np.mean(true != (chance > 0.5)))
    assert corrected_auc(KEPT, y, chance, "yes").value == pytest.approx(roc_auc_score(true, chance))
    scores = {"no": 0, "yes": 1}
    assert corrected_score("squared", KEPT, scores)(y, chance).value == pytest.approx(np.mean((true - chance) ** 2))


@given(st.lists(st.tuples(st.sampled_from(["no", "yes"]), st.integers(0, 4)), min_size=8, max_size=30))
def test_auc_is_that_of_all_pairs(rows: list[tuple[str, int]]) -> None:
    y, predicted = [row[0] for row in rows], [row[1] for row in rows]
    label = NOISY.pseudo_labels(y)[:, 1]
    pairs = [(i, j) for i in range(len(y)) for j in range(len(y)) if i != j]
    below = sum(label[i] * (1 - label[j]) for i, j in pairs)
    if below <= 0.1:
        return
    above = sum(
        label[i] * (1 - label[j]) * ((predicted[i] > predicted[j]) + (predicted[i] == predicted[j]) / 2)
        for i, j in pairs
    )
    assert corrected_auc(NOISY, y, predicted, "yes").value == pytest.approx(above / below)


def figures(y: np.ndarray, chance: np.ndarray, of_label: LabelChannel = NOISY) -> list[Score]:
    brier = corrected_score("brier", of_label)(y, np.stack([1 - chance, chance], axis=1))
    return [brier, corrected_auc(of_label, y, chance, "yes")]


def test_standard_errors_are_those_of_repeated_draws() -> None:
    """400 tables of 500 rows: the spread is known to 3.5%, so 15% is beyond four standard errors; 30% off is found."""
    rng = np.random.default_rng(2)
    drawn = [figures(y, chance) for chance, _, y in (simulated(rng, 500) for _ in range(400))]
    for each in zip(*drawn, strict=True):
        seen, stated = np.std([s.value for s in each]), np.mean([s.standard_error for s in each])
        assert stated == pytest.approx(seen, rel=0.15)
        assert 1.3 * stated != pytest.approx(seen, rel=0.15)


def test_calibration_shows_the_true_shares() -> None:
    chance, _, y = simulated(np.random.default_rng(3), 20_000)
    found = corrected_calibration(NOISY, y, chance, NOISY.classes[1], bins=5)
    off = (found.share - found.predicted) / found.standard_error
    assert np.abs(off).max() < 4
    assert corrected_calibration(NOISY, y, chance**2, "yes").error > 0.1 > found.error
    assert found.to_arrow().num_rows == 5
    assert repr(found).startswith("Calibration of the chance of 'yes': off by 0.0")
    assert "<svg" in found.plot()._repr_svg_()


def test_weights_of_rows_count_rows() -> None:
    chance, _, y = simulated(np.random.default_rng(4), 50)
    both, times = np.stack([1 - chance, chance], axis=1), np.arange(50) % 3
    brier = corrected_score("brier", NOISY)
    repeated = brier(np.repeat(y, times), np.repeat(both, times, axis=0))
    assert brier(y, both, times).value == pytest.approx(repeated.value)


def test_a_score_tells_its_interval_and_can_be_sent_to_another_process() -> None:
    lower, upper = Score(0.2, 0.01).interval(0.9)
    assert (lower, upper) == pytest.approx((0.18355, 0.21645), abs=1e-5)
    assert repr(Score(0.2, 0.01)) == "0.2 +- 0.01 (95% interval 0.1804 to 0.2196)"
    sent = pickle.loads(pickle.dumps(corrected_score("brier", NOISY)))
    assert sent(["no", "yes"], np.full((2, 2), 0.5)).value == pytest.approx(0.25)


def test_an_own_loss_is_a_function_of_class_and_predictions() -> None:
    costs = {"no": 1.0, "yes": 5.0}
    score = corrected_score(lambda label, predicted: costs[label] * (predicted != label), NOISY)
    y, predicted = np.array(["yes", "no", "yes"]), np.array(["no", "no", "yes"])
    labels = NOISY.pseudo_labels(y)
    assert score(y, predicted).value == pytest.approx((5 * labels[0, 1] + 5 * labels[1, 1] + labels[2, 0]) / 3)
