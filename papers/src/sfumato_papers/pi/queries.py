"""Random counts, "how many with these occupations are among those with these properties", answered from groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.randomness import simulation
from sfumato.values.steps import WITHHELD
from sfumato_papers.two_tables import DealtTable

COLUMNS = ("age", "workclass", "education", "marital_status", "race", "sex", "income")
CONDITIONS = 2
SELECTIVITY = 0.01
"""Counts below this share of the records are not asked for."""
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Queries:
    """conditions: (query, record), weights: (query, value) 1 for the values that are counted."""

    conditions: Mask
    weights: FloatArray
    truth: FloatArray

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self.truth)

    @classmethod
    def drawn(cls, table: Any, sensitive: str, number: int, seed: int) -> Queries:
        """Draw queries: half of the values of two columns, and half of the sensitive ones."""
        draw = simulation(seed)
        columns = {name: np.unique(np.array(table[name].to_pylist()), return_inverse=True)[1] for name in COLUMNS}
        values = np.unique(np.array(table[sensitive].to_pylist()), return_inverse=True)[1]
        conditions: list[Mask] = []
        weights: list[FloatArray] = []
        truth: list[float] = []
        while len(truth) < number:
            chosen = draw.choice(COLUMNS, CONDITIONS, replace=False).tolist()
            condition = np.logical_and.reduce([_half(columns[name], draw)[columns[name]] for name in chosen])
            counted = _half(values, draw)
            count = int((condition & counted[values]).sum())
            if count >= SELECTIVITY * values.size:
                conditions.append(condition)
                weights.append(counted.astype(np.float64))
                truth.append(float(count))
        return cls(np.array(conditions), np.array(weights), np.array(truth))


def _half(codes: IntArray, draw: np.random.Generator) -> Mask:
    """Choose half of the values at random."""
    size = int(codes.max()) + 1
    chosen = np.zeros(size, dtype=np.bool_)
    chosen[draw.choice(size, -(-size // 2), replace=False)] = True
    return chosen


@dataclass(frozen=True, eq=False)
class Errors:
    """Relative errors |estimate - truth|/truth; records that are withheld are missing from the estimates."""

    each: FloatArray  # (query, estimate), the estimates being least squares and the classical one

    @property
    def least_squares(self) -> float:
        """The mean of this estimate."""
        return float(self.each[:, 0].mean())

    @property
    def classical(self) -> float:
        """The mean of this estimate."""
        return float(self.each[:, 1].mean())

    @property
    def better(self) -> FloatArray:
        """The errors, query by query, of the estimate that is better on the average."""
        return np.asarray(self.each[:, int(self.classical < self.least_squares)])

    @property
    def smaller(self) -> float:
        """Their mean."""
        return float(self.better.mean())


def query_errors(queries: Queries, groups: IntArray, cells: IntArray, values: IntArray) -> Errors:
    """Return the errors of both estimates.

    Least squares rests on a random deal, which it was inside cells. Groups that mix cells, and cells whose groups do
    not tell their values apart, are left to the classical estimate.
    """
    published = groups != WITHHELD
    of, own, size = groups[published], values[published], int(values.max()) + 1
    is_loose = _loose(of, own, cells[published], size)
    told = ~is_loose[of]
    numbered = _numbered(of[told])
    deal = _deal(numbered, own[told], cells[published][told], size) if told.any() else None
    counts = np.zeros((is_loose.size, size))
    np.add.at(counts, (of, own), 1)
    off = []
    for condition, weights, truth in zip(queries.conditions, queries.weights, queries.truth, strict=True):
        z, shares = condition[published].astype(np.float64), counts @ weights / counts.sum(axis=1)
        classical = float((z * shares[of]).sum())
        strict = float(deal.fit(numbered, z[told]).totals(weights[:, None])[0, 0]) if deal else 0.0
        mixed = float((z * shares[of])[~told].sum())
        off.append([abs((strict + mixed) / truth - 1), abs(classical / truth - 1)])
    return Errors(np.array(off))


def _deal(groups: IntArray, values: IntArray, cells: IntArray, size: int) -> DealtTable:
    """Return the deal to groups of one cell each."""
    pairs, counts = np.unique(groups * size + values, return_counts=True)
    stratum = np.zeros(int(groups.max()) + 1, dtype=np.int64)
    stratum[groups] = _numbered(cells)
    return DealtTable.of(pairs // size, pairs % size, counts, size, stratum)


def _loose(groups: IntArray, values: IntArray, cells: IntArray, size: int) -> Mask:
    """Whether each group mixes cells, or its cell's groups do not tell all values apart."""
    cell = np.zeros(int(groups.max()) + 1, dtype=np.int64)
    cell[groups] = cells
    loose = np.zeros(cell.size, dtype=np.bool_)
    loose[groups[cell[groups] != cells]] = True
    pure = ~loose[groups]
    if pure.any():
        deal = _deal(_numbered(groups[pure]), values[pure], cells[pure], size)
        poor = np.unique(cells[pure])[[stratum.rank < stratum.codes.size for stratum in deal.strata]]
        loose |= np.isin(cell, poor)
    return loose


def _numbered(codes: IntArray) -> IntArray:
    """Number codes from 0, all of them used."""
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)
