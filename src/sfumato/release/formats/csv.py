"""CSV: text, quoted where it must be."""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as pacsv

from sfumato.errors import TableError
from sfumato.release.format import Format, Piece, Writer
from sfumato.show.formulas import FORMULA, MARK, SIGNED_NUMBER, escaped
from sfumato.values.arrow import codes_of, from_numpy, from_text, is_text, nulls_of, take

LONGEST = 1_900_000
"""Bytes of a text: databases read lines of two million."""
LINES_AT_ONCE = 1 << 16
"""Lines of text that are joined at a time: an array of texts holds two gigabytes."""
SETS_AT_ONCE = 1 << 14
"""The same of lines with sets of values, which are long."""
NEEDS_QUOTES = '^$|[",\r\n]'
"""Fits a text that is quoted in a CSV file: an empty one, which would else be missing, and one with such a sign."""
SQL_TYPES = {
    "bool": "BOOLEAN",
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT",
    "uint8": "UTINYINT", "uint16": "USMALLINT", "uint32": "UINTEGER", "uint64": "UBIGINT",
    "halffloat": "REAL", "float": "REAL", "double": "DOUBLE", "date32[day]": "DATE", "date64[ms]": "DATE",
    "timestamp[s]": "TIMESTAMP_S", "timestamp[ms]": "TIMESTAMP_MS", "timestamp[us]": "TIMESTAMP",
    "timestamp[ns]": "TIMESTAMP_NS",
    "time32[s]": "TIME", "time32[ms]": "TIME", "time64[us]": "TIME", "time64[ns]": "TIME_NS",
}  # fmt: skip
"""How text is read, by the (Arrow) type in the manifest; see `Csv.sql_type` for those with numbers."""
LARGEST_DECIMAL = 38
"""Digits of a decimal that DuckDB holds."""


class Csv(Format):
    """RFC 4180: a header, quotes where needed, missing values empty.

    Quotes are around a value that needs them and no other: by what is quoted besides, a file would tell whether its
    source had quotes, and so of the true values.
    Columns that are runs (`wide`) are those of a file without quotes; text of such a file is written as it is.
    """

    rows_at_once = 0  # batches are written as they come: joining them would only copy text
    prepares_long = True
    takes_runs = True
    holds_formulas = True

    def __init__(
        self,
        complete: Collection[str] = (),
        wide: Mapping[str, tuple[str, ...]] | None = None,
        sets: Collection[str] = (),
        escapes: bool = False,
    ) -> None:
        super().__init__(complete, wide, sets, escapes)
        if sets:
            self.rows_at_once = SETS_AT_ONCE  # a whole batch of them would take hundreds of megabytes

    def prepared(self, table: Any) -> Piece:
        """Return the rows as text."""
        table = _escaped(table) if self.escapes else table
        fields = [f for column in table.schema for f in self._fields(column)]
        return Piece(pa.schema(fields), table.num_rows, list(self._texts(table)))

    def _texts(self, table: Any) -> Iterator[Any]:
        if self.wide:
            yield from map(_lines, table.to_batches(LINES_AT_ONCE))
        else:
            yield from _text(table)

    def _fields(self, column: Any) -> Iterator[Any]:
        """Give the fields of the file that a column of the table is written to."""
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        for name in self.wide.get(column.name, (column.name,)):
            yield pa.field(name, kind)

    def writer(self, path: Path, schema: Any) -> Writer:
        """Begin a file."""
        return CsvWriter(path, schema, self.escapes)

    @staticmethod
    def relation(files: str, names: Iterable[str]) -> str:
        """Return all columns as text; an empty one is missing, but for that in quotes."""
        texts = ", ".join(f"'{name.replace(chr(39), chr(39) * 2)}': 'VARCHAR'" for name in names)
        return (
            f"read_csv({files}, all_varchar = true, header = true, delim = ',', quote = '\"', escape = '\"', nullstr = "
            f"'', allow_quoted_nulls = false, hive_partitioning = false, auto_detect = false, columns = {{{texts}}})"
        )

    @staticmethod
    def sql_type(arrow: str) -> str:
        """Return the DuckDB type for the text of a column of this Arrow type; what it cannot hold stays text.

        >>> Csv.sql_type("decimal128(10, 2)"), Csv.sql_type("timestamp[us, tz=UTC]"), Csv.sql_type("decimal256(60, 2)")
        ('DECIMAL(10, 2)', 'TIMESTAMPTZ', 'VARCHAR')
        """
        decimal = re.fullmatch(r"decimal\d+\((\d+), (\d+)\)", arrow)
        if decimal and int(decimal[1]) <= LARGEST_DECIMAL and int(decimal[2]) <= int(decimal[1]):
            return f"DECIMAL({decimal[1]}, {decimal[2]})"
        if re.fullmatch(r"timestamp\[\w+, tz=.*\]", arrow):
            return "TIMESTAMPTZ"
        return SQL_TYPES.get(arrow, "VARCHAR")

    @staticmethod
    def header(path: Path, size: int) -> list[str]:
        """Return the first line; nothing if it is longer, or none."""
        with open(path, "rb") as file:
            text = file.read(size).decode(errors="replace")
        try:
            return next(csv.reader(io.StringIO(text, newline="")), [])
        except csv.Error:
            return []


