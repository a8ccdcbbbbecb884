"""Showing results in a terminal: tables, progress, errors; and JSON for programs."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.values.arrays import Progress
from sfumato.values.text import table as table


def print_json(value: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


@contextmanager
def progress_bar(what: str, total: int | None, quiet: bool = False) -> Iterator[Progress]:
    """Give a function to report rows to; a bar with rows per second and time left, on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield lambda rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.completed:,.0f} rows"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, rate="")

        def report(rows: int) -> None:
            bar.advance(task, rows)
            speed = bar.tasks[0].speed
            bar.update(task, rate=f"{speed:,.0f} rows/s" if speed else "")

        yield report


@contextmanager
def step_bar(quiet: bool = False) -> Iterator[Callable[[str, float, int], None]]:
    """Give a function to report steps to: which one begins, how many are done, and how many there are."""
    if quiet or not sys.stderr.isatty():
        yield lambda step, done, steps: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Reading", total=None)
        yield lambda step, done, steps: bar.update(task, description=step, completed=done, total=steps)


def fail(problem: SfumatoError, as_json: bool) -> int:
    """Tell what went wrong and what to do; return the exit code."""
    if as_json:
        print_json({"error": type(problem).__name__, "message": problem.message, "hint": problem.hint})
    else:
        print(f"{type(problem).__name__}: {problem}", file=sys.stderr)
    return problem.exit_code


@contextmanager
def ended_cleanly() -> Iterator[None]:
    """Let a polite kill (SIGTERM, SIGHUP) unwind like ctrl-C, so that nothing half-written stays."""

    def unwind(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), unwind)
    yield
