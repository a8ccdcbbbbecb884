"""Local search: from the best merging of neighbours to blocks of any groups.

The cost of a partition is a sum over its blocks, so a change costs what it does to the blocks it touches. One
evaluation gives the price of every block with one more item at once (`_Blocks.added`): the item's values are
looked up in the groups that hold them, which gives each block's new number of values and largest count. The changes
tried, for each block from the dearest to the cheapest, again and again until none helps or the work is used up:

    relocate       one group to another block, or to a block of its own
    merge          the block with another
    dissolve       the block: its groups, largest first, each to where it costs least
    repartition    the block, alone or with one or two others: the best set partition of their groups, by dynamic
                   programming over subsets; if they are more than `ITEMS`, some of them are moved as one

A table of at most `EXACT` groups is repartitioned as a whole: its answer is the optimum over all partitions of the
groups. The work is counted in cells looked at, not in seconds: a plan does not depend on the machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from sfumato.methods.small_domain.groups import Groups, Holders
from sfumato.methods.small_domain.merging import Cost, Shape, shape_of
from sfumato.values.arrays import FloatArray, IntArray

WORK = 80_000_000  # cells that a search may look at: about a second
PATIENCE = WORK // 5  # cells that it looks at without finding a gain before it gives up
EXACT = 10  # up to so many groups the best set partition is found by looking at all; 3^EXACT/2 unions
ITEMS = 9  # how many items a repartition has: 3^ITEMS/2 unions
PARTNERS = 12  # how many other blocks a block is repartitioned with, the cheapest to merge with first
TRIPLES = 4  # of these, how many are taken two at a time

CELLS = 1 << 22  # held at a time
OVERHEAD = 25_000  # cells that one evaluation is charged besides its own: what calling it costs

GAIN = 1e-9  # relative to the whole cost; a smaller gain is no gain


@dataclass(frozen=True)
class Found:
    """Blocks of groups, and how they were found."""

    members: tuple[IntArray, ...]
    cost: float
    work: int
    finished: bool  # no change tried improves it; else the work was used up first
    optimal: bool  # the cheapest of all partitions of the groups


def improve(groups: Groups, start: Sequence[IntArray], cost: Cost, work: int = WORK) -> Found:
    """Return the start, improved until no change helps or the work is used up."""
    if groups.number <= EXACT:
        members, price = best_set_partition(groups, list(np.arange(groups.number)[:, None]), cost)
        return Found(tuple(members), price, 3**groups.number, True, True)
    blocks = _Blocks(groups, start, cost, work)
    finished = _descend(blocks, CHEAP) and _descend(blocks, (*CHEAP, _repartition))
    parts = (blocks.members(block) for block in np.flatnonzero(blocks.size).tolist())
    return Found(
        tuple(sorted(parts, key=lambda part: int(part[0]))), float(blocks.price.sum()), blocks.work, finished, False
    )


def _descend(blocks: _Blocks, changes: Sequence[Change]) -> bool:
    """Try these changes on every block until a whole round brings nothing; False if it is given up first."""
    changed = True
    while changed:
        changed = False
        for block in np.argsort(-blocks.price, kind="stable").tolist():
            if blocks.exhausted:
                return False
            for change in changes:
                if blocks.size[block] > 0 and change(blocks, block):
                    changed, blocks.last_gain = True, blocks.work
    return True


# --- changes ------------------------------------------------------------------------------------------------------


def _relocate(blocks: _Blocks, block: int) -> bool:
    changed = False
    for group in blocks.members(block):
        rest = blocks.members(block)
        rest = rest[rest != group]
        if rest.size == 0 or blocks.exhausted:
            return changed
        saved = float(blocks.price[block] - blocks.cost(blocks.shape_of(rest))[0])
        if saved > 0:
            added = blocks.added(np.array([group]), block)
            target = int(added.argmin())
            if added[target] < saved - blocks.least_gain:
                blocks.assign(np.array([group]), target)
                changed = True
    return changed


def _merge(blocks: _Blocks, block: int) -> bool:
    members = blocks.members(block)
    added = blocks.added(members, block)
    target = int(added.argmin())
    if added[target] >= blocks.price[block] - blocks.least_gain:
        return False
    blocks.assign(members, target)
    return True


def _dissolve(blocks: _Blocks, block: int) -> bool:
    members = blocks.members(block)
    members = members[np.argsort(-blocks.groups.sizes[members], kind="stable")]
    before, kept = float(blocks.price.sum()), blocks.state
    blocks.assign(members, OUT)
    for group in members:
        added = blocks.added(np.array([group]))
        target = int(added.argmin())
        if not math.isfinite(added[target]) or float(blocks.price.sum()) > before or blocks.exhausted:
            break
        blocks.assign(np.array([group]), target)
    if (blocks.block[members] != OUT).all() and float(blocks.price.sum()) < before - blocks.least_gain:
        return True
    blocks.state = kept
    return False


def _repartition(blocks: _Blocks, block: int) -> bool:
    nearest = np.argsort(blocks.added(blocks.members(block), block), kind="stable")[:PARTNERS]
    partners = [p for p in nearest.tolist() if blocks.size[p] > 0 and p != block]
    for chosen in [(), *combinations(partners, 1), *combinations(partners[:TRIPLES], 2)]:
        together = [block, *chosen]
        for items in _itemized(blocks, together):
            parts, price = best_set_partition(blocks.groups, items, blocks.cost)
            union = np.concatenate(items)
            entries = int(np.diff(blocks.groups.offsets)[union].sum())
            blocks.work += OVERHEAD + 3 ** len(items) + (entries << len(items))
            if price < float(blocks.price[together].sum()) - blocks.least_gain:
                blocks.assign(union, OUT)
                for part in parts:
                    blocks.assign(part, int(np.argmax(blocks.size == 0)))
                return True
    return False


def _itemized(blocks: _Blocks, together: list[int]) -> Iterator[list[IntArray]]:
    """Give the groups of some blocks as at most ITEMS items: the largest by themselves, or the smallest."""
    parts = [blocks.members(b) for b in together]
    union = np.concatenate(parts)
    by_size = union[np.argsort(-blocks.groups.sizes[union], kind="stable")]
    if union.size <= ITEMS:
        if union.size > 1:
            yield list(by_size[:, None])
        return
    yield [*by_size[: ITEMS - 1, None], by_size[ITEMS - 1 :]]
    free = by_size[len(together) - ITEMS :]
    cores = [part[~np.isin(part, free)] for part in parts]
    yield [*(core for core in cores if core.size), *free[:, None]]


Change = Callable[["_Blocks", int], bool]
CHEAP: tuple[Change, ...] = (_relocate, _merge, _dissolve)

OUT = -1  # the block of groups that are in none


class _Blocks:
    """The present partition. Block ids are stable; there is always an empty block at hand."""

    def __init__(self, groups: Groups, members: Sequence[IntArray], cost: Cost, limit: int) -> None:
        self.groups, self.cost, self.holders = groups, cost, Holders(groups, groups.owner)
        self.block = np.full(groups.number, OUT, dtype=np.int64)  # group -> block
        self.shape = np.zeros((3, len(members) + 1), dtype=np.int64)  # size, distinct, top of each block
        self.price = np.zeros(len(members) + 1)
        self.work, self.limit = 0, limit
        for number, part in enumerate(members):
            self.assign(part, number)
        self.work = self.last_gain = 0  # setting up is not searching
        self.least_gain = GAIN * float(self.price.sum())

    @property
    def state(self) -> tuple[IntArray, IntArray, FloatArray]:
        """A copy of all that changes; set it to go back."""
        return self.block.copy(), self.shape.copy(), self.price.copy()

    @state.setter
    def state(self, kept: tuple[IntArray, IntArray, FloatArray]) -> None:
        self.block, self.shape, self.price = kept

    @property
    def size(self) -> IntArray:
        size: IntArray = self.shape[0]
        return size

    @property
    def exhausted(self) -> bool:
        """Whether the work is used up, or seems to be in vain."""
        return self.work >= self.limit or self.work - self.last_gain >= PATIENCE

    def members(self, block: int) -> IntArray:
        return np.flatnonzero(self.block == block)

    def shape_of(self, members: IntArray) -> Shape:
        """Return the shape of these groups together."""
        shape = shape_of(self.groups, members)
        self.work += OVERHEAD + int(shape.distinct[0])
        return shape

    def added(self, members: IntArray, *apart: int) -> FloatArray:
        """Return what these groups would add to the cost of each block; the spare block: what they cost alone."""
        codes, counts = self.groups.union(members)
        size, distinct, top = self.shape.copy()
        step = max(1, CELLS // size.size)
        for first in range(0, codes.size, step):
            part = slice(first, first + step)
            held = self._held(codes[part])
            distinct += (held == 0).sum(axis=0)
            mine = self.groups.protected[codes[part]]
            highest = (held[mine] + counts[part][mine, None]).max(axis=0, initial=0)
            np.maximum(top, highest.astype(np.int64), out=top)
        self.work += OVERHEAD + codes.size * size.size
        added = self.cost(Shape(size + int(counts.sum()), distinct, top)) - self.price
        added[list(apart)] = np.inf
        return added

    def _held(self, codes: IntArray) -> FloatArray:
        """value x block -> records; exact below 2^53."""
        entries, row = self.holders.entries(codes)
        block = self.block[self.holders.places[entries]]
        inside, width = block != OUT, self.price.size
        counts = self.holders.counts[entries[inside]].astype(np.float64)
        cells = np.bincount(row[inside] * width + block[inside], weights=counts, minlength=codes.size * width)
        return cells.astype(np.float64, copy=False).reshape(codes.size, width)

    def assign(self, members: IntArray, block: int) -> None:
        """Put groups into a block, or take them out."""
        changed = {*self.block[members].tolist(), block} - {OUT}
        self.block[members] = block
        for number in changed:
            own = self.members(number)
            shape = self.shape_of(own) if own.size else None
            self.shape[:, number] = [part[0] for part in shape] if shape else 0
            self.price[number] = self.cost(shape)[0] if shape else 0
        if (self.size > 0).all():
            self.shape, self.price = np.pad(self.shape, ((0, 0), (0, 1))), np.append(self.price, 0.0)


# --- few items: all set partitions --------------------------------------------------------------------------------


def best_set_partition(groups: Groups, items: Sequence[IntArray], cost: Cost) -> tuple[list[IntArray], float]:
    """Return the cheapest partition of a few items (each one or several groups) into blocks, and its cost.

    best(S) = min over the subsets B of S that hold S's first item of cost(B) + best(S - B); the largest B on a tie.
    Subsets of one size are done together: O(3^items/2) cells, in `items` steps.
    """
    price = _subset_prices(groups, items, cost)
    best = np.zeros(price.size)
    for subsets, rests, parts, starts in _parts_with_first(len(items)):
        best[subsets] = np.minimum.reduceat(price[parts] + best[rests], starts)
    blocks, left = [], price.size - 1
    while left:
        parts = _parts_of(left)
        chosen = int(parts[(price[parts] + best[left - parts]).argmin()])
        blocks.append(np.sort(np.concatenate([item for bit, item in enumerate(items) if chosen >> bit & 1])))
        left -= chosen
    return blocks, float(best[-1])


def _subset_prices(groups: Groups, items: Sequence[IntArray], cost: Cost) -> FloatArray:
    """The cost of every union of the items; bit k of the index stands for items[k]."""
    contents = [groups.union(item) for item in items]
    codes = np.unique(np.concatenate([own for own, _ in contents]))
    count = np.zeros((len(items), codes.size), dtype=np.int64)  # item x value -> records
    for row, (own, own_counts) in zip(count, contents, strict=True):
        row[np.searchsorted(codes, own)] = own_counts
    size, distinct, top = (np.zeros(1 << len(items), dtype=np.int64) for _ in range(3))
    step = max(1, CELLS >> len(items))
    for first in range(0, codes.size, step):
        sums = _subset_sums(count[:, first : first + step])
        size += sums.sum(axis=1)
        distinct += np.count_nonzero(sums, axis=1)
        np.maximum(top, sums[:, groups.protected[codes[first : first + step]]].max(axis=1, initial=0), out=top)
    price = np.zeros(size.size)
    price[1:] = cost(Shape(size[1:], distinct[1:], top[1:]))
    return price


def _subset_sums(rows: IntArray) -> IntArray:
    sums = np.zeros((1 << rows.shape[0], rows.shape[1]), dtype=np.int64)
    for bit, row in enumerate(rows):
        half = 1 << bit
        np.add(sums[:half], row, out=sums[half : 2 * half])
    return sums


def _parts_of(subset: int) -> IntArray:
    """The subsets of a set that hold its lowest bit, largest first."""
    parts: IntArray = np.arange(subset, 0, -1)
    return np.asarray(parts[(parts & ~subset == 0) & (parts & subset & -subset != 0)])


@lru_cache(maxsize=EXACT + 1)
def _parts_with_first(bits: int) -> tuple[tuple[IntArray, IntArray, IntArray, IntArray], ...]:
    """For each size of a set: the sets, and all their parts one set after another, with what a part leaves.

    Each entry is (sets, rests, parts, where in `parts` each set begins).
    """
    levels = []
    popcount = np.bitwise_count(np.arange(1 << bits))
    for size in range(1, bits + 1):
        sets = np.flatnonzero(popcount == size)
        parts = [_parts_of(int(s)) for s in sets]
        flat = np.concatenate(parts)
        starts = np.arange(sets.size) << (size - 1)  # a set of this size has 2^(size-1) such parts
        levels.append((sets, np.repeat(sets, 1 << (size - 1)) - flat, flat, starts))
    return tuple(levels)
