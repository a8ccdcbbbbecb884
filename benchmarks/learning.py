"""Trees trained on randomized incomes of Adult, beside trees trained on the true ones: `python benchmarks/learning.py`.

30,162 people train, 15,060 others judge. Their incomes are kept with a chance p and are else drawn anew; the models see
nothing else of them. Each figure is shown as the true incomes give it, and as the release alone does (corrected): what
an analyst would be told. Calibration error: how far chances are from shares, on average over tenths of the people.
Nothing here is limited: the figures stand in docs/analyse/learning.md.
"""

from __future__ import annotations

import os
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import brier_score_loss, roc_auc_score

import sfumato as sf
import sfumato.sklearn as sk
from sfumato.values.randomness import SecretKey

RICH = ">50K"
TREES: dict[str, Any] = {"max_iter": 100, "min_samples_leaf": 100, "early_stopping": False, "random_state": 0}
KEPT = (Fraction(3, 5), Fraction(3, 10))


def published(people: pd.DataFrame, kept: Fraction, folder: Path) -> sf.Release:
    """Publish all people, each income with a chance of `kept` as it is."""
    numbered = 'publish_as_is = "tells which true income is whose"\n'
    roles = "".join(
        f'[columns.{name}]\nrole = "other"\n{numbered if name == "n" else ""}' for name in people if name != "income"
    )
    policy = sf.Policy.parse(
        f'{roles}[columns.income]\nrole = "sensitive"\ndomain = ["<=50K", ">50K"]\n'
        f'[method]\nname = "uniform"\n[requirement]\ngamma = "{(1 + kept) / (1 - kept)}"\n'
    )
    table = sf.scan(people, policy)
    plan = sf.plan(sf.profile(table), policy.method, policy.requirement)
    return sf.publish(table, plan, folder / f"kept-{float(kept)}", key=SecretKey.from_seed(1))


def off(chances: np.ndarray, true: np.ndarray) -> float:
    """Return the calibration error."""
    parts = np.array_split(np.argsort(chances), 10)
    return float(np.mean([abs(chances[part].mean() - true[part].mean()) for part in parts]))


def line(name: str, model: Any, data: sk.TrainingData, trains: np.ndarray, rich: np.ndarray) -> str:
    """Fit a model, and return its row."""
    chances = model.fit(data.X[trains], data.y[trains]).predict_proba(data.X[~trains])
    own, true = chances[:, 1], rich[~trains]
    auc = sk.corrected_auc(data.channel, data.y[~trains], own, RICH)
    brier = sk.corrected_score("brier", data.channel)(data.y[~trains], chances)
    told = sk.corrected_calibration(data.channel, data.y[~trains], own, RICH).error
    return (
        f"| {name} | {roc_auc_score(true, own):.3f} | {auc.value:.3f} ± {auc.standard_error:.3f} "
        f"| {brier_score_loss(true, own):.4f} | {brier.value:.4f} ± {brier.standard_error:.4f} "
        f"| {off(own, true):.3f} | {told:.3f} |"
    )


def main() -> None:
    """Print the table."""
    path = Path(os.environ["SFUMATO_DATA"]) / "adult_complete_45222.parquet"
    people = pq.read_table(path).drop_columns(["fnlwgt", "education"]).to_pandas()
    split = people.pop("split")
    trained = split == split.mode()[0]
    for name in people.select_dtypes(exclude="number").columns.drop("income"):
        people[name] = people[name].astype("category").cat.codes
    people["n"] = np.arange(len(people))
    print("| p | model | AUC | told | Brier | told | calibration error | told |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for kept in KEPT:
            release = published(people, kept, Path(folder))
            data = sk.training_data(release, "income", [name for name in people.columns if name != "income"])
            order = data.X.pop("n").to_numpy()
            rich, trains = (people["income"] == RICH).to_numpy()[order], trained.to_numpy()[order]
            models = {
                "naive": HistGradientBoostingClassifier(**TREES),
                "unmixed": sk.UnmixedClassifier(HistGradientBoostingClassifier(**TREES), data.channel),
                "pseudo-labels": sk.PseudoLabelClassifier(HistGradientBoostingRegressor(**TREES), data.channel),
            }
            for name, model in models.items():
                print(f"| {float(kept)} {line(name, model, data, trains, rich)}", flush=True)
            if kept == KEPT[0]:
                own = HistGradientBoostingClassifier(**TREES).fit(data.X[trains], rich[trains])
                chances = own.predict_proba(data.X[~trains])[:, 1]
                auc, brier = roc_auc_score(rich[~trains], chances), brier_score_loss(rich[~trains], chances)
                print(f"| - | true incomes | {auc:.3f} | | {brier:.4f} | | {off(chances, rich[~trains]):.3f} | |")


if __name__ == "__main__":
    main()
