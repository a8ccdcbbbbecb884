"""A release as a value: a folder with data, manifest and README, whose rows DuckDB reads with nothing else in reach.

To open a database takes longer than to count a small release, and one question needs several connections: the last few
databases stay open. A connection is made in microseconds; each user gets one, with temporary tables of its own.

What an analyst asks of a release: `analyst.release`.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import duckdb
from pydantic import ValidationError
from pydantic_core import from_json

from sfumato.errors import ReleaseError, UsageError
from sfumato.release.formats import FORMATS
from sfumato.release.formats.parquet import check_room, without_wildcards
from sfumato.release.manifest import Column, DomainPart, Manifest
from sfumato.release.parts import FilePart, Part
from sfumato.show.formulas import MARK
from sfumato.values.attributes import Domain
from sfumato.values.mechanism import BETWEEN
from sfumato.values.number_texts import Holds
from sfumato.values.text import near_file

MANIFEST_NAME = "manifest.json"
README_NAME = "README.md"
SIGNATURE_NAME = "manifest.sig"
OWN_NAMES = (MANIFEST_NAME, README_NAME, SIGNATURE_NAME)
"""Files that every release may have, whatever its tables are."""
LARGEST_MANIFEST = 1 << 29
"""Bytes: a dense matrix of 4,000 values takes 400 million."""
LARGEST_README = 1 << 26
MOST_TOLD, MOST_MISTAKES = 100, 1000
"""Letters of a name in a message; mistakes among which the first is looked for."""
LONGEST_NAME = 255
"""Bytes of a file's name: systems raise errors of their own where one is longer."""

HELD_TYPES: dict[Holds, str] = {"integer": "int64", "decimal": "double"}
"""The Arrow types of numbers that text holds."""
SQL_TYPES: dict[Holds, str] = {"integer": "BIGINT", "decimal": "DOUBLE"}
CONDITION_ERRORS = (
    duckdb.BinderException, duckdb.ConversionException, duckdb.InvalidInputException, duckdb.NotImplementedException,
    duckdb.OutOfRangeException, duckdb.ParserException, duckdb.SyntaxException, duckdb.TypeMismatchException,
)  # fmt: skip
"""What DuckDB raises where a condition does not fit the columns."""
SMALL = 1_000_000
"""Rows of a release whose database stays open between questions."""
KEPT = 4
"""Databases that stay open."""
MOST_ASKED = 500
"""Questions after which one is opened anew: it holds some of the memory of each, about a kilobyte."""
MEMORY = "4GB"
"""What a database may take for a question."""
BROKEN = (duckdb.FatalException, duckdb.InternalException)
"""After these a database answers nothing any more."""
CELLS_AT_ONCE, COLUMNS_AT_ONCE = 1 << 22, 256
"""Of columns that are read by one query, which looks at all columns of a release before it reads one."""
ROW_NUMBER = "file_row_number"
"""DuckDB's name for the number of a row in its Parquet file, from 0."""


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


def check_name(path: Path, problem: type[UsageError]) -> None:
    """Raise if a file, or a folder that it is in, has a name that is no UTF-8 text: Arrow and DuckDB open no others."""
    whole = str(path.absolute())
    try:
        whole.encode()
    except UnicodeEncodeError:
        raise problem(
            f"The name {whole!r} is not UTF-8 text: of tables and releases no other name can be opened.",
            "Rename the file or the folder. If its name looks right to you, the locale does not: LC_ALL=C.UTF-8 is one "
            "of UTF-8.",
        ) from None


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a release: it must be of this version, and name files of the folder only."""
    path = folder / MANIFEST_NAME
    _refuse_links(folder, [folder / name for name in OWN_NAMES])  # before anything is read
    if not path.is_file():
        raise _no_release(folder)
    check_name(folder, ReleaseError)
    if path.stat().st_size > LARGEST_MANIFEST:
        raise ReleaseError(
            f"The manifest of {str(folder)!r} has more than {LARGEST_MANIFEST:,} bytes, as none does.", _CHANGED
        )
    try:
        manifest = read_part(Manifest, path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as problem:
        raise ReleaseError(
            f"The manifest of {str(folder)!r} is not one of version 1: {first_mistake(problem)}.", _CHANGED
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


Document = TypeVar("Document", bound=Part)


def read_part(kind: type[Document], text: str) -> Document:
    """Return a part of JSON, read once: pydantic's own reading gives each mistake a copy of what it is in."""
    return kind.model_validate(from_json(text))


