"""The page Requirement: previews are the command line's plans, backwards finds what forwards gives."""

from __future__ import annotations

import html
import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli.main import app
from sfumato.methods import METHODS
from sfumato.publisher import toml
from sfumato.publisher.policy_rules import AboutRule
from sfumato.studio.desk.asking import (
    KINDS,
    Ladder,
    kind_of,
    made_method,
    made_requirement,
    options_of,
    rows_of,
    shown_option,
    shown_requirement,
)
from sfumato.studio.desk.requirement import strictest
from sfumato.studio.desk.rules import Mistake
from tests.studio.tables import HOSTILE, At, desk_at, patients
from tests.studio.test_roles import OWN

PLAIN = (
    OWN[: OWN.index("[person]")]
    + """
[method]
name = "uniform"
[requirement]
rho1 = 0.1
rho2 = 0.25
"""
)


def _fields(at: At, **changes: str) -> list[tuple[str, str]]:
    """Return the form as the page would send it."""
    stated = at.desk.raw["requirement"]
    shown = {name: text for name, text in shown_requirement(stated).items() if text}
    rows = rows_of(stated, at.desk.last_counted.domain.labels if at.desk.last_counted else ())
    values = {f"v{k}.{key}": getattr(row, key) for k, row in enumerate(rows) for key in ("rho1", "rho2")}
    return [*{"method": at.desk.raw["method"]["name"], **shown, **values, **changes}.items()]


def _planned(table: Path, policy: Path) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["plan", str(table), str(policy), "--json"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    "choice",
    [
        {"method": "uniform", "kind": "rho", "rho1": "10", "rho2": "40"},
        {"method": "subset", "kind": "gamma", "gamma": "2.5"},
        {"method": "fine-grain", "kind": "epsilon", "epsilon": "1.2"},
        {"method": "small-domain", "kind": "rho", "rho1": "40", "rho2": "70"},
    ],
)
def test_the_preview_is_the_plan_of_the_command_line(choice: dict[str, str], tmp_path: Path) -> None:
    table = patients(tmp_path, 3000)
    with desk_at(table, PLAIN) as at:
        at.get("/requirement")
        before = at.desk.workspace.text
        shown = at.send("/requirement/preview", *_fields(at, **choice), x_fragment="1").text
        assert at.desk.workspace.text == before
        assert at.post("/requirement", *_fields(at, **choice)).status == 303
        plan = _planned(table, at.desk.workspace.file)
        assert plan["method"] == choice["method"]
        assert f"{100 * plan['record_utility']:.0f} of 100 records stay true" in shown
        for count, error in zip(plan["counts"], plan["standard_error"], strict=True):
            assert f"{count:,} ± {error:,.0f}" in shown
        policy = sf.Policy.load(at.desk.workspace.file)
        card = sf.plan(sf.profile(sf.scan(table, policy)), policy.method, policy.requirement).card
        assert card.promise in html.unescape(shown)
        tried = next(line for line in at.desk.workspace.journal() if line["what"] == "plan tried")
        assert tried["method"] == choice["method"]
        assert tried["record_utility"] == round(plan["record_utility"], 4)
        assert tried["expected_error"] == round(max(plan["standard_error"]), 2)


def test_values_of_their_own_survive_and_change(tmp_path: Path) -> None:
    with desk_at(patients(tmp_path), OWN) as at:
        at.get("/requirement")
        before = at.desk.raw
        assert at.post("/requirement", *_fields(at, others1="20", others2="50")).status == 303
        assert at.desk.raw == before
        counted = at.desk.last_counted
        assert counted is not None
        labels = [row.label for row in rows_of(before["requirement"], counted.domain.labels)]
        place = labels.index("flu")
        more = {"others1": "20", "others2": "50", f"v{place}.rho1": "30", f"v{place}.rho2": "45"}
        at.post("/requirement", *_fields(at, **more))
        after = at.desk.raw["requirement"]
        assert after["rho1"] == "1/5"
        assert after["values"] == [*before["requirement"]["values"], {"value": "flu", "rho1": 0.3, "rho2": 0.45}]
        at.post("/requirement", *_fields(at, others1="", others2=""))
        assert at.desk.raw["requirement"]["others"] == "unprotected"
        assert at.desk.raw["method"] == before["method"]


