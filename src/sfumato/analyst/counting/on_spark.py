"""Counting on Spark: each task asks DuckDB about some rows of the release, and Spark merges the answers.

    task      opens some rows of a published file in DuckDB, as the embedded engine opens all of them   [Python worker]
    Spark     adds up the tasks' sums by key, on the cluster
    driver    gets as many rows as the merged answer has, whatever the number of published rows

A condition, a cast or a comparison so means the same as without Spark, NaN and all: the same DuckDB evaluates it. Only
finished sums by key pass through Spark. Sums of fractions are added in another order, so that last digits may differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from sfumato.analyst.counting.counts import CountedRelease, Counting
from sfumato.errors import ReleaseError, UsageError
from sfumato.release.folder import ROW_NUMBER, Piece, ReleaseFolder, connected, first_line, need_files
from sfumato.release.formats import FORMATS
from sfumato.release.spark_session import quietly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

PIECE_BYTES = 32 << 20
"""Of a published file that are read at a time: a task."""
ROWS_TOGETHER = 1 << 19
"""Row groups of published files: where pieces end between them, none is read twice."""
MOST_TASKS = 20_000
"""More pieces than that share tasks, so that the driver can keep count of them."""
ROWS_AT_ONCE = 1 << 16
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
FRACTIONS = ("FLOAT", "DOUBLE")
TOLD = re.compile(r"<duckdb (\w+): (.*?)>", re.DOTALL)
"""How a task's error from DuckDB is written, so that it can be told as the embedded engine tells it."""


def answered(release: CountedRelease, connection: Any, asked: Counting, tables: Mapping[str, Any]) -> Any:
    """Return the answer as an Arrow table with the types of the embedded engine.

    `connection` has some rows of the release: there it is checked that the question fits, and learned of which types
    the answer is. Nothing is counted on the driver.
    """
    bound = connection.sql(asked.counted)  # not run
    types = dict(zip(bound.columns, map(str, bound.types), strict=True))
    found = _collected(release, asked, types, tables)
    connection.register("found", found)
    columns = [f"CAST({name} AS {types[name]}) AS {name}" if name in types else name for name in found.column_names]
    return connection.sql(f"SELECT {', '.join(columns)} FROM found").to_arrow_table()


def _collected(release: CountedRelease, asked: Counting, types: Mapping[str, str], tables: Mapping[str, Any]) -> Any:
    """Count on the cluster, and collect the merged answer."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    spark, here = release.spark, ReleaseFolder(release.folder.absolute(), release.manifest)
    pieces = pieces_of(here)
    work = partial(count_pieces, here, pieces, _carried(asked.counted, types))
    try:
        tasks = spark.range(0, len(pieces), 1, min(len(pieces), MOST_TASKS))
        with quietly():
            answer = _merged(tasks.mapInArrow(work, _schema(types)), asked)
        if asked.then:
            frames = {name: spark.createDataFrame(table) for name, table in tables.items()}
            answer = spark.sql(asked.then, counted=answer, **frames)
        return answer.toArrow()
    except (PySparkException, Py4JError) as problem:
        raise _retold(str(problem)) from None


def _merged(answers: DataFrame, asked: Counting) -> DataFrame:
    """Merge the answers of all pieces."""
    from pyspark.sql import functions

    if not asked.sums:
        return answers.distinct()
    sums = [getattr(functions, how)(name).alias(name) for name, how in asked.merges.items()]
    return answers.groupBy(*asked.key_names).agg(*sums)


# --- what a task does -------------------------------------------------------------------------------------------------


def count_pieces(release: ReleaseFolder, pieces: Sequence[Piece], query: str, batches: Iterator[Any]) -> Iterator[Any]:
    """Answer the query of each of some pieces, which Spark hands over by number."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from _counted(release, pieces[number], query)


def _counted(release: ReleaseFolder, piece: Piece, query: str) -> Iterator[Any]:
    with connected(release, piece, as_numbers=True) as connection:
        try:
            yield from connection.sql(query).to_arrow_reader(ROWS_AT_ONCE)
        except duckdb.Error as problem:
            raise RuntimeError(f"<duckdb {type(problem).__name__}: {first_line(problem)}>") from None


def _retold(text: str) -> Exception:
    """Return a task's error as the embedded engine would raise it; else what Spark says."""
    told = TOLD.search(text)
    if told:
        kind: type[duckdb.Error] = getattr(duckdb, told[1], duckdb.Error)
        return kind(told[2])
    if "No module named 'sfumato'" in text:
        return UsageError("Spark's workers do not have sfumato.", "Install it where they run: pip install sfumato")
    if lost := re.search(r"has lost its data file '(.*?)'", text):
        return ReleaseError(
            f"A worker of Spark does not see {lost[1]!r}.", "Put the release where driver and workers have one path."
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)] or lines or ["nothing"]
    return UsageError(f"Spark could not count: {said[-1].rstrip('.')}.", "Its log says more: spark.log.level.")


# --- how an answer passes through Spark -------------------------------------------------------------------------------


def _carrier(kind: str) -> str:
    """Return the type in which values of a DuckDB type pass through Spark: text gives back every value of the rest."""
    return "BIGINT" if kind in INTEGERS else "DOUBLE" if kind in FRACTIONS else "VARCHAR"


def _carried(query: str, types: Mapping[str, str]) -> str:
    columns = ", ".join(f"CAST({name} AS {_carrier(kind)}) AS {name}" for name, kind in types.items())
    return f"SELECT {columns} FROM ({query})"


def _schema(types: Mapping[str, str]) -> StructType:
    from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

    carriers = {"BIGINT": LongType(), "DOUBLE": DoubleType(), "VARCHAR": StringType()}
    return StructType([StructField(name, carriers[_carrier(kind)]) for name, kind in types.items()])


# --- pieces of the published rows -------------------------------------------------------------------------------------


def pieces_of(release: ReleaseFolder) -> list[Piece]:
    """Return the published rows in pieces: files, the large ones cut where the format can be."""
    data, files = release.manifest.data, release.data_files
    rows = [data.rows] if data.parts is None else [part.rows for part in data.parts]
    is_whole = not FORMATS[data.format].numbers_rows or ROW_NUMBER in map(str.lower, release.column_names)
    need_files(release, files)
    return [
        piece
        for file, own in zip(files, rows, strict=True)
        for piece in ([Piece(file)] if is_whole else _cut(file, own))
    ]


def _cut(file: Path, rows: int) -> Iterator[Piece]:
    """Give the pieces of a file; the last one goes to its end, wherever that is."""
    pieces = max(1, ceil(file.stat().st_size / PIECE_BYTES))
    step = max(1, ceil(rows / pieces / ROWS_TOGETHER)) * ROWS_TOGETHER
    for first in range(0, max(1, rows), step):
        yield Piece(file, first, first + step if first + step < rows else None)
