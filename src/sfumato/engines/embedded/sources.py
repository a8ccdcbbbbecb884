"""The tables that can be read: Parquet, folders of Parquet, CSV and TSV (also gzipped), and anything that speaks Arrow.

CSV is read as text: 007 stays 007. Strings are read as dictionaries where the file has them, which is fast and small.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato.engines.base import BATCH_ROWS, Batch, Source, Stretch, hash_files
from sfumato.engines.embedded.csv_source import CsvSource
from sfumato.engines.stamps import check_stamps, stamps
from sfumato.errors import TableError, UsageError
from sfumato.release.folder import MANIFEST_NAME, check_name
from sfumato.release.formats.parquet import Chunk, chunks_of
from sfumato.values.arrow import is_text
from sfumato.values.section import InputRule
from sfumato.values.text import near_file

TEXTS = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
"""How the names of text files end. What stands between values is the policy's to say, whatever the name."""
LARGEST_DICTIONARY = 1 << 19
"""Bytes of a Parquet dictionary above which a string column is read as plain strings (many distinct values)."""


def open_source(table: Any, rule: InputRule | None = None) -> Source:
    """Return a source for a path or for any object with `__arrow_c_stream__` (pandas, polars, DuckDB, pyarrow)."""
    source = _opened(table, rule)
    check_once(source.names)
    return source


def check_once(names: Sequence[str]) -> None:
    """Raise if two columns have one name: neither could be asked for."""
    if twice := sorted(name for name, number in Counter(names).items() if number > 1):
        listed = ", ".join(map(repr, twice))
        raise TableError(f"The table has a column more than once: {listed}.", "Rename or drop one.")


def _opened(table: Any, rule: InputRule | None) -> Source:
    if hasattr(table, "__arrow_c_stream__"):
        return ArrowSource(table)
    if not isinstance(table, str | Path):
        raise UsageError(
            f"A table is a path or an object that speaks Arrow, not a {type(table).__name__}.",
            "pandas, polars, DuckDB and pyarrow tables can be passed as they are.",
        )
    path = Path(table)
    if not path.exists():
        raise no_table(path)
    check_name(path, TableError)
    if path.is_dir():
        return ParquetSource(_parquet_files(path), str(path))
    name = path.name.lower()
    if name.endswith(TEXTS):
        return CsvSource(path, rule or InputRule())
    if name.endswith((".parquet", ".pq")):
        return ParquetSource([path], str(path))
    remedy = next((remedy for endings, remedy in _REMEDIES if name.endswith(endings)), "")
    raise UsageError(
        f"{str(path)!r} is of a kind that is not read: tables are .parquet, .csv, .tsv, .csv.gz, .tsv.gz, or folders "
        "of .parquet.",
        remedy or "Save or export it as CSV (UTF-8) or Parquet.",
    )


def is_frame(table: Any) -> bool:
    """Whether it is a Spark DataFrame. (It speaks Arrow too, and would come to this process whole.)"""
    return any(
        kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame" for kind in type(table).__mro__
    )


def no_table(path: str | Path) -> UsageError:
    """Return the error of a table that is not there."""
    return UsageError(f"There is no table {str(path)!r}.", near_file(path) or "Give the path of a file or folder.")


_REMEDIES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        (".xlsx", ".xls", ".xlsm", ".ods"),
        "Save the sheet as CSV (UTF-8) or Parquet: one table, names in the first line.",
    ),
    (
        (".txt", ".dat", ".tab", ".asc"),
        "If it is text with one mark between values, rename it to .csv and name the mark in the policy: [input] "
        'delimiter = "\\t" is a tab.',
    ),
    (
        (".zip", ".7z", ".tar", ".tar.gz", ".tgz", ".bz2", ".xz", ".zst"),
        "Unpack it first; CSV may stay gzipped (.csv.gz).",
    ),
    (
        (".sav", ".dta", ".sas7bdat", ".xpt", ".rds", ".rda"),
        "Export it as CSV (UTF-8) or Parquet from the program that wrote it; codes, not their labels, unless labels "
        "are what you publish.",
    ),
    (
        (".db", ".sqlite", ".sqlite3", ".duckdb"),
        "Export one table as Parquet. In Python, sf.scan takes what DuckDB, pandas or polars read.",
    ),
)
"""What to do with files of kinds that are not read, by how their names end."""


