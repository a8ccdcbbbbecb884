"""Many questions at once, by threads and by processes, forked and spawned: each is answered as it is alone."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

import sfumato as sf
from sfumato.cli.demo import run_demo
from tests.faults.recorded import Suite, record

AT_ONCE = Suite(
    "questions",
    "questions at once, by 16 threads, forked and spawned processes",
    "the answer is the one that the question gets alone",
    "pytest -m slow tests/faults/test_many_questions.py",
)
POOLS: dict[str, Callable[[int], Executor]] = {
    "threads": ThreadPoolExecutor,
    "fork": lambda workers: ProcessPoolExecutor(workers, multiprocessing.get_context("fork")),
    "spawn": lambda workers: ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(run_demo(tmp_path_factory.mktemp("many") / "demo").release.folder)


def asked(folder: str, number: int) -> str:
    """Return the answer to a question, one of five kinds, of a release that is opened for it."""
    release, age = sf.open_release(folder), 20 + number % 60
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: release.count(by="diagnosis", where=f"age >= {age}"),
        lambda: release.sql(f"SELECT sex, COUNT(*) FROM release WHERE age < {age} AND diagnosis = 'HIV' GROUP BY sex"),
        lambda: release.count(by=["region", "sex"], where=f"age = {age}"),
        lambda: release.sql(f"SELECT region, AVG(age) FROM release WHERE age > {age} GROUP BY region"),
        lambda: release.power(by="sex", where=f"age >= {age}"),
    )
    return json.dumps(kinds[number % len(kinds)]().rows(), default=str)


def differing(folder: str, pool: Executor, questions: int, alone: list[str]) -> int:
    with pool:
        answers = list(pool.map(asked, [folder] * questions, range(questions)))
    return sum(one != other for one, other in zip(answers, alone, strict=True))


@pytest.mark.parametrize("how", POOLS)
def test_questions_at_once_are_answered_as_they_are_alone(how: str, folder: str) -> None:
    alone = [asked(folder, number) for number in range(20)]
    assert len(set(alone)) == 20  # so that answers that were exchanged would be seen
    assert differing(folder, POOLS[how](4), 20, alone) == 0


@pytest.mark.slow
def test_two_hundred_questions_at_once(folder: str) -> None:
    start = time.monotonic()
    alone = [asked(folder, number) for number in range(200)]
    failures = sum(differing(folder, make(16), 200, alone) for make in POOLS.values())
    record(AT_ONCE, 200 * len(POOLS), failures, time.monotonic() - start)
    assert failures == 0
