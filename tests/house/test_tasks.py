"""Twelve things that people want to do, done from the documentation alone: the page that says how, and its command.

The command stands on the page as it is run here. What it must end in is what somebody who wants that looks for.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import slow
from tests.house.test_docs import ROOT, blocks, commands, exit_code

TABLE, POLICY = "sfumato-demo/private/clinic.parquet", "sfumato-demo/private/policy.toml"


class Task(NamedTuple):
    """Who wants what; the page, the command on it, and what is then there: printed, or a file."""

    who: str
    wants: str
    page: str
    command: str
    printed: str = ""
    file: str = ""


TASKS = [
    Task("anybody", "to see it work", "start/install.md", "sfumato demo -o my-demo", file="my-demo/release"),
    Task(
        "a publisher", "a first policy for a table", "publish/guide.md",
        f"sfumato init {TABLE} -o policy.toml", "Wrote policy.toml", "policy.toml",
    ),
    Task(
        "a publisher", "to know who is alone with what others know", "publish/checklist.md",
        f"sfumato profile {TABLE} {POLICY} --details", "alone",
    ),
    Task(
        "a publisher", "to know the promise and the cost before anything is published", "start/five-minutes.md",
        f"sfumato plan {TABLE} {POLICY} -o plan.json", "proved for any belief beforehand", "plan.json",
    ),
    Task(
        "a publisher", "to publish exactly what was signed", "start/five-minutes.md",
        f"sfumato publish {TABLE} {POLICY} --plan plan.json -o release",
        "Published 20,000 records", "release/data.parquet",
    ),
    Task(
        "anybody", "to check a release before it is handed out", "publish/checklist.md",
        "sfumato verify sfumato-demo/release", "holds",
    ),
    Task(
        "an analyst", "to count the diagnoses of women", "analyse/first-estimate.md",
        "sfumato estimate sfumato-demo/release --by diagnosis --where \"sex = 'F'\"", "hypertension",
    ),
    Task(
        "an analyst", "to conclude on a population, not on this table", "analyse/write-up.md",
        "sfumato estimate sfumato-demo/release --by diagnosis --target population", "standard_error",
    ),
    Task(
        "an analyst", "to know whether two columns go together", "analyse/associations.md",
        "sfumato associate sfumato-demo/release --between sex,diagnosis", "Cramer's V",
    ),
    Task(
        "an analyst", "to know which groups are too small to be seen", "analyse/first-estimate.md",
        "sfumato power sfumato-demo/release --by diagnosis --where \"sex = 'F'\"", "least_count",
    ),
    Task(
        "a reviewer", "to know what attackers reach, also those who are not covered", "publish/checklist.md",
        f"sfumato audit {TABLE} {POLICY} sfumato-demo/release -o audit.json", "averaging", "audit.json",
    ),
    Task(
        "whoever signs", "one page to decide on", "review/report.md",
        f"sfumato report {TABLE} {POLICY} sfumato-demo/release -o audit.html", file="audit.html",
    ),
]  # fmt: skip
LONG = Task(
    "a publisher", "to know which method suits the table", "review/compare.md",
    f"sfumato compare {TABLE} {POLICY} --repeat 1 --seed 1 -o compared.json --plot methods.svg",
    "fine-grain", "methods.svg",
)  # fmt: skip
"""One more, which takes long; its page is run with all others."""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with what the demo leaves, as the pages assume it; tasks follow each other there."""
    folder = tmp_path_factory.mktemp("desk")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert exit_code(["sfumato", "demo"]) == 0
        yield folder
    shutil.rmtree(folder)


def test_there_are_twelve() -> None:
    assert len({(task.who, task.wants) for task in TASKS}) == len({task.command for task in TASKS}) == 12


@pytest.mark.parametrize("task", [*TASKS, slow(LONG)], ids=lambda task: task.wants)
def test_a_task_is_done_with_the_command_of_its_page(
    task: Task, desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = [
        run for block in blocks(ROOT / "docs" / task.page) if block.kind == "console" for run in commands(block.text)
    ]
    assert shlex.split(task.command) in [command for command, _, _ in shown], f"{task.page} does not show it"
    capsys.readouterr()
    assert exit_code(shlex.split(task.command)) == 0
    assert task.printed.lower() in capsys.readouterr().out.lower()
    assert not task.file or (desk / task.file).exists()
