"""A table that Spark reads, and where each row is: its file's number and its own number in the file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa

from sfumato.engines.base import Batch
from sfumato.engines.spark.tasks import FILE, ROW, Files, TaskSource, collected, file_sums, mapped, reason
from sfumato.engines.stamps import changed_files
from sfumato.errors import TableError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

KEEP_ADDRESSES = {"Project", "Filter", "SubqueryAlias", "View", "LogicalRelation"}
"""Steps after which a row still is a row of a file, once: others move rows, join them or make several of one."""


class SparkSource:
    """A DataFrame. It is counted and published by Spark; its rows never come to this process.

    Rows have addresses where the frame reads Parquet files (also through a Delta table), with nothing but a choice of
    rows and columns after it. Files are numbered in the order of their paths, as one machine numbers them.
    """

    def __init__(self, frame: DataFrame, description: str = "a Spark DataFrame") -> None:
        if not hasattr(frame, "_jdf"):
            raise UsageError(
                "The DataFrame is one of Spark Connect, which does not tell where rows come from.",
                "Use a session of the cluster itself (on Databricks: a cluster with dedicated access).",
            )
        self.frame, self.description = frame, description
        self.names: list[str] = list(frame.columns)
        self.wide: dict[str, tuple[str, ...]] = {}
        if len(set(self.names)) < len(self.names):
            raise TableError("The DataFrame has a column name more than once.", "Rename or drop one.")
        self._opened = self._stamps()
        self.folder = Path(description) if Path(description).is_dir() else None

    @property
    def session(self) -> SparkSession:
        """The session that reads it."""
        return self.frame.sparkSession

    @cached_property
    def types(self) -> dict[str, Any]:
        """The Arrow types under which workers see the columns."""
        return {field.name: _arrow_type(field.dataType) for field in self.frame.schema}

    def column_type(self, name: str) -> Any:
        """Return the Arrow type under which a column is read."""
        return self.types[name]

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Refuse: rows stay where they are."""
        raise UsageError(
            f"This reads the rows of {self.description} on this machine, and they are on Spark.",
            "Spark counts, plans, publishes and answers queries; for the rest write the table to files.",
        )

    # --- addresses ------------------------------------------------------------------------------------------------

    @cached_property
    def why_no_address(self) -> str:
        """Why rows have no address that stays; empty if they have one."""
        plan = self.frame._jdf.queryExecution().analyzed()
        if not plan.deterministic():
            return "it has columns that are drawn anew each time it is read"
        if others := sorted(set(_steps(plan)) - KEEP_ADDRESSES):
            return f"it is not read as it lies in files: {', '.join(others)}"
        metadata = plan.metadataOutput()
        if not any('"row_index"' in metadata.apply(k).dataType().json() for k in range(metadata.size())):
            return "its files do not number their rows, as Parquet does"
        return ""

    def _address(self, name: str) -> Column:
        """Return what Spark knows of a row's file, also where the table has a column of that name."""
        return self.frame.metadataColumn("_metadata")[name]

    @cached_property
    def files(self) -> Files:
        """The files in the order of their paths, and the rows of each (up to the last one that is not filtered out)."""
        from pyspark.sql import functions as f

        path, row = self._address("file_path"), self._address("row_index")
        rows_of_files = self.frame.select(path.alias("path"), f.xxhash64(path).alias("mark"), row.alias("row"))
        found = rows_of_files.groupBy("path", "mark").agg(f.max("row").alias("last"), f.count("*").alias("rows"))
        numbers = {parts: k for k, parts in enumerate(sorted({_parts(uri) for uri in self.frame.inputFiles()}))}
        lines = collected(found).to_pylist()
        marks = {line["mark"]: numbers[_parts(line["path"])] for line in lines}
        if len(set(marks.values())) < len(lines):
            raise TableError("Two files of the table have paths that cannot be told apart.", "Rename one of them.")
        if any(line["rows"] > line["last"] + 1 for line in lines):
            raise TableError("The DataFrame reads a file more than once.", "Read every file once.")
        rows = np.zeros(len(numbers), dtype=np.int64)
        for line in lines:
            rows[marks[line["mark"]]] = line["last"] + 1
        return Files.of(marks, rows, sum(line["rows"] for line in lines))

    def addressed(self, columns: Sequence[str]) -> DataFrame:
        """Return some columns with the address of each row; both are -1 where rows have none."""
        from pyspark.sql import functions as f

        chosen = [f.col(quoted(name)) for name in columns]
        if self.why_no_address:
            return self.frame.select(*chosen, f.lit(-1).cast("long").alias(FILE), f.lit(-1).cast("long").alias(ROW))
        mark, row = f.xxhash64(self._address("file_path")), self._address("row_index")
        return self.frame.select(*chosen, mark.alias(FILE), row.alias(ROW))

    def in_task(self, columns: Sequence[str]) -> TaskSource:
        """Return how a worker sees rows of `addressed(columns)`."""
        types = {name: self.column_type(name) for name in columns}
        return TaskSource(list(columns), types, None if self.why_no_address else self.files)

    # --- content --------------------------------------------------------------------------------------------------

    def fingerprint(self) -> str:
        """Return a sha256: of the files' bytes where workers can open them, as one machine makes it; else of sums over
        the rows, which depend on the rows and not on their order.
        """
        return self._of_files() or self._of_rows()

    def check_unchanged(self) -> None:
        """Raise if a file is not as it was when the frame was made; of frames without files, counts tell."""
        if self._stamps() != self._opened:
            raise changed_files(f"the files of {self.description} are not those that it was made of")

    def _stamps(self) -> tuple[tuple[str, int, int], ...]:
        """Return name, size and time of all files, as the store has them: one listing of each folder."""
        java: Any = self.session._jvm
        settings = self.session._jsparkSession.sessionState().newHadoopConf()
        files = {_parts(uri) for uri in self.frame.inputFiles()}
        found = []
        for folder in sorted({uri.rsplit("/", 1)[0] for uri in self.frame.inputFiles()}):
            path = java.org.apache.hadoop.fs.Path(java.java.net.URI(f"{folder}/"))
            listed = path.getFileSystem(settings).listStatus(path)
            found += [s for s in listed if _parts(s.getPath().toUri().toString()) in files]
        return tuple(sorted((s.getPath().toString(), int(s.getLen()), int(s.getModificationTime())) for s in found))

    def _of_files(self) -> str | None:
        if self.why_no_address or list(_steps(self.frame._jdf.queryExecution().analyzed())) != ["LogicalRelation"]:
            return None
        paths = [local_path(uri) for uri in sorted(self.frame.inputFiles(), key=_parts)]
        if not paths or not all(path and Path(path).is_file() for path in paths):
            return None
        listed = self.session.createDataFrame(list(enumerate(paths)), "number long, path string")
        found = collected(mapped(listed.repartition(len(paths)), file_sums, "number long, digest binary"))
        digests = {line["number"]: line["digest"] for line in found.to_pylist()}
        return hashlib.sha256(b"".join(digests[k] for k in range(len(paths)))).hexdigest()

    def _of_rows(self) -> str:
        from pyspark.sql import functions as f

        columns = [f.col(quoted(name)) for name in self.names]
        one, other = f.xxhash64(*columns), f.xxhash64(f.lit("sfumato"), *columns)
        sums = self.frame.agg(
            f.count("*"), f.sum(one.cast("decimal(38,0)")), f.sum(other.cast("decimal(38,0)")), f.bit_xor(one)
        ).first()
        content = repr([self.frame.schema.simpleString(), *(str(number) for number in sums or ())])
        return hashlib.sha256(content.encode()).hexdigest()


