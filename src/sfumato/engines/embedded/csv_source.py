"""CSV, also gzipped, read as text: 007 stays 007.

A broken file is told with its line: Arrow reads fast and says little, so on any trouble the file is read again, slowly.
"""

from __future__ import annotations

import copy
import csv
import gzip
import io
import itertools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as pacsv

from sfumato.engines.base import Batch, Stretch, hash_files
from sfumato.engines.embedded import csv_lines
from sfumato.engines.stamps import check_stamps, stamps
from sfumato.errors import TableError
from sfumato.values.arrow import from_text, with_nulls
from sfumato.values.attributes import Missing
from sfumato.values.section import InputRule

CSV_BLOCK = 1 << 20
END = "\x1eend\x1e"
CODED = pa.dictionary(pa.int32(), pa.string())
WIDE = "\0"
"""Between the names of a run of columns that is read as one: no column that is published has it in its name."""
DAMAGE = (OSError, EOFError, zlib.error)  # what reading a damaged file raises

LONGEST_FIELD = csv_lines.LONGEST_LINE
DAMAGED = "Export or copy the file again."
LONG_COLUMN = "Write the table to Parquet, or leave the long column out."


class CsvSource:
    """A CSV file with a header, read as text."""

    def __init__(self, path: Path, rule: InputRule) -> None:
        self.path, self.rule, self.description = path, rule, str(path)
        self._opened = stamps([path])
        self.folder: Path | None = None
        self.names, self._header_lines = self._header()
        self.coded: frozenset[str] = frozenset()  # columns to be read as dictionaries: those that will be encoded
        self.wide: dict[str, tuple[str, ...]] = {}  # columns that are runs of the file's columns
        self._lenient: frozenset[str] = frozenset()  # those of them that are never missing
        self._fields = list(self.names)

    def _header(self) -> tuple[list[str], int]:
        """Return the column names and the number of lines that they take (a quoted name may hold a line break)."""
        try:
            with self._text() as lines:
                reader = csv.reader(self._short(lines), delimiter=self.rule.delimiter)
                header = next(reader, None)
        except UnicodeDecodeError:
            raise self._not_utf8() from None
        except (*DAMAGE, csv.Error) as problem:
            raise TableError(f"{self.description!r} cannot be read: {_said(problem)}.", DAMAGED) from None
        if not header:
            raise TableError(
                f"{self.description!r} is empty: it has no header line.",
                "Export it again: the first line names the columns, and each further line is a record.",
            )
        return header, reader.line_num

    @cached_property
    def _is_plain(self) -> bool:
        """Whether every line is a row: without any quote no value holds a line break."""
        if self.path.suffix.lower() == ".gz" or self._header_lines != 1:
            return False
        with self._bytes() as raw:
            header = raw.readline(LONGEST_FIELD)  # longer where lines have other ends
            if not header.endswith(b"\n") or b"\r" in header.removesuffix(b"\r\n"):
                return False
            room = bytearray(CSV_BLOCK)
            while got := cast(io.BufferedReader, raw).readinto(room):
                if room.find(b'"', 0, got) >= 0:
                    return False
            return True

    def widened(self, untouched: Mapping[str, Missing]) -> CsvSource:
        """Return this table with runs of untouched columns as one, where they can be copied as they are written.

        `untouched` says what a missing value means in them: one column is missing where any of the run is, but for
        those in which that is a category of its own.
        """
        if not self._is_plain or not self._only_blank_is_missing or self.rule.delimiter != ",":
            return self
        runs = itertools.groupby(self.names, key=lambda name: (untouched.get(name), name not in untouched and name))
        parts = [tuple(run) for _, run in runs]
        other = copy.copy(self)
        other.names = [WIDE.join(run) for run in parts]
        other.wide = {WIDE.join(run): run for run in parts if len(run) > 1}
        other._lenient = frozenset(name for name, run in other.wide.items() if untouched[run[0]] == "category")
        return other

    def _bytes(self) -> BinaryIO:
        return cast(BinaryIO, gzip.open(self.path) if self.path.suffix.lower() == ".gz" else open(self.path, "rb"))

    def _text(self) -> TextIO:
        return io.TextIOWrapper(self._bytes(), encoding="utf-8-sig", newline="")

    def _short(self, lines: TextIO) -> Iterator[str]:
        """Yield the lines of the file; raise at one that is too long, before the whole of it is in memory."""
        for number in itertools.count(1):
            line = lines.readline(LONGEST_FIELD + 2)
            # a letter has at most four bytes: most lines need not be written to be known as short
            if len(line) > LONGEST_FIELD // 4 and len(line.rstrip("\r\n").encode()) > LONGEST_FIELD:
                raise TableError(
                    f"{self.description!r}, line {number}: it has more than {LONGEST_FIELD:,} bytes.", LONG_COLUMN
                )
            if not line:
                return
            yield line

    def column_type(self, name: str) -> Any:
        """Return text, whatever the column holds."""
        return pa.string()

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Yield all rows with these columns."""
        if len(set(self.names)) < len(self.names):
            raise TableError(f"{self.description!r} has a column name more than once.", "Rename or drop one.")
        start = 0
        try:
            for rows in self._lines(columns) if self._is_plain else self._quoted(columns):
                if rows.num_rows:
                    yield Stretch(0, start, rows)
                    start += rows.num_rows
        except (pa.ArrowException, *DAMAGE) as problem:
            raise self._diagnosed(problem) from None

    def _lines(self, columns: Sequence[str]) -> Iterator[Any]:
        """Read a file whose every line is a row."""
        layout = csv_lines.Layout(self.rule.delimiter, len(self._fields), {name: self._span(name) for name in columns})
        for rows in csv_lines.batches(self.path, layout):
            yield pa.RecordBatch.from_arrays([self._marked(n, rows.column(n)) for n in columns], names=list(columns))

    def _span(self, name: str) -> csv_lines.Span:
        run = self.wide.get(name, (name,))
        needs_all = self._only_blank_is_missing and name not in self._lenient
        return csv_lines.Span(self._places[run[0]], self._places[run[-1]], needs_all)

    @cached_property
    def _places(self) -> dict[str, int]:
        """Which field of a line has each column: to search for the names of thousands takes seconds."""
        return {name: place for place, name in enumerate(self._fields)}

    def _marked(self, name: str, texts: Any) -> Any:
        """Return a column with null for the texts that mean missing, where it is not just the empty one."""
        if not self._only_blank_is_missing:
            is_mark = pc.is_in(texts, from_text(self.rule.missing_values))
            texts = pc.if_else(is_mark, pa.scalar(None, pa.string()), texts)
        return texts.dictionary_encode() if name in self.coded else texts

    def _quoted(self, columns: Sequence[str]) -> Iterator[Any]:
        """Read a file whose values may hold line breaks; its last row must be the one that `_Ended` adds."""
        content = pa.input_stream(str(self.path), compression="gzip" if self.path.suffix.lower() == ".gz" else None)
        ended = pa.PythonFile(_Ended(content, self.rule.delimiter.join([END] * len(self.names))), mode="r")
        held = None
        finish = _blank_as_null if self._only_blank_is_missing else lambda rows: rows
        reading = pacsv.ReadOptions(block_size=CSV_BLOCK, column_names=self.names, skip_rows=self._header_lines)
        parsing = pacsv.ParseOptions(
            delimiter=self.rule.delimiter, newlines_in_values=True, ignore_empty_lines=len(self.names) > 1
        )
        for rows in pacsv.open_csv(ended, reading, parsing, self._converting(columns)):
            if held is not None:
                yield finish(held)
            held = rows if rows.num_rows else held
        if held is None or any(column[-1].as_py() != END for column in held.columns):
            raise pa.ArrowInvalid("its end is not the end of a row")
        yield finish(held.slice(0, held.num_rows - 1))

    def _converting(self, columns: Sequence[str]) -> Any:
        return pacsv.ConvertOptions(
            column_types={name: CODED if name in self.coded else pa.string() for name in self.names},
            include_columns=list(columns),
            null_values=list(self.rule.missing_values),
            strings_can_be_null=not self._only_blank_is_missing,
            quoted_strings_can_be_null=True,
        )

    @property
    def _only_blank_is_missing(self) -> bool:
        """The usual case: Arrow's own search for texts that mean missing takes longer than reading the file."""
        return self.rule.missing_values == ("",)

    def _diagnosed(self, problem: Exception) -> TableError:
        """Read the file again, slowly, to name the line."""
        last = 1
        csv.field_size_limit(LONGEST_FIELD)  # else a long field would be told as the mistake
        try:
            with self._text() as lines:
                reader = csv.reader(self._short(lines), delimiter=self.rule.delimiter, strict=True)
                for fields in reader:
                    if fields and len(fields) != len(self._fields):
                        return TableError(
                            f"{self.description!r}, line {reader.line_num}: {len(fields)} fields instead of "
                            f"{len(self._fields)}.",
                            "Mend the line; a field that holds the delimiter or a line break must be quoted.",
                        )
                    if sum(map(len, fields)) > CSV_BLOCK and "straddling" in str(problem):
                        return TableError(
                            f"{self.description!r}, line {reader.line_num}: the row has more than {CSV_BLOCK:,} bytes, "
                            "which is not read where values are quoted.",
                            LONG_COLUMN,
                        )
                    last = reader.line_num
        except UnicodeDecodeError:
            return self._not_utf8()
        except csv.Error as broken:
            if "field limit" in str(broken):
                return TableError(
                    f"{self.description!r}, line {last + 1}: a value has more than {LONGEST_FIELD:,} letters, or its "
                    "quote is never closed.",
                    f"Mend the line. {LONG_COLUMN}",
                )
            what = "a quote is never closed" if "end of data" in str(broken) else broken
            return TableError(f"{self.description!r}, line {last + 1}: {what}.", "Mend the line.")
        except DAMAGE as broken:
            return TableError(f"{self.description!r} is damaged after line {last}: {_said(broken)}.", DAMAGED)
        return TableError(f"{self.description!r} cannot be read: {_said(problem)}.", DAMAGED)

    def _not_utf8(self) -> TableError:
        with self._bytes() as raw:
            line = next(n for n, text in enumerate(raw, start=1) if text.decode("utf-8", "ignore").encode() != text)
            raw.seek(0)
            start = raw.read(4)
        remedy = next((remedy for mark, remedy in _MARKS if start.startswith(mark)), None)
        return TableError(
            f"{self.description!r}, line {line}: not UTF-8 text.",
            remedy or "Save it as UTF-8 first; `iconv -f latin1 -t utf-8` does so for a file of Western Europe.",
        )

    def fingerprint(self) -> str:
        """Return a sha256 over the bytes of the file."""
        return hash_files([self.path])

    def check_unchanged(self) -> None:
        """Raise if the file is not as it was when it was opened."""
        check_stamps(self._opened, [self.path])


