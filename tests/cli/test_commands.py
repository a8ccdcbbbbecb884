"""The command line: examples in every help, documented JSON, exit codes, plans that are signed off."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sfumato
from sfumato.analyst.release import open_release
from sfumato.cli import start
from sfumato.cli.main import app
from sfumato.errors import SfumatoError
from tests.engines.tools import listing, multiset, patients

POLICY = """
[columns.name]
role = "identifier"
[columns.age]
role = "quasi_identifier"
publish_as_is = "a test follows rows by it"
[columns.sex]
role = "quasi_identifier"
[columns.disease]
role = "sensitive"
[method]
name = "uniform"
[requirement]
rho1 = 0.2
rho2 = 0.5
"""
COMMANDS = sorted(command.name or "" for command in app.registered_commands)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pq.write_table(patients(), tmp_path / "t.parquet")
    (tmp_path / "policy.toml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> tuple[int, str, str]:
    """Run a command as `main` does: return the exit code and what it printed."""
    result = CliRunner().invoke(app, list(arguments))
    if isinstance(result.exception, SfumatoError):
        return result.exception.exit_code, result.stdout, f"{type(result.exception).__name__}: {result.exception}"
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def as_json(*arguments: str, code: int = 0) -> Any:
    found, out, err = run(*arguments, "--json")
    assert found == code, err
    return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def through_main(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the real entry point in a process of its own."""
    command = [sys.executable, "-c", "from sfumato.cli.main import main; main()", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


# --- help -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_has_an_example_that_parses(name: str) -> None:
    code, out, _ = run(name, "--help")
    assert code == 0
    assert f"Example: sfumato {name}" in " ".join(out.split())
    assert "--json" in out


def test_the_help_lists_all_commands_and_the_exit_codes() -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert all(name in out for name in COMMANDS)
    assert "0 fine, 1 a request that cannot be met, 2 wrong use" in " ".join(out.split())


def test_the_version_is_told() -> None:
    assert run("--version") == (0, f"sfumato {sfumato.__version__}\n", "")


@pytest.mark.parametrize(("typed", "shown"), [("sfumato pub", "publish"), ("sfumato publish --shu", "--shuffle")])
def test_shells_are_told_what_can_follow(typed: str, shown: str) -> None:
    asked = os.environ | {
        "_SFUMATO_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
    }
    command = [sys.executable, "-c", "import sys; sys.argv = ['sfumato']; from sfumato.cli.main import main; main()"]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | asked)
    assert found.stdout.split() == [shown]


# --- JSON -------------------------------------------------------------------------------------------------------------


def test_plan_json(folder: Path) -> None:
    plan = as_json("plan", "t.parquet", "policy.toml")
    assert plan["domain"] == ["asthma", "flu", "gout", "mumps"]
    for key in ("retention", "diagonal", "gamma"):
        assert [type(x) for x in plan[key]] == [float] * 4
    for key in ("record_utility", "epsilon", "condition_number"):
        assert isinstance(plan[key], float)
    assert {"sentence", "adversary", "prior", "scope", "directions", "limits"} <= set(plan["guarantee"])
    assert plan["gamma"] == [4.0] * 4


def test_an_estimate_says_first_that_no_row_has_a_value_and_last_what_its_intervals_cover(folder: Path) -> None:
    assert run("publish", "t.parquet", "policy.toml", "-o", "r")[0] == 0
    code, out, err = run("estimate", "r", "--by", "disease", "--where", "sex = 'women'")
    assert code == 0, err
    assert out.startswith("No published row satisfies the condition.\nNo published row has 'women' in 'sex'.")
    assert out.count("No published row has") == 1
    code, out, err = run("estimate", "r", "SELECT COUNT(*) FROM release WHERE disease = 'no such'")
    assert out.splitlines()[0].startswith("No value of 'disease' satisfies"), err
    for target, due in (("table", "not sampling"), ("population", "the added noise and sampling")):
        for asked in (("estimate", "r", "--by", "disease"), ("estimate", "r", "SELECT COUNT(*) FROM release")):
            last = run(*asked, "--target", target)[1].splitlines()[-1]
            assert last.startswith("Intervals cover the added noise")
            assert due in last


