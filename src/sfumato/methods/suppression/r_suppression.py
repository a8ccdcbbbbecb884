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
    slots = _slots(levels, ell, h, level)
    return Seating(slots, seated(ell, [h - 1]), lambda: law_of_one(_places(levels, ell, slots)))


def _slots(levels: Levels, ell: int, h: int, level: int) -> tuple[int, ...]:
    """Return the counts that come of h and a level."""
    after = Levels([*levels.counts[1:h], level, *levels.counts[h:]])
    return after.cut(after.first_stop(ell, levels.size), ell)


def _places(levels: Levels, ell: int, slots: tuple[int, ...]) -> tuple[Fraction, ...]:
    """Where S_1 can be, for one who knows the sorted counts and sees the published ones."""
    found = chances(levels, ell, slots)
    return tuple(chance / sum(found) for chance in found)


def chances(levels: Levels, ell: int, slots: tuple[int, ...]) -> list[Fraction]:
    """Return for h = 1, ..., l the probability that it is picked and these counts come of it.

    Let L0 be the level at which Unsafe D stops. Every level f >= L0 leads to its counts. Each f < L0 leads to others,
    with S_1 at f, except that L0 - 1 leads to the same counts if Unsafe D stops inside level L0 and the sizes agree.
    """
    sizes = PublishedSizes(levels, ell)
    stop = levels.size - sizes.unsafe
    level, gone = levels.after(stop)
    if slots == levels.cut(stop, ell):
        if gone and sizes.total(level - 1, level - 1) == sizes.unsafe:
            level -= 1
        return [Fraction(max(0, high + 1 - max(low, level)), ell * (high + 1 - low)) for low, high in sizes.intervals]
    found = []
    for h, (f, (low, high)) in enumerate(zip(slots, sizes.intervals, strict=True), start=1):
        leads = low <= f <= min(high, level - 1) and _slots(levels, ell, h, f) == slots
        found.append(Fraction(leads, ell * (high + 1 - low)))
    return found
