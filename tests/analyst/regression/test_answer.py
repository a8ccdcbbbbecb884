"""What a fitted model shows and answers: tables, pictures, effects, tests, comparisons, and its refusals."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError, UsageError
from tests.analyst.regression.releases import people, release_of

FORMULA = "diagnosis == 'flu' ~ I(age / 10) + C(region) + sex"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> sf.Release:
    return release_of("uniform", tmp_path_factory.mktemp("answers"), people(3_000))


def test_rows_for_programs(release: sf.Release) -> None:
    model = release.regress(FORMULA)
    table = model.to_arrow()
    assert table["term"].to_pylist() == ["intercept", "I(age / 10)", "region S", "region W", "sex M"]
    assert pl.DataFrame(model).shape == (5, 11)
    assert table["odds_ratio"].to_numpy() == pytest.approx(np.exp(table["coefficient"].to_numpy()))
    assert (table["lower"].to_numpy() < table["coefficient"].to_numpy()).all()
    assert "<table>" in model._repr_html_()
    assert json.loads(json.dumps(model.to_dict(), allow_nan=False))["family"] == "logistic"
    assert repr(model).startswith("Regression(logistic, inverse, table, 95%)\nintercept: ")


def test_the_first_screen_is_short(release: sf.Release) -> None:
    told = release.regress("diagnosis == 'flu' ~ C(age) * C(region) + sex").explain()
    assert len(told.splitlines()) <= 25
    assert "more coefficients" in told


def test_wald_and_score_differ_in_intervals_alone(release: sf.Release) -> None:
    score, wald = (release.regress(FORMULA, interval=kind) for kind in ("score", "wald"))  # type: ignore[arg-type]
    assert score.coefficients.tolist() == wald.coefficients.tolist()
    z = 1.959963984540054
    assert wald.ends == pytest.approx(wald.coefficients[:, None] + z * wald.standard_errors[:, None] * [-1, 1])
    assert score.ends == pytest.approx(wald.ends, abs=0.3)
    assert not np.allclose(score.ends, wald.ends, rtol=1e-6)
    assert wald.interval(0.5)[:, 1] == pytest.approx(wald.coefficients + 0.6744897501960817 * wald.standard_errors)


def test_a_p_value_goes_with_its_interval(release: sf.Release) -> None:
    for kind in ("score", "wald"):
        model = release.regress(FORMULA, interval=kind)  # type: ignore[arg-type]
        excludes_zero = (model.ends[:, 0] > 0) | (model.ends[:, 1] < 0)
        assert ((model.p_values < 0.05) == excludes_zero).all()


def test_forest_plots(release: sf.Release, tmp_path: Path) -> None:
    picture = release.regress(FORMULA).plot(tmp_path / "forest.svg")
    text = (tmp_path / "forest.svg").read_text(encoding="utf-8")
    assert "odds ratio of diagnosis == 'flu' (1: no difference)" in text
    assert "region S" in text
    assert picture is not None
    with pytest.raises(UsageError, match="no coefficient to draw"):
        release.regress("diagnosis == 'flu' ~ 1").plot()


def test_effects_are_means_of_predictions(release: sf.Release) -> None:
    """With untouched covariates the standardised risk is the mean of expit over the rows, and its slope that of mu'."""
    model = release.regress(FORMULA)
    data = release.to_arrow()
    age, region, sex = (np.array(data[name].to_pylist()) for name in ("age", "region", "sex"))
    b = model.coefficients
    base = b[0] + b[1] * age / 10 + b[4] * (sex == "M")
    for row in model.effects("C(region)").rows:
        if row["figure"] == "risk":
            add = {"N": 0.0, "S": b[2], "W": b[3]}[row["value"]]
            assert row["estimate"] == pytest.approx((1 / (1 + np.exp(-base - add))).mean(), rel=1e-9)
    mu = 1 / (1 + np.exp(-base - b[2] * (region == "S") - b[3] * (region == "W")))
    (slope,) = model.effects("I(age / 10)").rows
    assert slope["estimate"] == pytest.approx((b[1] * mu * (1 - mu)).mean(), rel=1e-6)
    assert slope["standard_error"] > 0
    assert model.effects().plot() is not None


def test_classes_of_a_multinomial_model_sum_to_one(release: sf.Release) -> None:
    model = release.regress(
        "C(diagnosis, sets={'lung': ['flu', 'cold']}, others='rest', reference='rest') ~ sex", "multinomial"
    )
    assert model.to_dict()["base"] == "rest"
    rows = [row for row in model.effects().rows if row["figure"] == "risk"]
    for value in ("F", "M"):
        assert sum(row["estimate"] for row in rows if row["value"] == value) == pytest.approx(1)
    two = release.regress("diagnosis IN ('flu', 'cold') ~ sex")
    assert model.coefficients == pytest.approx(two.coefficients)
    assert model.standard_errors == pytest.approx(two.standard_errors)


