"""Seat records that the deal leaves over as guests in groups of another cell, if the posterior allows it.

A guest joins whole groups of one other cell that lack its value. With A and B the guest's and the hosts' row of the
prior, and k_v how often the union has v,

    p(guest:v) = k_v A_v/B_v / sum_w k_w A_w/B_w        p(host:v) = (k_v - p(guest:v))/(N-1)

exactly: PI Eq. (3) where all tuples but one share a signature. Where the guest has the hosts' signature they are k_v/N.
All must be below 1/r for every attribute set. The most similar hosts, with the smallest posterior, are taken first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.methods.robustness.check import CLOSE
from sfumato.methods.robustness.kinds import Kinds, Order
from sfumato.methods.robustness.prior import Prior
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.bucket_deal import starts
from sfumato.values.steps import WITHHELD

MOST_HOSTS = 4
"""How many groups a guest joins at most. Few are tried first: large groups tell analysts less."""

MOST_TRIED = 1 << 14
"""Groups that are tried as hosts of a kind of guest. Of more, every k-th is: there are then enough that fit."""


@dataclass(frozen=True)
class AttributeSet:
    """Of one attribute set: the signature of each cell, and what the adversary knows of it."""

    signatures: IntArray  # cell -> signature
    prior: Prior


def seat_guests(
    kinds: Kinds, groups: IntArray, order: Order, sets: Sequence[AttributeSet], r: int, most_hosts: int
) -> IntArray:
    """Return the groups with guests, numbered from 0. groups: as dealt."""
    halls = _Halls(kinds, groups, sets)
    waiting = _waiting(kinds, groups, order)
    groups = groups.copy()
    for together in range(1, most_hosts + 1):
        for kind in [kind for kind, records in waiting.items() if records.size]:
            hosts = halls.offered(kinds.cells[kind], kinds.values[kind], together, r)[: len(waiting[kind])]
            guests, waiting[kind] = np.split(waiting[kind], [len(hosts)])
            groups[guests] = halls.join(hosts)
    published = groups != WITHHELD
    groups[published] = np.unique(halls.merged[groups[published]], return_inverse=True)[1]
    return groups


def _waiting(kinds: Kinds, groups: IntArray, order: Order) -> dict[int, IntArray]:
    """Return the records left over by kind, the largest kind first."""
    line = kinds.line(order)
    records = line[groups[line] == WITHHELD]
    found, begins, counts = np.unique(kinds.of_record[records], return_index=True, return_counts=True)
    parts = np.split(records, begins[1:])
    return {int(found[i]): parts[i] for i in np.argsort(-counts, kind="stable")}


class _Halls:
    """The groups as dealt, which of them are still free to take a guest, and which were put together."""

    def __init__(self, kinds: Kinds, groups: IntArray, sets: Sequence[AttributeSet]) -> None:
        dealt = np.flatnonzero(groups != WITHHELD)
        kind, number = kinds.of_record[dealt], int(groups.max()) + 1
        self.sets = sets
        self.homes = np.zeros(number, dtype=np.int64)  # group -> cell
        self.homes[groups[dealt]] = kinds.cells[kind]
        values = sets[0].prior.weights.shape[1]  # of the domain: not all need occur
        self.holds = np.zeros((number, values), dtype=np.bool_)  # (group, value)
        self.holds[groups[dealt], kinds.values[kind]] = True
        self.free = np.ones(number, dtype=np.bool_)
        self.merged = np.arange(number)  # group -> the group whose number it takes

    def join(self, hosts: IntArray) -> IntArray:
        """Put sets of groups together; return the number of each set."""
        self.free[hosts] = False
        self.merged[hosts] = hosts[:, :1]
        return hosts[:, 0]

    def offered(self, cell: int, value: int, together: int, r: int) -> IntArray:
        """Return the sets of groups, (set, group), that such a record may join, the most similar first."""
        able = np.flatnonzero(self.free & ~self.holds[:, value] & (self.homes != cell))
        able = able[:: max(1, -(-able.size // MOST_TRIED))]
        hosts = _in_sets(able, self.homes[able], together)
        worst = np.zeros(len(hosts))
        for of in self.sets:
            worst = np.maximum(worst, self._worst(of, cell, value, hosts))
            within = worst < (1 - CLOSE) / r
            hosts, worst = hosts[within], worst[within]
        return hosts[np.argsort(worst, kind="stable")]

    def _worst(self, of: AttributeSet, cell: int, value: int, hosts: IntArray) -> FloatArray:
        """Return the largest posterior under one attribute set's prior, if such a record joins each set of hosts."""
        homes = self.homes[hosts[:, 0]]
        counts = self.holds[hosts].sum(axis=1)
        counts[:, value] += 1
        rows = of.prior.probabilities[of.signatures]
        alike = of.signatures[homes] == of.signatures[cell]
        mixed = guest_posterior(rows[cell], rows[homes], counts, value)
        return np.where(alike, counts.max(axis=1) / counts.sum(axis=1), mixed)


def guest_posterior(guest: FloatArray, hosts: FloatArray, counts: IntArray, value: int) -> FloatArray:
    """Return the largest posterior in groups of hosts with one signature and one guest, who has `value`.

    guest: value -> probability; hosts: (group, value) -> probability; counts: (group, value) -> k_v, guest included.
    The prior must allow what the hosts have; where it denies them the guest's value, that is certain.
    """
    ratio = np.divide(guest, hosts, out=np.zeros_like(hosts), where=hosts > 0)
    share = counts * ratio
    share[hosts[:, value] == 0] = np.arange(guest.size) == value
    share = share / share.sum(axis=1, keepdims=True)
    others = (counts - share) / (counts.sum(axis=1, keepdims=True) - 1)
    return np.asarray(np.maximum(share, others).max(axis=1))


def _in_sets(able: IntArray, homes: IntArray, together: int) -> IntArray:
    """Put groups of one cell together, from all over the cell so that their values differ; what is over is left."""
    number = np.bincount(homes)
    sets = number // together
    rank = np.arange(able.size) - starts(number)[homes]
    used = rank < (sets * together)[homes]
    homes, rank = homes[used], rank[used]
    return able[used][np.argsort(starts(sets)[homes] + rank % sets[homes], kind="stable")].reshape(-1, together)
