"""Bottom-up merging as published (PI section IV, end): until every group meets the Delta condition, PI Eq. (4).

"Initially, each tuple forms an A-group. We repeat the following process until each A-group satisfies the Delta bounding
condition with respect to any attribute set. [...] Such a group is merged with other existing groups so that the
resulting group satisfies the condition." No value may occur twice in a group. Which groups to merge is left open. Here:

- the next violating group is a single tuple, of the kind (cell and value) with most single tuples left;
- single tuples are merged with it until the condition holds, each time one that leaves the smallest Delta_max over all
  attribute sets and values; that is 0 within a cell, so those go first. Of equals one of the fullest kind is taken;
- where that fails, the single tuple is merged with a group that meets the condition, if the union does;
- what remains is in no group.

Whether the condition holds is decided exactly: shares are fractions, known by their rank among all that occur, and
compared as floats only where these are far apart. (PI's own bound is reached with equality by simple shares.)

The condition does not bound posteriors by 1/r: see `check`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato.methods.robustness.check import delta_ceiling
from sfumato.methods.robustness.grouping import Kinds, Order, cell_signatures
from sfumato.methods.robustness.prior import Prior
from sfumato.values.arrays import BoolArray, FloatArray, IntArray
from sfumato.values.bucket_deal import starts
from sfumato.values.steps import WITHHELD

Ranks = npt.NDArray[np.int32]

CLOSE = 1e-9
"""Below this a difference of floats is decided in fractions: their errors are some 1e-16 times the size of a group."""


def merge_records(
    cells: IntArray, values: IntArray, signatures: Sequence[IntArray], order: Order, r: int, priors: Sequence[Prior]
) -> IntArray:
    """Return the group of every record, numbered from 0, or `WITHHELD`. Arguments as of `group_records`."""
    kinds = Kinds.of(cells, values)
    singles = _Spans.of_kinds(kinds, [cell_signatures(cells, codes) for codes in signatures], priors)
    left = kinds.counts.copy()  # kind -> single tuples
    groups = _grow_groups(kinds, left, singles, r)
    _join_groups(groups, kinds, left, singles, r)
    return _to_records(groups, kinds, order)


@dataclass(frozen=True, eq=False)
class _Shares:
    """All p(s:x) that occur, in ascending order: a rank stands for one of them."""

    exact: Sequence[Fraction]
    floats: FloatArray

    @classmethod
    def ranked(cls, priors: Sequence[Prior]) -> tuple[_Shares, list[Ranks]]:
        """Return the shares of all attribute sets together, and the ranks (signature, value) of each."""
        pairs = [np.stack(np.broadcast_arrays(prior.weights, prior.totals[:, None]), axis=-1) for prior in priors]
        flat = np.concatenate([of_set.reshape(-1, 2) for of_set in pairs])
        distinct, place = np.unique(flat // np.gcd(*flat.T)[:, None], axis=0, return_inverse=True)
        fractions = [Fraction(*pair) for pair in distinct.tolist()]
        order = sorted(range(len(fractions)), key=fractions.__getitem__)
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order))
        ends = np.cumsum([prior.weights.size for prior in priors])[:-1]
        ranks = np.split(rank[place.ravel()], ends)
        exact = [fractions[k] for k in order]
        shapes = [prior.weights.shape for prior in priors]
        return cls(exact, np.array(exact, dtype=np.float64)), [r.reshape(s) for r, s in zip(ranks, shapes, strict=True)]


@dataclass(eq=False)
class _Spans:
    """Groups by what the condition needs of them: the range of p(s:x) over their tuples, as ranks, and their values."""

    shares: _Shares
    high: Ranks  # (group, attribute set, value)
    low: Ranks
    held: BoolArray  # (group, value)

    @classmethod
    def of_kinds(cls, kinds: Kinds, of_cells: Sequence[IntArray], priors: Sequence[Prior]) -> _Spans:
        """Return those of single tuples, one of each kind. of_cells: the signature of each cell, by attribute set."""
        shares, ranks = _Shares.ranked(priors)
        rows = [of_set[of_cell[kinds.cells]] for of_set, of_cell in zip(ranks, of_cells, strict=True)]
        known = np.stack(rows, axis=1)
        return cls(shares, known, known, np.arange(known.shape[2]) == kinds.values[:, None])

    def united(self, groups: Sequence[Sequence[int]]) -> _Spans:
        """Return the spans of groups of tuples of these kinds, where `self` has those of single tuples."""
        all_of, first = self[np.concatenate(groups)], starts(np.array([len(group) for group in groups]))
        high, low = np.maximum.reduceat(all_of.high, first), np.minimum.reduceat(all_of.low, first)
        return _Spans(self.shares, high, low, np.logical_or.reduceat(all_of.held, first))

    def __getitem__(self, chosen: IntArray) -> _Spans:
        return _Spans(self.shares, self.high[chosen], self.low[chosen], self.held[chosen])

    def __setitem__(self, chosen: IntArray, spans: _Spans) -> None:
        self.high[chosen], self.low[chosen], self.held[chosen] = spans.high, spans.low, spans.held

    def union(self, others: _Spans) -> _Spans:
        """Return the unions of groups, pairwise; one goes with each of several."""
        high, low = np.maximum(self.high, others.high), np.minimum(self.low, others.low)
        return _Spans(self.shares, high, low, self.held | others.held)

    def deviations(self) -> FloatArray:
        """Return Delta_max of each group, over all attribute sets and all its values."""
        spread = self.shares.floats[self.high] - self.shares.floats[self.low]
        return np.asarray((spread * self.held[:, None]).max(axis=(1, 2)))

    def meet(self, r: int) -> BoolArray:
        """Whether each group meets PI Eq. (4) for every attribute set and value. It has as many tuples as values."""
        size = self.held.sum(axis=1)
        differ = (self.high != self.low) & self.held[:, None] & (size >= r)[:, None, None]  # no spread is no breach
        group, *_ = np.nonzero(differ)
        high, low, number = self.high[differ], self.low[differ], size[group]
        largest = self.shares.floats[high]
        slack = delta_ceiling(number, r, largest) - (largest - self.shares.floats[low])
        breach = slack < 0
        for k in np.flatnonzero(np.abs(slack) < CLOSE).tolist():
            largest, smallest = self.shares.exact[high[k]], self.shares.exact[low[k]]
            breach[k] = largest - smallest > delta_ceiling(int(number[k]), r, largest)
        return np.asarray((size >= r) & (np.bincount(group[breach], minlength=size.size) == 0))


def _grow_groups(kinds: Kinds, left: IntArray, singles: _Spans, r: int) -> list[list[int]]:
    """Return groups, as lists of kinds, that meet the condition; take their tuples out of `left`."""
    groups: list[list[int]] = []
    seeds = left > 0
    while (seeds & (left > 0)).any():
        seed = int(np.argmax(left * seeds))
        group = _grow(seed, kinds, left, singles, r)
        if group:
            left[group] -= 1
            groups.append(group)
        else:
            seeds[seed] = False
    return groups


def _grow(seed: int, kinds: Kinds, left: IntArray, singles: _Spans, r: int) -> list[int]:
    """Return a group that starts with one tuple, or nothing if no merging meets the condition."""
    group, span = [seed], singles[np.array([seed])]
    able = np.flatnonzero(left)
    while len(group) < r or not span.meet(r)[0]:
        able = able[~span.held[0, kinds.values[able]]]
        if able.size == 0:
            return []
        alike = able[kinds.cells[able] == kinds.cells[seed]]
        if alike.size == 0:
            deviations = span.union(singles[able]).deviations()
            alike = able[deviations <= deviations.min() + CLOSE]  # which of equals is left open
        group.append(int(alike[np.argmax(left[alike])]))
        span = span.union(singles[np.array(group[-1:])])
    return group


def _join_groups(groups: list[list[int]], kinds: Kinds, left: IntArray, singles: _Spans, r: int) -> None:
    """Merge single tuples with groups that meet the condition, as long as a union does."""
    if not groups:
        return
    spans, waiting = singles.united(groups), -1
    while waiting != left.sum():
        waiting = int(left.sum())
        for kind in np.flatnonzero(left).tolist():
            able = np.flatnonzero(~spans.held[:, kinds.values[kind]])
            unions = spans[able].union(singles[np.array([kind])])
            fits = np.flatnonzero(unions.meet(r))[: left[kind]]
            spans[able[fits]] = unions[fits]
            left[kind] -= fits.size
            for number in able[fits].tolist():
                groups[number].append(kind)


def _to_records(groups: Sequence[Sequence[int]], kinds: Kinds, order: Order) -> IntArray:
    """Give the records of each kind, in random order, to the groups that have it."""
    members = np.array([kind for group in groups for kind in group], dtype=np.int64)
    numbers = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    by_kind = np.argsort(members, kind="stable")
    rank = np.arange(members.size) - np.searchsorted(members[by_kind], members[by_kind])
    result = np.full(kinds.of_record.size, WITHHELD)
    result[kinds.line(order)[starts(kinds.counts)[members[by_kind]] + rank]] = numbers[by_kind]
    return result
