"""R-suppression as published (SK Fig. 3), to the letter.

STEP-1: pick h from 1..l and an integer level f from [F_{h+1}, F_h], ends included (F_{m+1} = 0), and suppress S_1 to f.
Its rank is then h: after S_2, ..., S_h and before S_{h+1}, also when counts tie. STEP-2: D-suppression until
P-eligibility and l-candidacy first hold; |T| in both is the size of the original table.
"""

from __future__ import annotations

from fractions import Fraction

from sfumato.methods.suppression.expected import PublishedSizes
from sfumato.methods.suppression.levels import Levels
from sfumato.methods.suppression.seats import Draw, Seating, law_of_one, seated


def r_suppression(levels: Levels, ell: int, draw: Draw) -> Seating:
    """Return the seating after a random h and a random level."""
    h = 1 + draw(ell)
    lowest = levels.count(h + 1)
    level = lowest + draw(levels.count(h) - lowest + 1)
    after = Levels([*levels.counts[1:h], level, *levels.counts[h:]])
    slots = after.cut(after.first_stop(ell, levels.size), ell)
    return Seating(slots, seated(ell, [h - 1]), lambda: law_of_one(_places(levels, ell, h, slots)))


def _places(levels: Levels, ell: int, h: int, slots: tuple[int, ...]) -> tuple[Fraction, ...]:
    """Where S_1 can be, for one who knows the sorted counts and sees the published ones.

    Let L0 be the level at which Unsafe D stops. Every level f >= L0 leads to its counts. Each f < L0 leads to others,
    with S_1 at f, except that L0 - 1 leads to the same counts if Unsafe D stops inside level L0 and the sizes agree.
    """
    sizes = PublishedSizes(levels, ell)
    stop = levels.size - sizes.unsafe
    level, gone = levels.after(stop)
    if slots != levels.cut(stop, ell):
        return tuple(Fraction(slot == h - 1) for slot in range(ell))
    if gone and sizes.total(level - 1, level - 1) == sizes.unsafe:
        level -= 1
    chances = [Fraction(max(0, high + 1 - max(low, level)), high + 1 - low) for low, high in sizes.intervals]
    return tuple(chance / sum(chances) for chance in chances)
