"""How many records are alone with their quasi-identifiers: whoever knows these finds them. Private."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Uniqueness:
    """How records share their quasi-identifiers as published: after bins, without the rows left out."""

    quasi_identifiers: tuple[str, ...]
    records: int
    combinations: int
    unique_records: int  # alone in their combination
    unique_share: float
    smallest_group: int
    median_group: float  # of the groups
    median_record_group: int  # half of the records are in groups of at most this size

    @property
    def sentence(self) -> str:
        """Return what matters of it.

        >>> uniqueness(("age", "sex"), {1: 2, 2: 1, 6: 1}).sentence
        '20.0% of the records (2 of 10) are alone with their (age, sex).'
        """
        names = ", ".join(self.quasi_identifiers)
        share, of = f"{self.unique_share:.1%}", f"({self.unique_records:,} of {self.records:,})"
        return f"{share} of the records {of} are alone with their ({names})."


def read_uniqueness(raw: Mapping[str, Any] | None) -> Uniqueness | None:
    """Return it from what `dataclasses.asdict` gave, and JSON made of it."""
    return None if raw is None else Uniqueness(**{**raw, "quasi_identifiers": tuple(raw["quasi_identifiers"])})


def uniqueness(names: tuple[str, ...], sizes: Mapping[int, int]) -> Uniqueness:
    """Return the summary of group sizes (size -> groups).

    >>> u = uniqueness(("age",), {1: 2, 2: 1, 6: 1})
    >>> u.records, u.combinations, u.unique_share, u.median_group, u.median_record_group
    (10, 4, 0.2, 1.5, 6)
    """
    ordered = sorted(sizes)
    groups, records = sum(sizes.values()), sum(size * number for size, number in sizes.items())
    alone = sizes.get(1, 0)
    return Uniqueness(
        quasi_identifiers=names,
        records=records,
        combinations=groups,
        unique_records=alone,
        unique_share=alone / max(1, records),
        smallest_group=ordered[0] if ordered else 0,
        median_group=_median(ordered, [sizes[s] for s in ordered]),
        median_record_group=_lower_median(ordered, [s * sizes[s] for s in ordered]),
    )


def _lower_median(values: list[int], weights: list[int]) -> int:
    below = np.cumsum(weights)
    return values[int(np.searchsorted(below, below[-1] / 2))] if values else 0


def _median(values: list[int], weights: list[int]) -> float:
    upwards = _lower_median(values, weights)
    downwards = _lower_median(values[::-1], weights[::-1])
    return (upwards + downwards) / 2
