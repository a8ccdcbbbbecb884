"""What Spark's processes need to start, and how all of them end.

Every process is started as the leader of a session of its own (setsid), which its descendants keep: an executor and
its Python workers are found by it also after their parents are gone. So only what was started here is ever killed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import sfumato

LOOPBACK = "127.0.0.1"
ROOT = Path(__file__).parents[2]


# --- whether Spark can run here -------------------------------------------------------------------------------------


def needs_spark() -> None:
    """Skip where Spark cannot run; if SFUMATO_SPARK is set, as in CI, that is an error."""
    missing = _missing()
    if missing and os.environ.get("SFUMATO_SPARK"):
        pytest.fail(f"SFUMATO_SPARK is set, and Spark cannot run: {missing}")
    if missing:
        pytest.skip(missing)


@cache
def _missing() -> str:
    if importlib.util.find_spec("pyspark") is None:
        return "no pyspark here: install sfumato[spark]"
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java" if home else "java")
    if java is None:
        return "no Java here: install Java 17 or later"
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', told)
    return "" if version and int(version[1]) >= 17 else f"Java 17 or later is needed, and this is {told.strip()!r}"


# --- starting and ending --------------------------------------------------------------------------------------------


def spark_home() -> Path:
    """Return the folder of pyspark, which brings Spark's programs along."""
    import pyspark

    return Path(pyspark.__file__).parent


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a process of Spark: this Python, this sfumato, on loopback, nothing of the user's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_", "LOG4J_"))}
    paths = [str(ROOT), str(Path(sfumato.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    ours = {"SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": LOOPBACK, "PYSPARK_PYTHON": sys.executable}
    return kept | ours | {"PYTHONPATH": os.pathsep.join(paths)} | more


@contextlib.contextmanager
def started(command: list[str], env: Mapping[str, str], folder: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in the folder, its output in files; at the end nothing of it is left."""
    with (folder / f"{name}.out").open("wb") as out, (folder / f"{name}.err").open("wb") as err:
        process = subprocess.Popen(
            command, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that `started` started, and all of its descendants, at once."""
    while left := members(process.pid):
        for number in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        process.poll()
        time.sleep(0.01)
    process.wait()


def members(session: int) -> list[int]:
    """Return the processes of a session that have not ended, its leader first."""
    return [number for number in sorted(_numbers()) if _session(number) == session]


def _numbers() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())


def _session(number: int) -> int | None:
    """Return the session of a process; None if it has ended (state Z waits for its parent only)."""
    try:
        state, _, _, session = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[:4]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else int(session)


def wait_until(holds: Callable[[], object], what: str, process: subprocess.Popen[bytes], seconds: float = 300) -> None:
    """Wait until something holds. It is an error if the process ends before; the time is for a hang only."""
    end = time.monotonic() + seconds
    while not holds():
        if process.poll() is not None:
            pytest.fail(f"the process ended (exit code {process.returncode}) before {what}")
        if time.monotonic() > end:
            pytest.fail(f"not within {seconds:.0f} seconds: {what}")
        time.sleep(0.05)
