"""Hostile releases, each given to every command that reads one: refused in our words, or answered, and nothing else.

All of them take long, so a build tries some of each kind, by two commands. All:

    pytest -m slow tests/faults/test_hostile_suite.py
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Collection
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from tests.faults.hostile import KINDS_OF_CASES, Base, bases
from tests.faults.opening import attempt, load_all
from tests.faults.recorded import Suite, record

Value = TypeVar("Value")
HOSTILE = Suite(
    "hostile",
    "hostile releases: links, paths that lead out, pipes, bombs, deep and huge JSON, damaged files, foreign files, "
    "names and values with HTML, terminal escapes, formulas, SQL; each given to verify, audit, estimate, report, "
    "regress and the studio",
    "our own words and exit codes 0, 1, 2; nothing outside the folder read or written, nothing changed or left; "
    "`verify` says what is foreign; at most 10 s of the processor and 1 GB for each command",
    "pytest -m slow tests/faults/test_hostile_suite.py",
)
KINDS = [list(kind()) for kind in KINDS_OF_CASES]
CASES = [case for kind in KINDS for case in kind]
QUICK = (
    "data.parquet of uniform is a link to copy",
    "groups.csv of anatomy csv is a pipe",
    "data in '../planted/secret.txt'",
    "groups in '/etc/passwd'",
    "size is a billion",
    "a matrix by a deck of a billion values",
    "a manifest of a list in a list",
    "a limit of marks",
    "data of lists in lists",
    "lines of an open quote",
    "a file '-rf' beside",
    "a value '\\x1b[2J\\x1b[31mred' in parquet",
    'a name "\'; DROP VIEW release; --" in csv',
)
"""Tried in every build."""
COMMANDS = ("verify", "estimate")
"""Given to these, which read all of a release."""


def apart(work: Callable[..., Value], *arguments: object) -> Value:
    """Do some work in a process of its own: what it takes is in no child of ours, nor what we took in one of its."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(work, *arguments).result()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Base]:
    found = apart(bases, tmp_path_factory.mktemp("hostile"))
    load_all()
    return found


def tried(names: Collection[str], made: dict[str, Base], folder: Path) -> list[str]:
    """Return what went wrong with the cases of these names; other tests run beside it, so nothing is measured."""
    load_all()
    some = [case for case in CASES if case.name in names]
    return [wrong for case in some for wrong in attempt(case, made[case.base], folder, COMMANDS, limited=False)[0]]


def test_some_of_each_kind(tmp_path: Path) -> None:
    assert all({case.name for case in kind} & set(QUICK) for kind in KINDS)
    assert {case.name for case in CASES} >= set(QUICK)
    needed = {case.base for case in CASES if case.name in QUICK}
    assert apart(tried, QUICK, apart(bases, tmp_path / "bases", needed), tmp_path / "case") == []


def test_there_are_enough_and_none_twice() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 250


@pytest.mark.slow
def test_all_hostile_releases(made: dict[str, Base], tmp_path: Path) -> None:
    began, failed, found = time.monotonic(), 0, []
    for case in CASES:
        wrong, _ = attempt(case, made[case.base], tmp_path / "case")
        for problem in wrong:
            print(problem, flush=True)
        found += wrong
        failed += bool(wrong)
    record(HOSTILE, len(CASES), failed, time.monotonic() - began)
    assert found == []