def open_frame(session: SparkSession, path: str | Path) -> SparkSource:
    """Return a Parquet file or a folder of them, read by Spark: the files that one machine would read.

    A path with a scheme (s3://, hdfs://, dbfs:/) is left to Spark to list.
    """
    from sfumato.engines.embedded.sources import ParquetSource, open_source

    text = str(path)
    if "://" in text or text.startswith("dbfs:"):
        with _readable(text):
            return SparkSource(session.read.parquet(text), text)
    source = open_source(Path(text))
    if not isinstance(source, ParquetSource):
        raise UsageError(
            f"{text!r} is not Parquet, whose files number their rows; Spark publishes nothing else.",
            "Write it to Parquet first, or publish it on one machine (--engine embedded).",
        )
    with _readable(text):
        return SparkSource(session.read.parquet(*(_plain_path(file) for file in source.files)), text)


@contextmanager
def _readable(description: str) -> Iterator[None]:
    """Turn what Spark says of files that it does not read into an error of ours."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as problem:
        raise TableError(
            f"Spark cannot read {description!r}: {reason(str(problem))}.",
            "Write it to Parquet files that Spark reads, or publish it on one machine (--engine embedded).",
        ) from None


def _plain_path(file: Path) -> str:
    """Return a local path as Spark takes it: not as a URI, and with nothing in it that stands for other names.

    >>> _plain_path(Path("/data/a b [1].parquet"))
    'file:///data/a b \\\\[1\\\\].parquet'
    """
    return "file://" + re.sub(r"([\\*?{}\[\]])", r"\\\1", str(file.absolute()))


def _arrow_type(kind: Any) -> Any:
    """Return the Arrow type of a Spark type; one that is not published for all that Arrow has no type for."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import TimestampType

    if isinstance(kind, TimestampType):  # in whatever zone the session tells it
        return pa.timestamp("us", tz="UTC")
    try:
        return to_arrow_type(kind)
    except (PySparkException, AssertionError):
        return pa.opaque(pa.null(), kind.simpleString(), "Spark")


def _steps(plan: Any) -> Iterator[str]:
    yield str(plan.nodeName())
    children = plan.children()
    for k in range(children.size()):
        yield from _steps(children.apply(k))


def local_path(uri: str) -> str | None:
    """Return the path of a file that may be opened as such; None for another scheme.

    >>> local_path("file:///data/a%20b.parquet"), local_path("dbfs:/Volumes/x/y.parquet"), local_path("s3://b/c")
    ('/data/a b.parquet', '/Volumes/x/y.parquet', None)
    """
    parts = urlsplit(uri)
    known = parts.scheme in ("", "file") or (parts.scheme == "dbfs" and parts.path.startswith("/Volumes/"))
    return unquote(parts.path) if known else None


def _parts(uri: str) -> tuple[str, ...]:
    """Return what paths are compared by: the store, then part by part, as pathlib compares them."""
    parts = urlsplit(uri)
    return parts.netloc, *PurePosixPath(unquote(parts.path)).parts


def quoted(name: str) -> str:
    """Return the name of a column as Spark reads it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"
