"""Balancing phase: split the table into initial groups, each as balanced as the table and of few values.

A set of records R is theta-balanced with respect to SA' if f_x/|R| <= 1/theta for every x in SA' (SDR Def. 3). With
mu_i the i-th largest count of what is left, T0, a group takes h records of each of the theta most frequent values:

    h = mu_theta                              if |T0| >= theta (mu_theta + max(mu_1 - mu_theta, mu_{theta+1}))
    h = floor(|T0|/theta) - mu_{theta+1}      otherwise                                           SDR Eq. (13)

the most that leaves T0 balanced (Lemma 1). Where h = 0, the rest of T0 is the last group. Among equal counts the
lowest code goes first.

The number t of groups is at most about m + theta ln(|T|/theta) + 2 theta. The first case uses up a value. After the
second T0 is tight, floor(|T0|/theta) = mu_1, and remains so; the theta + 1 largest counts of a tight T0 sum to at least
mu_1 + theta mu_{theta+1} but less than theta (mu_1 + 1), so the second case takes h > mu_1/theta - 1 off mu_1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.values.arrays import BoolArray, IntArray

Group = tuple[IntArray, IntArray]
"""The codes of a group's values, ascending, and how many records it has of each."""


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
        """Return the values and counts of several groups together."""
        codes = np.concatenate([self[int(j)][0] for j in members])
        counts = np.concatenate([self[int(j)][1] for j in members])
        total = np.bincount(codes, weights=counts)  # exact below 2^53
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
    if rest.size and left < theta * _count(rest[0], m):
        raise ValueError(f"the table is not {theta}-balanced: a value has {_count(rest[0], m)} of {left} records")
    groups: list[Group] = []
    while left:
        h = _group_height(rest, left, theta, m)
        if h == 0:
            groups.append(_by_code(rest % m, -(rest // m)))
            break
        groups.append(_by_code(rest[:theta] % m, np.full(theta, h)))
        rest = _without_top(rest, theta, h * m)
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


def _without_top(rest: IntArray, theta: int, taken: int) -> IntArray:
    """Lower the first theta counts and merge them, still in order among themselves, into the others."""
    top, others = rest[:theta] + taken, rest[theta:]
    top = top[top < 0]  # count 0 gives a key of at least 0
    return np.insert(others, np.searchsorted(others, top), top)


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
    inside = sum(sizes)
    quotas = [size * total // inside for size in sizes]
    quotas[-1] += total - sum(quotas)
    line = _keys(outside) % outside.size  # the codes of T'', as they stand in line
    ends = np.cumsum(outside[line])
    return [
        _by_code(np.concatenate([codes, line[first:stop]]), np.concatenate([counts, dealt]))
        for (codes, counts), (first, stop, dealt) in zip(groups, _slices(ends, quotas), strict=True)
    ]


def _slices(ends: IntArray, quotas: list[int]) -> list[tuple[int, int, IntArray]]:
    """Cut a line of runs that end at `ends` into pieces: the runs first:stop each touches, and how much of them."""
    pieces, begin = [], 0
    for quota in quotas:
        end = begin + quota
        first = int(np.searchsorted(ends, begin, side="right"))
        stop = int(np.searchsorted(ends, end, side="left")) + 1 if quota else first
        bounds = np.minimum(np.concatenate([[begin], ends[first:stop]]), end)
        pieces.append((first, stop, np.diff(bounds)))
        begin = end
    return pieces
