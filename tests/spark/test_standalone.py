"""Publishing on a cluster of two workers: the rows of one machine, whatever dies; and a release whole or not at all.

Drivers take long to start, so that one does much of what is looked at here. The last one is the command.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from sfumato.analyst.release import open_release
from sfumato.errors import ReleaseError
from tests.engines.tools import listing
from tests.spark.cluster import Cluster, driver, finished, run_on_cluster
from tests.spark.holding import ran
from tests.spark.methods import FILES, METHODS, check_files, differing, write_table
from tests.spark.processes import wait_until
from tests.spark.secrecy import places
from tests.spark.watching import watch

START = """
import sys
from pathlib import Path
from sfumato.errors import SfumatoError
from sfumato.release.spark_session import session
from tests.spark.holding import Early, Failing, Keyless, Late, Slow, held
from tests.spark.methods import METHODS, publish_both, wait_for_workers

url, table, folder = sys.argv[1], *map(Path, sys.argv[2:])
with session(url) as spark:
    wait_for_workers(spark)
"""

LOSSES = f"""{START}
    with held(folder / "each", "", Keyless):
        for name in METHODS:
            publish_both(spark, table, name, folder)
    with held(folder / "worker", "WriteFiles", Late):
        publish_both(spark, table, "uniform", folder / "worker")
    wait_for_workers(spark)
    with held(folder / "shuffle", "_rank", Early):
        publish_both(spark, table, "anatomy", folder / "shuffle")
"""

TROUBLES = f"""{START}
    with held(folder / "slow", "WriteFiles", Slow):
        publish_both(spark, table, "uniform", folder / "slow")
    with held(folder / "failing", "WriteFiles", Failing):
        try:
            publish_both(spark, table, "anatomy", folder / "failing")
        except SfumatoError as problem:
            (folder / "failing/error").write_text(f"{{problem}} {{problem.exit_code}}")
    with held(folder / "driver", "WriteFiles", Late):
        publish_both(spark, table, "anatomy", folder / "driver")
"""

COMMAND = """
import sys
from sfumato.cli.main import main

url, table, policy, folder = sys.argv[1:]
sys.argv = ["sfumato", "publish", table, policy, "-o", folder, "--engine", "spark", "--master", url]
main()
"""

POLICY = """
columns.name.role = "identifier"
columns.age.role = "other"
columns.age.publish_as_is = "a test follows rows by it"
columns.sex.role = "quasi_identifier"
columns.ward.role = "quasi_identifier"
columns.disease = { role = "sensitive", missing = "drop" }
method.name = "anatomy"
requirement.l = 2
"""

EAGER = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0",
    "spark.speculation.multiplier": "1",
    "spark.speculation.minTaskRuntime": "10ms",
}
"""A second attempt is made at every task that takes longer than the first that has ended."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("private") / "table")


