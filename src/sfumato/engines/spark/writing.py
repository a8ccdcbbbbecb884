"""Rows to the files of a release. Workers write them, each under a name of its own; the driver takes those whose tasks
ended well, and gives them their places. So a task that is run again, or twice at once, adds nothing.

In the table's order, a file of the release holds consecutive rows of one file of the table; the driver puts files in
order. Shuffled, rows go to parts by the leading bits of their secret words, and are sorted by the words inside: the
order of all rows is that of independent words, so all orders are equally likely.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.base import RESERVED, FilesWritten
from sfumato.engines.embedded.engine import kept_memory, write_file
from sfumato.engines.rows.mapping import WORD
from sfumato.engines.spark.source import quoted
from sfumato.engines.spark.tasks import at_once, collected, in_arrow, mapped
from sfumato.errors import TableError
from sfumato.release.formats.parquet import Parquet
from sfumato.show.disk import to_disk
from sfumato.values.arrays import IntArray, WordArray
from sfumato.values.arrow import as_numpy, from_numpy
from sfumato.values.randomness import SecretKey, release_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ATTEMPTS = ".attempts"
"""The folder that workers write to."""
PART = f"{RESERVED}part"
"""The column that says which part of the release a row belongs to."""
PART_ROWS = 1 << 21
"""Rows of a part, about, of tables that are not very large."""
MOST_PARTS = 1 << 14
"""Every task that maps rows has a piece for each part: of a very large table parts are larger instead of more."""
FEW = 8
"""Text is written by a dictionary where the first rows of a file have a value this many times on average."""
LOWEST = np.uint64(1 << 63)
FILES = "name string, file long, first long, rows long, checked long, sha256 string, schema binary"


class Parts(NamedTuple):
    """A table of the release in files, and what the workers' sums add up to."""

    table: FilesWritten
    checked: int


Place = tuple[int, int]
"""Where a file stands among the others: the number of the table's file and row that it begins with, or of the part."""


Stage = Callable[[Iterator[Any], SecretKey, WordArray], Iterator[tuple[Place, Any]]]
"""Makes published rows of Spark's batches, and says to which file they go: a new one where the place changes.

The words are one number, which may overflow: what a worker adds up while it writes.
"""


