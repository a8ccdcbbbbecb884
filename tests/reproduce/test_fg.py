"""FG's experiments: what must hold exactly, what must not, and that a seed gives the same rows."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.matrix import PerturbationMatrix
from sfumato.reproduce.data import Data
from sfumato.reproduce.experiment import Comparison, Outcome, Setting
from sfumato.reproduce.fg import EXPERIMENTS
from sfumato.reproduce.fg.tables import RECORDS, zipf
from sfumato.reproduce.fg.utility import (
    EQUAL_RISK,
    PROVED,
    PUBLISHED,
    UNIFORM,
    ZIPF_THETAS,
    _uniform_with,
    guessed,
    on_zipf,
)
from tests.reproduce.outcomes import by_name, check_outcome


@pytest.fixture(scope="module")
def of_zipf() -> Outcome:
    return on_zipf(Setting(Data(), quick=True))


def column(outcome: Outcome, matrix: str, name: str) -> list[float]:
    return [row[name] for row in outcome.rows if row["matrix"] == matrix]


@pytest.mark.parametrize("experiment", EXPERIMENTS[:3], ids=lambda e: e.name)
def test_runs_without_data(experiment: object) -> None:
    outcome = experiment.run(Setting(Data(), quick=True))  # type: ignore[attr-defined]
    check_outcome(outcome)


def test_examples_that_are_exact() -> None:
    found = by_name(EXPERIMENTS[0].run(Setting(Data())))
    assert found["record utility of fine-grain"].verdict == "equal"
    assert found["Theorem 1: no posterior falls below rho1"].verdict == "differs"


def test_zipf_counts_are_those_of_the_paper() -> None:
    counts = zipf().counts
    due = 1 / np.arange(1, 41)
    assert counts.sum() == RECORDS
    assert np.abs(counts - due / due.sum() * RECORDS).max() < 1


def test_zipf(of_zipf: Outcome) -> None:
    check_outcome(of_zipf)
    found = by_name(of_zipf)
    exact = {"record utility of fine-grain", "record utility of uniform", "record utility of fine-grain as published"}
    assert {name for name in exact if found[name].verdict == "equal"} == exact
    assert {c.what for c in of_zipf.comparisons if c.verdict == "equal"} == exact  # all others are simulated
    assert found["aggregate utility of fine-grain"].verdict == "within noise"
    assert found["aggregate utility of fine-grain as published"].verdict == "differs"
    assert len(of_zipf.rows) == 4 * len(ZIPF_THETAS)


def test_the_proved_matrix_never_falls_below_rho1(of_zipf: Outcome) -> None:
    assert set(column(of_zipf, PROVED, "values that can fall below rho1")) == {0}
    assert min(column(of_zipf, PUBLISHED, "values that can fall below rho1")) > 0


def test_record_utilities_are_ordered(of_zipf: Outcome) -> None:
    """Fine-grain as published solves a program with fewer constraints than the proved one, that one than uniform."""
    lines = [column(of_zipf, name, "record utility") for name in (UNIFORM, PROVED, PUBLISHED)]
    assert all(a <= b + 1e-6 <= c + 2e-6 for a, b, c in zip(*lines, strict=True))


def test_equal_risk_is_equal(of_zipf: Outcome) -> None:
    assert column(of_zipf, EQUAL_RISK, "measured risk") == pytest.approx(column(of_zipf, PUBLISHED, "measured risk"))


def test_a_seed_gives_the_same_rows(of_zipf: Outcome) -> None:
    assert on_zipf(Setting(Data(), quick=True)).rows == of_zipf.rows


def test_guesses_are_counted_as_by_hand() -> None:
    """Three values: for each published one the true value that is most probable together with it."""
    matrix, shares = PerturbationMatrix.from_retention([0.5, 0.2, 0.0]), np.array([0.2, 0.3, 0.5])
    joint = [[float(matrix.dense()[y, x]) * shares[x] for x in range(3)] for y in range(3)]
    assert guessed(matrix, shares) == pytest.approx(sum(max(row) for row in joint))
    assert guessed(_uniform_with(0.7, shares), shares) == pytest.approx(0.7, abs=1e-9)


def test_a_gain_is_compared_with_what_is_printed(real_data: object) -> None:
    real_data("faers2022q3_top40_one_per_case.parquet")  # type: ignore[operator]
    found = by_name(EXPERIMENTS[2].run(Setting(Data.found(), quick=True)))
    assert isinstance(found["gain in record utility"], Comparison)
    assert found["gain in record utility"].verdict == "within noise"
    assert found["aggregate utility of both"].verdict == "within noise"
