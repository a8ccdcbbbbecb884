"""Mean, sum, distribution function and quantiles of a randomized column itself: worked by hand, and in words.

The oracle and the random matrices are in test_own_values_oracle; coverage in tests/statistical.
"""

from __future__ import annotations

import json
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sfumato.analyst.learning.scores import Score
from sfumato.analyst.release import Release
from sfumato.cli.main import app
from sfumato.errors import UsageError
from tests.conftest import make_policy
from tests.engines.tools import released, resealed

run = CliRunner()
BINS = ["[0, 10)", "[10, 30)", "[30, 40)"]


def publishing(folder: Path, published: dict[str, list[Any]], role: str, requirement: str = "gamma = 3") -> Release:
    """Return a release with exactly these rows, whose column x is sensitive; with 2 values P = (3/4, 1/4; 1/4, 3/4)."""
    roles = {name: role if name == "x" else "other" for name in published}
    release = released(pa.table(published), make_policy(roles, requirement), folder=folder / "release", shuffle=False)
    kept = pq.read_schema(release.data)
    pq.write_table(pa.table(published).cast(kept), release.data)
    return resealed(release)


@pytest.fixture
def tens(tmp_path: Path) -> Release:
    """Six published 10, two 20: P^-1 o = (8, 0)."""
    return publishing(tmp_path, {"x": [10] * 6 + [20] * 2}, "sensitive; domain = [10, 20]")


# --- by hand ----------------------------------------------------------------------------------------------------------


def test_a_sum_by_hand(tens: Release) -> None:
    """The weights of the published values solve 3/4 a + 1/4 b = 10, 1/4 a + 3/4 b = 20: a = 5, b = 25.

    sum = 6 5 + 2 25 = 80; given the table Var = 6 5^2 + 2 25^2 - (10^2 8 + 20^2 0) = 600.
    """
    answer = tens.sql("SELECT SUM(x) FROM release")
    assert answer.value.tolist() == pytest.approx([80])
    assert answer.standard_error.tolist() == pytest.approx([sqrt(600)])
    assert answer.notes[0].startswith("Unbiased")


def test_a_mean_by_hand(tens: Release) -> None:
    """80/8, and nobody is missing: the number of records is known, so that the error is that of the sum over 8."""
    answer = tens.sql("SELECT AVG(x) FROM release")
    assert answer.value.tolist() == pytest.approx([10])
    assert answer.standard_error.tolist() == pytest.approx([sqrt(600) / 8])
    lower, upper = answer.interval(0.95)
    assert [lower[0], upper[0]] == pytest.approx([10 - 1.959964 * sqrt(600) / 8, 10 + 1.959964 * sqrt(600) / 8])


def test_a_mean_in_a_population_by_hand(tens: Release) -> None:
    """Var = 8/7 (6 5^2 + 2 25^2 - 80^2/8) = 8/7 600."""
    answer = tens.sql("SELECT AVG(x) FROM release", target="population")
    assert answer.standard_error.tolist() == pytest.approx([sqrt(8 / 7 * 600) / 8])


def test_a_distribution_function_by_hand(tens: Release) -> None:
    """The weights for x <= 10 are 3/2 and -1/2: 8 records, Var = 6 9/4 + 2 1/4 - 8 = 6."""
    answer = tens.distribution("x")
    assert answer.groups == ((10,), (20,))
    assert answer.value.tolist() == pytest.approx([1, 1])
    assert answer.standard_error.tolist() == pytest.approx([sqrt(6) / 8, 0])
    assert answer.interval()[1].tolist() == pytest.approx([1 + 1.959964 * sqrt(6) / 8, 1])  # not cut to 1


def test_a_median_by_hand(tens: Release) -> None:
    """At 10 the distance is 8 - 4 = 4 with the error sqrt(6): 4 - 1.96 sqrt(6) < 0 < 4 - 1.28 sqrt(6)."""
    answer = tens.sql("SELECT MEDIAN(x) FROM release")
    assert answer.value.tolist() == [10]
    assert np.isnan(answer.standard_error).all()
    assert [end.tolist() for end in answer.interval(0.95)] == [[10], [20]]
    assert [end.tolist() for end in answer.interval(0.8)] == [[10], [10]]
    assert answer.rows() == [{"estimate": 10, "standard_error": None, "lower": 10, "upper": 20}]


