"""The weights of published labels: their mean is the true label, in every shape of a mechanism."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sfumato.analyst.learning.labels import training_data
from sfumato.values.attributes import label
from tests.analyst.learning.made import SHAPES, VALUES, released
from tests.conftest import exact_weights


@pytest.mark.parametrize("shape", SHAPES)
def test_the_mean_weight_is_one_for_the_true_class_and_zero_for_others(shape: str, tmp_path: Path) -> None:
    """For each true value, summed over all that it can be published as with the exact integers of the matrix."""
    release = released(shape, tmp_path / "r")
    weights = training_data(release, "ill", ["age"]).channel.weights
    mechanism = next(m for m in release.manifest.mechanism_values if "ill" in m.domain.names)
    start = 0
    for table in mechanism.tables:
        chances = np.array(exact_weights(table.matrix), dtype=object) / (1 << 64)
        means = chances.astype(np.float64).T @ weights[start : start + table.matrix.outputs]
        true = mechanism.domain.split(table.codes)[mechanism.domain.names.index("ill")]
        assert means == pytest.approx(np.eye(weights.shape[1])[true], abs=1e-12)
        start += table.matrix.outputs
    assert start == len(weights)
    assert weights.sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize("shape", SHAPES)
def test_corrected_labels_add_up_to_the_estimated_counts(shape: str, tmp_path: Path) -> None:
    release = released(shape, tmp_path / "r")
    data = training_data(release, "ill", ["age", "sex"])
    women = (data.X["sex"] == "F").to_numpy()
    estimated = {label(row["ill"]): row["estimate"] for row in release.count(by="ill", where="sex = 'F'").rows()}
    sums = dict(zip(data.channel.classes.tolist(), data.channel.pseudo_labels(data.y)[women].sum(axis=0), strict=True))
    assert estimated == pytest.approx({name: sums[name] for name in estimated})
    assert len(estimated) >= len(VALUES) - 1


def test_features_and_labels_are_those_of_the_rows(tmp_path: Path) -> None:
    release = released("values", tmp_path / "r")
    data = training_data(release, "ill", ["n", "age"])
    rows = release.to_pandas()
    assert data.X.equals(rows[["n", "age"]])
    assert data.y.tolist() == rows["ill"].tolist()
    assert data.channel.classes.tolist() == VALUES
    assert "4 classes, 4 outputs" in repr(data.channel)


def test_outputs_are_told_apart_by_all_that_is_published(tmp_path: Path) -> None:
    shown = {shape: training_data(released(shape, tmp_path / shape), "ill", ["age"]).y[0] for shape in SHAPES}
    assert shown["values"] in VALUES
    assert set(shown["sets"].split("|")) <= set(VALUES)
    assert shown["cards"].startswith("card ")
    assert " / " in shown["together"]
    assert "(sub-table " in shown["sub-tables"]
