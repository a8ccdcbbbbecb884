"""What goes wrong on Spark is said as on one machine, tells no value to Spark, and leaves nothing behind."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.spark import writing
from sfumato.engines.spark.source import SparkSource
from sfumato.engines.spark.tasks import NO_KEY, failures
from sfumato.engines.spark.writing import write_parts
from sfumato.errors import JobFailed, OutOfSpace, PlanMismatch, TableError, UsageError
from sfumato.publisher.table import scan_on_spark
from tests.conftest import make_policy, slow
from tests.constants import set_constants
from tests.engines.tools import ROLES, listing, patients, rows_of
from tests.spark.both import KEY, on_both, planned, same_error, stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLANTED = "Xerophthalmia"


def with_values(table: pa.Table, name: str, at: dict[int, Any]) -> pa.Table:
    """Return the table with other values in some rows of a column."""
    column = [at.get(k, value) for k, value in enumerate(table[name].to_pylist())]
    return table.set_column(table.column_names.index(name), name, pa.array(column, table[name].type))


def two_files(table: pa.Table, folder: Path) -> Path:
    return stored(table, folder, {"a.parquet": 200, "b.parquet": table.num_rows - 200})


# --- what the policy does not allow -----------------------------------------------------------------------------------

KEYED = 'record_key = "name"\nseries = "patients"'
DISEASES = "domain = ['asthma', 'flu', 'gout', 'mumps']"
BAD: dict[str, tuple[str, dict[int, Any], dict[str, str], str]] = {  # column, rows, roles, what is said
    "sensitive": (
        "disease",
        {250: PLANTED, 220: "odd", 290: PLANTED},
        {"disease": f"sensitive; {DISEASES}"},
        f"2 value(s) outside its declared domain, in 3 row(s): 'odd', '{PLANTED}'; first in row 221.",
    ),
    "other": (
        "sex",
        {250: PLANTED, 10: "odd"},
        {"sex": "other; domain = ['F', 'M']"},
        f"2 value(s) outside its declared domain, in 2 row(s): 'odd', '{PLANTED}'; first in row 11.",
    ),
    "bins": ("sex", {250: PLANTED}, {"sex": "other; bins = { width = 10 }"}, "hold no finite number: "),
    "dates": (
        "sex",
        {250: PLANTED},
        {"sex": "other; bins = 'year'"},
        "300 row(s) hold no date of the years 1 to ",
    ),
    "merging": (
        "sex",
        {250: PLANTED, 251: PLANTED},
        {"sex": f"other; merge = {{ '{PLANTED}' = ['F'] }}"},
        f"2 row(s) hold already: '{PLANTED}'; first in row 251.",
    ),
    "missing": ("sex", {250: None, 251: None}, {}, "'sex' is missing in 2 row(s), first in row 251."),
    "missing, sensitive": ("disease", {250: None, 20: None}, {}, "'disease' is missing in 2 row(s), first in row 21."),
}


def test_of_very_many_bad_values_some_are_told_and_all_are_counted(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    column, rows, roles, _ = BAD["sensitive"]
    path = two_files(with_values(patients(), column, rows), tmp_path / "in")
    set_constants(monkeypatch, "sfumato.engines", MOST_TOLD=1)
    with pytest.raises(TableError, match=r"2 value\(s\) .* in 3 row\(s\): 'odd', \.\.\.; first in row 221\."):
        sf.profile(scan_on_spark(path, make_policy(ROLES | roles), spark))


@pytest.mark.parametrize(
    "case",
    ["sensitive", "dates", "merging", *(slow(case) for case in ("other", "bins", "missing", "missing, sensitive"))],
)
def test_a_bad_value_is_told_to_the_publisher_and_not_to_spark(case: str, tmp_path: Path, spark: SparkSession) -> None:
    """What Spark logs and shows is what workers raise, and that is in the text of what its jobs raise."""
    name, rows, roles, said = BAD[case]
    path = two_files(with_values(patients(), name, rows), tmp_path / "in")
    problem: BaseException | None = same_error(path, make_policy(ROLES | roles), spark, tmp_path)
    assert isinstance(problem, TableError)
    assert said in problem.message
    while (problem := problem.__context__) is not None:
        assert PLANTED not in str(problem)


@pytest.mark.parametrize("extra", [KEYED, slow('person = { column = "name", repeated = "keep-one" }')])
def test_a_row_without_an_identifier(extra: str, tmp_path: Path, spark: SparkSession) -> None:
    policy = make_policy(ROLES, extra=extra)
    plan = planned(sf.scan(patients(), policy))
    path = two_files(with_values(patients(), "name", {280: None, 230: None}), tmp_path / "in")
    assert same_error(path, policy, spark, tmp_path, plan).message == "'name' is missing in row 231."


def test_what_is_no_number_identifies_nobody(tmp_path: Path, spark: SparkSession) -> None:
    policy = make_policy(ROLES, extra='person = { column = "name", repeated = "keep-one" }')
    numbers = pa.array([float(k) for k in range(300)])
    whole = patients().set_column(0, "name", numbers)
    plan = planned(sf.scan(whole, policy))
    path = two_files(with_values(whole, "name", {280: float("nan"), 230: float("nan")}), tmp_path / "in")
    assert same_error(path, policy, spark, tmp_path, plan).message == "'name' is missing in row 231."


def test_rows_without_addresses_have_no_numbers(tmp_path: Path, spark: SparkSession) -> None:
    table = with_values(patients(), "disease", {20: "odd"})
    frame = spark.read.parquet(str(two_files(table, tmp_path / "in"))).repartition(2)
    policy = make_policy(ROLES | {"disease": f"sensitive; {DISEASES}"}, extra=KEYED)
    with pytest.raises(TableError, match=r"in 1 row\(s\): 'odd'\.\n"):
        sf.profile(sf.scan(frame, policy))


def test_nothing_is_left_of_rows_that_all_lack_a_value(tmp_path: Path, spark: SparkSession) -> None:
    policy = make_policy(ROLES | {"sex": "other; missing = 'drop'"})
    plan = planned(sf.scan(patients(), policy))
    path = two_files(with_values(patients(), "sex", dict.fromkeys(range(300))), tmp_path / "in")
    assert "No row is left" in same_error(path, policy, spark, tmp_path, plan).message


# --- what was planned -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "requirement"), [slow("small-domain", 'rho1 = "1/5"\nrho2 = "1/2"'), ("anatomy", "l = 2")]
)
@pytest.mark.parametrize("change", ["another value", slow("a new value")])
def test_a_table_that_changed_is_refused(
    method: str, requirement: str, change: str, tmp_path: Path, spark: SparkSession
) -> None:
    policy = make_policy(ROLES, requirement, method)
    path = two_files(patients(), tmp_path / "in")
    plan = planned(sf.scan(path, policy))
    other = {"flu": "asthma", "asthma": "flu"}.get(patients()["disease"][250].as_py(), "flu")
    bound = plan.bound_to(sf.scan(path, policy).hash(), policy.hash())
    two_files(with_values(patients(), "disease", {250: other if change == "another value" else "new"}), path)
    assert isinstance(same_error(path, policy, spark, tmp_path, plan), PlanMismatch | TableError)
    assert "its hash is" in same_error(path, policy, spark, tmp_path, bound).message


def test_what_is_asked_is_checked_first(tmp_path: Path, spark: SparkSession) -> None:
    path = two_files(patients(), tmp_path / "in")
    opened, plan = scan_on_spark(path, make_policy(ROLES), spark), planned(sf.scan(path, make_policy(ROLES)))
    with pytest.raises(UsageError, match="written as Parquet"):
        sf.publish(opened, plan, tmp_path / "r", key=KEY, format="csv")
    (tmp_path / "r").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        sf.publish(opened, plan, tmp_path / "r", key=KEY)
    assert listing(tmp_path) == ["in", "in/a.parquet", "in/b.parquet", "r"]


# --- rows without addresses, and files that Spark does not read as one machine does -----------------------------------

MOVED: dict[str, Callable[[Any], Any]] = {
    "Repartition": lambda frame: frame.repartition(2),
    "Sort": lambda frame: frame.orderBy("age"),
    "Union": lambda frame: frame.union(frame),
    "Limit": lambda frame: frame.limit(100),
    "Sample": lambda frame: frame.sample(0.9, seed=1),
    "drawn anew": lambda frame: frame.selectExpr("name", "age", "sex", "cast(rand() as string) as disease"),
}


@pytest.mark.parametrize("step", ["Repartition", *(slow(step) for step in MOVED if step != "Repartition")])
def test_rows_that_moved_need_a_record_key(step: str, tmp_path: Path, spark: SparkSession) -> None:
    frame = MOVED[step](spark.read.parquet(str(two_files(patients(), tmp_path / "in"))))
    source = SparkSource(frame)
    assert step in source.why_no_address
    if step != "Repartition":
        return
    opened = sf.scan(frame, make_policy(ROLES))
    with pytest.raises(UsageError, match="no address that stays the same") as caught:
        sf.publish(opened, planned(opened), tmp_path / "r", key=KEY)
    assert "record key" in caught.value.hint
    groups = sf.scan(frame, make_policy(ROLES, "l = 2", "anatomy"))
    with pytest.raises(UsageError, match="no address that stays the same") as caught:
        sf.publish(groups, planned(groups), tmp_path / "r", key=KEY)
    assert "record key" not in caught.value.hint
    person = make_policy(ROLES, extra='person = { column = "name", repeated = "keep-one" }')
    with pytest.raises(UsageError, match="One row of each 'name' is drawn by where rows are"):
        sf.profile(sf.scan(frame, person))
    assert listing(tmp_path) == ["in", "in/a.parquet", "in/b.parquet"]


def test_chosen_rows_and_columns_keep_their_addresses(tmp_path: Path, spark: SparkSession) -> None:
    """So they draw what they draw among all rows."""
    path = two_files(patients(), tmp_path / "in")
    whole, _ = on_both(path, make_policy(ROLES), spark, tmp_path, shuffle=False)
    frame = spark.read.parquet(str(path)).where("sex = 'F'").drop("name")
    opened = sf.scan(frame, make_policy({k: v for k, v in ROLES.items() if k != "name"}))
    release = sf.publish(opened, planned(opened, shuffle=False), tmp_path / "some", key=KEY)
    assert rows_of(release) == [row for row in rows_of(whole) if row[1] == "F"]


def test_a_csv_file_numbers_no_rows(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "t.csv").write_text("a,s\n1,x\n2,y\n")
    frame = spark.read.option("header", True).csv(str(tmp_path / "t.csv"))
    assert "number their rows" in SparkSource(frame).why_no_address
    with pytest.raises(UsageError, match="is not Parquet"):
        scan_on_spark(tmp_path / "t.csv", make_policy({"a": "other", "s": "sensitive"}), spark)


def test_a_frame_of_spark_connect_is_refused() -> None:
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe", "columns": ["s"]})()
    with pytest.raises(UsageError, match="Spark Connect"):
        sf.scan(frame, make_policy({"s": "sensitive"}))


def test_a_file_that_is_read_twice_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    """Its rows would share their noise."""
    path = str(two_files(patients(), tmp_path / "in") / "a.parquet")
    with pytest.raises(TableError, match="a file more than once"):
        sf.profile(sf.scan(spark.read.parquet(path, path), make_policy(ROLES)))


def test_a_column_with_the_name_of_metadata(tmp_path: Path, spark: SparkSession) -> None:
    odd = pa.array([{"file_path": "x", "row_index": 1}] * 300)
    path = two_files(patients().append_column("_metadata", odd), tmp_path / "in")
    one, other = on_both(path, make_policy(ROLES | {"_metadata": "identifier"}), spark, tmp_path, shuffle=False)
    assert rows_of(one) == rows_of(other)


def test_links_are_read_in_the_order_of_their_own_names(tmp_path: Path, spark: SparkSession) -> None:
    stored(patients(), tmp_path / "real", {"a.parquet": 100, "b.parquet": 200})
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.parquet").symlink_to(tmp_path / "real/b.parquet")
    (tmp_path / "in/2.parquet").symlink_to(tmp_path / "real/a.parquet")
    one, other = on_both(tmp_path / "in", make_policy(ROLES), spark, tmp_path, shuffle=False)
    assert rows_of(one) == rows_of(other)


@pytest.mark.parametrize(
    ("name", "column", "said"),
    [
        ("t.parquet", pa.array([1, 2], pa.timestamp("ns")), "NANOS"),
        ("a:b.parquet", pa.array([1, 2]), "Spark cannot read"),
        ("_t.parquet", pa.array([1, 2]), "infer schema"),
    ],
    ids=["nanoseconds", "a colon", "hidden"],
)
def test_what_spark_cannot_read(name: str, column: Any, said: str, tmp_path: Path, spark: SparkSession) -> None:
    pq.write_table(pa.table({"x": column, "s": ["a", "b"]}), tmp_path / name)
    with pytest.raises(TableError, match=said) as caught:
        scan_on_spark(tmp_path / name, make_policy({"x": "other", "s": "sensitive"}), spark)
    assert "embedded" in caught.value.hint


# --- failures of the cluster ------------------------------------------------------------------------------------------


def raising(problem: Exception) -> Callable[..., Iterator[Any]]:
    """Return a stage that raises in the first partition; in the others it takes its time, and goes on."""

    def stage(given: Iterator[Any], key: Any, tally: Any) -> Iterator[Any]:
        first = next(given).column(0)[0].as_py()
        if first == 0:
            raise problem
        time.sleep(0.7)
        yield (first, 0), pa.RecordBatch.from_pydict({"x": [first]})

    return stage


@pytest.mark.parametrize(
    ("problem", "kind", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), OutOfSpace, "No room is left"),
        (ZeroDivisionError("by nothing"), JobFailed, "ZeroDivisionError: by nothing"),
        (TableError("It is wrong.", "Mend it."), TableError, "It is wrong"),
    ],
    ids=["full disk", "anything", "ours"],
)
def test_a_task_that_fails_leaves_nothing(
    problem: Exception, kind: type[Exception], said: str, tmp_path: Path, spark: SparkSession
) -> None:
    """Nor do tasks that still run when the job has failed: they find no place to write to."""
    frame = spark.range(2, numPartitions=2)
    with pytest.raises(kind, match=said) as caught:
        write_parts(frame, raising(problem), NO_KEY, tmp_path, "data")
    assert caught.value.hint  # type: ignore[attr-defined]
    assert listing(tmp_path) == []
    tracker = spark.sparkContext.statusTracker()
    while tracker.getActiveStageIds():
        time.sleep(0.05)
    assert listing(tmp_path) == []


def test_an_interrupt_is_one_whatever_spark_says_after_it() -> None:
    from py4j.protocol import Py4JError

    problem = Py4JError("Job 1 cancelled")
    problem.__context__ = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), failures():
        raise problem


@pytest.mark.parametrize("name", ["collected", slow("_placed")])
@pytest.mark.parametrize(
    "problem", [KeyboardInterrupt(), slow(OSError(errno.ENOSPC, "No space left on device"))], ids=repr
)
def test_the_driver_leaves_nothing(
    name: str, problem: BaseException, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted, or with a full disk of its own."""
    path = two_files(patients(), tmp_path / "in")
    opened, plan = scan_on_spark(path, make_policy(ROLES), spark), planned(sf.scan(path, make_policy(ROLES)))

    def fail(*_: Any) -> None:
        raise problem

    monkeypatch.setattr(writing, name, fail)
    with pytest.raises((KeyboardInterrupt, OutOfSpace)):
        sf.publish(opened, plan, tmp_path / "r", key=KEY)
    assert listing(tmp_path) == ["in", "in/a.parquet", "in/b.parquet"]


