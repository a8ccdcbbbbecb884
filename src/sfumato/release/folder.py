"""A release as a value: a folder with data, manifest and README. What an analyst asks of it: `analyst.release`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sfumato.errors import ReleaseError
from sfumato.release.manifest import Manifest
from sfumato.release.parts import FilePart
from sfumato.values.text import near_file

MANIFEST_NAME = "manifest.json"
README_NAME = "README.md"
SIGNATURE_NAME = "manifest.sig"
OWN_NAMES = (MANIFEST_NAME, README_NAME, SIGNATURE_NAME)
"""Files that every release may have, whatever its tables are."""
LARGEST_MANIFEST = 1 << 29
"""Bytes: a dense matrix of 4,000 values takes 400 million."""
LARGEST_README = 1 << 26
LONGEST_NAME = 255
"""Bytes of a file's name: systems raise errors of their own where one is longer."""


@dataclass(frozen=True)
class ReleaseFolder:
    """A published table and its manifest, read from the folder that holds them."""

    folder: Path
    manifest: Manifest

    @property
    def data(self) -> Path:
        """The file with the published rows, or the folder of the files; `data_files` are the files in both cases."""
        return self.folder / self.manifest.data.file

    @property
    def data_files(self) -> list[Path]:
        """The files with the published rows, in the order of the rows."""
        return _files(self.data, self.manifest.data.parts)

    @property
    def groups(self) -> Path | None:
        """The file or folder with the values of each group; None unless the release is one by groups."""
        return self.folder / self.manifest.buckets.file if self.manifest.in_buckets else None

    @property
    def groups_files(self) -> list[Path]:
        """The files with the values of each group, in the order of their lines; none unless it is one by groups."""
        return [file for part in self.manifest.tables[1:] for file in _files(self.folder / part.file, part.parts)]

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """The published columns."""
        return tuple(column.name for column in self.manifest.columns)

    @cached_property
    def askable_names(self) -> tuple[str, ...]:
        """The columns that can be asked for: the published ones, and those that only groups have."""
        return (*self.column_names, *(part.name for part in self.manifest.only_in_buckets))


def _files(path: Path, parts: Sequence[FilePart] | None) -> list[Path]:
    return [path] if parts is None else [path / part.file for part in parts]


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a release: it must be of this version, and name files of the folder only."""
    path = folder / MANIFEST_NAME
    _refuse_links(folder, [folder / name for name in OWN_NAMES])  # before anything is read
    if not path.is_file():
        raise _no_release(folder)
    if path.stat().st_size > LARGEST_MANIFEST:
        raise ReleaseError(
            f"The manifest of {str(folder)!r} has more than {LARGEST_MANIFEST:,} bytes, as none does.", _CHANGED
        )
    try:
        manifest = Manifest.model_validate_json(path.read_text(encoding="utf-8"))
    except (ValidationError, ValueError, OSError) as problem:
        first = problem.errors()[0] if isinstance(problem, ValidationError) else None
        reason = (
            f"{'.'.join(map(str, first['loc']))}: {first['msg'].removeprefix('Value error, ')}"
            if first
            else str(problem)
        )
        raise ReleaseError(
            f"The manifest of {str(folder)!r} is not one of version 1: {reason}.",
            _CHANGED,
        ) from None
    names = [table.file for table in manifest.tables]
    for name in names:
        if Path(name).name != name or name in ("", ".."):
            raise ReleaseError(f"The manifest of {str(folder)!r} names a file outside of it: {name!r}.", _CHANGED)
        if len(name.encode(errors="replace")) > LONGEST_NAME:
            raise ReleaseError(f"The manifest of {str(folder)!r} names a file that no folder can hold.", _CHANGED)
    if len({*names, *OWN_NAMES}) < len(names) + len(OWN_NAMES):
        raise ReleaseError(f"The manifest of {str(folder)!r} names one file for two purposes: {names}.", _CHANGED)
    _refuse_links(folder, _listed(folder, manifest))
    return manifest


def _refuse_links(folder: Path, paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_symlink():
            raise ReleaseError(
                f"{path.name!r} of the release {str(folder)!r} is a link to another file.",
                "A release holds its files itself: get it anew from the publisher.",
            )


def _listed(folder: Path, manifest: Manifest) -> Iterator[Path]:
    """Give the files and folders that a manifest names."""
    for table in manifest.tables:
        yield from {folder / table.file, *_files(folder / table.file, table.parts)}


_CHANGED = "Give the folder as `sfumato publish` wrote it; get it anew from the publisher if it was changed."


def _no_release(folder: Path) -> ReleaseError:
    """Return the error of a path that is no release, with what was probably meant."""
    if not folder.exists():
        return ReleaseError(
            f"There is no release {str(folder)!r}.",
            near_file(folder) or "Give the folder that `sfumato publish` wrote.",
        )
    around = release_around(folder)
    if around is not None:
        hint = f"Give the whole folder: {str(around)!r}."
    elif folder.is_file():
        hint = "A release is the folder that `sfumato publish` wrote: its manifest tells how it was randomized."
    else:
        hint = f"A release is the folder that `sfumato publish` wrote, with a {MANIFEST_NAME}."
    return ReleaseError(f"{str(folder)!r} is not a release: it has no {MANIFEST_NAME}.", hint)


def release_around(path: Path) -> Path | None:
    """Return the release that a file would lie in: the nearest folder above it that has a manifest, if any has."""
    return next((folder for folder in path.resolve().parents if (folder / MANIFEST_NAME).exists()), None)


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file."""
    with open(path, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def manifest_seal(text: str, readme_sha256: str) -> str:
    """Return the README's line that seals the manifest, which in turn holds the README's checksum."""
    blank = text.replace(readme_sha256, "") if readme_sha256 else text
    return f"Checksum of manifest.json, its readme_sha256 left empty: {hashlib.sha256(blank.encode()).hexdigest()}"


def value_type(kind: Any) -> str:
    """Return the name of an Arrow type, a dictionary's by its values; text of any width is "string"."""
    name = str(kind)
    if name.startswith("dictionary<"):
        name = str(kind.value_type)
    return "string" if name in ("large_string", "string_view") else name
