"""Publishing on Spark gives what one machine gives: for the same key and files the same rows, whatever is set."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import Infeasible
from sfumato.publisher.table import scan_on_spark
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy, slow
from tests.constants import set_constants
from tests.engines.tools import rows_of
from tests.spark.both import (
    BY_GROUPS,
    FILES,
    KEY,
    METHODS,
    check_same,
    hard_policy,
    hard_table,
    on_both,
    planned,
    same_error,
    settings,
    stored,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL: dict[str, Any] = {"files_maxPartitionBytes": 20_000, "files_openCostInBytes": 0, "shuffle_partitions": 1}
ODD: dict[str, Any] = {
    "execution_arrow_maxRecordsPerBatch": 7,
    "session_timeZone": "Asia/Kolkata",
    "ansi_enabled": "false",
    "adaptive_enabled": "false",
    "caseSensitive": "true",
    "execution_arrow_useLargeVarTypes": "true",
    "parquet_enableVectorizedReader": "false",
}


@pytest.fixture(scope="module")
def hard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored(hard_table(), tmp_path_factory.mktemp("hard"), FILES)


# --- the same rows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_the_same_rows_by_every_method(method: str, hard: Path, tmp_path: Path, spark: SparkSession) -> None:
    """In the table's order, from splits and row groups of a few rows."""
    with settings(spark, **SMALL):
        one, other = on_both(hard, hard_policy(method), spark, tmp_path, shuffle=False)
    check_same(one, other)
    assert other.manifest.data.shuffled == (method in (*BY_GROUPS, "randomized-response"))


def test_the_same_rows_by_a_matrix_from_a_file(hard: Path, tmp_path: Path, spark: SparkSession) -> None:
    """Alias tables are made anew by every task: the same for all."""
    entries = "asthma,0.4,0.2,0.2,0.2\nflu,0.3,0.4,0.1,0.2\ngout,0.2,0.2,0.4,0.2\nmumps,0.1,0.2,0.3,0.4\n"
    (tmp_path / "m.csv").write_text(f"published,asthma,flu,gout,mumps\n{entries}", encoding="utf-8")
    by_file = sf.FineGrain(matrix=str(tmp_path / "m.csv"))
    policy = hard_policy("fine-grain").model_copy(update={"stated_method": by_file})
    with settings(spark, **SMALL):
        one, other = on_both(hard, policy, spark, tmp_path, shuffle=False)
    check_same(one, other)
    assert other.manifest.mechanisms[0].sub_tables[0].columns is not None