def test_missing_values_are_left_out_by_hand(tmp_path: Path) -> None:
    """With a missing value P = (3, 1, 1; 1, 3, 1; 1, 1, 3)/5; of 6, 2, 2 published P^-1 o = (5 o - 10)/2 = (10, 0, 0).

    Solving P^T a = c: sum a = sum c, so a = (5 c - sum c)/2. For the numbers (10, 20, 0) a = (10, 35, -15), for whether
    they are known (1, 1, 0) a = (3/2, 3/2, -1). The sum is 6 10 + 2 35 - 2 15 = 100, and 8 3/2 - 2 = 10 are known.
    By the delta method with r = 10 the weights of top - r bottom are (-5, 20, -5), and its scores (0, 10, 0).
    """
    role = "sensitive; domain = [10, 20]; missing = 'category'"
    release = publishing(tmp_path, {"x": [10] * 6 + [20] * 2 + [None] * 2}, role)
    assert release.sql("SELECT SUM(x), COUNT(x), AVG(x) FROM release").value.tolist() == pytest.approx([100, 10, 10])
    answer = release.sql("SELECT AVG(x) FROM release")
    assert answer.standard_error[0] == pytest.approx(sqrt(6 * 25 + 2 * 400 + 2 * 25 - 100 * 0) / 10)
    assert "Records without a value of 'x' are left out." in answer.notes
    assert release.distribution("x").value.tolist() == pytest.approx([1, 1])
    assert release.distribution("x").groups == ((10,), (20,))


def test_a_value_that_nobody_publishes_has_the_rows_of_chance_by_hand(tmp_path: Path) -> None:
    """Eight 10 and no 20, of which 8/4 = 2 are due by chance: in a variance they count, in an estimate they do not.

    SUM: 8 5 = 40; the squares 100 and 400 have the weights -50 and 550, Var = 8 (5^2 + 50) + 2 (25^2 - 550) = 750.
    At or below 10: 8 3/2 = 12; Var = 8 (9/4 - 3/2) + 2 (1/4 + 1/2) = 7.5.
    """
    release = publishing(tmp_path, {"x": [10] * 8}, "sensitive; domain = [10, 20]")
    answer = release.sql("SELECT SUM(x) FROM release")
    assert answer.value.tolist() == pytest.approx([40])
    assert answer.standard_error.tolist() == pytest.approx([sqrt(750)])
    assert (8 * release.distribution("x").value).tolist() == pytest.approx([12, 8])
    assert (8 * release.distribution("x").standard_error).tolist() == pytest.approx([sqrt(7.5), 0])


def test_bins_count_at_their_middles_by_hand(tmp_path: Path) -> None:
    """P = (3, 1, 1; ...)/5: of 10, 5 and 5 published P^-1 o = (5 o - 20)/2 = (15, 2.5, 2.5)."""
    rows = ["[0, 10)"] * 10 + ["[10, 30)"] * 5 + ["[30, 40)"] * 5
    release = publishing(tmp_path, {"x": rows}, f"sensitive; domain = {BINS}")
    answer = release.sql("SELECT AVG(x) FROM release")
    assert answer.value.tolist() == pytest.approx([(15 * 5 + 2.5 * 20 + 2.5 * 35) / 20])
    assert (
        "'x' is published in bins, and every record counts at the middle of its bin; AVG(x) would be 5 at the lower "
        "ends, 16.25 at the upper." in answer.notes
    )
    grouped = release.sql("SELECT x, SUM(x) FROM release GROUP BY x")
    assert grouped.value.tolist() == pytest.approx([75, 50, 87.5])
    assert any("SUM(x) would be up to 75 less, at the upper ends up to 75 more." in note for note in grouped.notes)
    counted = release.sql("SELECT COUNT(x) FROM release")
    assert counted.value.tolist() == [20]
    assert not any("bins" in note for note in counted.notes)