def test_json_of_the_whole_story(folder: Path) -> None:
    published = as_json("publish", "t.parquet", "policy.toml", "-o", "r")
    assert published["folder"] == "r"
    assert published["manifest"]["data"]["rows"] == 300
    answer = as_json("estimate", "r", "--by", "sex,disease", "--where", "age < 200")
    assert {"method", "target", "level", "rows", "notes"} == set(answer)
    assert len(answer["rows"]) == 8
    for row in answer["rows"]:
        assert list(row) == ["sex", "disease", "estimate", "standard_error", "lower", "upper"]
        assert row["lower"] <= row["estimate"] <= row["upper"]
    assert sum(row["estimate"] for row in answer["rows"]) == pytest.approx(200)
    verified = as_json("verify", "r")
    assert verified["holds"] is True
    assert {"name", "status", "detail"} == set(verified["checks"][0])
    assert {check["status"] for check in verified["checks"]} == {"holds", "needs audit"}
    assert as_json("key", "k") == {"file": "k"}


def test_json_of_groups_that_json_has_no_word_for(folder: Path) -> None:
    """NaN, infinities, dates, missing values."""
    import datetime

    import pyarrow as pa

    days = [datetime.date(2020, 1, 1), None] * 60
    real = [float("nan"), float("inf"), 1.5] * 40
    pq.write_table(pa.table({"day": days, "real": real, "s": ["a", "b"] * 60}), "u.parquet")
    Path("p.toml").write_text(
        "[columns.day]\nrole = 'other'\nmissing = 'category'\n[columns.real]\nrole = 'other'\n"
        "[columns.s]\nrole = 'sensitive'\n[method]\nname = 'uniform'\n[requirement]\ngamma = 3\n"
    )
    assert run("publish", "u.parquet", "p.toml", "-o", "r")[0] == 0
    rows = as_json("estimate", "r", "--by", "day", "--by", "real", "--by", "s")["rows"]
    assert {row["day"] for row in rows} == {"2020-01-01", None}
    assert {row["real"] for row in rows} == {"nan", "inf", 1.5}


def test_an_estimate_without_error_bars_has_nulls(folder: Path) -> None:
    """A matrix without an inverse: the inverse is refused with exit code 1, EM answers without error bars."""
    text = POLICY.replace('name = "uniform"', 'name = "fine-grain"\nobjective = "records"\nweights = "observed"')
    text += "".join(
        f'\n[[requirement.values]]\nvalue = "{value}"\nrho1 = "1/10"\nrho2 = "1/5"\n' for value in ("gout", "mumps")
    )
    Path("p.toml").write_text(text)
    assert run("publish", "t.parquet", "p.toml", "-o", "r")[0] == 0
    code, _, err = run("estimate", "r", "--by", "disease")
    assert (code, "SingularMatrix" in err, "em" in err) == (1, True, True)
    rows = as_json("estimate", "r", "--by", "disease", "--method", "em")["rows"]
    assert {row["standard_error"] for row in rows} == {None}
    assert run("estimate", "r", "--by", "disease", "--method", "em")[0] == 0


# --- exit codes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["publish", "nowhere.parquet", "policy.toml", "-o", "r"],
        ["publish", "t.parquet", "nowhere.toml", "-o", "r"],
        ["publish", "t.parquet", "policy.toml", "-o", "."],
        ["publish", "t.parquet", "policy.toml", "-o", "no/r"],
        ["publish", "t.parquet", "policy.toml", "-o", "r", "--plan", "nowhere.json"],
        ["publish", "t.parquet", "policy.toml", "-o", "r", "--plan", "policy.toml"],
        ["publish", "t.parquet", "policy.toml", "-o", "r", "--key-file", "nowhere.key"],
        ["publish", "t.parquet", "policy.toml", "-o", "r", "--key-file", "policy.toml"],
        ["publish", "t.parquet", "policy.toml", "-o", "r", "--seed", "1", "--key-file", "k"],
        ["publish", "t.parquet", "policy.toml"],
        ["publish"],
        ["plan", "t.parquet", "t.parquet"],
        ["plan", "t.parquet", "policy.toml", "-o", "policy.toml"],
        ["estimate", "."],
        ["verify", "nowhere"],
        ["nonsense"],
        ["plan", "--nonsense"],
    ],
)
def test_wrong_use_is_2(arguments: list[str], folder: Path) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert err
    assert listing(folder) == ["policy.toml", "t.parquet"]


