"""Randomized response on the command line: profile, plan, publish the signed plan, verify, estimate."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.test_commands import as_json, run
from tests.engines.tools import patients

POLICY = """
[columns.name]
role = "identifier"
[columns.age]
role = "quasi_identifier"
bins = { width = 100 }
[columns.sex]
role = "quasi_identifier"
[columns.disease]
role = "sensitive"
[method]
name = "randomized-response"
assurance = "as-published"
[requirement]
l = 7
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pq.write_table(patients(), tmp_path / "t.parquet")
    (tmp_path / "policy.toml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_from_the_table_to_an_answer() -> None:
    code, out, _ = run("profile", "t.parquet", "policy.toml", "--details")
    assert (code, "l = 7 (policy)" in out) == (0, True)
    code, out, _ = run("plan", "t.parquet", "policy.toml", "-o", "plan.json", "--details")
    assert code == 0
    assert "Method randomized-response, assurance as-published." in out
    assert "What another limit 1/l for all records would cost" in out
    code, out, _ = run("publish", "t.parquet", "policy.toml", "--plan", "plan.json", "-o", "r")
    assert (code, "Published 300 records" in out) == (0, True)
    code, out, _ = run("verify", "r", "--details")
    assert (code, "needs audit  risk" in out) == (0, True)
    rows = as_json("estimate", "r", "SELECT sex, disease, COUNT(*) FROM release GROUP BY sex, disease")["rows"]
    assert sum(row["estimate"] for row in rows) == pytest.approx(300)


def test_json_of_plan_and_release() -> None:
    plan = as_json("plan", "t.parquet", "policy.toml")
    assert (plan["method"], plan["risk"], plan["limit"]) == ("randomized-response", "reconstruction", "1/7")
    manifest = as_json("publish", "t.parquet", "policy.toml", "-o", "r")["manifest"]
    assert manifest["response"]["limit"] == "1/7"
    assert [part["domain"][0]["name"] for part in manifest["mechanisms"]] == [
        a["name"] for a in plan["attributes"] if a["diagonal"] < 1
    ]
    assert as_json("verify", "r")["holds"]


def test_what_cannot_be_had_is_1(folder: Path) -> None:
    (folder / "policy.toml").write_text(POLICY.replace("l = 7", "l = 900"))
    error = run("plan", "t.parquet", "policy.toml")
    assert error[0] == 1
    assert "Infeasible: The risk 'reconstruction' is" in error[2]


def test_risks_are_estimated_and_called_so(folder: Path) -> None:
    """A domain too large for a plan is refused with its price; what remains is an estimate that says what it is."""
    large = POLICY.replace("bins = { width = 100 }", f"domain = {list(range(20_000))}")
    large = large.replace("[columns.sex]", f"[columns.sex]\ndomain = {['F', 'M', *map(str, range(4000))]}")
    large = large.replace("[columns.age]", '[columns.age]\npublish_as_is = "for its size"')
    (folder / "large.toml").write_text(large)
    code, _, err = run("plan", "t.parquet", "large.toml")
    assert (code, "80,040,000 cells, above 67,108,864" in err, "`sfumato risk`" in err) == (1, True, True)
    keep = ("--keep", "age=0.5", "--keep", "sex=0.9", "--cells", "3", "--samples", "20")
    code, out, _ = run("risk", "t.parquet", "large.toml", *keep)
    assert (code, out.startswith("ESTIMATE, NO GUARANTEE"), out.count("record(s))")) == (0, True, 3)
    one, two = (as_json("risk", "t.parquet", "large.toml", *keep, "--seed", "1") for _ in range(2))
    assert one == two
    assert "no guarantee" in one["statement"].lower()
    assert [cell["limit"] for cell in one["cells"]] == [1 / 7] * 3
    page = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    section = page.split("## `risk`\n")[1].split("\n## ")[0]
    assert {*one, *one["cells"][0]} <= set(re.findall(r"`(\w+)`", section))
    for wrong, message in (
        ("age", "names no probability"),
        ("age=x", "must be a finite number"),
        ("town=1", "State with"),
    ):
        code, _, err = run("risk", "t.parquet", "large.toml", "--keep", wrong)
        assert (code, message in err) == (2, True)
    code, _, err = run("risk", "t.parquet", "large.toml", "--keep", "age=0.5", "--keep", "age=0.7")
    assert (code, "--keep names 'age' twice, with '0.5' and '0.7'" in err) == (2, True)


def test_another_table_is_not_published(folder: Path) -> None:
    assert run("plan", "t.parquet", "policy.toml", "-o", "plan.json", "--details")[0] == 0
    pq.write_table(patients(299), folder / "t.parquet")
    code, _, err = run("publish", "t.parquet", "policy.toml", "--plan", "plan.json", "-o", "r")
    assert (code, "PlanMismatch: The table is not the one that was planned" in err) == (1, True)
    assert not (folder / "r").exists()
