"""Products of a design with coefficients, residuals and weights: X b, X'r, X'diag(w)X.

Most columns of a design are levels of categories, and many rows have the same levels. With the distinct rows Z of these
columns, o_n the one that row n has, and the few other columns N,

    X b = (Z b_Z)[o] + N b_N        X'r = (Z'sums of r by o, N'r)        X'wX from sums of w, w N by o, and N'wN

so that what is done for every row does not grow with the number of levels. Rows with the same levels that lie together
are a run: its sums, and what is the same in all of it, need no list of places.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.values.arrays import BoolArray, FloatArray, IntArray

REPEATED = 8
"""How many rows share their levels, on average, where levels are taken by themselves."""
MOST_NUMERIC = 8
"""Other columns beside them."""


@dataclass(frozen=True, eq=False)
class _Levels:
    """The columns of levels: which they are, and the runs of rows that have the same ones."""

    binary: BoolArray  # (p,) the columns that are 0 or 1
    distinct: FloatArray  # (runs, levels) what they are in each run
    starts: IntArray  # (runs,) where runs begin
    lengths: IntArray  # (runs,)
    order: IntArray | None  # (n,) the rows in the order of runs; None where they lie in it

    @cached_property
    def blocks(self) -> tuple[tuple[IntArray, IntArray], ...]:
        """Where a matrix (p, p) has levels by levels, levels by others, others by levels, and others by others."""
        levels, others = np.flatnonzero(self.binary), np.flatnonzero(~self.binary)
        return tuple((rows[:, None], columns) for rows in (levels, others) for columns in (levels, others))

    def sums(self, amount: FloatArray) -> FloatArray:
        """Return the sum of amounts (n, ...) over each run."""
        amount = amount if self.order is None else amount[self.order]
        return np.asarray(np.add.reduceat(amount, self.starts, axis=0))

    def spread(self, amount: FloatArray) -> FloatArray:
        """Return for each row what its run has, (n,)."""
        lying = np.repeat(amount, self.lengths)
        if self.order is None:
            return lying
        spread = np.empty_like(lying)
        spread[self.order] = lying
        return spread


@dataclass(frozen=True, eq=False)
class Crossed:
    """A design, (n, p); quickest where rows with the same levels lie together."""

    design: FloatArray
    passing: bool = False  # then its levels are not looked for, which takes as long as a few products

    @cached_property
    def _levels(self) -> _Levels | None:
        """The columns of levels; None where taking them by themselves is no gain."""
        if self.passing:
            return None
        binary = levels_of(self.design)
        if binary is None:
            return None
        flags, order = self.design[:, binary] == 1, None
        starts = run_starts(flags)
        if starts.size * REPEATED > len(flags):
            own = distinct_rows(flags)[1]
            order = np.argsort(own, kind="stable")
            starts = run_starts(own[order, None])
        if starts.size * REPEATED > len(flags):
            return None
        distinct = flags[starts if order is None else order[starts]].astype(np.float64)
        return _Levels(binary, distinct, starts, np.diff(starts, append=len(flags)), order)

    @cached_property
    def _numbers(self) -> FloatArray:
        """The other columns, each in one piece: (others, n)."""
        assert self._levels is not None
        return np.ascontiguousarray(self.design[:, ~self._levels.binary].T)

    @cached_property
    def _squares(self) -> FloatArray:
        return self._numbers**2

    def times(self, beta: FloatArray) -> FloatArray:
        """Return X b, (n, c), of coefficients (p, c)."""
        levels = self._levels
        if levels is None:
            return np.asarray(self.design @ beta)
        by_levels, rest = levels.distinct @ beta[levels.binary], beta[~levels.binary]
        moved = [levels.spread(column) for column in by_levels.T]
        part = np.empty(len(self.design))
        for column, slopes in zip(moved, rest.T, strict=True):
            for number, slope in zip(self._numbers, slopes, strict=True):
                column += np.multiply(number, slope, out=part)
        return moved[0][:, None] if len(moved) == 1 else np.stack(moved, axis=1)

    def across(self, residual: FloatArray) -> FloatArray:
        """Return X'r, (p, c), of amounts (n, c)."""
        levels = self._levels
        if levels is None:
            return np.asarray(self.design.T @ residual)
        return self._joined(levels, residual, self._numbers)

    def across_squares(self, residual: FloatArray) -> FloatArray:
        """Return the same of the design with all entries squared."""
        levels = self._levels
        if levels is None:
            return np.asarray((self.design**2).T @ residual)
        return self._joined(levels, residual, self._squares)

    def _joined(self, levels: _Levels, residual: FloatArray, numbers: FloatArray) -> FloatArray:
        total = np.empty((self.design.shape[1], residual.shape[1]))
        total[levels.binary] = levels.distinct.T @ levels.sums(residual)
        total[~levels.binary] = numbers @ residual
        return total

    def gram(self, weight: FloatArray) -> FloatArray:
        """Return X'diag(w)X, (p, p), of weights (n,)."""
        levels = self._levels
        if levels is None:
            return np.asarray(self.design.T @ (self.design * weight[:, None]))
        binary, distinct = levels.binary, levels.distinct
        weighted = self._numbers * weight
        total = np.empty((binary.size, binary.size))
        inner, across, back, outer = levels.blocks
        total[inner] = distinct.T @ (distinct * levels.sums(weight)[:, None])
        if len(weighted):
            sums = np.stack([levels.sums(amount) for amount in weighted], axis=1)
            total[across] = distinct.T @ sums
            total[back] = total[across].T
            total[outer] = weighted @ self._numbers.T
        return total


def levels_of(design: FloatArray) -> BoolArray | None:
    """Return which columns of a design (n, p) are 0 or 1; None where too few are, or too many others beside them."""
    binary = ((design == 0) | (design == 1)).all(axis=0)
    few, others = binary.sum() <= 2, (~binary).sum() > MOST_NUMERIC
    return None if few or others or not len(design) else binary


def run_starts(rows: npt.NDArray[Any]) -> IntArray:
    """Return where rows (n, c) differ from the one before."""
    changes = np.ones(len(rows), dtype=np.bool_)
    changes[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return np.flatnonzero(changes)


def distinct_rows(flags: BoolArray) -> tuple[BoolArray, IntArray]:
    """Return the different rows of flags, and which one each row is."""
    packed = np.packbits(flags, axis=1)
    words = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    words[:, : packed.shape[1]] = packed
    own = np.zeros(len(flags), dtype=np.int64)
    first = own[:1]
    for word in words.view(np.uint64).T:
        code = np.unique(word, return_inverse=True)[1].reshape(-1)
        _, first, own = np.unique(own * (code.max(initial=0) + 1) + code, return_index=True, return_inverse=True)
        own = own.reshape(-1)
    return flags[first], own


def summed_by(number: IntArray, amounts: Iterable[FloatArray], size: int) -> FloatArray:
    """Return sums over the numbers 0 to size - 1 of amounts that have an entry for each, (size, amounts)."""
    return np.stack([np.bincount(number, amount, minlength=size) for amount in amounts], axis=1)
