"""What a column is: its role, the values it may take, how they are recoded and what a missing value means.

`Attribute` is what the policy says of a column; `Domain` is the finite set of values of a column that is randomized, in
a fixed order; `SensitiveDomain` is the cross product of the domains of one or several sensitive columns (SDR §3:
several sensitive attributes are one compound attribute).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from sfumato.errors import PolicyError
from sfumato.values.number_texts import ColumnType
from sfumato.values.recoding import Recoding

Role = Literal["identifier", "drop", "quasi_identifier", "sensitive", "other"]
LEFT_OUT_ROLES: tuple[Role, ...] = ("identifier", "drop")
"""Of columns that are not in the release. The two differ in words only."""
Missing = Literal["error", "category", "drop"]
Value = str | int | bool | None
"""A value of a finite domain; None is the missing value, a category of its own."""

MISSING_LABEL = "(missing)"


def label(value: Value | tuple[Value, ...]) -> str:
    """Return how a value (or a combination of several) is written in tables and messages."""
    if isinstance(value, tuple):
        return " / ".join(label(v) for v in value)
    return MISSING_LABEL if value is None else str(value)


@dataclass(frozen=True)
class Attribute:
    """A column as the policy states it. `declared`: of the published values; None where they are to be observed."""

    name: str
    role: Role
    missing: Missing = "error"
    declared: tuple[Value, ...] | None = None
    recoding: Recoding | None = None
    type: ColumnType | None = None  # of text in a CSV file; None where its values decide
    ordered: bool = False  # whether the declared values are listed from the lowest to the highest

    @property
    def is_published(self) -> bool:
        """Whether the release has the column."""
        return self.role not in LEFT_OUT_ROLES


@dataclass(frozen=True)
class Schema:
    """The stated attributes, in the policy's order; every column of the table must be one of them."""

    attributes: tuple[Attribute, ...]

    def __getitem__(self, name: str) -> Attribute:
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Attribute]:
        return {a.name: a for a in self.attributes}

    def names(self, *roles: Role) -> list[str]:
        """Return the names of the columns with one of these roles (all of them without a role)."""
        return [a.name for a in self.attributes if not roles or a.role in roles]


@dataclass(frozen=True)
class Domain:
    """The values of one randomized column, in the order of their codes.

    >>> Domain("sex", ("F", "M", None)).labels
    ('F', 'M', '(missing)')
    """

    name: str
    values: tuple[Value, ...]
    ordered: bool = False  # whether that is an order from the lowest to the highest; the missing value is in none

    def __post_init__(self) -> None:
        if len(self.index) != len(self.values):
            twice = next(v for k, v in enumerate(self.values) if v in self.values[:k])
            raise PolicyError(
                f"The domain of {self.name!r} names a value more than once: {label(twice)!r}.",
                "Leave it in the list once.",
            )

    @cached_property
    def index(self) -> dict[Value, int]:
        """The code of each value."""
        return {value: code for code, value in enumerate(self.values)}

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """How the values are written."""
        return tuple(label(v) for v in self.values)


@dataclass(frozen=True)
class SensitiveDomain:
    """The cross product of the sensitive columns' domains; the code of a combination is its mixed-radix number.

    >>> both = SensitiveDomain((Domain("a", ("x", "y")), Domain("b", (1, 2, 3))))
    >>> both.size, both.values[4], [c.tolist() for c in both.split(np.array([4]))]
    (6, ('y', 2), [[1], [1]])
    """

    parts: tuple[Domain, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(part.name for part in self.parts)

    @property
    def name(self) -> str:
        """One name for all the columns."""
        return " / ".join(self.names)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each column."""
        return tuple(len(part.values) for part in self.parts)

    @property
    def size(self) -> int:
        """m."""
        return math.prod(self.sizes)

    @cached_property
    def values(self) -> tuple[Value | tuple[Value, ...], ...]:
        """A value for each code: itself for one column, a tuple for several."""
        if len(self.parts) == 1:
            return self.parts[0].values
        grids = np.unravel_index(np.arange(self.size), self.sizes)
        columns = [[part.values[c] for c in grid] for part, grid in zip(self.parts, grids, strict=True)]
        return tuple(zip(*columns, strict=True))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """How the values are written."""
        return tuple(label(v) for v in self.values)

    @cached_property
    def index(self) -> dict[Value | tuple[Value, ...], int]:
        """The code of each value."""
        return {value: code for code, value in enumerate(self.values)}

    def columns(self, codes: Iterable[npt.NDArray[np.int32]]) -> Iterator[tuple[str, list[Value]]]:
        """Yield the columns with their values, of rows that are given by the columns' codes."""
        for part, column in zip(self.parts, codes, strict=True):
            yield part.name, [part.values[code] for code in column.tolist()]

    def join(self, codes: Iterable[npt.NDArray[np.int32]]) -> npt.NDArray[np.int32]:
        """Return the compound codes from the columns' codes."""
        joined: npt.NDArray[np.int32] | None = None
        for size, column in zip(self.sizes, codes, strict=True):
            joined = column if joined is None else joined * np.int32(size) + column
        assert joined is not None
        return joined

    @property
    def codes(self) -> tuple[npt.NDArray[np.int32], ...]:
        """The columns' codes of each compound code."""
        return self.split(np.arange(self.size, dtype=np.int32))

    def split(self, codes: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int32], ...]:
        """Return the columns' codes from the compound codes."""
        if len(self.parts) == 1:
            return (codes,)
        return tuple(c.astype(np.int32) for c in np.unravel_index(codes, self.sizes))
