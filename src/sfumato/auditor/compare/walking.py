"""Row-by-row estimates of how values depend on what is known of people: one step, and many.

    b(u | a)  <-  mean over the rows r of a of        b(u | a) C[o_r, u] / sum_k b(k | a) C[o_r, k]

a: a combination of quasi-identifiers; o_r: what row r shows; C[o, u]: the chance that a record of value u shows it.
Rows of one combination that show the same are taken together, n[a, o] of them. Then with

    d[a, o] = sum_k b(k | a) C[o, k]        b(u | a)  <-  b(u | a) sum_o n[a, o] / d[a, o] C[o, u], to a sum of 1

so that a step is a product of a sparse matrix with C. Where rows show groups, C itself is sparse: a group has few
values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.values.arrays import FloatArray, IntArray

BLOCK = 1 << 15  # numbers of a block of pairs: few enough to stay in the processor's cache
FEW = 1 / 8  # the share of chances above 0 up to which only these are walked over
SHORT = 3  # different outputs up to which combinations are looked at for being alike


@dataclass(frozen=True, eq=False)
class Walk(ABC):
    """The rows: pairs of a combination and an output that occur, ascending, and how many rows each pair has."""

    combinations: int
    groups: IntArray  # of each pair
    outputs: IntArray
    numbers: FloatArray
    chances: FloatArray  # C: [output, value]

    @classmethod
    def of(cls, combinations: int, of_rows: IntArray, outputs: IntArray, chances: FloatArray) -> Walk:
        """Return the walk over rows: the combination and the output of each."""
        width = len(chances)
        keys, numbers = np.unique(of_rows * width + outputs, return_counts=True)
        kind = _OnFew if np.count_nonzero(chances) <= FEW * chances.size else _OnAll
        return kind(combinations, keys // width, keys % width, numbers.astype(np.float64), chances)

    @abstractmethod
    def _told(self, beliefs: FloatArray) -> FloatArray:
        """Return the sum of what the rows of each combination tell; nothing where they cannot have come about."""

    def step(self, beliefs: FloatArray) -> FloatArray:
        """Return the mean of what the rows tell, combination by combination; one without a row keeps its beliefs."""
        told = self._told(beliefs)
        weight = told.sum(axis=1)
        empty = np.flatnonzero(~(weight > 0))
        weight[empty] = 1
        told /= weight[:, None]
        told[empty] = beliefs[empty]
        return told

    def steps(self, start: FloatArray, stops: Sequence[int]) -> list[FloatArray]:
        """Return the beliefs after so many steps as each of `stops` says, which rise; all start from the same ones."""
        walk, place = self._distinct
        beliefs, found, done = np.tile(start, (walk.combinations, 1)), [], 0
        for stop in stops:
            for _ in range(stop - done):
                beliefs = walk.step(beliefs)
            done = stop
            found.append(beliefs[place])
        return found

    @cached_property
    def _distinct(self) -> tuple[Walk, IntArray]:
        """The walk with one combination of those whose rows show the same, and which one stands for each.

        Who starts alike and sees alike stays alike. Only combinations that show little are looked at: of the others
        hardly two are alike.
        """
        place = _alike(self.combinations, self.groups, self.outputs * (int(self.numbers.max()) + 1) + self.numbers)
        _, first, place = np.unique(place, return_index=True, return_inverse=True)
        number = np.full(self.combinations, -1)
        number[first] = np.arange(first.size)
        taken = number[self.groups] >= 0
        pairs = (number[self.groups[taken]], self.outputs[taken], self.numbers[taken])
        order = np.argsort(pairs[0], kind="stable")
        kind: Any = type(self)
        return kind(first.size, *(column[order] for column in pairs), self.chances), place


def _alike(combinations: int, groups: IntArray, shown: FloatArray) -> IntArray:
    """Return a number for each combination, the same for those whose pairs are the same."""
    lengths = np.bincount(groups, minlength=combinations)
    starts = np.cumsum(lengths) - lengths
    entry = np.unique(shown, return_inverse=True)[1]
    place = lengths.astype(np.int64)
    for k in range(SHORT):
        there = lengths > k
        place = np.unique(place, return_inverse=True)[1] * (int(entry.max(initial=0)) + 2)
        place[there] += entry[starts[there] + k] + 1
    long = lengths > SHORT
    place[long] = place.max(initial=0) + 1 + np.arange(int(long.sum()))
    return place


@dataclass(frozen=True, eq=False)
class _OnAll(Walk):
    """Most chances are above 0."""

    def _told(self, beliefs: FloatArray) -> FloatArray:
        from scipy.sparse import csr_array

        weights, block = np.zeros_like(self.numbers), max(1, BLOCK // self.chances.shape[1])
        believed, shown = np.empty((2, block, self.chances.shape[1]))  # used again: new ones would be cleared each time
        for first in range(0, self.numbers.size, block):
            part = slice(first, first + block)
            groups, outputs = self.groups[part], self.outputs[part]
            np.take(beliefs, groups, axis=0, out=believed[: groups.size], mode="clip")
            np.take(self.chances, outputs, axis=0, out=shown[: groups.size], mode="clip")
            due = np.einsum("pu,pu->p", believed[: groups.size], shown[: groups.size])
            np.divide(self.numbers[part], due, out=weights[part], where=due > 0)
        shape = (self.combinations, len(self.chances))
        told = np.asarray(csr_array((weights, self.outputs, self._starts), shape=shape) @ self.chances)
        told *= beliefs
        return told

    @cached_property
    def _starts(self) -> IntArray:
        """Where the pairs of each combination begin, and the last ones end."""
        return np.searchsorted(self.groups, np.arange(self.combinations + 1))


@dataclass(frozen=True, eq=False)
class _OnFew(Walk):
    """Few chances are above 0: the values that each pair allows are listed."""

    def _told(self, beliefs: FloatArray) -> FloatArray:
        pairs, cells, chances = self._allowed
        told = beliefs.ravel()[cells] * chances
        due = np.bincount(pairs, told, self.numbers.size)
        told *= np.divide(self.numbers, due, out=np.zeros(due.size), where=due > 0)[pairs]
        return np.bincount(cells, told, beliefs.size).astype(np.float64, copy=False).reshape(beliefs.shape)

    @cached_property
    def _allowed(self) -> tuple[IntArray, IntArray, FloatArray]:
        """The pairs with each value that they allow: the pair, the place in the beliefs, and the chance."""
        values = self.chances.shape[1]
        output, value = np.nonzero(self.chances)
        starts = np.searchsorted(output, np.arange(len(self.chances) + 1))
        lengths = np.diff(starts)[self.outputs]
        pairs = np.repeat(np.arange(self.outputs.size), lengths)
        within = np.arange(pairs.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        allowed = value[np.repeat(starts[self.outputs], lengths) + within]
        return pairs, self.groups[pairs] * values + allowed, self.chances[self.outputs[pairs], allowed]
