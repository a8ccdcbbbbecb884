"""Releases made for tests: a table by patterns and states, published through a matrix, as cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.analyst.regression.families import Family
from sfumato.analyst.regression.problem import Cells
from sfumato.values.arrays import FloatArray
from tests.analyst.regression.whole import Whole


def uniform(m: int, p: float) -> FloatArray:
    """Return the uniform matrix with retention p."""
    return p * np.eye(m) + (1 - p) / m


@dataclass(frozen=True, eq=False)
class Model:
    """Patterns of untouched columns (an untouched outcome among them), states, and how states are published."""

    family: Family
    design: FloatArray  # (G, K or 1, p)
    outcome: FloatArray  # (G or 1, K or 1)
    P: FloatArray  # (outputs, K); as many outputs as states, unless `inverse` and `shown` are given
    indicator: tuple[bool, ...] = ()
    more: Any = None  # further fields of the cells
    inverse: FloatArray | None = None  # (K, outputs) B with B P = 1
    shown: FloatArray | None = None  # (outputs, K) what the naive fit takes an output for

    @property
    def states(self) -> int:
        """K."""
        return self.P.shape[1]

    def source(self, published: FloatArray) -> Whole:
        """Return the release with these counts of published outputs, (G, outputs)."""
        inverse = np.linalg.inv(self.P) if self.inverse is None else self.inverse
        whole = self._whole(published, inverse, self.P)
        if self.shown is None:
            return whole
        naive = self.shown[np.nonzero(published)[1]]
        return replace(whole, cells=replace(whole.cells, published=None, naive=naive))

    def truth(self, counts: FloatArray) -> Whole:
        """Return the table itself, as a release without noise."""
        return self._whole(counts, np.eye(self.states), np.eye(self.states))

    def _whole(self, counts: FloatArray, inverse: FloatArray, P: FloatArray) -> Whole:
        pattern, shown = np.nonzero(counts)
        count = counts[pattern, shown].astype(float)
        cells = Cells(
            weights=inverse.T[shown],
            design=self.design,
            outcome=self.outcome,
            count=count,
            squares=count,
            pattern=pattern,
            published=shown,
            chances=P[shown],
            **(self.more or {}),
        )
        names = tuple(f"x{j}" for j in range(self.design.shape[2]))
        return Whole(names, self.indicator or (False,) * len(names), self.family, cells)

    def published(self, random: np.random.Generator, counts: FloatArray) -> FloatArray:
        """Return counts of published outputs, each record of a state drawing from its column of P."""
        drawn = random.multinomial(counts.astype(np.int64), self.P.T)  # (G, K, outputs): from a state to an output
        return np.asarray(drawn.sum(axis=1), dtype=np.float64)
