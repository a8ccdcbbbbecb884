"""What is promised of releases by groups: two tables, joined by the number of a group (Anatomy)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

GROUP = "group"
"""The column with the number of a row's group, from 1; last in the data, first in the table of the groups."""
COUNT = "count"
"""The column of the table of the groups that says how many rows of the group have the value."""

GroupMethod = Literal["anatomy", "suppression", "robust-anatomy"]
SuppressionVariant = Literal["rotation", "spread", "safe-d", "r-suppression"]
PriorSource = Literal["none", "table", "file"]


@dataclass(frozen=True)
class GroupClaim:
    """Which belief in a value of a record is limited, and against whom.

    variant, always: of suppression; always: whether the most frequent value of every table is hidden. attribute_sets,
    prior: of robust Anatomy, what beliefs beforehand may depend on, and where they come from.
    """

    method: GroupMethod
    assurance: Literal["proved", "as-published"]
    sensitive: tuple[str, ...]
    at_most: Fraction
    variant: SuppressionVariant | None = None
    attribute_sets: tuple[tuple[str, ...], ...] = ()
    prior: PriorSource | None = None
    always: bool = False

    @property
    def dealt_within(self) -> tuple[str, ...]:
        """The columns in which records agree among which the deal is random; none: among all records."""
        return tuple(dict.fromkeys(name for names in self.attribute_sets for name in names))
