"""Answers as files: CSV, JSON, Parquet and Arrow. A file is written whole or not at all, and never over another one."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato.errors import UsageError
from sfumato.show.formulas import escaped, is_formula

NUMBERS = ("estimate", "standard_error", "lower", "upper")
"""The figures of an answer; the columns before them say which group (and which figure) a row is about."""
METADATA_KEY = b"sfumato"
"""Under which Parquet and Arrow files hold the method, the target, the level and the notes, as JSON."""
NO_ESCAPE = "Leave out that formulas are escaped, or name a file that ends in .csv."
MUST_BE_QUOTED = frozenset(',"\r\n')

Chosen = TypeVar("Chosen")


def write_answer(table: Any, path: str | Path, about: Mapping[str, Any], escape_formulas: bool = False) -> None:
    """Write an answer; the suffix decides how. `about` has the keys method, target, level and notes."""
    path = Path(path)
    content = answer_bytes(table, path, about, escape_formulas)
    with new_file(path) as partial:
        partial.write_bytes(content)


def answer_bytes(table: Any, path: Path, about: Mapping[str, Any], escape_formulas: bool = False) -> bytes:
    """Return what `write_answer` writes to a file of this name."""
    content = by_suffix(path, CONTENTS)
    if escape_formulas and content is not _csv:
        raise UsageError(f"{path.name!r} is no CSV file: its text is never calculated.", NO_ESCAPE)
    for place, name in enumerate(table.column_names):
        # floats even where it has no value at all, and therefore no type; a quantile may be a text
        if name in NUMBERS and not pa.types.is_string(table.column(place).type):
            table = table.set_column(place, name, table.column(place).cast(pa.float64()))
    return _csv(table, about, escaped) if escape_formulas else content(table, about)


def formulas_in(table: Any, path: Path) -> list[str]:
    """Return the columns of an answer in a file of this name whose text a spreadsheet program would calculate."""
    if by_suffix(path, CONTENTS) is not _csv:
        return []
    columns = zip(table.column_names, map(_values, table.columns), strict=True)
    return [name for name, values in columns if any(map(_is_formula, [name, *values]))]


def _is_formula(value: object) -> bool:
    return isinstance(value, str) and is_formula(value)


def by_suffix(path: Path, known: Mapping[str, Chosen]) -> Chosen:
    for suffix, chosen in known.items():
        if path.name.lower().endswith(suffix):
            return chosen
    raise UsageError(f"{str(path)!r} ends in no known suffix.", f"Known are {', '.join(known)}.")


def check_new(path: Path) -> None:
    """Raise if a file cannot be new: it exists, or its folder does not."""
    if os.path.lexists(path):
        raise UsageError(f"{str(path)!r} exists already.", "Choose another name, or remove it.")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder {str(path.parent)!r} to write {path.name!r} to.", "Make it first.")


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Give a hidden name beside the file to write to, and rename it when all is written; leave nothing on failure."""
    check_new(path)
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        yield partial
        os.rename(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _csv(table: Any, about: Mapping[str, Any], written: Callable[[str], str] = str) -> bytes:
    """Return RFC 4180 text in UTF-8, its lines ended as in a release's data.csv; `written`: what becomes of texts."""
    rows = [table.column_names, *(row.values() for row in rows_of(table))]
    fields = ((_field(written(v) if isinstance(v, str) else v) for v in row) for row in rows)
    return "".join(",".join(row) + "\n" for row in fields).encode()


def document(table: Any, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `sfumato estimate --json` prints (docs/reference/json.md)."""
    rows = [{k: _finite(v) if k in NUMBERS else _jsonable(v) for k, v in row.items()} for row in rows_of(table)]
    return {**{key: value for key, value in about.items() if key != "notes"}, "rows": rows, "notes": about["notes"]}


def _json(table: Any, about: Mapping[str, Any]) -> bytes:
    return (json.dumps(document(table, about), indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _parquet(table: Any, about: Mapping[str, Any]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(_described(table, about), sink)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _arrow(table: Any, about: Mapping[str, Any]) -> bytes:
    sink = pa.BufferOutputStream()
    described = _described(table, about)
    with pa.ipc.new_file(sink, described.schema) as writer:
        writer.write_table(described)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


CONTENTS: dict[str, Callable[[Any, Mapping[str, Any]], bytes]] = {
    ".csv": _csv,
    ".json": _json,
    ".parquet": _parquet,
    ".arrow": _arrow,
}


# --- values -----------------------------------------------------------------------------------------------------------


def _described(table: Any, about: Mapping[str, Any]) -> Any:
    text = json.dumps(dict(about), ensure_ascii=False)
    return table.replace_schema_metadata({**(table.schema.metadata or {}), METADATA_KEY: text.encode()})


def rows_of(table: Any) -> list[dict[str, Any]]:
    columns = [_values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: Any) -> list[Any]:
    """Return a column's values; times with nanoseconds, which Python has not, as text."""
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = pc.replace_substring(column.cast(pa.string()), " ", "T")
    return column.to_pylist()  # type: ignore[no-any-return]


def _field(value: Any) -> str:
    """Return a field of a CSV line. An empty text is quoted: without quotes it would be a missing value."""
    text = _text(value)
    if value == "" or not MUST_BE_QUOTED.isdisjoint(text):
        return '"' + text.replace('"', '""') + '"'
    return text


def _text(value: Any) -> str:
    """Return a value in full precision: "" for a missing one, ISO 8601 for a date or a time."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _finite(figure: float | str | None) -> float | str | None:
    """Return a figure, which may be a text where it is a quantile; None for a number that JSON lacks."""
    return figure if isinstance(figure, str) or (figure is not None and math.isfinite(figure)) else None


def _jsonable(value: Any) -> Any:
    """Return the value of a group; what JSON lacks becomes text, so that NaN stays another group than the missing."""
    finite = not isinstance(value, float) or math.isfinite(value)
    return value if value is None or (finite and isinstance(value, bool | int | float | str)) else _text(value)
