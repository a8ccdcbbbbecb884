"""Changed files and questions end in an answer or a sentence: exit codes 0, 1, 2, within 10 s and 1 GB."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from sfumato import errors
from tests.conftest import slow
from tests.faults.recorded import record
from tests.fuzz import seeds, worker
from tests.fuzz.__main__ import CORPUS
from tests.fuzz.mutate import KINDS, mutated
from tests.fuzz.running import SUITE, cases, cause, run
from tests.fuzz.targets import TARGETS
from tests.fuzz.watch import outside, watched

KEPT = sorted(path.relative_to(CORPUS) for path in CORPUS.rglob("*") if path.is_file())
FULL = 100_000
MOST_COMMANDS = 9
"""That a target has."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "seeds"
    seeds.make(folder)
    return folder


@pytest.mark.parametrize(("number", "seed"), [(300, 1), slow(FULL, 2)])
def test_no_case_ends_in_a_mistake(number: int, seed: int, made: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*") if path.is_file()}
    began = time.monotonic()
    done, found = run(made, cases(number, seed, sorted(TARGETS)))
    if number == FULL:
        record(SUITE, done, len(found), time.monotonic() - began)
    assert "\n\n".join(map(str, found)) == ""
    assert done == number
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("file", KEPT, ids=str)
def test_past_findings(file: Path, made: Path) -> None:
    label = file.name.rpartition("--")[0]
    content = (CORPUS / file).read_bytes()
    for which in range(MOST_COMMANDS):
        assert worker.attempt(file.parts[0], label, content, Random(which), made, which) == []


@pytest.mark.parametrize("target", TARGETS)
def test_seeds_are_what_commands_take(target: str, made: Path) -> None:
    """Else every case would be refused at its first line, and nothing behind it tried."""
    kind, found = TARGETS[target], TARGETS[target].seeds(made)
    assert found
    label = sorted(found)[0]
    assert worker.attempt(target, label, found[label], Random(1), made, 0) == []
    assert any(mutated(found[label], kind.kind, Random(k)) != found[label] for k in range(5))


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_is_the_same_again(kind: str) -> None:
    content = b'{"a": [1, 2]}' if kind == "json" else b"a = 1\n" if kind == "toml" else b"a,b\n1,2\n"
    assert mutated(content, kind, Random(3)) == mutated(content, kind, Random(3))


# --- what looks on can see --------------------------------------------------------------------------------------------


def planted(monkeypatch: pytest.MonkeyPatch, problem: Exception | str) -> list[str]:
    """Return what is found wrong with a command that raises something, or prints it."""

    def act(**_: object) -> None:
        if isinstance(problem, Exception):
            raise problem
        print(problem)

    monkeypatch.setattr("sfumato.cli.main.app", act)
    return worker.problems(["verify", "release"])


def test_what_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert planted(monkeypatch, KeyError("x"))[0].startswith("exit code 70")
    assert "control character" in planted(monkeypatch, "\x1b[2J")[0]
    assert "traceback" in planted(monkeypatch, "Traceback (most recent call last):\n")[0]
    assert planted(monkeypatch, "all is well") == []
    assert planted(monkeypatch, errors.UsageError("So it is.", "Do so.")) == []


def test_files_outside_are_seen(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with watched() as seen:
        (tmp_path / "in" / "a").write_text("a")
        (tmp_path / "b").write_text("b")
        (tmp_path / "b").read_text()
        (tmp_path / "b").rename(tmp_path / "c")
    found = outside(seen, [tmp_path / "in"], [])
    assert {text.rpartition("/")[2] for text in found} == {"b", "c"}
    assert any(text.startswith("reads") for text in found)


def test_a_process_that_takes_too_long_is_ended(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.running.PATIENCE", -1)
    done, found = run(made, iter([("hierarchy", 1, 1)]))
    assert done == 1
    assert "ended after" in found[0].problem


def test_no_case_is_begun_when_the_time_is_over(made: Path) -> None:
    assert run(made, cases(3, 1, ["key"]), until=time.monotonic()) == (0, [])


def test_findings_of_one_cause_are_one() -> None:
    text = 'exit code 70:\n  File "a/sfumato/x.py", line 3, in f\n    g()\nKeyError: {}'
    assert cause("plan", text.format("a")) == cause("policy", text.format("b"))
    assert cause("plan", text.format("a")) != cause("plan", text.replace("line 3", "line 4"))