class ParquetSource:
    """One Parquet file, or several in the order of their names."""

    def __init__(self, files: Sequence[Path], description: str) -> None:
        self.description = description
        self.files = list(files)
        self._opened = stamps(self.files)
        self.folder = Path(description) if Path(description).is_dir() else None
        with _readable(description):
            footers = [pq.read_metadata(file) for file in self.files]  # not the files: a process may open few
            schemas = [footer.schema.to_arrow_schema() for footer in footers]
        for file, schema in zip(self.files, schemas, strict=True):
            if schema.names != schemas[0].names or schema.types != schemas[0].types:
                raise TableError(
                    f"{file.name!r} has other columns or types than {self.files[0].name!r}.",
                    "All files of a folder must have the same columns, in the same order and of the same types.",
                )
        self.names: list[str] = list(schemas[0].names)
        self.wide: dict[str, tuple[str, ...]] = {}
        self.rows = sum(footer.num_rows for footer in footers)
        with _readable(description):
            small = _small_dictionaries(self.files)
            self._coded = [f.name for f in schemas[0] if is_text(f.type) and f.name in small]
            self._schema = self._open(self.files[0]).schema_arrow

    def _open(self, file: Path) -> pq.ParquetFile:
        # streaming column chunks in small buffers keeps memory independent of the size of the row groups
        return pq.ParquetFile(
            file,
            read_dictionary=self._coded,
            pre_buffer=False,
            buffer_size=1 << 18,
            page_checksum_verification=True,  # where the file has checksums
        )

    def column_type(self, name: str) -> Any:
        """Return the Arrow type under which a column is read."""
        return self._schema.field(name).type

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Yield all rows with these columns."""
        for number, path in enumerate(self.files):
            with _readable(str(path)):
                file, start = self._open(path), 0
                for rows in file.iter_batches(BATCH_ROWS, columns=list(columns), use_threads=False):
                    _check_dictionaries(rows)
                    yield Stretch(number, start, rows)
                    start += rows.num_rows
                    del rows  # else it lives on while the next one is read

    def fingerprint(self) -> str:
        """Return a sha256 over the bytes of the files, in their order."""
        return hash_files(self.files)

    def check_unchanged(self) -> None:
        """Raise if a file is not as it was when it was opened, or the folder has another one."""
        check_stamps(self._opened, _parquet_files(self.folder) if self.folder else self.files)


class ArrowSource:
    """A table in memory that speaks Arrow."""

    def __init__(self, table: Any) -> None:
        self.description = f"a {type(table).__module__.split('.')[0]} table"
        with _readable(self.description, "Every column must hold values of one type."):
            given = pa.table(table)
            self._table = pa.table([_with_plain_text(c) for c in given.columns], names=given.column_names)
        self.names: list[str] = list(self._table.column_names)
        self.rows: int = self._table.num_rows
        self.folder: Path | None = None
        self.wide: dict[str, tuple[str, ...]] = {}

    def column_type(self, name: str) -> Any:
        """Return the Arrow type under which a column is read."""
        return self._table.schema.field(name).type

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Yield all rows with these columns."""
        start = 0
        for rows in self._table.select(list(columns)).to_batches(max_chunksize=BATCH_ROWS):
            if rows.num_rows:
                yield Stretch(0, start, rows)
                start += rows.num_rows

    def fingerprint(self) -> str:
        """Return a sha256 over the content, whatever its chunks are."""
        digest = hashlib.sha256()
        sink = pa.BufferOutputStream()
        plain = pa.table([_decoded(column) for column in self._table.columns], names=self.names)
        with pa.ipc.new_stream(sink, plain.schema) as writer:
            writer.write_table(plain.combine_chunks())
        digest.update(sink.getvalue())
        return digest.hexdigest()

    def check_unchanged(self) -> None:
        """Accept it: it is in memory, and its values are compared with those that were counted."""


