"""What is asked of a format: to write clean tables, and to tell how its files are read, checked and searched."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol


class Piece(NamedTuple):
    """Rows ready to be written."""

    schema: Any
    rows: int
    content: Any


class Writer(Protocol):
    """Writes pieces one after another, to a file that grows at its end only."""

    def write(self, piece: Piece) -> None:
        """Append the rows."""
        ...

    def close(self) -> Any:
        """Finish the file; return the Arrow schema that a reader sees."""
        ...


class Carried(NamedTuple):
    """What a file says of itself: its columns, their types and its rows, and the names of what else it carries."""

    names: list[str]
    types: Sequence[Any]
    rows: int
    metadata: list[bytes]


class Format(ABC):
    """A format of releases; its files end in its name.

    complete: columns without missing values, which a file may say.
    wide: columns of the tables that are runs of columns of a text file, where the format takes such.
    sets: columns of text that hold sets of values, with BETWEEN between them.
    escapes: whether an apostrophe stands before texts that a spreadsheet program would calculate.
    """

    rows_at_once: int = 0
    """Tables have exactly so many rows; 0: any number."""
    prepares_long: ClassVar[bool] = False
    """Whether `prepared` is worth a thread of its own."""
    takes_runs: ClassVar[bool] = False
    """Whether a run of columns of a text file, its commas included, can be written in one piece."""
    numbers_rows: ClassVar[bool] = False
    """Whether DuckDB knows the number of a row in its file, so that a file can be read in pieces."""
    holds_formulas: ClassVar[bool] = False
    """Whether spreadsheet programs open such a file, and calculate what they take for formulas."""
    tells: ClassVar[tuple[Literal["types", "metadata"], ...]] = ()
    """What a file says of itself, as `carried` returns it: verified of every file."""

    def __init__(
        self,
        complete: Collection[str] = (),
        wide: Mapping[str, tuple[str, ...]] | None = None,
        sets: Collection[str] = (),
        escapes: bool = False,
    ) -> None:
        self.complete, self.wide, self.sets, self.escapes = complete, wide or {}, sets, escapes

    # --- write ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def prepared(self, table: Any) -> Piece:
        """Return the rows of a clean table as they will be written."""

    @abstractmethod
    def writer(self, path: Path, schema: Any) -> Writer:
        """Begin a file."""

    # --- read -------------------------------------------------------------------------------------------------------

    @staticmethod
    @abstractmethod
    def relation(files: str, names: Iterable[str]) -> str:
        """Return what DuckDB selects from: `files` is an SQL list of paths, `names` are the columns."""

    @staticmethod
    @abstractmethod
    def sql_type(arrow: str) -> str | None:
        """Return the type that a column, of this Arrow type in the manifest, is cast to; None if files have it."""

    # --- verify -----------------------------------------------------------------------------------------------------

    @staticmethod
    def header(path: Path, size: int) -> list[str] | None:
        """Return the names in the first bytes of a file whose rows are read without regard to them; None: of others."""
        return None

    @staticmethod
    def carried(path: Path) -> Carried:
        """Return what a file says of itself; Arrow's errors or OSError tell that it cannot be read."""
        raise NotImplementedError

    # --- residue ----------------------------------------------------------------------------------------------------

    @staticmethod
    def hidden(path: Path) -> Iterator[bytes]:
        """Give what the bytes of a file do not show: all that is compressed or encoded."""
        yield from ()

    @staticmethod
    def words(names: Sequence[str]) -> bytes:
        """Return what every file of these columns holds, whatever its rows."""
        return b""