def first_mistake(problem: Exception) -> str:
    """Return what is wrong with a part; of several mistakes the place of the first, and what it is."""
    if not isinstance(problem, ValidationError):
        return str(problem)
    if problem.error_count() > MOST_MISTAKES:
        return f"{problem.error_count():,} mistakes"
    first = problem.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(name)[:MOST_TOLD] for name in first["loc"]) or "the file"
    return f"{place}: {first['msg'].removeprefix('Value error, ')}"


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


# --- its rows ---------------------------------------------------------------------------------------------------------

Written = TypeVar("Written", bound=ReleaseFolder)


@dataclass(frozen=True)
class Piece:
    """Some rows of a published file: from `first` to before `end`, or to the last."""

    file: Path
    first: int = 0
    end: int | None = None


@contextmanager
def connected(release: ReleaseFolder, piece: Piece | None = None, *, as_numbers: bool = False) -> Iterator[Any]:
    """Give a DuckDB connection with the view `release`, by groups `compositions` too, and a locked configuration.

    With a piece the view has its rows only, and one thread reads them. With `as_numbers` text that holds numbers is
    read as these, but for hidden columns: what was published of them is a value of their domain, as it is written.
    """
    files = {"release": [piece.file] if piece else release.data_files}
    if release.groups_files and not piece:
        files["compositions"] = release.groups_files
    every = [path for paths in files.values() for path in paths]
    need_files(release, every)
    allowed = sorted({form for path in every for form in (quoted_text(str(path.absolute())), _pattern(path))})
    rows = {view: _select(release, view, paths, as_numbers) for view, paths in files.items()}
    of_piece = _of_piece(piece)
    views = [f"CREATE VIEW {view} AS {selected}{of_piece}" for view, selected in rows.items()]
    # of a small release opening a database takes a good part of the time of a question, and an open one holds little
    keep = release.manifest.data.rows <= SMALL and not of_piece
    try:
        with connection(allowed, views, every, 1 if piece else None, keep=keep) as found:
            yield found
    # as rows are read, Arrow raises the second of what DuckDB says; the name of a column may be no text
    except (duckdb.Error, OSError, UnicodeDecodeError) as problem:
        raise ReleaseError(
            f"The data of {str(release.folder)!r} cannot be read: {first_line(problem)}.",
            "Get the release anew from the publisher.",
        ) from None


def need_files(release: ReleaseFolder, files: Sequence[Path]) -> None:
    """Raise unless all these files of the release are there."""
    if lost := next((path for path in files if not path.is_file()), None):
        name = str(lost.relative_to(release.folder))
        raise ReleaseError(
            f"The release {str(release.folder)!r} has lost its data file {name!r}.",
            "Get the release anew from the publisher.",
        )


def read_rows(release: ReleaseFolder) -> Any:
    """Return all published rows as an Arrow table."""
    with connected(release, as_numbers=True) as opened:
        return opened.sql("SELECT * FROM release").to_arrow_table()


def read_groups(release: ReleaseFolder) -> Any:
    """Return the values of all groups as an Arrow table."""
    if not release.manifest.in_buckets:
        raise ReleaseError(f"The release {str(release.folder)!r} has no groups.", "Its rows hold all columns.")
    with connected(release) as opened:
        return opened.sql("SELECT * FROM compositions").to_arrow_table()


