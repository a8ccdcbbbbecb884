"""What can be said of groups about which chance says nothing: the classical estimate, and how far off it can be.

Of a group of N records c have a value in the set asked for, and a of them lie in a column of the question, with numbers
z between lo and hi that add up to s. Then at least max(0, c + a - N) and at most min(c, a) of these a records, say t,
have such a value, and the sum of their z lies in

    t lo <= sum <= t hi        s - (a - t) hi <= sum <= s - (a - t) lo

The classical estimate s c/N lies there too; its largest error is the distance to the farther end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.analyst.grouped.compositions import BLOCK
from sfumato.analyst.grouped.dealt import Loose
from sfumato.analyst.grouped.sums import Binned
from sfumato.values.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class LooseSums:
    """A number of the records of loose groups, by group and column."""

    loose: Loose
    binned: Binned  # a bin is a group and a column
    columns: int
    first: int  # the number of the first loose group in the bins' keys

    def classical(self, f: FloatArray, amount: FloatArray | None = None) -> FloatArray:
        """Return the sum of s c/N, [columns, figures], for sets of values f; `amount` may take the place of s."""
        total = np.zeros((self.columns, f.shape[1]))
        amount = self.binned.total if amount is None else amount
        for bins, group, column in self._blocks(f.shape[1]):
            share = self._counts(f, group) / self._sizes(group)
            np.add.at(total, column, amount[bins, None] * share)
        return total

    def slack(self, f: FloatArray) -> FloatArray:
        """Return the largest error of the classical estimate, [columns, figures]."""
        slack = np.zeros((self.columns, f.shape[1]))
        for bins, group, column in self._blocks(f.shape[1]):
            size, c = self._sizes(group), self._counts(f, group)
            rows, s, low, high = (
                array[bins, None]
                for array in (self.binned.rows, self.binned.total, self.binned.least, self.binned.largest)
            )
            ends = _range(rows, s, low, high, np.maximum(c + rows - size, 0), np.minimum(c, rows))
            estimate = s * c / size
            np.add.at(slack, column, np.maximum(ends[1] - estimate, estimate - ends[0]))
        return np.maximum(slack, 0)

    def _blocks(self, figures: int) -> list[tuple[slice, IntArray, IntArray]]:
        """Return bins with their groups and columns, as many at a time as can be held for all figures."""
        group, column = np.divmod(self.binned.key, self.columns)
        step = max(1, BLOCK // max(figures, 1))
        starts = [slice(first, first + step) for first in range(0, group.size, step)]
        return [(bins, group[bins] - self.first, column[bins]) for bins in starts]

    def _sizes(self, group: IntArray) -> FloatArray:
        return self.loose.sizes[self.loose.kind[group], None].astype(np.float64)

    def _counts(self, f: FloatArray, group: IntArray) -> FloatArray:
        """Return c of each figure for some groups."""
        kinds, place = np.unique(self.loose.kind[group], return_inverse=True)
        return self.loose.counts.chosen(kinds, f)[place]


def _range(
    rows: FloatArray, s: FloatArray, low: FloatArray, high: FloatArray, fewest: FloatArray, most: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest sum over `fewest` to `most` of the rows."""

    def ends(number: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.minimum(fewest * number, most * number), np.maximum(fewest * number, most * number)

    def ends_of_rest(number: FloatArray) -> tuple[FloatArray, FloatArray]:
        one, other = s - (rows - fewest) * number, s - (rows - most) * number
        return np.minimum(one, other), np.maximum(one, other)

    least: FloatArray = np.maximum(ends(low)[0], ends_of_rest(high)[0])
    largest: FloatArray = np.minimum(ends(high)[1], ends_of_rest(low)[1])
    return least, largest
