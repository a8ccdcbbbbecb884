"""Columns with methods of their own on Spark: the counts and the rows are those of one machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sfumato as sf
from sfumato.publisher.table import scan_on_spark
from tests.engines.test_several import asked, people
from tests.spark.both import check_same, on_both, stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return stored(people(), tmp_path / "in", {"1.parquet": 400, "2.parquet": 500})


def test_each_column_is_counted_as_on_one_machine(path: Path, spark: SparkSession) -> None:
    here, there = (sf.profile(table) for table in (sf.scan(path, asked()), scan_on_spark(path, asked(), spark)))
    for one, other in zip(here.by_method, there.by_method, strict=True):
        assert one.domain == other.domain
        assert one.counts.tolist() == other.counts.tolist()
        assert not other.order.dependent
    assert there.together is not None
    assert not there.together.dependent


def test_an_order_of_combinations_is_seen(tmp_path: Path, spark: SparkSession) -> None:
    """Sorted by the second column: it is told of that column, and of both together."""
    path = stored(people(4000).sort_by("income"), tmp_path / "in")
    counted = sf.profile(scan_on_spark(path, asked(), spark))
    assert counted.apart[0].order.dependent
    assert counted.together is not None
    assert counted.together.dependent


@pytest.mark.parametrize("shuffle", [False, True])
def test_the_rows_are_the_same(shuffle: bool, path: Path, spark: SparkSession, tmp_path: Path) -> None:
    check_same(*on_both(path, asked(), spark, tmp_path, shuffle))
