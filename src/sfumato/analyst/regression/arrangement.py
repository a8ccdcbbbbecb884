"""The order in which the rows of a design are summed: a row for each pattern, and state where the design depends on it.

Patterns that differ only in their outcome have the same design, and so the same means: they are one row, whose amounts
are summed once and for all. Rows with the same levels lie together, those of a state after those of the one before, so
that products with the design go over runs (`sfumato.analyst.regression.crossproducts`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.analyst.regression.crossproducts import distinct_rows, levels_of, summed_by
from sfumato.values.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Arrangement:
    """The A different designs of G patterns, each for K states or for all states at once (K = 1)."""

    first: IntArray  # (A,) a pattern that has the design
    like: IntArray  # (G,) the design that a pattern has

    def rows(self, amount: FloatArray) -> FloatArray:
        """Return what patterns with the same design share, (G, K, ...), as rows (K A, ...)."""
        return _by_state(amount[self.first])

    def sums(self, amount: FloatArray) -> FloatArray:
        """Return sums of (G, K, ...) over the patterns with the same design, as rows (K A, ...)."""
        if self.first.size == self.like.size:
            return self.rows(amount)
        summed = summed_by(self.like, amount.reshape(self.like.size, -1).T, self.first.size)
        return _by_state(summed.reshape(-1, *amount.shape[1:]))

    def patterns(self, rows: FloatArray) -> FloatArray:
        """Return for each pattern what the rows (K A, ...) of its design have, (G, K, ...)."""
        by_state = rows.reshape(-1, self.first.size, *rows.shape[1:])
        return np.ascontiguousarray(np.swapaxes(by_state[:, self.like], 0, 1))


def _by_state(amount: FloatArray) -> FloatArray:
    return np.ascontiguousarray(np.swapaxes(amount, 0, 1)).reshape(-1, *amount.shape[2:])


def arrangement_of(design: FloatArray, *, may_be_alike: bool) -> Arrangement:
    """Return the arrangement of a design (G, K, p); patterns that may not be alike have a row each."""
    first = like = np.arange(len(design), dtype=np.int64)
    if may_be_alike:
        first, like = equal_rows(design.reshape(len(design), -1))
    binary = levels_of(design.reshape(-1, design.shape[2]))
    if binary is None:
        return Arrangement(first, like)
    own = distinct_rows((design[first][:, :, binary] == 1).reshape(first.size, -1))[1]
    order = np.argsort(own, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return Arrangement(first[order], place[like])


def equal_rows(rows: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the first of each kind of rows, and the number of the kind of each row.

    Rows are told apart by one number each. In the rare case that different rows share one, all count as different.
    """
    marks = rows @ np.sqrt(np.arange(2, 2 + rows.shape[1]))
    _, first, number = np.unique(marks, return_index=True, return_inverse=True)
    if not np.array_equal(rows[first][number.reshape(-1)], rows):
        return np.arange(len(rows)), np.arange(len(rows))
    return first, number.reshape(-1)
