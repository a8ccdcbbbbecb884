"""The tables that can be read: Parquet, folders of Parquet, CSV (also gzipped), and anything that speaks Arrow.

CSV is read as text: 007 stays 007. Strings are read as dictionaries where the file has them, which is fast and small.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv as pacsv

from sfumato.engines.base import BATCH_ROWS, Batch, Source
from sfumato.errors import TableError, UsageError
from sfumato.policy import InputRule

CODED_TEXT = pa.dictionary(pa.int32(), pa.string())
CSV_BLOCK = 1 << 20
END = "\x1eend\x1e"
DAMAGE = (OSError, EOFError, zlib.error)  # what reading a damaged file raises
LARGEST_DICTIONARY = 1 << 19
"""Bytes of a Parquet dictionary above which a string column is read as plain strings (many distinct values)."""


def open_source(table: Any, rule: InputRule | None = None) -> Source:
    """Return a source for a path or for any object with `__arrow_c_stream__` (pandas, polars, DuckDB, pyarrow)."""
    if hasattr(table, "__arrow_c_stream__"):
        return ArrowSource(table)
    if not isinstance(table, str | Path):
        raise UsageError(
            f"A table is a path or an object that speaks Arrow, not a {type(table).__name__}.",
            "pandas, polars, DuckDB and pyarrow tables can be passed as they are.",
        )
    path = Path(table)
    if not path.exists():
        raise UsageError(f"There is no table {str(path)!r}.")
    if path.is_dir():
        return ParquetSource(_parquet_files(path), str(path))
    name = path.name.lower()
    if name.endswith((".csv", ".csv.gz")):
        return CsvSource(path, rule or InputRule())
    if name.endswith((".parquet", ".pq")):
        return ParquetSource([path], str(path))
    raise UsageError(
        f"{str(path)!r} is of a kind that is not read.",
        "Tables are .parquet, .csv, .csv.gz or folders of .parquet.",
    )


class ParquetSource:
    """One Parquet file, or several in the order of their names."""

    def __init__(self, files: Sequence[Path], description: str) -> None:
        self.description = description
        self.files = list(files)
        with _readable(description):
            footers = [pq.read_metadata(file) for file in self.files]  # not the files: a process may open few
            schemas = [footer.schema.to_arrow_schema() for footer in footers]
        for file, schema in zip(self.files, schemas, strict=True):
            if schema.names != schemas[0].names or schema.types != schemas[0].types:
                raise TableError(
                    f"{file.name!r} has other columns or types than {self.files[0].name!r}.",
                    "All files of a folder must have the same columns, in the same order and of the same types.",
                )
        self.names: list[str] = list(schemas[0].names)
        self.rows = sum(footer.num_rows for footer in footers)
        self._coded = [
            field.name
            for field in schemas[0]
            if _is_text(field.type) and all(_has_small_dictionary(footer, field.name) for footer in footers)
        ]
        with _readable(description):
            self._schema = self._open(self.files[0]).schema_arrow

    def _open(self, file: Path) -> pq.ParquetFile:
        # streaming column chunks in small buffers keeps memory independent of the size of the row groups
        return pq.ParquetFile(
            file,
            read_dictionary=self._coded,
            pre_buffer=False,
            buffer_size=1 << 18,
            page_checksum_verification=True,  # where the file has checksums
        )

    def column_type(self, name: str) -> Any:
        """Return the Arrow type under which a column is read."""
        return self._schema.field(name).type

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Yield all rows with these columns."""
        for number, path in enumerate(self.files):
            with _readable(str(path)):
                file, start = self._open(path), 0
                for rows in file.iter_batches(BATCH_ROWS, columns=list(columns), use_threads=False):
                    yield Batch(number, start, rows)
                    start += rows.num_rows
                    del rows  # else it lives on while the next one is read

    def fingerprint(self) -> str:
        """Return a sha256 over the bytes of the files, in their order."""
        return _hash_files(self.files)


