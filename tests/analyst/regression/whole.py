"""Cells that are given in one piece."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sfumato.analyst.regression.families import Family
from sfumato.analyst.regression.problem import Buckets, Cells


@dataclass(frozen=True, eq=False)
class Whole:
    """A source in one piece."""

    names: tuple[str, ...]
    indicator: tuple[bool, ...]
    family: Family
    cells: Cells
    buckets: Buckets | None = None

    @property
    def opposite(self) -> tuple[str, ...]:
        """Nothing is known of levels."""
        return ("",) * len(self.names)

    def batches(self) -> Iterator[Cells]:
        """Yield all cells at once."""
        yield self.cells
