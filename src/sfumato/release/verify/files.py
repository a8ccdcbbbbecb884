"""The files of a release: that they are those that were published, and that they carry what is stated and no more.

A table may be one file or many parts. Each is read by itself; what is kept grows with what is wrong, not with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from sfumato.claims.claim import Check, outcome
from sfumato.release.folder import MANIFEST_NAME, README_NAME, ReleaseFolder, file_sha256, manifest_seal, value_type
from sfumato.release.format import Format
from sfumato.release.formats import FORMATS
from sfumato.release.parts import FilePart
from sfumato.release.verify import buckets

SHOWN = 5


@dataclass(frozen=True)
class _Table:
    """One of the tables of a release, as the manifest states it."""

    name: str
    files: Sequence[Path]
    sha256: str
    parts: Sequence[FilePart] | None


def _tables(release: ReleaseFolder) -> Iterator[_Table]:
    files = (release.data_files, release.groups_files)
    for stated, of_table in zip(release.manifest.tables, files, strict=False):
        yield _Table(stated.file, of_table, stated.sha256, stated.parts)


# --- as they were published -----------------------------------------------------------------------------------------


def as_published(release: ReleaseFolder) -> Iterator[Check]:
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


def _folder(release: ReleaseFolder) -> Check:
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


def _seal(release: ReleaseFolder) -> Iterator[Check]:
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


# --- what files carry -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Columns:
    """What every file of a table must have: columns of these names, and of types that fit."""

    form: type[Format]
    names: Sequence[str]
    fit: Callable[[list[str]], bool]


def carried(release: ReleaseFolder) -> Iterator[Check]:
    """Check the types of files that tell them, and their metadata, which must hold nothing of the source."""
    manifest = release.manifest
    form = FORMATS[manifest.data.format]
    if not form.tells:
        return
    data, *others = _tables(release)
    types = [column.type for column in manifest.columns]
    yield from _carried(data, "", _Columns(form, release.column_names, lambda found: found == types))
    if others:
        fit = partial(buckets.types_fit, domain=manifest.domain)
        columns = _Columns(form, buckets.bucket_columns(manifest.buckets), fit)
        yield from _carried(others[0], f" of {others[0].name}", columns)


def _carried(table: _Table, of: str, due: _Columns) -> Iterator[Check]:
    """What is wrong is told of the first file in which it is."""
    wrong: dict[str, str] = {}
    for number, path in enumerate(table.files):
        for check, what in _flaws(path, due, table.parts[number] if table.parts else None):
            wrong.setdefault(check, f"{path.name}: {what}" if table.parts else what)
    good = {"types": "As stated.", "metadata": "No file carries any." if table.parts else "The file carries none."}
    checks: dict[str, str] = {name: good[name] for name in due.form.tells}
    if table.parts:
        checks["parts"] = "Each file has the columns and as many rows as stated."
    yield from (outcome(f"{name}{of}", name not in wrong, told, wrong.get(name, "")) for name, told in checks.items())


def _flaws(path: Path, due: _Columns, part: FilePart | None) -> Iterator[tuple[str, str]]:
    """Give the checks that a file fails, and how.

    Where all rows are read, the columns seen are those of the first part, and the rows are those of all of them.
    """
    try:
        file = due.form.carried(path)
    except (pa.ArrowException, OSError) as problem:
        yield due.form.tells[0], f"The file cannot be read: {str(problem).splitlines()[0].rstrip('.')}."
        return
    types = [value_type(kind) for kind in file.types]
    if "types" in due.form.tells and not due.fit(types):
        yield "types", f"They are {types}, not as stated."
    if file.metadata:
        yield "metadata", f"The file carries {file.metadata}."
    if part and file.names != list(due.names):
        yield "parts", f"Its columns are {file.names}, not as stated."
    if part and file.rows != part.rows:
        yield "parts", f"It has {file.rows:,} rows, not {part.rows:,} as stated."
