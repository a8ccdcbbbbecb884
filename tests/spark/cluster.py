"""A standalone cluster on loopback: one master and two workers of one core each, and drivers that work on it.

Every worker has an address of its own, 127.0.0.2 and so on: so Spark takes them for two machines, and for a second
attempt at a slow task, which it makes on another machine only.

    with cluster(folder) as opened:
        done = run_on_cluster(SCRIPT, opened.url, tmp_path)
        opened.kill_worker()                                  as if its machine were switched off

A process has one gateway to Java and one Spark context. So tests on local[2] share the fixture `spark` in pytest's
process, and every other driver is a small script in a process of its own: `run_on_cluster` runs one to its end, and
`driver` lets a test act while it runs. The script finds the master's URL in sys.argv[1]. Master, workers and drivers
take ports that are free.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.spark.processes import LOOPBACK, environment, kill, needs_spark, spark_home, started, wait_until

WORKERS = 2
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""For Java processes that live for seconds: compiling well, collecting in parallel and verifying classes took
half of their CPU time.
"""
DAEMON = {
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": BRIEF,
    "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
}
SETTINGS = {
    "spark.driver.defaultJavaOptions": BRIEF,
    "spark.executor.defaultJavaOptions": BRIEF,
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.ui.enabled": "false",
    "spark.ui.port": "0",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
}
"""What a driver is told, below what its script sets itself."""


# --- the cluster ----------------------------------------------------------------------------------------------------


@dataclass
class Cluster:
    """A running cluster; `url` is what drivers connect to."""

    folder: Path
    master: subprocess.Popen[bytes]
    url: str
    page: str
    ends: ExitStack
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def living(self) -> int:
        """Return how many workers live, as the master sees it."""
        with urllib.request.urlopen(f"{self.page}/json/") as answer:
            return sum(worker["state"] == "ALIVE" for worker in json.load(answer)["workers"])

    def kill_worker(self, number: int = 0) -> None:
        """Kill a living worker with its executor and their Python processes; wait until the master knows."""
        kill(self.workers.pop(number))
        self._wait()

    def worker_of(self, path: str) -> int:
        """Return the number of the worker in whose folder a path is."""
        folders = [os.readlink(f"/proc/{worker.pid}/cwd") for worker in self.workers]
        return next(number for number, folder in enumerate(folders) if path.startswith(f"{folder}/"))

    def complete(self) -> None:
        """Start workers until there are two."""
        while len(self.workers) < WORKERS:
            self._start_worker()
        self._wait()

    def local_folders(self) -> list[Path]:
        """Return where executors keep shuffles, spills and what is broadcast."""
        return sorted(self.folder.glob("worker-*/local"))

    def _start_worker(self) -> None:
        number = len(list(self.folder.glob("worker-*")))
        folder, host = self.folder / f"worker-{number}", f"127.0.0.{2 + number}"
        (folder / "local").mkdir(parents=True)
        limits = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work")]
        environ = environment(SPARK_LOCAL_DIRS=str(folder / "local"), SPARK_LOCAL_IP=host, **DAEMON)
        command = [*_daemon("worker.Worker", host), *limits, self.url]
        self.workers.append(self.ends.enter_context(started(command, environ, folder, "worker")))

    def _wait(self) -> None:
        wait_until(lambda: self.living() == len(self.workers), f"{len(self.workers)} workers live", self.master)


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Start a cluster that keeps its files in the folder; none of its processes outlives the block."""
    needs_spark()
    if not Path("/proc").is_dir():
        pytest.skip("the processes of a cluster are found by /proc, which is not here")
    with ExitStack() as ends:
        master = ends.enter_context(started(_daemon("master.Master"), environment(**DAEMON), folder, "master"))
        log = folder / "master.err"
        wait_until(lambda: "I have been elected leader" in log.read_text(), "the master leads", master)
        url, page = (_logged(pattern, log) for pattern in (r"(spark://\S+:\d+)", r"started at (http://\S+:\d+)"))
        opened = Cluster(folder, master, url, page, ends)
        opened.complete()
        yield opened


def _daemon(name: str, host: str = LOOPBACK) -> list[str]:
    program = str(spark_home() / "bin/spark-class")
    return [program, f"org.apache.spark.deploy.{name}", "--host", host, "--port", "0", "--webui-port", "0"]


def _logged(pattern: str, log: Path) -> str:
    found = re.search(pattern, log.read_text())
    assert found, f"{log.name} has no {pattern}"
    return found[1]


# --- drivers --------------------------------------------------------------------------------------------------------


@contextmanager
def driver(
    script: str, url: str, folder: Path, *arguments: str, settings: Mapping[str, str] = {}, **environ: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a script in a process of its own, its output in driver.out and driver.err; kill it at the end.

    `settings` go to spark-defaults.conf: what the script sets itself wins over them.
    """
    for name in ("conf", "local", "tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    lines = [f"{name} {value}\n" for name, value in {**SETTINGS, **settings}.items()]
    (folder / "conf/spark-defaults.conf").write_text("".join(lines))
    (folder / "script.py").write_text(script)
    places = {"SPARK_CONF_DIR": "conf", "SPARK_LOCAL_DIRS": "local", "TMPDIR": "tmp"}
    env = environment(**{name: str(folder / place) for name, place in places.items()}, **environ)
    with started([sys.executable, "script.py", url, *arguments], env, folder, "driver") as process:
        yield process


def run_on_cluster(script: str, url: str, folder: Path, *arguments: str, settings: Mapping[str, str] = {}) -> str:
    """Run a script to its end and return what it prints. `url` may be local[2] too."""
    with driver(script, url, folder, *arguments, settings=settings) as process:
        return finished(process, folder)


def finished(process: subprocess.Popen[bytes], folder: Path, seconds: float = 300) -> str:
    """Wait for a driver's end and return what it printed; it is an error if it failed."""
    code = process.wait(seconds)
    assert code == 0, (folder / "driver.err").read_text()[-5000:]
    return (folder / "driver.out").read_text()
