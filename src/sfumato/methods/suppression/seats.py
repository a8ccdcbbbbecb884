"""Who can sit where: published counts as slots in descending order, values as ranks, both from 0 on.

A few of the first ranks are inserted at random slots; the others fill the remaining slots in the order of their ranks.
A *law* says, slot by slot, with what probability each rank sits there, for one who knows the sorted counts and the
algorithm and sees what is published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import comb

Draw = Callable[[int], int]
"""Returns a uniformly random integer, at least 0 and below its argument. The only source of chance here."""

Law = Iterable[dict[int, Fraction]]
"""Slot by slot, rank -> probability."""


@dataclass(frozen=True)
class Seating:
    """Published counts of the first l slots, the rank that sits in each, and what an observer knows of that."""

    slots: tuple[int, ...]
    ranks: tuple[int, ...]
    law: Callable[[], Law]


def seated(slots: int, chosen: Sequence[int]) -> tuple[int, ...]:
    """Return slot -> rank if rank i takes the slot chosen[i] and the others follow in order.

    >>> seated(5, [3, 0])
    (1, 2, 3, 0, 4)
    """
    inserted = {slot: rank for rank, slot in enumerate(chosen)}
    others = iter(range(len(chosen), slots))
    return tuple(inserted[slot] if slot in inserted else next(others) for slot in range(slots))


def shuffled(items: list[int], ends: Sequence[int], draw: Draw) -> list[int]:
    """Return the items, place i = 0, 1, ... filled by a random one of the items now in places i, ..., ends[i] - 1."""
    for i, end in enumerate(ends):
        j = i + draw(end - i)
        items[i], items[j] = items[j], items[i]
    return items


def spread(slots: int, inserted: int, shift: int) -> list[int]:
    """Return k of l slots at even distances: those where floor((j k + shift)/l) rises; 0 <= shift < l.

    With a uniform shift every slot is chosen with probability k/l, and of the first j slots the chosen are
    floor(j k/l) or one more.

    >>> [spread(5, 2, shift) for shift in range(5)]
    [[2, 4], [1, 4], [1, 3], [0, 3], [0, 2]]
    """
    return [j for j in range(slots) if (j * inserted + shift) % slots + inserted >= slots]


def law_of_one(places: Sequence[Fraction]) -> Iterator[dict[int, Fraction]]:
    """Rank 0 sits in slot j with probability places[j]; slot j has rank j if that is before, j + 1 if behind."""
    for j, (place, up_to) in enumerate(zip(places, accumulate(places), strict=True)):
        yield {0: place} | {rank: p for rank, p in ((j, up_to - place), (j + 1, 1 - up_to)) if p}


def law_of_choice(slots: int, inserted: int) -> Iterator[dict[int, Fraction]]:
    """All ordered choices of k slots are equally likely; slot j has rank k + j - b if b of them are before it."""
    for j in range(slots):
        before = range(max(0, inserted + j + 1 - slots), min(j, inserted) + 1)
        ways = {inserted + j - b: comb(j, b) * comb(slots - 1 - j, inserted - b) for b in before}
        others = {rank: Fraction(number, comb(slots, inserted)) for rank, number in ways.items()}
        yield dict.fromkeys(range(inserted), Fraction(1, slots)) | others


def law_of_spread(slots: int, inserted: int) -> list[dict[int, Fraction]]:
    """All shifts are equally likely, and all orders of the inserted ranks."""
    law = [dict.fromkeys(range(inserted), Fraction(1, slots)) for _ in range(slots)]
    for shift in range(slots):
        for slot, rank in enumerate(seated(slots, spread(slots, inserted, shift))):
            if rank >= inserted:
                law[slot][rank] = law[slot].get(rank, Fraction(0)) + Fraction(1, slots)
    return law
