"""All that a Parquet file holds, decompressed: a small reader of pages, with nothing but the format's specification.

A column chunk is a row of pages, each with a header in Thrift's compact protocol: field 2 is the size after, field 3
before decompression.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

STRUCT, LIST, BINARY, TRUE, FALSE, BYTE, DOUBLE = 12, 9, 8, 1, 2, 3, 7


class Thrift:
    """Reads structs of the compact protocol."""

    def __init__(self, content: bytes, at: int) -> None:
        self.content, self.at = content, at

    def varint(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self.content[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def integer(self) -> int:
        raw = self.varint()
        return (raw >> 1) ^ -(raw & 1)

    def value(self, kind: int) -> Any:
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
        fields: dict[int, Any] = {}
        number = 0
        while head := self.content[self.at]:
            self.at += 1
            number = number + (head >> 4) if head >> 4 else self.integer()
            fields[number] = self.value(head & 15)
        self.at += 1
        return fields


def pages(path: Path) -> list[bytes]:
    """Return every page of every column, decompressed."""
    content, meta = path.read_bytes(), pq.read_metadata(path)
    found = []
    for group in range(meta.num_row_groups):
        for number in range(meta.num_columns):
            chunk = meta.row_group(group).column(number)
            start = chunk.data_page_offset if chunk.dictionary_page_offset is None else chunk.dictionary_page_offset
            reader = Thrift(content, start)
            while reader.at < start + chunk.total_compressed_size:
                header = reader.struct()
                assert 5 in header or 7 in header, "only data pages of version 1 and dictionary pages are written"
                body = content[reader.at : reader.at + header[3]]
                if chunk.compression != "UNCOMPRESSED":
                    body = pa.decompress(body, header[2], chunk.compression.lower(), asbytes=True)
                assert len(body) == header[2]
                found.append(body)
                reader.at += header[3]
            assert reader.at == start + chunk.total_compressed_size
    return found


def everything(path: Path) -> bytes:
    """Return the file as it is (headers, statistics, schema, footer) and all its pages decompressed."""
    return b"\n".join([path.read_bytes(), *pages(path)]) if path.suffix == ".parquet" else path.read_bytes()


def all_bytes(folder: Path) -> bytes:
    """Return all that a release holds."""
    return b"\n".join(everything(path) for path in sorted(folder.rglob("*")) if path.is_file())