@pytest.mark.parametrize(
    "method", ["small-domain", "anatomy", *(slow(m) for m in METHODS if m not in ("small-domain", "anatomy"))]
)
def test_the_same_rows_where_some_are_left_out(
    method: str, hard: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shuffled to several parts, under a session with other settings; the plan is Spark's own."""
    set_constants(monkeypatch, "sfumato.engines.spark", PART_ROWS=500)
    policy = hard_policy(method, gaps="drop")
    with settings(spark, **ODD):
        there = scan_on_spark(hard, policy, spark)
        plan = planned(there)
        other = sf.publish(there, plan, tmp_path / "spark", key=KEY)
    one = sf.publish(sf.scan(hard, policy), plan, tmp_path / "embedded", key=KEY)
    check_same(one, other)
    assert plan.dropped > 0
    assert other.manifest.data.shuffled
    assert len(other.manifest.data.parts or ()) > 1
    same = planned(sf.scan(hard, policy))
    assert (same.rows, same.dropped) == (plan.rows, plan.dropped)


def test_t2_the_most_frequent_value_is_hidden_always(hard: Path, tmp_path: Path, spark: SparkSession) -> None:
    """Of a table in which no value has more than half: the plan says what is withheld, and both engines follow it."""
    policy = hard_policy("suppression").changed({"name": "suppression", "always": True}, {"l": 2})
    one, other = on_both(hard, policy, spark, tmp_path)
    check_same(one, other)
    assert other.manifest.groups
    assert (other.manifest.groups.always, other.manifest.groups.withheld > 0) == (True, True)
    assert "For every table: that x is the most frequent value" in other.manifest.guarantee.sentence


def test_a_plan_is_signed_off_on_one_engine_and_published_on_the_other(
    hard: Path, tmp_path: Path, spark: SparkSession
) -> None:
    policy = hard_policy("uniform")
    here, there = sf.scan(hard, policy), scan_on_spark(hard, policy, spark)
    assert here.hash() == there.hash()
    releases = [
        sf.publish(used, planned(made).bound_to(made.hash(), policy.hash()), tmp_path / name, key=KEY)
        for made, used, name in ((there, here, "here"), (here, there, "there"))
    ]
    check_same(*releases)


def test_values_of_types_that_spark_has_not(tmp_path: Path, spark: SparkSession) -> None:
    """Unsigned integers come in wider types, milliseconds as microseconds: the values are the same."""
    rows = 300
    table = pa.table(
        {
            "u8": pa.array([k % 256 for k in range(rows)], pa.uint8()),
            "u64": pa.array([2**64 - 1 - k for k in range(rows)], pa.uint64()),
            "ms": pa.array(range(rows), pa.timestamp("ms")),
            "ill": pa.array([k % 3 == 0 for k in range(rows)]),
        }
    )
    policy = make_policy({"u8": "other", "u64": "other", "ms": "other", "ill": "sensitive"})
    one, other = on_both(stored(table, tmp_path / "in"), policy, spark, tmp_path, shuffle=False)
    assert rows_of(one) == rows_of(other)
    assert [c.type for c in other.manifest.columns] == ["int16", "decimal128(20, 0)", "timestamp[us]", "bool"]


def test_a_compound_of_booleans_integers_and_bins(tmp_path: Path, spark: SparkSession) -> None:
    rng, rows = np.random.default_rng(1), 500
    table = pa.table(
        {
            "n": range(rows),
            "ill": pa.array([None if k % 9 == 0 else bool(k % 2) for k in range(rows)]),
            "pay": rng.normal(100, 60, rows),
            "grade": pa.array(rng.integers(1, 4, rows), pa.int16()),
        }
    )
    roles = {
        "n": "other",
        "ill": "sensitive; domain = [true, false]; missing = 'category'",
        "pay": "sensitive; bins = { breaks = [50, 150] }",
        "grade": "sensitive",
    }
    path, policy = stored(table, tmp_path / "in"), make_policy(roles, "epsilon = 3")
    check_same(*on_both(path, policy, spark, tmp_path, shuffle=False))


@pytest.mark.parametrize("method", ["uniform", "anatomy"])
def test_dates_in_bins_and_merged_values(method: str, tmp_path: Path, spark: SparkSession) -> None:
    """Days from year 1 to 9999, leap days, times before 1970 and in a zone, texts, numbers, truth values, gaps."""
    rng, rows = np.random.default_rng(4), 1500
    days = [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(1900, 2, 28), dt.date(1969, 12, 31), dt.date(2000, 2, 29)]
    days += [dt.date(2024, 2, 29), dt.date(2024, 12, 31), dt.date(9999, 12, 31)]
    moments = [dt.datetime.combine(day, dt.time(23, 59, 59, 999999)) for day in days[2:-1]]

    def column(values: list[Any], kind: Any = None) -> Any:
        return pa.array([values[k] for k in rng.integers(0, len(values), rows)], kind)

    table = pa.table(
        {
            "n": rng.permutation(rows),
            "day": column([*days, None]),
            "moment": column(moments, pa.timestamp("us")),
            "zone": column(moments, pa.timestamp("us", "America/New_York")),
            "iso": column(["2024-02-29", "2024-03-01T00:30:00+01:00", "0001-01-01", None]),
            "town": column(["Ulm", "Bonn", "Kiel", None]).dictionary_encode(),
            "code": column([1, 2, 30, 4], pa.int16()),
            "flag": column([True, False, None]),
            "seen": column(days),
            "ill": column(["flu", "gout", "COPD", "asthma"]),
        }
    )
    two = method == "uniform"
    policy = make_policy(
        {
            "n": "other; publish_as_is = 'a number'",
            "day": "quasi_identifier; bins = 'year'; missing = 'category'",
            "moment": "other; bins = 'quarter'",
            "zone": "other; bins = 'month'",
            "iso": "other; bins = { breaks = [2024-02-29, 2024-03-01] }; missing = 'category'",
            "town": "quasi_identifier; merge = { south = ['Ulm', 'Rom'] }; missing = 'drop'",
            "code": "other; merge = { low = [1, 2], '4' = [4] }",
            "flag": "other; merge = { yes = [true] }; missing = 'category'",
            "seen": f"{'sensitive' if two else 'other'}; bins = 'year'",
            "ill": "sensitive; merge = { respiratory = ['asthma', 'COPD'] }",
        },
        "rho1 = 0.2\nrho2 = 0.6" if two else "l = 2",
        method,
    )
    path = stored(table, tmp_path / "in", {f"{k}.parquet": 500 for k in range(3)})
    one, other = on_both(path, policy, spark, tmp_path)
    check_same(one, other)
    kept = [town is not None for town in table.column("town").to_pylist()]
    true = table.filter(pa.array(kept)).to_pylist()
    for name, label in {
        "moment": lambda row: f"{row['moment'].year}-Q{(row['moment'].month + 2) // 3}",
        "zone": lambda row: f"{row['zone'].astimezone(dt.UTC):%Y-%m}",
        "day": lambda row: "(missing)" if row["day"] is None else f"{row['day'].year:04}",
        "code": lambda row: {1: "low", 2: "low"}.get(row["code"], str(row["code"])),
    }.items():
        place = [c.name for c in one.manifest.columns].index(name)
        assert {row[0]: row[place] for row in rows_of(one)} == {str(row["n"]): label(row) for row in true}


def test_a_large_domain_goes_to_the_workers(tmp_path: Path, spark: SparkSession) -> None:
    """So large that the task is broadcast."""
    rows = 12_000
    table = pa.table({"n": range(rows), "code": [f"a rather long value {k % 5000:040}" for k in range(rows)]})
    path, policy = stored(table, tmp_path / "in"), make_policy({"n": "other", "code": "sensitive"}, "epsilon = 9")
    check_same(*on_both(path, policy, spark, tmp_path, shuffle=False))


def test_sql_on_the_release(hard: Path, tmp_path: Path, spark: SparkSession) -> None:
    one, other = on_both(hard, hard_policy("uniform"), spark, tmp_path)
    query = "SELECT sex, disease, COUNT(*) FROM release GROUP BY sex, disease"
    assert repr(one.sql(query)) == repr(other.sql(query))
    assert (
        one.count("disease", where="sex = 'F'").value.tolist()
        == other.count("disease", where="sex = 'F'").value.tolist()
    )


# --- persons and record keys ------------------------------------------------------------------------------------------


def visits(rows: int = 900) -> pa.Table:
    rng = np.random.default_rng(6)
    return pa.table(
        {
            "pa.tient": [f"p{k}" for k in rng.integers(0, 300, rows)],
            "n": range(rows),
            "sex": [None if k % 10 == 0 else "FM"[k % 2] for k in range(rows)],
            "disease": rng.choice(["flu", "gout"], rows).tolist(),
        }
    )


def visit_policy(repeated: str, extra: str = "") -> sf.Policy:
    roles = {"pa.tient": "identifier", "n": "other", "sex": "other; missing = 'drop'", "disease": "sensitive"}
    return make_policy(roles, extra=f'person = {{ column = "pa.tient", repeated = "{repeated}" }}\n{extra}')


def test_the_same_row_of_each_person_is_drawn(tmp_path: Path, spark: SparkSession) -> None:
    """Several files in a batch; only complete rows are drawn."""
    path = stored(visits(), tmp_path / "in", {f"{k}.parquet": 150 for k in range(6)})
    one, other = on_both(path, visit_policy("keep-one"), spark, tmp_path)
    assert one.manifest.data.rows < 300
    check_same(one, other)


def test_t9_the_same_row_of_each_person_is_drawn_by_its_record_key(tmp_path: Path, spark: SparkSession) -> None:
    """As on one machine, and wherever the row stands."""
    policy, key = visit_policy("keep-one", 'record_key = "n"\nseries = "visits"'), SecretKey(bytes(32), kept=True)
    path = stored(visits(), tmp_path / "in", {f"{k}.parquet": 150 for k in range(6)})
    one, other = on_both(path, policy, spark, tmp_path, key=key)
    kept = sorted(rows_of(one))
    assert sorted(rows_of(other)) == kept
    turned = sf.scan(visits().take(np.arange(900)[::-1]), policy)
    assert sorted(rows_of(sf.publish(turned, planned(turned), tmp_path / "turned", key=key))) == kept


def test_repeated_persons_are_told_as_on_one_machine(tmp_path: Path, spark: SparkSession) -> None:
    path = stored(visits(), tmp_path / "in")
    assert "900 rows belong to" in str(same_error(path, visit_policy("error"), spark, tmp_path))
    assert on_both(path, visit_policy("per-row"), spark, tmp_path)[1].manifest.data.rows == 810


def test_a_record_keeps_its_draw_wherever_it_is_read(hard: Path, tmp_path: Path, spark: SparkSession) -> None:
    """From files by address, and from DataFrames whose rows have none: shuffled, sorted, joined, of a CSV file."""
    policy = hard_policy("uniform")
    policy = policy.model_copy(update={"record_key": "name", "series": "hard"})
    key = SecretKey(bytes(range(32)), kept=True)
    one, other = on_both(hard, policy, spark, tmp_path, shuffle=False, key=key)
    assert rows_of(one) == rows_of(other)
    paths = [str(path.absolute()) for path in (hard / "sub").iterdir()]
    frame = spark.read.parquet(*paths)
    some = {row[0]: row for row in rows_of(one)}
    for k, moved in enumerate((frame.repartition(3), frame.orderBy("n"), frame.join(spark.range(1)).drop("id"))):
        opened = sf.scan(moved, policy)
        release = sf.publish(opened, planned(opened), tmp_path / f"moved {k}", key=key)
        assert release.manifest.data.shuffled
        assert len(rows_of(release)) == 700
        assert all(some[row[0]] == row for row in rows_of(release))


# --- the order --------------------------------------------------------------------------------------------------------


def test_a_sorted_table_is_shuffled(tmp_path: Path, spark: SparkSession) -> None:
    """It is sorted over all files, and each file is one by itself; its order cannot be kept."""
    table = pa.table({"n": range(900), "s": [f"s{k // 300}" for k in range(900)]})
    path = stored(table, tmp_path / "in", {f"{k}.parquet": 300 for k in range(3)})
    opened = scan_on_spark(path, make_policy({"n": "other", "s": "sensitive"}), spark)
    assert planned(opened).shuffle
    release = sf.publish(opened, planned(opened), tmp_path / "r", key=KEY)
    assert release.manifest.data.shuffled
    numbers = [int(n) for n, _ in rows_of(release)]
    assert sorted(numbers) == list(range(900))
    assert abs(np.corrcoef(numbers, range(900))[0, 1]) < 0.2  # 6 standard deviations
    kept = make_policy({"n": "other", "s": "sensitive"}, 'rho1 = 0.2\nrho2 = 0.5\n[output]\norder = "keep"')
    with pytest.raises(Infeasible, match="cannot keep their order"):
        planned(scan_on_spark(path, kept, spark))
    mixed = table.take(np.random.default_rng(3).permutation(900))
    path = stored(mixed, tmp_path / "mixed", {f"{k}.parquet": 300 for k in range(3)})
    assert not planned(scan_on_spark(path, kept, spark)).shuffle