def test_quantiles_of_bins_are_bins(tmp_path: Path) -> None:
    rows = ["[0, 10)"] * 500 + ["[10, 30)"] * 300 + ["[30, 40)"] * 200
    release = publishing(tmp_path, {"x": rows}, f"sensitive; domain = {BINS}", "gamma = 30")
    answer = release.sql("SELECT MEDIAN(x), QUANTILE(x, 0.9) AS high FROM release")
    assert answer.marks == tuple(BINS)
    row = {"figure": "high", "estimate": "[30, 40)", "standard_error": None, "lower": "[30, 40)", "upper": "[30, 40)"}
    assert answer.rows()[1] == row
    assert answer.to_arrow().column("estimate").to_pylist() == ["[0, 10)", "[30, 40)"]
    assert "high: [30, 40) ± nan [[30, 40), [30, 40)]" in repr(answer)
    with pytest.raises(UsageError, match="have no axis to be drawn on"):
        answer.plot()
    with pytest.raises(UsageError, match=r"MEDIAN\(x\) is a text, and another figure of the query is not"):
        release.sql("SELECT MEDIAN(x), COUNT(*) FROM release")


def test_where_the_function_crosses_several_times_the_quantile_is_in_the_middle(tmp_path: Path) -> None:
    """P = (2, 1, 1, 1, 1; ...)/6 and 12, 0, 12, 0, 6 published: P^-1 o = 6 o - 30 = (42, -30, 42, -30, 6).

    Sums from below: 42, 12, 54, 24, 30. Half of 30 is reached at the first value, and missed last at the second.
    """
    rows = [1] * 12 + [3] * 12 + [5] * 6
    release = publishing(tmp_path, {"x": rows}, "sensitive; domain = [1, 2, 3, 4, 5]", "gamma = 2")
    assert (30 * release.distribution("x").value).tolist() == pytest.approx([42, 12, 54, 24, 30])
    assert release.sql("SELECT MEDIAN(x) FROM release").value.tolist() == [2]
    assert [end.tolist() for end in release.sql("SELECT MEDIAN(x) FROM release").interval()] == [[1], [5]]


def test_survey_weights_by_hand(tmp_path: Path) -> None:
    """Weights 1 and 3 for 10, 10, 10, 20: weighted sums (3, 3) become P^-1 = (3, 3); squares (3, 9)."""
    release = publishing(tmp_path, {"x": [10] * 3 + [20], "w": [1, 1, 1, 3]}, "sensitive; domain = [10, 20]")
    answer = release.sql("SELECT SUM(x) FROM release", weight="w")
    assert answer.value.tolist() == pytest.approx([3 * 5 + 3 * 25])
    # sum w^2 (a^2 - b), b the weights of the squares 100 and 400: -50 and 550
    assert answer.standard_error[0] ** 2 == pytest.approx(3 * (25 + 50) + 9 * (625 - 550))
    assert release.distribution("x", weight="w").value.tolist() == pytest.approx([0.5, 1])
    assert release.sql("SELECT MEDIAN(x) FROM release", weight="w").value.tolist() == [10]


def test_a_group_without_records_has_no_figure(tmp_path: Path) -> None:
    """10 10 are published where y = 1: x = 20 is estimated there at 2 - 3 = -1 records."""
    release = publishing(tmp_path, {"x": [10, 10, 20, 20], "y": [1, 1, 2, 2]}, "sensitive; domain = [10, 20]")
    answer = release.sql("SELECT AVG(x), MEDIAN(x) FROM release WHERE x = 20 AND y = 1")
    assert np.isnan(answer.value).all()
    assert [row["lower"] for row in answer.rows()] == [-np.inf, 10]


# --- what is asked, and refused ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Release:
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "sex": rng.choice(["F", "M"], 400).tolist(),
            "age": rng.integers(20, 80, 400).tolist(),
            "pain": rng.choice(["none", "mild", "severe"], 400).tolist(),
            "cause": rng.choice(["fall", "burn"], 400).tolist(),
            "stay": rng.choice(["< 1", "[1, 7)", ">= 7"], 400).tolist(),
        }
    )
    roles = {
        "sex": "quasi_identifier",
        "age": "other",
        "pain": "sensitive; domain = ['none', 'mild', 'severe']; ordered = true",
        "cause": "sensitive",
        "stay": "sensitive; domain = ['< 1', '[1, 7)', '>= 7']",
    }
    return released(table, make_policy(roles, "gamma = 20"), folder=tmp_path_factory.mktemp("ward") / "r")


