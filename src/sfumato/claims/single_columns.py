"""Statements about one of several sensitive columns ("race = Black"): what a release tells of them, in exact numbers.

Several sensitive columns are randomized as one, by combinations. Let A be those with one value of one column.

    one matrix    the odds of A change by at most  max_y max_{z in A} P[y,z] / min_{z not in A} P[y,z],  any prior; with
                  A and its complement exchanged, downward (`Matrix.raised`)
    sub-tables    who believes by the shares in a sub-table believes in A, after a published y in A, by
                  (Q C_A + (D - Q) c_y) / (Q n + (D - Q) c_y): D the diagonal and Q the noise of its uniform matrix, C_A
                  the records of A, c_y those of y, n all. It grows with c_y; for y outside of A it is below C_A/n
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.values.arrays import IntArray
from sfumato.values.attributes import Domain, SensitiveDomain, label
from sfumato.values.matrix.base import Matrix
from sfumato.values.mechanism import Mechanism


@dataclass(frozen=True)
class Factor:
    """By how much the odds of a value of one column can change; None: without bound."""

    column: str
    value: str
    upward: Fraction | None
    downward: Fraction | None

    @property
    def largest(self) -> Fraction | None:
        """The larger one of both directions."""
        return None if self.upward is None or self.downward is None else max(self.upward, self.downward)


def factors(domain: SensitiveDomain, matrix: Matrix) -> Iterator[Factor]:
    """Yield the factors of every value of each column that has two or more; nothing where there is one column."""
    for part, values in _columns(domain):
        for value, named in enumerate(part.values):
            inside = values == value
            yield Factor(part.name, label(named), matrix.raised(inside), matrix.raised(~inside))


def worst_factor(domain: SensitiveDomain, matrix: Matrix) -> Factor | None:
    """Return the statement whose odds can change most; None where there is one column."""
    found = list(factors(domain, matrix))
    unbounded = next((factor for factor in found if factor.largest is None), None)
    return unbounded or max(found, key=lambda factor: factor.largest or 0, default=None)


@dataclass(frozen=True)
class Belief:
    """The largest belief in a value of one column, by the shares of a sub-table (numbered from 1)."""

    column: str
    value: str
    overall: Fraction  # its share of the table
    sub_table: int
    share: Fraction  # what the number of the sub-table alone tells
    belief: Fraction  # after the published value that tells most


def beliefs(mechanism: Mechanism, quotas: Sequence[IntArray]) -> Iterator[Belief]:
    """Yield the largest belief in every value of each column in each sub-table; nothing where there is one column."""
    rows = sum(int(counts.sum()) for counts in quotas)
    for part, values in _columns(mechanism.domain):
        size = len(part.values)
        blocks = [
            totals_and_tops(values[t.codes], counts, size) for t, counts in zip(mechanism.tables, quotas, strict=True)
        ]
        overall = sum((totals for totals, _ in blocks), np.zeros(size, dtype=np.int64))
        for number, (table, (totals, tops)) in enumerate(zip(mechanism.tables, blocks, strict=True), start=1):
            n, noise = int(totals.sum()), table.matrix.uniform_noise
            assert noise is not None  # sub-tables have uniform matrices
            more = table.matrix.weight(0, 0) - noise
            for value in np.flatnonzero(totals).tolist():
                total, top = int(totals[value]), int(tops[value])
                yield Belief(
                    column=part.name,
                    value=label(part.values[value]),
                    overall=Fraction(int(overall[value]), rows),
                    sub_table=number,
                    share=Fraction(total, n),
                    belief=Fraction(noise * total + more * top, noise * n + more * top),
                )


def totals_and_tops(values: IntArray, counts: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Return the records of each value, and the largest number of records of a combination with it."""
    totals, tops = np.zeros((2, size), dtype=np.int64)
    np.add.at(totals, values, counts)
    np.maximum.at(tops, values, counts)
    return totals, tops


def _columns(domain: SensitiveDomain) -> Iterator[tuple[Domain, IntArray]]:
    """Yield each column of several that has two values or more, with its value for each code."""
    if len(domain.parts) > 1:
        grids = np.unravel_index(np.arange(domain.size), domain.sizes)
        columns = zip(domain.parts, grids, strict=True)
        yield from ((part, np.asarray(grid)) for part, grid in columns if len(part.values) > 1)
