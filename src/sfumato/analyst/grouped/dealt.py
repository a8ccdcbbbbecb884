"""How the records of a release by groups were dealt: what its two tables tell without any question.

Estimates rest on the chance of the deal, inside the *strata* in which it was random: all records, or those of a cell of
the columns in `dealt_within`. A group whose members agree in these columns belongs to that cell's stratum. What chance
says nothing about are the *loose* groups:

    mixed     members of several cells: that a value went to the one cell or the other was no chance
    untold    of a cell whose groups' compositions do not tell all of its values apart (few groups, or alike)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.analyst.grouped.buckets import Deal
from sfumato.analyst.grouped.compositions import Compositions, Kinds
from sfumato.values.arrays import IntArray
from sfumato.values.attributes import SensitiveDomain

MOST_VALUES = 4_000
"""Values of a stratum for which least squares is worked out: its matrix has as many rows and columns."""


@dataclass(frozen=True, eq=False)
class Loose:
    """The groups that no stratum tells about."""

    counts: Compositions  # [kinds, values]
    kind: IntArray  # of each loose group
    sizes: IntArray  # of each kind
    mixed: int  # records of groups that mix cells
    untold: int  # records of cells whose compositions do not tell

    @property
    def records(self) -> int:
        """All records of these groups."""
        return self.mixed + self.untold


@dataclass(frozen=True, eq=False)
class Dealt:
    """The deal of the strata, the loose groups, and the table (group, kind, size) that joins records to them.

    Kinds are numbered through the strata, then come the loose groups, each by itself.
    """

    domain: SensitiveDomain
    deal: Deal | None  # None: all groups are loose
    loose: Loose
    kinds: Any  # Arrow

    @property
    def first_loose(self) -> int:
        """The number of kinds of the strata."""
        return int(self.deal.first_kind[-1]) if self.deal else 0

    @property
    def most_values(self) -> int:
        """The values of the stratum with most of them."""
        return max((stratum.codes.size for stratum in self.deal.strata), default=0) if self.deal else 0


def dealt_of(domain: SensitiveDomain, kinds: Kinds, mixed: int | None, *, inside_cells: bool) -> Dealt:
    """Return the deal to groups of these kinds; `mixed` numbers the stratum of groups that mix cells."""
    is_mixed = np.zeros(kinds.stratum.size, dtype=np.bool_) if mixed is None else kinds.stratum == mixed
    is_poor = np.zeros_like(is_mixed)
    if inside_cells and not is_mixed.all():
        strata, first = kinds.chosen(~is_mixed).strata(domain.size)
        poor = [s.codes.size > MOST_VALUES or s.rank < s.codes.size for s in strata]
        is_poor[~is_mixed] = np.repeat(poor, np.diff(first))
    loose = is_mixed | is_poor
    strict = Deal.of_kinds(kinds.chosen(~loose), domain.size) if not loose.all() else None
    in_loose, sizes = loose[kinds.of_group], kinds.sizes[kinds.of_group]
    number = np.empty(sizes.size, dtype=np.int64)
    number[~in_loose] = strict.kind_of_group if strict else 0
    number[in_loose] = np.arange(in_loose.sum()) + (int(strict.first_kind[-1]) if strict else 0)
    own, records = kinds.chosen(loose), np.bincount(kinds.of_group, minlength=loose.size) * kinds.sizes
    left_out = Loose(
        own.compositions(domain.size),
        own.of_group,
        own.sizes,
        int(records[is_mixed].sum()),
        int(records[is_poor].sum()),
    )
    table = {"g": np.arange(1, sizes.size + 1), "kind": number, "size": sizes.astype(np.float64)}
    return Dealt(domain, strict, left_out, pa.table(table))


def loose_notes(loose: Loose, dealt_within: Sequence[str]) -> list[str]:
    """Return what is said of the groups that no stratum tells about."""
    notes = []
    if loose.mixed:
        notes.append(
            f"{loose.mixed:,} records are in groups that mix cells of {', '.join(dealt_within)}: which of them has "
            "which value was no matter of chance."
        )
    if loose.untold:
        notes.append(
            f"{loose.untold:,} records are in cells of {', '.join(dealt_within)} with too few different groups to tell "
            "their values."
        )
    if notes:
        notes.append("Of these the classical estimate is taken, and the largest error that it can have is added.")
    return notes
