"""What a release does not say is refused by name, or told beside the answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sfumato.analyst.regression import notes
from sfumato.analyst.regression.buckets import classical_weights, dealt_weights
from sfumato.analyst.regression.comparison import compare, information_criterion, score_test, wald_test
from sfumato.analyst.regression.diagnostics import fit_by_cells, residuals_by_fitted
from sfumato.analyst.regression.effects import standardised
from sfumato.analyst.regression.families import Linear, Logistic, Poisson
from sfumato.analyst.regression.fit import fit
from sfumato.analyst.regression.problem import Buckets, Cells
from sfumato.analyst.regression.result import Fit
from sfumato.errors import CannotMeet, SingularMatrix, UsageError
from tests.analyst.regression.cases import CASES, source_of
from tests.analyst.regression.made import Model, uniform
from tests.analyst.regression.whole import Whole
from tests.constants import set_constants

OUTCOME, COVARIATE = CASES["logistic, binary outcome"], CASES["logistic, covariate of 5"]
INFINITE = CASES["logistic, covariate of 4 with a level whose corrected events are negative"]


def test_no_solution() -> None:
    """The corrected events of all rows are negative: the intercept is no level, and has no value."""
    model = Model(Logistic(), np.ones((1, 1, 1)), np.array([[0.0, 1.0]]), uniform(2, 0.2))
    with pytest.raises(CannotMeet, match=r"A coefficient grows without end: x0 \(at -\d+\)\.\nUse fewer levels"):
        fit(model.source(np.array([[650.0, 350.0]])))


def test_a_number_that_runs_off() -> None:
    """A numeric column has no edge: it is refused, not answered with infinity."""
    design = np.array([[[1.0, 0.0]], [[1.0, 1.0]]])
    model = Model(Logistic(), design, np.array([[0.0, 1.0]]), uniform(2, 0.2))
    with pytest.raises(CannotMeet, match="grows without end: x1"):
        fit(model.source(np.array([[500.0, 500.0], [650.0, 350.0]])))


def test_a_level_that_runs_off_upwards() -> None:
    """No row without the event: infinity, an interval with one end, and the corrected rows in the note."""
    design = np.array([[[1.0, 0.0]], [[1.0, 1.0]]])
    model = Model(Logistic(), design, np.array([[0.0, 1.0]]), uniform(2, 0.2), (False, True))
    found = fit(model.source(np.array([[500.0, 500.0], [380.0, 620.0]])))
    assert found.coefficients[1] == np.inf
    assert np.isnan(found.standard_errors("table")[1])
    low, high = found.interval("table")[1]
    assert np.isfinite(low)
    assert high == np.inf
    assert "is +infinity: the corrected number of its rows without the event is -100 +- 77." in found.notes[0]


def test_information_that_is_not_definite() -> None:
    """A level whose corrected number of rows is negative has no information about it."""
    levels = np.array([[[1.0, 0.0], [1.0, 1.0]]])
    model = Model(Linear(), np.tile(levels, (2, 1, 1)), np.array([[0.0], [1.0]]), uniform(2, 0.2))
    with pytest.raises(CannotMeet, match="not positive definite"):
        fit(model.source(np.array([[400.0, 200.0], [260.0, 140.0]])))


def test_columns_that_say_the_same() -> None:
    """Two equal columns have no two coefficients."""
    model = Model(Linear(), np.ones((2, 1, 2)), np.array([[0.0, 1.0]]), uniform(2, 0.5))
    with pytest.raises(CannotMeet, match="not positive definite"):
        fit(model.source(np.array([[400.0, 200.0], [260.0, 140.0]])))


def test_weak_information_is_told() -> None:
    """Few rows and much noise in a covariate."""
    levels = np.array([[[1.0, 0.0], [1.0, 1.0]]])
    model = Model(Logistic(), np.tile(levels, (2, 1, 1)), np.array([[0.0], [1.0]]), uniform(2, 0.2))
    found = fit(model.source(np.array([[120.0, 85.0], [108.0, 87.0]])))
    assert found.strength[1] < 4
    assert any("says little about" in note and "x1" in note for note in found.notes)


def few_rows_in_two_levels(published: list[list[int]]) -> Fit:
    """Return the fit of 320 rows with a number and a randomized covariate of two levels."""
    design = np.array([[[1.0, w, 0], [1.0, w, 1]] for w in np.repeat([-1.0, 0, 1, 2], 2)])
    model = Model(Logistic(), design, (np.arange(8) % 2.0)[:, None], uniform(2, 0.2), (False, False, True))
    return fit(model.source(np.array(published, dtype=float)))


def test_another_solution_may_be_near() -> None:
    """H is not definite everywhere within three standard errors."""
    found = few_rows_in_two_levels([[27, 13], [31, 9], [16, 24], [27, 13], [20, 20], [22, 18], [20, 20], [18, 22]])
    assert any("may have another solution within three standard errors" in note for note in found.notes)


def test_a_reference_level_without_events() -> None:
    """Then the intercept runs off, which is no level: another level can be the reference."""
    with pytest.raises(
        CannotMeet, match=r"the reference level that x2 is compared with.*\nTake another level"
    ) as caught:
        few_rows_in_two_levels([[17, 23], [13, 27], [18, 22], [16, 24], [18, 22], [17, 23], [22, 18], [14, 26]])
    assert caught.value.exit_code == 1


def test_few_rows_are_told() -> None:
    """Rows times squared retention, for each coefficient."""
    assert notes.few_rows(1000, 0.5, 5) is None
    told = notes.few_rows(1000, 0.3, 5)
    assert told is not None
    assert "about 90 rows without noise" in told


# --- likelihood -----------------------------------------------------------------------------------------------------


def refused(source: Whole, why: str) -> None:
    """Assert that there is no likelihood, for a reason, and that the method that there is is named."""
    with pytest.raises(UsageError, match=rf"There is no likelihood of {why}.*\nUse the method 'inverse'\."):
        fit(source, method="likelihood")


def test_likelihoods_that_need_another_model() -> None:
    """A randomized covariate, buckets, numbers, missing values, chances that differ inside a state."""
    outcome = source_of(OUTCOME)
    refused(source_of(COVARIATE), "a randomized covariate")
    refused(source_of(CASES["Anatomy, outcome"]), "a release by buckets")
    refused(replace(outcome, family=Linear()), "a randomized outcome of family 'linear'")
    refused(replace(outcome, family=Poisson()), "a randomized outcome of family 'poisson'")
    refused(replace(outcome, cells=replace(outcome.cells, chances=None)), "this outcome")
    used = np.ones((1, 2), dtype=np.bool_)
    refused(replace(outcome, cells=replace(outcome.cells, used=used)), "an outcome with missing values")


def test_likelihoods_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are not held in memory."""
    case = source_of(OUTCOME)

    class Twice(Whole):
        def batches(self):  # type: ignore[no-untyped-def]
            yield from (self.cells, self.cells)

    set_constants(monkeypatch, "sfumato.analyst.regression", NUMBERS_HELD=10)
    refused(Twice(case.names, case.indicator, case.family, case.cells), "rows that are read in parts")


