"""r-robust groups, proved: a deal inside the cells, then guests where the posterior allows them.

**The deal** holds under every prior. A cell is a joint signature: tuples of one cell agree in every attribute set. A
kind is a cell with a value; n_cx is how many records of cell c have value x. Let g be the largest integer with

    sum_x min(n_cx, g) >= r g

Of each value at most g records of the cell are kept. They are dealt to g groups: no value comes twice into a
group, and every group gets r records at least. Left over are sum_x max(0, n_cx - g).

No r-robust groups inside the cell keep more. If they keep c_x records of value x, then r c_x <= sum_y c_y, since every
group of N has it N/r times at most. With L the largest c_x: r L <= sum_y min(n_cy, L), so L <= g.

So a group as dealt has p(t:x) = 1/N <= 1/r. That needs no prior; one is needed only to seat guests, and what they were
promised holds under it alone.

**Guests** are records that the deal leaves over. A guest joins whole groups of one other cell that lack its value. With
A and B the guest's and the hosts' row of the prior, and k_v how often the union has v,

    p(guest:v) = k_v A_v/B_v / sum_w k_w A_w/B_w        p(host:v) = (k_v - p(guest:v))/(N-1)

exactly: PI Eq. (3) where all tuples but one share a signature. Where the guest has the hosts' signature they are k_v/N.
All must be below 1/r for every attribute set. The most similar hosts, with the smallest posterior, are taken first.

Guests and withheld records hold a value of which their cell has more than g records. One who knows how groups are made
knows that; the bound for guests is for an adversary who does not. For all others it holds against them too: if two
records of one cell and group exchange their values and their random numbers, the release is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.methods.robustness.check import CLOSE
from sfumato.methods.robustness.prior import Prior
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.bucket_deal import Deal, Runs, starts
from sfumato.values.steps import WITHHELD

Order = npt.NDArray[np.integer]  # a secret random number for each record, all different

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: the leading bits of its multiples, modulo 2^64, are well mixed."""

MOST_HOSTS = 4  # how many groups a guest joins at most. Few are tried first: large groups tell analysts less

MOST_TRIED = 1 << 14
"""Groups that are tried as hosts of a kind of guest. Of more, every k-th is: there are then enough that fit."""


def group_records(
    cells: IntArray,
    values: IntArray,
    signatures: Sequence[IntArray],
    order: Order,
    r: int,
    priors: Sequence[Prior] | None = None,
    most_hosts: int = MOST_HOSTS,
) -> IntArray:
    """Return the r-robust group of every record, numbered from 0, or `WITHHELD`.

    cells, values, signatures (one array for each attribute set): codes of the records. order: decides which records of
    a kind go where. priors: one for each attribute set, to seat guests, each with `most_hosts` groups at most; without
    them all that is left over is withheld. They must allow what the records have.
    """
    if np.unique(order).size < cells.size:
        raise ValueError("two records have the same random number")
    of_cells = [cell_signatures(cells, codes) for codes in signatures]
    kinds = Kinds.of(cells, values)
    groups = deal(kinds, order, r)
    if priors is None:
        return groups
    return seat_guests(kinds, groups, order, list(map(AttributeSet, of_cells, priors)), r, most_hosts)


# --- the deal ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Kinds:
    """The combinations of cell and value that occur, by ascending cell."""

    of_record: IntArray
    cells: IntArray
    values: IntArray
    counts: IntArray  # n_cx

    @classmethod
    def of(cls, cells: IntArray, values: IntArray) -> Kinds:
        domain = int(values.max()) + 1
        kinds, of_record, counts = np.unique(cells * domain + values, return_inverse=True, return_counts=True)
        return cls(of_record, kinds // domain, kinds % domain, counts)

    def per_cell(self, numbers: IntArray) -> IntArray:
        """Sum numbers of kinds over each cell."""
        return np.bincount(self.cells, weights=numbers).astype(np.int64)  # exact below 2^53

    def group_numbers(self, r: int) -> IntArray:
        """Return g of each cell, by bisection: sum_x min(n_cx, g) - r g is concave in g, and 0 for g = 0."""
        low = np.zeros(int(self.cells.max()) + 1, dtype=np.int64)
        high = self.per_cell(self.counts) // r
        while (low < high).any():
            middle = (low + high + 1) // 2
            fits = self.per_cell(np.minimum(self.counts, middle[self.cells])) >= r * middle
            low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
        return low

    def kept(self, r: int) -> IntArray:
        """Return min(n_cx, g)."""
        return np.minimum(self.counts, self.group_numbers(r)[self.cells])

    def line(self, order: Order) -> IntArray:
        """Return the records kind by kind, each kind in random order."""
        return np.lexsort((order, self.of_record))


def leftovers(cells: IntArray, values: IntArray, r: int) -> int:
    """Return how many records the deal leaves over: sum over cells of sum_x max(0, n_cx - g).

    With all records in one cell: the fewest that any r-robust grouping of the table leaves out, whatever the prior.

    >>> leftovers(np.array([0, 0, 0, 0, 1, 1]), np.array([0, 0, 0, 1, 0, 1]), 2)
    2
    """
    kinds = Kinds.of(cells, values)
    return int((kinds.counts - kinds.kept(r)).sum())


def deal(kinds: Kinds, order: Order, r: int) -> IntArray:
    """Return the group of every record inside its cell, numbered from 0, or `WITHHELD`.

    >>> deal(Kinds.of(np.zeros(6, int), np.array([0, 0, 0, 0, 1, 2])), np.arange(6), 2).tolist()
    [0, 1, -1, -1, 1, 0]
    """
    numbers, line = kinds.group_numbers(r), kinds.line(order)
    runs = Runs(kinds.kept(r), kinds.cells, numbers)
    kind = kinds.of_record[line]
    rank = np.arange(line.size) - starts(kinds.counts)[kind]
    kept = rank < runs.counts[kind]
    records, kind = line[kept], kind[kept]
    groups = np.full(line.size, WITHHELD, dtype=np.int64)
    dealt = Deal(runs, _piece_order(runs, order[line[starts(kinds.counts)]]))
    groups[records] = starts(numbers)[kinds.cells[kind]] + dealt.group_of(kind, rank[kept])
    return groups


def _piece_order(runs: Runs, numbers: Order) -> IntArray:
    """Return the pieces batch by batch, in an order that is another one in each. numbers: the least of each kind.

    It is a hash of secret numbers of the records and of the batch, so that the deal still depends on nothing but the
    records' values and numbers. (The numbers alone would put frequent values first.)
    """
    rank = np.argsort(np.argsort(numbers)).astype(np.uint64)
    run, batch = runs.pieces
    hashed = rank[run] << np.uint64(32) | batch.astype(np.uint64)
    for _ in range(3):
        hashed *= GOLDEN
        hashed ^= hashed >> np.uint64(32)
    return np.lexsort((hashed, runs.batch_of_piece))


def cell_signatures(cells: IntArray, signatures: IntArray) -> IntArray:
    """Return the signature of each cell in an attribute set; raise if its records differ in it."""
    of_cell = np.zeros(int(cells.max()) + 1, dtype=np.int64)
    of_cell[cells] = signatures
    if (of_cell[cells] != signatures).any():
        raise ValueError("records of one cell have different signatures")
    return of_cell


# --- guests -----------------------------------------------------------------------------------------------------------


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
