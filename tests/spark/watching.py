"""A driver under observation: what Spark writes and shows while a script runs, as files to search for secrets.

    watch(SCRIPT, cluster.url, folder, *cluster.local_folders())
    places(key, folder, cluster.folder)                          see secrecy.py

In the folder then are

    driver.out, driver.err    what the script prints, and Spark's log of it, of level DEBUG
    python.log                what Python's modules log, of level DEBUG: py4j tells every call to Java there
    events/                   the event log
    pages/                    the web pages and the answers of the REST API, as they are when the session stops
    commands/                 the command lines of the driver's processes
    kept/                     every file that was in a local or temporary folder, also after Spark has deleted it

and in the cluster's folder the logs of its daemons and executors; the executors of a watched driver log DEBUG too.
"""

from __future__ import annotations

import json
import logging
import os
import re
import runpy
import shutil
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from tests.spark.cluster import driver, finished
from tests.spark.processes import members

LOGGING = """
rootLogger.level = debug
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %p %c: %m%n%ex
logger.spark.name = org.apache.spark
logger.spark.level = debug
"""
"""Loggers below org.apache.spark have a level of their own, which setLogLevel does not change."""

SETTINGS = {
    "spark.ui.enabled": "true",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.logBlockUpdates.enabled": "true",
    "spark.broadcast.compress": "false",
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
}
"""Nothing is compressed: it would hide what is looked for."""

PAGES = ("jobs", "stages", "storage", "environment", "executors", "SQL", "SQL/json", "executors/threadDump/?executorId=driver")
ANSWERS = (
    "jobs", "stages?details=true&withSummaries=true", "allexecutors", "storage/rdd", "environment",
    "sql?details=true&planDescription=true&length=1000", "allmiscellaneousprocess", "executors/driver/threads",
)  # fmt: skip
EVERY = 0.02


def watch(script: str, url: str, folder: Path, *local: Path, arguments: tuple[str, ...] = ()) -> str:
    """Run a script to its end, keep what is written and shown, and return what it prints.

    It is an error if nothing could be seen: no pages, no event log, no line of level DEBUG.
    """
    for name in ("events", "pages", "kept", "commands"):
        (folder / name).mkdir(parents=True)
    (folder / "log4j2.properties").write_text(LOGGING)
    (folder / "watched.py").write_text(script)
    logs = {"LOG4J_CONFIGURATION_FILE": str(folder / "log4j2.properties")}  # wins over a -D of the session's
    executors = {f"spark.executorEnv.{name}": value for name, value in logs.items()}
    settings = SETTINGS | executors | {"spark.eventLog.dir": (folder / "events").as_uri()}
    start = "from tests.spark.watching import be_watched\nbe_watched()\n"
    with driver(start, url, folder, *arguments, settings=settings, **logs) as process:
        with keeping(folder, process.pid, folder / "local", folder / "tmp", *local):
            printed = finished(process, folder)
    _check(folder)
    return printed


def _check(folder: Path) -> None:
    assert "DEBUG org.apache.spark" in (folder / "driver.err").read_text(errors="replace"), "no log of level DEBUG"
    assert any(path.is_file() for path in (folder / "events").rglob("*")), "no event log"
    assert (folder / "python.log").stat().st_size > 0, "Python's modules logged nothing"
    assert len(list((folder / "pages").iterdir())) >= len(PAGES) + len(ANSWERS), "pages are missing"


# --- beside the driver ----------------------------------------------------------------------------------------------


@contextmanager
def keeping(folder: Path, session: int, *local: Path) -> Iterator[None]:
    """Keep files and command lines while the block runs; what is there for less than some hundredths of a second is missed."""
    done = threading.Event()
    seen: set[int] = set()

    def keep() -> None:
        while not done.wait(EVERY):
            for path in (path for place in local for path in place.rglob("*")):
                _link(path, folder / "kept", seen)
            for number in members(session):
                with suppress(OSError):
                    (folder / f"commands/{number}").write_bytes(Path(f"/proc/{number}/cmdline").read_bytes())

    thread = threading.Thread(target=keep)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _link(path: Path, kept: Path, seen: set[int]) -> None:
    """Give a file a second name, by which its contents stay, also those that are written later."""
    with suppress(OSError):
        inode = path.stat().st_ino
        if inode not in seen and path.is_file():
            os.link(path, kept / f"{len(seen)}-{path.name}")
            seen.add(inode)


# --- in the driver --------------------------------------------------------------------------------------------------


def be_watched() -> None:
    """Run watched.py with all logs on; look at the pages just before the session stops."""
    from pyspark import SparkContext

    logging.basicConfig(filename="python.log", level=logging.DEBUG)
    stop = SparkContext.stop

    def look_and_stop(context: Any) -> None:
        if context._jsc is not None:
            save_pages(context.uiWebUrl, context.applicationId, Path("pages"))
        stop(context)

    SparkContext.stop = look_and_stop
    sys.argv[0] = "watched.py"
    runpy.run_path("watched.py", run_name="__main__")
    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()


def save_pages(start: str, application: str, folder: Path) -> None:
    """Save the pages of the user interface and all that they link to, and the answers of the REST API."""
    rest = f"{start}/api/v1/applications/{application}"
    left = [f"{start}/{page}" for page in PAGES] + [f"{rest}/{answer}" for answer in ANSWERS]
    numbers, asked = count(), set[str]()
    while left:
        url = left.pop(0)
        if url in asked:
            continue
        asked.add(url)
        text = _get(url)
        name = re.sub(r"\W+", "-", url.removeprefix(start)).strip("-")
        (folder / f"{next(numbers):03d}-{name[:80]}").write_bytes(text)
        left += [f"{start}{link}" for link in _links(text, start)]


def _links(text: bytes, start: str) -> list[str]:
    """Return what a page links to here, but for its looks and what would end jobs or sort anew."""
    found = re.findall(r'href="(?:%s)?(/[^"#]*)"' % re.escape(start), text.decode(errors="replace"))
    return [link.replace("&amp;", "&") for link in found if not re.search(r"static|kill|[sS]ort|page", link)]


def _get(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        return f"{error.code} {url}\n".encode() + error.read()
