"""Work in a process of its own: the page stays quick, shows how far it is, and can end it within a second.

A process that is told to end unwinds as ctrl-C would, so that nothing half-written stays; one that does not end in time
is killed. However it ended, what is left of it is removed afterwards: a signal may come where nothing can be unwound.
If the server dies, its end of a pipe is closed, which tells the process to end, too.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from sfumato import errors
from sfumato.errors import SfumatoError, UsageError
from sfumato.publisher.whole_or_absent import remove_halves

Report = Callable[[str, float, float | None], None]
"""Told which step it is, how much is done, and of how much, if that is known."""
Work = Callable[..., Any]
"""Takes a `Report` and its arguments; it must be importable by its name."""
State = Literal["running", "done", "failed", "cancelled"]
PATIENCE = 0.6
"""Seconds that a process gets to end by itself."""
NO_RESULT = "The machine may have run out of memory. Try it again."
BETWEEN = 0.05
"""Seconds between two reports, at least: a page looks a few times a second."""


@dataclass
class Job:
    """Work that is under way, or has ended."""

    title: str
    state: State = "running"
    step: str = ""
    done: float = 0.0
    total: float | None = None
    problem: SfumatoError | None = None
    unwanted: bool = False  # somebody has cancelled it, and its process may not have ended yet
    started: float = field(default_factory=time.monotonic)

    @property
    def share(self) -> float | None:
        """How much is done, between 0 and 1; None if nobody knows."""
        return min(1.0, self.done / self.total) if self.total else None

    @property
    def seconds(self) -> float:
        """For how long it has been running."""
        return time.monotonic() - self.started

    @property
    def left(self) -> float | None:
        """About how many seconds it still takes; None if nobody knows."""
        share = self.share
        return self.seconds * (1 - share) / share if share and share > 0.02 else None


class Jobs:
    """One job at a time."""

    def __init__(self) -> None:
        self.last: Job | None = None
        self._process: Any = None
        self._lifeline: Connection | None = None
        self._watch: threading.Thread | None = None
        self._lock = threading.Lock()

    @property
    def is_running(self) -> bool:
        """Whether a job is under way."""
        return self.last is not None and self.last.state == "running"

    def start(
        self, title: str, work: Work, *arguments: Any, then: Callable[[Any], None], makes: Path | None = None
    ) -> Job:
        """Do work elsewhere; `then` gets its result, in a thread of the server.

        `makes`: the file or folder that the work writes, whole or not at all.
        """
        with self._lock:  # two pages may ask at once
            self.check_free()
            context = multiprocessing.get_context("spawn")
            reading, writing = context.Pipe(duplex=False)
            watched, self._lifeline = context.Pipe(duplex=False)
            spare = Path(tempfile.mkdtemp(prefix="sfumato-job-"))  # only the user can read it
            process = context.Process(target=_run, args=(writing, watched, spare, work, arguments), daemon=True)
            process.start()
            writing.close()
            watched.close()
            job, self._process = Job(title), process

            def tidy() -> None:
                process.join()
                shutil.rmtree(spare, ignore_errors=True)
                if makes is not None:
                    remove_halves(makes)
                if job.unwanted and makes is not None and makes.exists():
                    job.problem = UsageError(
                        f"{title} had ended before it could be cancelled: {makes.name!r} is there, and whole.",
                        f"Delete it if you do not want it: {makes}.",
                    )

            self._watch = threading.Thread(target=self._follow, args=(job, reading, then, tidy), daemon=True)
            self.last = job
            self._watch.start()
            return job

    def check_free(self) -> None:
        """Raise if a job is under way."""
        if self.last is not None and self.is_running:
            raise UsageError(f"{self.last.title} is still under way.", "Wait until it has ended, or cancel it.")

    def cancel(self) -> None:
        """End the job, if there is one; when this returns nothing of it is left, or all of it, and the job says so."""
        job, process = self.last, self._process
        if job is None or not self.is_running:
            return
        job.unwanted = True
        process.terminate()
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()
        self.wait()

    def wait(self) -> None:
        """Wait until the job has ended, and what follows on it has been done."""
        if self._watch is not None:
            self._watch.join()

    def _follow(self, job: Job, reading: Connection, then: Callable[[Any], None], tidy: Callable[[], None]) -> None:
        """Listen to the process until it has ended, and tidy up after it; the job is under way until then."""
        ended: State = "cancelled"
        try:
            result = _result(job, reading)
            if not job.unwanted:
                then(result)
                ended = "done"
        except EOFError:  # it was killed: by us, or by the machine
            if not job.unwanted:
                job.problem, ended = UsageError(f"{job.title} ended without a result.", NO_RESULT), "failed"
        except Exception as problem:  # whatever it is: a job that stays under way would block the desk
            if not job.unwanted:
                job.problem = problem if isinstance(problem, SfumatoError) else _error(*_unforeseen(problem))
                ended = "failed"
        finally:
            reading.close()
            tidy()
            job.state = "failed" if job.problem else ended


def _result(job: Job, reading: Connection) -> Any:
    """Keep what a process tells of its progress until it has a result; raise the error that it tells instead."""
    while True:
        kind, *told = reading.recv()
        if kind == "done":
            return told[0]
        if kind == "failed":
            raise _error(*told)
        job.step, job.done, job.total = told


def _unforeseen(problem: Exception) -> tuple[str, str, str]:
    """Return what is told of an error that is not one of ours: its class here, what it is, what to do."""
    if isinstance(problem, MemoryError):
        return "UsageError", "The memory of this machine does not suffice.", "End other programs, and try it again."
    if isinstance(problem, OSError):
        return "UsageError", f"A file cannot be read or written: {problem}.", "See to that, and try it again."
    return (
        "SfumatoError",
        f"This is a mistake of sfumato: {type(problem).__name__}: {problem}",
        "Nothing that was saved is lost. Please report it, with what the terminal shows.",
    )


def _error(name: str, message: str, hint: str) -> SfumatoError:
    kind: type[SfumatoError] = getattr(errors, name, SfumatoError)
    return kind(message, hint)


# --- in the other process ---------------------------------------------------------------------------------------------


def _run(writing: Connection, lifeline: Connection, spare: Path, work: Work, arguments: tuple[Any, ...]) -> None:
    """Do the work and send what comes of it; `spare` is the folder of what is temporary."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C goes to the server, which ends its job
        signal.signal(signal.SIGTERM, _unwind)
        threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
        tempfile.tempdir = os.environ["TMPDIR"] = str(spare)
        writing.send(("done", work(_reporter(writing), *arguments)))
        return
    except SfumatoError as problem:
        writing.send(("failed", type(problem).__name__, problem.message, problem.hint))
        return
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # while an error is held, so are the blocks that it left and that have not been unwound yet
    except Exception as problem:
        writing.send(("failed", *_unforeseen(problem)))
        raise  # the terminal shows where
    shutil.rmtree(spare, ignore_errors=True)  # the server may be gone
    os._exit(1)  # everything has been unwound; what is left would wait for threads that no longer matter


def _unwind(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once: a second one would stop the unwinding
    raise KeyboardInterrupt


def _end_with(lifeline: Connection) -> None:
    """End this process when the server is gone: nobody holds the other end of the pipe then."""
    try:
        lifeline.recv()
    except EOFError:
        os.kill(os.getpid(), signal.SIGTERM)


def _reporter(writing: Connection) -> Report:
    """Give a function that sends progress, a few times a second."""
    told_at, told_of = 0.0, ""

    def report(step: str, done: float, total: float | None) -> None:
        nonlocal told_at, told_of
        now = time.monotonic()
        if now - told_at >= BETWEEN or step != told_of:
            told_at, told_of = now, step
            writing.send(("progress", step, done, total))

    return report
