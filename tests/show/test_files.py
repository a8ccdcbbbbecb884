"""Answers as files: what is written is what is read back, with every type; whole or not at all."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv as pacsv
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli.main import app
from sfumato.errors import UsageError
from sfumato.show.files import NUMBERS, rows_of, write_answer
from tests.conftest import make_policy

INF, NAN = float("inf"), float("nan")
ABOUT = {"method": "inverse", "target": "table", "level": 0.95, "notes": ["Unbiased; “rare” groups."]}
SUFFIXES = (".csv", ".json", ".parquet", ".arrow")
VIENNA = dt.timezone(dt.timedelta(hours=1))
TIME = dt.datetime(2024, 2, 29, 23, 59, 59, 123456)

GROUPS = {
    "text": (pa.string(), ["flu", "", 'a "b", c\nd\r\ne', "(all)", "é 😀", None]),
    "integer": (pa.int64(), [0, -1, 2**63 - 1, 2**53 + 1, 1234567, None]),
    "number": (pa.float64(), [0.1, 1e300, -2.5e-9, NAN, 1 / 3, None]),
    "truth": (pa.bool_(), [True, False, True, False, True, None]),
    "date": (pa.date32(), [dt.date(2024, 2, 29), *[dt.date(1, 1, 1)] * 4, None]),
    "time": (pa.timestamp("us"), [TIME, *[dt.datetime(1970, 1, 1)] * 4, None]),
    "time in Vienna": (pa.timestamp("us", tz="+01:00"), [TIME.replace(tzinfo=VIENNA)] * 5 + [None]),
    "nano": (pa.timestamp("ns"), [np.datetime64("2024-01-02T03:04:05.000000006", "ns"), *[None] * 5]),
    "money": (pa.decimal128(9, 2), [Decimal("12.30"), *[Decimal("-0.05")] * 4, None]),
    "coded": (pa.dictionary(pa.int32(), pa.string()), ["x", "y", "x", "", "y", None]),
    "nothing": (pa.null(), [None] * 6),
}
FIGURES = {
    "estimate": [1234567.890123456, -38.6, 0.1 + 0.2, 0.0, 5e-324, None],
    "standard_error": [1.5, 2.5, None, None, INF, None],
    "lower": [1e6, -400.25, -INF, None, -INF, None],
    "upper": [2e6, 312.8, INF, None, 7.0, None],
}


def every_type() -> pa.Table:
    columns = {name: pa.array(values, kind) for name, (kind, values) in GROUPS.items()}
    columns["figure"] = pa.array(["count", "average of income"] * 3)
    return pa.table({**columns, **{name: pa.array(values, pa.float64()) for name, values in FIGURES.items()}})


def one_row(**columns: Any) -> pa.Table:
    numbers = dict.fromkeys(NUMBERS, 1.0)
    return pa.table({name: [value] for name, value in {**numbers, **columns}.items()})


# --- CSV --------------------------------------------------------------------------------------------------------------


def test_a_csv_file_by_hand(tmp_path: Path) -> None:
    table = pa.table(
        {
            "sex": ["F", None, "", 'say "x", y'],
            "since": pa.array([dt.date(2024, 1, 2), None, None, None]),
            "estimate": [1234567.5, -38.6, None, 0.0],
            "standard_error": [10.0, 0.1 + 0.2, None, None],
            "lower": [-INF, -39.0, None, None],
            "upper": [INF, 1e22, None, None],
        }
    )
    write_answer(table, tmp_path / "a.csv", ABOUT)
    assert (tmp_path / "a.csv").read_bytes().decode().split("\n") == [
        "sex,since,estimate,standard_error,lower,upper",
        "F,2024-01-02,1234567.5,10.0,-inf,inf",
        ",,-38.6,0.30000000000000004,-39.0,1e+22",
        '"",,,,,',
        '"say ""x"", y",,0.0,,,',
        "",
    ]


def test_arrow_reads_every_type_back_from_csv(tmp_path: Path) -> None:
    table = every_type()
    write_answer(table, tmp_path / "a.csv", ABOUT)
    types = {name: table.schema.field(name).type for name in table.column_names}
    read = pacsv.read_csv(
        tmp_path / "a.csv",
        parse_options=pacsv.ParseOptions(newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(
            column_types={**types, "coded": pa.string()},
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
            true_values=["true"],
            false_values=["false"],
            timestamp_parsers=[pacsv.ISO8601],
        ),
    )
    read = read.set_column(read.schema.get_field_index("coded"), "coded", read["coded"].dictionary_encode())
    assert same(read, table)


def test_python_reads_random_texts_back_from_csv(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    letters = list("ab ,;\"'\n\r\t=é\u2028")
    for case in range(200):
        texts = ["".join(rng.choice(letters, size=rng.integers(0, 6))) for _ in range(5)]
        values = rng.normal(size=5) * 10.0 ** rng.integers(-20, 20, size=5)
        table = pa.table({texts[0]: texts, **dict.fromkeys(NUMBERS, values)})
        file = tmp_path / f"{case}.csv"
        write_answer(table, file, ABOUT)
        header, *rows = csv.reader(io.StringIO(file.read_bytes().decode(), newline=""))
        assert header == table.column_names
        assert [row[0] for row in rows] == texts
        assert [[float(field) for field in row[1:]] for row in rows] == [[v] * 4 for v in values.tolist()]


# --- JSON -------------------------------------------------------------------------------------------------------------


def test_json_has_every_type(tmp_path: Path) -> None:
    write_answer(every_type(), tmp_path / "a.json", ABOUT)
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    document = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert list(document) == ["method", "target", "level", "rows", "notes"]
    assert {key: document[key] for key in ABOUT} == ABOUT
    assert document["rows"][0] == {
        "text": "flu",
        "integer": 0,
        "number": 0.1,
        "truth": True,
        "date": "2024-02-29",
        "time": "2024-02-29T23:59:59.123456",
        "time in Vienna": "2024-02-29T23:59:59.123456+01:00",
        "nano": "2024-01-02T03:04:05.000000006",
        "money": "12.30",
        "coded": "x",
        "nothing": None,
        "figure": "count",
        "estimate": 1234567.890123456,
        "standard_error": 1.5,
        "lower": 1e6,
        "upper": 2e6,
    }
    columns = {name: [row[name] for row in document["rows"]] for name in document["rows"][0]}
    assert columns["text"] == GROUPS["text"][1]
    assert columns["integer"] == GROUPS["integer"][1]
    assert columns["number"] == [0.1, 1e300, -2.5e-9, "nan", 1 / 3, None]  # NaN is a group, and not the missing one
    for name, values in FIGURES.items():
        assert columns[name] == [None if v is None or abs(v) == INF else v for v in values]


def test_nanoseconds_are_texts_for_python_has_none() -> None:
    assert rows_of(every_type())[0]["nano"] == "2024-01-02T03:04:05.000000006"


def test_json_is_what_the_command_line_prints(tmp_path: Path) -> None:
    table = pa.table({"sex": ["F", "M", None] * 100, "disease": ["flu", "HIV", "flu", "gout"] * 75})
    policy = make_policy({"sex": "quasi_identifier; missing = 'category'", "disease": "sensitive"})
    scanned = sf.scan(table, policy)
    release = sf.publish(scanned, sf.plan(sf.profile(scanned), policy.method, policy.requirement), tmp_path / "release")
    answer = release.count(["sex", "disease"])
    about = {key: getattr(answer, key) for key in ABOUT}
    write_answer(answer.to_arrow(), tmp_path / "a.json", about)
    printed = CliRunner().invoke(app, ["estimate", str(tmp_path / "release"), "--by", "sex,disease", "--json"]).stdout
    assert (tmp_path / "a.json").read_text() == printed
    assert len(answer.rows()) == 9


# --- Parquet and Arrow ------------------------------------------------------------------------------------------------


def read_back(file: Path) -> pa.Table:
    if file.suffix == ".parquet":
        return pq.read_table(file)
    with pa.ipc.open_file(file) as opened:
        return opened.read_all()


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_arrow_and_parquet_keep_types_values_and_what_it_is_about(tmp_path: Path, suffix: str) -> None:
    table = every_type().replace_schema_metadata({"mine": "kept"})
    write_answer(table, tmp_path / f"a{suffix}", ABOUT)
    read = read_back(tmp_path / f"a{suffix}")
    assert same(read, table)
    assert read.schema.metadata[b"mine"] == b"kept"
    assert json.loads(read.schema.metadata[b"sfumato"]) == ABOUT


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_figures_are_floats_even_where_none_can_be_given(tmp_path: Path, suffix: str) -> None:
    table = pa.Table.from_pylist([{"sex": "F", "estimate": 3.0, "standard_error": None, "lower": None, "upper": None}])
    assert table.schema.field("lower").type == pa.null()
    write_answer(table, tmp_path / f"a{suffix}", ABOUT)
    read = read_back(tmp_path / f"a{suffix}")
    assert [read.schema.field(name).type for name in NUMBERS] == [pa.float64()] * 4
    assert read.to_pylist() == table.to_pylist()


def same(read: pa.Table, table: pa.Table) -> bool:
    """Tables are equal by their texts too: NaN is not equal to itself."""
    assert read.schema.names == table.schema.names
    for name in table.column_names:
        assert read[name].type == table[name].type, name
        assert repr(read[name].cast(plain(table[name].type)).to_pylist()) == repr(
            table[name].cast(plain(table[name].type)).to_pylist()
        ), name
    return True


def plain(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_timestamp(kind) else kind


# --- whole or absent --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_answer_without_groups_or_rows(tmp_path: Path, suffix: str) -> None:
    write_answer(one_row(), tmp_path / f"one{suffix}", ABOUT)
    write_answer(one_row().slice(0, 0), tmp_path / f"none{suffix}", ABOUT)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([f"one{suffix}", f"none{suffix}"])
    if suffix == ".csv":
        assert (tmp_path / "none.csv").read_text() == "estimate,standard_error,lower,upper\n"
        assert (tmp_path / "one.csv").read_text() == "estimate,standard_error,lower,upper\n1.0,1.0,1.0,1.0\n"
    if suffix == ".json":
        assert json.loads((tmp_path / "none.json").read_text())["rows"] == []


def test_the_suffix_may_be_in_capitals_and_the_path_a_text(tmp_path: Path) -> None:
    write_answer(one_row(), str(tmp_path / "a.b.CSV"), ABOUT)
    assert (tmp_path / "a.b.CSV").read_text().startswith("estimate,")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_existing_file_is_refused_and_kept(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a{suffix}"
    file.write_text("mine")
    with pytest.raises(UsageError, match=r"exists already\.\nChoose another name, or remove it\."):
        write_answer(one_row(), file, ABOUT)
    assert file.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_to_nothing_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").symlink_to(tmp_path / "elsewhere.csv")
    with pytest.raises(UsageError, match="exists already"):
        write_answer(one_row(), tmp_path / "a.csv", ABOUT)


@pytest.mark.parametrize("name", ["a.xlsx", "a", "csv", "a.csv.gz"])
def test_an_unknown_suffix_is_refused_with_the_known_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=rf"'.*{name}'.*\nKnown are \.csv, \.json, \.parquet, \.arrow\."):
        write_answer(one_row(), tmp_path / name, ABOUT)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no folder"):
        write_answer(one_row(), tmp_path / "nowhere" / "a.csv", ABOUT)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("problem", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_nothing_stays_of_a_write_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, problem: BaseException
) -> None:
    def half(path: Path, content: bytes) -> None:
        with open(path, "wb") as file:
            file.write(content[: len(content) // 2])
        raise problem

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(type(problem)):
        write_answer(one_row(), tmp_path / f"a{suffix}", ABOUT)
    assert list(tmp_path.iterdir()) == []


def test_nothing_stays_of_a_rename_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(old: Path, new: Path) -> None:
        assert os.path.exists(old)
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "rename", refused)
    with pytest.raises(PermissionError):
        write_answer(one_row(), tmp_path / "a.csv", ABOUT)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_answer_gives_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    for name in ("a", "b"):
        write_answer(every_type(), tmp_path / f"{name}{suffix}", ABOUT)
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()
