"""First screens: at most 25 lines on 80 columns, whatever the method; nothing of a table steers a terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.claims.claim import LABELS
from sfumato.cli.main import COMMANDS, app
from tests.cli.test_commands import run
from tests.conftest import slow
from tests.golden.cases import CASES, FILES, table

MOST = 25
SFUMATO = (sys.executable, "-c", "from sfumato.cli.main import main; main()")
METHODS = ["uniform", "fine-grain", "several", "randomized-response", "anatomy", "suppression"]
MORE = ["subset, sets", "geometric", "small-domain", "robust-anatomy", "fine-grain as published"]
ADULT = """
[columns]
age = { role = "quasi_identifier", bins = { width = 10 } }
workclass = { role = "quasi_identifier" }
fnlwgt = { role = "drop" }
education = { role = "quasi_identifier" }
education_num = { role = "drop" }
marital_status = { role = "quasi_identifier" }
occupation = { role = "sensitive" }
relationship = { role = "quasi_identifier" }
race = { role = "quasi_identifier" }
sex = { role = "quasi_identifier" }
capital_gain = { role = "drop" }
capital_loss = { role = "drop" }
hours_per_week = { role = "drop" }
native_country = { role = "quasi_identifier" }
income = { role = "drop" }
split = { role = "drop" }
[method]
name = "METHOD"
[requirement]
"""


def screens(rows: str, policy: str) -> dict[str, str]:
    """Return what each command shows first, on 80 columns."""
    asked = {
        "profile": ("profile", rows, policy),
        "plan": ("plan", rows, policy),
        "publish": ("publish", rows, policy, "-o", "release"),
        "verify": ("verify", "release"),
        "audit": ("audit", rows, policy, "release", "--seed", "1"),
    }
    found = {}
    for name, arguments in asked.items():
        code, out, err = run(*arguments)
        assert code == 0, f"{name}: {err}"
        found[name] = out
    return found


def check(found: dict[str, str]) -> None:
    """Fail unless every screen is short, and tells the promise and where the rest is."""
    for name, text in found.items():
        lines = text.rstrip("\n").split("\n")
        assert len(lines) <= MOST, f"{name}: {len(lines)} lines\n{text}"
        assert max(map(len, lines)) <= 80, f"{name}: {max(lines, key=len)}"
        assert "--details" in lines[-1], name
        told = LABELS if name in ("plan", "publish", "verify") else LABELS[:1] if name == "audit" else ()
        assert all(re.search(rf"^{label} +\S", text, re.MULTILINE) for label in told), name
    assert found["audit"].count("not covered by the guarantee") == 0


@pytest.mark.parametrize("name", [*METHODS, *map(slow, MORE)])
def test_first_screens_are_short_whatever_the_method(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for file, text in FILES.items():
        Path(file).write_text(text, encoding="utf-8")
    Path("policy.toml").write_text(CASES[name].policy, encoding="utf-8")
    pq.write_table(table(), "t.parquet")
    check(screens("t.parquet", "policy.toml"))


@pytest.mark.parametrize(("method", "requirement"), [("uniform", "gamma = 4"), slow("anatomy", "l = 3")])
def test_first_screens_of_a_real_table(
    method: str,
    requirement: str,
    real_data: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = real_data("adult_complete_45222.parquet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("policy.toml").write_text(ADULT.replace("METHOD", method) + requirement, encoding="utf-8")
    check(screens(str(rows), "policy.toml"))


@pytest.mark.parametrize(
    ("method", "requirement"),
    [("uniform", "rho1 = 0.3\nrho2 = 0.6"), ("anatomy", "l = 2"), ("small-domain", "rho1 = 0.3\nrho2 = 0.6")],
)
def test_first_screens_of_many_columns_with_long_names(
    method: str, requirement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"what the person said when asked question number {k}" for k in range(60)]
    diseases = ["influenza", "asthma", "gout", "rash"] * 100
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    pq.write_table(pa.table({name: [0, 1] * 200 for name in names} | {"the diagnosis": diseases}), "t.parquet")
    roles = "".join(f'[columns."{name}"]\nrole = "quasi_identifier"\n' for name in names)
    secret = '[columns."the diagnosis"]\nrole = "sensitive"\n'
    Path("policy.toml").write_text(f'{roles}{secret}[method]\nname = "{method}"\n[requirement]\n{requirement}\n')
    check(screens("t.parquet", "policy.toml"))


def prepared(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in a folder that holds a golden case: t.parquet and policy.toml."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    Path("policy.toml").write_text(CASES[name].policy, encoding="utf-8")
    pq.write_table(table(), "t.parquet")


def test_all_that_must_be_decided_is_on_the_first_screen_of_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of suppression there is most of it; that planning again leaks must not be among what is left out."""
    prepared("suppression", tmp_path, monkeypatch)
    code, told, err = run("plan", "t.parquet", "policy.toml")
    assert code == 0, err
    assert told.startswith("WARNING: this draw is lost: plan with -o FILE")
    for due in ("Plan once: choosing among draws", "safe-d is the strict", "was read off the table", "Computed from"):
        assert due in told.split("To decide\n")[1], told
    assert len(told.rstrip("\n").split("\n")) <= MOST
    assert run("plan", "t.parquet", "policy.toml", "--details")[1].startswith("WARNING: this draw is lost")
    assert "WARNING" not in run("plan", "t.parquet", "policy.toml", "-o", "plan.json")[1]
    prepared("uniform", tmp_path, monkeypatch)
    assert "WARNING" not in run("plan", "t.parquet", "policy.toml")[1]


