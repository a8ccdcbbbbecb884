"""From the counts of a table to the counts to publish, by rotation suppression or one of SK's algorithms.


    rotation        proved: fixed slots; the violating values take random ones among the first l
    spread          proved: the same, with places at even distances; suppresses less if k >= 2
    safe-d          proved: SK 3.2; the l most frequent values all down to F_l
    r-suppression   as published: SK Fig. 3; its Theorem 3 does not hold
    unsafe-d        SK 3.3: the least suppression that any solution needs; no solution itself
    minimal         SK Example 1, SDR 6.3: suppress the most frequent until the table is l-eligible; no solution

In every variant only the values of rank 1, ..., l lose records. A value is *violating* if l F_i > n; there are k < l.
The proved variants move S_1, ..., S_k, and nothing if k = 0; with `always` they move S_1, ..., S_max(k, 1), so that the
most frequent value of every table is hidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from sfumato.methods.suppression.levels import Levels
from sfumato.methods.suppression.r_suppression import expected_suppression, r_suppression
from sfumato.methods.suppression.seats import (
    Belief,
    Draw,
    Seating,
    beliefs,
    law_of_choice,
    law_of_one,
    law_of_spread,
    seated,
    shuffled,
    spread,
)
from sfumato.values.arrays import IntArray

Variant = Literal["rotation", "spread", "safe-d", "r-suppression", "unsafe-d", "minimal"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)
PROVED: tuple[Variant, ...] = ("rotation", "spread", "safe-d")


@dataclass(frozen=True, eq=False)
class Suppressed:
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
) -> Suppressed:
    """Return how many records to publish of each value of a table with these counts (value -> records).

    `draw(n)` returns a uniformly random integer below n. Values with equal counts are ranked at random, never by code.
    An l-eligible table is published as it is, unless its most frequent value is to be hidden `always`, by a proved
    variant. At least l values must occur.

    >>> found = suppress([10, 4, 2, 1, 1], 3, draw=lambda n: n - 1)  # SK Example 1; S_1 goes to the third slot
    >>> found.kept.tolist(), found.withheld, found.lower_bound, str(found.dominant_bound)
    ([2, 3, 2, 1, 1], 9, 6, '1/3')
    >>> found = suppress([4, 3, 3], 2, draw=lambda n: n - 1, always=True)  # l-eligible; S_1 goes to the second slot
    >>> found.kept.tolist(), found.violating, str(found.dominant_bound)
    ([3, 3, 3], 0, '1/2')
    """
    table = np.array(counts, dtype=np.int64)
    codes = np.argsort(-table, kind="stable")
    levels = Levels(table[codes].tolist())
    ends = [levels.reaching(count) for count in levels.counts[:ell]]
    ranked = np.array(shuffled(codes.tolist(), ends, draw)[:ell])
    k = violating(levels, ell)
    seating = seat(levels, ell, variant, draw, always)
    kept = table.copy()
    kept[ranked[list(seating.ranks)]] = seating.slots
    least = levels.first_stop(ell, levels.size) if k else 0
    return Suppressed(variant, ell, table, kept, ranked, k, least, seating, always)


def costs(counts: npt.ArrayLike, ell: int, *, always: bool = False) -> dict[Variant, Fraction]:
    """Return how many records each variant suppresses; of r-suppression the expected number, E[X_R].

    Where no value is violating nothing is suppressed; with `always` the proved variants alone hide the most frequent
    value there, and alone have a cost.

    >>> {variant: str(cost) for variant, cost in costs([10, 4, 2, 1, 1], 3).items()}
    {'rotation': '9', 'spread': '9', 'safe-d': '10', 'r-suppression': '71/9', 'unsafe-d': '6', 'minimal': '6'}
    """
    levels = Levels(np.sort(np.asarray(counts))[::-1].tolist())
    k, first = violating(levels, ell), sum(levels.counts[:ell])
    return {
        variant: expected_suppression(levels, ell)
        if k and variant == "r-suppression"
        else Fraction(first - sum(published(levels, ell, variant, always)))
        for variant in (PROVED if always and k == 0 else VARIANTS)
    }


# --- variants -------------------------------------------------------------------------------------------------------


def violating(levels: Levels, ell: int) -> int:
    """k = #{i : l F_i > n}; 0 if the table is l-eligible."""
    return levels.reaching(levels.size // ell + 1)


def moved(levels: Levels, ell: int, always: bool) -> int:
    """How many of the most frequent values are hidden: k, and with `always` one at least."""
    return max(violating(levels, ell), int(always))


def seat(levels: Levels, ell: int, variant: Variant, draw: Draw, always: bool = False) -> Seating:
    """Return what a variant publishes of the first l ranks, and of whom."""
    number = moved(levels, ell, always)
    if number and variant == "r-suppression":
        return r_suppression(levels, ell, draw)
    slots = published(levels, ell, variant, always)
    if number and variant == "rotation":
        chosen = shuffled(list(range(ell)), [ell] * number, draw)[:number]
        return Seating(slots, seated(ell, chosen), partial(law_of_choice, ell, number))
    if number and variant == "spread":
        chosen = shuffled(spread(ell, number, draw(ell)), [number] * number, draw)
        return Seating(slots, seated(ell, chosen), partial(law_of_spread, ell, number))
    first = tuple(Fraction(slot == 0) for slot in range(ell))
    return Seating(slots, tuple(range(ell)), partial(law_of_one, first))


def published(levels: Levels, ell: int, variant: Variant, always: bool = False) -> tuple[int, ...]:
    """Return the published counts of the first l slots; no coin decides them, except in r-suppression."""
    number = moved(levels, ell, always)
    if number == 0:
        return tuple(levels.counts[:ell])
    if variant == "unsafe-d":
        return levels.cut(levels.first_stop(ell, levels.size), ell)
    if variant in ("rotation", "spread"):
        return _capped(levels, ell, _slots(levels, ell, variant, number))
    level = levels.count(ell) if variant == "safe-d" else levels.eligible_level(ell)
    return tuple(min(count, level) for count in levels.counts[:ell])


def _slots(levels: Levels, ell: int, variant: Variant, k: int) -> list[int]:
    """The most that can be published in each of the first l slots, whoever takes it, if k values are moved.

        w_i = F_{i+k-b}        rotation: b = max(0, i+k-l)        spread: b = floor(i k/l)

    S_1, ..., S_k have at least F_{k+1} records. If none of them takes slot i and b' of them are before it, S_{i+k-b'}
    takes it, and b' >= b: at most l-i slots are behind it; if they are spread, floor(i k/l) are among the first i.
    """
    before = [i * k // ell if variant == "spread" else max(0, i + k - ell) for i in range(1, ell + 1)]
    return [levels.count(i + k - b) for i, b in enumerate(before, start=1)]


def _capped(levels: Levels, ell: int, slots: list[int]) -> tuple[int, ...]:
    """The slots capped at the largest L with l L <= sum min(w_i, L), w_i = F_i for i > l. It is at least F_l."""
    cap = Levels(slots + levels.counts[ell:]).eligible_level(ell)
    return tuple(min(slot, cap) for slot in slots)