def test_a_request_that_cannot_be_met_is_1(folder: Path) -> None:
    Path("p.toml").write_text(POLICY.replace('name = "uniform"', 'name = "uniform"\nretention_floor = 0.9'))
    code, _, err = run("publish", "t.parquet", "p.toml", "-o", "r")
    assert code == 1
    assert "Infeasible" in err
    assert "Ask for a floor of" in err
    assert not Path("r").exists()


def test_wrong_questions_are_2(folder: Path) -> None:
    assert run("publish", "t.parquet", "policy.toml", "-o", "r")[0] == 0
    for question, match in (
        (["--by", "diseese"], "Did you mean 'disease'"),
        (["--by", "sex,sex"], "more than once"),
        (["--method", "guess"], "Estimators are"),
        (["--target", "moon"], "Intervals are for a table"),
        (["--level", "0"], "between 0 and 1"),
        (["--level", "nan"], "between 0 and 1"),
        (["--where", "disease = 'flu'"], "is randomized"),
        (["--where", "age = 'x'"], "'age' holds numbers, and 'x' is none"),
    ):
        code, _, err = run("estimate", "r", *question)
        assert (code, match in err) == (2, True), err


def test_errors_through_the_entry_point(folder: Path) -> None:
    """Exit code, one message with its hint, no traceback; with --json an object on stdout and nothing else."""
    plain = through_main(folder, "publish", "t.parquet", "nowhere.toml", "-o", "r")
    assert (plain.returncode, plain.stdout) == (2, "")
    assert plain.stderr.startswith("PolicyError: There is no policy file 'nowhere.toml'.\nMake one: sfumato init")
    told = through_main(folder, "publish", "t.parquet", "nowhere.toml", "-o", "r", "--json")
    assert (told.returncode, told.stderr) == (2, "")
    assert {"error": "PolicyError", "message": "There is no policy file 'nowhere.toml'."}.items() <= json.loads(
        told.stdout
    ).items()
    assert json.loads(told.stdout)["hint"]
    lost = through_main(folder, "plan", "t.parquet", "policy.toml", "-o", "no/plan.json")
    assert lost.returncode == 2
    assert "There is no folder 'no'" in lost.stderr
    assert "Traceback" not in lost.stderr


# --- plans ------------------------------------------------------------------------------------------------------------


def test_a_signed_plan_is_published_exactly(folder: Path) -> None:
    made = as_json("plan", "t.parquet", "policy.toml", "-o", "plan.json")
    assert json.loads(Path("plan.json").read_text()) == made
    published = as_json("publish", "t.parquet", "policy.toml", "--plan", "plan.json", "-o", "r")
    assert published["manifest"]["mechanisms"][0]["sub_tables"] == made["sub_tables"]
    assert set(made["guarantee"].pop("limits")) <= set(published["manifest"]["guarantee"].pop("limits"))
    assert published["manifest"]["guarantee"] == made["guarantee"]


def test_a_changed_table_is_refused(folder: Path) -> None:
    run("plan", "t.parquet", "policy.toml", "-o", "plan.json")
    pq.write_table(patients().slice(1), "t.parquet")
    code, _, err = run("publish", "t.parquet", "policy.toml", "--plan", "plan.json", "-o", "r")
    assert code == 1
    assert "PlanMismatch: The table is not the one that was planned" in err
    assert "Plan again" in err


def test_a_changed_policy_is_refused_but_not_a_comment(folder: Path) -> None:
    run("plan", "t.parquet", "policy.toml", "-o", "plan.json")
    Path("policy.toml").write_text("# looked at by the board\n" + POLICY)
    assert run("publish", "t.parquet", "policy.toml", "--plan", "plan.json", "-o", "r")[0] == 0
    Path("policy.toml").write_text(POLICY.replace("rho2 = 0.5", "rho2 = 0.6"))
    code, _, err = run("publish", "t.parquet", "policy.toml", "--plan", "plan.json", "-o", "s")
    assert (code, "The policy is not the one that was planned" in err) == (1, True)