def test_what_comes_after_publishing_is_verify_audit_and_the_second_signature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared("uniform", tmp_path, monkeypatch)
    for shown in ((), ("--details",)):
        told = " ".join(run("publish", "t.parquet", "policy.toml", "-o", f"r{len(shown)}", *shown)[1].split())
        folder = f"r{len(shown)}"
        asked = (
            f"Next: `sfumato verify {folder}`, `sfumato audit t.parquet policy.toml {folder}`, the second signature."
        )
        assert f"{asked} Then hand out the whole folder." in told
    told = run("publish", "t.parquet", "policy.toml", "-o", "seeded", "--seed", "1")[1]
    assert "Do not hand it out" in told
    assert "hand out the whole folder" not in told


def test_an_escape_sequence_of_a_table_never_reaches_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In names and values, in screens, tables, hints and errors."""
    monkeypatch.chdir(tmp_path)
    column, value = "se\x1b[31mx", "flu\x1b]0;owned\x07\x9b2J"
    rows = pa.table({column: ["F", "M"] * 100, "disease": [value, "cold", "gout", "rash"] * 50})
    pq.write_table(rows, "t.parquet")
    name = column.replace("\x1b", "\\u001b")
    Path("policy.toml").write_text(
        f'[columns."{name}"]\nrole = "quasi_identifier"\n[columns.disease]\nrole = "sensitive"\n'
        '[method]\nname = "uniform"\n[requirement]\ngamma = 4\n'
    )
    told = list(screens("t.parquet", "policy.toml").values())
    for asked in (
        ("init", "t.parquet", "--sensitive", "disease"),
        ("profile", "t.parquet", "policy.toml", "--details"),
        ("plan", "t.parquet", "policy.toml", "--details"),
        ("estimate", "release", "--by", "disease"),
        ("estimate", "release", "--by", "disease", "--json"),
        ("power", "release", "--by", "disease"),
        ("audit", "t.parquet", "policy.toml", "release", "--details"),
    ):
        code, out, _ = run(*asked)
        assert code == 0, asked
        told.append(out)
    assert any(r"\x1b" in text for text in told)
    assert not [text for text in told if re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)]
    command = [*SFUMATO, "estimate", "release", "--by", column + "y"]
    failed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    assert r"\x1b[31m" in failed.stderr
    assert "\x1b" not in failed.stderr


def test_output_in_ascii_does_not_stop_a_release(tmp_path: Path) -> None:
    rows = pa.table({"né": ["F", "M"] * 100, "disease": ["grippe É", "漢", "gout", "rash"] * 50})
    pq.write_table(rows, tmp_path / "t.parquet")
    policy = (
        'columns = { "né" = { role = "quasi_identifier" }, disease = { role = "sensitive" } }\n'
        'method = { name = "uniform" }\nrequirement = { gamma = 4 }'
    )
    (tmp_path / "policy.toml").write_text(policy, encoding="utf-8")
    command = [*SFUMATO, "publish", "t.parquet", "policy.toml", "-o", "r"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert (ended.returncode, b"Published 200 records" in ended.stdout) == (0, True), ended.stderr
    assert rb"n\xe9" in ended.stdout


# --- help and arguments -----------------------------------------------------------------------------------------------


def test_help_has_a_line_for_each_command_that_is_not_cut() -> None:
    code, out, _ = run("--help")
    assert code == 0
    lines = out.split("Commands:")[1].strip("\n").split("\n")
    assert len(lines) == len(COMMANDS)
    assert not [line for line in lines if line.endswith("...") or len(line) > 80]


@pytest.mark.parametrize("command", sorted(command.name or "" for command in app.registered_commands))
def test_every_help_ends_in_an_example(command: str) -> None:
    if command != "reproduce":  # a plug-in's own
        assert re.search(rf"Example: sfumato {command}\b", run(command, "--help")[1])


@pytest.mark.parametrize(
    "order",
    [("policy.toml", "r"), ("r", "--policy", "policy.toml"), ("--policy", "policy.toml", "r"), ("r", "policy.toml")],
)
def test_an_audit_takes_its_arguments_like_the_other_commands(
    order: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("policy.toml").write_text(CASES["uniform"].policy, encoding="utf-8")
    pq.write_table(table(), "t.parquet")
    assert run("publish", "t.parquet", "policy.toml", "-o", "r", "--seed", "1")[0] == 0
    code, out, err = run("audit", "t.parquet", *order, "--seed", "1")
    assert code == 0
    assert "HOLDS" in out
    assert ("Note: write sfumato audit TABLE POLICY RELEASE" in err) == (order != ("policy.toml", "r"))


def test_an_audit_tells_why_somebody_was_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of sets of values the composition is not: the line was cut before its end, and had no reason."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("policy.toml").write_text(CASES["subset, sets"].policy, encoding="utf-8")
    pq.write_table(table(), "t.parquet")
    assert run("publish", "t.parquet", "policy.toml", "-o", "r", "--seed", "1")[0] == 0
    told = " ".join(run("audit", "t.parquet", "policy.toml", "r", "--seed", "1")[1].split())
    reason = "it is computed for matrices that keep a value or draw one of all alike, not for this one."
    assert f"Not measured composition: {reason} Count as not covered." in told
