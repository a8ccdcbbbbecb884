"""The page Roles: what a form changes of a policy and what it leaves alone, problems where they are, undo."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.publisher import toml
from sfumato.studio.desk.desk import open_desk
from sfumato.studio.desk.rules import Mistake, changed, problems, shown
from tests.studio.tables import At, desk_at, patients, write_csv

OWN = """
version = 1
[columns.patient_id]
role = "identifier"
[columns.age]
role = "quasi_identifier"
bins = { width = 10, origin = 3 }
[columns.sex]
role = "quasi_identifier"
merge = { "F or M" = ["F", "M"] }
[columns.ward]
role = "other"
publish_as_is = "a plan of the house is public"
[columns.diagnosis]
role = "sensitive"
domain = ["flu", "asthma", "HIV", "diabetes", "scurvy"]
[person]
column = "patient_id"
repeated = "per-row"
[method]
name = "fine-grain"
weights = { flu = 0.4, asthma = 0.3, HIV = 0.1, diabetes = 0.1, scurvy = 0.1 }
[requirement]
rho1 = "1/5"
rho2 = 0.5
[[requirement.values]]
value = "HIV"
rho1 = "1/10"
rho2 = "1/4"
given = "age below 20"
[output]
format = "csv"
"""


def _here(at: At, number: int, **fields: str) -> list[tuple[str, str]]:
    """Return the fields of one column as the page would send them."""
    column, rule = [*at.desk.raw["columns"].items()][number]
    sent = {**shown(rule), **fields}
    return [(f"{number}.here", column), *((f"{number}.{name}", text) for name, text in sent.items() if text)]


def test_what_is_not_touched_stays(tmp_path: Path) -> None:
    with desk_at(patients(tmp_path), OWN) as at:
        at.get("/roles")
        before, states = at.desk.raw, len(list(at.desk.workspace.folder.glob("policies/*")))
        every = [field for k in range(5) for field in _here(at, k)]
        assert at.post("/roles", *every).status == 303
        assert at.desk.raw == before
        assert at.post("/roles", *_here(at, 1, numbers="20")).status == 303
        after = at.desk.raw
        assert after["columns"]["age"] == {"role": "quasi_identifier", "bins": {"width": 20, "origin": 3}}
        assert {**after, "columns": {**after["columns"], "age": before["columns"]["age"]}} == before
        assert len(list(at.desk.workspace.folder.glob("policies/*"))) <= states + 2


def test_undo_across_pages(tmp_path: Path) -> None:
    with desk_at(patients(tmp_path), OWN) as at:
        at.get("/roles")
        first = at.desk.raw
        at.post("/roles", *_here(at, 1, bins="breaks", numbers="30, 60"))
        second = at.desk.raw
        assert second["columns"]["age"]["bins"] == {"breaks": [30, 60]}
        at.get("/requirement")
        at.post("/requirement", ("method", "uniform"), ("kind", "gamma"), ("gamma", "4"))
        assert at.desk.raw["requirement"] == {"gamma": 4}
        assert at.post("/undo", ("back", "/roles")).status == 303
        assert at.desk.raw == second
        at.post("/undo", ("back", "/requirement"))
        assert at.desk.raw == first
        at.post("/redo", ("back", "/roles"))
        assert at.desk.raw == second


@pytest.mark.parametrize(
    ("number", "fields", "told"),
    [
        (1, {"numbers": "ten"}, "is no number"),
        (1, {"bins": "breaks", "numbers": ""}, "Write where bins begin"),
        (2, {"merge": "F, M"}, "is not understood"),
        (4, {"domain": "listed", "values": "  "}, "List the values"),
    ],
)
def test_what_cannot_be_understood_is_not_lost(number: int, fields: dict[str, str], told: str, tmp_path: Path) -> None:
    with desk_at(patients(tmp_path), OWN) as at:
        at.get("/roles")
        before = at.desk.workspace.text
        sent = [*_here(at, number, **fields), *_here(at, 3, as_is="another reason")]
        answer = at.post("/roles", *sent)
        assert answer.status == 422
        assert told in answer.text
        assert 'role="alert"' in answer.text
        assert "another reason" in answer.text
        assert at.desk.workspace.text == before


def test_an_invalid_state_is_kept_and_shown_with_its_problem(tmp_path: Path) -> None:
    with desk_at(patients(tmp_path), OWN) as at:
        at.get("/roles")
        assert at.post("/roles", *_here(at, 1, bins="width", numbers="-5", origin="")).status == 303
        assert at.desk.raw["columns"]["age"]["bins"] == {"width": -5}
        page = at.get("/roles")
        assert "The policy cannot be used yet" in page
        assert "1 to decide" in page
        assert "to do" in page


def test_decisions_that_are_left_are_shown_where_they_are(tmp_path: Path) -> None:
    rows = [[k, f"20{k % 100:02}-0{1 + k % 9}-{10 + k % 19}", "yes" if k % 3 else "no"] for k in range(300)]
    with desk_at(write_csv(tmp_path / "t.csv", ["number", "born", "diagnosis"], rows)) as at:
        at.get("/table")
        at.get("/table")
        page = at.get("/roles")
        assert "Decide: drop, or quasi_identifier with bins" in page
        raw = at.desk.raw["columns"]
        assert raw["born"]["role"].startswith("DECIDE")
        at.post("/roles", *_here(at, 1, role="quasi_identifier", bins="year"), *_here(at, 0, role="drop"))
        assert at.desk.problem() is None
        assert at.desk.raw["columns"]["born"] == {"role": "quasi_identifier", "bins": "year"}


def test_a_check_finds_what_gives_the_secret_away(tmp_path: Path) -> None:
    policy = OWN.replace('domain = ["flu", "asthma", "HIV", "diabetes", "scurvy"]', "")
    with desk_at(patients(tmp_path, 2000), policy) as at:
        page = at.get("/roles")
        assert "gives the secret away" not in page
        assert "occur in fewer than 5 rows (&#39;scurvy&#39;)" in page
        assert "2,000 rows belong to 1,000 persons" in page
        assert at.post("/roles", ("check", "1")).status == 303
        page = at.get("/roles")
        assert page.count("It gives the secret away") == 1
        assert at.desk.findings() is not None
        at.post("/roles", *_here(at, 3, role="drop", as_is=""))
        assert at.desk.findings() is None  # it was of other columns


def test_an_identifier_is_named_before_any_check(tmp_path: Path) -> None:
    with desk_at(
        patients(tmp_path),
        OWN.replace('[columns.patient_id]\nrole = "identifier"', '[columns.patient_id]\nrole = "other"'),
    ) as at:
        page = at.get("/roles")
        assert "It is named like an identifier" in page


def test_the_preview_is_what_would_be_published(tmp_path: Path) -> None:
    with desk_at(patients(tmp_path), OWN) as at:
        at.get("/roles")
        before = at.desk.workspace.text
        answer = at.site.post(
            "/roles/preview", _here(at, 1, bins="breaks", numbers="40, 60", origin=""), x_fragment="1"
        )
        assert "3 different values" in answer.text
        ages = [int(line.split(",")[1]) for line in at.desk.table.read_text().splitlines()[1:]]
        for label, count in (
            ("&lt; 40", sum(age < 40 for age in ages)),
            ("&gt;= 60", sum(age >= 60 for age in ages)),
        ):
            assert re.search(rf">{label}</text>.*?>{count}</text>", answer.text), answer.text
        assert "<html" not in answer.text
        wrong = at.site.post("/roles/preview", _here(at, 1, numbers="x"), x_fragment="1")
        assert "is no number" in wrong.text
        assert at.desk.workspace.text == before


@pytest.mark.parametrize("number", ["99", "9" * 5000, "x"])
def test_a_preview_of_no_column_is_one_of_the_first(number: str, tmp_path: Path) -> None:
    with desk_at(patients(tmp_path), OWN) as at:
        assert at.site.post("/roles/preview", [(f"{number}.role", "drop")], x_fragment="1").status == 200


# --- a rule and its fields --------------------------------------------------------------------------------------------

texts = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=8)
rules = st.fixed_dictionaries(
    {"role": st.sampled_from(["sensitive", "quasi_identifier", "other", "drop", "DECIDE: drop or other"])},
    optional={
        "domain": st.one_of(st.just("observed"), st.lists(st.one_of(texts, st.integers(), st.booleans()), max_size=4)),
        "bins": st.one_of(
            st.sampled_from(["year", "month"]),
            st.fixed_dictionaries({"width": st.integers(1, 50)}, optional={"origin": st.integers(-5, 5)}),
            st.fixed_dictionaries({"breaks": st.lists(st.integers(), min_size=1, max_size=4)}),
        ),
        "merge": st.dictionaries(texts, st.lists(texts, min_size=1, max_size=3), max_size=3),
        "missing": st.sampled_from(["error", "category", "drop"]),
        "ordered": st.booleans(),
        "publish_as_is": texts,
        "from_table": st.booleans(),
        "type": st.sampled_from(["text", "number"]),
        "unknown": texts,
    },
)


@given(rules)
def test_fields_that_are_sent_back_change_nothing(rule: dict[str, Any]) -> None:
    sent = {name: text.replace("\n", "\r\n") for name, text in shown(rule).items() if text}
    assert changed(rule, sent, "text") == rule
    assert tomllib.loads(toml.document({"columns": {"x": rule}})) == {"columns": {"x": rule}}


@given(rules, st.sampled_from(["sensitive", "quasi_identifier", "other"]))
def test_another_role_changes_the_role_alone(rule: dict[str, Any], role: str) -> None:
    sent = {**shown(rule), "role": role}
    assert changed(rule, sent, "text") == {**rule, "role": role}


def test_values_have_the_type_of_the_column() -> None:
    sent = {"role": "sensitive", "domain": "listed", "values": "1\r\n2", "missing": "error"}
    assert changed({"role": "sensitive"}, sent, "whole numbers")["domain"] == [1, 2]
    assert changed({"role": "sensitive"}, sent, "text")["domain"] == ["1", "2"]
    with pytest.raises(Mistake, match="no whole number"):
        changed({"role": "sensitive"}, {**sent, "values": "x"}, "whole numbers")


def test_a_column_that_is_left_out_takes_no_bins() -> None:
    rule = {"role": "other", "bins": {"width": 5}, "missing": "drop", "publish_as_is": "why"}
    assert changed(rule, {**shown(rule), "role": "drop"}, "text") == {"role": "drop", "missing": "drop"}


def test_problems_of_a_rule_are_told_in_words() -> None:
    assert list(problems("x", {"role": "other"})) == []
    assert list(problems("x", {})) == ["Decide what this column is."]
    assert list(problems("x", {"role": "DECIDE: drop or other"})) == ["Decide: drop or other"]
    (told,) = problems("x", {"role": "other", "bins": {"width": 5}, "merge": {"a": ["b"]}})
    assert "bins and merge do not go together" in told.lower()


def test_what_is_open_is_told_in_the_words_of_the_page(tmp_path: Path) -> None:
    """No path of a policy file, and no text in it, which nobody edits there."""
    desk = open_desk(patients(tmp_path, 60), None, None)
    desk.change({"columns": {name: {"role": "DECIDE: sensitive or drop"} for name in ("age", "finding")}}, "two open")
    problem = desk.problem()
    assert problem is not None
    places = [f"  columns.{name}.role: sensitive or drop" for name in ("age", "finding")]
    assert problem.message.splitlines() == ["It leaves 2 decision(s) to you:", *places]
    assert problem.hint == "Decide them under Roles."
