"""A process that gets no more memory, files, threads or time, or whose clock jumps: a sentence, and no half release.

The limits are those of the system (`setrlimit`), set in the child that runs the command; threads that do not start, and
a clock that jumps, are of `shim.c`.
"""

from __future__ import annotations

import errno
import mmap
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from sfumato.engines.embedded.counting import run as run_query
from sfumato.release.folder import connection
from tests.faults.injected import CLOCK_JUMPS, COMPILER, COUNT_THREADS, NO_THREADS, Ended, Runs
from tests.faults.recorded import Suite, record
from tests.faults.scene import CPU, PUBLISHED, Scene, judged, publishing
from tests.golden.cases import CASES

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler for the layer that fails")
SUITE = Suite(
    "limits",
    "publications by every method at a limit: of memory, of the size of files, of open files, of processor seconds, of "
    "threads; and under a clock that jumps by up to 80 years ahead and back",
    "an exit code with a sentence; whole or absent; no original value in what is left, and the next run works",
    "pytest -m slow tests/faults/test_limits.py",
)
IN_USE = """
import os, resource
mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
opened = max(map(int, os.listdir("/proc/self/fd")))
"""
BURN = """
import resource, time
before = resource.getrusage(resource.RUSAGE_SELF)
while time.process_time() < {least}:
    pass
resource.setrlimit(resource.RLIMIT_CPU, (1, 2))
"""


@dataclass(frozen=True)
class Limit:
    """A limit: Python that sets it to an amount, and how amounts are drawn."""

    before: str
    amount: Callable[[random.Random], float]


def between(low: float, high: float) -> Callable[[random.Random], float]:
    """Draw amounts of all orders of size."""
    return lambda draw: low * (high / low) ** draw.random()


LIMITS = {
    "memory": Limit(
        IN_USE + "resource.setrlimit(resource.RLIMIT_AS, (mapped + int({amount}),) * 2)", between(1 << 20, 1 << 30)
    ),
    "size of files": Limit(
        IN_USE + "resource.setrlimit(resource.RLIMIT_FSIZE, (int({amount}),) * 2)", between(4_000, 100_000)
    ),
    "open files": Limit(
        IN_USE + "resource.setrlimit(resource.RLIMIT_NOFILE, (opened + int({amount}),) * 2)", between(1, 20)
    ),
    CPU: Limit(BURN.replace("{least}", "1 - {amount}"), between(0.02, 0.4)),
}
DAYS = (1, 8, 400, 30_000)


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    with Runs() as opened:
        yield opened


def limited(runs: Runs, scene: Scene, limit: str, draw: random.Random) -> list[str]:
    """Run with a limit of an amount that is drawn; return what does not hold."""
    amount = LIMITS[limit].amount(draw)
    before = LIMITS[limit].before.format(amount=amount)
    found, _ = judged(runs, scene, limit, lambda: runs.run(scene.arguments, scene.folder, before=before))
    return [f"{amount:,.2f}: {what}" for what in found]


def without_threads(runs: Runs, scene: Scene, draw: random.Random) -> list[str]:
    """Let no thread start from one on that is drawn."""
    started = runs.run(scene.arguments, scene.folder, COUNT_THREADS).calls
    assert started > 1
    restored = judged(runs, scene, "threads", lambda: runs.run(scene.arguments, scene.folder))[0]
    return restored + failing_start(runs, scene, draw.randint(1, started))


def failing_start(runs: Runs, scene: Scene, step: int) -> list[str]:
    return judged(runs, scene, "threads", lambda: runs.run(scene.arguments, scene.folder, NO_THREADS, step))[0]


def jumping(runs: Runs, scene: Scene, draw: random.Random) -> list[str]:
    """Let the clock jump; the release is made nevertheless."""
    found, ended = judged(runs, scene, "clock", lambda: jumped(runs, scene, draw.choice(DAYS)))
    return [*found, *([] if ended.code == 0 else [f"clock: ended with {ended.code}, saying {ended.told}"])]


def jumped(runs: Runs, scene: Scene, days: int) -> Ended:
    ended = runs.run(scene.arguments, scene.folder, CLOCK_JUMPS, days)
    assert ended.injected > 0, "it did not ask for the time"
    return ended


def every_limit(runs: Runs, scene: Scene, draw: random.Random, often: int) -> tuple[int, list[str]]:
    """Try each limit so often; return how many cases there were, and what does not hold."""
    tries: list[Callable[[], list[str]]] = [
        *(lambda limit=limit: limited(runs, scene, limit, draw) for limit in LIMITS),  # type: ignore[misc]
        lambda: without_threads(runs, scene, draw),
        lambda: jumping(runs, scene, draw),
    ]
    return len(tries) * often, [what for each in tries for _ in range(often) for what in each()]


def test_no_database_is_opened_where_addresses_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB ends the process there: nothing can be said after that."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refuse)
    monkeypatch.setattr(duckdb, "connect", lambda **_: pytest.fail("it was opened"))
    with pytest.raises(MemoryError):
        run_query("SELECT 1", [], [])
    with pytest.raises(MemoryError), connection(keep=False):  # one that another test left open would be used
        pass


def test_limits(runs: Runs, tmp_path: Path) -> None:
    scene = publishing(tmp_path / "x", CASES["anatomy"], "csv", True)
    assert every_limit(runs, scene, random.Random(1), 2)[1] == []


@pytest.mark.slow
def test_limits_of_every_method(runs: Runs, tmp_path: Path) -> None:
    began, draw, cases, found = time.monotonic(), random.Random(2), 0, []
    for number, case in enumerate(PUBLISHED):
        scene = publishing(tmp_path / str(number), CASES[case], ("parquet", "csv")[number % 2], number % 4 < 2)
        some, problems = every_limit(runs, scene, draw, 5)
        cases += some
        found += [f"{case}: {what}" for what in problems]
    record(SUITE, cases, len(found), time.monotonic() - began)
    assert found == []
