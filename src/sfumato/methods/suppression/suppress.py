"""From the counts of a table to the counts to publish."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sfumato.errors import Infeasible, PolicyError, TableError
from sfumato.methods.suppression.beliefs import Belief, beliefs
from sfumato.methods.suppression.expected import expected_suppression
from sfumato.methods.suppression.levels import Levels
from sfumato.methods.suppression.seats import Draw, Seating, shuffled
from sfumato.methods.suppression.variants import PROVED, VARIANTS, Variant, published, seat, violating

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Suppression:
    """How many records of each value to publish. Which ones must be a uniformly random choice among them."""

    variant: Variant
    ell: int
    counts: IntArray  # value -> records of T
    kept: IntArray  # value -> records of T_P
    ranked: IntArray  # the values S_1, ..., S_l, those with equal counts in the random order that was drawn
    violating: int  # k, the number of values with more than n/l records; 0: T is l-eligible and published as it is
    lower_bound: int  # X_Unsafe: no way to l-dichotomy suppresses less (SK Theorem 2)
    seating: Seating | None  # None if all is published

    @property
    def suppressed(self) -> IntArray:
        """Return value -> records of T_S."""
        return self.counts - self.kept

    @property
    def withheld(self) -> int:
        """|T_S|."""
        return int(self.suppressed.sum())

    @property
    def share(self) -> Fraction:
        """|T_S|/|T|, SK's suppression rate."""
        return Fraction(self.withheld, int(self.counts.sum()))

    @property
    def dominant_bound(self) -> Fraction | None:
        """1/l if no `Belief.dominant` is above it, by proof; None: there is no such bound."""
        return Fraction(1, self.ell) if self.variant in PROVED else None

    @property
    def violating_bound(self) -> Fraction | None:
        """k/l if no `Belief.violating` is above it, by proof; None: there is no such bound."""
        return Fraction(self.violating, self.ell) if self.variant in PROVED else None

    @cached_property
    def beliefs(self) -> dict[int, Belief]:
        """Published count -> the belief about each value with it. A value with another count has lost no record."""
        if self.seating is None:
            return {}
        descending = np.sort(self.counts)[::-1][: self.ell].tolist()
        kept, values = np.unique(self.kept[self.counts > 0], return_counts=True)
        by_count = dict(zip(kept.tolist(), values.tolist(), strict=True))
        return beliefs(self.seating, descending, self.violating, int(self.counts.sum()), by_count)


def suppress(counts: npt.ArrayLike, ell: int, variant: Variant = "rotation", *, draw: Draw) -> Suppression:
    """Return how many records to publish of each value of a table with these counts (value -> records).

    `draw(n)` returns a uniformly random integer below n. Values with equal counts are ranked at random, never by code.
    An l-eligible table is published as it is. Raises `Infeasible` if fewer than l values occur.

    >>> found = suppress([10, 4, 2, 1, 1], 3, draw=lambda n: n - 1)  # SK Example 1; S_1 goes to the third slot
    >>> found.kept.tolist(), found.withheld, found.lower_bound, str(found.dominant_bound)
    ([2, 3, 2, 1, 1], 9, 6, '1/3')
    """
    if variant not in VARIANTS:
        raise PolicyError(f"There is no variant {variant!r} of suppression.", f"There are {', '.join(VARIANTS)}.")
    table = _checked(counts, ell)
    codes = np.argsort(-table, kind="stable")
    levels = Levels(table[codes].tolist())
    ends = [levels.reaching(count) for count in levels.counts[:ell]]
    ranked = np.array(shuffled(codes.tolist(), ends, draw)[:ell])
    k = violating(levels, ell)
    if k == 0:
        return Suppression(variant, ell, table, table, ranked, 0, 0, None)
    seating = seat(levels, ell, variant, draw)
    kept = table.copy()
    kept[ranked[list(seating.ranks)]] = seating.slots
    return Suppression(variant, ell, table, kept, ranked, k, levels.first_stop(ell, levels.size), seating)


def costs(counts: npt.ArrayLike, ell: int) -> dict[Variant, Fraction]:
    """Return how many records each variant suppresses; of r-suppression the expected number, E[X_R].

    >>> {variant: str(cost) for variant, cost in costs([10, 4, 2, 1, 1], 3).items()}
    {'rotation': '9', 'spread': '9', 'safe-d': '10', 'r-suppression': '71/9', 'unsafe-d': '6', 'minimal': '6'}
    """
    levels = Levels(np.sort(_checked(counts, ell))[::-1].tolist())
    if violating(levels, ell) == 0:
        return dict.fromkeys(VARIANTS, Fraction(0))
    first = sum(levels.counts[:ell])
    return {
        variant: expected_suppression(levels, ell)
        if variant == "r-suppression"
        else Fraction(first - sum(published(levels, ell, variant)))
        for variant in VARIANTS
    }


def _checked(counts: npt.ArrayLike, ell: int) -> IntArray:
    table = np.array(counts, dtype=np.int64)
    if table.ndim != 1 or (table < 0).any():
        raise ValueError("counts must be one number of records for each value, none negative")
    if ell < 2:
        raise PolicyError(f"l must be at least 2, not {ell}.", "l = 2 means: at most one half.")
    occurring = np.count_nonzero(table)
    if occurring == 0:
        raise TableError("The table has no rows to publish.")
    if occurring == 1:
        raise Infeasible("One value only occurs: every release tells it of everybody.", "Choose another column.")
    if occurring < ell:
        raise Infeasible(
            f"Only {occurring} values occur, fewer than l = {ell}: one has more than 1/{ell} of whatever is published.",
            f"Ask for l <= {occurring}, or choose a column with more values.",
        )
    return table
