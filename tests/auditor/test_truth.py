"""The true table on a release's axes: whatever types it comes in, its counts are those of its rows."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from sfumato.analyst.release import Release
from sfumato.auditor.utility.distances import cube_errors, distances, relative_errors
from sfumato.auditor.utility.truth import count_truth, true_counts
from sfumato.errors import UsageError
from sfumato.values.arrays import FloatArray
from sfumato.values.recoding import Bins
from sfumato.values.section import InputRule
from tests.conftest import make_policy
from tests.constants import set_constants
from tests.engines.tools import released

ALMOST_NO_NOISE = "epsilon = 40"
KINDS = ["arrow", "pandas", "polars", "parquet", "csv"]


def written(table: pa.Table, kind: str, folder: Path) -> Any:
    if kind == "arrow":
        return table
    if kind == "pandas":
        return pd.DataFrame(table.to_pydict())
    if kind == "polars":
        return pl.DataFrame(table.to_pydict())
    if kind == "parquet":
        pq.write_table(table, folder / "t.parquet")
        return folder / "t.parquet"
    pacsv.write_csv(table, folder / "t.csv")
    return folder / "t.csv"


def estimated(release: Release, by: Sequence[str]) -> tuple[list[list[Any]], FloatArray]:
    """Return the axes and the estimates that a release gives, cells that no row has as 0."""
    answer = release.count(by)
    axes = [list(dict.fromkeys(group[k] for group in answer.groups)) for k in range(len(by))]
    places = [{label: place for place, label in enumerate(axis)} for axis in axes]
    grid = np.zeros([len(axis) for axis in axes])
    for group, value in zip(answer.groups, answer.value, strict=True):
        grid[tuple(place[v] for place, v in zip(places, group, strict=True))] = value
    return axes, grid


def assert_estimates_are_the_truth(release: Release, table: Any, by: Sequence[str]) -> None:
    axes, estimates = estimated(release, by)
    truth = count_truth(release, table, by, axes)
    assert truth.counts.sum() == truth.rows == release.manifest.data.rows
    assert (truth.surplus, truth.outside) == (0, 0)
    assert truth.counts == pytest.approx(estimates, abs=1e-6)


def published(columns: dict[str, Any], folder: Path, extra: str = "", **keys: Any) -> Release:
    """Publish columns as they are, beside a sensitive one, `s`."""
    rows = len(next(iter(columns.values())))
    table = pa.table({**columns, "s": ["a", "b"] * (rows // 2)})
    roles = dict.fromkeys(columns, f"other; missing = 'category'{extra}") | {"s": "sensitive"}
    return released(table, make_policy(roles, ALMOST_NO_NOISE), folder=folder, shuffle=False, **keys)


# --- a worked example, and what the figures mean ------------------------------------------------------------------


def test_counts_of_a_small_table(tmp_path: Path) -> None:
    table = pa.table({"sex": ["F", "F", "F", "M", "M", None] * 10, "s": ["a", "a", "b", "b", "b", "a"] * 10})
    policy = make_policy({"sex": "other; missing = 'category'", "s": "sensitive"})
    release = released(table, policy, folder=tmp_path / "r", shuffle=False)
    counts = true_counts(release, table, ["sex", "s"], [["M", None, "F"], ["a", "b"]])
    assert counts.tolist() == [[0, 20], [10, 0], [20, 10]]
    assert true_counts(release, table, ["s"], [["b", "a"]]).tolist() == [30, 30]
    assert true_counts(release, table, [], []).tolist() == 60


def test_batches_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"x": [3, 1, 2, 1, 1, None] * 10, "s": ["a", "b", "b"] * 20})
    policy = make_policy({"x": "other; missing = 'category'", "s": "sensitive"})
    release = released(table, policy, folder=tmp_path / "r", shuffle=False)
    set_constants(monkeypatch, "sfumato.engines", BATCH_ROWS=7)
    for kind in ("arrow", "parquet"):
        counts = true_counts(release, written(table, kind, tmp_path), ["x", "s"], [[1, 2, 3, None], ["a", "b"]])
        assert counts.tolist() == [[10, 20], [0, 10], [10, 0], [0, 10]]


# --- the same table in other types ----------------------------------------------------------------------------------


COLUMNS: dict[str, list[Any]] = {
    "text": ["b", "a", " a", "Ä", None],
    "integer": [7, -3, 2**53 + 1, 2**53, None],
    "number": [0.1, 0.30000000000000004, -2.0, 1e300, None],
    "decimal": [Decimal("1.20"), Decimal("0.05"), Decimal("-7.00"), None, Decimal("12345.67")],
    "truth": [True, False, None, True, True],
    "day": [dt.date(1969, 7, 20), dt.date(2024, 2, 29), None, dt.date(2024, 3, 1), dt.date(1969, 7, 20)],
    "moment": [dt.datetime(2024, 2, 29, 12, 30), dt.datetime(1969, 7, 20), None, dt.datetime(2024, 1, 1, 1), None],
}  # fmt: skip


def mixed(rows: int) -> pa.Table:
    rng = np.random.default_rng(11)
    columns = {name: [values[k] for k in rng.integers(0, 5, rows)] for name, values in COLUMNS.items()}
    return pa.table({**columns, "s": [["x", "y", "z"][k] for k in rng.integers(0, 3, rows)]})


@pytest.mark.parametrize("format", ["parquet", "csv"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_table_may_come_in_any_form(kind: str, format: str, tmp_path: Path) -> None:
    """Published from one form, the truth in every other one; every column of every type, with the sensitive one."""
    table = mixed(300)
    if kind == "pandas":  # which has no missing integers: they become numbers that cannot hold 2^53 + 1
        table = table.drop(["integer"])
    roles = dict.fromkeys(table.column_names[:-1], "other; missing = 'category'") | {"s": "sensitive"}
    policy = make_policy(roles, ALMOST_NO_NOISE)
    release = released(written(table, kind, tmp_path), policy, folder=tmp_path / "r", format=format, shuffle=False)
    for name in table.column_names[:-1]:
        axes, estimates = estimated(release, [name, "s"])
        rows = Counter(zip(table[name].to_pylist(), table["s"].to_pylist(), strict=True))
        for other in [k for k in KINDS if k != "pandas" or name != "integer"]:
            given = written(table.select([name, "s"]), other, tmp_path)
            counts = true_counts(release, given, [name, "s"], axes)
            assert counts == pytest.approx(estimates, abs=1e-6), (other, name)
            assert sorted(counts[counts > 0].tolist()) == sorted(rows.values()), (other, name)


@pytest.mark.parametrize(
    ("label", "given"),
    [
        ("7", 7), ("7.50", 7.5), ("7", 7.0), ("1e3", 1000), ("0.7", np.float32(0.7)), ("TRUE", True), ("1", True),
        ("2024-02-29", dt.date(2024, 2, 29)), ("2024-02-29T14:30:00+02:00", dt.datetime(2024, 2, 29, 12, 30)),
        ("2024-02-29", dt.datetime(2024, 2, 29)), ("12:30", dt.time(12, 30)), ("1.20", Decimal("1.2")),
    ],
)  # fmt: skip
def test_text_is_compared_as_what_the_table_holds(label: str, given: Any, tmp_path: Path) -> None:
    """And the other way round: the release has text, the table values; the release has values, the table text."""
    for known, other in ((label, given), (given, label)):
        folder = tmp_path / type(known).__name__
        release = published({"x": pa.array([known, None] * 20)}, folder)
        (shown, _), *_ = estimated(release, ["x"])[0]
        assert true_counts(release, pa.table({"x": pa.array([other, None] * 20)}), ["x"], [[None, shown]]).tolist() == [
            20,
            20,
        ]


@pytest.mark.parametrize("format", ["parquet", "csv"])
@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_short_numbers(kind: Any, format: str, tmp_path: Path) -> None:
    """0.7 of 32 bits is 0.699999988079071; text and numbers of other lengths mean the same."""
    values = [np.float16(0.7), np.float16(2.5), None, np.float16("nan")] * 10
    release = published({"x": pa.array(values, pa.float16()).cast(kind)}, tmp_path / "r", format=format)
    axes = [[v for (v,) in release.count("x").groups]]
    assert [str(v) for v in axes[0][1:]] == ["2.5", "nan", "None"]
    for other in (pa.float16(), pa.float32(), pa.float64()):
        table = pa.table({"x": pa.array(values, pa.float16()).cast(other)})
        assert true_counts(release, table, ["x"], axes).tolist() == [10, 10, 10, 10]


def test_numbers_of_32_bits_and_their_text(tmp_path: Path) -> None:
    release = published({"x": pa.array([0.7, 0.1] * 20, pa.float32())}, tmp_path / "r")
    axes = [[v for (v,) in release.count("x").groups]]
    assert true_counts(release, pa.table({"x": ["0.7", "0.1"] * 20}), ["x"], axes).tolist() == [20, 20]
    assert true_counts(release, pa.table({"x": [0.7, 0.1] * 20}), ["x"], axes).tolist() == [20, 20]


def test_nan_is_missing_where_it_is_no_label(tmp_path: Path) -> None:
    release = published({"x": [1.5, None] * 20}, tmp_path / "r")
    table = pa.table({"x": [1.5, math.nan] * 20})
    assert true_counts(release, table, ["x"], [[1.5, None]]).tolist() == [20, 20]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Paris"])
def test_times_in_any_unit_and_zone(unit: str, zone: str | None, tmp_path: Path) -> None:
    moments = [dt.datetime(2024, 7, 1, 12), dt.datetime(1931, 1, 1, 0, 0, 59)] * 20
    column = pa.array(moments, pa.timestamp(unit, zone))
    for format in ("parquet", "csv"):
        release = published({"t": column}, tmp_path / format, format=format)
        axes = [[v for (v,) in release.count("t").groups]]
        for other in (pa.timestamp("us", zone), pa.timestamp("ns", zone)):
            table = pa.table({"t": pa.array(moments, other)})
            assert true_counts(release, table, ["t"], axes).tolist() == [20, 20]


def test_narrow_dictionaries_with_gaps(tmp_path: Path) -> None:
    """128 values fill the indices of 8 bits: none is left for the missing value."""
    values = [f"v{k:03d}" for k in range(128)]
    release = published({"x": [*values, None, None]}, tmp_path / "r")
    coded = pa.DictionaryArray.from_arrays(pa.array([*range(128), None, None], pa.int8()), pa.array(values))
    counts = true_counts(release, pa.table({"x": coded}), ["x"], [[*values, None]])
    assert counts.tolist() == [1] * 128 + [2]


# --- bins -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("role", ["other", "sensitive"])
@pytest.mark.parametrize("rule", ["{ width = 0.1 }", "{ width = 10, origin = 5 }", "{ breaks = [0.3, 18, 65] }"])
def test_numbers_fall_in_their_published_bins(rule: str, role: str, kind: str, tmp_path: Path) -> None:
    values = [0.3, 0.29999999999999993, 17.9, 18, 64.9, 65, None, -3.7, 1e6, 0.1 + 0.2] * 8
    table = pa.table({"x": values, "s": ["a", "b"] * 40})
    other = "other" if role == "sensitive" else "sensitive"
    policy = make_policy({"x": f"{role}; bins = {rule}; missing = 'category'", "s": other}, ALMOST_NO_NOISE)
    release = released(written(table, kind, tmp_path), policy, folder=tmp_path / "r", shuffle=False)
    for form in KINDS:
        assert_estimates_are_the_truth(release, written(table, form, tmp_path), ["x", "s"])


@pytest.mark.parametrize("seed", range(12))
def test_bins_agree_with_the_rule_that_made_them(seed: int, tmp_path: Path) -> None:
    """Numbers on and beside the bounds, where decimal and binary arithmetic differ; also as text."""
    rng = np.random.default_rng(seed)
    width, origin = float(rng.choice([0.1, 0.25, 0.3, 1, 7, 1000])), float(rng.choice([0, 0.05, -1.7, 18]))
    ends = [float(round(origin + k * width, 10)) for k in rng.integers(-5, 6, 10)]
    numbers = [x for end in ends for x in (end, math.nextafter(end, math.inf), math.nextafter(end, -math.inf))]
    bins = Bins(width=width, origin=origin)
    release = published({"x": numbers}, tmp_path / "r", f"; bins = {{ width = {width}, origin = {origin} }}")
    due = Counter(bins.label(k) for k in bins.numbers(np.array(numbers)).tolist())
    for given in (numbers, [repr(x) for x in numbers]):
        counts = true_counts(release, pa.table({"x": given}), ["x"], [sorted(due)])
        assert counts.tolist() == [due[label] for label in sorted(due)]


def test_short_numbers_are_binned_as_they_are_written(tmp_path: Path) -> None:
    release = published({"x": pa.array([0.7, 0.65] * 20, pa.float32())}, tmp_path / "r", "; bins = { width = 0.1 }")
    assert_estimates_are_the_truth(release, pa.table({"x": pa.array([0.7, 0.65] * 20, pa.float32())}), ["x"])
    assert_estimates_are_the_truth(release, pa.table({"x": ["0.70", " 6.5e-1"] * 20}), ["x"])


def test_a_table_that_has_the_bins_already(tmp_path: Path) -> None:
    release = published({"x": [5, None] * 20}, tmp_path / "r", "; bins = { width = 10 }")
    assert true_counts(release, pa.table({"x": ["[0, 10)", None] * 20}), ["x"], [[None, "[0, 10)"]]).tolist() == [
        20,
        20,
    ]


def test_nan_is_missing_where_there_are_bins_and_other_texts_are_strange(tmp_path: Path) -> None:
    release = published({"x": [5.0, math.nan] * 20}, tmp_path / "r", "; bins = { breaks = [1] }")
    axes = [["< 1", ">= 1", None]]
    assert true_counts(release, pa.table({"x": [5.0, math.nan] * 20}), ["x"], axes).tolist() == [0, 20, 20]
    for bad in ("nan", "inf", "-inf", "five"):
        with pytest.raises(UsageError, match=rf"in 20 row\(s\), e.g. '{bad}'"):
            true_counts(release, pa.table({"x": ["5", bad] * 20}), ["x"], axes)
    for beside in (-0.5, 1.0, 5.0):  # the upper end is not in the bin
        with pytest.raises(UsageError, match=rf"e.g. '{beside}'; the release has '\[0, 1\)'"):
            true_counts(release, pa.table({"x": [beside, math.nan] * 20}), ["x"], [["[0, 1)", None]])


# --- rows that were not published -----------------------------------------------------------------------------------


def test_rows_without_a_value_may_have_been_left_out(tmp_path: Path) -> None:
    table = pa.table({"x": ["u", "v", None, "u"] * 10, "s": ["a", "b", "b", None] * 10})
    policy = make_policy({"x": "other; missing = 'drop'", "s": "sensitive; missing = 'drop'"})
    release = released(table, policy, folder=tmp_path / "r", shuffle=False)
    truth = count_truth(release, table, ["x", "s"], [["u", "v"], ["a", "b"]])
    assert (truth.rows, truth.surplus, truth.outside) == (40, 20, 20)
    assert truth.counts.tolist() == [[10, 0], [0, 10]]
    alone = count_truth(release, table, ["x"], [["u", "v"]])
    assert (alone.surplus, alone.outside, alone.counts.tolist()) == (20, 10, [20, 10])


def test_a_value_of_rows_that_were_left_out_is_on_no_axis(tmp_path: Path) -> None:
    table = pa.table({"x": ["u", "rare"] * 20, "s": ["a", None] * 10 + ["b", None] * 10})
    release = released(
        table, make_policy({"x": "other", "s": "sensitive; missing = 'drop'"}), folder=tmp_path / "r", shuffle=False
    )
    truth = count_truth(release, table, ["x"], [["u"]])
    assert (truth.counts.tolist(), truth.surplus, truth.outside) == ([20], 20, 20)


def test_a_person_who_is_published_once(tmp_path: Path) -> None:
    table = pa.table({"id": [k // 2 for k in range(80)], "x": ["u", "v"] * 40, "s": ["a", "b", "b", "a"] * 20})
    policy = make_policy(
        {"id": "identifier", "x": "other", "s": "sensitive"}, extra="person = {column='id', repeated='keep-one'}"
    )
    release = released(table, policy, folder=tmp_path / "r")
    truth = count_truth(release, table, ["x", "s"], [["u", "v"], ["a", "b"]])
    assert (truth.rows, truth.surplus, truth.outside, truth.counts.tolist()) == (80, 40, 0, [[20, 20], [20, 20]])


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Release:
    return published({"town": ["Ulm", "Bonn"] * 20, "age": [30, 41] * 20}, tmp_path / "small")


def test_another_table_is_refused(small: Release) -> None:
    town, age, s = ["Ulm", "Bonn"] * 20, [30, 41] * 20, ["a", "b"] * 20
    with pytest.raises(UsageError, match=r"'town' of the table has values .* in 20 row\(s\), e.g. 'bonn'; .* 'Ulm'"):
        true_counts(small, pa.table({"town": ["Ulm", "bonn"] * 20}), ["town"], [["Ulm", "Bonn"]])
    with pytest.raises(UsageError, match=r"'town' is missing in 20 row\(s\) .* lacks 0 row\(s\)"):
        true_counts(small, pa.table({"town": ["Ulm", None] * 20}), ["town"], [["Ulm", "Bonn"]])
    with pytest.raises(UsageError, match=r"The table has 38 row\(s\), and 40 were published"):
        true_counts(small, pa.table({"town": town[2:]}), ["town"], [["Ulm", "Bonn"]])
    with pytest.raises(UsageError, match=r"e.g. '42'"):
        true_counts(small, pa.table({"age": [30, 42] * 20}), ["age"], [[30, 41]])
    with pytest.raises(UsageError, match=r"'s' of the table has values .* e.g. 'c'"):  # although 10 rows are lacking
        true_counts(small, pa.table({"s": [*s, *["c"] * 10]}), ["s"], [["a", "b"]])
    longer = pa.table({"town": [*town[:-1], *["Rom"] * 11], "age": [*age, *[30] * 10]})
    with pytest.raises(UsageError, match=r"'town' of the table .* in 11 row\(s\)"):  # and the release lacks 10
        true_counts(small, longer, ["age", "town"], [[30, 41], ["Ulm", "Bonn"]])


def test_a_column_that_is_not_there(small: Release) -> None:
    with pytest.raises(UsageError, match="The table has no column 'town'") as caught:
        true_counts(small, pa.table({"Town": ["Ulm"] * 40, "x": [1] * 40}), ["town"], [["Ulm"]])
    assert caught.value.hint == "Did you mean 'Town'?"
    with pytest.raises(UsageError, match="The release has no column 'twon'") as caught:
        true_counts(small, pa.table({"town": ["Ulm"] * 40}), ["twon"], [["Ulm"]])
    assert caught.value.hint == "Did you mean 'town'?"


def test_labels_that_the_table_cannot_tell_apart(tmp_path: Path) -> None:
    release = published({"code": ["007", "7"] * 20}, tmp_path / "r")
    assert true_counts(release, pa.table({"code": ["007", "7"] * 20}), ["code"], [["007", "7"]]).tolist() == [20, 20]
    with pytest.raises(UsageError, match="'code' has the labels '007' and '7', which are the same in the table"):
        true_counts(release, pa.table({"code": [7, 7] * 20}), ["code"], [["007", "7"]])


def test_a_sub_table_is_no_true_column(tmp_path: Path) -> None:
    weights = 1 / np.arange(1, 31) ** 0.7
    jobs = np.random.default_rng(3).choice(30, 4000, p=weights / weights.sum())
    table = pa.table({"job": [f"job {k:02}" for k in jobs]})
    policy = make_policy({"job": "sensitive"}, method='small-domain"\nminimum_sub_table = 300\nassurance = "proved')
    release = released(table, policy, folder=tmp_path / "r")
    assert "sub_table" in release.column_names
    with pytest.raises(UsageError, match="'sub_table' labels the sub-tables"):
        true_counts(release, table, ["sub_table"], [[1, 2]])
    axes, _ = estimated(release, ["job"])
    assert true_counts(release, table, ["job"], axes).tolist() == np.bincount(jobs).tolist()


def test_a_file_is_read_as_the_policy_says(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("town;s\n" + "Ulm;a\nNA;b\n" * 20)
    policy = make_policy(
        {"town": "other; missing = 'category'", "s": "sensitive"},
        ALMOST_NO_NOISE,
        extra='input = { delimiter = ";", missing_values = ["NA"] }',
    )
    release = released(tmp_path / "t.csv", policy, folder=tmp_path / "r", shuffle=False)
    rule = InputRule(delimiter=";", missing_values=("NA",))
    assert true_counts(release, tmp_path / "t.csv", ["town"], [["Ulm", None]], rule).tolist() == [20, 20]
    with pytest.raises(UsageError, match=r"e\.g\. 'NA'") as caught:
        true_counts(release, tmp_path / "t.csv", ["town"], [["Ulm", None]], InputRule(delimiter=";"))
    assert "missing" in caught.value.hint


# --- real tables ------------------------------------------------------------------------------------------------------


ADULT = ["age", "workclass", "education", "marital_status", "occupation", "race", "sex", "income"]


def adult_policy(requirement: str, missing: str = "error", bins: str = "bins = { width = 10 }") -> Any:
    roles = dict.fromkeys(ADULT, f"other; missing = '{missing}'") | {
        "age": f"quasi_identifier; {bins}",
        "occupation": f"sensitive; missing = '{missing}'",
    }
    return make_policy(roles, requirement)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_adult_without_noise(kind: str, real_data: Callable[[str], Path], tmp_path: Path) -> None:
    """Published from one file, compared with both: ages are text in CSV, integers in Parquet, bins in the release."""
    files = {k: real_data(f"adult_complete_45222.{k}") for k in ("csv", "parquet")}
    rows = pq.read_table(files["parquet"], columns=ADULT)
    if kind == "csv":
        pacsv.write_csv(rows, tmp_path / "adult.csv")
    source = tmp_path / "adult.csv" if kind == "csv" else rows
    release = released(source, adult_policy(ALMOST_NO_NOISE), folder=tmp_path / "r")
    for file in files.values():
        for by in (
            ["occupation"],
            ["age"],
            ["age", "sex", "occupation"],
            ["education", "income", "race", "occupation"],
        ):
            assert_estimates_are_the_truth(release, file, by)


def test_adult_with_unbinned_numbers_in_csv(real_data: Callable[[str], Path], tmp_path: Path) -> None:
    files = [real_data(f"adult_complete_45222.{kind}") for kind in ("csv", "parquet")]
    rows = pq.read_table(files[1], columns=ADULT)
    release = released(rows, adult_policy(ALMOST_NO_NOISE, bins=""), folder=tmp_path / "r", format="csv")
    for file in files:
        assert_estimates_are_the_truth(release, file, ["age", "occupation"])


def test_adult_with_missing_values(real_data: Callable[[str], Path], tmp_path: Path) -> None:
    file = real_data("adult_full_48842.parquet")
    rows = pq.read_table(file, columns=ADULT)
    kept = released(rows, adult_policy(ALMOST_NO_NOISE, "category"), folder=tmp_path / "kept")
    assert_estimates_are_the_truth(kept, file, ["workclass", "occupation"])
    dropped = released(rows, adult_policy(ALMOST_NO_NOISE, "drop"), folder=tmp_path / "dropped")
    complete = rows.drop_null()
    axes, estimates = estimated(dropped, ["workclass", "occupation"])
    truth = count_truth(dropped, file, ["workclass", "occupation"], axes)
    assert truth.outside == truth.surplus == rows.num_rows - complete.num_rows > 0
    assert truth.counts == pytest.approx(estimates, abs=1e-6)
    # those who never worked have no occupation: the release has no row of them, and no such label
    work = Counter(rows["workclass"].to_pylist())
    by_work = count_truth(dropped, file, ["workclass"], axes[:1])
    assert set(work) - set(axes[0]) == {None, "Never-worked"}
    assert (by_work.outside, by_work.surplus) == (work[None] + work["Never-worked"], truth.surplus)
    assert by_work.counts.tolist() == [work[label] for label in axes[0]]


def test_the_distance_of_a_noisy_release_of_adult(real_data: Callable[[str], Path], tmp_path: Path) -> None:
    """The squared l2 has mean tr C and variance about 2 tr C^2, C the covariance given the table (6 sd allowed).

    Its mean is (kappa - 1)/N, kappa = |P^-1|_F^2 / m (docs/methods/proofs/randomized-response.md, "Estimates"). The
    joint table is worse than its margins.
    """
    file = real_data("adult_complete_45222.parquet")
    release = released(pq.read_table(file, columns=ADULT), adult_policy("epsilon = 2"), folder=tmp_path / "r")
    axes, estimates = estimated(release, ["sex", "race", "occupation"])
    truth = true_counts(release, file, ["sex", "race", "occupation"], axes)
    matrix = release.manifest.mechanism_values[0].matrix.dense()
    inverse, n = np.linalg.inv(matrix), truth.sum()
    groups = [(inverse * (matrix @ x) @ inverse.T - np.diag(x)) / n**2 for x in truth.reshape(-1, len(matrix))]
    mean, variance = sum(np.trace(c) for c in groups), sum(2 * (c**2).sum() for c in groups)
    assert mean == pytest.approx(((inverse**2).sum() / len(matrix) - 1) / n)
    assert abs(distances(truth, estimates).l2 ** 2 - mean) < 6 * math.sqrt(variance)
    cube = cube_errors(truth, estimates)
    assert cube.by_columns[-1] == relative_errors(truth, estimates)
    assert cube.by_columns[0].mean == pytest.approx(0, abs=1e-9)
    assert cube.by_columns[1].mean < cube.by_columns[2].mean < cube.by_columns[3].mean


# --- bins of dates, merged values -------------------------------------------------------------------------------------

DATES = [dt.date(1969, 7, 20), dt.date(2024, 2, 29), None, dt.date(2024, 3, 31), dt.date(2024, 4, 1)] * 12
RECODED: dict[str, tuple[list[Any], str]] = {
    "years": (DATES, "bins = 'year'"),
    "quarters": (DATES, "bins = 'quarter'"),
    "months": (DATES, "bins = 'month'"),
    "between days": (DATES, "bins = { breaks = [1970-01-01, 2024-03-31] }"),
    "moments": ([d and dt.datetime(d.year, d.month, d.day, 23, 59) for d in DATES], "bins = 'month'"),
    "texts": (["COPD", "asthma", "flu", None] * 15, "merge = { respiratory = ['asthma', 'COPD', 'croup'] }"),
    "whole numbers": ([1, 2, 3, 30, None] * 12, "merge = { low = [1, 2] }"),
    "truth values": ([True, False, None, False] * 15, "merge = { yes = [true] }"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("role", ["other", "sensitive"])
@pytest.mark.parametrize("case", RECODED)
def test_recoded_columns(case: str, role: str, kind: str, tmp_path: Path) -> None:
    """The true table is given as it was before it was recoded, in other types than it was published from."""
    values, rule = RECODED[case]
    table = pa.table({"x": values, "s": ["a", "b"] * 30})
    rules = {"x": f"{role}; missing = 'category'; {rule}", "s": "other" if role == "sensitive" else "sensitive"}
    release = released(table, make_policy(rules, ALMOST_NO_NOISE), folder=tmp_path / "r")
    assert_estimates_are_the_truth(release, written(table, kind, tmp_path), ["x", "s"])
