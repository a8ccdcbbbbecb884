"""scikit-learn on a release whose label is randomized and whose features are as they were: docs/analyse/learning.md.

    import sfumato.sklearn as sk

    data  = sk.training_data(release, "diagnosis", features=["age", "sex"])
    model = sk.PseudoLabelClassifier(HistGradientBoostingRegressor(), data.channel).fit(data.X, data.y)
    sk.corrected_score("brier", data.channel)(y_held_out, model.predict_proba(X_held_out))

Needs the extra `sfumato[sklearn]`.
"""

from importlib.util import find_spec

if missing := [name for name in ("sklearn", "pandas") if find_spec(name) is None]:
    raise ModuleNotFoundError(
        f"sfumato.sklearn needs {' and '.join(missing)}. Install the extra: pip install 'sfumato[sklearn]'.",
        name=missing[0],
    )

from sfumato.analyst.learning.classifiers import PseudoLabelClassifier, UnmixedClassifier
from sfumato.analyst.learning.labels import LabelChannel, TrainingData, training_data
from sfumato.analyst.learning.regressor import PseudoLabelRegressor
from sfumato.analyst.learning.scores import (
    Calibration,
    CorrectedScore,
    Score,
    corrected_auc,
    corrected_calibration,
    corrected_score,
)

__all__ = [
    "Calibration",
    "CorrectedScore",
    "LabelChannel",
    "PseudoLabelClassifier",
    "PseudoLabelRegressor",
    "Score",
    "TrainingData",
    "UnmixedClassifier",
    "corrected_auc",
    "corrected_calibration",
    "corrected_score",
    "training_data",
]
