"""Columns of every type, in every role, format and method: each value is published as it was, or refused by name."""

from __future__ import annotations

import random
import time
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sfumato.errors import CannotMeet, SfumatoError, UsageError
from tests.conftest import make_policy
from tests.constants import set_constants
from tests.engines.tools import patients, released
from tests.faults.recorded import Suite, record

ROWS = 60


def around(values: list[Any]) -> list[Any]:
    return [values[k % len(values)] for k in range(ROWS)]


def of_numbers(values: list[int], kind: Any, width: Any = None) -> Any:
    return pa.array(around(values), width or pa.int64()).cast(kind)


def coded(values: list[Any]) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(around(list(range(len(values)))), pa.int32()), pa.array(values))


def _extended(kind: Any, values: list[Any], storage: Any) -> Any:
    return pa.ExtensionArray.from_storage(kind, pa.array(around(values), storage))


COLUMNS = {
    "uint64": pa.array(around([2**63 - 1, 2**63, 2**63 + 5, 2**64 - 1, 7]), pa.uint64()),
    "int8": pa.array(around([-128, 127, 0]), pa.int8()),
    "decimal128": pa.array(around([Decimal("12345678901234567890123456789012345.12"), Decimal("-0.01")])),
    "decimal256": pa.array(around([Decimal("123456.12"), Decimal("-0.01")]), pa.decimal256(30, 2)),
    "float": pa.array(around([0.1, 1e-320, -0.0, 1e308])),
    "half": pa.array(around([1.5, -2.5]), pa.float16()),
    "bool": pa.array(around([True, False])),
    "text": pa.array(around(["a", "b,\n", '"', "007", " "])),
    "large text": pa.array(around(["a", "b"]), pa.large_string()),
    "view": pa.array(around(["a", "b"]), pa.string_view()),
    "dictionary": coded(["x", "y"]),
    "dictionary with twins": coded(["x", "x", "y"]),
    "dictionary of twin numbers": coded([1, 1, 2]),
    "date": of_numbers([0, 2_932_896, -719_162], pa.date32(), pa.int32()),
    "time": pa.array(around([1, 86_399_999_999]), pa.time64("us")),
    "seconds": of_numbers([0, 253_402_300_799], pa.timestamp("s")),
    "nanoseconds": of_numbers([0, 10**18 + 1], pa.timestamp("ns")),
    "zone": of_numbers([0, 10**15], pa.timestamp("us", "Europe/Berlin")),
    "zone by its offset": of_numbers([0, 10**9], pa.timestamp("s", "+05:45")),
    "milliseconds": of_numbers([0, 86_399_999], pa.time32("ms"), pa.int32()),
    "day in milliseconds": of_numbers([0, 86_400_000], pa.date64()),
    "decimal32": pa.array(around([Decimal("1234567.89"), Decimal("-0.01")])).cast(pa.decimal32(9, 2)),
    "decimal64": pa.array(around([Decimal("1234567.89"), Decimal("-0.01")])).cast(pa.decimal64(18, 2)),
    "not a number": pa.array(around([float("nan"), 0.5, 0.25])),
    "both zeros": pa.array(around([0.0, -0.0, float("inf"), float("-inf")])),
    "single": pa.array(around([0.1, -1e-45, 3e38]), pa.float32()),
    "dictionary with a value that no row has": coded(["x", "y", "never"]).filter(pa.array([True] * ROWS)),
    "dictionary of small codes": coded(["x", "y"]).cast(pa.dictionary(pa.int8(), pa.string())),
    "dictionary of large text": coded(["x", "y"]).cast(pa.dictionary(pa.int32(), pa.large_string())),
    "dictionary of numbers": coded([2**40, -1]),
    "dictionary of truth": coded([True, False]),
    "text of every kind": pa.array(
        around(["\u0301e", "\u00e9", "e\u0301", "\U0001f600", "\u2028", "\ufeff", "=1", "'"])
    ),
    "long text": pa.array(around(["x" * 40_000, "y"])),
}
REFUSED = {
    "digits": (pa.array(around([Decimal("1" * 45), Decimal("0")]), pa.decimal256(50, 0)), "more than 38 digits"),
    "an unknown zone": (of_numbers([0, 1], pa.timestamp("us", "Mars/Olympus")), "time zone 'Mars/Olympus'"),
    "the year 10000": (of_numbers([0, 2_932_897], pa.date32(), pa.int32()), "after the year 9999"),
    "the year 0": (of_numbers([0, -719_163], pa.date32(), pa.int32()), "before the year 1"),
    "a date in milliseconds": (of_numbers([0, 86_400_000 * 2_932_897], pa.date64()), "after the year 9999"),
    "a far moment": (of_numbers([0, 2**50], pa.timestamp("s")), "after the year 9999"),
    "a far moment in a zone": (of_numbers([0, 2**52], pa.timestamp("ms", "UTC")), "after the year 9999"),
    "a list": (pa.array(around([[1], [2]])), "not published"),
    "bytes": (pa.array(around([b"a", b"b"])), "not published"),
    "a list of one length": (pa.array(around([[1, 2]]), pa.list_(pa.int8(), 2)), "not published"),
    "a struct": (pa.array(around([{"a": 1}])), "not published"),
    "a map": (pa.array(around([[("a", 1)]]), pa.map_(pa.string(), pa.int8())), "not published"),
    "a duration": (pa.array(around([1, 2]), pa.duration("s")), "not published"),
    "an interval": (pa.array(around([(1, 2, 3)]), pa.month_day_nano_interval()), "not published"),
    "runs": (pa.RunEndEncodedArray.from_arrays(pa.array([30, 60], pa.int32()), pa.array(["a", "b"])), "not published"),
    "identifiers": (_extended(pa.uuid(), [b"0" * 16, b"1" * 16], pa.binary(16)), "not published"),
    "truth in bytes": (_extended(pa.bool8(), [0, 1], pa.int8()), "not published"),
    "whole thousands": (pa.array(around([Decimal("1E+3")]), pa.decimal128(10, -3)), "its scale is negative"),
    "nothing": (pa.nulls(ROWS), "is missing in 60 row"),
}
METHODS = {
    "uniform": "rho1 = 0.3\nrho2 = 0.7",
    "anatomy": "l = 2",
    "small-domain": "rho1 = 0.3\nrho2 = 0.7",
    "subset": "rho1 = 0.3\nrho2 = 0.7",
    "randomized-response": "l = 2",
}
KEEP_ORDER = ("uniform", "small-domain", "subset")
ROLES = ("other", "quasi_identifier", "sensitive")
FORMATS = ("parquet", "csv")
EVERY = list(product(COLUMNS, ROLES, FORMATS, METHODS, (True, False)))
Case = tuple[str, str, str, str, bool]

