"""Answers that were silently wrong: texts taken as numbers, NaN as a group, decimals in bins, large integers."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from sfumato.analyst.answer import NO_ROW
from sfumato.analyst.release import Release
from sfumato.cli.main import app
from sfumato.errors import PolicyError, TableError, UsageError
from sfumato.publisher.table import profile, scan
from sfumato.values.recoding import Bins
from sfumato.values.requirement import Amplification, LocalPrivacy, RhoPrivacy, Tolerance, exact
from tests.conftest import make_policy
from tests.engines.tools import released

N = 120
FORMATS = ["parquet", "csv"]


# --- conditions ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=FORMATS)
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Release:
    table = pa.table(
        {
            "age": [20 + k % 60 for k in range(N)],
            "sex": ["F", "M", None] * (N // 3),
            "mixed": ["?", *(str(k) for k in range(1, N))],
            "numbers": [str(k) for k in range(N)],
            "s": np.random.default_rng(0).choice(["a", "b"], N).tolist(),
        }
    )
    roles = {
        "age": "quasi_identifier; bins = { width = 10 }",
        "sex": "other; missing = 'category'",
        "mixed": "other",
        "numbers": "other",
        "s": "sensitive",
    }
    return released(table, make_policy(roles), folder=tmp_path_factory.mktemp("c") / "r", format=request.param)


@pytest.mark.parametrize(
    "where",
    ["age > 30", "30 < age", "age <> 5", "age IN (1, 2)", "age BETWEEN 3 AND 40", "NOT (age + 1 = 3)", "age > '30'",
     "age BETWEEN '30' AND '40'", "sex = 'F' AND age >= 30"],
)  # fmt: skip
def test_a_binned_column_is_not_compared_with_numbers(where: str, release: Release) -> None:
    with pytest.raises(UsageError, match="'age' is published in bins") as caught:
        release.count("s", where)
    assert "\"age\" IN ('[20, 30)', '[30, 40)'" in caught.value.hint


def test_bins_can_be_named(release: Release) -> None:
    assert release.count(where="age IN ('[30, 40)', '[40, 50)')").value.tolist() == [40]


@pytest.mark.parametrize(
    ("where", "match"),
    [
        ("sex <> 5", r"'sex' is text, and 80 row\(s\) hold no number there, e.g. 'F'"),
        ("sex > 1", r"'sex' is text, and 80 row\(s\)"),
        ("mixed < 10", r"'mixed' is text, and 1 row\(s\) hold no number there, e.g. '\?'"),
        ("numbers < 10 OR mixed = 3", "'mixed' is text"),
    ],
)
def test_text_that_is_no_number_is_not_compared_with_one(where: str, match: str, release: Release) -> None:
    with pytest.raises(UsageError, match=match) as caught:
        release.count("s", where)
    assert "in quotes" in caught.value.hint


def test_only_the_comparison_itself_counts(release: Release) -> None:
    assert release.count(where="(sex = 'F') = (numbers < 60)").value.tolist() == [60 // 3 + 60 // 3]


@pytest.mark.parametrize("by", [[], ["s"], ["sex"], ["sex", "s"]])
def test_a_condition_that_no_row_satisfies_says_so(by: list[str], release: Release) -> None:
    for method in ("inverse", "projected", "em"):
        answer = release.count(by, "sex = 'X'", method=method)  # type: ignore[arg-type]
        assert NO_ROW in answer.notes
        assert answer.value.tolist() == [0.0] * len(answer.value)
    assert NO_ROW not in release.count(by, "sex = 'F'").notes
    assert NO_ROW not in release.count(by).notes


@pytest.mark.parametrize("where", ["sex AND", "AND", "sex =", "NOT", "sex BETWEEN 'a'", "sex IN (", "'", "sex = 'F')"])
def test_an_unreadable_condition_is_told_in_plain_words(where: str, release: Release) -> None:
    with pytest.raises(UsageError) as caught:
        release.count(where=where)
    assert "class" not in caught.value.message
    assert "sqlglot" not in caught.value.message
    assert "SELECT" not in caught.value.message
    assert "Col:" not in caught.value.message
    assert not caught.value.message.endswith("..")


def test_a_function_that_is_not_allowed_is_named(release: Release) -> None:
    with pytest.raises(UsageError, match="GETENV is not allowed"):
        release.count(where="getenv('HOME') = 'x'")


# --- groups -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
def test_nan_is_one_group(format: str, tmp_path: Path) -> None:
    values = [math.nan, 1.5, None, -2.0, math.nan, -0.0, 0.0, 1.5] * 30
    table = pa.table({"x": pa.array(values), "s": np.random.default_rng(1).choice(["a", "b"], 240).tolist()})
    policy = make_policy({"x": "other; missing = 'category'", "s": "sensitive"})
    release = released(table, policy, folder=tmp_path / "r", format=format)
    plain = release.count("x")
    values = [v for (v,) in plain.groups]
    assert (values[:3], math.isnan(values[3]), values[4]) == ([-2.0, 0.0, 1.5], True, None)
    assert plain.value.tolist() == [30, 60, 60, 60, 30]
    both = release.count(["x", "s"])
    assert len(both.groups) == 10
    assert both.value.reshape(5, 2).sum(axis=1) == pytest.approx(plain.value)
    shown = CliRunner().invoke(app, ["estimate", str(tmp_path / "r"), "--by", "x,s", "--json"])
    rows = json.loads(shown.output, parse_constant=pytest.fail)["rows"]
    assert [row["x"] for row in rows][-4:] == ["nan", "nan", None, None]


# --- bins ---------------------------------------------------------------------------------------------------------


def slow_number(value: float, width: float, origin: float) -> int:
    return math.floor((Fraction(repr(value)) - Fraction(repr(origin))) / Fraction(repr(width)))


WIDTHS = [0.1, 0.05, 0.7, 0.3, 10.0, 1.0, 2.5, 0.125, 1e-3, 1e-7, 3e-20, 1e15, 0.1 + 0.2, 1 / 3]
ORIGINS = [0.0, 0.1, -0.3, 18.0, 1e9, -1e-9, 123456.789]


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(WIDTHS),
    st.sampled_from(ORIGINS),
    st.lists(st.tuples(st.integers(-(10**12), 10**12) | st.integers(-1000, 1000), st.integers(-3, 3)), min_size=1),
    st.lists(st.floats(-1e9, 1e9)),
)
def test_bins_are_those_of_decimal_arithmetic(
    width: float, origin: float, ends: list[tuple[int, int]], others: list[float]
) -> None:
    """At the ends of the bins, one or a few binary steps beside them, and anywhere."""
    values = list(others)
    for number, steps in ends:
        value = float(Fraction(repr(origin)) + number * Fraction(repr(width)))
        for _ in range(abs(steps)):
            value = math.nextafter(value, math.copysign(math.inf, steps))
        values.append(value)
    bins = Bins(width=width, origin=origin)
    array = np.array(values)
    array = array[bins.holds(array)]
    assert bins.numbers(array).tolist() == [slow_number(x, width, origin) for x in array.tolist()]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.string(), pa.decimal128(10, 2)])
def test_a_decimal_lies_in_the_bin_that_its_text_names(kind: Any, tmp_path: Path) -> None:
    texts = [f"{k / 100:.2f}" for k in range(500)]
    values = [Decimal(t) if pa.types.is_decimal(kind) else t if kind == pa.string() else float(t) for t in texts]
    table = pa.table({"x": pa.array(values, kind), "s": ["a", "b"] * 250})
    policy = make_policy({"x": "other; bins = { width = 0.05 }", "s": "sensitive"})
    release = released(table, policy, folder=tmp_path / "r", shuffle=False)
    expected = [f"[{float(low):g}, {float(low + Fraction(1, 20)):g})" for low in
                (Fraction(t) // Fraction(1, 20) * Fraction(1, 20) for t in texts)]  # fmt: skip
    assert release.to_arrow().column("x").to_pylist() == expected


# --- names and numbers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["estimate", "standard_error", "lower", "upper", "Upper"])
def test_a_column_named_like_a_result_is_refused(name: str) -> None:
    table = pa.table({name: ["x", "y"] * 30, "s": ["a", "b"] * 30})
    with pytest.raises(TableError, match=f"'{name}' is taken") as caught:
        scan(table, make_policy({name: "other", "s": "sensitive"}))
    assert "Rename" in caught.value.hint
    scan(table, make_policy({name: "identifier", "s": "sensitive"}))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("missing", [False, True])
def test_integers_above_the_signed_ones_stay_exact(format: str, missing: bool, tmp_path: Path) -> None:
    big = [2**64 - 1, 2**64 - 2, 3, None if missing else 2**63]
    table = pa.table({"x": ["u", "v"] * 200, "s": pa.array(big * 100, pa.uint64())})
    policy = make_policy({"x": "other", "s": "sensitive; missing = 'category'"})
    release = released(table, policy, folder=tmp_path / "r", format=format)
    assert set(release.to_arrow().column("s").to_pylist()) == set(big)
    assert [c.name for c in release.verify().checks if c.status == "fails"] == ["secret key"]
    answer = release.count("s")
    assert {v for (v,) in answer.groups} == set(big)
    assert answer.value.sum() == pytest.approx(400)


def test_declared_integers_must_fit_one_type() -> None:
    table = pa.table({"s": pa.array([1, 2**64 - 1] * 30, pa.uint64())})
    for domain in ("[-1, 18446744073709551615, 1]", f"['{10**30}', 1]"):
        with pytest.raises(PolicyError, match="no one type"):
            profile(scan(table, make_policy({"s": f"sensitive; domain = {domain}"})))


@pytest.mark.parametrize("gamma", ["1e400", "1e31", 10**40, "1e999999999", "1/1e-9"])
def test_an_absurdly_large_gamma_is_refused(gamma: Any) -> None:
    with pytest.raises(PolicyError) as caught:
        Amplification(gamma)
    assert caught.value.message
    with pytest.raises(PolicyError):
        Tolerance(gamma)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Amplification("1.00000000000000000001"),
        lambda: LocalPrivacy(1e-17),
        lambda: LocalPrivacy("1e-400"),
        lambda: Tolerance("1.00000000000000000001"),
        lambda: RhoPrivacy("0.5", "0.50000000000000000001"),
    ],
)
def test_a_requirement_too_close_to_pure_noise_is_refused(make: Any) -> None:
    with pytest.raises(PolicyError, match="so close to") as caught:
        make()
    assert caught.value.hint


def test_rho_with_an_absurd_gamma_is_refused() -> None:
    with pytest.raises(PolicyError, match="no protection at all"):
        RhoPrivacy("1e-40", 0.5)
    with pytest.raises(PolicyError, match="beyond all"):
        exact("1e-99999999999")
    assert exact("1e-300") == Fraction(1, 10**300)


@pytest.mark.parametrize("requirement", ["gamma = 1e30", "epsilon = 1e-12", "gamma = '1.0000000000001'"])
def test_large_and_small_requirements_that_can_be_computed(requirement: str, tmp_path: Path) -> None:
    table = pa.table({"s": ["a", "b", "c"] * 40})
    release = released(table, make_policy({"s": "sensitive"}, requirement), folder=tmp_path / "r")
    assert [c.name for c in release.verify().checks if c.status == "fails"] == ["secret key"]


# --- types of a CSV release, and messages -------------------------------------------------------------------------


DAYS = [dt.datetime(2020, 1, 1) + dt.timedelta(hours=6 * k) for k in range(N)]
TIMES: dict[str, tuple[pa.Array, str, int]] = {
    "decimal128": (pa.array([Decimal(k).scaleb(-1) for k in range(N)], pa.decimal128(10, 2)), "x < 10", 100),
    "timestamp": (pa.array(DAYS, pa.timestamp("us")), "x < '2020-01-03'", 8),
    "timestamp_s": (pa.array(DAYS, pa.timestamp("s")), "x < '2020-01-03'", 8),
    "timestamp_ns": (pa.array(DAYS, pa.timestamp("ns")), "x BETWEEN '2020-01-02' AND '2020-01-03'", 5),
    "timestamp_utc": (pa.array(DAYS, pa.timestamp("us", "UTC")), "x < '2020-01-03'", 8),
    "timestamp_zone": (pa.array(DAYS, pa.timestamp("ms", "Europe/Berlin")), "x < '2020-01-03'", 8),
    "time": (pa.array([(60 * k) % 86400 for k in range(N)], pa.time32("s")), "x < '01:00:00'", 60),
    "time_us": (pa.array([60_000_000 * k for k in range(N)], pa.time64("us")), "x >= '01:00:00'", 60),
    "date64": (pa.array([d.date() for d in DAYS], pa.date64()), "x < '2020-01-03'", 8),
}


@pytest.mark.parametrize("kind", TIMES)
def test_a_csv_release_is_typed_when_read(kind: str, tmp_path: Path) -> None:
    column, where, rows = TIMES[kind]
    table = pa.table({"x": column, "s": np.random.default_rng(2).choice(["a", "b"], N).tolist()})
    policy = make_policy({"x": "other", "s": "sensitive"})
    releases = [released(table, policy, folder=tmp_path / f, format=f, shuffle=False) for f in FORMATS]
    for release in releases:
        assert release.count(where=where).value.tolist() == [rows], release.manifest.columns
    assert len({release.count("x").groups for release in releases}) == 1


def test_messages_end_in_one_full_stop(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": list(range(1000)), "s": ["a", "b"] * 500}), tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    for length in (0, 3, 100, len(whole) // 2, len(whole) - 5):
        (tmp_path / "t.parquet").write_bytes(whole[:length])
        with pytest.raises(TableError) as caught:
            scan(tmp_path / "t.parquet", make_policy({"x": "other", "s": "sensitive"}))
        assert not caught.value.message.endswith("..")


def test_a_pandas_column_of_several_types_is_no_damaged_file() -> None:
    table = pd.DataFrame({"x": [1, "a"] * 30, "s": ["a", "b"] * 30})
    with pytest.raises(TableError) as caught:
        scan(table, make_policy({"x": "other", "s": "sensitive"}))
    assert "one type" in caught.value.hint
    assert "damaged" not in caught.value.hint


def test_missing_and_foreign_values_are_told_together() -> None:
    table = pa.table({"s": ["a", None, "z", "b"] * 30})
    with pytest.raises(TableError, match=r"missing in 30 row\(s\), first in row 2\..* 1 value\(s\) outside") as caught:
        profile(scan(table, make_policy({"s": "sensitive; domain = ['a', 'b']"})))
    assert "drop" in caught.value.hint
    assert "Add them" in caught.value.hint
