"""Parquet, and a small reader of its pages, with nothing but the format's specification.

A column chunk is a row of pages, each with a header in Thrift's compact protocol: field 2 is the size after, field 3
before decompression.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato.release.format import Carried, Format, Piece, Writer
from sfumato.values.arrow import as_numpy, from_numpy, is_text
from sfumato.values.mechanism import BETWEEN

ROW_GROUP = 1 << 19
"""Rows of a row group."""
LISTS_AT_ONCE = 1 << 12
"""Lists of a chunk, of which the writer makes levels at a time: a whole row group of them leaves the caches."""
STRUCT, LIST, BINARY, TRUE, FALSE, BYTE, DOUBLE = 12, 9, 8, 1, 2, 3, 7
SIZE, COMPRESSED, DATA_PAGE_V2 = 2, 3, 8
"""Fields of a page's header."""


class Parquet(Format):
    """A row group at a time. A file says which columns are complete: it is written a sixth faster, and read faster."""

    rows_at_once = ROW_GROUP
    numbers_rows = True
    tells = ("types", "metadata")

    def prepared(self, table: Any) -> Piece:
        """Return the table itself, its columns marked, and sets as lists."""
        columns = [
            as_lists(column.chunk(0)) if name in self.sets else column  # a table of rows has one chunk
            for name, column in zip(table.column_names, table.columns, strict=True)
        ]
        fields = [
            pa.field(f.name, c.type, f.name not in self.complete) for f, c in zip(table.schema, columns, strict=True)
        ]
        schema = pa.schema(fields)
        return Piece(schema, table.num_rows, pa.Table.from_arrays(columns, schema=schema))

    def writer(self, path: Path, schema: Any) -> Writer:
        """Begin a file."""
        return ParquetWriter(path, schema)

    @staticmethod
    def relation(files: str, names: Iterable[str]) -> str:
        """Return all columns; folders named x=y are none."""
        return f"read_parquet({files}, hive_partitioning = false)"

    @staticmethod
    def sql_type(arrow: str) -> None:
        """Return nothing: files have the types."""

    @staticmethod
    def carried(path: Path) -> Carried:
        """Return what the footer says."""
        try:
            with pq.ParquetFile(path) as file:
                schema, meta = file.schema_arrow, file.metadata
        except UnicodeDecodeError as problem:  # a name may be no text
            raise OSError(str(problem)) from None
        return Carried(schema.names, schema.types, meta.num_rows, sorted(meta.metadata or {}))

    @staticmethod
    def hidden(path: Path) -> Iterator[bytes]:
        """Give every page of every column, decompressed."""
        content = path.read_bytes()
        for chunk in chunks_of([path]):
            yield from _pages_of(content, chunk)

    @staticmethod
    def words(names: Sequence[str]) -> bytes:
        """Return a file with these columns and no row."""
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({name: pa.array([], pa.string()) for name in names}), sink)
        content: bytes = sink.getvalue().to_pybytes()
        return content


FORMAT = Parquet


# --- written ----------------------------------------------------------------------------------------------------------


def as_lists(column: Any) -> Any:
    """Return sets that are written as texts as lists of values, in chunks.

    Members are numbers of as few bytes as hold them: the writer takes twice as long with wider ones.
    """
    column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    sets = pc.split_pattern(column.dictionary, BETWEEN)
    values = sets.flatten().dictionary_encode()
    codes = as_numpy(values.indices).astype(np.min_scalar_type(len(values.dictionary)))
    starts, chosen = as_numpy(sets.offsets), as_numpy(column.indices)
    return pa.chunked_array(
        _lists(codes, starts, chosen[at : at + LISTS_AT_ONCE], values.dictionary)
        for at in range(0, chosen.size, LISTS_AT_ONCE)
    )


def _lists(codes: npt.NDArray[Any], starts: npt.NDArray[Any], chosen: npt.NDArray[Any], values: Any) -> Any:
    """Return the chosen sets; set s has the values numbered codes[starts[s] : starts[s + 1]]."""
    of_set = np.diff(starts)
    sizes = of_set[chosen]
    offsets = np.zeros(chosen.size + 1, dtype=np.int32)
    np.cumsum(sizes, out=offsets[1:])
    if (of_set == of_set[:1]).all():  # whole rows of a table of sets
        members = codes.reshape(of_set.size, -1).take(chosen, axis=0).ravel()
    else:
        members = codes[np.repeat(starts[chosen] - offsets[:-1], sizes) + np.arange(int(offsets[-1]))]
    return pa.ListArray.from_arrays(from_numpy(offsets), pa.DictionaryArray.from_arrays(from_numpy(members), values))