def test_a_likelihood_says_what_its_errors_rest_on() -> None:
    """Given the table there is no claim without the model."""
    found = fit(source_of(OUTCOME), method="likelihood")
    assert found.notes == (
        "Errors given the table hold only if the model is right: no model, no claim about this table.",
    )
    with pytest.raises(UsageError, match="says nothing about this table"):
        information_criterion(found, "table")


# --- tests and effects ----------------------------------------------------------------------------------------------


def test_tests_of_what_is_not_there() -> None:
    """Unknown, none, and infinite coefficients."""
    found = fit(source_of(INFINITE))
    with pytest.raises(UsageError, match="no coefficient 'height'"):
        wald_test(found, ["height"], "table")
    with pytest.raises(UsageError, match="no coefficient to test"):
        score_test(found, [], "table")
    with pytest.raises(CannotMeet, match="is infinite"):
        wald_test(found, [found.names[4]], "table")


def test_models_that_cannot_be_compared() -> None:
    """Not nested, fitted in different ways, or about different rows."""
    larger, smaller = fit(source_of(CASES["logistic, binary outcome, interaction age:sex"])), fit(source_of(OUTCOME))
    with pytest.raises(UsageError, match="not nested"):
        compare(smaller, larger, "table")
    with pytest.raises(UsageError, match="differ in method or family"):
        compare(larger, fit(source_of(OUTCOME), method="likelihood"), "population")
    with pytest.raises(UsageError, match=r"different rows: 2,000\.0 and 1,000\.0"):
        compare(larger, replace(smaller, used=1000.0), "table")


