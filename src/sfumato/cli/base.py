"""What all commands share: the application, its arguments, how columns are named, and how results are shown."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import typer

from sfumato.cli.signals import handle_signals
from sfumato.errors import CannotMeet, InternalError, Interrupted, SfumatoError, UsageError, no_more_threads
from sfumato.show.terminal import is_unicode, json_text, line_width, put, say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sfumato.analyst.release import Release
    from sfumato.show.screen import Screen
    from sfumato.values.arrays import Progress  # loads numpy, which takes longer than all else of --help

Value = TypeVar("Value")
ENGINES = ("embedded", "spark")


def _tell_version(asked: bool) -> None:
    if asked:
        import sfumato

        say(f"sfumato {sfumato.__version__}")
        raise typer.Exit


app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Publish microdata under a stated privacy bound, and keep the picture. "
    "Exit codes: 0 fine, 1 a request that cannot be met, 2 wrong use, 70 a mistake of this program.",
)

TablePath = Annotated[Path, typer.Argument(help="Parquet, CSV or TSV (also .gz), or a folder of Parquet files.")]
PolicyPath = Annotated[Path, typer.Argument(help="The policy, in TOML.")]
ReleasePath = Annotated[Path, typer.Argument(help="The folder of a release.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON with stable keys (docs/reference/json.md).")]
Details = Annotated[bool, typer.Option("--details", help="Show all of it, not only the first screen.")]
Reasons = Annotated[bool, typer.Option("--why", help="Show why the promise holds: its formulas, with the numbers.")]
Shuffle = Annotated[bool, typer.Option("--shuffle", help="Shuffle the rows in any case.")]
Engine = Annotated[str, typer.Option("--engine", help="embedded, on this machine, or spark.")]
Master = Annotated[
    str | None, typer.Option("--master", help="Of Spark: local[*] unless said, spark://host:7077, yarn, ...")
]
Conf = Annotated[list[str] | None, typer.Option("--conf", help="A setting of Spark, key=value; repeat for more.")]
NewFolder = Annotated[Path, typer.Option("--output", "-o", help="The new folder of the release.")]


@app.callback()
def whole(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Tell which version this is.")
    ] = False,
) -> None:
    """Take what stands before a command."""


def check_private(file: Path | None, what: str) -> None:
    """Raise if a private file cannot be written, or would be handed out with a release: before the work begins."""
    from sfumato.release.folder import release_around
    from sfumato.show.files import check_new

    if file is None:
        return
    check_new(file)
    if folder := release_around(file):
        raise UsageError(
            f"{str(file)!r} lies in the release {str(folder)!r}, which is handed out; {what} is private.",
            "Write it elsewhere.",
        )


def once(option: str, pairs: Iterable[tuple[str, Value]]) -> dict[str, Value]:
    """Return what an option gives each column; one that is named twice is refused: which of both holds?"""
    given: dict[str, Value] = {}
    for name, value in pairs:
        if name in given:
            raise UsageError(
                f"{option} names {name!r} twice, with {str(given[name])!r} and {str(value)!r}.",
                "Name each column once.",
            )
        given[name] = value
    return given


@contextmanager
def spark_session(engine: str, master: str | None, conf: list[str] | None) -> Iterator[SparkSession | None]:
    """Give the Spark session that was asked for, None for the embedded engine."""
    if engine not in ENGINES:
        raise UsageError(f"There is no engine {engine!r}.", f"Engines are {', '.join(ENGINES)}.")
    if engine == "embedded":
        if master is not None or conf:
            raise UsageError("--master and --conf are for Spark.", "Add --engine spark.")
        yield None
        return
    from sfumato.release.spark_session import parsed, session

    with session(master, parsed(conf or [])) as spark:
        yield spark


@contextmanager
def opened_release(folder: Path, engine: str, master: str | None, conf: list[str] | None) -> Iterator[Release]:
    """Give a release whose rows are counted by the engine."""
    from sfumato.analyst.release import open_release

    open_release(folder)  # before Spark starts, which takes long
    with spark_session(engine, master, conf) as spark:
        yield open_release(folder, spark)


def split_names(given: list[str], columns: tuple[str, ...]) -> list[str]:
    """Return the column names; commas separate them, unless a column has one in its name."""
    return [name for text in given for name in ([text] if text in columns else [t.strip() for t in text.split(",")])]


# --- showing ----------------------------------------------------------------------------------------------------------


class Told(Protocol):
    """A result that tells itself, to people and to programs."""

    def to_dict(self) -> dict[str, Any]: ...

    def explain(self) -> str: ...


def tell(result: Told, as_json: bool) -> None:
    """Print a result in words, or as JSON."""
    if as_json:
        print_json(result.to_dict())
    else:
        say(result.explain())


def tell_first(first: Screen, result: Told, as_json: bool, details: bool) -> None:
    """Print the first screen of a result; all of it in words, or as JSON, if that is asked for."""
    if as_json or details:
        tell(result, as_json)
    else:
        say(first.text(line_width()), fold=False)


def print_json(value: Any) -> None:
    """Print one JSON document, in ASCII where the output takes nothing else."""
    text = json.dumps(value, indent=2, ensure_ascii=not is_unicode(sys.stdout), allow_nan=False)
    put(json_text(text), sys.stdout)


@contextmanager
def progress_bar(what: str, total: int | None, quiet: bool = False) -> Iterator[Progress]:
    """Give a function to report rows to; a bar with rows per second and time left, on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield lambda rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    rows, rate = TextColumn("{task.completed:,.0f} rows"), TextColumn("{task.fields[rate]}")
    told = (rows, rate, TextColumn("left:"), TimeRemainingColumn())
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), *told)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, rate="")

        def report(rows: int) -> None:
            bar.advance(task, rows)
            speed = bar.tasks[0].speed
            bar.update(task, rate=f"{speed:,.0f} rows/s" if speed else "")

        yield report


