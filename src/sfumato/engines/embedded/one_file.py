"""Writing one file of a release: batches in, a finished file and its checksum out."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from sfumato.engines.embedded.cleaning import row_groups
from sfumato.engines.embedded.pipeline import ahead
from sfumato.engines.embedded.writers import Format, Piece, Writer
from sfumato.errors import TableError
from sfumato.values.arrays import Progress


class Written(NamedTuple):
    """A file that was written: its rows, the Arrow schema that a reader sees, and its checksum."""

    rows: int
    schema: Any
    sha256: str


def write_file(batches: Iterator[Any], path: Path, kind: Format, stopped: threading.Event) -> Written:
    """Write clean rows from scratch; `stopped` is set when no more of them are wanted."""
    writer: Writer | None = None
    rows = 0
    try:
        with closing(_pieces(batches, kind, stopped)) as pieces:
            for piece in pieces:
                writer = writer or kind.writer(path, piece.schema)
                writer.write(piece)
                rows += piece.rows
                del piece
        if writer is None:
            raise TableError("No row is left to publish.", "All rows are left out because values are missing.")
        return Written(rows, *writer.close())
    except BaseException:
        if writer is not None:
            writer.abandon()
        raise


def _pieces(published: Iterator[Any], kind: Format, stopped: threading.Event) -> Generator[Piece, None, None]:
    """Give what is to be written; while a piece is written, the next is read, mapped, cleaned, formatted in threads."""
    with closing(ahead(row_groups(published, kind.rows_at_once), stopped=stopped)) as groups:
        if not kind.prepares_long:
            yield from map(kind.prepared, groups)
            return
        with closing(ahead(map(kind.prepared, groups), stopped=stopped)) as pieces:
            yield from pieces


def reported(
    mapped: Generator[tuple[int, Any], None, None], progress: Progress, stopped: threading.Event
) -> Generator[Any, None, None]:
    """Give the rows of each batch, and report how many were read."""
    with closing(mapped):
        for read, rows in mapped:
            if (
                stopped.is_set()
            ):  # a shuffle reads all rows before it gives any: do not keep an interrupted user waiting
                return
            progress(read)
            if rows.num_rows:
                yield rows
            del rows