REFUSED = {
    "SELECT AVG(cause) FROM release": "'cause' holds texts such as 'burn' and 'fall', which are no numbers",
    "SELECT MEDIAN(cause) FROM release": "'cause' holds texts such as 'burn' and 'fall', which are in no order",
    "SELECT AVG(pain) FROM release": "'pain' holds texts such as 'none' and 'mild', which are no numbers",
    "SELECT SUM(stay) FROM release": "'< 1' has no end, so it has no middle",
    "SELECT QUANTILE(pain, 1.5) FROM release": "a quantile is at one share, a number between 0 and 1",
    "SELECT QUANTILE(pain, [0.1, 0.5]) FROM release": "a quantile is at one share",
    "SELECT QUANTILE(age, 0.5) FROM release": "'age' is not randomized",
    "SELECT MEDIAN(age) FROM release": "'age' is not randomized",
    "SELECT QUANTILE_CONT(pain, 0.5) FROM release": "cannot be corrected",
    "SELECT 2 * MEDIAN(pain) FROM release": "cannot be corrected",
    "SELECT MEDIAN(pain), MEDIAN(stay) FROM release": "is one of other texts",
    "SELECT MEDIAN(pain + 1) FROM release": "cannot be corrected",
    "SELECT QUANTILE(nothing, 0.5) FROM release": "no column 'nothing'",
}


@pytest.mark.parametrize("query", REFUSED, ids=str)
def test_what_cannot_be_told_is_refused_with_a_way_out(ward: Release, query: str) -> None:
    with pytest.raises(UsageError) as caught:
        ward.sql(query)
    assert REFUSED[query] in caught.value.message
    assert caught.value.hint


def test_ordered_texts_have_quantiles_and_a_distribution_in_their_order(ward: Release) -> None:
    answer = ward.distribution("pain", by="sex", where="cause = 'fall' AND age > 30")
    assert answer.by == ("sex", "pain")
    assert answer.groups == tuple((sex, pain) for sex in "FM" for pain in ("none", "mild", "severe"))
    assert answer.value[[2, 5]].tolist() == [1, 1]
    quantiles = ward.sql("SELECT cause, sex, QUANTILE(pain, 0.9) FROM release GROUP BY cause, sex ORDER BY sex DESC")
    assert quantiles.by == ("cause", "sex")
    assert [group[1] for group in quantiles.groups] == ["M", "M", "F", "F"]
    assert {row["estimate"] for row in quantiles.rows()} <= {"none", "mild", "severe"}


def test_grouping_sets_and_limits_keep_each_quantile_with_its_group(ward: Release) -> None:
    every = ward.sql("SELECT sex, cause, MEDIAN(pain) FROM release GROUP BY CUBE (sex, cause)")
    one = ward.sql("SELECT sex, cause, MEDIAN(pain) FROM release GROUP BY sex, cause")
    both = dict(zip(every.groups, zip(*(end.tolist() for end in every.interval()), strict=True), strict=True))
    for group, ends in zip(one.groups, zip(*(end.tolist() for end in one.interval()), strict=True), strict=True):
        assert both[group] == ends
    text = (
        "SELECT sex, cause, MEDIAN(pain) FROM release GROUP BY CUBE (sex, cause) ORDER BY sex, cause LIMIT 2 OFFSET 1"
    )
    few = ward.sql(text)
    assert [both[group] for group in few.groups] == list(zip(*(end.tolist() for end in few.interval()), strict=True))


