"""Initial groups: balancing makes them, each as balanced as the table and of few values; rearranging orders them.

Balancing (SDR §5.1). A set of records R is theta-balanced with respect to SA' if f_x/|R| <= 1/theta for every x in SA'
(SDR Def. 3). With mu_i the i-th largest count of what is left, T0, a group takes h records of each of the theta most
frequent values:

    h = mu_theta                              if |T0| >= theta (mu_theta + max(mu_1 - mu_theta, mu_{theta+1}))
    h = floor(|T0|/theta) - mu_{theta+1}      otherwise                                           SDR Eq. (13)

the most that leaves T0 balanced (Lemma 1). Where h = 0, the rest of T0 is the last group. Among equal counts the
lowest code goes first.

The number t of groups is at most about m + theta ln(|T|/theta) + 2 theta. The first case uses up a value. After the
second T0 is tight, floor(|T0|/theta) = mu_1, and remains so; the theta + 1 largest counts of a tight T0 sum to at least
mu_1 + theta mu_{theta+1} but less than theta (mu_1 + 1), so the second case takes h > mu_1/theta - 1 off mu_1.

Rearranging (SDR §5.2) applies the Reverse Cuthill-McKee algorithm to the graph in which two groups are joined if they
share a value. The paper leaves its ties open, and they change the answer. Here they are: the next root is the unvisited
group of least degree, the HIGHEST index among equals; neighbours follow by ascending degree, the LOWEST index among
equals; components stand one after another; the whole list is reversed. The graph is never built: a group's degree is a
count of bits, and in the breadth-first search each value is expanded once, since afterwards all groups that hold it
have been visited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from sfumato.values.arrays import BoolArray, IntArray

Group = tuple[IntArray, IntArray]  # the codes of a group's values, ascending, and how many records it has of each
CHUNK = 512  # how many groups' bits are counted at a time: the memory is m * CHUNK bytes


@dataclass(frozen=True, eq=False)
class Groups:
    """The initial groups g_1..g_t, one after another: those of group j stand at offsets[j]:offsets[j+1]."""

    codes: IntArray
    counts: IntArray
    offsets: IntArray
    protected: BoolArray  # value -> whether it is in SA'
    theta: int  # floor(|T|/f^m), f^m the largest count of an SA' value
    balancing_theta: int  # floor(|T'|/f^m), T' the records with an SA' value; theta itself where SA' = SA

    @classmethod
    def of(cls, groups: Sequence[Group], protected: BoolArray, theta: int, balancing_theta: int) -> Groups:
        """Return the groups in one piece."""
        lengths = [codes.size for codes, _ in groups]
        return cls(
            codes=np.concatenate([codes for codes, _ in groups]),
            counts=np.concatenate([counts for _, counts in groups]),
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            protected=protected,
            theta=theta,
            balancing_theta=balancing_theta,
        )

    @property
    def number(self) -> int:
        """t."""
        return self.offsets.size - 1

    @cached_property
    def sizes(self) -> IntArray:
        """|g_j|."""
        return np.add.reduceat(self.counts, self.offsets[:-1])

    @cached_property
    def owner(self) -> IntArray:
        """The group of each entry."""
        return np.repeat(np.arange(self.number), np.diff(self.offsets))

    def __getitem__(self, j: int) -> Group:
        part = slice(int(self.offsets[j]), int(self.offsets[j + 1]))
        return self.codes[part], self.counts[part]

    def union(self, members: Sequence[int] | IntArray) -> Group:
        chosen = np.asarray(members)
        entries = concatenated_ranges(self.offsets[chosen], self.offsets[chosen + 1] - self.offsets[chosen])
        total = np.bincount(self.codes[entries], weights=self.counts[entries])  # exact below 2^53
        values = np.flatnonzero(total)
        return values, total[values].astype(np.int64)


def initial_groups(counts: IntArray, protected: BoolArray) -> Groups:
    """Return the initial groups of a table: SDR §5.1, and §10.7 where SA' is a proper subset.

    counts: value -> records (zeros are in no group); protected: value -> whether it is in SA'.
    """
    largest = int(counts[protected].max())
    inside = np.where(protected, counts, 0)
    balancing_theta = int(inside.sum()) // largest
    groups = distribute(balance(inside, balancing_theta), np.where(protected, 0, counts))
    return Groups.of(groups, protected, int(counts.sum()) // largest, balancing_theta)


def balance(counts: IntArray, theta: int) -> list[Group]:
    """Return groups that are theta-balanced, as SDR Fig. 1 makes them of a theta-balanced table.

    >>> [part.tolist() for part in balance(np.array([12, 8, 6, 5, 4, 3, 1, 1, 1, 1]), 3)[0]]  # SDR Example 2
    [[0, 1, 2], [6, 6, 6]]
    """
    m = counts.size
    rest = _keys(counts)
    left = int(counts.sum())
    groups: list[Group] = []
    while left:
        h = _group_height(rest, left, theta, m)
        if h == 0:
            groups.append(_by_code(rest % m, -(rest // m)))
            break
        groups.append(_by_code(rest[:theta] % m, np.full(theta, h)))
        lowered, others = rest[:theta] + h * m, rest[theta:]  # both still in order
        lowered = lowered[lowered < 0]  # count 0 gives a key of at least 0
        rest = np.insert(others, np.searchsorted(others, lowered), lowered)
        left -= theta * h
    return groups


def _keys(counts: IntArray) -> IntArray:
    """The values that occur, most frequent first, each as code - m count: one number to sort by, ties to low codes."""
    m = counts.size
    if int(counts.sum()) * m >= 2**62:
        raise ValueError("too many records times values for 64-bit keys")
    keys = np.arange(m) - m * counts
    return np.sort(keys[counts > 0])


def _count(key: np.int64, m: int) -> int:
    return -(int(key) // m)


def _group_height(rest: IntArray, left: int, theta: int, m: int) -> int:
    """SDR Eq. (13), in integers. A balanced T0 that is not empty has at least theta values."""
    mu_1, mu_theta = _count(rest[0], m), _count(rest[theta - 1], m)
    mu_next = _count(rest[theta], m) if rest.size > theta else 0
    if left >= theta * (mu_theta + max(mu_1 - mu_theta, mu_next)):
        return mu_theta
    return left // theta - mu_next


def _by_code(codes: IntArray, counts: IntArray) -> Group:
    order = np.argsort(codes)
    return codes[order], counts[order]


def distribute(groups: list[Group], outside: IntArray) -> list[Group]:
    """Deal the records of values outside SA' to the groups in proportion to their size: SDR §10.7.

    Group g_j gets floor(|g_j| |T''|/|T'|) records, the last one the residue too; the most frequent value goes first.
    """
    total = int(outside.sum())
    if total == 0:
        return groups
    sizes = [int(counts.sum()) for _, counts in groups]
    quotas = [size * total // sum(sizes) for size in sizes]
    quotas[-1] += total - sum(quotas)
    line = _keys(outside) % outside.size  # the codes of T'', as they stand in line
    runs, until = np.cumsum(outside[line]), np.cumsum(quotas)
    ends = np.setdiff1d(np.concatenate([runs, until]), [0])  # of pieces of one value for one group
    begins = np.concatenate([[0], ends[:-1]])
    value, dealt = line[np.searchsorted(runs, begins, side="right")], ends - begins
    bounds = np.searchsorted(begins, [0, *until.tolist()])
    return [
        _by_code(np.concatenate([codes, value[a:b]]), np.concatenate([counts, dealt[a:b]]))
        for (codes, counts), (a, b) in zip(groups, pairwise(bounds), strict=True)
    ]


# --- the order --------------------------------------------------------------------------------------------------------


def reverse_cuthill_mckee(groups: Groups) -> IntArray:
    """Return the groups in Reverse Cuthill-McKee order: SDR §5.2, ties as the module says."""
    degree, holders = degrees(groups), Holders(groups, groups.owner)
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
            codes = groups[sequence[reached]][0]
            fresh = codes[~expanded[codes]]
            expanded[fresh] = True
            found = holders.places[holders.entries(fresh)[0]]
            found = np.unique(found[~visited[found]])
            visited[found] = True
            sequence += found[np.lexsort((found, degree[found]))].tolist()
            reached += 1
    return np.array(sequence[::-1], dtype=np.int64)


def degrees(groups: Groups) -> IntArray:
    """Return how many other groups share a value with each group."""
    degree = np.full(groups.number, -1, dtype=np.int64)  # a group meets itself too
    for begin in range(0, groups.number, CHUNK):
        entries = slice(*groups.offsets[[begin, min(begin + CHUNK, groups.number)]].tolist())
        holds = np.zeros((groups.protected.size, CHUNK), dtype=np.bool_)  # value x group of this chunk
        holds[groups.codes[entries], groups.owner[entries] - begin] = True
        met = np.bitwise_or.reduceat(np.packbits(holds, axis=1)[groups.codes], groups.offsets[:-1], axis=0)
        degree += np.bitwise_count(met).sum(axis=1, dtype=np.int64)
    return degree


class Holders:
    """For each value the groups that hold it, by ascending place (of a group's entries), with their counts."""

    def __init__(self, groups: Groups, place: IntArray) -> None:
        by_value = np.lexsort((place, groups.codes))
        self.places = place[by_value]
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
