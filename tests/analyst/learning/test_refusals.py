"""What is refused, with what to do instead."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import HuberRegressor, LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import sfumato as sf
import sfumato.sklearn as sk
from sfumato.errors import SingularMatrix, UsageError
from tests.analyst.learning.made import VALUES, channel, people, released
from tests.conftest import make_policy

TWO, _ = channel([[12, 4], [4, 12]], ("no", "yes"))
X, Y = np.array([[0.0], [1.0], [2.0]]), np.array(["no", "yes", "no"])


@pytest.mark.parametrize(
    ("shape", "label", "features", "words"),
    [
        ("apart", "ill", ["age", "pain"], "'pain' cannot be a feature.*release.regress.*as they are published"),
        ("values", "ill", ["ill"], "'ill' cannot be a feature"),
        ("sub-tables", "ill", ["sub_table"], "chose it by the label"),
        ("values", "sex", ["age"], "'sex' is published as it was.*to_pandas"),
        ("values", "il", ["age"], "no column 'il'.*Did you mean 'ill'"),
        ("values", "ill", ["agee"], "no column 'agee'.*Did you mean 'age'"),
        ("values", "ill", [], "no feature.*untouched columns"),
    ],
)
def test_columns(shape: str, label: str, features: list[str], words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"(?s){words}"):
        sk.training_data(released(shape, tmp_path / "r"), label, features)


def test_releases_by_groups(tmp_path: Path) -> None:
    roles = {"n": "other", "age": "quasi_identifier", "sex": "quasi_identifier", "pain": "other", "ill": "sensitive"}
    policy = make_policy(roles, "l = 2", "anatomy")
    table = sf.scan(people(), policy)
    release = sf.publish(table, sf.plan(sf.profile(table), policy.method, policy.requirement), tmp_path / "r")
    with pytest.raises(UsageError, match="stands apart, in groups"):
        sk.training_data(release, "ill", ["age"])


def test_labels_that_tell_nothing_apart() -> None:
    with pytest.raises(SingularMatrix, match="does not tell its values apart"):
        channel([[8, 8], [8, 8]], ("no", "yes"))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (sk.PseudoLabelClassifier(LogisticRegression(), TWO), "needs a regressor.*UnmixedClassifier"),
        (sk.PseudoLabelClassifier(HuberRegressor(), TWO), "least squares.*HuberRegressor"),
        (
            sk.PseudoLabelClassifier(make_pipeline(HistGradientBoostingRegressor(loss="absolute_error")), TWO),
            "the model has absolute_error.*biased",
        ),
        (sk.UnmixedClassifier(LinearRegression(), TWO), "classifier with predict_proba.*PseudoLabelClassifier"),
        (sk.UnmixedClassifier(LinearSVC(), TWO), "CalibratedClassifierCV"),
        (sk.PseudoLabelRegressor(LinearRegression(), TWO), "are no numbers.*scores="),
        (sk.PseudoLabelRegressor(LinearRegression(), TWO, {"no": 0}), "no number for 'yes'"),
        (sk.PseudoLabelClassifier(LinearRegression(), "ill"), "does not say how.*training_data"),  # type: ignore[arg-type]
    ],
)
def test_models(model: Any, words: str) -> None:
    with pytest.raises(UsageError, match=f"(?s){words}"):
        model.fit(X, Y)


@pytest.mark.parametrize("model", [LinearRegression(), LogisticRegression()])
def test_negative_weights_of_rows(model: Any) -> None:
    kind = sk.PseudoLabelClassifier if isinstance(model, LinearRegression) else sk.UnmixedClassifier
    with pytest.raises(UsageError, match=r"(?s)is negative.*survey weights only"):
        kind(model, TWO).fit(X, Y, [1.0, -0.5, 1.0])
    with pytest.raises(UsageError, match="must not be negative"):
        sk.corrected_score("zero_one", TWO)(Y, Y, [1.0, -0.5, 1.0])


def test_labels_that_cannot_be_published() -> None:
    with pytest.raises(UsageError, match=r"(?s)y has maybe, but 'x' is published as 'no', 'yes'.*training_data"):
        sk.UnmixedClassifier(LogisticRegression(), TWO).fit(X, ["no", "maybe", "yes"])


def test_scores() -> None:
    with pytest.raises(UsageError, match="no loss 'hinge': there are brier, log"):
        sk.corrected_score("hinge", TWO)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"shape \(3,\), and 'x' has 2 classes"):
        sk.corrected_score("brier", TWO)(Y, [0.1, 0.2, 0.3])
    with pytest.raises(UsageError, match="3 labels and 2 predictions"):
        sk.corrected_score("zero_one", TWO)(Y, Y[:2])
    with pytest.raises(UsageError, match="'HIV' is no class of 'x'"):
        sk.corrected_auc(TWO, Y, [1, 2, 3], "HIV")
    with pytest.raises(UsageError, match="are not both positive"):
        sk.corrected_auc(TWO, ["no", "no", "no"], [1, 2, 3], "yes")
    with pytest.raises(UsageError, match="3 rows do not make 10 bins"):
        sk.corrected_calibration(TWO, Y, [0.1, 0.2, 0.3], "yes")


def test_rows_that_do_not_fit_the_manifest(tmp_path: Path) -> None:
    release = released("values", tmp_path / "r")
    import pyarrow.parquet as pq

    rows = release.to_arrow()
    place = rows.column_names.index("ill")
    pq.write_table(rows.set_column(place, "ill", [["gout", *VALUES[:1] * (rows.num_rows - 1)]]), release.data)
    with pytest.raises(sf.SfumatoError, match="holds gout"):
        sk.training_data(sf.open_release(release.folder), "ill", ["age"])


def test_without_scikit_learn_it_is_said_what_to_install() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\ntry:\n    import sfumato.sklearn\nexcept ImportError as e: print(e)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "sfumato.sklearn needs sklearn. Install the extra: pip install 'sfumato[sklearn]'.\n"