@pytest.fixture(scope="module")
def losses(one_cluster: Cluster, table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder with all that a driver did by each method, and while two workers were killed."""
    folder = tmp_path_factory.mktemp("losses")
    one_cluster.complete()
    with driver(LOSSES, one_cluster.url, folder, str(table), str(folder)) as process:
        wait_until(lambda: len(ran(folder / "worker", "waiting")) == 2, "both workers have written files", process)
        one_cluster.kill_worker()
        (folder / "worker/go").touch()
        one_cluster.complete()
        wait_until(lambda: len(ran(folder / "shuffle", "waiting")) == 2, "both workers are to rank rows", process)
        one_cluster.kill_worker(one_cluster.worker_of(ran(folder / "shuffle", "_to_part")[0][1]))
        (folder / "shuffle/go").touch()
        finished(process, folder)
    return folder


@pytest.fixture(scope="module")
def troubles(one_cluster: Cluster, table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder with all that a driver did while tasks were tried twice or failed, until it was killed."""
    folder = tmp_path_factory.mktemp("troubles")
    one_cluster.complete()
    with driver(TROUBLES, one_cluster.url, folder, str(table), str(folder), settings=EAGER) as process:
        wait_until(lambda: ran(folder / "driver", "waiting"), "a worker has written files", process)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    return folder


def most_attempts(markers: Path, kind: str) -> int:
    """Return how often a task ran, the one that ran most often."""
    return max(Counter(partition for partition, _ in ran(markers, kind)).values())


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("method", METHODS)
def test_each_method_gives_the_rows_of_one_machine(method: str, losses: Path) -> None:
    assert differing(losses, method) == 0
    assert hidden(losses / "spark") == []


@pytest.mark.slow
def test_a_second_attempt_adds_nothing(troubles: Path) -> None:
    """The first one still writes files while the release is finished."""
    assert most_attempts(troubles / "slow", "WriteFiles") > 1
    assert differing(troubles / "slow", "uniform") == 0
    assert hidden(troubles / "slow/spark") == []


def test_a_worker_dies_that_has_written_its_files_and_not_yet_said_so(losses: Path) -> None:
    assert most_attempts(losses / "worker", "WriteFiles") > 1
    assert differing(losses / "worker", "uniform") == 0
    assert len(open_release(losses / "worker/spark/uniform").data_files) == FILES


def test_a_worker_dies_whose_rows_others_need(losses: Path) -> None:
    assert most_attempts(losses / "shuffle", "_to_part") > 1
    assert differing(losses / "shuffle", "anatomy") == 0


@pytest.mark.slow
def test_a_task_fails_for_good(troubles: Path) -> None:
    """The other tasks go on writing while what they wrote is removed."""
    assert most_attempts(troubles / "failing", "WriteFiles") == 4
    told = (troubles / "failing/error").read_text()
    assert told.startswith("The Spark job failed: RuntimeError: planted.\nNothing was published.")
    assert told.endswith(" 1")
    assert listing(troubles / "failing/spark") == []


@pytest.mark.slow
def test_the_driver_dies_and_the_next_run_removes_what_it_left(
    troubles: Path, standalone: Cluster, table: Path, tmp_path: Path
) -> None:
    (left,) = (troubles / "driver/spark").iterdir()
    assert left.name.startswith(".anatomy.partial-")
    assert [name for name in listing(left) if name.endswith(".parquet")]
    assert "manifest.json" not in listing(left)
    with pytest.raises(ReleaseError):
        open_release(left)
    (tmp_path / "policy.toml").write_text(POLICY)
    arguments = table, tmp_path / "policy.toml", troubles / "driver/spark/anatomy"
    run_on_cluster(COMMAND, standalone.url, tmp_path, *map(str, arguments))
    assert [path.name for path in (troubles / "driver/spark").iterdir()] == ["anatomy"]
    check_files(open_release(troubles / "driver/spark/anatomy"))


# --- the key ----------------------------------------------------------------------------------------------------------

WATCHED = """
import sys
from pathlib import Path
from pyspark.sql.classic.dataframe import DataFrame
from sfumato.engines.spark import tasks
from sfumato.errors import JobFailed
from sfumato.publisher.publish import publish
from sfumato.values.randomness import SecretKey
from sfumato.release.spark_session import session
from sfumato.publisher.table import scan_on_spark
from tests.engines.tools import planned
from tests.spark.holding import Failing, held
from tests.spark.methods import METHODS

table, folder = map(Path, sys.argv[2:4])
key, in_deal = (SecretKey(Path(name).read_bytes()) for name in sys.argv[4:6])
in_conf, in_log, in_task, in_broadcast, in_closure = (bytes.fromhex(text) for text in sys.argv[6:])


def shown(frame, to_arrow=DataFrame.toArrow):
    frame.explain("extended")
    return to_arrow(frame)


def told(batches):
    print(list(in_task), file=sys.stderr)
    assert len(shared.value) == len(in_closure)
    yield from batches


with session(sys.argv[1], {"spark.planted": in_conf.hex()}) as spark:
    DataFrame.toArrow = shown
    for name, key_of, small in (("uniform", key, 1 << 18), ("anatomy", in_deal, 1 << 18), ("fine-grain", key, 1)):
        tasks.SMALL = small
        opened = scan_on_spark(table, METHODS[name], spark)
        plan = planned(opened)
        publish(opened, plan, folder / name, key=key_of)
    with held(folder / "markers", "WriteFiles", Failing):
        try:
            publish(opened, plan, folder / "failed", key=key)
        except JobFailed as problem:
            print(problem)
    spark._jvm.org.apache.logging.log4j.LogManager.getLogger("org.planted").debug(repr(in_log))
    shared = spark.sparkContext.broadcast(in_broadcast)
    print(spark.range(10).mapInArrow(told, "id long").count())
"""
"""The keys come by files; what is planted comes by the command line, which nobody should do: it is found there too."""

KEY, IN_DEAL, IN_CONF, IN_LOG, IN_TASK, IN_BROADCAST, IN_CLOSURE = (
    np.random.default_rng(number).bytes(32) for number in range(7)
)


@pytest.mark.slow
def test_the_key_shows_nowhere(standalone: Cluster, table: Path, tmp_path: Path) -> None:
    """While secrets that are planted where it might show are found.

    The driver publishes with the task beside the key, and with a task so large that it is sent apart; one of its jobs
    fails; and it shows the plans of all its jobs.
    """
    private, seen = tmp_path / "private", tmp_path / "seen"
    private.mkdir()
    names = [private / "key", private / "in deal"]
    for name, key in zip(names, (KEY, IN_DEAL), strict=True):
        name.write_bytes(key)
    planted = [secret.hex() for secret in (IN_CONF, IN_LOG, IN_TASK, IN_BROADCAST, IN_CLOSURE)]
    printed = watch(WATCHED, standalone, seen, str(table), str(private), *map(str, names), *planted)
    assert "MapInArrow sfumato(" in printed
    assert "The Spark job failed: RuntimeError: planted" in printed
    assert printed.endswith("\n10\n")

    def found(secret: bytes) -> list[str]:
        return places(secret, seen, standalone.folder)

    assert found(KEY) == []
    assert found(IN_DEAL) == []
    assert kinds(found(IN_CONF)) >= {"events", "pages", "debug.log", "commands"}
    assert kinds(found(IN_LOG)) >= {"debug.log", "commands"}
    assert kinds(found(IN_TASK)) >= {"stderr", "commands"}
    assert kinds(found(IN_BROADCAST)) >= {"kept", "commands"}
    assert kinds(found(IN_CLOSURE)) == {"python.log", "commands"}


def kinds(found: list[str]) -> set[str]:
    """Return what was found by kind: the first folder or file of what was seen; the name of a cluster's file."""
    parts = [Path(place.rpartition(": ")[0]).parts for place in found]
    return {names[1] if names[0] == "seen" else names[-1] for names in parts}
