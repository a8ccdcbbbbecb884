"""Reference values, computed by other code: agreement to 1e-6 of a standard error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sfumato.analyst.regression.comparison import information_criterion
from sfumato.analyst.regression.diagnostics import hausman
from sfumato.analyst.regression.fit import fit
from sfumato.analyst.regression.problem import Target
from sfumato.values.arrays import FloatArray
from tests.analyst.regression.cases import CASES, Case, source_of

TARGETS: tuple[Target, ...] = ("table", "population")
SPECIAL = {"-inf": -np.inf, "inf": np.inf, None: np.nan}


def numbers(values: Sequence[Any]) -> FloatArray:
    """Return the numbers, infinite and missing ones among them."""
    return np.array([SPECIAL.get(v, v) for v in values], dtype=np.float64)


def assert_near(found: FloatArray, expected: Sequence[Any], errors: FloatArray) -> None:
    """Assert that all differ by less than 1e-6 of a standard error; infinite and missing ones are the same."""
    wanted = numbers(expected)
    finite = np.isfinite(wanted)
    assert np.array_equal(found[~finite], wanted[~finite], equal_nan=True)
    assert np.all(np.abs(found[finite] - wanted[finite]) <= 1e-6 * np.broadcast_to(errors, found.shape)[finite])


@pytest.mark.parametrize("shared", [False, True], ids=["rows", "patterns"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_inverse_fit(case: Case, shared: bool) -> None:
    """Coefficients, both errors, the covariance and the naive fit, of cells with and without patterns."""
    expected = case["expected"]
    fitted = fit(source_of(case, whole_patterns=shared))
    errors = numbers(expected["inverse"]["se_table"])
    assert_near(fitted.coefficients, expected["inverse"]["coefficients"], errors)
    for target in TARGETS:
        assert_near(fitted.standard_errors(target), expected["inverse"][f"se_{target}"], errors)
    if "covariance_table" in expected["inverse"]:
        assert np.allclose(fitted.table, expected["inverse"]["covariance_table"], rtol=0, atol=1e-6 * errors.min() ** 2)
    if "naive_coefficients" in expected:
        assert_near(fitted.naive, expected["naive_coefficients"], np.where(np.isnan(errors), 1, errors))


INTERVALS = [name for name, case in CASES.items() if "score_intervals_95" in case["expected"]]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", INTERVALS)
def test_score_intervals(name: str, target: Target) -> None:
    """Both ends, infinite ones too."""
    fitted = fit(source_of(CASES[name], whole_patterns=True))
    ends = fitted.interval(target)
    for j, by_target in CASES[name]["expected"]["score_intervals_95"].items():
        error = fitted.standard_errors(target)[int(j)]
        assert_near(ends[int(j)], by_target[target], np.array(1.0 if np.isnan(error) else error))


LIKELIHOODS = [n for n, case in CASES.items() if "likelihood" in case["expected"] and "given" not in case]


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_likelihood(name: str) -> None:
    """Coefficients, errors, the maximum and the criterion."""
    source, expected = source_of(CASES[name]), CASES[name]["expected"]["likelihood"]
    fitted, errors = fit(source, method="likelihood"), numbers(expected["se_table"])
    assert_near(fitted.coefficients, expected["coefficients"], errors)
    for target in TARGETS:
        assert_near(fitted.standard_errors(target), expected[f"se_{target}"], errors)
    assert fitted.log_likelihood == pytest.approx(expected["loglik"], abs=1e-8)
    assert information_criterion(fitted, "population") == pytest.approx(expected["aic"], abs=1e-8)


@pytest.mark.parametrize("name", [name for name in LIKELIHOODS if "saturated" not in name])
def test_hausman(name: str) -> None:
    """The statistic and its degrees of freedom."""
    statistic, freedom = CASES[name]["expected"]["hausman"]
    found = hausman(fit(source_of(CASES[name])))
    assert found.statistic == pytest.approx(statistic, rel=1e-6)
    assert found.freedom == freedom


def test_nothing_to_test_in_a_saturated_model() -> None:
    """Both estimates are the same number: a ratio of two rounding errors is no statistic."""
    found = hausman(fit(source_of(CASES["logistic, saturated in sex"])))
    assert (found.statistic, found.freedom, found.p_value) == (0, 0, 1)


def test_an_infinite_level_is_told() -> None:
    """The note has the corrected events, their error, and what to do."""
    (note,) = fit(source_of(CASES["logistic, covariate of 4 with a level whose corrected events are negative"])).notes
    assert "is -infinity: the corrected number of its events is -4 +- 20." in note
    assert "Merge this level" in note
