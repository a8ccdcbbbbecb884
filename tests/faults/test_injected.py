"""Any call on a file fails, or is the last one: no half release, no original value left, and the next run works."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sfumato.methods import METHODS
from tests.faults.injected import COMPILER, FAULTS, KILLS, Runs
from tests.faults.recorded import Suite, record
from tests.faults.scene import PRIVATE, PUBLISHED, Scene, broken, private, publishing, restore
from tests.golden.cases import CASES

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler for the layer that fails")
HOLDS = (
    "no half release, no original value in what is left, the input as it was, an exit code with a sentence, "
    "and the next run works and tidies up"
)
KILLED = Suite(
    "kills",
    "kills at a random call on a file, while every method publishes: Parquet and CSV, in order and shuffled, "
    "600 and 30,000 rows",
    HOLDS,
    "pytest -m slow tests/faults/test_injected.py -k thousand",
)
EACH_STEP = Suite(
    "each-step",
    "faults at each call on a file of a publication by every method: killed, half a write, disk full or broken, "
    "not allowed, too many files, interrupted",
    HOLDS,
    "pytest -m slow tests/faults/test_injected.py -k each_call",
)
PRIVATE_FILES = Suite(
    "private-files",
    "faults at each call on a file of commands that write a private one (key, plan, init, audit, report): killed, half "
    "a write, disk full or broken, not allowed, too many files, interrupted",
    "the file is whole and its owner's alone, or absent; no original value is left in others; the next run works",
    "pytest -m slow tests/faults/test_injected.py -k private_files",
)
Stage = tuple[Scene, int]
"""What is run, and how many calls it makes on files."""


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    with Runs() as opened:
        yield opened


def stage(runs: Runs, folder: Path, case: str, format: str, shuffled: bool, rows: int = 600) -> Stage:
    return counted(runs, publishing(folder, CASES[case], format, shuffled, rows))


def counted(runs: Runs, scene: Scene) -> Stage:
    clean = runs.run(scene.arguments, scene.folder)
    assert clean.code == 0, clean.told
    restore(scene)
    return scene, clean.calls


def random_kills(runs: Runs, folder: Path, number: int, seed: int) -> tuple[int, list[str]]:
    """Kill publications of all methods, formats and orders at random; return how many died, and what did not hold."""
    draw, died, found = random.Random(seed), 0, []
    while died < number:
        case, format, shuffled = draw.choice(PUBLISHED), draw.choice(["parquet", "csv"]), draw.random() < 0.5
        rows = 30_000 if draw.random() < 0.1 else 600
        scene, calls = stage(runs, folder / "scene", case, format, shuffled, rows)
        for fault in draw.choices(KILLS, weights=(4, 1), k=5):
            problems, ended = broken(runs, scene, fault, draw.randint(1, calls))
            found += [f"{case}, {format}, {'shuffled, ' if shuffled else ''}{rows} rows: {what}" for what in problems]
            died += ended.code == -9
        shutil.rmtree(scene.folder)
    return died, found


def test_every_method_is_tried() -> None:
    assert {method.name for method in METHODS} <= {case.split(",")[0] for case in PUBLISHED}


def test_fifty_kills_at_random(runs: Runs, tmp_path: Path) -> None:
    assert random_kills(runs, tmp_path, 50, seed=1)[1] == []


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in KILLS])
def test_a_call_that_fails(fault: str, runs: Runs, tmp_path: Path) -> None:
    draw, found = random.Random(fault), []
    for number, case in enumerate(draw.sample(PUBLISHED, 2)):
        scene, calls = stage(runs, tmp_path / str(number), case, ("parquet", "csv")[number], number == 0)
        for step in draw.sample(range(1, calls + 1), 3):
            found += [f"{case}: {what}" for what in broken(runs, scene, fault, step)[0]]
    assert found == []


@pytest.mark.parametrize("command", PRIVATE)
def test_a_private_file_while_a_call_fails(command: str, runs: Runs, tmp_path: Path) -> None:
    draw, found = random.Random(command), []
    scene, calls = counted(runs, private(tmp_path / "x", command, runs))
    for fault in ("kill", "full disk", "broken disk"):
        found += broken(runs, scene, fault, draw.randint(max(1, calls - 10), calls))[0]
    assert found == []


# --- all of them ------------------------------------------------------------------------------------------------------


def at_once(folder: Path, jobs: list[tuple[str, ...]]) -> tuple[int, list[str]]:
    """Do each of the jobs, two at a time; return how many faults there were, and what did not hold."""

    def each(job: tuple[str, ...]) -> tuple[int, list[str]]:
        with Runs() as runs:
            own = folder / "-".join(job)
            if len(job) == 1:
                scene, calls = counted(runs, private(own, job[0], runs))
            else:
                scene, calls = stage(runs, own, job[0], job[1], job[2] == "shuffled")
            return every_call(runs, scene, calls, ", ".join(job))

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(each, jobs))
    return sum(cases for cases, _ in done), [what for _, found in done for what in found]


def every_call(runs: Runs, scene: Scene, calls: int, name: str) -> tuple[int, list[str]]:
    """Let each call be the last one, and let each fail in one of the ways in turn."""
    cases, found, ways = 0, [], [fault for fault in FAULTS if fault != "kill"]
    for step in range(1, calls + 1):
        for fault in ("kill", ways[step % len(ways)]):
            problems, ended = broken(runs, scene, fault, step)
            cases += ended.injected > 0
            found += [f"{name}: {what}" for what in problems]
    return cases, found


@pytest.mark.slow
def test_a_thousand_kills_at_random(tmp_path: Path) -> None:
    def half(seed: int) -> tuple[int, list[str]]:
        with Runs() as runs:
            return random_kills(runs, tmp_path / str(seed), 500, seed)

    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(half, (1, 2)))
    found = [what for _, problems in done for what in problems]
    record(KILLED, sum(died for died, _ in done), len(found), time.monotonic() - began)
    assert found == []


@pytest.mark.slow
def test_each_call_of_every_method(tmp_path: Path) -> None:
    began = time.monotonic()
    ways = [("parquet", "in order"), ("csv", "shuffled"), ("csv", "in order"), ("parquet", "shuffled")]
    jobs = [(case, *ways[number % len(ways)]) for number, case in enumerate(PUBLISHED)]  # each way of four methods
    cases, found = at_once(tmp_path, jobs)
    record(EACH_STEP, cases, len(found), time.monotonic() - began)
    assert found == []


@pytest.mark.slow
def test_each_call_of_commands_that_write_private_files(tmp_path: Path) -> None:
    began = time.monotonic()
    cases, found = at_once(tmp_path, [(command,) for command in PRIVATE])
    record(PRIVATE_FILES, cases, len(found), time.monotonic() - began)
    assert found == []