FORMAT = Csv


class CsvWriter:
    """Writes lines of text after a header."""

    def __init__(self, path: Path, schema: Any, escapes: bool) -> None:
        self._file = open(path, "wb")  # noqa: SIM115
        self._schema = schema
        header = io.StringIO(newline="")
        csv.writer(header, lineterminator="\n").writerow(map(escaped, schema.names) if escapes else schema.names)
        self._file.write(header.getvalue().encode())

    def write(self, piece: Piece) -> None:
        """Append the rows."""
        for text in piece.content:
            self._file.write(text)

    def close(self) -> Any:
        """Finish the file; return the schema of its columns."""
        self._file.close()
        return self._schema


def _escaped(table: Any) -> Any:
    """Return the table with an apostrophe before formulas, as `show.formulas.escaped` puts it."""
    columns = [
        pa.chunked_array([_escaped_texts(chunk) for chunk in column.chunks])
        if is_text(column.type.value_type if pa.types.is_dictionary(column.type) else column.type)
        else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, names=table.schema.names)


def _escaped_texts(texts: Any) -> Any:
    if pa.types.is_dictionary(texts.type):
        return pa.DictionaryArray.from_arrays(texts.indices, _escaped_texts(texts.dictionary))
    texts = texts.cast(pa.string())
    is_formula = pc.and_not(pc.match_substring_regex(texts, FORMULA), pc.match_substring_regex(texts, SIGNED_NUMBER))
    marked = pc.binary_join_element_wise(MARK, texts, "")
    return pc.if_else(pc.or_(is_formula, pc.starts_with(texts, MARK)), marked, texts)


def _text(table: Any) -> Iterator[Any]:
    """Give the rows as text. Whether a value has quotes is told by itself, never by other values or by the source."""
    # Arrow quotes all text or none, and refuses "none" where a value needs quotes; most tables need none. Empty text
    # must be quoted, or it would be a missing value; a lone field too, or it would be an empty line.
    columns = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    plain = pa.Table.from_arrays(columns, names=table.schema.names)
    for name, column in zip(plain.column_names, plain.columns, strict=True):
        for chunk in column.chunks if is_text(column.type) else ():
            _check_length(name, chunk)
    if plain.num_columns == 1:
        yield _formatted(plain, "needed")
        return
    if not any(_has_empty_text(column) for column in plain.columns):
        with contextlib.suppress(pa.ArrowInvalid):
            yield _formatted(plain, "none")
            return
    for rows in plain.to_batches(LINES_AT_ONCE):
        fields = [_quoted_text(c) if is_text(c.type) else c.cast(pa.string()) for c in rows.columns]
        lines = pc.binary_join_element_wise(*fields, ",", null_handling="replace", null_replacement="")
        yield pc.binary_join_element_wise(lines, "", "\n").buffers()[2]


