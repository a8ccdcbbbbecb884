"""Plain CSV is split as Python's csv module splits it, and copied runs of columns are what joining them would give."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.analyst.release import Release
from sfumato.engines.embedded import csv_lines, csv_source
from sfumato.engines.embedded.csv_lines import Layout, Span
from sfumato.errors import TableError
from sfumato.publisher.policy import Policy
from tests.conftest import make_policy
from tests.constants import set_constants
from tests.engines.tools import released, rows_of

FIELD = st.text(alphabet="ab 7é€;\t", max_size=5)


@st.composite
def plain_files(draw: Any) -> tuple[int, bytes]:
    """Give a number of fields and a file of such lines with all kinds of line ends, some of them empty.

    (Only the first line cannot end in a carriage return alone: such a file is not read as a plain one.)
    """
    fields = draw(st.integers(1, 4))
    ends = st.sampled_from(draw(st.sampled_from([["\n"], ["\r\n"], ["\r"], ["\n", "\r\n", "\r"]])))
    lines = ["head" + ",head" * (fields - 1)]
    for row in draw(st.lists(st.lists(FIELD, min_size=fields, max_size=fields), max_size=12)):
        lines += [""] * draw(st.integers(0, 1)) if fields > 1 else []
        lines.append(",".join(row))
    ended = [lines[0] + draw(st.sampled_from(["\n", "\r\n"])), *(line + draw(ends) for line in lines[1:])]
    if len(lines) > 1 and lines[-1] and draw(st.booleans()):
        ended[-1] = lines[-1]
    return fields, "".join(ended).encode()


def by_the_standard_library(text: bytes, fields: int) -> list[list[str]]:
    lines = io.StringIO(text.decode(), newline="")
    rows = list(csv.reader(lines, quoting=csv.QUOTE_NONE))[1:]
    return [row or [""] for row in rows] if fields == 1 else [row for row in rows if row]


def read(path: Path, layout: Layout) -> list[list[Any]]:
    batches = [rows for rows in csv_lines.batches(path, layout) if rows.num_rows]
    return [list(row) for rows in batches for row in zip(*[c.to_pylist() for c in rows.columns], strict=True)]


@settings(max_examples=150, deadline=None)
@given(file=plain_files(), stretch=st.integers(1, 60), piece=st.integers(1, 20))
def test_lines_are_split_as_the_standard_library_does(
    file: tuple[int, bytes], stretch: int, piece: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    fields, text = file
    path = tmp_path_factory.mktemp("plain") / "t.csv"
    path.write_bytes(text)
    expected = by_the_standard_library(text, fields)
    single = Layout(",", fields, {str(k): Span(k, k) for k in range(fields)})
    runs = {f"{a}-{b}": (a, b) for a in range(fields) for b in range(a, fields)}
    with pytest.MonkeyPatch.context() as patch:
        set_constants(patch, "sfumato.engines", STRETCH=stretch, PIECE=piece)
        assert read(path, single) == [[value or None for value in row] for row in expected]
        assert read(path, Layout(",", fields, {name: Span(a, b, False) for name, (a, b) in runs.items()})) == [
            [",".join(row[a : b + 1]) for a, b in runs.values()] for row in expected
        ]
        assert read(path, Layout(",", fields, {name: Span(a, b) for name, (a, b) in runs.items()})) == [
            [",".join(row[a : b + 1]) if all(row[a : b + 1]) else None for a, b in runs.values()] for row in expected
        ]


def test_a_carriage_return_alone_ends_a_line(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"a,b\n1,2\r3,4\r\n5,6\n7,8\r")
    assert read(tmp_path / "t.csv", Layout(",", 2, {"b": Span(1, 1)})) == [["2"], ["4"], ["6"], ["8"]]


@pytest.mark.parametrize("line", ["1,2", "1,2,3,4", "1", ",", "1,2,3\n1,2", "1,2,3,4\n1,2"])
def test_a_line_with_other_fields_is_refused(line: str, tmp_path: Path) -> None:
    """Also where two wrong lines together have the right number of fields."""
    (tmp_path / "t.csv").write_text(f"a,b,c\n1,2,3\n{line}\n1,2,3\n")
    with pytest.raises(pa.ArrowInvalid, match="3 fields"):
        read(tmp_path / "t.csv", Layout(",", 3, {"a": Span(0, 0)}))


# --- published --------------------------------------------------------------------------------------------------------

HEADER = ("id", "a", "b", "disease", "c", "d", "age", "e")
MISSING = {"a": "category", "b": "category", "c": "error", "d": "error", "e": "drop"}


POLICY = (
    "\n".join(f'[columns.{n}]\nrole = "other"\npublish_as_is = "-"\nmissing = "{m}"' for n, m in MISSING.items())
    + """