@dataclass(frozen=True)
class WriteFiles:
    """Writes the rows of a partition to files."""

    folder: str
    stage: Stage
    complete: frozenset[str]
    sets: frozenset[str]

    def __call__(self, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
        """Yield a line for each file, and one for what was added up."""
        checked, lines = np.zeros(1, dtype=np.uint64), []
        with kept_memory():
            for place, rows in in_files(self.stage(given, key, checked)):
                path = Path(self.folder) / f"{release_id()}.parquet"
                _, number, sha256, schema, _ = write_file(
                    packed(rows), path, Parquet(self.complete, sets=self.sets), Event()
                )
                to_disk(path)  # its worker may be gone when the release is committed
                lines.append((path.name, *place, number, 0, sha256, schema.serialize().to_pybytes()))
        yield in_arrow(FILES, [*lines, ("", 0, 0, 0, checked.view(np.int64)[0], "", b"")])


def in_files(rows: Iterable[tuple[Place, Any]]) -> Iterator[tuple[Place, Iterator[Any]]]:
    """Give the rows of each file: those that have one place."""
    some = ((place, batch) for place, batch in rows if batch.num_rows)
    for place, group in groupby(some, key=itemgetter(0)):
        yield place, map(itemgetter(1), group)


def packed(batches: Iterator[Any]) -> Iterator[Any]:
    """Give text as dictionaries where values come back often: Spark hands it over plain, which takes long to write."""
    coded: set[str] | None = None
    for batch in batches:
        if coded is None:
            coded = {f.name for f in batch.schema if pa.types.is_string(f.type) and _comes_back(batch.column(f.name))}
        columns = [
            c.dictionary_encode() if f.name in coded else c for f, c in zip(batch.schema, batch.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _comes_back(column: Any) -> bool:
    return FEW * len(pc.unique(column[: 1 << 14])) <= min(len(column), 1 << 14) + FEW


# --- on the driver ------------------------------------------------------------------------------------------------


def write_parts(
    frame: DataFrame,
    stage: Stage,
    key: SecretKey,
    folder: Path,
    name: str,
    complete: frozenset[str] = frozenset(),
    sets: frozenset[str] = frozenset(),
) -> Parts:
    """Write the rows to `folder/name/part-00000.parquet` and so on, in the order of their places.

    `complete` are the columns without missing values, `sets` those in which sets of values are published.
    """
    from sfumato.release.parts import part_name, parts_sha256  # not for workers: pydantic takes long to load

    with _attempts(folder) as attempts:
        lines = collected(
            mapped(frame, WriteFiles(str(attempts.resolve()), stage, complete, sets), FILES, key)
        ).to_pylist()
        made = sorted((line for line in lines if line["name"]), key=lambda line: (line["file"], line["first"]))
        if not made:
            raise TableError("No row is left to publish.", "All rows are left out because values are missing.")
        (folder / name).mkdir()
        for number, line in enumerate(made):
            os.rename(attempts / line["name"], folder / name / part_name(number))
    parts = tuple(FilesWritten(part_name(k), line["rows"], line["sha256"], None) for k, line in enumerate(made))
    schema, whole = pa.ipc.read_schema(pa.BufferReader(made[0]["schema"])), parts_sha256(part.sha256 for part in parts)
    written = FilesWritten(name, sum(part.rows for part in parts), whole, schema, parts)
    return Parts(written, sum(line["checked"] for line in lines) % (1 << 64))


@contextmanager
def _attempts(folder: Path) -> Iterator[Path]:
    """Give a folder to workers, and put it away at the end with what is left: of tasks that failed, or ran twice.

    Such a task may still be writing. So the folder first gets another name, outside the release: what is opened by the
    old name then fails, and nothing that is written late keeps the release from being finished or removed.
    """
    attempts = folder / ATTEMPTS
    attempts.mkdir(mode=0o700)
    try:
        yield attempts
    finally:
        left = folder.with_name(f"{folder.name}-{release_id()}")
        os.rename(attempts, left)
        shutil.rmtree(left, ignore_errors=True)


# --- shuffled -------------------------------------------------------------------------------------------------------


def parts_for(rows: int) -> int:
    """Return how many parts a release of so many rows has."""
    return max(1, min(-(-rows // PART_ROWS), MOST_PARTS))


def spark_schema(schema: Any) -> Any:
    """Return Spark's schema for plain columns of an Arrow schema."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(pa.schema([pa.field(f.name, _plain_type(f.type)) for f in schema]))


def plain(batch: Any) -> Any:
    """Return the rows with plain columns: Spark takes no dictionaries."""
    columns = [c.cast(_plain_type(c.type)) for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _plain_type(kind: Any) -> Any:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def signed(words: WordArray) -> IntArray:
    """Return words as Spark's numbers, in the same order."""
    return (words - LOWEST).view(np.int64)


def sorted_in_parts(frame: DataFrame, parts: int, by: Sequence[str]) -> DataFrame:
    """Return the rows by part, those of a part sorted. Ties are broken by what is published, not by where rows were."""
    from pyspark.sql import functions as f

    # one partition more than parts, for lines with sums
    rest = [quoted(name) for name in frame.columns if name not in (PART, *by)]
    return frame.repartitionById(parts + 1, f.col(PART)).sortWithinPartitions(*by, *rest)


def parts_in_order(parts: int, given: Iterator[Any], key: SecretKey, checked: WordArray) -> Iterator[tuple[Place, Any]]:
    """Give sorted rows, a file for each part, without what they were sorted by; after the last may be lines of sums."""
    for batch in at_once(given):
        part = int(as_numpy(batch.column(PART))[0])
        if part == parts:
            checked += as_numpy(batch.column(WORD)).view(np.uint64).sum(dtype=np.uint64)
        else:
            yield (part, 0), batch.drop_columns([PART, WORD])


def line_of_sums(schema: Any, parts: int, checked: WordArray) -> Any:
    """Return a line for after the last part: a row without values, whose word is a sum."""
    fields = [f for f in schema if f.name not in (PART, WORD)]
    nothing = pa.RecordBatch.from_arrays([pa.nulls(1, f.type) for f in fields], names=[f.name for f in fields])
    return with_columns(nothing, {PART: np.array([parts], dtype=np.int32), WORD: checked.view(np.int64)})


def with_columns(batch: Any, columns: Mapping[str, npt.NDArray[Any]]) -> Any:
    """Return the rows with further columns of numbers."""
    arrays = [*batch.columns, *map(from_numpy, columns.values())]
    return pa.RecordBatch.from_arrays(arrays, names=[*batch.schema.names, *columns])