def _quoted_text(texts: Any) -> Any:
    """Return texts with quotes around those that need them, as `_quoted` does."""
    texts = texts.cast(pa.string())
    enclosed = pc.binary_join_element_wise('"', pc.replace_substring(texts, '"', '""'), '"', "")
    return pc.if_else(pc.match_substring_regex(texts, NEEDS_QUOTES), enclosed, texts)


def _formatted(table: Any, quoting: str) -> Any:
    sink = pa.BufferOutputStream()
    pacsv.write_csv(table, sink, pacsv.WriteOptions(include_header=False, quoting_style=quoting))
    return sink.getvalue()


def _lines(rows: Any) -> Any:
    """Return the rows of a batch as text, where no text but that of dictionaries needs quotes.

    All texts that occur are put in one pool, of which the lines are a selection: Arrow copies it in one go.
    """
    pool = _Pool(rows.num_rows)
    after_text = ""  # what has to follow a text, which comes with the next value of a dictionary where there is one
    ends = [*[","] * (rows.num_columns - 1), "\n"]
    for name, column, end in zip(rows.schema.names, rows.columns, ends, strict=True):
        if pa.types.is_dictionary(column.type):
            values = [*_quoted(column.dictionary.to_pylist()), ""]
            texts = from_text([after_text + value + end for value in values])
            pool.add(texts, codes_of(column, len(values) - 1))
            after_text = ""
        else:
            pool.add_constant(after_text)
            if is_text(column.type):
                _check_length(name, column)
            pool.add(column.cast(pa.string()), np.arange(rows.num_rows, dtype=np.int32))
            after_text = end
    pool.add_constant(after_text)
    return pool.joined()


class _Pool:
    """Texts, and for each row the places of those that make its line."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._texts: list[Any] = []
        self._places: list[npt.NDArray[np.int32]] = []
        self._size = 0

    def add(self, texts: Any, places: npt.NDArray[np.int32]) -> None:
        """Go on with one of these texts in every row."""
        self._texts.append(texts)
        self._places.append(places + np.int32(self._size))
        self._size += len(texts)

    def add_constant(self, text: str) -> None:
        """Go on with the same text in every row."""
        if text:
            self.add(from_text([text]), np.zeros(self._rows, dtype=np.int32))

    def joined(self) -> Any:
        """Return all lines, one after another."""
        places = from_numpy(np.stack(self._places, axis=1).ravel())
        return take(pa.concat_arrays(self._texts), places).buffers()[2]


def _quoted(values: list[str]) -> list[str]:
    return ['"' + v.replace('"', '""') + '"' if not v or set(v) & set('",\r\n') else v for v in values]


def _has_empty_text(column: Any) -> bool:
    return is_text(column.type) and any(_is_empty_somewhere(chunk) for chunk in column.chunks)


def _ends(texts: Any) -> npt.NDArray[Any]:
    """Return where texts begin and end in their buffer."""
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    return np.frombuffer(texts.buffers()[1], dtype=width)[texts.offset : texts.offset + len(texts) + 1]


def _check_length(name: str, texts: Any) -> None:
    """Raise if a text is so long that a reader of CSV, as databases are, would refuse the line."""
    if texts.nbytes > LONGEST and int(np.diff(_ends(texts)).max(initial=0)) > LONGEST:
        names = name.replace("\0", ", ")
        raise TableError(
            f"{names!r} holds a text of more than {LONGEST:,} bytes, which most programs do not read from CSV.",
            'Publish Parquet (output.format = "parquet"), or leave the column out.',
        )


def _is_empty_somewhere(texts: Any) -> bool:
    ends = _ends(texts)
    empty = ends[1:] == ends[:-1]
    nulls = nulls_of(texts)
    return bool((empty if nulls is None else empty & ~nulls).any())