def test_a_damaged_file_is_told(tmp_path: Path, spark: SparkSession) -> None:
    path = two_files(patients(), tmp_path / "in")
    plan = planned(sf.scan(path, make_policy(ROLES)))
    content = bytearray((path / "b.parquet").read_bytes())
    content[4:1500] = bytes(1496)
    (path / "b.parquet").write_bytes(content)
    opened = scan_on_spark(path, make_policy(ROLES), spark)
    with pytest.raises(JobFailed, match="The Spark job failed: ") as caught:
        sf.publish(opened, plan, tmp_path / "r", key=KEY)
    assert "b.parquet" in str(caught.value) or "arquet" in str(caught.value)
    assert listing(tmp_path) == ["in", "in/a.parquet", "in/b.parquet"]


def test_a_table_that_changes_is_not_published(tmp_path: Path, spark: SparkSession) -> None:
    """The same counts in another file: its time and size tell, as the store has them."""
    path = two_files(patients(), tmp_path / "in")
    opened = scan_on_spark(path, make_policy(ROLES), spark)
    plan = planned(opened)
    pq.write_table(pq.read_table(path / "b.parquet"), path / "b.parquet", compression="none")
    with pytest.raises(PlanMismatch, match="The table changed after it was opened"):
        sf.publish(opened, plan, tmp_path / "r", key=KEY)
    assert listing(tmp_path) == ["in", "in/a.parquet", "in/b.parquet"]


def test_other_counts_than_planned_are_not_published(tmp_path: Path, spark: SparkSession) -> None:
    """Of a frame without files nothing but the counts tells."""
    path = two_files(patients(), tmp_path / "in")
    plan = planned(scan_on_spark(path, make_policy(ROLES), spark))
    other = scan_on_spark(two_files(patients(seed=8), tmp_path / "other"), make_policy(ROLES), spark)
    with pytest.raises(PlanMismatch, match="other values, or other numbers of them"):
        sf.publish(other, plan, tmp_path / "r", key=KEY)
    assert not (tmp_path / "r").exists()
