"""Missing values, bins, declared domains: from every kind of file, with what is wrong said with its rows."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv as pacsv

from sfumato.errors import PolicyError, SfumatoError, TableError
from sfumato.publisher.table import profile, scan
from tests.conftest import make_policy
from tests.engines.tools import read_by_spark, rows_of
from tests.engines.tools import released as released_in_any_order

released = partial(released_in_any_order, shuffle=False)  # also where the tables are periodic
N = 120
DISEASE = ["flu", "gout", None, "flu"] * (N // 4)
TOWN = ["Ulm", None, "Bonn"] * (N // 3)


def policy_of(disease: str = "error", town: str = "error", **keys: Any) -> Any:
    return make_policy({"town": f"other; missing = '{town}'", "disease": f"sensitive; missing = '{disease}'"}, **keys)


def written(table: pa.Table, kind: str, folder: Path) -> Any:
    if kind == "arrow":
        return table
    if kind == "pandas":
        return pd.DataFrame(table.to_pydict())
    if kind == "polars":
        return pl.DataFrame(table.to_pydict())
    if kind in ("parquet", "spark"):
        pq.write_table(table, folder / "t.parquet")
        return read_by_spark(folder / "t.parquet") if kind == "spark" else folder / "t.parquet"
    pacsv.write_csv(table, folder / "t.csv", pacsv.WriteOptions(quoting_style="none"))
    return folder / "t.csv"


@pytest.fixture(params=["arrow", "pandas", "polars", "parquet", "csv"])
def kind(request: pytest.FixtureRequest) -> str:
    """Give each kind of table; tests/spark/test_shared.py gives another one."""
    return str(request.param)


@pytest.mark.parametrize("disease", ["category", "drop"])
@pytest.mark.parametrize("town", ["category", "drop"])
def test_missing_values(kind: str, disease: str, town: str, tmp_path: Path) -> None:
    format = "parquet" if kind in ("csv", "pandas", "spark") else "csv"
    table = pa.table({"town": TOWN, "disease": DISEASE})
    may_lack = kind == "spark" and "drop" in (disease, town)  # files of a kept order would tell who is left out
    release = released_in_any_order(
        written(table, kind, tmp_path), policy_of(disease, town), folder=tmp_path / "r", format=format, shuffle=may_lack
    )
    expected = [
        t or "(missing)"
        for t, d in zip(TOWN, DISEASE, strict=True)
        if not (d is None and disease == "drop") and not (t is None and town == "drop")
    ]
    rows = rows_of(release)
    assert release.manifest.data.shuffled == may_lack
    assert Counter(t for t, _ in rows) == Counter(expected)
    assert [t for t, _ in rows] == expected or release.manifest.data.shuffled
    assert {d for _, d in rows} == {"flu", "gout"} | ({"(missing)"} if disease == "category" else set())
    assert release.manifest.domain.labels == ("flu", "gout", "(missing)")[: 3 if disease == "category" else 2]
    answer = release.count("disease")
    assert answer.value.sum() == pytest.approx(len(expected))
    assert [c.name for c in release.verify().checks if c.status == "fails"] == ["secret key"]


def test_missing_is_an_error_unless_its_meaning_is_said(kind: str, tmp_path: Path) -> None:
    table = written(pa.table({"town": TOWN, "disease": DISEASE}), kind, tmp_path)
    with pytest.raises(TableError, match=r"'disease' is missing in 30 row\(s\), first in row 3\.") as caught:
        profile(scan(table, policy_of()))
    assert "drop" in caught.value.hint
    with pytest.raises(TableError, match=r"'town' is missing in 40 row\(s\), first in row 2\.") as caught:
        released_in_any_order(table, policy_of("drop"), folder=tmp_path / "r")
    assert "drop" in caught.value.hint
    assert not (tmp_path / "r").exists()


def test_other_texts_can_mean_missing(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("town,disease\n" + 'Ulm,flu\nNA,gout\n"",NA\n,flu\n' * 30)
    policy = policy_of("drop", "category", extra='input = { missing_values = ["NA"] }')
    for format in ("parquet", "csv"):
        release = released(tmp_path / "t.csv", policy, folder=tmp_path / format, format=format)
        assert [t for t, _ in rows_of(release)] == ["Ulm", "(missing)", ""] * 30


def test_empty_text_is_a_value_in_a_csv_release_too(tmp_path: Path) -> None:
    table = pa.table({"town": ["", None, "x"] * 40, "disease": ["", "flu", None] * 40})
    policy = policy_of("category", "category")
    releases = [released(table, policy, folder=tmp_path / f, format=f) for f in ("parquet", "csv")]
    assert rows_of(releases[0]) == rows_of(releases[1])
    parquet, csv = (release.count(["town", "disease"]).groups for release in releases)
    assert parquet == csv
    assert {t for t, _ in rows_of(releases[1])} == {"", "(missing)", "x"}


def test_a_lone_column_with_gaps_in_csv(tmp_path: Path) -> None:
    table = pa.table({"disease": ["", None, 'say "a, b"\nc', "flu"] * 30})
    policy = make_policy({"disease": "sensitive; missing = 'category'"})
    releases = [released(table, policy, folder=tmp_path / f, format=f) for f in ("parquet", "csv")]
    assert rows_of(releases[0]) == rows_of(releases[1])


# --- bins ---------------------------------------------------------------------------------------------------------


AGES = [17, 18, 19.5, 64, 65, 120, -3, 0] * 15


def binned(rule: str, values: list[Any], kind: str, folder: Path, role: str = "other", missing: str = "error") -> Any:
    table = pa.table({"age": values, "s": ["a", "b"] * (len(values) // 2)})
    policy = make_policy({"age": f"{role}; bins = {rule}; missing = '{missing}'", "s": "sensitive"})
    return released(written(table, kind, folder), policy, folder=folder / "r")


def test_bins_between_breaks(kind: str, tmp_path: Path) -> None:
    rows = rows_of(binned("{ breaks = [18, 65] }", AGES, kind, tmp_path))
    assert [age for age, _ in rows[:8]] == [
        "< 18", "[18, 65)", "[18, 65)", "[18, 65)", ">= 65", ">= 65", "< 18", "< 18",
    ]  # fmt: skip


def test_bins_of_a_width(kind: str, tmp_path: Path) -> None:
    rows = rows_of(binned("{ width = 10, origin = 5 }", AGES, kind, tmp_path))
    assert [age for age, _ in rows[:8]] == [
        "[15, 25)", "[15, 25)", "[15, 25)", "[55, 65)", "[65, 75)", "[115, 125)", "[-5, 5)", "[-5, 5)",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_nan_is_missing_where_there_are_bins(kind: str, tmp_path: Path) -> None:
    values = [math.nan, 1.0, None, 25.0] * 30
    with pytest.raises(TableError, match=r"'age' is missing in 60 row\(s\), first in row 1\."):
        binned("{ width = 10 }", values, kind, tmp_path)
    (tmp_path / "drop").mkdir()
    rows = rows_of(binned("{ width = 10 }", values, kind, tmp_path / "drop", missing="drop"))
    assert [age for age, _ in rows] == ["[0, 10)", "[20, 30)"] * 30
    (tmp_path / "keep").mkdir()
    rows = rows_of(binned("{ width = 10 }", values, kind, tmp_path / "keep", missing="category"))
    assert [age for age, _ in rows[:4]] == ["(missing)", "[0, 10)", "(missing)", "[20, 30)"]


@pytest.mark.parametrize("bad", ["inf", "-inf", "nan", "twelve", "1 2"])
def test_a_text_without_a_finite_number_cannot_be_binned(bad: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age,s\n" + "1,a\n2,b\n" * 20 + f"{bad},a\n{bad},b\n")
    policy = make_policy({"age": "other; bins = { width = 10 }", "s": "sensitive"})
    with pytest.raises(TableError, match=rf"2 row\(s\) hold no finite number: '{bad}'; first in row 41\.") as caught:
        released(tmp_path / "t.csv", policy, folder=tmp_path / "r")
    assert caught.value.hint


@pytest.mark.parametrize("bad", [math.inf, -math.inf])
def test_an_infinite_number_cannot_be_binned(bad: float, tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"hold no finite number"):
        binned("{ breaks = [1] }", [1.0, bad] * 30, "arrow", tmp_path)


def test_decimals_are_binned(tmp_path: Path) -> None:
    values = pa.array([Decimal("9.99"), Decimal("10.00")] * 30)
    rows = rows_of(binned("{ width = 10 }", values, "arrow", tmp_path))
    assert [age for age, _ in rows[:2]] == ["[0, 10)", "[10, 20)"]


def test_a_sensitive_column_can_have_bins(kind: str, tmp_path: Path) -> None:
    """Breaks declare the domain, whether a row has the bin or not, and in the order of the numbers."""
    table = written(pa.table({"x": ["u"] * N, "pay": [100.0, 2000.0, 9.0] * (N // 3)}), kind, tmp_path)
    policy = make_policy({"x": "other", "pay": "sensitive; bins = { breaks = [10, 500, 5000] }"})
    release = released(table, policy, folder=tmp_path / "r")
    assert release.manifest.domain.labels == ("< 10", "[10, 500)", "[500, 5000)", ">= 5000")
    assert not release.manifest.observed_domains
    assert release.count("pay").value.sum() == pytest.approx(N)


def test_learned_bins_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    table = pa.table({"pay": [250.0, 1050.0, 50.0, -50.0] * 30})
    release = released(table, make_policy({"pay": "sensitive; bins = { width = 100 }"}), folder=tmp_path / "r")
    assert release.manifest.domain.labels == ("[-100, 0)", "[0, 100)", "[200, 300)", "[1000, 1100)")


# --- declared domains ---------------------------------------------------------------------------------------------


def test_integers_declared(kind: str, tmp_path: Path) -> None:
    """7 in the policy is 7 in a column of integers and in one of texts that are; unseen values are in the domain."""
    table = written(pa.table({"x": ["u"] * N, "grade": [10, 9, 7, 7] * (N // 4)}), kind, tmp_path)
    release = released(
        table, make_policy({"x": "other", "grade": "sensitive; domain = [7, 8, 9, 10]"}), folder=tmp_path / "r"
    )
    assert release.manifest.domain.labels == ("7", "8", "9", "10")
    assert {grade for _, grade in rows_of(release)} == {"7", "8", "9", "10"}
    assert [v for (v,) in release.count("grade").groups] == [7, 8, 9, 10]


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_truth_values(format: str, tmp_path: Path) -> None:
    table = pa.table({"x": ["u"] * N, "ill": [True, False, None, False] * (N // 4)})
    policy = make_policy({"x": "other", "ill": "sensitive; domain = [true, false]; missing = 'category'"})
    release = released(table, policy, folder=tmp_path / "r", format=format)
    assert release.count("ill").groups == ((True,), (False,), (None,))
    assert {ill for _, ill in rows_of(release)} == {"True", "False", "(missing)"}


def test_truth_values_of_a_csv_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("ill\n" + "true\nfalse\n" * 30)
    release = released(
        tmp_path / "t.csv", make_policy({"ill": "sensitive; domain = [true, false]"}), folder=tmp_path / "r"
    )
    assert release.manifest.domain.labels == ("true", "false")


@pytest.mark.parametrize("role", ["sensitive", "other"])
def test_a_value_outside_the_domain_is_named_counted_and_located(kind: str, role: str, tmp_path: Path) -> None:
    values = ["a", "b"] * 30 + ["odd", "queer", "odd", "a"]
    table = written(pa.table({"v": values, "s": ["x", "y"] * 32}), kind, tmp_path)
    roles = {"v": f"{role}; domain = ['a', 'b']", "s": "sensitive" if role == "other" else "other"}
    message = r"'v' has 2 value\(s\) outside its declared domain, in 3 row\(s\): 'odd', 'queer'; first in row 61\."
    with pytest.raises(TableError, match=message) as caught:
        released(table, make_policy(roles), folder=tmp_path / "r")
    assert "domain" in caught.value.hint
    assert not (tmp_path / "r").exists()


def test_a_number_without_a_finite_domain_is_refused(tmp_path: Path) -> None:
    table = pa.table({"pay": [1.5, 2.5] * 30})
    with pytest.raises(PolicyError, match="no finite domain") as caught:
        released(table, make_policy({"pay": "sensitive"}), folder=tmp_path / "r")
    assert "bins" in caught.value.hint


def test_a_domain_of_words_for_a_column_of_integers_is_refused(tmp_path: Path) -> None:
    table = pa.table({"grade": [1, 2] * 30})
    with pytest.raises(PolicyError, match="'grade' holds integers, but its declared domain has 'one'"):
        released(table, make_policy({"grade": "sensitive; domain = ['one', 'two']"}), folder=tmp_path / "r")


@pytest.mark.parametrize(
    ("kind", "declared", "published"),
    [(pa.int8(), "[1, 2, 3]", "int8"), (pa.uint16(), '"observed"', "uint16"), (pa.int8(), "[1, 2, 3, 300]", "int64")],
)
def test_a_sensitive_integer_keeps_its_type_where_that_holds_its_domain(
    kind: pa.DataType, declared: str, published: str, tmp_path: Path
) -> None:
    table = pa.table({"age": range(300), "code": pa.array([1 + k % 3 for k in range(300)], kind)})
    policy = make_policy({"age": "other", "code": f"sensitive; domain = {declared}"})
    release = released(table, policy, folder=tmp_path / "r", shuffle=False)
    assert str(pq.read_schema(release.data).field("code").type) == published
    assert [c.name for c in release.verify().checks if c.status == "fails"] == ["secret key"]


@pytest.mark.parametrize(("kind", "size"), [(pa.int8(), 128), (pa.uint8(), 256)])
def test_missing_values_beside_a_full_dictionary(kind: pa.DataType, size: int, tmp_path: Path) -> None:
    """The codes of the dictionary fill their type: a missing value needs one more."""
    codes = pa.array([None, *range(size), *range(size), *range(size), None], type=kind)
    table = pa.table({"job": pa.DictionaryArray.from_arrays(codes, [f"job {k:03d}" for k in range(size)])})
    asked = make_policy({"job": "sensitive; missing = 'category'"}, "epsilon = 3")
    assert released(table, asked, folder=tmp_path / "r").manifest.data.rows == 3 * size + 2


def test_a_column_that_is_nowhere_filled(tmp_path: Path) -> None:
    """Arrow gives it a type of its own, which keeps no bits of what is missing."""
    table = pa.table({"x": pa.nulls(N), "s": ["a", "b"] * (N // 2)})
    kept = released(table, make_policy({"x": "other; missing = 'category'", "s": "sensitive"}), folder=tmp_path / "r")
    assert kept.manifest.data.rows == N
    with pytest.raises(SfumatoError, match="no rows to publish"):
        released(table, make_policy({"x": "other; missing = 'drop'", "s": "sensitive"}), folder=tmp_path / "s")


@pytest.fixture
def hidden_nulls() -> pa.Table:
    """A table whose missing town is among the values of a dictionary, where no count of nulls sees it."""
    town = pa.DictionaryArray.from_arrays(pa.array([0, 1] * (N // 2)), pa.array([None, "Ulm"]))
    assert town.null_count == 0
    return pa.table({"town": town, "disease": ["flu", "gout", "flu"] * (N // 3)})


def test_a_null_among_the_values_of_a_dictionary_is_a_missing_value(hidden_nulls: pa.Table, tmp_path: Path) -> None:
    with pytest.raises(TableError, match=f"'town' is missing in {N // 2} row"):
        released(hidden_nulls, policy_of(), folder=tmp_path / "error")
    dropped = released(hidden_nulls, policy_of(town="drop"), folder=tmp_path / "drop")
    assert pq.read_table(dropped.data).column("town").to_pylist() == ["Ulm"] * (N // 2)
    kept = released(hidden_nulls, policy_of(town="category"), folder=tmp_path / "category")
    assert pq.read_table(kept.data).column("town").null_count == N // 2


@pytest.mark.parametrize("shuffle", [True, False])
def test_columns_that_cannot_miss_a_value_are_required_by_the_policy_alone(shuffle: bool, tmp_path: Path) -> None:
    """Whether a column is required in the file must not tell whether a value is missing in the table."""
    full = pa.table({"town": ["Ulm", "Bonn"] * (N // 2), "disease": ["flu", "gout", "flu"] * (N // 3)})
    for town, disease in (("error", "error"), ("category", "error"), ("drop", "category")):
        policy = policy_of(disease, town)
        release = released_in_any_order(full, policy, folder=tmp_path / f"{town}-{disease}", shuffle=shuffle)
        nullable = {field.name: field.nullable for field in pq.read_schema(release.data)}
        assert nullable == {"town": town == "category", "disease": disease == "category"}
