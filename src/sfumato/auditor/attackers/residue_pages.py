"""All that a Parquet file holds, decompressed: a small reader of pages, with nothing but the format's specification.

A column chunk is a row of pages, each with a header in Thrift's compact protocol: field 2 is the size after, field 3
before decompression.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

STRUCT, LIST, BINARY, TRUE, FALSE, BYTE, DOUBLE = 12, 9, 8, 1, 2, 3, 7
SIZE, COMPRESSED, DATA_PAGE_V2 = 2, 3, 8
"""Fields of a page's header."""


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


def pages(path: Path) -> Iterator[bytes]:
    """Give every page of every column, decompressed."""
    content, meta = path.read_bytes(), pq.read_metadata(path)
    for group in range(meta.num_row_groups):
        for number in range(meta.num_columns):
            yield from _pages_of(content, meta.row_group(group).column(number))


def _pages_of(content: bytes, chunk: Any) -> Iterator[bytes]:
    start = chunk.data_page_offset if chunk.dictionary_page_offset is None else chunk.dictionary_page_offset
    reader = Thrift(content, start)
    while reader.at < start + chunk.total_compressed_size:
        header = reader.struct()
        body = content[reader.at : reader.at + header[COMPRESSED]]
        yield _decompressed(body, header, chunk.compression.lower())
        reader.at += header[COMPRESSED]


def _decompressed(body: bytes, header: dict[int, Any], codec: str) -> bytes:
    """Return the content of a page; the levels of a page of version 2 are never compressed."""
    version2 = header.get(DATA_PAGE_V2)
    if codec == "uncompressed" or (version2 and not version2.get(7, True)):
        return body
    levels = version2[5] + version2[6] if version2 else 0
    content: bytes = pa.decompress(body[levels:], header[SIZE] - levels, codec, asbytes=True)
    return body[:levels] + content


def everything(path: Path) -> Iterator[bytes]:
    """Give the file as it is (headers, statistics, schema, footer), and all its pages decompressed."""
    yield path.read_bytes()
    if path.suffix == ".parquet":
        yield from pages(path)
