"""A Spark session: the one that runs, or a new and quiet one. Both sides use it, publisher and analyst.

pyspark is imported only here and where a session is already in hand, and only inside functions: all else works
without it.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from sfumato.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
OLDEST_PYSPARK = 4, 2
"""Before, timestamps without a zone came back with one: a release differed from that of one machine."""
INSTALL = "pip install 'sfumato[spark]'"
DEFAULT_MASTER = "local[*]"
SECONDS_TO_ANSWER = 10
"""How long a standalone master may take to accept a connection; Spark itself would try for a minute."""
SETTINGS = {
    "spark.app.name": "sfumato",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}
"""Of a new session, unless the user says otherwise."""
NO_CONF: Mapping[str, str] = {}


def parsed(conf: Sequence[str]) -> dict[str, str]:
    """Return Spark's settings from texts "key=value"; a value may have a "=" in it.

    >>> parsed(["spark.executor.memory=4g", "spark.driver.extraJavaOptions=-Da=b"])
    {'spark.executor.memory': '4g', 'spark.driver.extraJavaOptions': '-Da=b'}
    """
    settings = {}
    for text in conf:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--conf {text!r} is not of the form key=value.", "E.g. --conf spark.executor.memory=4g")
        settings[key.strip()] = value.strip()
    return settings


@contextmanager
def session(master: str | None = None, conf: Mapping[str, str] = NO_CONF) -> Iterator[SparkSession]:
    """Give the session that runs, and leave it running; else a new one on `master`, stopped at the end.

    A new one says nothing: what Spark would log is thrown away, unless `conf` has a `spark.log.level`.
    """
    _need_pyspark()
    running = _running()
    if running is not None:
        if master is not None or conf:
            raise UsageError(
                "A Spark session is running: a master or settings come too late for it.",
                "Leave them out, or stop the session first.",
            )
        yield running
        return
    started = _started(master, conf)
    try:
        yield started
    finally:
        started.stop()


@contextmanager
def quietly() -> Iterator[None]:
    """Leave unsaid that pyspark is not sure of pandas 3: mapInArrow asks for pandas, and has no use for it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


def _need_pyspark() -> None:
    try:
        with quietly():
            import pyspark
            import pyspark.testing  # which a session loads in any case
    except ImportError:
        raise UsageError("Spark is asked for, and pyspark is not installed.", INSTALL) from None
    if tuple(map(int, pyspark.__version__.split(".")[:2])) < OLDEST_PYSPARK:
        oldest = ".".join(map(str, OLDEST_PYSPARK))
        raise UsageError(f"Spark needs pyspark {oldest} or later, and {pyspark.__version__} is installed.", INSTALL)


def _running() -> SparkSession | None:
    """Return the session of this thread; else that of another thread of this process, if one runs."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    if found is None and SparkContext._active_spark_context is not None:
        found = SparkSession.builder.getOrCreate()
    return found


def _started(master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """Start Spark with what it says kept from the terminal; its last words explain a failure."""
    settings = _settings(master, conf)
    _need_java()
    _need_master(settings["spark.master"])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        try:
            return _launched(settings, sys.__stderr__ if "spark.log.level" in conf else log)
        except Exception as problem:  # of many kinds: Java's, pyspark's, py4j's, the system's
            raise UsageError(
                f"Spark did not start on {settings['spark.master']!r}: {_reason(problem, log)}.",
                "Look at --master and --conf; --conf spark.log.level=WARN shows what Spark says.",
            ) from None


def _settings(master: str | None, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a new session; the user's win."""
    settings = {"spark.master": master or DEFAULT_MASTER, **SETTINGS, **conf}
    if settings["spark.master"].startswith("local"):
        settings.setdefault("spark.ui.enabled", "false")
    if settings["spark.master"].startswith("sc:"):
        raise UsageError(
            f"{settings['spark.master']!r} is an address of Spark Connect, not of a master.",
            "Open the session in Python, and hand it over.",
        )
    return settings


def _launched(settings: Mapping[str, str], log: IO[str] | None) -> SparkSession:
    """Start the Java process with its output in `log`, then the session in it."""
    from pyspark import SparkConf, SparkContext, java_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf().setAll(list(settings.items()))
    output: dict[str, Any] = {"stdout": log, "stderr": log} if log else {}
    launch: Any = java_gateway.launch_gateway
    gateway = SparkContext._gateway or launch(conf, output)  # the process outlives a session that is stopped
    SparkContext(conf=conf, gateway=gateway)
    return SparkSession.builder.config(conf=conf).getOrCreate()


def _reason(problem: Exception, log: IO[str]) -> str:
    """Return what went wrong: what Java says, else the last line that looks like an error in the log."""
    cause = getattr(problem, "java_exception", None)
    if cause is not None:
        return _first_line(str(cause.getMessage() or cause.toString()))
    log.seek(0)
    lines = [line for line in log.read().splitlines() if re.search(r"error|exception", line, re.IGNORECASE)]
    return _first_line(lines[-1] if lines else str(problem))


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0].rstrip(". ")


# --- what Spark needs -------------------------------------------------------------------------------------------------


def _need_java() -> None:
    """Refuse where no Java is found, or an old one."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # within spark-submit: Java runs already
        return
    hint = f"Install Java {OLDEST_JAVA} or later, e.g. `apt install default-jre-headless`, or set JAVA_HOME."
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(os.path.join(home, "bin", "java") if home else "java")
    if java is None:
        where = f"in JAVA_HOME, {home!r}" if home else "on the PATH, and JAVA_HOME is not set"
        raise UsageError(f"Spark needs Java, and there is none {where}.", hint)
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = java_version(said.stderr + said.stdout)
    if version is None or version < OLDEST_JAVA:
        found = f"version {version}" if version else repr(_first_line(said.stderr + said.stdout))
        raise UsageError(f"Spark needs Java {OLDEST_JAVA} or later; {java} is {found}.", hint)


def java_version(text: str) -> int | None:
    """Return the version in what `java -version` says.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_202"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def _need_master(master: str) -> None:
    """Refuse a standalone master, spark://host:port[,host:port...], of which no address answers; YARN unknown."""
    if master.startswith("yarn") and not {"HADOOP_CONF_DIR", "YARN_CONF_DIR"} & set(os.environ):
        raise UsageError("Spark does not know where YARN is.", "Set HADOOP_CONF_DIR to the folder of its settings.")
    if not master.startswith("spark://"):
        return
    addresses = [text.rpartition(":") for text in master.removeprefix("spark://").split(",")]
    if not all(host and port.isdigit() for host, _, port in addresses):
        raise UsageError(f"{master!r} is not the address of a Spark master.", "E.g. --master spark://host:7077")
    if not any(_answers(host, int(port)) for host, _, port in addresses):
        raise UsageError(
            f"No Spark master answers at {master!r}.", "Is it running, and is its address the one on its web page?"
        )


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host.strip("[]"), port), SECONDS_TO_ANSWER).close()
    except (OSError, OverflowError):
        return False
    return True
