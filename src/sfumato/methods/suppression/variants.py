"""Rotation suppression and SK's algorithms: from the sorted counts to the published ones.

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

from fractions import Fraction
from functools import partial
from typing import Literal, get_args

from sfumato.methods.suppression.levels import Levels
from sfumato.methods.suppression.r_suppression import r_suppression
from sfumato.methods.suppression.seats import (
    Draw,
    Seating,
    law_of_choice,
    law_of_one,
    law_of_spread,
    seated,
    shuffled,
    spread,
)

Variant = Literal["rotation", "spread", "safe-d", "r-suppression", "unsafe-d", "minimal"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)
PROVED: tuple[Variant, ...] = ("rotation", "spread", "safe-d")


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
