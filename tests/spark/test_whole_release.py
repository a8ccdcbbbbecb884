"""On Spark too, nothing that can be seen of a release changes the odds by more than is promised.

The same test as in tests/statistical/whole_release, on tables in two files: parts, their names and sizes are features
too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.publisher.table import scan_on_spark
from tests.statistical.whole_release.cases import CASES, GAMMA
from tests.statistical.whole_release.observing import Features, observe, refused
from tests.statistical.whole_release.odds import leaks, observed, power, tells
from tests.statistical.whole_release.publishing import Pair, memory, planned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RELEASES = 190


def publisher(
    pair: Pair, spark: SparkSession, more: Callable[[dict[str, str], Path], None] | None = None
) -> Callable[[bool], Features]:
    """Return what publishes T1 or T2, stored in two files, and looks at the folder."""

    def publish(first: bool) -> Features:
        with tempfile.TemporaryDirectory(dir=memory()) as folder:
            stored, to, rows = Path(folder) / "table", Path(folder) / "release", pair.table(first)
            stored.mkdir()
            for number, part in enumerate((rows[:2], rows[2:])):
                pq.write_table(part, stored / f"{number}.parquet")
            try:
                table = scan_on_spark(stored, pair.policy, spark)
                sf.publish(table, planned(table), to)
            except sf.SfumatoError as problem:
                return refused(problem)
            if more:
                more(pair.truth(first), to)
            return observe(to)

    return publish


@pytest.mark.slow
@pytest.mark.parametrize("case", ["uniform, few rows", "fine-grain, by value"])
def test_no_observable_changes_the_odds_by_more_than_is_promised(case: str, spark: SparkSession) -> None:
    pair = CASES[case][0]
    seen = observed(publisher(pair, spark), RELEASES)
    assert all(features["refused"] is None for features in seen.seen)
    found = leaks(seen, pair.gamma)
    assert not found, found[:5]


@pytest.mark.slow
def test_a_part_that_is_named_by_a_value_is_found(spark: SparkSession) -> None:
    def named(true: dict[str, str], folder: Path) -> None:
        part = min((folder / "data").iterdir())
        part.rename(part.with_name(f"{max(true.values())}.parquet"))

    assert power(1, 0, GAMMA, RELEASES, 2000) > 1 - 1e-6
    found = leaks(observed(publisher(CASES["uniform, the only one"][0], spark, named), RELEASES), GAMMA)
    assert tells(found, "names")
