"""Adult, income randomized at a retention of 0.6: what the release tells of models beside the true incomes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import brier_score_loss, roc_auc_score

import sfumato as sf
import sfumato.sklearn as sk
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy

FEATURES = ["age", "education_num", "hours_per_week", "capital_gain"]
TREES = {"max_iter": 40, "min_samples_leaf": 100, "early_stopping": False, "random_state": 0}
ROWS, TRAINED = 12_000, 7_000
RICH = ">50K"


@pytest.fixture(scope="module")
def adult(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], tuple[sk.TrainingData, np.ndarray]]:
    """Give the release's training data, and the true incomes of its rows."""

    def read(path: Path) -> tuple[sk.TrainingData, np.ndarray]:
        rows = pq.read_table(path, columns=[*FEATURES, "income"])
        rows = rows.take(np.random.default_rng(1).permutation(rows.num_rows)[:ROWS])
        rows = rows.append_column("n", [list(range(ROWS))])
        roles = dict.fromkeys([*FEATURES, "n"], "other") | {"income": "sensitive; domain = ['<=50K', '>50K']"}
        policy = make_policy(roles, "gamma = 4", "uniform")
        table = sf.scan(rows, policy)
        made = sf.plan(sf.profile(table), policy.method, policy.requirement)
        release = sf.publish(table, made, tmp_path_factory.mktemp("adult") / "r", key=SecretKey.from_seed(2))
        data = sk.training_data(release, "income", ["n", *FEATURES])
        true = np.array(rows["income"].to_pylist())[data.X.pop("n").to_numpy()]
        return data, true == RICH

    return read


def test_models_and_their_scores(adult: Any, real_data: Callable[[str], Path]) -> None:
    data, true = adult(real_data("adult_complete_45222.parquet"))
    seen, held = slice(TRAINED), slice(TRAINED, None)
    models = {
        "naive": HistGradientBoostingClassifier(**TREES),
        "pseudo": sk.PseudoLabelClassifier(HistGradientBoostingRegressor(**TREES), data.channel),
        "unmixed": sk.UnmixedClassifier(HistGradientBoostingClassifier(**TREES), data.channel),
    }
    off, brier = {}, {}
    for name, model in models.items():
        chances = model.fit(data.X[seen], data.y[seen]).predict_proba(data.X[held])
        rich = chances[:, 1]
        score = sk.corrected_score("brier", data.channel)(data.y[held], chances)
        brier[name] = brier_score_loss(true[held], rich)
        assert abs(score.value - brier[name]) < 3 * score.standard_error
        auc = sk.corrected_auc(data.channel, data.y[held], rich, RICH)
        assert abs(auc.value - roc_auc_score(true[held], rich)) < 3 * auc.standard_error
        parts = np.array_split(np.argsort(rich), 10)
        off[name] = np.mean([abs(rich[part].mean() - true[held][part].mean()) for part in parts])
        assert sk.corrected_calibration(data.channel, data.y[held], rich, RICH).error == pytest.approx(
            off[name], abs=0.03
        )
    assert off["naive"] > 0.1 > 0.04 > max(off["pseudo"], off["unmixed"])
    assert max(brier["pseudo"], brier["unmixed"]) < brier["naive"] - 0.01
