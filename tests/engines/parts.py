"""Releases of many files, made from those of one: the same rows in the same order, cut and sealed anew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.analyst.release import Release
from sfumato.release.folder import file_sha256
from sfumato.release.manifest import DataFile, GroupsPart
from sfumato.release.parts import DATA_FOLDER, GROUPS_FOLDER, FilePart, part_name, parts_rows, parts_sha256
from tests.engines.tools import sealed


def cut(rows: pa.Table, number: int) -> list[pa.Table]:
    """Return the rows in this many pieces, of unequal sizes; the second has none."""
    ends = [rows.num_rows * k * k // number**2 for k in range(1, number + 1)]
    ends = [ends[0], *ends[:1], *ends[2:]] if number > 2 else ends
    return [rows.slice(start, end - start) for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def written(folder: Path, pieces: Sequence[pa.Table]) -> list[FilePart]:
    """Write the pieces as the parts of a table."""
    folder.mkdir(parents=True)
    parts = []
    for number, piece in enumerate(pieces):
        path = folder / part_name(number)
        pq.write_table(piece, path, store_schema=False)
        parts.append(FilePart(file=path.name, rows=piece.num_rows, sha256=file_sha256(path)))
    return parts


def data_in_parts(parts: Sequence[FilePart], *, shuffled: bool) -> DataFile:
    """Return the description of published rows that were written as these files, in this order."""
    return DataFile(
        file=DATA_FOLDER,
        format="parquet",
        rows=parts_rows(parts),
        sha256=parts_sha256(part.sha256 for part in parts),
        shuffled=shuffled,
        parts=tuple(parts),
    )


def groups_in_parts(parts: Sequence[FilePart], **stated: Any) -> GroupsPart:
    """Return the description of groups whose lines were written as these files; `stated` are its other keys."""
    return GroupsPart(
        file=GROUPS_FOLDER,
        lines=parts_rows(parts),
        sha256=parts_sha256(part.sha256 for part in parts),
        parts=tuple(parts),
        **stated,
    )


def in_parts(release: Release, folder: Path, number: int = 5) -> Release:
    """Write the same release again, with this many files for each of its tables."""
    made = release.manifest
    changed: dict[str, Any] = {
        "data": data_in_parts(
            written(folder / DATA_FOLDER, cut(pq.read_table(release.data), number)), shuffled=made.data.shuffled
        )
    }
    if made.groups and release.groups:
        parts = written(folder / GROUPS_FOLDER, cut(pq.read_table(release.groups), number))
        stated = {k: v for k, v in made.groups if k not in ("file", "lines", "sha256", "parts")}
        changed["groups"] = groups_in_parts(parts, **stated)
    return sealed(made.model_copy(update=changed), folder)