ODD = Suite(
    "odd-types",
    "columns of every type (numbers of all widths, decimals, floats with NaN and both zeros, dates, times, zones, "
    "texts, dictionaries with twins and unused values), as other, quasi-identifier and secret, to Parquet and CSV, by "
    "five methods, in order and shuffled",
    "every value that is published as it is comes back as it was, row by row and to the bit, or the column is refused "
    "by its name with the reason",
    "pytest -m slow tests/engines/test_odd_types.py",
)


def published(column: Any, role: str, format: str, method: str, shuffle: bool | None, folder: Path) -> None:
    """Publish the column; what is untouched is compared with the original, row by row."""
    columns, roles = {"k": pa.array(range(ROWS)), "x": column}, {"k": "other", "x": role}
    if role != "sensitive":
        columns["s"], roles["s"] = pa.array(around(["a", "b", "c", "d"])), "sensitive"
    if method == "randomized-response":
        columns["q"], roles["q"] = pa.array(around(["p", "q"])), "quasi_identifier"
    table, policy = pa.table(columns), make_policy(roles, METHODS[method], method)
    release = released(table, policy, folder=folder, format=format, shuffle=shuffle)
    found = release.to_arrow()
    assert found.num_rows == ROWS
    assert [c.name for c in release.verify().checks if c.status == "fails"] == ["secret key"]
    if role == ("quasi_identifier" if method == "randomized-response" else "sensitive"):
        return  # what is randomized is another value
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    due = dict(zip(range(ROWS), column.cast(kind).to_pylist(), strict=True))
    back = found["x"].cast(kind) if format == "parquet" or found["x"].type != pa.string() else found["x"]
    told = _told if back.type == kind else str
    own = dict(zip(map(int, found["k"].to_pylist()), map(told, back.to_pylist()), strict=True))
    assert own == {k: told(value) for k, value in due.items()}


