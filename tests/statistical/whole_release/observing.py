"""All that can be seen of a release folder, as named features: whatever is new in a folder is a feature by itself.

Nothing here knows what a release is. Every leaf of a JSON file, every line of a text, every cell, row, file and every
number of a Parquet file's own account is a feature. Files are read with pyarrow and the standard library alone.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Hashable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.analyst.release import open_release
from sfumato.errors import SfumatoError

Features = dict[str, Hashable]
HEX = re.compile(r"\b[0-9a-f]{16,}\b")
"""Random names and checksums. What comes once tells nothing by itself: their first digits and what is beside can."""


def observe(folder: Path, verified: bool = False) -> Features:
    """Return every feature of a folder; `verified`: and what anybody finds who verifies it.

    That follows from the folder, so it tells nothing that the folder does not; and it takes ten times as long.
    """
    return dict(_of_folder(folder)) | (dict(_of_verification(folder)) if verified else {})


def refused(problem: SfumatoError) -> Features:
    """Return what is seen where nothing is published."""
    return {"refused": f"{type(problem).__name__}: {problem}"}


def _of_folder(folder: Path) -> Iterator[tuple[str, Hashable]]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    yield "refused", None
    yield "names", tuple(str(path.relative_to(folder)) for path in sorted(folder.rglob("*")))
    yield "number of files", len(files)
    for path in files:
        place = str(path.relative_to(folder))
        for name, value in _of_file(path):
            yield f"{place}: {name}", value


def _of_file(path: Path) -> Iterator[tuple[str, Hashable]]:
    content, stat = path.read_bytes(), path.stat()
    yield "size", stat.st_size
    yield "mode", stat.st_mode
    yield "content", hashlib.sha256(content).hexdigest()
    if path.suffix == ".parquet":
        yield from _of_parquet(path)
    elif path.suffix == ".csv":
        yield from _of_lines(content.decode())
        header, *rows = csv.reader(io.StringIO(content.decode()))
        yield from _of_rows(header, [tuple(row) for row in rows])
    elif path.suffix == ".json":
        yield from _of_json(json.loads(content))
        yield "layout", re.sub(rb'[^\s{}\[\]:,"]', b"", content)
    else:
        yield from _of_lines(content.decode(errors="backslashreplace"))


def _of_lines(text: str) -> Iterator[tuple[str, Hashable]]:
    yield "ends", repr(text[-2:])
    lines = text.splitlines()
    yield "lines", len(lines)
    for number, line in enumerate(lines):
        yield f"line {number}", line
        yield f"line {number}, masked", HEX.sub("#", line)


def _of_json(content: Any) -> Iterator[tuple[str, Hashable]]:
    found = dict(leaves(content))
    yield "keys", tuple(found)
    for path, leaf in found.items():
        yield path, leaf
        if isinstance(leaf, str) and HEX.fullmatch(leaf):
            yield f"{path} begins", leaf[0]
            yield f"{path} has a length", len(leaf)


def leaves(content: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every leaf of JSON with its path; an empty list is a leaf, and so is the length of a list."""
    if isinstance(content, dict) and content:
        for key, value in content.items():
            yield from leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(content, list | tuple) and content:
        yield f"{path}.length", len(content)
        for place, value in enumerate(content):
            yield from leaves(value, f"{path}.{place}")
    else:
        yield path, content if isinstance(content, Hashable) else str(content)


def _of_parquet(path: Path) -> Iterator[tuple[str, Hashable]]:
    file = pq.ParquetFile(path)
    yield "schema", str(file.schema_arrow)
    yield "schema of Parquet", str(file.schema)
    yield "key-value metadata", str(file.metadata.metadata)
    for place, leaf in leaves(file.metadata.to_dict()):
        yield f"account.{place}", str(leaf) if isinstance(leaf, bytes) else leaf
    names = file.schema_arrow.names
    coded = pq.ParquetFile(path, read_dictionary=[file.schema.column(k).path for k in range(len(file.schema))])
    for group in range(coded.num_row_groups):
        for name, column in zip(names, coded.read_row_group(group, use_threads=False).columns, strict=True):
            elements = [c.values if pa.types.is_list(c.type) else c for c in column.chunks]
            listed = [each.dictionary.to_pylist() for each in elements if pa.types.is_dictionary(each.type)]
            yield f"dictionary of {name} in row group {group}", str(listed)
    table = file.read(use_threads=False)
    columns = [[_hashable(value) for value in column.to_pylist()] for column in table.columns]
    yield from _of_rows(table.schema.names, list(zip(*columns, strict=True)))


def _hashable(value: Any) -> Hashable:
    """Return a value as it is, and a list of a list column with its order."""
    return tuple(value) if isinstance(value, list) else value


def _of_rows(names: list[str], rows: list[tuple[Any, ...]]) -> Iterator[tuple[str, Hashable]]:
    """Give the rows with and without their order; where each value stands; and what stands beside it."""
    yield "columns", tuple(names)
    yield "rows", len(rows)
    yield "rows in order", tuple(rows)
    yield "rows as a set", tuple(sorted(rows, key=repr))
    for place, row in enumerate(rows):
        for name, value in zip(names, row, strict=True):
            yield f"{name} of row {place}", value
            if place == len(rows) - 1:
                yield f"{name} of the last row", value
    for column, name in enumerate(names):
        values = [row[column] for row in rows]
        yield f"different values of {name}", len(set(values))
        yield f"{name} in order", tuple(values)
        yield f"{name} is sorted", values == sorted(values, key=repr)
        yield f"equal neighbours in {name}", sum(a == b for a, b in pairwise(values))
        for value in set(values):
            yield f"{name} = {value}: number", values.count(value)
            yield f"{name} = {value}: first row", values.index(value)
            for other, beside in enumerate(names):
                if other != column:
                    there = sorted((repr(row[other]) for row in rows if row[column] == value), key=repr)
                    yield f"{name} = {value}: {beside}", tuple(there)


def _of_verification(folder: Path) -> Iterator[tuple[str, Hashable]]:
    verified = open_release(folder).verify()
    yield "verify: holds", verified.holds
    yield "verify: names", tuple(check.name for check in verified.checks)
    for check in verified.checks:
        yield f"verify: {check.name}", f"{check.status}: {HEX.sub('#', check.detail)}"
