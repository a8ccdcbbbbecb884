"""Run many cases in processes that are watched: 10 seconds of processor time and 1 GB for each, no more."""

from __future__ import annotations

import json
import math
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from random import Random

from tests.faults.recorded import Suite
from tests.fuzz.targets import TARGETS

SECONDS, MEMORY, PATIENCE = 10, 1 << 30, 120
"""Of one case: seconds of the processor, bytes, and seconds by the clock without any of the processor: it hangs."""
AT_ONCE = 1000
"""Cases after which a process is ended: what it holds would be counted to the next ones."""
Named = tuple[str, int, int]
SUITE = Suite(
    "fuzzing",
    "a changed file or question: policy, plan, manifest, data, table, prior, key, SQL, formula, record",
    "an answer or a sentence within 10 s and 1 GB, nothing written elsewhere; what is published verifies",
    "pytest -m slow tests/fuzz",
)


@dataclass(frozen=True)
class Finding:
    """A case that went wrong: its target, its number, the seed of the run, and what is wrong."""

    target: str
    number: int
    seed: int
    problem: str

    def __str__(self) -> str:
        again = f"python -m tests.fuzz --target {self.target} --case {self.number} --seed {self.seed}"
        return f"{self.problem.strip()}\n  again: {again}"


def cases(number: int, seed: int, targets: list[str]) -> Iterator[Named]:
    """Give the cases of a run: targets by their shares, in an order that is drawn."""
    draw, shares = Random(seed), [TARGETS[name].share for name in targets]
    for place in range(number):
        yield draw.choices(targets, shares)[0], place, seed


class Worker:
    """A process that runs cases, and what it takes."""

    def __init__(self, seeds: Path) -> None:
        environment = os.environ | {
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "OPENBLAS_NUM_THREADS": "1",  # threads that wait for each other take the processor's time
        }
        self.done = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker", str(seeds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=environment,
        )  # fmt: skip

    def run(self, named: Named) -> list[str]:
        """Run a case; return what is wrong. A process that takes too much is ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        before = last = self._taken()[0] if self.done else 0.0
        moved, self.done = time.monotonic(), self.done + 1
        self._process.stdin.write(json.dumps(named) + "\n")
        self._process.stdin.flush()
        while not select.select([self._process.stdout], [], [], 0.2)[0]:
            seconds, memory = self._taken()
            if seconds > last:  # slow, where others have the processor, is no hang
                last, moved = seconds, time.monotonic()
            # what is imported first is no part of a case
            if (
                seconds - before > SECONDS + (0 if before else 15)
                or memory > 2 * MEMORY
                or time.monotonic() - moved > PATIENCE
            ):
                self.end()
                return [f"ended after {seconds - before:.0f} s of the processor with {memory / 1e9:.1f} GB"]
        line = self._process.stdout.readline()
        if not line:
            return [f"the process ended: {self._process.wait()}"]
        found, seconds, peak = json.loads(line)
        if seconds > SECONDS:
            found.append(f"took {seconds:.0f} s of the processor")
        if peak > MEMORY:
            found.append(f"took {peak / 1e9:.1f} GB")
        return list(found)

    def _taken(self) -> tuple[float, int]:
        """Return the seconds of the processor so far, and the bytes now; nothing of a process that is gone."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0, 0
        ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
        return (int(fields[11]) + int(fields[12])) / ticks, int(fields[21]) * page

    @property
    def is_spent(self) -> bool:
        return self._process.poll() is not None or self.done >= AT_ONCE

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()  # closes the pipes


def run(
    seeds: Path, named: Iterator[Named], workers: int = 1, tell: object = None, until: float = math.inf
) -> tuple[int, list[Finding]]:
    """Run cases, until a time of the monotonic clock; return how many, and the findings, those of one cause once."""
    waiting: SimpleQueue[Named] = SimpleQueue()
    for case in named:
        waiting.put(case)
    found: dict[str, Finding] = {}
    done: list[int] = []

    def serve() -> None:
        worker = Worker(seeds)
        while time.monotonic() < until:
            try:
                case = waiting.get_nowait()
            except Empty:
                break
            if worker.is_spent:
                worker.end()
                worker = Worker(seeds)
            problems = worker.run(case)
            if any("of the processor" in problem for problem in problems):  # others had its cache: once more
                worker.end()
                worker = Worker(seeds)
                problems = worker.run(case)
            for problem in problems:
                finding = Finding(*case, problem)
                if found.setdefault(cause(case[0], problem), finding) is finding and callable(tell):
                    tell(finding)
            done.append(1)
        worker.end()

    threads = [threading.Thread(target=serve) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(done), list(found.values())


def cause(target: str, problem: str) -> str:
    """Return what findings of one cause share: the last place in our code and the kind of error, or the first words."""
    lines = [line.strip() for line in problem.splitlines() if line.strip()]
    places = [line for line in lines if line.startswith("File ") and "sfumato" in line]
    return f"{places[-1]} {lines[-1].split(':')[0]}" if places else f"{target} {lines[0][:60]}"