@pytest.mark.parametrize(
    ("method", "kind", "key"),
    [("uniform", "rho", "rho2"), ("uniform", "gamma", "gamma"), ("subset", "epsilon", "epsilon")],
)
def test_backwards_finds_what_forwards_gives(method: str, kind: str, key: str, tmp_path: Path) -> None:
    with desk_at(patients(tmp_path, 3000), PLAIN) as at:
        at.get("/requirement")
        start = {"method": method, "kind": kind, "rho1": "10", "rho2": "50", "gamma": "5", "epsilon": "1.5"}
        stated = {"rho2": 0.5, "gamma": 5, "epsilon": 1.5}[key]
        policy = at.desk.with_changes(
            method={"name": method}, requirement={key: stated, **({"rho1": 0.1} if kind == "rho" else {})}
        )
        errors = at.desk.planned(policy).figures.standard_error
        assert errors is not None
        asked = math.ceil(1000 * float(errors.max())) / 1000
        answer = at.send("/requirement/backwards", *_fields(at, **start, error=str(asked)))
        assert answer.status == 200, answer.text
        found = float(re.search(rf'name="{key}" value="([^"]+)"', answer.text)[1])  # type: ignore[index]
        assert found == pytest.approx(stated * (100 if key == "rho2" else 1))
        stricter = at.send("/requirement/backwards", *_fields(at, **start, error=str(2 * asked)))
        looser = float(re.search(rf'name="{key}" value="([^"]+)"', stricter.text)[1])  # type: ignore[index]
        assert looser < found


def test_backwards_says_what_cannot_be_had(tmp_path: Path) -> None:
    with desk_at(patients(tmp_path), PLAIN) as at:
        at.get("/requirement")
        answer = at.send("/requirement/backwards", *_fields(at, kind="gamma", gamma="3", error="0.001"))
        assert answer.status == 422
        assert "cannot be had with this method" in answer.text
        for wrong in ("", "x", "-3", "nan", "inf"):
            answer = at.send("/requirement/backwards", *_fields(at, error=wrong))
            assert (answer.status, "Write the error" in answer.text) == (422, True)
        answer = at.send("/requirement/backwards", *_fields(at, method="anatomy", kind="l", l="2", error="5"))
        assert "Only a requirement by beliefs" in answer.text


def test_nothing_is_drawn_in_a_preview(tmp_path: Path) -> None:
    with desk_at(patients(tmp_path), PLAIN) as at:
        at.get("/requirement")
        drawn = at.send("/requirement/preview", *_fields(at, method="suppression", kind="l", l="3"), x_fragment="1")
        assert "nothing is drawn here" in drawn.text
        assert "records stay true" not in drawn.text
        assert "by more than 1/3 (33.3%)" in drawn.text


def test_a_slow_method_is_planned_in_a_job_and_noted(tmp_path: Path) -> None:
    with desk_at(patients(tmp_path), PLAIN) as at:
        at.get("/requirement")
        fields = _fields(at, method="robust-anatomy", kind="r", r="2")
        stated = {"here": "1", "assurance": "proved", "prior": "none", "attribute_sets": "sex"}
        sets = [(f"robust-anatomy.{name}", text) for name, text in stated.items()]
        assert at.post("/requirement", *fields, *sets).status == 303
        assert at.desk.raw["method"] == {"name": "robust-anatomy", "attribute_sets": [["sex"]]}
        assert "takes longer than a moment" in at.get("/requirement")
        assert at.post("/requirement/try").status == 303
        page = at.get("/requirement")
        assert "takes longer than a moment" not in page
        assert "Published values are true" in page
        assert at.desk.workspace.journal()[0]["what"] == "plan tried"


def test_what_is_wrong_is_said_at_the_top_and_nothing_is_lost(tmp_path: Path) -> None:
    with desk_at(patients(tmp_path), PLAIN) as at:
        at.get("/requirement")
        before = at.desk.workspace.text
        for wrong, told in (({"rho1": "x"}, "is no number"), ({"rho2": "120"}, "no percentage")):
            answer = at.post("/requirement", *_fields(at, **wrong))
            assert (answer.status, told in answer.text, 'role="alert"' in answer.text) == (422, True, True)
            assert f'value="{next(iter(wrong.values()))}"' in answer.text
            assert at.desk.workspace.text == before
        preview = at.send("/requirement/preview", *_fields(at, rho1="50", rho2="20"), x_fragment="1")
        assert "is not below rho2" in preview.text
        at.post("/requirement", *_fields(at, rho1="50", rho2="20"))  # a state of its own, with its problem
        assert at.desk.problem() is not None
        assert "is not below rho2" in at.get("/requirement")


def test_without_scripts_the_preview_is_a_page(tmp_path: Path) -> None:
    with desk_at(patients(tmp_path), PLAIN) as at:
        at.get("/requirement")
        answer = at.send("/requirement/preview", *_fields(at, rho2="60"))
        assert "<html" in answer.text
        assert 'name="rho2" value="60"' in answer.text
        assert "records stay true" in answer.text


