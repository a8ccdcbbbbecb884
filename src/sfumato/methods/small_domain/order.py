"""Rearranging phase: an order of the groups in which neighbours share values.

SDR §5.2 applies the Reverse Cuthill-McKee algorithm to the graph in which two groups are joined if they share a value.
The paper leaves its ties open, and they change the answer. Here they are: the next root is the unvisited group of least
degree, the HIGHEST index among equals; neighbours follow by ascending degree, the LOWEST index among equals;
components stand one after another; the whole list is reversed.

The graph is never built. A group's degree is a count of bits, and in the breadth-first search each value is expanded
once, since afterwards all groups that hold it have been visited.
"""

from __future__ import annotations

import numpy as np

from sfumato.methods.small_domain.groups import Groups
from sfumato.values.arrays import BoolArray, IntArray

CHUNK = 4096
"""How many groups' bits are counted at a time: the memory is m * CHUNK / 8 bytes."""


def balancing_order(groups: Groups) -> IntArray:
    """Return the order in which the balancing phase made the groups."""
    return np.arange(groups.number)


def reverse_cuthill_mckee(groups: Groups) -> IntArray:
    """Return the groups in Reverse Cuthill-McKee order: SDR §5.2, ties as the module says."""
    degree = degrees(groups)
    holders = Holders(groups)
    visited = np.zeros(groups.number, dtype=np.bool_)
    expanded = np.zeros(groups.protected.size, dtype=np.bool_)
    sequence: list[int] = []
    for root in np.lexsort((-np.arange(groups.number), degree)):
        if visited[root]:
            continue
        visited[root] = True
        reached = len(sequence)
        sequence.append(int(root))
        while reached < len(sequence):
            found = _unvisited_neighbours(groups, holders, sequence[reached], visited, expanded)
            visited[found] = True
            sequence += found[np.lexsort((found, degree[found]))].tolist()
            reached += 1
    return np.array(sequence[::-1], dtype=np.int64)


def degrees(groups: Groups) -> IntArray:
    """Return how many other groups share a value with each group."""
    degree = np.full(groups.number, -1, dtype=np.int64)  # a group meets itself too
    for begin in range(0, groups.number, CHUNK):
        bits = _bits(groups, begin, min(begin + CHUNK, groups.number))
        for first in range(0, groups.number, CHUNK):
            stop = min(first + CHUNK, groups.number)
            degree[first:stop] += _meetings(groups, bits, first, stop)
    return degree


def _bits(groups: Groups, begin: int, end: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """value x bytes: which of the groups begin..end hold it."""
    bits = np.zeros((groups.protected.size, -(-(end - begin) // 8)), dtype=np.uint8)
    entries = slice(int(groups.offsets[begin]), int(groups.offsets[end]))
    place = groups.owner[entries] - begin
    # a group holds a value once, but several groups share a byte: one pass for each bit of the byte
    for bit in range(8):
        chosen = place % 8 == bit
        bits[groups.codes[entries][chosen], place[chosen] // 8] |= np.uint8(1 << bit)
    return bits


def _meetings(groups: Groups, bits: np.ndarray[tuple[int, int], np.dtype[np.uint8]], first: int, stop: int) -> IntArray:
    """For each group of first..stop: with how many of the groups in `bits` it shares a value."""
    found = np.empty(stop - first, dtype=np.int64)
    for j in range(first, stop):
        united = np.bitwise_or.reduce(bits[groups[j][0]], axis=0)
        found[j - first] = int(np.bitwise_count(united).sum())
    return found


class Holders:
    """For each value the groups that hold it, with their counts, by ascending group."""

    def __init__(self, groups: Groups) -> None:
        by_value = np.argsort(groups.codes, kind="stable")
        self.groups = groups.owner[by_value]
        self.counts = groups.counts[by_value]
        self.offsets = np.searchsorted(groups.codes[by_value], np.arange(groups.protected.size + 1))

    def entries(self, codes: IntArray) -> tuple[IntArray, IntArray]:
        """Return where the entries of these values stand, one value after another, and which of `codes` each is of."""
        lengths = self.offsets[codes + 1] - self.offsets[codes]
        return concatenated_ranges(self.offsets[codes], lengths), np.repeat(np.arange(codes.size), lengths)


def concatenated_ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """Return starts[0], starts[0] + 1, ... (lengths[0] of them), then those from starts[1], and so on.

    >>> concatenated_ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before = np.cumsum(lengths) - lengths
    ranges: IntArray = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
    return ranges


def _unvisited_neighbours(
    groups: Groups, holders: Holders, j: int, visited: BoolArray, expanded: BoolArray
) -> IntArray:
    codes = groups[j][0]
    fresh = codes[~expanded[codes]]
    expanded[fresh] = True
    found = holders.groups[holders.entries(fresh)[0]]
    return np.unique(found[~visited[found]])
