"""Random counts, "how many with these occupations are among those with these properties", answered from groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.methods.robustness import WITHHELD
from sfumato.methods.robustness.posterior import FloatArray, IntArray
from sfumato.randomness import simulation
from sfumato.reconstruct.buckets import Deal

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
        conditions, weights, truth = [], [], []
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


@dataclass(frozen=True)
class Errors:
    """Mean relative errors |estimate - truth|/truth; records that are withheld are missing from the estimates."""

    least_squares: float
    classical: float


def query_errors(queries: Queries, groups: IntArray, cells: IntArray, values: IntArray) -> Errors:
    """Return the errors of both estimates. The deal is random inside cells; mixed groups are a stratum of their own."""
    published = groups != WITHHELD
    of, size = groups[published], int(values.max()) + 1
    pairs, counts = np.unique(of * size + values[published], return_counts=True)
    deal = Deal.of(pairs // size, pairs % size, counts, size, _strata(of, cells[published]))
    off = []
    for condition, weights, truth in zip(queries.conditions, queries.weights, queries.truth, strict=True):
        fit, asked = deal.fit(of, condition[published].astype(np.float64)), weights[:, None]
        off.append([abs(fit.totals(asked)[0, 0] / truth - 1), abs(fit.classical(asked).value[0, 0] / truth - 1)])
    least_squares, classical = np.mean(off, axis=0)
    return Errors(float(least_squares), float(classical))


def _strata(groups: IntArray, cells: IntArray) -> IntArray:
    """The cell of each group; one more for groups that have several. Numbered from 0, all of them used."""
    stratum = np.zeros(int(groups.max()) + 1, dtype=np.int64)
    stratum[groups] = cells
    stratum[groups[stratum[groups] != cells]] = int(cells.max()) + 1
    return np.unique(stratum, return_inverse=True)[1].astype(np.int64)
