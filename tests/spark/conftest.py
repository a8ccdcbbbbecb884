"""One session on local[2] for all tests in pytest's process, and one cluster for all that need another master."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sfumato.release.spark_session import session
from tests.spark.cluster import SETTINGS, Cluster, cluster
from tests.spark.processes import environment, needs_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