SECONDS_BETWEEN = 10  # two lines about the same step


def _step_lines() -> Callable[[str, float, int], None]:
    """Return a function that writes a line for each step ("3 of 13: subset"), and of a long one what it has come to."""
    told: list[tuple[int, float]] = []  # the step of the last line, and when it was written

    def report(step: str, done: float, steps: int) -> None:
        number, now = int(done) + 1, monotonic()
        if not told or told[-1][0] != number or now - told[-1][1] >= SECONDS_BETWEEN:
            told[:] = [(number, now)]
            say(f"{number} of {steps}: {step.replace(': ', ', ', 1)}", error=True)

    return report


@contextmanager
def step_bar(quiet: bool = False, lines: bool = False) -> Iterator[Callable[[str, float, int], None]]:
    """Give a function to report steps to: which one begins, how many are done, and how many there are.

    `lines`: where there is no terminal to draw a bar on, lines tell it.
    """
    if quiet or not sys.stderr.isatty():
        yield _step_lines() if lines and not quiet else lambda step, done, steps: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    told = (TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn())
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *told)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Reading", total=None)
        yield lambda step, done, steps: bar.update(task, description=step, completed=done, total=steps)


def fail(problem: SfumatoError, as_json: bool) -> int:
    """Tell what went wrong and what to do; return the exit code."""
    if as_json:
        with suppress(OSError):  # of an output that is full: the exit code still tells
            print_json({"error": type(problem).__name__, "message": problem.message, "hint": problem.hint})
    else:
        say(f"{type(problem).__name__}: {problem}", error=True)
    return problem.exit_code


@contextmanager
def ended_cleanly() -> Iterator[None]:
    """Let polite signals unwind, so that nothing half-written stays.

    Also ctrl-C (SIGINT): a library that is interrupted by Python's own handler may make another error of it.
    """

    def unwind(number: int, frame: FrameType | None) -> None:
        interrupted.append(number)
        raise KeyboardInterrupt

    interrupted: list[int] = []
    handle_signals(unwind)
    try:
        yield
    except Interrupted:
        raise
    except Exception:
        if interrupted:  # a module that was being loaded made another error of it
            raise KeyboardInterrupt from None
        raise


@contextmanager
def told_if_published(release: Path) -> Iterator[None]:
    """Say of a release that was not there before that what went wrong came too late for it."""
    try:
        yield
    except (KeyboardInterrupt, Exception) as problem:
        if isinstance(problem, SfumatoError) or not os.path.lexists(release):
            raise
        is_signal = isinstance(problem, KeyboardInterrupt)
        cause = "the signal came" if is_signal else f"something else went wrong ({type(problem).__name__})"
        raise (Interrupted if is_signal else CannotMeet)(
            f"The release {str(release)!r} was published before {cause}, and is whole.",
            f"Check it with `sfumato verify {shlex.quote(str(release))}`. Do not publish the table a second time.",
        ) from None


def as_ours(problem: Exception) -> SfumatoError:
    """Return what went wrong as an error of ours: of the input where that is known, else of this program."""
    if isinstance(problem, MemoryError) or type(problem).__name__ == "OutOfMemoryException":  # DuckDB's
        return CannotMeet(
            "Memory ran out; nothing was published.", "Close other programs, or ask for less: fewer columns or groups."
        )
    if isinstance(problem, RuntimeError) and "start new thread" in str(problem):
        return no_more_threads()
    if isinstance(problem, RecursionError):
        return UsageError("A file or a question is nested too deeply.", "Give it as this program writes it.")
    if isinstance(problem, ValueError) and "integer string conversion" in str(problem):
        return UsageError("A file or a question holds a number with thousands of digits.", "Give fewer digits.")
    return InternalError.of(problem)
