"""Seeded releases from Spark are what they were."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.golden.cases import ON_SPARK
from tests.golden.hashes import check
from tests.golden.texts import spark_session, texts_on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """Give a session where Spark is asked for."""
    if not os.environ.get("SFUMATO_SPARK"):
        pytest.skip("SFUMATO_SPARK is not set")
    with spark_session() as opened:
        yield opened


@pytest.mark.parametrize("name", ON_SPARK)
def test_a_case_on_spark_is_what_it_was(name: str, tmp_path: Path, spark: SparkSession) -> None:
    check(name, texts_on_spark(ON_SPARK[name], tmp_path, spark))
