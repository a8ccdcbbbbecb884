"""Statements about one of several sensitive columns ("race = Black"), bounded in every sub-table like single values.

Let A be all combinations with one value of one column, C_A how many records of a sub-table with n records they have,
and c_A the largest number of records of one of them. A sub-table is perturbed uniformly: the diagonal of its matrix is
gamma times every other entry. Who believes by the shares in the sub-table has, after a published y, the odds of A

    (C_A + (gamma - 1) c_y) / (n - C_A)  if y is in A,      C_A / (n - C_A + (gamma - 1) c_y)  otherwise.

The second is below the first and below the odds of the share. So the belief in A is at most rho2 if and only if

    (gamma - 1) (1 - rho2) c_A  <=  rho2 n - C_A,

which for a single value, C_A = c_A, is SDR Eq. (10). A is protected if its share of the table is at most rho1 (then so
are its combinations). A block where C_A >= rho2 n has no gamma: it is merged with others. The whole table is no such
block, since C_A <= rho1 n there and rho1 < rho2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.claims.single_columns import totals_and_tops
from sfumato.methods.small_domain.groups import Groups
from sfumato.values.arrays import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class Statements:
    """What is protected: which codes, and for each of several columns which of its values, with the value of a code."""

    codes: BoolArray  # [codes]
    values: tuple[IntArray, ...] = ()  # [codes], of each column
    protected: tuple[BoolArray, ...] = ()  # [values of the column]

    @classmethod
    def of(cls, codes: BoolArray, sizes: Sequence[int], counts: IntArray, rho1: Fraction) -> Statements:
        """Return those of the columns with so many values each; none for a single column."""
        if len(sizes) < 2:
            return cls(codes)
        values = tuple(np.asarray(v) for v in np.unravel_index(np.arange(counts.size), tuple(sizes)))
        return cls(codes, values, tuple(at_most(rho1, np.bincount(v, counts)) for v in values))

    def gamma(self, codes: IntArray, counts: IntArray, rho2: Fraction) -> Fraction | None:
        """Return the largest gamma of a block that bounds all that is protected; None: any. None does if it is <= 1.

        gamma = 1 + min over A of (rho2 n - C_A) / ((1 - rho2) c_A)
        """
        rows, most = int(counts.sum()), int(counts[self.codes[codes]].max(initial=0))
        bounded = [*([(most, most)] if most else []), *self._protected(codes, counts)]
        return 1 + min((rho2 * rows - total) / ((1 - rho2) * top) for total, top in bounded) if bounded else None

    def slack(self, codes: IntArray, counts: IntArray, rho2: Fraction) -> float:
        """Return the least rho2 - C_A/n: by how much a block is away from having no gamma."""
        largest = max((total for total, _ in self._protected(codes, counts)), default=0)
        return float(rho2 - Fraction(largest, int(counts.sum())))

    def _protected(self, codes: IntArray, counts: IntArray) -> Iterator[tuple[int, int]]:
        """Yield C_A and c_A of each protected statement that has records in a block."""
        for values, protected in zip(self.values, self.protected, strict=True):
            totals, tops = totals_and_tops(values[codes], counts, protected.size)
            there = protected & (totals > 0)
            yield from zip(totals[there].tolist(), tops[there].tolist(), strict=True)


def at_most(rho1: Fraction, counts: IntArray) -> BoolArray:
    """Return what occurs and is protected, f <= rho1 |T| for a count f: exactly, as f is an integer."""
    return (counts > 0) & (counts <= math.floor(rho1 * int(counts.sum())))


def merged_until_bounded(
    groups: Groups, members: Sequence[IntArray], rho2: Fraction, statements: Statements
) -> list[IntArray]:
    """Return the blocks, the dearest merged with others as long as that costs less; one block if that does.

    The cost of a block is size/p^2, as of the partition itself; infinite where no gamma bounds the statements.
    """

    def cost(block: IntArray) -> float:
        codes, counts = groups.union(block)
        gamma = statements.gamma(codes, counts, rho2)
        if gamma is None:
            return float(counts.sum())
        return math.inf if gamma <= 1 else float(counts.sum() * (1 + codes.size / (gamma - 1)) ** 2)

    blocks, costs = list(members), [cost(block) for block in members]
    while len(blocks) > 1:
        dearest = max(range(len(blocks)), key=lambda k: costs[k])
        block, before = blocks.pop(dearest), costs.pop(dearest)
        merged = [np.concatenate([block, other]) for other in blocks]
        after = [cost(both) for both in merged]
        added = [new - old if math.isfinite(new) else math.inf for new, old in zip(after, costs, strict=True)]
        best = min(range(len(merged)), key=lambda k: added[k])
        if added[best] >= before and math.isfinite(before):
            blocks, costs = [*blocks, block], [*costs, before]
            break
        if added[best] == math.inf:  # no partner mends it: take the one that brings it nearest
            best = max(range(len(merged)), key=lambda k: statements.slack(*groups.union(merged[k]), rho2))
        blocks[best], costs[best] = merged[best], after[best]
    whole = np.concatenate(blocks)
    return blocks if sum(costs) < cost(whole) else [whole]
