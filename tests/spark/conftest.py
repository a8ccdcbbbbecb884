"""One session on local[2] for all tests in pytest's process, and one cluster for all that need another master."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sfumato.spark_session import session
from tests.spark.cluster import SETTINGS, Cluster, cluster
from tests.spark.processes import environment, needs_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


NEEDS_PROCESSES = {"standalone", "one_cluster"}
"""Fixtures that start a cluster. Tests with one are long, and left to `pytest -m slow`."""
LONG = ("test_publish_faults.py", "test_shared.py")
"""Files of many short jobs, left to it too; `test_publish.py` compares every method in every run."""


@pytest.hookimpl(tryfirst=True)  # before cases are chosen by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the long tests of this folder."""
    for item in items:
        if item.path.name in LONG or NEEDS_PROCESSES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Give a session on local[2]."""
    needs_spark()
    with session("local[2]", SETTINGS | {"spark.executorEnv.PYTHONPATH": environment()["PYTHONPATH"]}) as opened:
        yield opened


@pytest.fixture(scope="session")
def one_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as opened:
        yield opened


@pytest.fixture
def standalone(one_cluster: Cluster) -> Cluster:
    """Give a cluster with two living workers; a test may kill one."""
    one_cluster.complete()
    return one_cluster