class ParquetWriter:
    """Dictionary pages for coded columns, delta encoding for integers, snappy: faster and smaller than the defaults.

    By default every column is first tried as a dictionary, and minima and maxima of text cost as much as writing it.
    Packed like this there is little left to compress: zstd would save 3% and take a fifth longer.
    """

    def __init__(self, path: Path, schema: Any) -> None:
        whole = [f.name for f in schema if _delta_encoded(f.type)]
        coded = [_path(f) for f in schema if f.name not in whole and not is_text(f.type)]
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

    def write(self, piece: Piece) -> None:
        """Append the rows as one row group."""
        self._writer.write_table(piece.content, row_group_size=ROW_GROUP)

    def close(self) -> Any:
        """Finish the file; the schema is as a reader sees it: Parquet has no seconds and no large text."""
        self._writer.close()
        return pq.read_schema(self._path)


def _path(field: Any) -> str:
    """Return how the writer calls the values of a column: those of a list have a path of their own."""
    return f"{field.name}.list.element" if pa.types.is_list(field.type) else str(field.name)


def _delta_encoded(kind: Any) -> bool:
    wide = pa.types.is_integer(kind) and kind.bit_width >= 32
    return bool(wide or pa.types.is_date32(kind) or pa.types.is_timestamp(kind))


def _has_bounds(kind: Any) -> bool:
    """Whether minima and maxima are written. NaN has no place in them: a reader who trusts them miscounts w < 3."""
    return not (pa.types.is_dictionary(kind) or is_text(kind) or pa.types.is_floating(kind) or pa.types.is_list(kind))


# --- pages ------------------------------------------------------------------------------------------------------------


class Thrift:
    """Reads structs of the compact protocol."""

    def __init__(self, content: bytes, at: int) -> None:
        self.content, self.at = content, at

    def varint(self) -> int:
        """Return an unsigned integer, seven bits a byte."""
        value, shift = 0, 0
        while True:
            byte = self.content[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def integer(self) -> int:
        """Return a signed integer (zigzag)."""
        raw = self.varint()
        return (raw >> 1) ^ -(raw & 1)

    def value(self, kind: int) -> Any:
        """Return a value of a type."""
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind == STRUCT:
            return self.struct()
        if kind == BINARY:
            size = self.varint()
            self.at += size
            return self.content[self.at - size : self.at]
        if kind == LIST:
            head = self.content[self.at]
            self.at += 1
            size = self.varint() if head >> 4 == 15 else head >> 4
            return [self.value(head & 15) for _ in range(size)]
        if kind in (BYTE, DOUBLE):
            self.at += 1 if kind == BYTE else 8
            return None
        return self.integer()

    def struct(self) -> dict[int, Any]:
        """Return a struct by the numbers of its fields."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self.content[self.at]:
            self.at += 1
            number = number + (head >> 4) if head >> 4 else self.integer()
            fields[number] = self.value(head & 15)
        self.at += 1
        return fields


ROOM = 1 << 29
"""Bytes of addresses that must be free for a database. With 456 MB one crashed: each of its threads reserves some."""


def check_room() -> None:
    """Raise MemoryError unless the system would give the process so much more (`ulimit -v`); nothing of it is kept.

    Asked before a database is opened, which crashes where there is none: nothing can be said after that.
    """
    try:
        mmap.mmap(-1, ROOM).close()
    except OSError:
        raise MemoryError from None


def without_wildcards(file: Path) -> str:
    """Return the whole path of a file for DuckDB, to which `*`, `?` and `[` mean others: here they mean themselves."""
    return re.sub(r"([*?[])", r"[\1]", str(file.absolute()))


class Chunk(NamedTuple):
    """A column of a row group: its path, how its pages are compressed, where they begin, and their bytes."""

    path: str
    codec: str
    dictionary: int | None
    data: int
    size: int


def chunks_of(files: Sequence[Path]) -> list[Chunk]:
    """Return the chunks of files. DuckDB reads their footers: Arrow ends the process if a footer is damaged."""
    names = "path_in_schema, compression, dictionary_page_offset, data_page_offset, total_compressed_size"
    query, paths = f"SELECT {names} FROM parquet_metadata(?)", [without_wildcards(file) for file in files]
    check_room()
    try:
        with duckdb.connect() as database:
            return [Chunk(*found) for found in database.execute(query, [paths]).fetchall()]
    except duckdb.Error as problem:
        raise OSError(str(problem).partition("\n")[0]) from None  # as Arrow would


def _pages_of(content: bytes, chunk: Chunk) -> Iterator[bytes]:
    start = chunk.data if chunk.dictionary is None else chunk.dictionary
    reader = Thrift(content, start)
    while reader.at < start + chunk.size:
        header = reader.struct()
        body = content[reader.at : reader.at + header[COMPRESSED]]
        yield _decompressed(body, header, chunk.codec.lower())
        reader.at += header[COMPRESSED]


def _decompressed(body: bytes, header: dict[int, Any], codec: str) -> bytes:
    """Return the content of a page; the levels of a page of version 2 are never compressed."""
    version2 = header.get(DATA_PAGE_V2)
    if codec == "uncompressed" or (version2 and not version2.get(7, True)):
        return body
    levels = version2[5] + version2[6] if version2 else 0
    content: bytes = pa.decompress(body[levels:], header[SIZE] - levels, codec, asbytes=True)
    return body[:levels] + content