class CsvSource:
    """A CSV file with a header, read as text."""

    def __init__(self, path: Path, rule: InputRule) -> None:
        self.path, self.rule, self.description = path, rule, str(path)
        self.names, self._header_lines = self._header()

    def _header(self) -> tuple[list[str], int]:
        """Return the column names and the number of lines that they take (a quoted name may hold a line break)."""
        try:
            with self._text() as lines:
                reader = csv.reader(lines, delimiter=self.rule.delimiter)
                header = next(reader, None)
        except UnicodeDecodeError:
            raise self._not_utf8() from None
        except (*DAMAGE, csv.Error) as problem:
            raise TableError(f"{self.description!r} cannot be read: {problem}.") from None
        if not header:
            raise TableError(f"{self.description!r} is empty: it has no header line.")
        return header, reader.line_num

    @cached_property
    def _is_plain(self) -> bool:
        """Whether every line is a row: without any quote no value holds a line break, and Arrow reads twice as fast."""
        if self.path.suffix.lower() == ".gz" or self._header_lines != 1:
            return False
        with self._bytes() as raw:
            has_lines = raw.readline().endswith(b"\n")
            return has_lines and not any(b'"' in piece for piece in iter(lambda: raw.read(CSV_BLOCK), b""))

    def _bytes(self) -> BinaryIO:
        return cast(BinaryIO, gzip.open(self.path) if self.path.suffix.lower() == ".gz" else open(self.path, "rb"))

    def _text(self) -> TextIO:
        return io.TextIOWrapper(self._bytes(), encoding="utf-8-sig", newline="")

    def column_type(self, name: str) -> Any:
        """Return text, whatever the column holds."""
        return pa.string()

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Yield all rows with these columns."""
        if len(set(self.names)) < len(self.names):
            raise TableError(f"{self.description!r} has a column name more than once.", "Rename or drop one.")
        start = 0
        try:
            for rows in self._lines(columns) if self._is_plain else self._quoted(columns):
                if rows.num_rows:
                    yield Batch(0, start, _blank_as_null(rows) if self._only_blank_is_missing else rows)
                    start += rows.num_rows
        except (pa.ArrowException, *DAMAGE) as problem:
            raise self._diagnosed(problem) from None

    def _lines(self, columns: Sequence[str]) -> Iterator[Any]:
        """Read a file whose every line is a row."""
        return iter(pacsv.open_csv(str(self.path), self._reading(), self._parsing(False), self._converting(columns)))

    def _quoted(self, columns: Sequence[str]) -> Iterator[Any]:
        """Read a file whose values may hold line breaks; its last row must be the one that `_Ended` adds."""
        content = pa.input_stream(str(self.path), compression="gzip" if self.path.suffix.lower() == ".gz" else None)
        ended = pa.PythonFile(_Ended(content, self.rule.delimiter.join([END] * len(self.names))), mode="r")
        held = None
        for rows in pacsv.open_csv(ended, self._reading(), self._parsing(True), self._converting(columns)):
            if held is not None:
                yield held
            held = rows if rows.num_rows else held
        if held is None or any(column[-1].as_py() != END for column in held.columns):
            raise pa.ArrowInvalid("its end is not the end of a row")
        yield held.slice(0, held.num_rows - 1)

    def _reading(self) -> Any:
        return pacsv.ReadOptions(block_size=CSV_BLOCK, column_names=self.names, skip_rows=self._header_lines)

    def _parsing(self, line_breaks: bool) -> Any:
        return pacsv.ParseOptions(
            delimiter=self.rule.delimiter, newlines_in_values=line_breaks, ignore_empty_lines=len(self.names) > 1
        )

    def _converting(self, columns: Sequence[str]) -> Any:
        return pacsv.ConvertOptions(
            column_types=dict.fromkeys(self.names, pa.string()),
            include_columns=list(columns),
            null_values=list(self.rule.missing_values),
            strings_can_be_null=not self._only_blank_is_missing,
            quoted_strings_can_be_null=True,
        )

    @property
    def _only_blank_is_missing(self) -> bool:
        """The usual case: Arrow's own search for texts that mean missing takes longer than reading the file."""
        return self.rule.missing_values == ("",)

    def _diagnosed(self, problem: Exception) -> TableError:
        """Read the file again, slowly, to name the line."""
        last = 1
        try:
            with self._text() as lines:
                reader = csv.reader(lines, delimiter=self.rule.delimiter, strict=True)
                for fields in reader:
                    if fields and len(fields) != len(self.names):
                        return TableError(
                            f"{self.description!r}, line {reader.line_num}: {len(fields)} fields instead of "
                            f"{len(self.names)}.",
                            "Mend the line; a field that holds the delimiter or a line break must be quoted.",
                        )
                    last = reader.line_num
        except UnicodeDecodeError:
            return self._not_utf8()
        except csv.Error as broken:
            what = "a quote is never closed" if "end of data" in str(broken) else broken
            return TableError(f"{self.description!r}, line {last + 1}: {what}.", "Mend the line.")
        except DAMAGE as broken:
            return TableError(f"{self.description!r} is damaged after line {last}: {broken}.")
        return TableError(f"{self.description!r} cannot be read: {problem}.")

    def _not_utf8(self) -> TableError:
        with self._bytes() as raw:
            line = next(n for n, text in enumerate(raw, start=1) if not _is_utf8(text))
        return TableError(f"{self.description!r}, line {line}: not UTF-8 text.", "Convert the file to UTF-8 first.")

    def fingerprint(self) -> str:
        """Return a sha256 over the bytes of the file."""
        return _hash_files([self.path])