def test_tests_and_comparisons(release: sf.Release) -> None:
    model, smaller = release.regress(FORMULA), release.regress("diagnosis == 'flu' ~ I(age / 10) + sex")
    joint = model.test("C(region)")
    assert joint.freedom == 2
    assert model.test("region S").p_value == pytest.approx(model.p_values[2])
    found = model.compare(smaller)
    assert found.test is not None
    assert found.better in (model.model.formula.text, smaller.model.formula.text)
    assert smaller.compare(model).criteria == found.criteria[::-1]
    with pytest.raises(UsageError, match="no term 'nothing'"):
        model.test("nothing")
    with pytest.raises(UsageError, match="not the same outcome"):
        model.compare(release.regress("diagnosis == 'HIV' ~ sex"))


def test_whether_the_model_is_right(release: sf.Release) -> None:
    """Figures of the groups are those of the rows; each way to fit has its own test, and a refusal says what to do."""
    model, forward = release.regress(FORMULA), release.regress(FORMULA, method="likelihood")
    groups = model.residuals(groups=5)
    assert groups.to_arrow().num_rows == 5
    assert (np.diff(groups.fitted) > 0).all()
    assert np.abs(groups.deviations).max() < 4.5  # the model is right: 7 in a million of each group are beyond
    assert repr(groups).startswith("FittedGroups(5 groups)\n")
    assert (model.specification().name, forward.specification().name) == ("Hausman", "Pearson")
    with pytest.raises(UsageError, match="There is no likelihood") as refused:
        release.regress("age ~ diagnosis", "linear").specification()
    assert "Look at `residuals()`" in str(refused.value)


def test_offsets_and_weights_are_as_with_true_data(tmp_path: Path) -> None:
    """A rate by an offset of the logarithm; weighted rows count as often as they weigh."""
    release = release_of("uniform", tmp_path, people(400))
    plain = release.regress("stay ~ 1", "poisson", offset="log(weight)")
    data = release.to_arrow()
    stay, weight = (np.array(data[name].to_pylist(), dtype=float) for name in ("stay", "weight"))
    assert plain.coefficients[0] == pytest.approx(math.log(stay.sum() / weight.sum()), rel=1e-9)
    weighted = release.regress("stay ~ 1", "linear", weights="weight")
    assert weighted.coefficients[0] == pytest.approx((stay * weight).sum() / weight.sum(), rel=1e-9)
    scaled = release.regress("stay ~ scale(age)", "linear")
    centered = release.regress("stay ~ center(age)", "linear")
    age = np.array(data["age"].to_pylist(), dtype=float)
    assert scaled.coefficients[0] == pytest.approx(stay.mean())
    assert scaled.coefficients[1] == pytest.approx(centered.coefficients[1] * age.std(ddof=1))


def test_products_without_rows_have_no_coefficient(tmp_path: Path) -> None:
    rows = people(600)
    kept = rows.filter(np.array([not (r["sex"] == "M" and r["region"] == "W") for r in rows.to_pylist()]))
    model = release_of("uniform", tmp_path, kept).regress("stay ~ C(region) * sex", "linear")
    assert "region W : sex M" not in model.terms
    assert any("no row" in note for note in model.notes)


@pytest.mark.parametrize(
    ("formula", "more", "said"),
    [
        ("stay > 3 ~ diagnosis == 'flu'", {"method": "likelihood"}, "randomized covariate"),
        ("stay ~ diagnosis", {"method": "em"}, "no method 'em'"),
        ("stay > 3 ~ sex", {"interval": "bayes"}, "no kind of intervals 'bayes'"),
        ("stay > 3 ~ sex", {"target": "world"}, "not for 'world'"),
        ("stay > 3 ~ sex", {"level": 95}, "between 0 and 1"),
    ],
)
def test_refusals(release: sf.Release, formula: str, more: dict[str, Any], said: str) -> None:
    with pytest.raises(SfumatoError, match=said) as told:
        release.regress(formula, **more)
    assert told.value.hint


def test_likelihood_of_sub_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no likelihood of a release by sub-tables"):
        release_of("small-domain", tmp_path).regress("diagnosis == 'flu' ~ sex", method="likelihood")


def test_sets_have_no_naive_fit(tmp_path: Path) -> None:
    model = release_of("subset", tmp_path).regress("diagnosis == 'flu' ~ sex")
    assert model.to_arrow()["naive"].null_count == 2