def _told(value: Any) -> Any:
    """Return what tells a value from every other: one that is no number is itself, and zero has a sign."""
    return value.hex() if isinstance(value, float) else value


def wrong(case: Case, folder: Path) -> str:
    """Publish a column; return what is wrong with how that ended."""
    name, role, format, method, shuffle = case
    try:
        published(COLUMNS[name], role, format, method, shuffle if method in KEEP_ORDER else None, folder)
    except CannotMeet:  # the table has too few values for the method
        return "" if role == "sensitive" or method == "randomized-response" else "refused for its counts"
    except SfumatoError as problem:  # by the name of the column, before anything is written
        may_be = role == "sensitive" or (role == "quasi_identifier" and method == "randomized-response")
        return "" if may_be and "'x'" in problem.message else problem.message
    except AssertionError as problem:
        return f"not as it was: {problem}"
    return ""


def drawn(name: str) -> list[Case]:
    """Return a case of this column in each format and in different roles, the same ones in every build."""
    draw = random.Random(name)
    roles = draw.sample(ROLES, len(FORMATS))
    methods = draw.choices(list(METHODS), k=len(FORMATS))
    return [(name, *case, draw.random() < 0.5) for case in zip(roles, FORMATS, methods, strict=True)]


FIXED = [
    *((name, role, "csv", "uniform", True) for name in ("dictionary with twins", "uint64") for role in ROLES),
    *(("dictionary of twin numbers", role, "csv", "anatomy", True) for role in ROLES),
    *(("uint64", role, "parquet", "uniform", False) for role in ROLES),
]
"""Where values or rows had been lost."""


@pytest.mark.parametrize("name", COLUMNS)
def test_every_value_is_published_as_it_was(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, "sfumato.engines", BATCH_ROWS=17)
    cases = {*drawn(name), *(case for case in FIXED if case[0] == name)}
    for number, case in enumerate(sorted(cases)):
        assert wrong(case, tmp_path / str(number)) == "", case


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("role", ROLES)
def test_a_file_does_not_tell_that_a_dictionary_had_twins(role: str, format: str, tmp_path: Path) -> None:
    twins = COLUMNS["dictionary with twins"]
    files = []
    for name, column in (("twins", twins), ("none", twins.cast(pa.string()).dictionary_encode())):
        table, roles = {"x": column}, {"x": role}
        if role != "sensitive":
            table["s"], roles["s"] = pa.array(around(["a", "b", "c", "d"])), "sensitive"
        release = released(pa.table(table), make_policy(roles), folder=tmp_path / name, format=format, shuffle=False)
        files.append(release.data.read_bytes())
    assert files[0] == files[1]


@pytest.mark.slow
def test_every_column_in_every_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, "sfumato.engines", BATCH_ROWS=17)
    began = time.monotonic()
    found = {case: wrong(case, tmp_path / str(number)) for number, case in enumerate(EVERY)}
    failed = {case: told for case, told in found.items() if told}
    record(ODD, len(EVERY), len(failed), time.monotonic() - began)
    assert failed == {}


@pytest.mark.parametrize("role", ["other", "quasi_identifier"])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", REFUSED)
def test_what_could_not_be_read_back_is_refused_by_name(kind: str, format: str, role: str, tmp_path: Path) -> None:
    column, reason = REFUSED[kind]
    with pytest.raises(UsageError, match=f"'x' .*{reason}"):
        published(column, role, format, "uniform", None, tmp_path / "r")
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("level", [0.9999999999999999, 1 - 2**-53])
def test_a_level_that_rounds_to_certainty_is_refused(level: float, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="confidence level must lie between 0 and 1"):
        released(patients(), folder=tmp_path / "r").count(by="disease", level=level)