_MARKS = (
    (b"PK", "It is a zip file or an Excel workbook: unpack it, or save the sheet as CSV (UTF-8)."),
    (b"\xd0\xcf\x11\xe0", "It is an Excel workbook: save the sheet as CSV (UTF-8)."),
    (b"PAR1", "It is a Parquet file: rename it to .parquet."),
    (b"\x1f\x8b", "It is gzipped: rename it to .csv.gz."),
    (b"\xff\xfe", "It is UTF-16 (Excel's Unicode text): save it as CSV UTF-8, or convert it to UTF-8."),
    (b"\xfe\xff", "It is UTF-16: convert it to UTF-8."),
)
"""How files begin that are no CSV, and what to do with them."""


def _said(problem: Exception) -> str:
    """Return what a reader says, without its full stop."""
    return str(problem).rstrip(". ")


def _blank_as_null(rows: Any) -> Any:
    """Return text columns with empty texts as nulls, found by their lengths."""
    return pa.RecordBatch.from_arrays([_column_blank_as_null(c) for c in rows.columns], names=rows.schema.names)


def _column_blank_as_null(column: Any) -> Any:
    if pa.types.is_dictionary(column.type):
        has_blank = not column.dictionary.null_count and _blank(column.dictionary).any()
        return _column_blank_as_null(column.cast(pa.string())).dictionary_encode() if has_blank else column
    return with_nulls(column, _blank(column))


def _blank(texts: Any) -> npt.NDArray[np.bool_]:
    if not len(texts):
        return np.zeros(0, dtype=np.bool_)
    ends = np.frombuffer(texts.buffers()[1], dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return np.equal(ends[1:], ends[:-1])


class _Ended:
    """A file followed by one more row, whose loss tells that a quote was never closed.

    Arrow takes such a quote to run to the end of the file: all rows that follow, identifiers included, would become
    one value of the last column.
    """

    closed = False

    def __init__(self, content: Any, row: str) -> None:
        self._content, self._end, self._last = content, row.encode(), b"\n"

    def read(self, size: int) -> bytes:
        """Return the next bytes of the file, at last the row."""
        piece: bytes = self._content.read(size)
        if piece:
            self._last = piece[-1:]
            return piece
        end, self._end = self._end, b""
        return end if not end or self._last in (b"\n", b"\r") else b"\n" + end

    def close(self) -> None:
        """Close the file."""
        self._content.close()
        self.closed = True
