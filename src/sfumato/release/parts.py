"""A table of a release in many files: their names, their order, and the checksum of the whole.

The rows of the whole are those of part 0, then those of part 1, and so on:

    rows = r_0 + ... + r_n        sha256 = sha256(d_0 ... d_n), d_k the 32 bytes of the sha256 of part k

A part is named by its number and nothing else: its name tells nothing of where the rows come from, and leads nowhere
but into the folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema

DATA_FOLDER = "data"
GROUPS_FOLDER = "groups"


def _parts_of(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        yield from chain.from_iterable(map(_parts_of, schema.values()))
    elif isinstance(schema, list | tuple):
        yield from chain.from_iterable(map(_parts_of, schema))


class Part(BaseModel):
    """A part of the manifest; unknown keys are errors, and of each list the first mistake is.

    A file with a million mistakes would take gigabytes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return how a part is read: lists up to their first mistake."""
        schema = handler(source)
        for part in _parts_of(schema):
            if part.get("type") in ("list", "tuple"):
                part["fail_fast"] = True
        return schema


def schema_of(model: type[BaseModel], title: str) -> str:
    """Return the JSON Schema of a file."""
    schema: dict[str, Any] = model.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = title
    return json.dumps(schema, indent=2) + "\n"


class FilePart(Part):
    """One of the files of a table, all of them Parquet."""

    file: str = Field(
        pattern=r"^part-[0-9]{5,}\.parquet$", description="Name of the file in the folder: its number, from 0."
    )
    rows: int = Field(ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


def part_name(number: int) -> str:
    """Return the name of a part.

    >>> part_name(0), part_name(123456)
    ('part-00000.parquet', 'part-123456.parquet')
    """
    return f"part-{number:05}.parquet"


def parts_rows(parts: Sequence[FilePart]) -> int:
    """Return the rows of the whole."""
    return sum(part.rows for part in parts)


def parts_sha256(sums: Iterable[str]) -> str:
    """Return the checksum of the whole, from those of the parts."""
    return hashlib.sha256(b"".join(map(bytes.fromhex, sums))).hexdigest()


def check_parts(parts: Sequence[FilePart], folder: str, file: str, rows: int, sha256: str) -> None:
    """Raise ValueError unless the parts make up the whole: the table `file`, which is to be the folder `folder`."""
    if file != folder:
        raise ValueError(f"the parts lie in the folder {folder!r}, not in {file!r}")
    for number, part in enumerate(parts):
        if part.file != part_name(number):
            raise ValueError(f"part {number} is named {part_name(number)!r}, not {part.file!r}")
    if parts_rows(parts) != rows:
        raise ValueError(f"the parts have {parts_rows(parts):,} rows together, not {rows:,}")
    if parts_sha256(part.sha256 for part in parts) != sha256:
        raise ValueError("sha256 is not the one of the parts in their order")