def runs_of_columns(names: Sequence[str], rows: int) -> Iterator[Sequence[str]]:
    """Give the columns in runs that one query reads each: a query for each of thousands would take hours."""
    size = min(COLUMNS_AT_ONCE, max(1, CELLS_AT_ONCE // max(1, rows)))
    return (names[start : start + size] for start in range(0, len(names), size))


def quoted(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    """Return a text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def manifest_types(release: ReleaseFolder) -> dict[str, str]:
    """Return the type of each column that can be asked for, also of those that only groups have.

    Where sets or cards are published, it is that of the values that they stand for. "string" stands for those of a
    release in text that are read as such. Text that holds numbers has their type.
    """
    sql_type = FORMATS[release.manifest.data.format].sql_type
    as_text = {c.name for c in release.manifest.columns if sql_type(c.type) == "VARCHAR" or c.type.startswith("list<")}
    types = {c.name: "string" if c.name in as_text else c.type for c in release.manifest.columns}
    types |= {part.name: type_of(part.values) for part in release.manifest.only_in_buckets}
    cards = (mechanism for mechanism in release.manifest.mechanisms if mechanism.form != "value")
    types |= {part.name: type_of(part.values) for mechanism in cards for part in mechanism.domain}
    return types | {name: HELD_TYPES[holds] for name, holds in _held_numbers(release).items()}


def _held_numbers(release: ReleaseFolder) -> dict[str, Holds]:
    """Return the columns of text that hold numbers, also those that only groups have."""
    columns: list[Column | DomainPart] = [*release.manifest.columns, *release.manifest.only_in_buckets]
    return {column.name: column.holds for column in columns if column.holds is not None}


def shown_values(release: ReleaseFolder, part: Domain) -> tuple[Any, ...]:
    """Return the values of a hidden column as answers show them: the numbers that its texts hold, if they do."""
    holds = _held_numbers(release).get(part.name)
    if holds is None:
        return part.values
    read = int if holds == "integer" else float
    return tuple(None if value is None else read(str(value)) for value in part.values)


def stated_order(release: ReleaseFolder, name: str) -> tuple[Any, ...]:
    """Return the values of a column in the order that the policy declares; none if it declares none."""
    column = next((c for c in release.manifest.columns if c.name == name), None)
    if column is None or column.order is None:
        return ()
    return shown_values(release, Domain(name, column.order))


def as_written(release: Written) -> Written:
    """Return the release with text as text, also where it holds numbers: for those who compare it with the table's."""
    manifest = release.manifest
    columns = tuple(column.model_copy(update={"holds": None}) for column in manifest.columns)
    groups = manifest.groups
    if groups is not None:
        domain = tuple(part.model_copy(update={"holds": None}) for part in groups.domain)
        groups = groups.model_copy(update={"domain": domain})
    return replace(release, manifest=manifest.model_copy(update={"columns": columns, "groups": groups}))


def hidden_numbers(release: ReleaseFolder) -> dict[str, str]:
    """Return the hidden columns whose text holds numbers, with the SQL type of these."""
    hidden = release.manifest.domain.names
    return {name: SQL_TYPES[holds] for name, holds in _held_numbers(release).items() if name in hidden}


def _types(release: ReleaseFolder, view: str) -> dict[str, str]:
    """Return the Arrow types of the columns of a view; of the groups, by the values of the domains."""
    if view == "release":
        return {column.name: column.type for column in release.manifest.columns}
    groups = release.manifest.buckets
    values = {part.name: type_of(part.values) for part in groups.domain}
    return {groups.group_column: "int64", **values, groups.count_column: "int64"}


def type_of(values: Sequence[Any]) -> str:
    """Return the Arrow type of the values of a domain."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int}:
        return "uint64" if max(value for value in values if value is not None) >= 1 << 63 else "int64"
    return "bool" if kinds == {bool} else "string"


def _select(release: ReleaseFolder, view: str, files: Sequence[Path], as_numbers: bool) -> str:
    """Return the query of all rows: those of the first file, then those of the next (DuckDB keeps their order)."""
    hidden, form = hidden_numbers(release), FORMATS[release.manifest.data.format]
    types = _types(release, view)
    casts = {name: kind for name, arrow in types.items() if (kind := form.sql_type(arrow))}
    if as_numbers and view == "release":
        casts |= {name: SQL_TYPES[holds] for name, holds in _held_numbers(release).items() if name not in hidden}
    replaced = {name: f"CAST({quoted(name)} AS {kind})" for name, kind in casts.items()}
    if release.manifest.data.escaped:
        replaced |= {name: _unescaped(quoted(name)) for name, kind in casts.items() if kind == "VARCHAR"}
    # sets of values are asked for as texts, in which form every format has them
    sets = [name for name, arrow in types.items() if arrow.startswith("list<")]
    replaced |= {name: f"array_to_string({quoted(name)}, '{BETWEEN}')" for name in sets}
    read = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in replaced.items())
    relation = form.relation(f"[{', '.join(map(_pattern, files))}]", types)
    return f"SELECT * {f'REPLACE ({read}) ' if read else ''}FROM {relation}"


def _unescaped(name: str) -> str:
    """Return the SQL of a column without the apostrophe before formulas (`show.formulas`)."""
    return f"CASE WHEN starts_with({name}, {quoted_text(MARK)}) THEN substr({name}, 2) ELSE {name} END"


def _of_piece(piece: Piece | None) -> str:
    if piece is None or (piece.first, piece.end) == (0, None):
        return ""
    until = "" if piece.end is None else f" AND {ROW_NUMBER} < {piece.end}"
    return f" WHERE {ROW_NUMBER} >= {piece.first}{until}"


def _pattern(file: Path) -> str:
    """Return a file's path for DuckDB: that file and no other, wildcards stand for themselves."""
    return quoted_text(without_wildcards(file))


def first_line(problem: Exception) -> str:
    """Return the first line of a message, without its full stop."""
    return str(problem).splitlines()[0].rstrip(".")


# --- databases that reach no more than they were opened for -----------------------------------------------------------


@contextmanager
def connection(
    allowed: Sequence[str] = (),
    views: Sequence[str] = (),
    files: Sequence[Path] = (),
    threads: int | None = None,
    keep: bool = True,
) -> Iterator[Any]:
    """Give a connection to a database in memory with a locked configuration, in which times are those of UTC.

    allowed: the paths that it reads, as SQL texts; all others, and writing, are out of reach.
    views: the statements that create them. files: what these read; if one changes, the database is opened anew.
    keep: whether it stays open. After a large answer an idle one may hold some hundred megabytes.
    """
    try:
        if not keep:
            with _opened(tuple(allowed), tuple(views), threads) as database, database.cursor() as found:
                yield found
            return
        stamps = tuple((s.st_mtime_ns, s.st_size, s.st_ino) for s in map(os.stat, files))
        database = _kept(tuple(allowed), tuple(views), threads, stamps)
        with database.cursor() as found:  # which shows no progress bar, as a first connection may
            yield found
    except duckdb.OutOfMemoryException:
        raise UsageError(
            f"The question takes more than {MEMORY} of memory.", "Ask for fewer groups, or fewer columns at a time."
        ) from None
    except BROKEN:
        _databases.clear()
        raise


def _opened(allowed: tuple[str, ...], views: tuple[str, ...], threads: int | None) -> Any:
    """Open a database."""
    # by default what memory does not hold goes to files in the folder that a program happens to run in
    nothing_else: dict[str, Any] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "temp_directory": "",
    }
    check_room()
    database = duckdb.connect(config=nothing_else)
    database.execute("SET GLOBAL TimeZone = 'UTC'")  # else times in a condition would mean the analyst's own zone
    database.execute("SET enable_external_file_cache = false")  # it would hold memory while the database is idle
    database.execute(f"SET memory_limit = '{MEMORY}'")
    if threads:
        database.execute(f"SET threads = {threads}")
    database.execute(f"SET allowed_paths = [{', '.join(allowed)}]")
    database.execute("SET enable_external_access = false")
    for view in views:
        database.execute(view)
    database.execute("SET lock_configuration = true")
    return database


@dataclass
class _Kept:
    """A database that stays open, and how often it was asked."""

    database: Any
    asked: int = 0


_databases: dict[tuple[Any, ...], _Kept] = {}
"""Those that stay open, the one that was asked last at the end."""


def _kept(allowed: tuple[str, ...], views: tuple[str, ...], threads: int | None, stamps: object) -> Any:
    """Return an open database of this process. `stamps` tell whether files are still the same."""
    key = (allowed, views, threads, stamps)
    found = _databases.pop(key, None)
    if found is None or found.asked >= MOST_ASKED:
        found = _Kept(_opened(allowed, views, threads))
    found.asked += 1
    _databases[key] = found
    while len(_databases) > KEPT:
        _databases.pop(next(iter(_databases)), None)
    return found.database


def _leave_to_parent() -> None:
    """Forget, in a child, the databases of its parent without closing them.

    A child has not the threads of its parent's databases: to ask one, and to close one, would wait for these forever.
    Most are closed before the fork; another thread may have opened one since.
    """
    for kept in _databases.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept.database))  # so that it is never closed
    _databases.clear()


if hasattr(os, "register_at_fork"):  # a system without it does not fork
    os.register_at_fork(before=_databases.clear, after_in_child=_leave_to_parent)
