"""Randomized response draws each column with its own matrix, and the columns independently of each other.

False alarm: 1e-6 for each of 10 tests on a right release; seeds are fixed, so that a run that passes passes again.
Power: a matrix whose retention is off by 5% fails (above .999 for each column), and so do columns that share words.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from sfumato.analyst.release import Release
from sfumato.publisher.publish import publish
from sfumato.publisher.table import scan
from sfumato.values.arrays import FloatArray
from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato.values.mechanism import Mechanism
from sfumato.values.randomness import SecretKey, simulation
from tests.conftest import make_policy
from tests.constants import set_constants
from tests.engines.tools import planned

ROWS = 120_000
FALSE_ALARM = 1e-6
SIZES = {"a": 2, "b": 3, "c": 4, "s": 3}
ROLES = {"id": "other", **dict.fromkeys("abc", "quasi_identifier"), "s": "sensitive"}


def table() -> pa.Table:
    """Return people who can be told apart by a number that is published untouched; s depends on a, b and c."""
    rng = simulation(11)
    columns = {name: rng.integers(0, SIZES[name], ROWS) for name in "abc"}
    pull = rng.random(ROWS) < 0.4
    columns["s"] = np.where(pull, sum(columns.values()) % 3, rng.integers(0, 3, ROWS))
    return pa.table({"id": np.arange(ROWS), **columns})


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return published(tmp_path_factory.mktemp("response") / "r")


def published(folder: Path) -> Release:
    options = 'assurance = "as-published"'
    opened = scan(table(), make_policy(ROLES, "risk_limit = 0.08", "randomized-response", options=options))
    made = planned(opened)
    assert [mechanism.domain.name for mechanism in made.mechanisms] == ["a", "b", "c", "s"]
    return publish(opened, made, folder, key=SecretKey.from_seed(5))


def pairs(release: Release) -> dict[str, tuple[Any, Any]]:
    """Return the true and the published codes of each column, person by person."""
    rows = release.to_arrow().sort_by("id")
    before = table()
    return {name: (before[name].to_numpy(), rows[name].to_numpy()) for name in SIZES}


def p_value_of_matrix(true: Any, drawn: Any, matrix: FloatArray) -> float:
    """Of the chi-square test that published values of each true value i are drawn from column i."""
    size = len(matrix)
    observed = np.zeros((size, size))
    np.add.at(observed, (drawn, true), 1)
    expected = matrix * observed.sum(axis=0)
    return float(stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), size * (size - 1)))


def p_value_of_independence(first: tuple[Any, Any], second: tuple[Any, Any]) -> float:
    """Of the chi-square test that whether one value changed tells nothing of whether the other did."""
    changed = [(true != drawn).astype(int) for true, drawn in (first, second)]
    observed = np.zeros((2, 2))
    np.add.at(observed, tuple(changed), 1)
    return float(stats.chi2_contingency(observed, correction=False).pvalue)


def matrices(release: Release) -> dict[str, PerturbationMatrix]:
    return {m.domain.name: m.matrix for m in release.manifest.mechanism_values}


def off(matrix: PerturbationMatrix, factor: float) -> FloatArray:
    """Return the matrix with its retention times a factor."""
    return PerturbationMatrix.from_retention(matrix.retention * factor).dense()


@pytest.mark.parametrize("name", SIZES)
def test_each_column_is_drawn_with_its_own_matrix(name: str, release: Release) -> None:
    true, drawn = pairs(release)[name]
    own = matrices(release)[name]
    assert p_value_of_matrix(true, drawn, own.dense()) > FALSE_ALARM
    for factor in (0.95, 1.05):
        assert p_value_of_matrix(true, drawn, off(own, factor)) < FALSE_ALARM


def test_no_column_has_the_matrix_of_another(release: Release) -> None:
    """b and s have as many values."""
    true, drawn = pairs(release)["b"]
    assert p_value_of_matrix(true, drawn, matrices(release)["s"].dense()) < FALSE_ALARM


@pytest.mark.parametrize(("first", "second"), list(combinations(SIZES, 2)))
def test_columns_are_drawn_independently(first: str, second: str, release: Release) -> None:
    both = pairs(release)
    assert p_value_of_independence(both[first], both[second]) > FALSE_ALARM


def test_shared_words_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, "sfumato.engines", MOST_FILES=0)
    both = pairs(published(tmp_path / "r"))
    assert p_value_of_independence(both["a"], both["b"]) < FALSE_ALARM


def test_the_mechanisms_are_those_of_the_plan(release: Release) -> None:
    """All are real noise, each with its own retention."""
    found = {name: float(matrix.retention[0]) for name, matrix in matrices(release).items()}
    assert all(0.05 < retention < 0.99 for retention in found.values()), found
    assert all(isinstance(m, Mechanism) and m.is_whole for m in release.manifest.mechanism_values)
