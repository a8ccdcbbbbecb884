"""Counts of a table: all that planning needs, and private to the publisher."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.attributes import SensitiveDomain
from sfumato.row_order import OrderTest


@dataclass(frozen=True, eq=False)
class Profile:
    """What counting found. Private: never part of a release."""

    domain: SensitiveDomain
    counts: npt.NDArray[np.int64]  # code -> records
    order: OrderTest
    observed: tuple[str, ...] = ()  # sensitive columns whose domain was read off the table
    dropped: int = 0  # rows left out because a value is missing or a person appears again

    @property
    def rows(self) -> int:
        """The number of records that would be published."""
        return int(self.counts.sum())

    @property
    def frequency(self) -> npt.NDArray[np.float64]:
        """f_i, the share of each value."""
        return self.counts / max(1, self.rows)

    def rare(self, below: int = 5) -> list[str]:
        """Return the values of an observed domain that fewer than `below` records have: the domain itself tells."""
        if not self.observed:
            return []
        return [self.domain.labels[c] for c in np.flatnonzero((self.counts > 0) & (self.counts < below))]
