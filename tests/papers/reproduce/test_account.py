"""docs/methods/papers.md is what a full run writes: all experiments, these words, and today's numbers where exact."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sfumato_papers.accounts import ACCOUNTS
from sfumato_papers.catalogue import PAPERS, experiments
from sfumato_papers.data import Data
from sfumato_papers.experiment import Experiment, Setting
from sfumato_papers.results import TIMES, _cells, _markdown_table

ACCOUNT = Path(__file__).parents[3] / "docs" / "methods" / "papers.md"
EXACT = ("fg-examples", "sdr-table1", "sdr-examples", "sk-examples", "pi-examples", "pi-table5", "ad-fig2")
"""Experiments whose numbers depend on no table, no seed and no `--quick`."""


def by_name(name: str) -> Experiment:
    """Return an experiment."""
    return next(experiment for experiment in experiments() if experiment.name == name)


def told() -> list[str]:
    """Return the lines of the account."""
    return ACCOUNT.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", EXACT)
def test_exact_rows_are_those_of_the_experiment(name: str) -> None:
    experiment = by_name(name)
    found = experiment.run(Setting(Data(), quick=True)).comparisons
    place = f"{experiment.place} ({experiment.name})"
    rows = list(_markdown_table((), ((place, *_cells(compared)) for compared in found)))[2:]
    assert rows == [row for row in rows if row in told()]
    assert len(rows) == sum(f"({name}) |" in line for line in told())


def test_every_experiment_is_in_the_account_and_no_other() -> None:
    rows = [line.split(" | ")[0] for line in told() if line.startswith("| ") and not line.startswith("| place")]
    named = {match[1] for row in rows if (match := re.search(r"\(([a-z0-9-]+)\)$", row))}
    assert len(rows) > len(named)
    assert named == {experiment.name for experiment in experiments()}


def test_counts_of_verdicts_are_those_of_the_rows() -> None:
    text = ACCOUNT.read_text(encoding="utf-8")
    for paper in PAPERS:
        part = text.split(f"## {paper}: ")[1].split("\n## ")[0]
        untimed = part.split(f"### {TIMES}")[0].splitlines()
        rows = [line for line in untimed if line.startswith("| ") and not line.startswith("| place")]
        differ = sum(line.rsplit(" | ", 1)[1].startswith("differs") for line in rows)
        noisy = sum(line.rsplit(" | ", 1)[1].startswith("within the stated noise") for line in rows)
        equal = len(rows) - differ - noisy
        counted = f"{equal} equal to the printed digits or as it says, {noisy} within the stated noise, {differ} that"
        assert f"Comparisons: {counted} differ." in part


def test_nothing_else_in_the_account_has_a_number() -> None:
    tables = ("| ", "|---", "- ", "Data: ", "Comparisons: ", "# ", "## ", "### ", "Made by ")
    own = {line for account in ACCOUNTS.values() for line in account.splitlines()}
    assert [line for line in told() if line not in own and not line.startswith(tables)] == []
    assert not re.search(r"\d", re.sub(r"(Theorem|Tables?|Fig\.) \d( and \d)?", "", " ".join(ACCOUNTS.values())))


def test_the_account_is_of_a_run_with_real_tables() -> None:
    text = ACCOUNT.read_text(encoding="utf-8")
    assert "Adult, 45,222 complete rows" in text
    assert "generated" not in text
