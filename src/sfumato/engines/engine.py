"""What the publisher asks of an engine: to look, to count, and to carry out steps. Nobody asks which engine it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from sfumato.engines.rows.selection import RecordKey
from sfumato.release.formats import FormatName
from sfumato.values.arrays import Progress
from sfumato.values.attributes import Attribute, Schema, SensitiveDomain
from sfumato.values.looks import Seen
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey
from sfumato.values.steps import RowStep


@dataclass(frozen=True)
class Rows:
    """The rows of a table as they are to be published."""

    source: Any  # a Source, or one of Spark's
    schema: Schema
    record_key: RecordKey | None = None
    person: str | None = None  # the column of persons, of each of whom one row is drawn
    linked: tuple[str, ...] = ()  # quasi-identifiers that are counted together with the sensitive columns


class PartWritten(NamedTuple):
    """A file of a table that has several."""

    file: str
    rows: int
    sha256: str


class FilesWritten(NamedTuple):
    """A table of a release: its file, or its folder of parts, and the Arrow schema that a reader sees."""

    file: str
    rows: int
    sha256: str
    schema: Any
    parts: tuple[PartWritten, ...] | None = None


class BucketsWritten(NamedTuple):
    """The values of each bucket: how many buckets there are, and how many records of each value are published."""

    files: FilesWritten
    domain: SensitiveDomain
    number: int
    published: npt.NDArray[np.int64]


class Written(NamedTuple):
    """What was written: the rows, and the values of their buckets where there are any."""

    data: FilesWritten
    buckets: BucketsWritten | None = None


class Engine(Protocol):
    """Where rows live: what the publisher asks of a table."""

    def look(self, rows: Rows, attributes: Sequence[Attribute]) -> list[Seen]:
        """Return what is seen of columns that would be published as they are."""
        ...

    def count(self, rows: Rows, checked: Sequence[str], key: SecretKey, progress: Progress) -> Profile:
        """Return the counts of the sensitive columns; `checked` are columns with values that are refused."""
        ...

    def sizes(self, rows: Rows, names: Sequence[str]) -> Mapping[int, int]:
        """Return how many combinations of these columns so many records have, as they would be published."""
        ...

    def distinct(self, rows: Rows, column: str) -> tuple[int, int]:
        """Return how many rows there are, and how many different values of an identifier."""
        ...

    def check(self, rows: Rows, format: FormatName, *, keeps_order: bool, draws_each_row: bool) -> None:
        """Raise if it cannot be done here; `draws_each_row`: what becomes of a row depends on its own words alone."""
        ...

    def rehearse(self, rows: Rows, progress: Progress) -> None:
        """Raise what `write` would raise because of a value: read every row, and write nothing."""
        ...

    def write(
        self,
        rows: Rows,
        steps: Sequence[RowStep],
        key: SecretKey,
        folder: Path,
        format: FormatName,
        progress: Progress,
        reads: int,
    ) -> Written:
        """Carry out the steps on all rows, and write what comes of it; `reads` are the rows that will be reported."""
        ...
