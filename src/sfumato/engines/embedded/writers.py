"""Writing the published rows, Parquet or CSV, from clean tables."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv as pacsv

from sfumato.engines.arrow import codes_of, from_numpy, from_text, nulls_of, take
from sfumato.engines.embedded.following_hash import FollowingHash

ROW_GROUP = 1 << 19
"""Rows of a Parquet row group."""

LINES_AT_ONCE = 1 << 16
"""Lines of text that are joined at a time: an array of texts holds two gigabytes."""
NEEDS_QUOTES = '^$|[",\r\n]'
"""Fits a text that is quoted in a CSV file: an empty one, which would else be missing, and one with such a sign."""


@dataclass(frozen=True)
class Piece:
    """Rows ready to be written."""

    schema: Any
    rows: int
    content: Any


class Writer(Protocol):
    """Writes pieces one after another."""

    def write(self, piece: Piece) -> None:
        """Append the rows."""
        ...

    def close(self) -> tuple[Any, str]:
        """Finish the file; return the Arrow schema that a reader sees, and the file's sha256."""
        ...

    def abandon(self) -> None:
        """Let go of a file that will be removed."""
        ...


class Format(Protocol):
    """How rows are written. Tables have exactly `rows_at_once` rows (0: any number)."""

    rows_at_once: int
    prepares_long: bool  # whether `prepared` is worth a thread of its own

    def prepared(self, table: Any) -> Piece:
        """Return the rows of a clean table as they will be written."""
        ...

    def writer(self, path: Path, schema: Any) -> Writer:
        """Begin a file."""
        ...


class ParquetFormat:
    """Parquet, a row group at a time. `complete` are the columns without missing values, which a file can say: it is
    written a sixth faster, and read faster."""

    rows_at_once = ROW_GROUP
    prepares_long = False

    def __init__(self, complete: Collection[str] = ()) -> None:
        self._complete = complete

    def prepared(self, table: Any) -> Piece:
        """Return the table itself, its columns marked."""
        schema = pa.schema([f.with_nullable(f.name not in self._complete) for f in table.schema])
        return Piece(schema, table.num_rows, pa.Table.from_arrays(table.columns, schema=schema))

    def writer(self, path: Path, schema: Any) -> Writer:
        """Begin a file."""
        return ParquetWriter(path, schema)


class ParquetWriter:
    """Dictionary pages for coded columns, delta encoding for integers, snappy: faster and smaller than the defaults.

    By default every column is first tried as a dictionary, and minima and maxima of text cost as much as writing it.
    Packed like this there is little left to compress: zstd would save 3% and take a fifth longer.
    """

    def __init__(self, path: Path, schema: Any) -> None:
        whole = [f.name for f in schema if _delta_encoded(f.type)]
        coded = [f.name for f in schema if f.name not in whole and not _is_plain_text(f.type)]
        ordered = [f.name for f in schema if _has_bounds(f.type)]
        self._path = path
        self._writer = pq.ParquetWriter(
            path,
            schema,
            compression="snappy",
            store_schema=False,
            use_dictionary=coded or False,
            column_encoding=dict.fromkeys(whole, "DELTA_BINARY_PACKED") or None,
            write_statistics=ordered or False,
        )
        self._hash = FollowingHash(path)

    def write(self, piece: Piece) -> None:
        """Append the rows as one row group."""
        self._writer.write_table(piece.content, row_group_size=ROW_GROUP)
        self._hash.follow()

    def close(self) -> tuple[Any, str]:
        """Finish the file; the schema is as a reader sees it: Parquet has no seconds and no large text."""
        self._writer.close()
        return pq.read_schema(self._path), self._hash.finish()

    def abandon(self) -> None:
        """Let go of a file that will be removed."""
        with contextlib.suppress(OSError, pa.ArrowException):
            self._writer.close()
        self._hash.abandon()


