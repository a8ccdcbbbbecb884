"""What an observer makes of the published counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.methods.suppression.seats import Seating


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
