"""The harness itself: workers die when they are killed, jobs survive it, and planted secrets are found."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.cluster import Cluster, driver, finished
from tests.spark.processes import kill, members, needs_spark, started, wait_until
from tests.spark.secrecy import places
from tests.spark.waiting import doubled, failed_tasks
from tests.spark.watching import watch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOUBLED = """
import json, sys
from pathlib import Path
from sfumato.spark_session import session
from tests.spark.waiting import doubled, failed_tasks

with session(sys.argv[1]) as spark:
    print(json.dumps([doubled(spark, Path(sys.argv[2]), Path(sys.argv[3])), failed_tasks(spark)]))
"""

PLANTED = """
import sys
from sfumato.spark_session import session

in_conf, in_log, in_task, in_broadcast, in_closure = (bytes.fromhex(text) for text in sys.argv[2:])
with session(sys.argv[1], {"spark.planted": in_conf.hex()}) as spark:
    spark._jvm.org.apache.logging.log4j.LogManager.getLogger("org.planted").debug(repr(in_log))
    shared = spark.sparkContext.broadcast(in_broadcast)

    def told(batches):
        print(list(in_task), file=sys.stderr)
        assert len(shared.value) == len(in_closure)
        yield from batches

    print(spark.range(10).mapInArrow(told, "id long").count())
"""
"""Keys come by the command line, which nobody should do: they are found there too."""


def rows(files: int = 3, each: int = 50) -> list[pa.Table]:
    values = np.random.default_rng(1).integers(0, 1000, (files, each))
    return [pa.table({"value": value}) for value in values]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "table").mkdir()
    for number, part in enumerate(rows()):
        pq.write_table(part, tmp_path / f"table/{number}.parquet")
    return tmp_path / "table"


@pytest.fixture
def markers(tmp_path: Path) -> Path:
    (tmp_path / "markers").mkdir()
    return tmp_path / "markers"


def tasks(markers: Path) -> list[str]:
    return sorted(path.name for path in markers.glob("task-*"))


def expected() -> list[tuple[str, int, int]]:
    return [
        (f"{number}.parquet", row, 2 * value)
        for number, part in enumerate(rows())
        for row, value in enumerate(part["value"].to_pylist())
    ]


def test_rows_have_addresses_on_two_threads(spark: SparkSession, table: Path, markers: Path) -> None:
    (markers / "go").touch()
    assert doubled(spark, table, markers) == expected()
    assert (tasks(markers), failed_tasks(spark)) == (["task-0-0", "task-1-0"], 0)


def test_a_job_outlives_a_worker(standalone: Cluster, tmp_path: Path, table: Path, markers: Path) -> None:
    with driver(DOUBLED, standalone.url, tmp_path / "driver", str(table), str(markers)) as process:
        wait_until(lambda: tasks(markers) == ["task-0-0", "task-1-0"], "both workers are at it", process)
        standalone.kill_worker()
        assert standalone.living() == 1
        (markers / "go").touch()
        found, failed = json.loads(finished(process, tmp_path / "driver"))
    assert list(map(tuple, found)) == expected()
    assert tasks(markers) in (["task-0-0", "task-0-1", "task-1-0"], ["task-0-0", "task-1-0", "task-1-1"])
    assert failed == 1


def test_planted_secrets_are_found(standalone: Cluster, tmp_path: Path) -> None:
    keys = [np.random.default_rng(number).bytes(32) for number in range(6)]
    assert watch(PLANTED, standalone, tmp_path / "seen", *(key.hex() for key in keys[:-1])) == "10\n"
    in_conf, in_log, in_task, in_broadcast, in_closure, nowhere = (
        kinds(places(key, tmp_path / "seen", standalone.folder)) for key in keys
    )
    assert in_conf >= {"events", "pages", "debug.log", "commands"}
    assert in_log >= {"debug.log", "commands"}
    assert in_task >= {"stderr", "commands"}
    assert in_broadcast >= {"kept", "commands"}
    assert in_closure == {"python.log", "commands"}
    assert nowhere == set()


def kinds(found: list[str]) -> set[str]:
    """Return what was found by kind: the first folder or file of what was seen; the name of a cluster's file."""
    parts = [Path(place.rpartition(": ")[0]).parts for place in found]
    return {names[1] if names[0] == "seen" else names[-1] for names in parts}


def test_all_processes_of_a_command_are_killed(tmp_path: Path) -> None:
    """Also one whose parent has ended."""
    orphan = "sh -c 'sleep 600 & sleep 600 & echo ready; exit' & exec sleep 600"
    with started(["sh", "-c", orphan], dict(os.environ), tmp_path, "tree") as process:
        wait_until((tmp_path / "tree.out").read_text, "it has started", process)
        assert len(members(process.pid)) >= 3
        kill(process)
        assert members(process.pid) == []


def test_without_java_tests_are_skipped_unless_ci_asks_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.spark import processes

    monkeypatch.setattr(processes, "_missing", lambda: "no Java here")
    monkeypatch.delenv("SFUMATO_SPARK", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no Java here"):
        needs_spark()
    monkeypatch.setenv("SFUMATO_SPARK", "1")
    with pytest.raises(pytest.fail.Exception, match="no Java here"):
        needs_spark()
