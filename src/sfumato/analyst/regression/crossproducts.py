"""Products of a design with coefficients, residuals and weights: X b, X'r, X'diag(w)X.

Most columns of a design are levels of categories, and many rows have the same levels. With the distinct rows Z of these
columns, o_n the one that row n has, and the few other columns N,

    X b = (Z b_Z)[o] + N b_N        X'r = (Z'sums of r by o, N'r)        X'wX from sums of w, w N by o, and N'wN

so that what is done for every row does not grow with the number of levels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.values.arrays import BoolArray, FloatArray, IntArray

REPEATED = 8
"""How many rows share their levels, on average, where levels are taken by themselves."""
MOST_NUMERIC = 8
"""Other columns beside them."""


@dataclass(frozen=True, eq=False)
class Crossed:
    """A design, (n, p)."""

    design: FloatArray
    passing: bool = False  # then its levels are not looked for, which takes as long as a few products

    @cached_property
    def _levels(self) -> tuple[BoolArray, FloatArray, IntArray] | None:
        """Which columns are 0 or 1, their distinct rows, and which one each row has; None where that is no gain."""
        if self.passing:
            return None
        binary = ((self.design == 0) | (self.design == 1)).all(axis=0)
        if binary.sum() <= 2 or (~binary).sum() > MOST_NUMERIC:
            return None
        distinct, own = distinct_rows(self.design[:, binary] == 1)
        if len(distinct) * REPEATED > len(self.design):
            return None
        return binary, distinct.astype(np.float64), own

    @cached_property
    def _numbers(self) -> FloatArray:
        """The other columns, each in one piece: (others, n)."""
        assert self._levels is not None
        return np.ascontiguousarray(self.design[:, ~self._levels[0]].T)

    @cached_property
    def squared(self) -> Crossed:
        """The design with all entries squared."""
        return self if self._levels is not None and not self._numbers.size else Crossed(self.design**2, self.passing)

    def times(self, beta: FloatArray) -> FloatArray:
        """Return X b, (n, c), of coefficients (p, c)."""
        if self._levels is None:
            return np.asarray(self.design @ beta)
        binary, distinct, own = self._levels
        by_levels, rest = distinct @ beta[binary], beta[~binary]
        moved = np.empty((own.size, beta.shape[1]))
        for c in range(beta.shape[1]):
            column = np.take(by_levels[:, c], own)
            for number, slope in zip(self._numbers, rest[:, c], strict=True):
                column += number * slope
            moved[:, c] = column
        return moved

    def across(self, residual: FloatArray) -> FloatArray:
        """Return X'r, (p, c), of amounts (n, c)."""
        if self._levels is None:
            return np.asarray(self.design.T @ residual)
        binary, distinct, own = self._levels
        total = np.empty((self.design.shape[1], residual.shape[1]))
        total[binary] = distinct.T @ summed_by(own, residual.T, len(distinct))
        total[~binary] = self._numbers @ residual
        return total

    def gram(self, weight: FloatArray) -> FloatArray:
        """Return X'diag(w)X, (p, p), of weights (n,)."""
        if self._levels is None:
            return np.asarray(self.design.T @ (self.design * weight[:, None]))
        binary, distinct, own = self._levels
        weighted = self._numbers * weight
        sums = summed_by(own, [weight, *weighted], len(distinct))
        total = np.empty((binary.size, binary.size))
        total[np.ix_(binary, binary)] = distinct.T @ (distinct * sums[:, :1])
        total[np.ix_(binary, ~binary)] = distinct.T @ sums[:, 1:]
        total[np.ix_(~binary, binary)] = total[np.ix_(binary, ~binary)].T
        total[np.ix_(~binary, ~binary)] = weighted @ self._numbers.T
        return total


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
