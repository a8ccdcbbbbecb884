"""Reading a release: counted by DuckDB, straight from the published file, with nothing else in reach."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb

from sfumato.errors import ReleaseError
from sfumato.release import Release

CSV_TYPES = {
    "bool": "BOOLEAN",
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT",
    "uint8": "UTINYINT", "uint16": "USMALLINT", "uint32": "UINTEGER", "uint64": "UBIGINT",
    "float": "REAL", "double": "DOUBLE", "date32[day]": "DATE",
}  # fmt: skip
"""How the text of a CSV release is read, by the type in the manifest; everything else stays text."""


CONDITION_ERRORS = (
    duckdb.BinderException, duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.TypeMismatchException,
)  # fmt: skip
"""What DuckDB raises where a condition does not fit the columns."""


@contextmanager
def connected(release: Release) -> Iterator[Any]:
    """Give a DuckDB connection with one view, `release`, and a locked configuration."""
    if not release.data.is_file():
        raise ReleaseError(f"The release {str(release.folder)!r} has lost its data file {release.data.name!r}.")
    connection = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
    try:
        connection.execute(f"CREATE VIEW release AS {_select(release)}")
        connection.execute("SET lock_configuration = true")
        yield connection
    except duckdb.Error as problem:
        raise ReleaseError(f"The data of {str(release.folder)!r} cannot be read: {first_line(problem)}.") from None
    finally:
        connection.close()


def read_rows(release: Release) -> Any:
    """Return all published rows as an Arrow table."""
    with connected(release) as connection:
        return connection.sql("SELECT * FROM release").to_arrow_table()


def quoted(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _select(release: Release) -> str:
    # the file of this name and no other: wildcards stand for themselves, folders named x=y are no columns
    path = "'" + re.sub(r"([*?[])", r"[\1]", str(release.data.absolute())).replace("'", "''") + "'"
    if release.manifest.data.format == "parquet":
        return f"SELECT * FROM read_parquet({path}, hive_partitioning = false)"
    columns = ", ".join(
        f"CAST({quoted(c.name)} AS {CSV_TYPES.get(c.type, 'VARCHAR')}) AS {quoted(c.name)}"
        for c in release.manifest.columns
    )
    return (
        f"SELECT {columns} FROM read_csv({path}, all_varchar = true, header = true, delim = ',', quote = '\"', "
        "escape = '\"', nullstr = '', allow_quoted_nulls = false, hive_partitioning = false, auto_detect = false, "
        "columns = "
        "{" + ", ".join(f"'{c.name.replace(chr(39), chr(39) * 2)}': 'VARCHAR'" for c in release.manifest.columns) + "})"
    )


def first_line(problem: Exception) -> str:
    """Return the first line of a message, without its full stop."""
    return str(problem).splitlines()[0].rstrip(".")
