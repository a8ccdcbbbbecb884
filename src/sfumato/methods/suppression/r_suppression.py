"""R-suppression as published (SK Fig. 3), to the letter.

STEP-1: pick h from 1..l and an integer level f from [F_{h+1}, F_h], ends included (F_{m+1} = 0), and suppress S_1 to f.
Its rank is then h: after S_2, ..., S_h and before S_{h+1}, also when counts tie. STEP-2: D-suppression until
P-eligibility and l-candidacy first hold; |T| in both is the size of the original table.

Its expected cost is had in closed form, in O(m + l log l) however large the counts. Let S(L) = sum over i >= 2 of
min(F_i, L), and let Unsafe D stop at level L0 with p0 records published. If STEP-1 suppresses S_1 to the level f, then

    |T_P| = p0                                                   f >= L0
    |T_P| = min(f + S(B(f)), N, f + S(floor(N/l)))               f < L0

    B(f) = largest L with l L <= S(L) + f           P-eligibility: the others come down to B(f), S_1 stays at f
    N    = F_l + the largest integer < n(l-1)/l     l-candidacy: |T_P| - F_l' < n(l-1)/l, where F_l' = F_l

From f >= L0 on, D-suppression comes through the state in which Unsafe D stops, and not past it. From f < L0 it stops
before it touches S_1. The third term is for candidacy that comes inside a level which has lost P-eligibility by then:
the next level starts with both. The first term rises with f; as long as it is at most N it is at most the third.
"""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction

from sfumato.methods.suppression.levels import Levels
from sfumato.methods.suppression.seats import Draw, Law, Seating, law_of_one, seated


def r_suppression(levels: Levels, ell: int, draw: Draw) -> Seating:
    """Return the seating after a random h and a random level."""
    h = 1 + draw(ell)
    lowest = levels.count(h + 1)
    level = lowest + draw(levels.count(h) - lowest + 1)
    slots = _slots(levels, ell, h, level)

    def law() -> Law:
        found = chances(levels, ell, slots)  # where S_1 can be, for one who sees the published counts
        return law_of_one([chance / sum(found) for chance in found])

    return Seating(slots, seated(ell, [h - 1]), law)


def _slots(levels: Levels, ell: int, h: int, level: int) -> tuple[int, ...]:
    """Return the counts that come of h and a level."""
    after = Levels([*levels.counts[1:h], level, *levels.counts[h:]])
    return after.cut(after.first_stop(ell, levels.size), ell)


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


# --- what it costs --------------------------------------------------------------------------------------------------


def expected_suppression(levels: Levels, ell: int) -> Fraction:
    """E[X_R]: n less the mean over h of the mean of |T_P| over the levels of its interval."""
    sizes = PublishedSizes(levels, ell)
    means = (Fraction(sizes.total(low, high), high + 1 - low) for low, high in sizes.intervals)
    return levels.size - sum(means, Fraction()) / ell


class PublishedSizes:
    """|T_P| by the level f of STEP-1, F_{l+1} <= f <= F_1, summed over ranges of levels."""

    def __init__(self, levels: Levels, ell: int) -> None:
        stop, others = levels.first_stop(ell, levels.size), Levels(levels.counts[1:])
        self.intervals = [(levels.count(h + 1), levels.count(h)) for h in range(1, ell + 1)]
        self.unsafe = levels.size - stop
        self._most = levels.count(ell) + (levels.size * (ell - 1) - 1) // ell
        self._late = others.kept(self._most // ell)
        self._stairs = stairs = Staircase(others, ell)
        self._top, _ = levels.after(stop)
        lowest = levels.count(ell + 1)
        self._turn = bisect_right(range(self._top), self._most, lo=lowest, key=lambda f: f + stairs.at(f))
        self._full = min(max(self._turn, self._most - self._late), self._top)

    def total(self, low: int, high: int) -> int:
        """Sum of |T_P| over low <= f <= high: first term, third, second, then p0."""
        turn, full, top = (min(max(f, low), high + 1) for f in (self._turn, self._full, self._top))
        levels = (full + low - 1) * (full - low) // 2
        others = self._stairs.before(turn) - self._stairs.before(low) + (full - turn) * self._late
        return levels + others + (top - full) * self._most + (high + 1 - top) * self.unsafe


class Staircase:
    """S(B(f)) for f >= F_{l+1}, and its sums.

    With u(L) = l L - S(L), B(f) is the largest L with u(L) <= f. For F_{r+1} <= L <= F_r, S rises by r - 1 and u by
    l - r + 1 with every level. So from f = u(F_{r+1}) on, S(B(f)) rises by r - 1 at every (l - r + 1)-th f. These are
    the parts 0, ..., l - 1, for r = l, ..., 1.
    """

    def __init__(self, others: Levels, ell: int) -> None:
        bottoms = [others.count(r) for r in range(ell, 0, -1)]  # F_{r+1} is the r-th of the others
        self._ell = ell
        self._kept = [others.kept(level) for level in bottoms]
        self._starts = [ell * level - kept for level, kept in zip(bottoms, self._kept, strict=True)]
        self._sums = [0]
        for part in range(ell - 1):
            self._sums.append(self._sums[-1] + self._within(part, self._starts[part + 1] - self._starts[part]))

    def at(self, f: int) -> int:
        """S(B(f))."""
        part = bisect_right(self._starts, f) - 1
        return self._kept[part] + (self._ell - 1 - part) * ((f - self._starts[part]) // (part + 1))

    def before(self, end: int) -> int:
        """Sum of S(B(f)) over f < end, up to a constant."""
        part = bisect_right(self._starts, end) - 1
        return self._sums[part] + self._within(part, end - self._starts[part])

    def _within(self, part: int, length: int) -> int:
        """The sum over the first f of a part."""
        steps, rest = divmod(length, part + 1)
        return length * self._kept[part] + (self._ell - 1 - part) * steps * ((part + 1) * (steps - 1) + 2 * rest) // 2