def test_a_plan_with_less_noise_than_its_bounds_allow_is_refused(folder: Path) -> None:
    made = as_json("plan", "t.parquet", "policy.toml", "-o", "plan.json")
    noise = made["sub_tables"][0]["noise"]
    noise["weights"] = [str(int(w) // 2) for w in noise["weights"]]
    Path("plan.json").write_text(json.dumps(made))
    code, _, err = run("publish", "t.parquet", "policy.toml", "--plan", "plan.json", "-o", "r")
    assert (code, "PlanMismatch" in err) == (1, True)
    assert not Path("r").exists()


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"plan_version": 99}'])
def test_something_that_is_no_plan_is_refused(text: str, folder: Path) -> None:
    Path("plan.json").write_text(text)
    code, _, err = run("publish", "t.parquet", "policy.toml", "--plan", "plan.json", "-o", "r")
    assert (code, "not a plan" in err) == (2, True)


def test_shuffle_cannot_change_a_signed_plan(folder: Path) -> None:
    run("plan", "t.parquet", "policy.toml", "-o", "plan.json")
    code, _, err = run("publish", "t.parquet", "policy.toml", "--plan", "plan.json", "--shuffle", "-o", "r")
    assert (code, "signed off" in err) == (2, True)


# --- publishing -------------------------------------------------------------------------------------------------------


def test_a_seed_marks_the_release(folder: Path) -> None:
    code, out, _ = run("publish", "t.parquet", "policy.toml", "-o", "r", "--seed", "5")
    assert (code, "NOT FOR RELEASE" in out) == (0, True)
    assert json.loads(Path("r/manifest.json").read_text())["status"] == "not for release"
    assert "Not for release" in Path("r/README.md").read_text()
    code, out, _ = run("verify", "r")
    assert (code, "fails" in out, "test seed" in out) == (1, True, True)
    assert run("publish", "t.parquet", "policy.toml", "-o", "s", "--seed", "5")[0] == 0
    assert Path("r/data.parquet").read_bytes() == Path("s/data.parquet").read_bytes()


def test_without_a_seed_two_releases_differ(folder: Path) -> None:
    for name in "rs":
        code, out, _ = run("publish", "t.parquet", "policy.toml", "-o", name)
        assert (code, "NOT FOR RELEASE" in out) == (0, False)
    assert Path("r/data.parquet").read_bytes() != Path("s/data.parquet").read_bytes()


def test_a_key_file_and_a_record_key(folder: Path) -> None:
    Path("keyed.toml").write_text('record_key = "name"\nseries = "t"\n' + POLICY)
    assert run("key", "k")[0] == 0
    assert run("key", "k")[0] == 2
    assert run("publish", "t.parquet", "keyed.toml", "-o", "r")[0] == 2
    assert run("publish", "t.parquet", "policy.toml", "-o", "r", "--key-file", "k")[0] == 2
    assert not Path("r").exists()
    for name in "rs":
        code, out, _ = run("publish", "t.parquet", "keyed.toml", "-o", name, "--key-file", "k")
        assert code == 0
        assert "ASSUMED, NOT PROVED: that how long a value lasts" in out
    # the same draws, in an order that is drawn anew
    assert multiset(open_release("r")) == multiset(open_release("s"))
    secret = Path("k").read_text().strip()
    assert not any(secret in path.read_text(errors="replace") for path in Path("r").iterdir())


def test_nothing_but_the_result_is_printed_without_a_terminal(folder: Path) -> None:
    done = through_main(folder, "publish", "t.parquet", "policy.toml", "-o", "r")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Published 300 records to r (release ")
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout


def test_a_reader_that_goes_away_is_no_crash(folder: Path) -> None:
    command = f"{sys.executable} -c 'from sfumato.cli.main import main; main()' plan t.parquet policy.toml | head -c 1"
    done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.stdout


def test_column_names_with_commas_can_be_asked_for(folder: Path) -> None:
    table = patients().rename_columns(["name", "a,b", 'it\'s "x"', "the disease"])
    pq.write_table(table, "u.parquet")
    text = POLICY.replace("[columns.age]", '[columns."a,b"]').replace("[columns.disease]", '[columns."the disease"]')
    text = text.replace("[columns.sex]", '[columns."it\'s \\"x\\""]')
    Path("p.toml").write_text(text)
    assert run("publish", "u.parquet", "p.toml", "-o", "r")[0] == 0
    rows = as_json("estimate", "r", "--by", 'it\'s "x"', "--by", "the disease", "--where", '"a,b" < 50')["rows"]
    assert len(rows) == 8
    assert sum(row["estimate"] for row in rows) == pytest.approx(50)
    assert len(as_json("estimate", "r", "--by", "a,b")["rows"]) == 300


def test_main_is_the_entry_point() -> None:
    from importlib.metadata import entry_points

    (entry,) = entry_points(group="console_scripts", name="sfumato")
    assert entry.load() is start.main
