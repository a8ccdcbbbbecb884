"""Releases by groups on the command line: profile, plan, publish the signed plan, verify, estimate; and refusals."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.test_commands import as_json, run
from tests.engines.tools import patients

COLUMNS = """
[columns.name]
role = "identifier"
[columns.age]
role = "quasi_identifier"
bins = { width = 100 }
[columns.sex]
role = "quasi_identifier"
[columns.disease]
role = "sensitive"
"""
POLICIES = {
    "anatomy": '[method]\nname = "anatomy"\n[requirement]\nl = 2\n',
    "suppression": '[method]\nname = "suppression"\n[requirement]\nl = 3\n',
    "robust": '[method]\nname = "robust-anatomy"\nattribute_sets = [["sex"]]\n[requirement]\nr = 2\n',
}
POLICIES["prior"] = POLICIES["robust"].replace("[requirement]", 'prior = ["sex.csv"]\n[requirement]')


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pq.write_table(patients(), tmp_path / "t.parquet")
    for name, text in POLICIES.items():
        (tmp_path / f"{name}.toml").write_text(COLUMNS + text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["anatomy", "suppression", "robust"])
def test_from_the_table_to_an_answer(name: str) -> None:
    code, out, err = run("plan", "t.parquet", f"{name}.toml", "-o", "plan.json")
    assert code == 0, err
    assert "Which record of a group has which value is hidden." in " ".join(out.split())
    assert "This exact plan is published by" in out
    plan = json.loads(Path("plan.json").read_text())
    published = sum(plan["counts"]) - sum(plan["withheld"])
    code, out, err = run("publish", "t.parquet", f"{name}.toml", "--plan", "plan.json", "-o", "r")
    assert (code, f"Published {published} records" in out) == (0, True), err
    assert ("leave over" in out) == (name == "robust")
    assert (f"{sum(plan['withheld'])} of 300 records are withheld" in out) == (name == "suppression")
    assert run("verify", "r")[0] == 0
    rows = as_json("estimate", "r", "SELECT disease, COUNT(*) FROM release GROUP BY disease")["rows"]
    assert sum(row["estimate"] for row in rows) == pytest.approx(published)


@pytest.mark.parametrize("name", ["anatomy", "suppression", "robust"])
def test_how_near_estimates_come_of_groups(name: str) -> None:
    """Against the table that was published; where rows were withheld, that is told."""
    published = as_json("publish", "t.parquet", f"{name}.toml", "--seed", "7", "-o", "r")["manifest"]["data"]["rows"]
    asked = ("estimate", "r", "--by", "sex,disease", "--truth", "t.parquet")
    code, out, err = run(*asked)
    assert code == 0, err
    withheld = f"{300 - published} row(s) of the table were not published: estimates are of the published ones"
    assert (withheld in out) == (published < 300)
    assert (name == "suppression") == (published < 300)
    found = as_json(*asked)
    assert (found["cells"], found["surplus"]) == (8, 300 - published)
    rows = as_json("estimate", "r", "SELECT sex, disease, COUNT(*) FROM release GROUP BY sex, disease")["rows"]
    true = Counter((row["sex"], row["disease"]) for row in patients().to_pylist())
    apart = sum(abs(row["estimate"] / published - true[row["sex"], row["disease"]] / 300) for row in rows)
    assert found["distances"]["total_variation"] == pytest.approx(apart / 2)


def test_a_seed_decides_the_plan_too() -> None:
    first, again = (as_json("publish", "t.parquet", "suppression.toml", "--seed", "7", "-o", out) for out in "ab")
    assert first["manifest"]["status"] == again["manifest"]["status"] == "not for release"
    assert first["manifest"]["data"]["sha256"] == again["manifest"]["data"]["sha256"]
    assert first["manifest"]["groups"]["sha256"] == again["manifest"]["groups"]["sha256"]
    assert not as_json("plan", "t.parquet", "suppression.toml")["seeded"]


def test_profile_tries_groups() -> None:
    code, out, _ = run("profile", "t.parquet", "anatomy.toml", "--details")
    assert code == 0
    assert "l = 2 (policy)" in out
    assert "100.0% in groups" in out
    cases = as_json("profile", "t.parquet", "robust.toml")["feasibility"]
    assert (cases[0]["requirement"], cases[0]["published_share"], cases[0]["reason"]) == ("r = 2", 1.0, "")


def test_a_prior_beside_the_policy(folder: Path) -> None:
    code, _, err = run("plan", "t.parquet", "prior.toml")
    assert (code, "There is no file 'sex.csv'" in err) == (2, True)
    values = as_json("plan", "t.parquet", "anatomy.toml")["parts"][0]["values"]
    lines = [f"{sex},{value},1/{len(values)}" for sex in "FM" for value in values]
    (folder / "sex.csv").write_text("\n".join(["sex,value,probability", *lines]))
    plan = as_json("plan", "t.parquet", "prior.toml")
    assert (plan["prior"], len(plan["priors"])) == ("file", 1)
    assert "About this is published, drawn anew, by" in run("plan", "t.parquet", "prior.toml", "-o", "p.json")[1]
    (folder / "sex.csv").write_text("\n".join(["sex,value,probability", f"F,{values[0]},1", f"M,{values[0]},1"]))
    code, _, err = run("plan", "t.parquet", "prior.toml")
    assert (code, "contradicts the table" in err) == (2, True)


def test_what_cannot_be_had_is_1(folder: Path) -> None:
    (folder / "anatomy.toml").write_text(COLUMNS + POLICIES["anatomy"].replace("l = 2", "l = 4"))
    code, _, err = run("plan", "t.parquet", "anatomy.toml")
    assert (code, 'choose the method "suppression"' in err) == (1, True)


def test_another_table_is_not_published(folder: Path) -> None:
    assert run("plan", "t.parquet", "suppression.toml", "-o", "plan.json")[0] == 0
    pq.write_table(patients(299), folder / "t.parquet")
    code, _, err = run("publish", "t.parquet", "suppression.toml", "--plan", "plan.json", "-o", "r")
    assert (code, "PlanMismatch: The table is not the one that was planned" in err) == (1, True)
    assert not (folder / "r").exists()


def test_init_names_groups_as_an_alternative() -> None:
    code, out, _ = run("init", "t.parquet")
    assert code == 0
    assert '# name = "robust-anatomy"' in out
