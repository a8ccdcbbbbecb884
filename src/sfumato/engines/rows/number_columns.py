"""Which published columns of text hold numbers, found as the rows are written.

Almost every batch is settled by one regular expression for each column (for a run of columns that is copied as one, one
for all of it): it fits the numbers that are written like those before. Only rows that it does not fit are looked into.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import TableError
from sfumato.values.number_texts import AnySpelling, ColumnType, Holds, Spelling, any_spelling_of, spelling_of

HOLDS = b"sfumato.holds"
"""Under which a field of an Arrow schema has what numbers its text holds; no file has it."""
ANYTHING = "[^,]*"
"""A field of a run that nobody looks into any more."""
NOTHING = "(?:[^\\x00-\\x{10FFFF}])"
"""Fits no text."""


class NumberColumns:
    """Watches rows on their way to the file. `declared` has the columns to watch, and what the policy says of them."""

    def __init__(
        self, declared: Mapping[str, ColumnType | None], wide: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        self._columns = {name: _Column(name, kind == "number") for name, kind in declared.items() if kind != "text"}
        self._wide = wide or {}

    def watches(self, name: str) -> bool:
        """Whether a column is one of those that are watched."""
        return name in self._columns

    @property
    def held(self) -> dict[str, Holds]:
        """The columns that hold numbers, of the rows so far."""
        held = {name: column.holds for name, column in self._columns.items()}
        return {name: holds for name, holds in held.items() if holds is not None}

    def watched(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Give the batches as they are, and look at each."""
        for rows in batches:
            for name, texts in zip(rows.schema.names, rows.columns, strict=True):
                run = [self._columns.get(part) for part in self._wide.get(name, (name,))]
                if any(column is not None and column.is_open for column in run):
                    _look(run, texts)
            yield rows

    def noted(self, schema: Any) -> Any:
        """Return the schema of the file with what its columns hold, for `holds`."""
        fields = [_noted(field, self.held.get(field.name)) for field in schema]
        return pa.schema(fields, metadata=schema.metadata)


def _noted(field: Any, holds: Holds | None) -> Any:
    return field if holds is None else field.with_metadata({**(field.metadata or {}), HOLDS: holds.encode()})


def holds(field: Any) -> Holds | None:
    """Return what numbers a column of a noted schema holds."""
    noted = (field.metadata or {}).get(HOLDS)
    return None if noted is None else noted.decode()


def no_number(name: str, text: str) -> TableError:
    """Return what is raised where a column that is declared to be a number holds something else."""
    return TableError(
        f"{name!r} is declared to be a number, and holds {text!r}.",
        'Mend the table, name the texts that mean "missing" ([input] missing_values), or declare type = "text".',
    )


class _Column:
    """A column of text that may hold numbers; one that is declared to hold them must."""

    def __init__(self, name: str, is_declared: bool) -> None:
        self._name, self._is_declared = name, is_declared
        self._spelling: Any = None  # of the numbers so far; all of them are of one of the two kinds
        self.is_open = True  # whether it may hold numbers, for all that was seen

    @property
    def holds(self) -> Holds | None:
        spelling: Spelling | AnySpelling | None = self._spelling
        return spelling.holds if spelling is not None and self.is_open else None

    @property
    def pattern(self) -> str:
        """What fits the values that change nothing."""
        return NOTHING if self._spelling is None else f"(?:{self._spelling.pattern})"

    def see(self, text: str) -> None:
        """Take note of a value."""
        if not self.is_open:
            return
        one: Any = any_spelling_of(text) if self._is_declared else spelling_of(text)
        if one is None and self._is_declared:
            raise no_number(self._name, text)
        if one is not None:
            one = one if self._spelling is None else self._spelling.joined(one)
        self._spelling, self.is_open = one, one is not None and one.holds is not None


def _look(run: list[_Column | None], texts: Any) -> None:
    """Take note of the values of a column of text, or of a run of columns, until nothing new is left."""
    texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    if pa.types.is_dictionary(texts.type):
        texts = texts.unique().cast(pa.string())  # a dictionary may have values that no row has
    while len(texts := _unlike(run, texts)):
        fields = texts[0].as_py().split(",") if len(run) > 1 else [texts[0].as_py()]
        for column, text in zip(run, fields, strict=True):
            if column is not None and (text or len(run) == 1):  # an empty field of a run is a missing value
                column.see(text)


def _unlike(run: list[_Column | None], texts: Any) -> Any:
    """Return the texts that do not fit what is known so far, none of them missing."""
    patterns = [column.pattern if column is not None and column.is_open else None for column in run]
    while patterns and patterns[-1] is None:
        patterns.pop()
    if not patterns:
        return texts.slice(0, 0)
    end = "$" if len(patterns) == len(run) else ","  # nobody looks into the fields after the last open one
    fields = ",".join(ANYTHING if pattern is None else f"{pattern}?" for pattern in patterns)
    fits = pc.match_substring_regex(texts, f"^{fields if len(run) > 1 else patterns[0]}{end}")
    return texts.filter(pc.invert(fits))  # without the missing ones
