"""Who can sit where: published counts as slots in descending order, values as ranks, both from 0 on.

A few of the first ranks are inserted at random slots; the others fill the remaining slots in the order of their ranks.
A *law* says, slot by slot, with what probability each rank sits there, for one who knows the sorted counts and the
algorithm and sees what is published; `beliefs` says what they make of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import comb

Draw = Callable[[int], int]
"""Returns a uniformly random integer, at least 0 and below its argument. The only source of chance here."""

Law = Iterable[dict[int, Fraction]]  # slot by slot, rank -> probability


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


# --- what an observer makes of it -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Belief:
    """Probabilities for a value, in the eyes of someone who knows the table's sorted counts but not whose they are.

    Beforehand every assignment of the counts to the values is equally likely to them. They know the algorithm, |T| and
    the counts of T_P.
    """

    dominant: Fraction  # the value is S_1, the most frequent one (of several equally frequent ones, a random one)
    violating: Fraction  # more than 1/l of the table has the value
    missing: Fraction  # a person has the value who is known to be in T and to be missing from T_P; 0 if nobody is
    member: Fraction  # a person has the value who is known to be in T, and of whom nothing else is known


def beliefs(
    seating: Seating, descending: Sequence[int], violating: int, size: int, values: Mapping[int, int]
) -> dict[int, Belief]:
    """Return published count -> the belief about each value with that count.

    `descending` are the l largest counts of the table, `values[c]` says how many values are published with c records:
    the observer cannot tell these apart, so each has the average over their slots. Slots beyond l lost no record.
    """
    dominant, above, lost = ({count: Fraction(0) for count in seating.slots} for _ in range(3))
    for count, here in zip(seating.slots, seating.law(), strict=True):
        for rank, chance in here.items():
            dominant[count] += chance * (rank == 0)
            above[count] += chance * (rank < violating)
            lost[count] += chance * (descending[rank] - count)
    withheld = sum(lost.values())
    return {
        count: Belief(
            dominant=dominant[count] / values[count],
            violating=above[count] / values[count],
            missing=lost[count] / values[count] / withheld if withheld else Fraction(0),
            member=(count + lost[count] / values[count]) / size,
        )
        for count in lost
    }
