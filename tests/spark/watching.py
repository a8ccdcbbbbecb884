"""A driver under observation: what Spark writes and shows while a script runs, as files to search for secrets.

    watch(SCRIPT, cluster, folder)
    places(key, folder, cluster.folder)         see secrecy.py

In the folder then are

    driver.out, driver.err    what the script prints
    debug.log                 Spark's log, of level DEBUG; those of executors are in the cluster's folder
    python.log                what Python's modules log, of level DEBUG: py4j tells every call to Java there
    events/                   the event log
    pages/                    the web pages and the answers of the REST API, as they are when the session stops
    commands/                 the command lines of the driver's processes
    kept/                     every file that was in a local or temporary folder, also after Spark has deleted it
"""

from __future__ import annotations

import logging
import os
import re
import runpy
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from tests.spark.cluster import Cluster, driver, finished
from tests.spark.processes import members

LOGGING = """
appender.file.type = File
appender.file.name = file
appender.file.fileName = debug.log
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c: %m%n%ex
rootLogger.level = debug
rootLogger.appenderRef.file.ref = file
logger.org.name = org
logger.org.level = debug
logger.io.name = io
logger.io.level = debug
"""
"""To a file where the process runs. A session's setLogLevel changes the level of the root, not of org and io."""

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

PAGES = ("jobs", "stages", "storage", "environment", "executors", "SQL")
ANSWERS = (
    "jobs", "stages?details=true&withSummaries=true", "allexecutors", "storage/rdd", "environment",
    "sql?details=true&planDescription=true&length=1000", "allmiscellaneousprocess", "executors/driver/threads",
)  # fmt: skip
EVERY = 0.05
"""Seconds between two looks at local folders."""


def watch(script: str, cluster: Cluster, folder: Path, *arguments: str) -> str:
    """Run a script to its end, keep what is written and shown, and return what it prints.

    It is an error if one of these shows nothing: then the search would find nothing for the wrong reason.
    """
    for name in ("events", "pages", "kept", "commands"):
        (folder / name).mkdir(parents=True)
    (folder / "log4j2.properties").write_text(LOGGING)
    (folder / "watched.py").write_text(script)
    logs = {"LOG4J_CONFIGURATION_FILE": str(folder / "log4j2.properties")}
    executors = {f"spark.executorEnv.{name}": value for name, value in logs.items()}
    settings = SETTINGS | executors | {"spark.eventLog.dir": (folder / "events").as_uri()}
    start = "from tests.spark.watching import be_watched\nbe_watched()\n"
    local = [folder / "local", folder / "tmp", *cluster.local_folders()]
    with (
        driver(start, cluster.url, folder, *arguments, settings=settings, **logs) as process,
        keeping(folder, process.pid, *local),
    ):
        printed = finished(process, folder)
    _check(folder, cluster.folder)
    return printed


def _check(folder: Path, workers: Path) -> None:
    logs = [folder / "debug.log", *workers.glob("worker-*/**/debug.log")]
    told = [log for log in logs if "DEBUG org.apache.spark" in log.read_text(errors="replace")]
    assert told[:1] == logs[:1], "the driver logged nothing of level DEBUG"
    assert told[1:], "no executor logged anything of level DEBUG"
    assert any(path.is_file() for path in (folder / "events").rglob("*")), "there is no event log"
    assert (folder / "python.log").stat().st_size > 0, "Python's modules logged nothing"
    assert len(list((folder / "pages").iterdir())) > len(PAGES) + len(ANSWERS), "pages are missing"


# --- beside the driver ----------------------------------------------------------------------------------------------


@contextmanager
def keeping(folder: Path, session: int, *local: Path) -> Iterator[None]:
    """Keep files and command lines while the block runs; what is there only between two looks is missed."""
    done = threading.Event()
    seen: set[int] = set()

    def keep() -> None:
        while not done.wait(EVERY):
            for place in local:
                with suppress(OSError):  # a folder may be gone before it is looked into
                    for path in place.rglob("*"):
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
    found = re.findall(rf'href="(?:{re.escape(start)})?(/[^"#]*)"', text.decode(errors="replace"))
    return [link.replace("&amp;", "&") for link in found if not re.search(r"static|kill|[sS]ort|page", link)]


def _get(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        return f"{error.code} {url}\n".encode() + error.read()