@pytest.mark.parametrize(
    ("column", "by", "message"),
    [
        ("cause", (), "in no order"),
        ("age", (), "'age' is not randomized"),
        ("pian", (), "no column 'pian'"),
        ("pain", "pain", "named more than once"),
        ("pain", ("sex", "sex"), "named more than once"),
        ("pain", "size", "no column 'size'"),
    ],
)
def test_distributions_that_there_are_not(ward: Release, column: str, by: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        ward.distribution(column, by)
    assert caught.value.hint


def test_the_weight_of_a_distribution_is_an_untouched_column_of_numbers(ward: Release) -> None:
    with pytest.raises(UsageError, match="no untouched column 'pain' to weigh by"):
        ward.distribution("pain", weight="pain")
    assert ward.distribution("pain", weight="age").value[-1] == 1


def test_a_condition_that_nobody_satisfies_is_said(ward: Release) -> None:
    assert "No published row satisfies the condition." in ward.distribution("pain", where="age > 900").notes
    assert any("'x' is no value of 'cause'" in note for note in ward.distribution("pain", where="cause = 'x'").notes)


def test_in_a_release_by_groups_counts_are_offered(tmp_path: Path) -> None:
    table = pa.table({"sex": ["F", "M"] * 30, "x": [1, 2, 3] * 20})
    policy = make_policy({"sex": "quasi_identifier", "x": "sensitive"}, "l = 3", "anatomy")
    release = released(table, policy, folder=tmp_path / "r")
    for query in ("SELECT AVG(x) FROM release", "SELECT MEDIAN(x) FROM release"):
        with pytest.raises(UsageError, match="only in the table of groups"):
            release.sql(query)
    with pytest.raises(UsageError, match="only in the table of groups"):
        release.distribution("x")


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_writes_and_draws(ward: Release, tmp_path: Path) -> None:
    folder = str(ward.folder)
    printed = run.invoke(app, ["distribution", folder, "pain", "--by", "sex"]).output
    assert [line.split()[:2] for line in printed.splitlines()[2:5]] == [["F", "none"], ["F", "mild"], ["F", "severe"]]
    assert "The share of the records at or below each value." in printed
    files = [str(tmp_path / name) for name in ("f.csv", "f.svg")]
    told = run.invoke(app, ["distribution", folder, "pain", "--json", "-o", files[0], "--plot", files[1]])
    found = json.loads(told.output)
    assert [row["pain"] for row in found["rows"]] == ["none", "mild", "severe"]
    assert found["rows"][2]["estimate"] == 1
    assert Path(files[0]).read_text(encoding="utf-8").splitlines()[0].startswith("pain,estimate")
    assert "at or below each pain" in Path(files[1]).read_text(encoding="utf-8")


def test_a_small_error_is_printed_with_two_digits_and_so_is_its_estimate(tmp_path: Path) -> None:
    """Of 400 published 10 and 400 published 20 a mean of 15 has the error sqrt(400 (5^2 + 50 + 25^2 - 550))/800."""
    release = publishing(tmp_path, {"x": [10, 20] * 400}, "sensitive; domain = [10, 20]")
    printed = run.invoke(app, ["estimate", str(release.folder), "SELECT AVG(x) FROM release"]).output
    assert printed.splitlines()[2].split() == ["15.00", "0.3062", "14.40", "15.60"]


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet", "arrow"])
def test_quantiles_of_texts_are_written_as_texts(ward: Release, suffix: str, tmp_path: Path) -> None:
    answer, file = ward.sql("SELECT sex, QUANTILE(pain, 0.9) FROM release GROUP BY sex"), tmp_path / f"a.{suffix}"
    answer.save(file)
    assert b"severe" in file.read_bytes()
    rows = answer.to_dict()["rows"]
    assert [(row["estimate"], row["standard_error"]) for row in rows] == [("severe", None)] * 2


@pytest.mark.parametrize("query", ["SUM(age * stay)", "AVG(stay * 2)", "SUM(pain + 1) FILTER (WHERE sex = 'F')"])
def test_texts_are_no_numbers_inside_an_expression_either(ward: Release, query: str) -> None:
    with pytest.raises(UsageError, match="does not fit"):
        ward.sql(f"SELECT {query} FROM release")


@pytest.mark.parametrize("level", [0, 1, 95, -0.5, float("nan"), 0.9999999999999999])
def test_a_level_that_no_interval_has_is_refused_where_it_is_asked_for_afterwards(ward: Release, level: float) -> None:
    results = (ward.count("pain"), ward.table(["pain", "sex"]), ward.regress("pain == 'none' ~ age", interval="wald"))
    for result in (*results, Score(0.5, 0.1)):
        with pytest.raises(UsageError, match="must lie between 0 and 1"):
            result.interval(level)


def test_quantiles_of_texts_are_printed_as_texts(ward: Release) -> None:
    printed = run.invoke(app, ["estimate", str(ward.folder), "SELECT QUANTILE(pain, 0.9) FROM release"]).output
    assert printed.splitlines()[2].split() == ["severe", "-", "severe", "severe"]
