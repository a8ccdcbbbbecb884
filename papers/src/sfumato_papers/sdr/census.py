"""SDR's tables: OCC and EDU, with occupation and education as the sensitive column of CENSUS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato_papers.data import Named

COLUMNS = ("age", "gender", "education", "marital", "race", "work_class", "state", "occupation")
"""The eight of CENSUS; state stands where it has Country."""
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Kind:
    """A sensitive column, with what the paper asks of it."""

    name: str
    column: str
    rho1: Fraction
    levels: tuple[int, ...]  # L, where rho2 = 1/L


OCC = Kind("OCC", "occupation", Fraction(1, 13), (6, 5, 4, 3))
EDU = Kind("EDU", "education", Fraction(1, 30), (10, 8, 6, 4))


@dataclass(frozen=True, eq=False)
class Census:
    """A table as codes: of the sensitive column, and of each other one."""

    kind: Kind
    codes: Codes
    others: Mapping[str, npt.NDArray[np.uint8]]
    sizes: Mapping[str, int]  # the number of values of each column
    about: str

    @classmethod
    def of(cls, named: Named, kind: Kind, rows: int | None = None) -> Census:
        """Return the first rows of a table."""
        part = named.table.slice(0, named.table.num_rows if rows is None else rows)
        columns = {name: in_order(part[name]) for name in COLUMNS}
        others = {name: codes.astype(np.uint8) for name, codes in columns.items() if name != kind.column}
        sizes = {name: int(codes.max()) + 1 for name, codes in columns.items()}
        return cls(kind, columns[kind.column], others, sizes, named.about)

    @property
    def rows(self) -> int:
        """|T|."""
        return self.codes.size

    @property
    def values(self) -> int:
        """m."""
        return self.sizes[self.kind.column]

    @cached_property
    def counts(self) -> Ints:
        """The records of each value."""
        return np.bincount(self.codes, minlength=self.values).astype(np.int64)

    @property
    def distance_from_even(self) -> float:
        """Total variation from equal shares."""
        return float(np.abs(self.shares - 1 / self.values).sum() / 2)

    @property
    def shares(self) -> Floats:
        """Relative frequencies, the largest first."""
        return np.sort(self.counts / self.rows)[::-1]


def in_order(column: Any) -> Codes:
    """Return a column as codes, in ascending order of its values."""
    encoded = column.combine_chunks()
    encoded = encoded if hasattr(encoded, "indices") else encoded.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    place = np.empty(len(values), dtype=np.int32)
    place[sorted(range(len(values)), key=values.__getitem__)] = np.arange(len(values))
    codes = place.take(np.asarray(encoded.indices))
    return np.unique(codes, return_inverse=True)[1].astype(np.int32)  # values that occur in no row are left out


def stands_in(about: str) -> str:
    """Why something may differ."""
    return f"another table ({about}); whether that is why cannot be tested"
