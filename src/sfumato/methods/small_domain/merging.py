"""Merging phase: cut an order of the groups into blocks at least cost, by dynamic programming (SDR Eq. (14)).

A block of `size` records over `distinct` values, of which `top` hold its most frequent SA' value, has
rho1_i = top/size (SDR Eq. (9)), gamma_i - 1 = (rho2 - rho1_i)/(rho1_i (1 - rho2)) (Eq. (10)) and

    1/p_i = distinct/(gamma_i - 1) + 1 = 1 + distinct top (1 - rho2)/(rho2 size - top)

(1 without an SA' value). Its cost, added up over the blocks:

    as-published   sqrt(size)/p_i       eps(Part) = 2 sqrt(ln(2/delta))/|T| * sum                     SDR Eq. (12)
    proved         size/p_i^2           the bound is sqrt(ln(2/delta)/2 * sum)/|T|      Hoeffding, all sub-tables

and infinity where rho1_i >= rho2, tested exactly. The printed program lacks that guard: there gamma_i < 1 makes the
cost negative, and the program prefers it (`printed_cost`).

The program looks at all t^2/2 blocks of neighbours, each in amortised constant time: `intervals`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from sfumato.methods.small_domain.groups import Groups, Holders, concatenated_ranges
from sfumato.values.arrays import BoolArray, FloatArray, IntArray

EQUAL = 1e-12  # costs that differ by less, relatively, are equal; the longest last block is taken

MOST_BLOCKS = 250_000_000
"""How many blocks of neighbours are looked at; above t = 22,000 groups, long blocks are left out."""


class Shape(NamedTuple):
    """What the cost of blocks depends on; each an array over the blocks."""

    size: IntArray  # |T_i|
    distinct: IntArray  # m_i
    top: IntArray  # the largest count of an SA' value; 0 if there is none


Cost = Callable[[Shape], FloatArray]


# --- costs --------------------------------------------------------------------------------------------------------


def slack(shape: Shape, rho2: Fraction) -> FloatArray:
    """Return rho2 size - top with its exact sign: positive iff rho1_i < rho2."""
    a, b = rho2.numerator, rho2.denominator
    if b.bit_length() + int(shape.size.max(initial=1)).bit_length() <= 62:
        return (a * shape.size - b * shape.top) / np.float64(b)
    near = np.float64(rho2) * shape.size - shape.top
    # b exceeds every size here, so an exact tie is impossible, and few blocks come near one
    for i in np.flatnonzero(np.abs(near) <= 1e-9 * shape.size):
        near[i] = float(rho2 * int(shape.size[i]) - int(shape.top[i])) or math.copysign(5e-324, near[i])
    return near


def breaches(shape: Shape, rho2: Fraction) -> BoolArray:
    """Return which blocks have rho1_i >= rho2."""
    return (shape.top > 0) & (slack(shape, rho2) <= 0)


def inverse_retention(shape: Shape, rho2: Fraction, guarded: bool = True) -> FloatArray:
    """Return 1/p_i of each block: infinite where rho1_i >= rho2, or as printed, where it is negative beyond."""
    room, raised = slack(shape, rho2), shape.distinct * shape.top.astype(np.float64) * float(1 - rho2)
    beyond = room <= 0 if guarded else room == 0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(shape.top == 0, 1.0, np.where(beyond, np.inf, 1 + raised / room))


def printed_cost(rho2: Fraction) -> Cost:
    """Return SDR Eq. (12) and (14) as printed: negative where gamma_i < 1. Only to show what it does."""
    return lambda shape: np.sqrt(shape.size) * inverse_retention(shape, rho2, guarded=False)


def published_cost(rho2: Fraction) -> Cost:
    """Return sqrt(|T_i|)/p_i, infinite where SDR Def. 2 (i), rho1_i < rho2, fails."""
    return lambda shape: np.sqrt(shape.size) * inverse_retention(shape, rho2)


def proved_cost(rho2: Fraction, minimum_size: int) -> Cost:
    """Return |T_i|/p_i^2, infinite where rho1_i >= rho2 or |T_i| < minimum_size."""

    def cost(shape: Shape) -> FloatArray:
        squared = shape.size * inverse_retention(shape, rho2) ** 2
        return np.where(shape.size >= minimum_size, squared, np.inf)

    return cost


# --- the program --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Merging:
    """Blocks of neighbours in an order: block k holds the groups order[cuts[k]:cuts[k+1]]."""

    order: IntArray
    cuts: tuple[int, ...]
    cost: float
    window: int  # the most groups that a block was allowed to have

    def members(self) -> list[IntArray]:
        return [self.order[a:b] for a, b in zip(self.cuts[:-1], self.cuts[1:], strict=True)]


def cheapest_merging(groups: Groups, order: IntArray, cost: Cost, most_blocks: int = MOST_BLOCKS) -> Merging:
    """Return the cheapest way to cut an order of all the groups into blocks: SDR Eq. (14).

        best(i) = min over r < i of best(r) + cost(g[r+1..i]);   on equal cost the smallest r

    At most `most_blocks` blocks are looked at: if there are more, those of too many groups are left out, all but the
    whole table, and `window` says so.
    """
    t = order.size
    window = t if t * t <= 2 * most_blocks else max(1, most_blocks // t)
    best = np.zeros(t + 1)
    back = np.zeros(t + 1, dtype=np.int64)
    for end, (first, shape) in enumerate(intervals(groups, order, window), start=1):
        candidates = best[first:end] + cost(shape)
        least = float(candidates.min())
        chosen = int(np.argmax(candidates <= least + EQUAL * abs(least)))
        best[end], back[end] = candidates[chosen], first + chosen
    whole = float(cost(shape_of(groups, order))[0]) if window < t else math.inf
    if whole <= best[t]:
        return Merging(order, (0, t), whole, window)
    cuts = [t]
    while cuts[-1]:
        cuts.append(int(back[cuts[-1]]))
    return Merging(order, tuple(cuts[::-1]), float(best[t]), window)


def shape_of(groups: Groups, members: IntArray) -> Shape:
    codes, counts = groups.union(members)
    top = counts[groups.protected[codes]].max(initial=0)
    return Shape(np.array([counts.sum()]), np.array([codes.size]), np.array([top]))


def intervals(groups: Groups, order: IntArray, window: int) -> Iterator[tuple[int, Shape]]:
    """For each last group i, give the shapes of the blocks order[r..i], r = first, ..., i.

    From i-1 to i, `distinct` grows by one for every value of g_i that r..i-1 lacks, that is for r beyond the value's
    last place. `top` falls in steps as r grows: a value of g_i with an earlier place q has c_q records from q to i, and
    top(r) becomes the larger of itself and max over q >= r of c_q. The arrays are views, to be used at once.
    """
    t = order.size
    places = _Places(groups, order)
    ends = np.concatenate([[0], np.cumsum(groups.sizes[order])])
    distinct = np.zeros(t, dtype=np.int64)
    top = np.zeros(t, dtype=np.int64)
    for i in range(t):
        first = max(0, i + 1 - window)
        if first:
            places.low[groups[int(order[first - 1])][0]] += 1  # its group leaves the window
        last_places, q, since = places.extend(i)
        fresh = np.bincount(np.maximum(last_places + 1 - first, 0), minlength=i + 1 - first)
        distinct[first : i + 1] += np.cumsum(fresh)
        raised = np.zeros(i + 1 - first, dtype=np.int64)
        np.maximum.at(raised, q - first, since)
        step = np.maximum.accumulate(raised[::-1])[::-1]
        np.maximum(top[first : i + 1], step, out=top[first : i + 1])
        yield first, Shape(ends[i + 1] - ends[first : i + 1], distinct[first : i + 1], top[first : i + 1])


class _Places(Holders):
    """Where each value stands in the order, and how many records it has before each of its places."""

    def __init__(self, groups: Groups, order: IntArray) -> None:
        super().__init__(groups, np.argsort(order)[groups.owner])
        self.groups, self.order = groups, order
        # running over all values: only differences within a value are used
        self.before = np.cumsum(self.counts) - self.counts
        self.low = self.offsets[:-1].copy()  # a value's first place in the window
        self.high = self.low.copy()  # the place after its last one so far

    def extend(self, i: int) -> tuple[IntArray, IntArray, IntArray]:
        """Go to place i: return each value's place before (-1: none), and (q, records from q to i) of those in SA'."""
        codes, counts = self.groups[int(self.order[i])]
        seen = self.high[codes] > self.offsets[codes]
        last_places = np.where(seen, self.places[np.maximum(self.high[codes] - 1, 0)], -1)
        self.high[codes] += 1
        kept = self.groups.protected[codes]
        mine, mine_counts = codes[kept], counts[kept]
        lengths = self.high[mine] - self.low[mine]
        entries = concatenated_ranges(self.low[mine], lengths)
        until = self.before[self.high[mine] - 1] + mine_counts
        return last_places, self.places[entries], np.repeat(until, lengths) - self.before[entries]
