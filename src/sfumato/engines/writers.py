"""Writing the published rows, Parquet or CSV, from clean tables."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv as pacsv

from sfumato.engines.arrays import nulls_of

ROW_GROUP = 1 << 19
"""Rows of a Parquet row group."""


@dataclass(frozen=True)
class Piece:
    """Rows ready to be written."""

    schema: Any
    rows: int
    content: Any


class Writer(Protocol):
    """Writes pieces one after another. Tables have exactly `rows_at_once` rows (0: any number)."""

    rows_at_once: int
    prepares_long: bool  # whether `prepared` is worth a thread of its own

    def __init__(self, path: Path, schema: Any) -> None:
        """Begin a file."""
        ...

    @staticmethod
    def prepared(table: Any) -> Piece:
        """Return the rows of a clean table as they will be written."""
        ...

    def write(self, piece: Piece) -> None:
        """Append the rows."""
        ...

    def close(self) -> tuple[Any, str]:
        """Finish the file; return the Arrow schema that a reader sees, and the file's sha256."""
        ...

    def abandon(self) -> None:
        """Let go of a file that will be removed."""
        ...


class ParquetWriter:
    """Dictionary pages for coded columns, delta encoding for integers, snappy: faster and smaller than the defaults.

    By default every column is first tried as a dictionary, and minima and maxima of text cost as much as writing it.
    Packed like this there is little left to compress: zstd would save 3% and take a fifth longer.
    """

    rows_at_once = ROW_GROUP
    prepares_long = False

    def __init__(self, path: Path, schema: Any) -> None:
        whole = [f.name for f in schema if _delta_encoded(f.type)]
        coded = [f.name for f in schema if f.name not in whole and not _is_plain_text(f.type)]
        ordered = [f.name for f in schema if not pa.types.is_dictionary(f.type) and not _is_plain_text(f.type)]
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

    @staticmethod
    def prepared(table: Any) -> Piece:
        """Return the table itself."""
        return Piece(table.schema, table.num_rows, table)

    def write(self, piece: Piece) -> None:
        """Append the rows as one row group."""
        self._writer.write_table(piece.content, row_group_size=ROW_GROUP)

    def close(self) -> tuple[Any, str]:
        """Finish the file; the schema is as a reader sees it: Parquet has no seconds and no large text."""
        self._writer.close()
        with open(self._path, "rb") as content:
            return pq.read_schema(self._path), hashlib.file_digest(content, "sha256").hexdigest()

    def abandon(self) -> None:
        """Let go of a file that will be removed."""
        with contextlib.suppress(OSError, pa.ArrowException):
            self._writer.close()


class CsvWriter:
    """RFC 4180: a header, quotes where needed, missing values empty."""

    rows_at_once = 0  # batches are written as they come: joining them would only copy text
    prepares_long = True

    def __init__(self, path: Path, schema: Any) -> None:
        self._file = open(path, "wb")  # noqa: SIM115
        self._hash, self._schema = hashlib.sha256(), schema
        header = io.StringIO(newline="")
        csv.writer(header, lineterminator="\n").writerow(schema.names)
        self._append(header.getvalue().encode())

    def _append(self, text: Any) -> None:
        self._file.write(text)
        self._hash.update(text)

    @staticmethod
    def prepared(table: Any) -> Piece:
        """Return the rows as text."""
        columns = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
        plain = pa.Table.from_arrays(columns, names=table.schema.names)
        return Piece(plain.schema, table.num_rows, _text(plain))

    def write(self, piece: Piece) -> None:
        """Append the rows."""
        self._append(piece.content)

    def close(self) -> tuple[Any, str]:
        """Finish the file; return the schema of its columns, and its hash."""
        self._file.close()
        return self._schema, self._hash.hexdigest()

    def abandon(self) -> None:
        """Let go of a file that will be removed."""
        with contextlib.suppress(OSError):
            self._file.close()


def _text(table: Any) -> Any:
    # Arrow quotes all text or none, and refuses "none" where a value needs quotes; most tables need none. Empty text
    # must be quoted, or it would be a missing value; a lone field too, or it would be an empty line.
    if table.num_columns > 1 and not any(_has_empty_text(column) for column in table.columns):
        with contextlib.suppress(pa.ArrowInvalid):
            return _formatted(table, "none")
    return _formatted(table, "needed")


def _formatted(table: Any, quoting: str) -> Any:
    sink = pa.BufferOutputStream()
    pacsv.write_csv(table, sink, pacsv.WriteOptions(include_header=False, quoting_style=quoting))
    return sink.getvalue()


WRITERS: dict[str, type[ParquetWriter] | type[CsvWriter]] = {"parquet": ParquetWriter, "csv": CsvWriter}


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


def _is_plain_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
