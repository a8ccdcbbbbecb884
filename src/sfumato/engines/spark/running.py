"""Spark jobs: a function over the batches of all partitions; its failures become errors of ours."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from sfumato import errors
from sfumato.engines.spark.tasks import Refused
from sfumato.errors import JobFailed, OutOfSpace, UsageError
from sfumato.spark_session import quietly
from sfumato.values.arrays import Progress
from sfumato.values.randomness import SecretKey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Task = Callable[[Iterator[Any], SecretKey], Iterator[Any]]
"""What a worker does with the batches of a partition, and the secret key."""
SECONDS = 0.5
"""Between two looks at how far Spark is."""
SMALL = 1 << 18
"""Bytes of a task that are sent with the key. More are sent before, apart: Spark puts what is large on disks."""
NO_KEY = SecretKey(bytes(32))
"""For tasks that draw nothing."""


@dataclass(frozen=True)
class _Sent:
    """A task on its way to the workers, with the key: neither its text nor its name tells anything of it."""

    task: Any  # a Task, or a broadcast of one
    key: SecretKey
    columns: list[str]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        task: Task = getattr(self.task, "value", self.task)
        return task((batch.rename_columns(self.columns) for batch in batches), self.key)

    @property
    def __name__(self) -> str:
        return "sfumato"


def mapped(frame: DataFrame, task: Task, schema: Any, key: SecretKey = NO_KEY) -> DataFrame:
    """Return what the task makes of each partition. Nothing runs yet. The task itself must not hold the key."""
    from pyspark.cloudpickle import dumps

    context, sent = frame.sparkSession.sparkContext, cast(Any, task)
    if len(dumps(task)) > SMALL:  # type: ignore[no-untyped-call]
        sent = context.broadcast(task)
    sending = _Sent(sent, key, frame.columns)
    _check_small(context, len(dumps((schema, replace(sending, key=NO_KEY)))))  # type: ignore[no-untyped-call]
    # not by their own names: pyspark would take a dot in one for a field
    numbered = frame.toDF(*(f"c{k}" for k in range(len(frame.columns))))
    with quietly(), _unlogged():
        return numbered.mapInArrow(sending, schema)


def _check_small(context: Any, size: int) -> None:
    """Refuse what Spark would put on disks before it is sent, the key with it: it has a limit of its own, 1 MB."""
    most = int(context._jvm.PythonUtils.getBroadcastThreshold(context._jsc))
    if size > most:
        raise UsageError(
            f"Spark would write the secret key to disks: the description of the columns has {size:,} bytes, and of "
            f"more than {most:,} it makes a file.",
            "Publish fewer columns, or raise spark.broadcast.UDFCompressionThreshold.",
        )


@contextmanager
def _unlogged() -> Iterator[None]:
    """Keep py4j from logging what this thread sends: at DEBUG it would write the key."""
    thread = threading.get_ident()

    def of_others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] == "py4j"]
    loggers = [logging.getLogger(name) for name in names]  # a filter is for one logger, not for those below it
    for logger in loggers:
        logger.addFilter(of_others)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(of_others)


def collected(frame: DataFrame) -> Any:
    """Run a job and return its result, which must be small, as an Arrow table."""
    with failures():
        return frame.toArrow()


@contextmanager
def failures() -> Iterator[None]:
    """Turn what a worker raised into an error of ours, or into `Refused`."""
    try:
        yield
    except Exception as problem:
        if type(problem).__module__.split(".")[0] not in ("pyspark", "py4j"):
            raise
        if _is_interrupted(problem):
            raise KeyboardInterrupt from None
        raise _translated(str(problem)) from None


def _is_interrupted(problem: BaseException | None) -> bool:
    """Whether the user ended it: Spark, which cancels its jobs then, says so in another error after that."""
    return problem is not None and (isinstance(problem, KeyboardInterrupt) or _is_interrupted(problem.__context__))


def _translated(text: str) -> Exception:
    if found := re.search(rf"{Refused.__name__}: ([^\n]*)", text):
        return Refused(found[1])
    if found := re.search(r"sfumato\.errors\.(\w+): ([^\n]*)(?:\n([^\n]+))?", text):
        problem: Exception = getattr(errors, found[1])(found[2], found[3] or "")
        return problem
    if re.search(r"No space left on device|Disk quota exceeded|File too large", text):
        return OutOfSpace("No room is left on a disk of the cluster; nothing was published.", "Free some space.")
    return JobFailed(
        f"The Spark job failed: {reason(text)}.", "Nothing was published. Spark's pages and logs tell more."
    )


def reason(text: str) -> str:
    """Return the first cause in what Python or Java say of a failure: the last exception that is named.

    >>> reason("An error occurred.\\n: java.lang.Exception: x\\n\\tat y.z\\nCaused by: java.io.IOException: gone.")
    'java.io.IOException: gone'
    >>> reason("[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03")
    'Path does not exist: file:/x'
    """
    named = re.findall(r"^(?:: |Caused by: )?((?:[\w$]+\.)*\w*(?:Error|Exception)\b[^\n]*)", text.strip(), re.MULTILINE)
    said = named[-1] if named else text.strip().split("\n")[0]
    return re.sub(r"^\[[\w.]+\] | SQLSTATE: \w+$", "", said)[:300].rstrip(". ")


@contextmanager
def told(session: SparkSession, rows: int, progress: Progress) -> Iterator[None]:
    """Report while jobs run: the share of their tasks that are done, as rows; all of them at the end."""
    tracker, done, over = session.sparkContext.statusTracker(), 0, threading.Event()

    def look() -> None:
        nonlocal done
        while not over.wait(SECONDS):
            stages = [s for s in (tracker.getStageInfo(k) for k in tracker.getActiveStageIds()) if s]
            total = sum(stage.numTasks for stage in stages)
            share = sum(stage.numCompletedTasks for stage in stages) / total if total else 0.0
            if (now := int(rows * share)) > done:
                progress(now - done)
                done = now

    watch = threading.Thread(target=look, daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()
    progress(rows - done)
