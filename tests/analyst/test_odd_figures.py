"""Figures that were wrong or silent: quotients of nothing, odd numbers and weights, totals among values, orders."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sfumato.analyst.release import Release
from sfumato.errors import UsageError
from sfumato.show.files import rows_of
from sfumato.show.layout import layout_of
from tests.conftest import make_policy
from tests.engines.tools import released

SURE = "gamma = 1e15"  # hardly any noise: estimates are the truth


def sure(table: pa.Table, folder: Path, secret: str = "s", format: str = "parquet", **roles: str) -> Release:
    all_roles = {name: "sensitive" if name == secret else "other" for name in table.column_names} | roles
    return released(table, make_policy(all_roles, SURE), folder=folder, format=format)


# --- AVG of nobody ----------------------------------------------------------------------------------------------------


def test_t2_avg_of_a_count_that_is_zero_up_to_rounding_is_no_figure(tmp_path: Path) -> None:
    x = np.concatenate([np.full(300, 50.0), np.full(300, 60.0)])
    table = pa.table({"x": x, "s": ["a"] * 300 + ["b"] * 300})
    release = sure(table, tmp_path / "r", s="sensitive; domain = ['a', 'b', 'c']")
    answer = release.sql("SELECT s, AVG(x) FROM release GROUP BY s")
    assert answer.value[:2] == pytest.approx([50, 60])
    assert np.isnan(answer.value[2])
    assert answer.to_dict()["rows"][2]["estimate"] is None
    assert any("zero up to rounding" in note for note in answer.notes)
    assert [end[2] for end in answer.interval()] == [-np.inf, np.inf]
    file = tmp_path / "answer.csv"
    answer.save(file)
    assert file.read_text().splitlines()[3].startswith("c,,")
    answer.plot(tmp_path / "answer.svg")


# --- numbers that are none, or too large ------------------------------------------------------------------------------


def test_t2_infinite_numbers_give_no_figure_and_a_note(tmp_path: Path) -> None:
    table = pa.table(
        {"x": [1.0, np.inf, 3.0, -np.inf] * 20, "g": ["one", "two", "one", "two"] * 20, "s": ["a", "b"] * 40}
    )
    release = sure(table, tmp_path / "r")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for figure in ("SUM(x)", "AVG(x)", "SUM(x) / COUNT(*)"):
            answer = release.sql(f"SELECT g, {figure} FROM release GROUP BY g")
            assert np.isfinite(answer.value[0])
            assert np.isnan(answer.value[1])
            assert any("infinite" in note for note in answer.notes)
            assert answer.to_dict()["rows"][1]["estimate"] is None
            release.sql(f"SELECT s, {figure} FROM release GROUP BY s").to_dict()


def test_t2_integers_beyond_63_bits_can_be_compared(tmp_path: Path) -> None:
    large = [2**63 + 1, 2**63 + 3, 5]
    table = pa.table({"id": pa.array(large * 20, pa.uint64()), "s": pa.array(large * 20, pa.uint64())})
    release = sure(table, tmp_path / "r")
    for column in ("id", "s"):
        for where, rows in ((f"> {2**63 + 1}", 20), (f">= {2**63 + 1}", 40), (f"= '{2**63 + 3}'", 20), ("< 6", 20)):
            answer = release.sql(f"SELECT COUNT(*) FROM release WHERE {column} {where}")
            assert answer.value == pytest.approx([rows], abs=1e-3), (column, where)


def test_t2_nan_is_counted_alike_in_every_format(tmp_path: Path) -> None:
    table = pa.table({"x": [1.5, np.nan, 2.0] * 20, "s": ["a", "b", "a"] * 20})
    for format in ("parquet", "csv"):
        release = sure(table, tmp_path / format, format=format)
        for where, rows in (("x < 3", 40), ("x > 3", 20), ("x BETWEEN 0 AND 5", 40), ("NOT x > 5", 40)):
            answer = release.sql(f"SELECT COUNT(*) FROM release WHERE {where}")
            assert answer.value.tolist() == [rows], (format, where)


# --- weights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        (None, "20 published record\\(s\\) have no weight"),
        (-1.0, "have a negative weight"),
        (np.inf, "is not finite"),
        (np.nan, "is not finite"),
    ],
)
def test_t2_weights_that_are_missing_or_negative_are_refused(weight: float | None, said: str, tmp_path: Path) -> None:
    table = pa.table({"w": pa.array([1.5, weight, 2.0] * 20), "s": ["a", "b", "a"] * 20})
    release = sure(table, tmp_path / "r", w="other; missing = 'category'")
    with pytest.raises(UsageError, match=said) as caught:
        release.sql("SELECT s, COUNT(*) FROM release GROUP BY s", weight="w")
    where = caught.value.hint.split("e.g. ")[1].rstrip(".")
    answer = release.sql(f"SELECT s, COUNT(*) FROM release {where} GROUP BY s", weight="w")
    assert answer.value == pytest.approx([70, 0], abs=1e-3)


# --- totals and values ------------------------------------------------------------------------------------------------


def test_t2_a_value_that_is_called_as_the_totals_are_is_not_mixed_up_with_them(tmp_path: Path) -> None:
    table = pa.table({"g": ["(all)", "x"] * 30, "s": ["a", "b"] * 30})
    release = sure(table, tmp_path / "r")
    assert release.sql("SELECT g, COUNT(*) FROM release GROUP BY g").groups == (("(all)",), ("x",))
    for sets in ("CUBE (g)", "ROLLUP (g)", "GROUPING SETS ((g), ())"):
        with pytest.raises(UsageError, match=r"'g' has a value '\(all\)', and so have the totals"):
            release.sql(f"SELECT g, COUNT(*) FROM release GROUP BY {sets}")


# --- what is shown, and in which order --------------------------------------------------------------------------------


def test_t2_print_tells_how_many_rows_it_leaves_out(tmp_path: Path) -> None:
    table = pa.table({"x": list(range(73)) * 2, "s": ["a", "b"] * 73})
    release = sure(table, tmp_path / "r")
    shown = repr(release.count("x"))
    assert shown.endswith("... and 23 more: .rows(), .to_arrow() or .save(FILE) give all 73.")
    assert "more" not in repr(release.count("s"))


BINNED = "other; bins = { breaks = [18, 30, 80, 100] }"
IN_ORDER = ["< 18", "[18, 30)", "[30, 80)", "[80, 100)", ">= 100"]


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_t2_bins_are_in_their_order(format: str, tmp_path: Path) -> None:
    ages = [5, 20, 40, 90, 104] * 30
    table = pa.table({"age": ages, "sex": ["F", "M", "F"] * 50, "s": ["a", "b"] * 75})
    release = sure(table, tmp_path / "r", format=format, age=BINNED)
    assert [group[0] for group in release.count("age").groups] == IN_ORDER
    assert [group[0] for group in release.sql("SELECT age, COUNT(*) FROM release GROUP BY age").groups] == IN_ORDER
    falling = release.sql("SELECT age, COUNT(*) FROM release GROUP BY age ORDER BY age DESC")
    assert [group[0] for group in falling.groups] == IN_ORDER[::-1]
    cube = release.sql("SELECT age, sex, COUNT(*) FROM release GROUP BY CUBE (age, sex) ORDER BY age")
    assert list(dict.fromkeys(group[0] for group in cube.groups)) == [*IN_ORDER, "(all)"]
    assert release.table(["age", "sex"]).axes[0].values == tuple(IN_ORDER)


def test_t2_bins_are_in_their_order_in_pictures(tmp_path: Path) -> None:
    ages, sexes = [20, 40, 5, 20, 40] * 30, ["F", "F", "M", "M", "M"] * 30  # no young women
    table = pa.table({"age": ages, "sex": sexes, "s": ["a", "b"] * 75})
    release = sure(table, tmp_path / "r", age=BINNED)
    answer = release.count(["sex", "age"])
    picture = layout_of(rows_of(answer.to_arrow()), ["sex", "age"], 0.95)
    assert picture.colours == IN_ORDER[:3]
    assert layout_of(rows_of(answer.to_arrow()), ["age", "sex"], 0.95).lines("") == IN_ORDER[:3]


@pytest.mark.parametrize("need", [(SURE, "uniform"), ("l = 2", "anatomy")])
def test_t2_declared_categories_are_in_their_order(need: tuple[str, str], tmp_path: Path) -> None:
    table = pa.table({"school": ["high", "primary", None, "none"] * 30, "s": ["a", "b", "c"] * 40})
    stated = "quasi_identifier; missing = 'category'; domain = ['none', 'primary', 'high', 'university']"
    release = released(table, make_policy({"school": stated, "s": "sensitive"}, *need), folder=tmp_path / "r")
    in_order = ["none", "primary", "high", None]
    assert [group[0] for group in release.count("school").groups] == in_order
    assert list(dict.fromkeys(group[0] for group in release.count(["school", "s"]).groups)) == in_order
    assert release.table(["school", "s"]).axes[0].values == tuple(in_order)
    assert release.manifest.columns[0].order == ("none", "primary", "high", "university")


def test_t2_bins_of_a_width_are_in_their_order(tmp_path: Path) -> None:
    table = pa.table({"age": [5, 20, 40, 104, -7] * 30, "s": ["a", "b"] * 75})
    release = sure(table, tmp_path / "r", age="other; bins = { width = 20 }")
    assert [g[0] for g in release.count("age").groups] == ["[-20, 0)", "[0, 20)", "[20, 40)", "[40, 60)", "[100, 120)"]


def test_t2_randomized_bins_are_not_put_in_the_order_of_text(tmp_path: Path) -> None:
    table = pa.table({"x": [1, 2] * 75, "age": [5, 20, 40, 90, 104] * 30})
    release = sure(table, tmp_path / "r", "age", age="sensitive; bins = { breaks = [18, 30, 80, 100] }")
    with pytest.raises(UsageError, match="'age' is published in bins"):
        release.sql("SELECT COUNT(*) FROM release WHERE age > '[18, 30)'")


@pytest.mark.parametrize(
    ("bins", "labels"),
    [
        ("'year'", ["2009", "2018", "2019", "2020"]),
        ("'quarter'", ["2009-Q4", "2018-Q1", "2019-Q3", "2020-Q1"]),
        ("'month'", ["2009-12", "2018-02", "2019-09", "2020-01"]),
        ("{ breaks = ['2010-01-01', '2019-01-01'] }", ["< 2010-01-01", "[2010-01-01, 2019-01-01)", ">= 2019-01-01"]),
    ],
)
def test_t2_date_bins_are_in_their_order(bins: str, labels: list[str], tmp_path: Path) -> None:
    days = ["2019-09-30", "2018-02-01", "2020-01-01", "2009-12-31"]
    path = tmp_path / "t.csv"
    path.write_text("day,s\n" + "".join(f"{day},{s}\n" for s in "ab" for day in days for _ in range(10)))
    roles = {"day": f"other; bins = {bins}", "s": "sensitive"}
    release = released(path, make_policy(roles, SURE), folder=tmp_path / "r", format="csv")
    assert [group[0] for group in release.count("day").groups] == labels
    assert release.manifest.columns[0].holds is None
    later = f"SELECT COUNT(*) FROM release WHERE day >= '{labels[-2]}'"
    if labels[0].startswith("<"):
        with pytest.raises(UsageError, match="'day' is published in bins"):
            release.sql(later)
    else:
        assert release.sql(later).value == pytest.approx([40])


@pytest.mark.parametrize("role", ["other", "sensitive"])
@pytest.mark.parametrize(
    ("bins", "day"), [("year", "2019-05-15"), ("quarter", "2019-05-15"), ("quarter", "2019"), ("month", "2019-09-15")]
)
def test_t2_a_day_inside_a_published_period_is_refused(role: str, bins: str, day: str, tmp_path: Path) -> None:
    """As text '2019-Q1' comes after '2019-05-15', so its rows would be counted among the later ones without a word."""
    table = pa.table({"day": ["2019-01-30", "2018-02-01", "2019-09-30"] * 20, "s": ["a", "b"] * 30})
    secret = "day" if role == "sensitive" else "s"
    release = sure(table, tmp_path / "r", secret, day=f"{role}; bins = '{bins}'")
    for where in (f"day >= '{day}'", f"day BETWEEN '{day}' AND '2020-01-01'"):
        with pytest.raises(UsageError, match="is no such period"):
            release.sql(f"SELECT COUNT(*) FROM release WHERE {where}")


def test_t2_a_merged_value_is_refused_by_its_old_name(tmp_path: Path) -> None:
    """It would be 0 with no error, or, among other values, be left out without a word."""
    table = pa.table({"ward": ["A", "B", "C", "D"] * 30, "s": ["a", "b"] * 60})
    release = sure(table, tmp_path / "r", ward="other; merge = { few = ['B', 'C'], D = ['D'] }")
    for where in ("ward = 'B'", "ward IN ('A', 'C')", "ward <> 'B'"):
        with pytest.raises(UsageError, match="was merged into 'few'") as refused:
            release.sql(f"SELECT COUNT(*) FROM release WHERE {where}")
        assert "It stands for 'B', 'C'." in str(refused.value.hint)
        with pytest.raises(UsageError, match="was merged into 'few'"):
            release.count("s", where=where)
    assert release.sql("SELECT COUNT(*) FROM release WHERE ward IN ('few', 'D')").value == pytest.approx([90])


@pytest.mark.parametrize(
    ("form", "asked", "message", "hint"),
    [
        ("set", "a|c", "'a|c' is a set of values, and conditions ask for values", "\"s\" IN ('a', 'c')"),
        ("card", "card 3", "'card 3' is the number of a card, and conditions ask for values", "\"s\" = 'a'"),
    ],
)
def test_sets_and_cards_are_not_asked_for(form: str, asked: str, message: str, hint: str, tmp_path: Path) -> None:
    """What a row shows is no value of a record: it would be 0 with no error."""
    table = pa.table({"x": [1, 2] * 60, "s": ["a", "b", "c", "d"] * 30})
    policy = make_policy(
        {"x": "other", "s": "sensitive"}, "gamma = 2", "subset", options=f"form = '{form}'\nmembers = 2"
    )
    release = released(table, policy, folder=tmp_path / "r")
    for where in (f"s = '{asked}'", f"s IN ('b', '{asked}')", f"x = 1 OR s <> '{asked}'"):
        with pytest.raises(UsageError, match=re.escape(message)) as refused:
            release.sql(f"SELECT COUNT(*) FROM release WHERE {where}")
        assert hint in str(refused.value.hint)
    for known in ("s = 'b'", "s IN ('a', 'c')", "s = 'a|x'", "s = 'card'"):  # the last two get a note
        release.sql(f"SELECT COUNT(*) FROM release WHERE {known}")


def test_t2_a_merged_secret_is_refused_by_its_old_name(tmp_path: Path) -> None:
    table = pa.table({"x": [1, 2] * 60, "s": ["a", "b", "c", "d"] * 30})
    release = sure(table, tmp_path / "r", s="sensitive; merge = { few = ['b', 'c'] }")
    with pytest.raises(UsageError, match="was merged into 'few'"):
        release.sql("SELECT COUNT(*) FROM release WHERE s = 'b'")
