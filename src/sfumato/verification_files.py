"""The files of a release: that they are those that were published, and that they carry what is stated and no more.

A table may be one file or many parts. Each is read by itself; what is kept grows with what is wrong, not with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato import verification_groups
from sfumato.checks import Check, outcome
from sfumato.release import MANIFEST_NAME, README_NAME, Release, file_sha256, manifest_seal, value_type
from sfumato.release_parts import FilePart

SHOWN = 5


@dataclass(frozen=True)
class _Table:
    """One of the tables of a release, as the manifest states it."""

    name: str
    of: str  # how its checks are called: nothing for the data
    files: Sequence[Path]
    sha256: str
    parts: Sequence[FilePart] | None
    columns: Sequence[str]
    fits: Callable[[list[str]], bool]  # whether columns of these types are as stated

    def told(self, path: Path) -> str:
        """Return the start of a sentence about one of several files."""
        return "" if self.parts is None else f"{path.name}: "


def _tables(release: Release) -> Iterator[_Table]:
    manifest, data, groups = release.manifest, release.manifest.data, release.manifest.groups
    types = [column.type for column in manifest.columns]
    yield _Table(data.file, "", release.data_files, data.sha256, data.parts, release.column_names, types.__eq__)
    if groups:
        names, fits = (
            verification_groups.group_columns(groups),
            partial(verification_groups.types_fit, manifest=manifest),
        )
        of = f" of {groups.file}"
        yield _Table(groups.file, of, release.groups_files, groups.sha256, groups.parts, names, fits)


# --- as they were published -----------------------------------------------------------------------------------------


def as_published(release: Release) -> Iterator[Check]:
    """Check that the files are those that were published, and that no other lies beside them."""
    data, *groups = _tables(release)
    yield _checksum(data)
    yield _checksum_of_one(release.folder / README_NAME, release.manifest.readme_sha256)
    yield from map(_checksum, groups)
    yield _folder(release)
    yield from _seal(release)


def _checksum(table: _Table) -> Check:
    if table.parts is None:
        return _checksum_of_one(table.files[0], table.sha256)
    lost = [path.name for path in table.files if not path.is_file()]
    stated = zip(table.files, table.parts, strict=True)
    changed = [path.name for path, part in stated if path.is_file() and file_sha256(path) != part.sha256]
    return outcome(
        f"checksum of {table.name}",
        not lost and not changed,
        f"All {len(table.parts):,} files are as they were published.",
        " ".join([*_listed("Not there", lost), *_listed("Changed after publication", changed)]),
    )


def _checksum_of_one(path: Path, due: str) -> Check:
    name = f"checksum of {path.name}"
    if not path.is_file():
        return Check(name, "fails", "The file is not there.")
    return outcome(
        name,
        file_sha256(path) == due,
        "The file is as it was published.",
        "The file was changed after it was published.",
    )


def _listed(what: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
        yield f"{what}: {', '.join(names[:SHOWN])}{more}."


def _folder(release: Release) -> Check:
    """Nothing but the release may lie in its folder: a plan or a table beside it would be handed out with it."""
    known = {release.folder / name for name in (MANIFEST_NAME, README_NAME)}
    folders = [release.folder]
    for table in _tables(release):
        known |= {release.folder / table.name, *table.files}
        folders += [release.folder / table.name] if table.parts is not None else []
    found = (path for folder in folders if folder.is_dir() for path in folder.iterdir() if path not in known)
    others = sorted(path.relative_to(release.folder).as_posix() for path in found)
    return outcome(
        "folder",
        not others,
        "It holds the files of the release and no other.",
        f"It also holds {', '.join(map(repr, others[:SHOWN]))}.",
    )


def _seal(release: Release) -> Iterator[Check]:
    """The README seals the manifest: neither can change alone."""
    path = release.folder / README_NAME
    if path.is_file():
        text = (release.folder / MANIFEST_NAME).read_text(encoding="utf-8")
        seal = manifest_seal(text, release.manifest.readme_sha256)
        yield outcome(
            "manifest",
            seal in path.read_text(encoding="utf-8", errors="replace"),
            "It is the one that the README was written with.",
            "It is not the one that the README was written with: one of the two was changed.",
        )


# --- what Parquet files carry ---------------------------------------------------------------------------------------


def carried(release: Release) -> Iterator[Check]:
    """Check the types of the Parquet files and their metadata, which must hold nothing of the source."""
    if release.manifest.data.format == "parquet":
        for table in _tables(release):
            yield from _carried(table)


def _carried(table: _Table) -> Iterator[Check]:
    """What is wrong is told of the first file in which it is."""
    wrong: dict[str, str] = {}
    for number, path in enumerate(table.files):
        for check, what in _flaws(table, number, path):
            wrong.setdefault(check, f"{table.told(path)}{what}")
    good = {"types": "As stated.", "metadata": "The file carries none."}
    if table.parts is not None:
        good = {
            "files": "Each has the columns and the rows that are stated.",
            **good,
            "metadata": "No file carries any.",
        }
    yield from (
        outcome(f"{name}{table.of}", name not in wrong, told, wrong.get(name, "")) for name, told in good.items()
    )


def _flaws(table: _Table, number: int, path: Path) -> Iterator[tuple[str, str]]:
    """Give the checks that a file fails, and how."""
    try:
        columns, types, rows, extra = _footer(path)
    except (pa.ArrowException, OSError) as problem:
        yield "types", f"The file cannot be read: {str(problem).splitlines()[0].rstrip('.')}."
        return
    if table.parts is not None:  # the whole's are seen where all rows are read, but the columns of its first file only
        if columns != list(table.columns):
            yield "files", f"Its columns are {columns}, not as stated."
        if rows != table.parts[number].rows:
            yield "files", f"It has {rows:,} rows, not {table.parts[number].rows:,} as stated."
    if not table.fits(types):
        yield "types", f"They are {types}, not as stated."
    if extra:
        yield "metadata", f"The file carries {extra}."


def _footer(path: Path) -> tuple[list[str], list[str], int, list[bytes]]:
    """Return the columns of a Parquet file, their types, its rows, and the keys of its metadata."""
    with pq.ParquetFile(path) as file:
        schema, meta = file.schema_arrow, file.metadata
        types = [value_type(kind) for kind in schema.types]
        return list(schema.names), types, meta.num_rows, sorted(meta.metadata or {})
