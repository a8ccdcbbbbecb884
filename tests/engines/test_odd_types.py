"""Columns of every type, in every role, format and method: each value is published as it was, or refused by name."""

from __future__ import annotations

import random
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sfumato.errors import CannotMeet, SfumatoError, UsageError
from tests.conftest import make_policy, slow
from tests.constants import set_constants
from tests.engines.tools import patients, released

ROWS = 60


def around(values: list[Any]) -> list[Any]:
    return [values[k % len(values)] for k in range(ROWS)]


def of_numbers(values: list[int], kind: Any, width: Any = None) -> Any:
    return pa.array(around(values), width or pa.int64()).cast(kind)


def coded(values: list[Any]) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(around(list(range(len(values)))), pa.int32()), pa.array(values))


COLUMNS = {
    "uint64": pa.array(around([2**63 + 5, 2**64 - 1, 7]), pa.uint64()),
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
}
METHODS = {
    "uniform": "rho1 = 0.3\nrho2 = 0.7",
    "anatomy": "l = 2",
    "small-domain": "rho1 = 0.3\nrho2 = 0.7",
    "subset": "rho1 = 0.3\nrho2 = 0.7",
}
ROLES = ("other", "quasi_identifier", "sensitive")
EVERY = list(product(COLUMNS, ROLES, ("parquet", "csv"), METHODS, (True, False)))


def published(column: Any, role: str, format: str, method: str, shuffle: bool | None, folder: Path) -> None:
    """Publish the column; what is untouched is compared with the original, row by row."""
    columns, roles = {"k": pa.array(range(ROWS)), "x": column}, {"k": "other", "x": role}
    if role != "sensitive":
        columns["s"], roles["s"] = pa.array(around(["a", "b", "c", "d"])), "sensitive"
    table, policy = pa.table(columns), make_policy(roles, METHODS[method], method)
    release = released(table, policy, folder=folder, format=format, shuffle=shuffle)
    found = release.to_arrow()
    assert found.num_rows == ROWS
    assert [c.name for c in release.verify().checks if c.status == "fails"] == ["secret key"]
    if role == "sensitive":
        return
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    due = dict(zip(range(ROWS), column.cast(kind).to_pylist(), strict=True))
    back = found["x"].cast(kind) if format == "parquet" or found["x"].type != pa.string() else found["x"]
    own = back.to_pylist() if back.type == kind else [str(value) for value in back.to_pylist()]
    due = due if back.type == kind else {k: str(value) for k, value in due.items()}
    assert dict(zip(map(int, found["k"].to_pylist()), own, strict=True)) == due


@pytest.mark.parametrize("cases", [60, slow(len(EVERY))])
def test_every_value_is_published_as_it_was(cases: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, "sfumato.engines", BATCH_ROWS=17)
    for number, (name, role, format, method, shuffle) in enumerate(random.Random(7).sample(EVERY, cases)):
        refused = "sensitive", True
        order = shuffle if method != "anatomy" else None
        try:
            published(COLUMNS[name], role, format, method, order, tmp_path / str(number))
        except CannotMeet:  # the table has too few values for the method
            assert role == "sensitive", (name, role, format, method, shuffle)
        except SfumatoError as problem:  # by the name of the column, before anything is written
            refused = role, "'x'" in problem.message
        assert refused == ("sensitive", True), (name, role, format, method, shuffle)


@pytest.mark.parametrize("format", ["parquet", "csv"])
@pytest.mark.parametrize("kind", REFUSED)
def test_what_could_not_be_read_back_is_refused_by_name(kind: str, format: str, tmp_path: Path) -> None:
    column, reason = REFUSED[kind]
    with pytest.raises(UsageError, match=f"'x' .*{reason}"):
        published(column, "other", format, "uniform", None, tmp_path / "r")
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("level", [0.9999999999999999, 1 - 2**-53])
def test_a_level_that_rounds_to_certainty_is_refused(level: float, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="confidence level must lie between 0 and 1"):
        released(patients(), folder=tmp_path / "r").count(by="disease", level=level)