def _blank_as_null(rows: Any) -> Any:
    """Return text columns with empty texts as nulls, found by their lengths."""
    return pa.RecordBatch.from_arrays([_column_blank_as_null(c) for c in rows.columns], names=rows.schema.names)


def _column_blank_as_null(column: Any) -> Any:
    ends = np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    blank = ends[1:] == ends[:-1]
    if not blank.any():
        return column
    valid = np.packbits(np.concatenate([np.zeros(column.offset, dtype=np.bool_), ~blank]), bitorder="little")
    buffers = [pa.py_buffer(valid), *column.buffers()[1:]]
    return pa.Array.from_buffers(pa.string(), len(column), buffers, offset=column.offset)


class _Ended:
    """A file followed by one more row, whose loss tells that a quote was never closed.

    Arrow takes such a quote to run to the end of the file: all rows that follow, identifiers included, would become
    one value of the last column.
    """

    closed = False

    def __init__(self, content: Any, row: str) -> None:
        self._content, self._end, self._last = content, row.encode(), b"\n"

    def read(self, size: int) -> bytes:
        """Return the next bytes of the file, at last the row."""
        piece: bytes = self._content.read(size)
        if piece:
            self._last = piece[-1:]
            return piece
        end, self._end = self._end, b""
        return end if not end or self._last in (b"\n", b"\r") else b"\n" + end

    def close(self) -> None:
        """Close the file."""
        self._content.close()
        self.closed = True


class ArrowSource:
    """A table in memory that speaks Arrow."""

    def __init__(self, table: Any) -> None:
        self.description = f"a {type(table).__module__.split('.')[0]} table"
        with _readable(self.description):
            given = pa.table(table)
            self._table = pa.table([_with_plain_text(c) for c in given.columns], names=given.column_names)
        self.names: list[str] = list(self._table.column_names)

    def column_type(self, name: str) -> Any:
        """Return the Arrow type under which a column is read."""
        return self._table.schema.field(name).type

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Yield all rows with these columns."""
        start = 0
        for rows in self._table.select(list(columns)).to_batches(max_chunksize=BATCH_ROWS):
            if rows.num_rows:
                yield Batch(0, start, rows)
                start += rows.num_rows

    def fingerprint(self) -> str:
        """Return a sha256 over the content, whatever its chunks are."""
        digest = hashlib.sha256()
        sink = pa.BufferOutputStream()
        plain = pa.table([_decoded(column) for column in self._table.columns], names=self.names)
        with pa.ipc.new_stream(sink, plain.schema) as writer:
            writer.write_table(plain.combine_chunks())
        digest.update(sink.getvalue())
        return digest.hexdigest()


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _with_plain_text(column: Any) -> Any:
    """Return a dictionary of views or large text as one of text (Arrow itself cannot); any other column as it is."""
    kind = column.type
    if not pa.types.is_dictionary(kind) or not (
        pa.types.is_string_view(kind.value_type) or pa.types.is_large_string(kind.value_type)
    ):
        return column
    chunks = [
        pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(pa.string())) for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, pa.dictionary(kind.index_type, pa.string()))


def _decoded(column: Any) -> Any:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _parquet_files(folder: Path) -> list[Path]:
    below = {f: f.relative_to(folder).parts for f in folder.rglob("*.parquet")}
    files = sorted(f for f, parts in below.items() if not any(p.startswith((".", "_")) for p in parts))
    if not files:
        raise UsageError(f"The folder {str(folder)!r} holds no .parquet file.")
    if any("=" in part for f in files for part in below[f][:-1]):
        raise UsageError(
            f"The folder {str(folder)!r} has columns in its folder names (name=value).",
            "Write such a table to plain Parquet files first; folder names are not read.",
        )
    return files


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _has_small_dictionary(footer: Any, name: str) -> bool:
    """Whether every row group has a dictionary that did not overflow (only flat columns come here)."""
    for group in range(footer.num_row_groups):
        meta = footer.row_group(group)
        chunk = next((c for c in (meta.column(k) for k in range(meta.num_columns)) if c.path_in_schema == name), None)
        if chunk is None or not chunk.has_dictionary_page or chunk.dictionary_page_offset is None:
            return False
        if chunk.data_page_offset - chunk.dictionary_page_offset > LARGEST_DICTIONARY:
            return False
    return True


@contextmanager
def _readable(description: str) -> Iterator[None]:
    """Turn what Arrow says of a broken file into an error of ours."""
    try:
        yield
    except (pa.ArrowException, OSError) as problem:
        first = str(problem).splitlines()[0]
        raise TableError(
            f"{description!r} cannot be read: {first}.", "The file is damaged or not of its kind."
        ) from None


def _hash_files(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        with open(file, "rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()
