"""Tasks in other hands: they say that they run, wait, fail, or go on writing, as a test wants.

The driver sends these instead of what `tasks.mapped` makes. A task leaves a file "kind-partition-attempt" in the
folder of markers, in which stands where its executor runs.

    with held(markers, "WriteFiles"):                tasks of that kind wait for a file `go` in the folder of markers
        publish(...)
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sfumato.engines.spark import tasks
from sfumato.engines.spark.tasks import NO_KEY, _Sent
from sfumato.engines.spark.writing import WriteFiles
from sfumato.values.randomness import SecretKey, release_id

SECONDS = 300
"""After that a task that waits in vain fails."""


@dataclass(frozen=True)
class _Marked:
    """A task that leaves a marker."""

    markers: str
    kind: str
    task: Any
    key: SecretKey
    columns: list[str]

    @property
    def __name__(self) -> str:
        return "sfumato"

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        task = getattr(self.task, "value", self.task)
        rest = _Sent(task, self.key, self.columns)(batches)
        kind = task.func.__name__ if isinstance(task, partial) else type(task).__name__
        self._mark(kind)
        yield from self.treated(task, rest) if kind == self.kind else rest

    def treated(self, task: Any, rest: Iterator[Any]) -> Iterator[Any]:
        """Give what the task gives; with trouble, in those who make some."""
        return rest

    def _mark(self, what: str) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        name = f"{what}-{context.partitionId()}-{context.taskAttemptId()}"
        (Path(self.markers) / name).write_text(os.getcwd())


class Early(_Marked):
    """Waits before it does anything."""

    def treated(self, task: Any, rest: Iterator[Any]) -> Iterator[Any]:
        """Wait, then go on."""
        self._mark("waiting")
        _wait_for(Path(self.markers) / "go")
        yield from rest


class Late(_Marked):
    """Waits when all is done, before it hands over."""

    def treated(self, task: Any, rest: Iterator[Any]) -> Iterator[Any]:
        """Do all, wait, and hand over."""
        done = list(rest)
        self._mark("waiting")
        _wait_for(Path(self.markers) / "go")
        yield from done


class Slow(_Marked):
    """The first attempt at partition 0 writes one file after the other until it is killed."""

    def treated(self, task: WriteFiles, rest: Iterator[Any]) -> Iterator[Any]:
        """Hand over; the first attempt never does."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        done = list(rest)
        if context.partitionId() == 0 and context.attemptNumber() == 0:
            write_on(Path(task.folder))
        yield from done


class Keyless(_Marked):
    """Must not hold its key but beside it: large tasks are put on disks."""

    def __post_init__(self) -> None:
        """Look at it on the driver."""
        from pyspark.cloudpickle import dumps

        task = getattr(self.task, "value", self.task)
        assert self.key == NO_KEY or self.key.secret not in dumps(task)  # type: ignore[no-untyped-call]


class Failing(_Marked):
    """Partition 0 writes on; the others fail when they have written their files."""

    def treated(self, task: WriteFiles, rest: Iterator[Any]) -> Iterator[Any]:
        """Hand over nothing."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        list(rest)
        if context.partitionId() > 0:
            raise RuntimeError("planted")
        write_on(Path(task.folder))
        yield from ()


def write_on(folder: Path) -> None:
    """Write files for as long as one is let."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        (folder / f"{release_id()}.parquet").write_bytes(b"PAR1")
        time.sleep(0.002)


def _wait_for(path: Path) -> None:
    end = time.monotonic() + SECONDS
    while not path.exists():
        assert time.monotonic() < end, f"no {path.name} came"
        time.sleep(0.02)


@contextmanager
def held(markers: Path, kind: str, by: type[_Marked] = Late) -> Iterator[None]:
    """Send tasks in other hands; those of one kind have trouble."""
    markers.mkdir(parents=True, exist_ok=True)
    tasks._Sent = partial(by, str(markers), kind)  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        tasks._Sent = _Sent  # type: ignore[misc]


def ran(markers: Path, kind: str) -> list[tuple[int, str]]:
    """Return partition and place of all tasks of a kind that ran so far."""
    return [(int(path.name.split("-")[1]), path.read_text()) for path in sorted(markers.glob(f"{kind}-*"))]
