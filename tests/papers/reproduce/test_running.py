"""Running experiments: what a failure leaves, who is told how far it is, and that processes make no difference."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sfumato_papers import catalogue, running
from sfumato_papers.catalogue import chosen
from sfumato_papers.command import app
from sfumato_papers.data import Data, Named
from sfumato_papers.experiment import Experiment, Outcome, Setting
from sfumato_papers.progress import Shares
from sfumato_papers.results import to_json
from sfumato_papers.running import KILLED, Ended, _in_turn, _pooled, run, write_pages
from tests.papers.reproduce.outcomes import EXPERIMENT, made, nobody


def broken(setting: Setting) -> Outcome:
    """Fail as an experiment can."""
    raise ZeroDivisionError("nobody\nwas counted")


BROKEN = Experiment("ad-broken", "AD", "Table 9", "Broken", broken)


@dataclass(frozen=True)
class Killing(Data):
    """Data that end the process that asks for reactions."""

    def reactions(self) -> Named:
        """End this process."""
        os._exit(1)


def test_a_failure_loses_only_itself_and_gives_no_account(tmp_path: Path) -> None:
    kept: list[str] = []
    found = run((BROKEN, EXPERIMENT), Setting(Data()), report=nobody, keep=lambda result: kept.append(result.name))
    assert kept == [result.name for result in found.results] == ["fg-made"]
    write_pages(found, tmp_path)
    line = "ad-broken (AD Table 9): ZeroDivisionError: nobody was counted"
    assert f"- {line}\n" in (tmp_path / "results.md").read_text()
    assert line in (tmp_path / "index.html").read_text()
    assert json.loads((tmp_path / "results.json").read_text())["failures"][0]["name"] == "ad-broken"
    assert not (tmp_path / "papers.md").exists()


def test_the_command_goes_on_after_a_failure_and_tells_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "experiments", lambda: (BROKEN, EXPERIMENT))
    folder = tmp_path / "out"
    ran = CliRunner().invoke(app, ["all", "--offline", "--processes", "1", "-o", str(folder)])
    assert ran.exit_code == 1
    assert "ad-broken (AD Table 9): ZeroDivisionError" in ran.stderr
    assert (folder / "fg-made.csv").is_file()
    assert "## fg-made" in (folder / "results.md").read_text()


def test_a_result_is_kept_before_the_next_begins() -> None:
    kept: list[str] = []
    second = replace(EXPERIMENT, name="fg-next", make=lambda s: replace(made(s), data=f"after {kept}"))
    found = run((EXPERIMENT, second), Setting(Data()), report=nobody, keep=lambda result: kept.append(result.name))
    assert found.results[1].outcome.data == "after ['fg-made']"


def test_a_killed_process_gives_nothing() -> None:
    assert list(_pooled(chosen(["fg-fig4"]), Setting(Killing()), Shares(nobody, 1), 1)) == []


def test_after_a_killed_process_those_that_are_left_run_on_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    killing = replace(EXPERIMENT, name="fg-killing")

    def pooled(wanted: Sequence[Experiment], setting: Setting, shares: Shares, processes: int) -> Iterator[Ended]:
        yield from () if killing in wanted else _in_turn(wanted, setting, shares, processes)

    monkeypatch.setattr(running, "_pooled", pooled)
    found = run((killing, EXPERIMENT), Setting(Data()), processes=2, report=nobody)
    assert [(one.name, one.reason) for one in found.failures] == [("fg-killing", KILLED)]
    assert [result.name for result in found.results] == ["fg-made"]


def test_progress_is_told_as_shares_of_all() -> None:
    told: list[tuple[str, float, int]] = []
    shares = Shares(lambda *one: told.append(one), 3)
    shares.hear("a", 0.25)
    shares.hear("b", 0.5)
    shares.end("a")
    shares.hear("a", 1.0)  # late
    assert told == [("a 25%", 0.25, 3), ("a 25%, b 50%", 0.75, 3), ("b 50%", 1.5, 3)]


def halfway(setting: Setting) -> Outcome:
    """Tell when half of the work is done."""
    setting.progress(0.5)
    return made(setting)


def test_an_experiment_tells_how_far_it_is() -> None:
    told: list[float] = []
    run((replace(EXPERIMENT, make=halfway),), Setting(Data()), report=lambda _, done, total: told.append(done))
    assert told == [0.0, 0.5, 1.0]


def test_several_processes_give_the_same_and_tell_how_far_they_are() -> None:
    wanted, told = chosen(["fg-examples"]), list[tuple[str, float, int]]()
    setting = Setting(Data(), quick=True)
    alone, beside = (run(wanted, setting, processes=n, report=lambda *one: told.append(one)) for n in (1, 2))
    assert told == 2 * [("fg-examples 0%", 0.0, 1), ("", 1.0, 1)]
    timeless = [
        to_json(replace(found, created="", results=tuple(replace(r, seconds=0.0) for r in found.results)))
        for found in (alone, beside)
    ]
    assert timeless[0] == timeless[1]