def test_methods_of_effects_and_diagnostics() -> None:
    """Each belongs to one method."""
    inverse, forward = fit(source_of(OUTCOME)), fit(source_of(OUTCOME), method="likelihood")
    with pytest.raises(UsageError, match="inverse fit"):
        standardised(forward)
    with pytest.raises(UsageError, match="likelihood fit"):
        fit_by_cells(inverse)
    with pytest.raises(UsageError, match="each row has its own pattern"):
        fit_by_cells(forward)
    with pytest.raises(UsageError, match="not randomized"):
        residuals_by_fitted(fit(source_of(COVARIATE)))


# --- buckets --------------------------------------------------------------------------------------------------------


def test_values_that_buckets_do_not_tell() -> None:
    """Two values that always come together are named; merged they are told."""
    C = np.array([[1.0, 1, 1, 0], [1, 1, 0, 1], [0, 0, 1, 1]])
    with pytest.raises(SingularMatrix, match=r"do not tell these values apart: 'flu', 'cold'\.\nMerge them") as caught:
        dealt_weights(Buckets(C, ("flu", "cold", "HIV", "asthma")))
    assert "HIV" not in str(caught.value)
    merged = np.stack([C[:, 0] + C[:, 1], C[:, 2], C[:, 3]], axis=1)
    assert np.allclose(dealt_weights(Buckets(merged, ("flu or cold", "HIV", "asthma"))).sum(axis=1), 1)


def test_too_many_loose_records() -> None:
    """More than 5% of records in buckets that chance says nothing about."""
    C = np.tile([[1.0, 1, 0], [0, 1, 1], [1, 0, 1]], (10, 1))
    loose = np.arange(30) < 2
    with pytest.raises(CannotMeet, match=r"6\.7% of the records lie in buckets .* above 5%"):
        dealt_weights(Buckets(C, tuple("abc"), loose=loose))


def test_loose_buckets_widen_intervals_by_their_largest_error() -> None:
    """Outcome `== b`: the largest error is that of the c largest influences, over all orders of a bucket's values."""
    random = np.random.default_rng(9)
    C = np.tile([[1.0, 1, 0], [0, 1, 1], [1, 0, 1]], (20, 1))
    group = np.repeat(np.arange(60), 2)
    loose = np.arange(60) < 2
    buckets = Buckets(C, tuple("abc"), loose=loose)
    weights, one = dealt_weights(buckets), np.ones(120)
    assert np.allclose(weights[loose], classical_weights(buckets)[loose])
    design = np.stack([one, random.normal(size=120)], axis=-1)[:, None]
    outcome = np.array([[0.0, 1.0, 0.0]])
    cells = Cells(weights[group], design, outcome, one, one, naive=classical_weights(buckets)[group], group=group)
    found = fit(Whole(("one", "w"), (False, False), Logistic(), cells, buckets))
    influence = np.linalg.inv(found.information) @ design[:, 0].T  # of one event more, (2, records)
    expected = sum(np.abs(influence[:, 2 * g] - influence[:, 2 * g + 1]) / 2 for g in range(2))
    assert np.allclose(found.slack, expected)
    ends = found.interval("table")
    assert np.all(ends[:, 1] - ends[:, 0] > 2 * expected)


def test_few_buckets_are_told() -> None:
    """Below ten."""
    C = np.tile([[1.0, 1, 0], [0, 1, 1], [1, 0, 1]], (3, 1))
    group, buckets = np.repeat(np.arange(9), 2), Buckets(C, tuple("abc"))
    one, weights = np.ones(18), dealt_weights(Buckets(C, tuple("abc")))[group]
    cells = Cells(weights, np.ones((18, 1, 1)), np.array([[0.0, 1, 0]]), one, one, naive=weights, group=group)
    found = fit(Whole(("one",), (False,), Logistic(), cells, buckets))
    assert found.notes == ("There are only 9 buckets. Below 10 errors are themselves uncertain.",)
