"""What the engines' tests say of publishing, on Spark: the same tests and checks as in tests/engines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.errors import PolicyError, TableError
from sfumato.methods import plan
from sfumato.publisher.publish import publish, rehearse
from sfumato.publisher.table import count_alone, profile, scan
from tests.engines.test_identity import check_persons, visits
from tests.engines.test_publish_groups import check_published, wards
from tests.engines.test_sub_tables import check_quotas, workers
from tests.engines.tools import read_by_spark
from tests.methods.test_stops import HARMLESS, TELLING, asked, patients
from tests.methods.test_stops import planned as stops_planned
from tests.publisher.test_dropped import (  # noqa: F401
    test_a_dropped_column_is_left_out_like_an_identifier,
)
from tests.publisher.test_missing_and_bins import (  # noqa: F401, pytest finds them here
    test_a_sensitive_column_can_have_bins,
    test_a_value_outside_the_domain_is_named_counted_and_located,
    test_bins_between_breaks,
    test_bins_of_a_width,
    test_integers_declared,
    test_missing_is_an_error_unless_its_meaning_is_said,
    test_missing_values,
)
from tests.publisher.test_recoded import (  # noqa: F401
    test_a_value_that_never_occurs_is_told_in_private,
    test_dates_in_bins,
    test_learned_names_and_numbers_are_in_order,
    test_merged_sensitive_values,
    test_missing_dates,
    test_recoded_columns_under_every_method,
    test_sensitive_dates,
    test_times_in_bins,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def kind(spark: SparkSession) -> str:
    """Give the kind of table that the tests above run on."""
    return "spark"


def on_spark(table: pa.Table, folder: Path) -> object:
    pq.write_table(table, folder / "t.parquet", row_group_size=170)
    return read_by_spark(folder / "t.parquet")


@pytest.mark.parametrize("method", ["anatomy as published", "rotation", "robust, table", "robust as published"])
def test_groups_are_exact_and_verify(method: str, tmp_path: Path, spark: SparkSession) -> None:
    check_published(on_spark(wards(), tmp_path), method, None, tmp_path / "r")


@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "shuffled"])
def test_every_sub_table_gets_exactly_its_quotas(shuffled: bool, tmp_path: Path, spark: SparkSession) -> None:
    check_quotas(on_spark(workers(), tmp_path), "proved", shuffled, tmp_path / "r")


def test_one_row_of_each_person_every_one_equally_likely(tmp_path: Path, spark: SparkSession) -> None:
    check_persons(on_spark(visits(), tmp_path), tmp_path / "r")


@pytest.mark.parametrize("case", ["notes", "birth date", "record number by its name", "amount"])
def test_t3_1_a_column_that_tells_who_people_are_is_refused(case: str, tmp_path: Path, spark: SparkSession) -> None:
    name, values, said = TELLING[case]
    table = patients(**{name: values})
    with pytest.raises(PolicyError) as error:
        stops_planned(on_spark(table, tmp_path), asked(table))
    assert said in error.value.message


@pytest.mark.parametrize("case", ["a binned amount", "names of products"])
def test_columns_of_categories_and_coarse_ones_are_planned(case: str, tmp_path: Path, spark: SparkSession) -> None:
    name, values, rule = HARMLESS[case]
    table = patients(**{name: values})
    policy = asked(table, **{name: f'role = "quasi_identifier"\n{rule}'})
    assert stops_planned(on_spark(table, tmp_path), policy).rows == table.num_rows


def test_t3_4_records_that_are_alone_are_counted_as_on_one_machine(tmp_path: Path, spark: SparkSession) -> None:
    village = [None if k % 7 == 0 else f"village {k % 90}" for k in range(400)]
    table = patients(village=village)
    bins = 'role = "quasi_identifier"\nbins = { width = 5 }'
    policy = asked(table, age=bins, village='role = "quasi_identifier"\nmissing = "category"')
    found = count_alone(scan(table, policy))
    assert found is not None
    assert found.unique_records > 0
    assert count_alone(scan(on_spark(table, tmp_path), policy)) == found


def test_t3_7_a_rehearsal_refuses_what_publish_refuses(tmp_path: Path, spark: SparkSession) -> None:
    table = patients(village=[None, *["hill", "lake"] * 199, "mill"])
    opened = scan(on_spark(table, tmp_path), asked(table, village='role = "other"'))
    made = plan(profile(opened), opened.policy.method, opened.policy.requirement)
    for refusing in (lambda: rehearse(opened, made), lambda: publish(opened, made, tmp_path / "r")):
        with pytest.raises(TableError, match=r"'village' is missing in 1 row"):
            refusing()
