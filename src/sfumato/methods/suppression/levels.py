"""Descending counts and D-suppression on them, level by level instead of record by record.

D-suppression (SK Fig. 2) takes one record at a time of a most frequent value, the lowest rank first. It is at level L
while the most frequent value has L records; at the start of level L

    kept(L)   = sum min(F_i, L)          records are left
    excess(L) = sum max(0, F_i - L)      records are gone

`kept(L) - l L` is concave in L and 0 at L = 0, so the starts of levels that are l-eligible are 0, 1, ..., L*. Inside a
level the size falls and the maximum stays, so eligibility can be lost until the next level starts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate


class Levels:
    """F_1 >= ... >= F_m >= 0, with the sums of the largest, as integers of any size."""

    def __init__(self, descending: list[int]) -> None:
        self.counts = descending
        self._rising = [-count for count in descending]
        self._sums = [0, *accumulate(descending)]

    @property
    def size(self) -> int:
        """n = sum F_i."""
        return self._sums[-1]

    def count(self, rank: int) -> int:
        """F_rank, ranks from 1 on; 0 beyond the last."""
        return self.counts[rank - 1] if rank <= len(self.counts) else 0

    def reaching(self, level: int) -> int:
        """#{i : F_i >= L}."""
        return bisect_right(self._rising, -level)

    def kept(self, level: int) -> int:
        """Sum of min(F_i, L)."""
        top = self.reaching(level)
        return level * top + self.size - self._sums[top]

    def excess(self, level: int) -> int:
        """Sum of max(0, F_i - L)."""
        return self.size - self.kept(level)

    def eligible_level(self, ell: int) -> int:
        """L*: the largest L <= F_1 with l L <= kept(L)."""
        return bisect_left(range(self.count(1) + 1), True, key=lambda level: ell * level > self.kept(level)) - 1

    def after(self, removed: int) -> tuple[int, int]:
        """Return (level, records gone at that level) after so many removals."""
        level = bisect_left(range(self.count(1)), True, key=lambda level: self.excess(level) <= removed)
        return level, removed - self.excess(level)

    def first_stop(self, ell: int, table_size: int) -> int:
        """Return the removals after which P-eligibility and l-candidacy first hold: SK 3.3, and STEP-2 of SK Fig. 3.

            P-eligibility   l F_1' <= |T_P|
            l-candidacy     l (F_l' + |T_S|) > |T|

        `table_size` is |T|. What is missing here was suppressed before, all of it from S_1, which still has rank l or
        higher. F_l' stays what it is until level F_l starts. By then candidacy holds, since S_1 alone has lost
        F_1 - F_l records and l F_1 > |T|; once it holds it stays, since F_l' falls by one at most.
        """
        gone = table_size - self.size
        eligible = self.excess(self.eligible_level(ell))
        candidacy = table_size // ell + 1 - gone - self.count(ell)
        if candidacy <= eligible:
            return eligible
        level, _ = self.after(candidacy)
        return candidacy if ell * level <= self.size - candidacy else self.excess(level - 1)

    def cut(self, removed: int, width: int) -> tuple[int, ...]:
        """Return the first `width` counts after so many removals, in the order of the ranks."""
        level, gone = self.after(removed)
        top = self.reaching(level)
        lowered = range(top - gone, top)
        return tuple(min(count, level) - (i in lowered) for i, count in enumerate(self.counts[:width]))