def test_every_method_is_offered_with_when_not_to_use_it(tmp_path: Path) -> None:
    with desk_at(patients(tmp_path), PLAIN) as at:
        page = at.get("/requirement")
        for method in METHODS:
            assert f'value="{method.name}"' in page
            assert method.avoid_if.split('"')[0][:40] in page.replace("&#39;", "'")
            for option in options_of(method):
                assert option.about, (method.name, option.name)


# --- sections and their fields ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_options_that_are_sent_back_change_nothing(method: Any) -> None:
    stated = {"name": method.name}
    sent = {f"{method.name}.{o.name}": shown_option(o, stated) for o in options_of(method)}
    assert made_method(stated, {"method": method.name, f"{method.name}.here": "1", **sent}) == stated


def test_options_that_no_field_shows_survive() -> None:
    stated = {"name": "fine-grain", "weights": {"a": 0.5, "b": 0.5}, "matrix": "m.csv"}
    method = next(each for each in METHODS if each.name == "fine-grain")
    sent = {f"fine-grain.{o.name}": shown_option(o, stated) for o in options_of(method)}
    assert made_method(stated, {"method": "fine-grain", "fine-grain.here": "1", **sent}) == stated
    sent["fine-grain.matrix"] = ""
    assert made_method(stated, {"method": "fine-grain", "fine-grain.here": "1", **sent}) == {
        "name": "fine-grain", "weights": {"a": 0.5, "b": 0.5},
    }  # fmt: skip


requirements = st.sampled_from([
    {"rho1": 0.1, "rho2": 0.3},
    {"rho1": "1/7", "rho2": "2/5", "from_table": True},
    {"gamma": "7/2"},
    {"epsilon": 1.5},
    {"tolerance": 3, "rho1": "observed"},
    {"tolerance": 3, "rho1": {"a": 0.2, "b": 0.8}},
    {"l": 3},
    {"risk_limit": 0.25, "groups": [{"where": {"sex": "F"}, "l": 4}]},
    {"r": 2},
    {"others": "unprotected", "values": [{"value": "a", "rho1": "1/9", "rho2": 0.4, "given": "x"}]},
    {"rho1": 0.2, "rho2": 0.5, "values": [{"value": ["a", "b"], "rho1": 0.1, "rho2": 0.4}]},
])  # fmt: skip


@given(requirements)
def test_a_requirement_that_is_sent_back_is_the_same(stated: dict[str, Any]) -> None:
    rows = rows_of(stated, ("a", "b", "c"))
    sent = shown_requirement(stated) | {
        f"v{k}.{key}": getattr(row, key) for k, row in enumerate(rows) for key in ("rho1", "rho2")
    }
    assert made_requirement(stated, sent, rows) == stated
    assert kind_of(stated) in {kind.key for kind in KINDS}


def test_another_kind_leaves_nothing_of_the_one_before() -> None:
    before = {"rho1": 0.1, "rho2": 0.3, "from_table": True}
    assert made_requirement(before, {"kind": "gamma", "gamma": "3,5"}, []) == {"gamma": 3.5}
    with pytest.raises(Mistake, match="one value at least"):
        made_requirement(before, {"kind": "values"}, [])


@given(st.integers(2, 500), st.floats(0, 600))
def test_bisection_finds_the_first(size: int, most: float) -> None:
    ladder = Ladder("gamma", 1, size, 1)  # type: ignore[arg-type]

    def error(place: int) -> float:
        return 500 / place

    slow = next((place for place in range(1, size + 1) if error(place) <= most), None)
    assert strictest(ladder, error, most) == slow


def test_states_are_files_that_the_command_line_reads(tmp_path: Path) -> None:
    table = patients(tmp_path)
    with desk_at(table) as at:
        at.get("/table")
        at.site.get("/requirement")  # counting stops at persons with several rows
        at.desk.jobs.wait()
        assert "400 rows belong to 200 persons" in html.unescape(at.site.get("/requirement").text)
        at.post("/roles", ("person.column", ""))
        assert "person" not in at.desk.raw
        at.get("/requirement")
        at.post("/requirement", *_fields(at, method="uniform", kind="epsilon", epsilon="1"))
        assert tomllib.loads(at.desk.workspace.text)["requirement"] == {"epsilon": 1}
        _planned(table, at.desk.workspace.file)


def test_what_a_release_is_for_survives_changes(tmp_path: Path) -> None:
    about = {"title": "Admissions", "recipients": f"registered researchers {HOSTILE}"}
    stated = "\n".join(f"{key} = {toml.quote(text)}" for key, text in about.items())
    with desk_at(patients(tmp_path), f"{PLAIN}\n[about]\n{stated}\n") as at:
        at.get("/requirement")
        assert at.post("/requirement", *_fields(at, rho2="40")).status in (200, 303)
        assert at.desk.raw["requirement"]["rho2"] != 0.25
        assert at.desk.raw["about"] == about
        assert at.desk.policy().about == AboutRule(**about)
