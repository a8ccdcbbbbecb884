"""FG's experiments: what must hold exactly, what must not, and that a seed gives the same rows."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato_papers.data import Data
from sfumato_papers.experiment import Experiment, Outcome, Setting
from sfumato_papers.fg import EXPERIMENTS, utility
from sfumato_papers.fg.curves import (
    EQUAL_RISK,
    PROVED,
    PUBLISHED,
    UNIFORM,
    Curves,
    Measured,
    _uniform_with,
    guessed,
    measured_curves,
)
from sfumato_papers.fg.tables import RECORDS, zipf
from sfumato_papers.fg.utility import (
    ZIPF_THETAS,
    _almost_the_same,
    _better_record_better_aggregate,
    _gain,
    on_zipf,
)
from tests.papers.reproduce.outcomes import by_name, check_outcome


@pytest.fixture(scope="module")
def of_zipf() -> Outcome:
    return on_zipf(Setting(Data(), quick=True))


def column(outcome: Outcome, matrix: str, name: str) -> list[float]:
    return [row[name] for row in outcome.rows if row["matrix"] == matrix]


@pytest.mark.parametrize("experiment", EXPERIMENTS[:3], ids=lambda e: e.name)
def test_runs_without_data(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(utility, "REACTION_THETAS", (3, 4))
    outcome = experiment.run(Setting(Data(), quick=True))
    check_outcome(outcome)


def test_examples_that_are_exact() -> None:
    found = by_name(EXPERIMENTS[0].run(Setting(Data())))
    assert {what for what, c in found.items() if c.verdict != "equal"} == {
        "Fig. 2 (a): elsewhere in it",
        "increase in record utility over uniform, in %",
        "Theorem 1: no posterior falls below rho1",
    }
    theorem = found["Theorem 1: no posterior falls below rho1"]
    assert theorem.as_published == "SARS from 1/7 to 0.0769, where rho1 is 1/10"
    assert theorem.proved == "none does"


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
    assert (
        "the mean retention of the 40 values falls, too"
        in found["aggregate utility of fine-grain as published"].because
    )
    assert found["why it is lower"].verdict == "differs"
    assert found["correlation of record and aggregate utility"].verdict == "within noise"
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
    """At one theta, measured alone."""
    again, other = (
        [
            one.row()
            for one in measured_curves(zipf(), ZIPF_THETAS[-1:], Setting(Data(), quick=True, seed=seed)).measured
        ]
        for seed in (1, 2)
    )
    assert again == [row for row in of_zipf.rows if row["theta"] == ZIPF_THETAS[-1]] != other


def test_guesses_are_counted_as_by_hand() -> None:
    """Three values: for each published one the true value that is most probable together with it."""
    matrix, shares = PerturbationMatrix.from_retention([0.5, 0.2, 0.0]), np.array([0.2, 0.3, 0.5])
    joint = [[float(matrix.dense()[y, x]) * shares[x] for x in range(3)] for y in range(3)]
    assert guessed(matrix, shares) == pytest.approx(sum(max(row) for row in joint))
    assert guessed(_uniform_with(0.7, shares), shares) == pytest.approx(0.7, abs=1e-9)


def curves_of(records: dict[str, list[float]], aggregates: dict[str, list[float]]) -> Curves:
    """Curves with these utilities, where all perturbed tables but the first are a little off."""
    off = np.array([0.0, 1e-5, -1e-5])
    measured = [
        Measured(name, theta, record, 0.1, aggregates[name][k] + off, np.full(40, 0.001), np.full(40, 0.5), 0)
        for name in records
        for k, (theta, record) in enumerate(zip((2, 3), records[name], strict=True))
    ]
    return Curves(zipf(), (2, 3), 3, tuple(measured))


@pytest.mark.parametrize(
    ("gains", "verdict"), [((0.10, 0.20), "within noise"), ((0.05, 0.20), "differs"), ((0.10, 0.33), "differs")]
)
def test_a_gain_has_to_be_as_told_at_every_theta(gains: tuple[float, float], verdict: str) -> None:
    records = {UNIFORM: [0.1, 0.2], PUBLISHED: [0.1 * (1 + gains[0]), 0.2 * (1 + gains[1])], PROVED: [0.1, 0.2]}
    found = _gain(curves_of(records, {name: [0.9, 0.9] for name in records}))
    assert found.verdict == verdict
    assert f"{gains[0]:.0%} to {gains[1]:.0%}" in found.as_published


@pytest.mark.parametrize(
    ("ours", "same", "better"),
    [
        ([0.991, 0.9951], "within noise", "within noise"),
        ([0.991, 0.9950], "within noise", "within noise"),
        ([0.991, 0.9949], "within noise", "differs"),
        ([0.990, 0.9950], "within noise", "differs"),
        ([0.991, 0.9800], "differs", "differs"),
    ],
)
def test_aggregate_utilities_are_compared_in_both_directions(ours: list[float], same: str, better: str) -> None:
    """Almost the same: within a tenth of the 0.022 between a guess of equal shares and 1 on Zipf."""
    records = {UNIFORM: [0.1, 0.2], PUBLISHED: [0.12, 0.24]}
    curves = curves_of(records, {UNIFORM: [0.990, 0.995], PUBLISHED: ours})
    assert _almost_the_same(curves).verdict == same
    assert _better_record_better_aggregate(curves).verdict == better


def test_ranks_are_correlated_as_by_hand() -> None:
    """Ranks 1, 3, 2, 4 beside 1, 2, 3, 4: 1 - 6 * 2 / (4 * 15)."""
    curves = curves_of({UNIFORM: [0.1, 0.3], PUBLISHED: [0.2, 0.4]}, {UNIFORM: [0.90, 0.92], PUBLISHED: [0.93, 0.94]})
    assert curves.rank_correlation() == pytest.approx(1 - 6 * 2 / 60)


def test_on_the_stand_in_nothing_is_equal(real_data: object) -> None:
    real_data("faers2022q3_top40_one_per_case.parquet")  # type: ignore[operator]
    outcomes = [EXPERIMENTS[k].run(Setting(Data.found(), quick=True)) for k in (1, 2)]
    for outcome in outcomes:
        check_outcome(outcome)
        assert "equal" not in {c.verdict for c in outcome.comparisons}
    assert by_name(outcomes[0])["Zipf is more skewed than the reactions"].verdict == "within noise"
    found = by_name(outcomes[1])
    assert found["gain in record utility"].verdict == "differs"
    assert "5% to 33%" in found["gain in record utility"].because
    assert found["aggregate utility of both"].verdict == "within noise"
