"""One Spark session for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sfumato.spark_session import session

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # quick to start
}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Give a session on local[2]."""
    with session("local[2]", SETTINGS) as started:
        yield started
