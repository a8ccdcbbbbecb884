"""Hostile releases, each given to every command that reads one: refused in our words, or answered, and nothing else.

It takes long, so no build runs it: pytest -m slow tests/faults/test_hostile_suite.py
"""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from tests.faults.hostile import Base, bases, every
from tests.faults.opening import attempt, load_all
from tests.faults.recorded import Suite, record

HOSTILE = Suite(
    "hostile",
    "hostile releases: links, paths that lead out, pipes, bombs, deep and huge JSON, damaged files, foreign files, "
    "names and values with HTML, terminal escapes, formulas, SQL; each given to verify, audit, estimate, report, "
    "regress and the studio",
    "our own words and exit codes 0, 1, 2; nothing outside the folder read or written, nothing changed or left; "
    "`verify` says what is foreign; at most 10 s of the processor and 1 GB for each command",
    "pytest -m slow tests/faults/test_hostile_suite.py",
)
CASES = list(every())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Base]:
    folder = tmp_path_factory.mktemp("hostile")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:  # what it takes is in no child of ours
        found = apart.submit(bases, folder).result()
    load_all()
    return found


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
