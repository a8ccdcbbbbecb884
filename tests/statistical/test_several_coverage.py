"""Intervals for counts over two columns with methods of their own, over many releases of one table.

A set in one column and a value in the other; all answers come from folders that were published with secret keys.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from tests.conftest import make_policy, slow
from tests.engines.test_several import planned
from tests.statistical.whole_release.publishing import memory

ILLS, SCORES, ROWS = ["flu", "HIV", "cold", "gout"], [1, 2, 3], 1200
OWN = f"sensitive; domain = {SCORES}; method = {{ name = 'plateau' }}; requirement = {{ gamma = 6 }}"
POLICY = make_policy(
    {"sex": "other", "ill": f"sensitive; domain = {ILLS}", "score": OWN}, "gamma = 8", "subset", options="members = 2"
)


def people() -> pa.Table:
    """Return people whose score goes with their illness."""
    rng = np.random.default_rng(8)
    ill = rng.choice(4, ROWS, p=[0.4, 0.1, 0.3, 0.2])
    return pa.table(
        {
            "sex": rng.choice(["F", "M"], ROWS).tolist(),
            "ill": [ILLS[k] for k in ill],
            "score": [SCORES[min(2, k + int(rng.integers(0, 2)))] for k in ill],
        }
    )


@pytest.mark.parametrize("releases", [130, slow(2000)])
def test_joint_counts_and_means_are_covered(releases: int) -> None:
    """Of 95% intervals between 93% and 97% hold the truth, of all cells together and of the means.

    With 130 releases of 12 cells the share has a standard error of about 0.6%; of 4 means of 1%.
    """
    rows = people()
    table = sf.scan(rows, POLICY)
    made, true = planned(table), Counter(zip(rows["ill"].to_pylist(), rows["score"].to_pylist(), strict=True))
    means = {ill: np.average(SCORES, weights=[true[ill, score] for score in SCORES]) for ill in ILLS}
    cells, averages, sums = [], [], np.zeros((len(ILLS), len(SCORES)))
    for _ in range(releases):
        with tempfile.TemporaryDirectory(dir=memory()) as folder:
            release = sf.publish(table, made, Path(folder) / "r")
            joint = release.table(("ill", "score"))
            low, high = joint.interval()
            sums += joint.value
            cells += [
                low[i, k] <= true[ill, score] <= high[i, k]
                for i, ill in enumerate(ILLS)
                for k, score in enumerate(SCORES)
            ]
            asked = release.sql("SELECT ill, AVG(score) FROM release GROUP BY ill").to_arrow().to_pylist()
            averages += [line["lower"] <= means[line["ill"]] <= line["upper"] for line in asked]
    assert 0.93 <= np.mean(cells) <= 0.97
    margin = 0.02 if releases > 1000 else 0.03
    assert abs(np.mean(averages) - 0.95) <= margin
    # unbiased: the mean over the releases is off by its own error alone
    errors = release_errors(made, true) / np.sqrt(releases)
    expected = np.array([[true[ill, score] for score in SCORES] for ill in ILLS])
    assert (np.abs(sums / releases - expected) < 5 * errors).all()


def release_errors(made: sf.Plan, true: Counter[tuple[str, int]]) -> np.ndarray:
    """Return the exact standard error of each joint count: Var = (K^-1 o K^-1)(K x) - x, K the Kronecker product."""
    ill, score = made.mechanisms
    x = np.array([true[a, b] for a in ILLS for b in SCORES], dtype=float)
    chance = np.kron(ill.matrix.dense(), score.matrix.dense())
    inverse = np.kron(
        np.array([ill.matrix.solve(row) for row in np.eye(ill.matrix.outputs)]).T,
        np.array([score.matrix.solve(row) for row in np.eye(score.matrix.outputs)]).T,
    )
    return np.sqrt((inverse**2) @ (chance @ x) - x).reshape(len(ILLS), len(SCORES))