def _with_plain_text(column: Any) -> Any:
    """Return a dictionary of views or large text as one of text (Arrow itself cannot), one with a null among its values
    or a value twice as one without, so that both are found where they are looked for; any other column as it is."""
    kind = column.type
    if not pa.types.is_dictionary(kind):
        return column
    if pa.types.is_string_view(kind.value_type) or pa.types.is_large_string(kind.value_type):
        chunks = [pa.DictionaryArray.from_arrays(c.indices, c.dictionary.cast(pa.string())) for c in column.chunks]
        column = pa.chunked_array(chunks, pa.dictionary(kind.index_type, pa.string()))
    is_odd = any(_has_null_or_twin(chunk.dictionary) for chunk in column.chunks)
    return _decoded(column).dictionary_encode() if is_odd else column


def _has_null_or_twin(values: Any) -> bool:
    return bool(values.null_count) or len(values.unique()) < len(values)


def _decoded(column: Any) -> Any:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _parquet_files(folder: Path) -> list[Path]:
    below = {f: f.relative_to(folder).parts for f in folder.rglob("*.parquet")}
    files = sorted(f for f, parts in below.items() if not any(p.startswith((".", "_")) for p in parts))
    if not files:
        raise UsageError(f"The folder {str(folder)!r} holds no .parquet file.", _folder_hint(folder))
    for file in files:
        check_name(file, TableError)
        if release := next((above for above in file.parents if _is_release(above, folder)), None):
            raise TableError(
                f"{str(folder)!r} holds {file.name!r} of the release {str(release)!r}, which is no original.",
                "Move the release out of the table's folder.",
            )
    if any("=" in part for f in files for part in below[f][:-1]):
        raise UsageError(
            f"The folder {str(folder)!r} has columns in its folder names (name=value).",
            "Write such a table to plain Parquet files first; folder names are not read.",
        )
    return files


def _is_release(above: Path, folder: Path) -> bool:
    return above.is_relative_to(folder) and (above / MANIFEST_NAME).exists()


def _folder_hint(folder: Path) -> str:
    """Return what to do with a folder that holds no Parquet: most often CSV files."""
    texts = sorted(file.name for file in folder.iterdir() if file.name.lower().endswith(TEXTS))
    if len(texts) == 1:
        return f"Name the file: {str(folder / texts[0])!r}."
    if texts:
        query = f"COPY (FROM read_csv('{folder}/*{Path(texts[0]).suffix}', all_varchar = true)) TO 'table.parquet'"
        return (
            f"It holds {len(texts)} text files, and only one is read at a time: join them to one table. DuckDB does it "
            f"by {query}."
        )
    return "Name a file, or a folder of .parquet files."


def _small_dictionaries(files: Sequence[Path]) -> set[str]:
    """Return the flat columns of which every row group has a dictionary that did not overflow."""
    chunks = chunks_of(files)
    return {chunk.path for chunk in chunks} - {chunk.path for chunk in chunks if not _is_small(chunk)}


def _check_dictionaries(rows: Any) -> None:
    """Raise if a value is none of its dictionary, which Arrow does not look at when it reads a damaged file."""
    for column in rows.columns:
        if pa.types.is_dictionary(column.type) and column.null_count < len(column):
            ends = pc.min_max(column.indices)
            if ends["min"].as_py() < 0 or ends["max"].as_py() >= len(column.dictionary):
                raise pa.ArrowInvalid("a value is none of its dictionary")


def _is_small(chunk: Chunk) -> bool:
    return chunk.dictionary is not None and chunk.data - chunk.dictionary <= LARGEST_DICTIONARY


@contextmanager
def _readable(description: str, hint: str = "The file is damaged or not of its kind.") -> Iterator[None]:
    """Turn what Arrow says of a broken file, or of an odd table, into an error of ours."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:  # a name may be no text
        first = (str(problem).splitlines() or [type(problem).__name__])[0].rstrip(". ")
        raise TableError(f"{description!r} cannot be read: {first}.", hint) from None