[columns.id]
role = "identifier"
[columns.disease]
role = "sensitive"
domain = ["flu", 'a "cold"', "gout, old"]
[columns.age]
role = "quasi_identifier"
bins = { width = 10 }
[method]
name = "uniform"
[requirement]
rho1 = 0.4
rho2 = 0.6
"""
)


def table_text(rows: Sequence[Sequence[str]]) -> str:
    return "".join(",".join(row) + "\n" for row in (HEADER, *rows))


def rows_with(count: int, **values: str) -> list[list[str]]:
    rows = []
    for k in range(count):
        row = {"id": f"p{k}", "a": f"a{k}", "b": "" if k % 3 else "b", "disease": "flu", "c": "c", "d": f"d {k % 4}"}
        row |= {"age": str(20 + k % 50), "e": "" if k % 5 == 0 else "é"} | (values if k == 7 else {})
        rows.append([row[name] for name in HEADER])
    return rows


def published(path: Path, folder: Path, format: str = "csv", more: str = "") -> Release:
    return released(path, Policy.parse(POLICY + more), folder=folder, format=format, shuffle=False)


def test_a_run_of_columns_is_published_as_its_columns_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copied in runs, taken apart, and as Parquet: the same rows, and quotes where values need them."""
    (tmp_path / "t.csv").write_text(table_text(rows_with(200)))
    wide = published(tmp_path / "t.csv", tmp_path / "wide")
    parquet = published(tmp_path / "t.csv", tmp_path / "parquet", "parquet")
    widths: list[int] = []
    monkeypatch.setattr(csv_source.CsvSource, "widened", lambda self, untouched: widths.append(len(untouched)) or self)
    narrow = published(tmp_path / "t.csv", tmp_path / "narrow")
    assert widths == [5]
    assert rows_of(wide) == rows_of(narrow) == rows_of(parquet)
    assert len(rows_of(wide)) == 160  # a missing e leaves the row out
    text = wide.data.read_text()
    assert text.splitlines()[0] == "a,b,disease,c,d,age,e"
    assert all(quoted in text for quoted in ('"gout, old",c,', '"a ""cold""",c,', ',"[20, 30)",'))
    assert [c.name for c in wide.manifest.columns] == [c.name for c in narrow.manifest.columns]
    assert not [check for check in wide.verify().checks if check.status == "fails" and check.name != "secret key"]


@pytest.mark.parametrize("column", ["c", "d"])
def test_a_missing_value_in_a_run_is_told_by_its_column(column: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(table_text(rows_with(20, **{column: ""})))
    with pytest.raises(TableError, match=rf"'{column}' is missing in 1 row\(s\), first in row 8"):
        published(tmp_path / "t.csv", tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_texts_that_mean_missing_in_a_plain_file(tmp_path: Path) -> None:
    """With a list of its own, a file is taken apart: NA becomes empty."""
    (tmp_path / "t.csv").write_text(table_text(rows_with(20, a="NA")))
    marked = published(tmp_path / "t.csv", tmp_path / "marked", more='[input]\nmissing_values = ["", "NA"]')
    plain = published(tmp_path / "t.csv", tmp_path / "plain")
    assert [row[0] for row in rows_of(marked)].count("(missing)") == 1
    assert [("NA" if row[0] == "(missing)" else row[0], *row[1:]) for row in rows_of(marked)] == rows_of(plain)


# --- carriage returns in values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["parquet", "csv"])
@pytest.mark.parametrize("kind", ["CSV", "CSV whose lines end so too", "Arrow"])
def test_a_carriage_return_in_a_value_comes_back(kind: str, format: str, tmp_path: Path) -> None:
    """A value is not cut there, nor is it another one: not `a`, and not `a\\nb`."""
    values, diseases = ["a\rb", "a\nb", "a\r\nb", "a", "b"] * 4, ["flu", "gout"] * 10
    table: Any = pa.table({"x": values, "disease": diseases})
    if kind != "Arrow":
        end = "\n" if kind == "CSV" else "\r"
        lines = ["x,disease", *(f'"{x}",{disease}' for x, disease in zip(values, diseases, strict=True))]
        table = tmp_path / "t.csv"
        table.write_bytes(end.join([*lines, ""]).encode())
    policy = make_policy({"x": "other", "disease": "sensitive"})
    release = released(table, policy, folder=tmp_path / "r", format=format, shuffle=False)
    assert release.to_arrow()["x"].to_pylist() == values
    assert [check.name for check in release.verify().checks if check.status == "fails"] == ["secret key"]