class CsvFormat:
    """RFC 4180: a header, quotes where needed, missing values empty.

    Quotes are around a value that needs them and no other: by what is quoted besides, a file would tell whether its
    source had quotes, and so of the true values.
    `wide` says which columns are runs of columns of a file without quotes; text of such a file is written as it is.
    """

    rows_at_once = 0  # batches are written as they come: joining them would only copy text
    prepares_long = True

    def __init__(self, wide: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self._wide = wide or {}

    def prepared(self, table: Any) -> Piece:
        """Return the rows as text."""
        fields = [f for column in table.schema for f in self._fields(column)]
        return Piece(pa.schema(fields), table.num_rows, list(self._texts(table)))

    def _texts(self, table: Any) -> Iterator[Any]:
        if self._wide:
            yield from map(_lines, table.to_batches(LINES_AT_ONCE))
        else:
            yield from _text(table)

    def _fields(self, column: Any) -> Iterator[Any]:
        """Give the fields of the file that a column of the table is written to."""
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        for name in self._wide.get(column.name, (column.name,)):
            yield pa.field(name, kind)

    def writer(self, path: Path, schema: Any) -> Writer:
        """Begin a file."""
        return CsvWriter(path, schema)


class CsvWriter:
    """Writes lines of text after a header."""

    def __init__(self, path: Path, schema: Any) -> None:
        self._file = open(path, "wb")  # noqa: SIM115
        self._hash, self._schema = FollowingHash(path), schema
        header = io.StringIO(newline="")
        csv.writer(header, lineterminator="\n").writerow(schema.names)
        self._file.write(header.getvalue().encode())

    def write(self, piece: Piece) -> None:
        """Append the rows."""
        for text in piece.content:
            self._file.write(text)
        self._hash.follow()

    def close(self) -> tuple[Any, str]:
        """Finish the file; return the schema of its columns, and its hash."""
        self._file.close()
        return self._schema, self._hash.finish()

    def abandon(self) -> None:
        """Let go of a file that will be removed."""
        with contextlib.suppress(OSError):
            self._file.close()
        self._hash.abandon()


def _text(table: Any) -> Iterator[Any]:
    """Give the rows as text. Whether a value has quotes is told by itself, never by other values or by the source."""
    # Arrow quotes all text or none, and refuses "none" where a value needs quotes; most tables need none. Empty text
    # must be quoted, or it would be a missing value; a lone field too, or it would be an empty line.
    columns = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    plain = pa.Table.from_arrays(columns, names=table.schema.names)
    if plain.num_columns == 1:
        yield _formatted(plain, "needed")
        return
    if not any(_has_empty_text(column) for column in plain.columns):
        with contextlib.suppress(pa.ArrowInvalid):
            yield _formatted(plain, "none")
            return
    for rows in plain.to_batches(LINES_AT_ONCE):
        fields = [_quoted_text(c) if _is_plain_text(c.type) else c.cast(pa.string()) for c in rows.columns]
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
    for column, end in zip(rows.columns, ends, strict=True):
        if pa.types.is_dictionary(column.type):
            values = [*_quoted(column.dictionary.to_pylist()), ""]
            texts = from_text([after_text + value + end for value in values])
            pool.add(texts, codes_of(column, len(values) - 1))
            after_text = ""
        else:
            pool.add_constant(after_text)
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
    return _is_plain_text(column.type) and any(_is_empty_somewhere(chunk) for chunk in column.chunks)


def _is_empty_somewhere(texts: Any) -> bool:
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    ends = np.frombuffer(texts.buffers()[1], dtype=width)[texts.offset : texts.offset + len(texts) + 1]
    empty = ends[1:] == ends[:-1]
    nulls = nulls_of(texts)
    return bool((empty if nulls is None else empty & ~nulls).any())


def _delta_encoded(kind: Any) -> bool:
    wide = pa.types.is_integer(kind) and kind.bit_width >= 32
    return bool(wide or pa.types.is_date32(kind) or pa.types.is_timestamp(kind))


def _has_bounds(kind: Any) -> bool:
    """Whether minima and maxima are written. NaN has no place in them: a reader who trusts them miscounts w < 3."""
    return not (pa.types.is_dictionary(kind) or _is_plain_text(kind) or pa.types.is_floating(kind))


def _is_plain_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
