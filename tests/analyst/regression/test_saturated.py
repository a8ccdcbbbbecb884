"""Saturated models give today's corrected tables: the same odds ratios, risks and errors, to nine digits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sfumato as sf
from sfumato.analyst.two_by_two import Strength
from tests.analyst.regression.releases import people, release_of

TARGETS = ("table", "population")
KINDS = ("uniform", "fine-grain", "small-domain", "subset", "compound", "several")


@pytest.fixture(scope="module", params=KINDS)
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> sf.Release:
    return release_of(request.param, tmp_path_factory.mktemp("saturated"), people(2_000))


def measures(release: sf.Release, target: str, exposed: str, outcome: str, where: str = "") -> dict[str, Strength]:
    found = release.risks(exposed, outcome, where, target=target)  # type: ignore[arg-type]
    return {measure.name: measure for measure in found.measures}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("exposed", "outcome", "formula", "where"),
    [
        ("sex = 'M'", "diagnosis = 'flu'", "diagnosis == 'flu' ~ sex", ""),
        ("diagnosis = 'flu'", "stay > 3", "stay > 3 ~ diagnosis == 'flu'", ""),
        ("diagnosis IN ('flu', 'cold')", "grade = '1'", "grade == '1' ~ diagnosis IN ('flu', 'cold')", "age > 30"),
    ],
)
def test_odds_ratios(release: sf.Release, target: str, exposed: str, outcome: str, formula: str, where: str) -> None:
    known = measures(release, target, exposed, outcome, where)
    model = release.regress(formula, where=where, target=target)  # type: ignore[arg-type]
    ratio = float(np.exp(model.coefficients[1]))
    assert ratio == pytest.approx(known["odds ratio"].estimate, rel=1e-9)
    if model.shows_values:
        assert float(np.exp(model.fit.naive[1])) == pytest.approx(known["odds ratio"].naive, rel=1e-9)
    if target == "table":  # for a population `risks` counts the degrees of freedom of its sample
        assert ratio * model.standard_errors[1] == pytest.approx(known["odds ratio"].standard_error, rel=1e-9)
    else:
        assert ratio * model.standard_errors[1] == pytest.approx(known["odds ratio"].standard_error, rel=2 / 1_500)


def test_risk_differences(release: sf.Release) -> None:
    known = measures(release, "table", "sex = 'M'", "diagnosis = 'flu'")
    rows = release.regress("diagnosis == 'flu' ~ sex").effects().rows
    (difference,) = (row for row in rows if row["figure"] == "difference from F")
    assert difference["estimate"] == pytest.approx(known["risk difference"].estimate, rel=1e-9)
    assert difference["standard_error"] == pytest.approx(known["risk difference"].standard_error, rel=1e-9)


def test_means_of_a_randomized_number(release: sf.Release) -> None:
    """A linear model of 1 gives AVG, whose denominator is known where only the outcome was randomized."""
    flu = "CASE WHEN diagnosis = 'flu' THEN 2 ELSE 5 END"
    (row,) = release.sql("SELECT COUNT(*) FROM release WHERE diagnosis = 'flu'").to_arrow().to_pylist()
    model = release.regress(f"{flu} ~ 1", "linear")
    rows = release.manifest.data.rows
    assert model.coefficients[0] == pytest.approx(5 - 3 * row["estimate"] / rows, rel=1e-9)
    assert model.standard_errors[0] == pytest.approx(3 * row["standard_error"] / rows, rel=1e-9)


def test_groups_give_their_tables(tmp_path: Path) -> None:
    """The estimates are those of least squares; errors lack its factor of calibration, a few percent."""
    release = release_of("anatomy", tmp_path, people(1_000))
    known = measures(release, "table", "sex = 'M'", "diagnosis = 'flu'")
    model = release.regress("diagnosis == 'flu' ~ sex", interval="wald")
    ratio = float(np.exp(model.coefficients[1]))
    assert ratio == pytest.approx(known["odds ratio"].estimate, rel=1e-9)
    assert ratio * model.standard_errors[1] == pytest.approx(known["odds ratio"].standard_error, rel=0.1)
