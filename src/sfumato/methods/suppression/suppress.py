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
from sfumato.values.arrays import IntArray


@dataclass(frozen=True, eq=False)
class Suppression:
    """How many records of each value to publish. Which ones must be a uniformly random choice among them."""

    variant: Variant
    ell: int
    counts: IntArray  # value -> records of T
    kept: IntArray  # value -> records of T_P
    ranked: IntArray  # the values S_1, ..., S_l, those with equal counts in the random order that was drawn
    violating: int  # k, the number of values with more than n/l records; 0: T is l-eligible
    lower_bound: int  # X_Unsafe: no way to l-dichotomy suppresses less (SK Theorem 2, which is for k >= 1); else 0
    seating: Seating
    always: bool = False  # whether the most frequent value is hidden where k = 0 too; else T is then published as it is

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
    def hides(self) -> bool:
        """Whether the most frequent value is hidden by proof; not if the table is published as it is."""
        return self.variant in PROVED and (self.violating > 0 or self.always)

    @property
    def dominant_bound(self) -> Fraction | None:
        """1/l if no `Belief.dominant` is above it, by proof; None: there is no such bound."""
        return Fraction(1, self.ell) if self.hides else None

    @property
    def violating_bound(self) -> Fraction | None:
        """k/l if no `Belief.violating` is above it, by proof; None: there is no such bound.

        It is for someone who knows k, as whoever knows the sorted counts does.
        """
        return Fraction(self.violating, self.ell) if self.variant in PROVED else None

    @cached_property
    def beliefs(self) -> dict[int, Belief]:
        """Published count -> the belief about each value with it, for the l most frequent; none of the others is S_1.

        Where nothing is withheld, S_1 is read off: it is believed in by 1, or by 1/t if t values share its count.
        """
        descending = np.sort(self.counts)[::-1][: self.ell].tolist()
        kept, values = np.unique(self.kept[self.counts > 0], return_counts=True)
        by_count = dict(zip(kept.tolist(), values.tolist(), strict=True))
        return beliefs(self.seating, descending, self.violating, int(self.counts.sum()), by_count)


def suppress(
    counts: npt.ArrayLike, ell: int, variant: Variant = "rotation", *, draw: Draw, always: bool = False
) -> Suppression:
    """Return how many records to publish of each value of a table with these counts (value -> records).

    `draw(n)` returns a uniformly random integer below n. Values with equal counts are ranked at random, never by code.
    An l-eligible table is published as it is, unless its most frequent value is to be hidden `always`, by a proved
    variant. Raises `Infeasible` if fewer than l values occur.

    >>> found = suppress([10, 4, 2, 1, 1], 3, draw=lambda n: n - 1)  # SK Example 1; S_1 goes to the third slot
    >>> found.kept.tolist(), found.withheld, found.lower_bound, str(found.dominant_bound)
    ([2, 3, 2, 1, 1], 9, 6, '1/3')
    >>> found = suppress([4, 3, 3], 2, draw=lambda n: n - 1, always=True)  # l-eligible; S_1 goes to the second slot
    >>> found.kept.tolist(), found.violating, str(found.dominant_bound)
    ([3, 3, 3], 0, '1/2')
    """
    if variant not in VARIANTS:
        raise PolicyError(f"There is no variant {variant!r} of suppression.", f"There are {', '.join(VARIANTS)}.")
    if always and variant not in PROVED:
        raise PolicyError(
            f"The variant {variant} does not hide the most frequent value, so it cannot do so always.",
            f"Choose one of {', '.join(PROVED)}, or leave out always.",
        )
    table = _checked(counts, ell)
    codes = np.argsort(-table, kind="stable")
    levels = Levels(table[codes].tolist())
    ends = [levels.reaching(count) for count in levels.counts[:ell]]
    ranked = np.array(shuffled(codes.tolist(), ends, draw)[:ell])
    k = violating(levels, ell)
    seating = seat(levels, ell, variant, draw, always)
    kept = table.copy()
    kept[ranked[list(seating.ranks)]] = seating.slots
    least = levels.first_stop(ell, levels.size) if k else 0
    return Suppression(variant, ell, table, kept, ranked, k, least, seating, always)


def costs(counts: npt.ArrayLike, ell: int, *, always: bool = False) -> dict[Variant, Fraction]:
    """Return how many records each variant suppresses; of r-suppression the expected number, E[X_R].

    Where no value is violating nothing is suppressed; with `always` the proved variants alone hide the most frequent
    value there, and alone have a cost.

    >>> {variant: str(cost) for variant, cost in costs([10, 4, 2, 1, 1], 3).items()}
    {'rotation': '9', 'spread': '9', 'safe-d': '10', 'r-suppression': '71/9', 'unsafe-d': '6', 'minimal': '6'}
    """
    levels = Levels(np.sort(_checked(counts, ell))[::-1].tolist())
    k, first = violating(levels, ell), sum(levels.counts[:ell])
    return {
        variant: expected_suppression(levels, ell)
        if k and variant == "r-suppression"
        else Fraction(first - sum(published(levels, ell, variant, always)))
        for variant in (PROVED if always and k == 0 else VARIANTS)
    }


def _checked(counts: npt.ArrayLike, ell: int) -> IntArray:
    table = np.array(counts, dtype=np.int64)
    if table.ndim != 1 or (table < 0).any():
        raise ValueError("counts must be one number of records for each value, none negative")
    if ell < 2:
        raise PolicyError(f"l must be at least 2, not {ell}.", "l = 2 means: at most one half.")
    occurring = np.count_nonzero(table)
    if occurring == 0:
        raise TableError("The table has no rows to publish.", "Give a table with a row for each record.")
    if occurring == 1:
        raise Infeasible("One value only occurs: every release tells it of everybody.", "Choose another column.")
    if occurring < ell:
        raise Infeasible(
            f"Only {occurring} values occur, fewer than l = {ell}: one has more than 1/{ell} of whatever is published.",
            f"Ask for l <= {occurring}, or choose a column with more values.",
        )
    return table
