"""What a fit gives: coefficients with errors for both targets, and what must be said beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from sfumato.analyst.regression.families import Family
from sfumato.analyst.regression.problem import Target
from sfumato.analyst.regression.solution import Solution
from sfumato.values.arrays import FloatArray

Method = Literal["inverse", "likelihood"]
Intervals = Literal["score", "wald"]


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model; arrays have one entry for each of q coefficients, of the multinomial by class, then by column.

    A coefficient that runs off is -inf or inf; its errors are nan and its interval has one finite end.
    """

    names: tuple[str, ...]
    family: Family
    method: Method
    coefficients: FloatArray  # (q,)
    table: FloatArray  # (q, q) covariance given the table: only the noise, or the deal, is random
    population: FloatArray  # (q, q) covariance where the rows are a sample
    naive: FloatArray  # (q,) the fit that takes what is published as true
    rows: float  # the sum of the weights
    used: float  # the corrected sum of the weights of the rows that count: fewer where true values are missing
    log_likelihood: float  # inverse: its unbiased estimate; likelihood: its maximum
    information: FloatArray  # (q, q) H: of the inverse method as estimated, of the likelihood as observed
    strength: FloatArray  # (q,) of H in the direction of each coefficient, over its noise; inf where it has none
    slack: FloatArray  # (q,) the largest error by loose buckets; intervals are wider by it on both sides
    intervals_by: Intervals
    notes: tuple[str, ...]
    ends: Callable[[Target, float], FloatArray] = field(repr=False)  # of `interval`
    solution: Solution = field(repr=False)  # of the inverse equations, for tests and effects

    def covariance(self, target: Target) -> FloatArray:
        """Return the covariance of the coefficients, (q, q)."""
        return self.table if target == "table" else self.population

    def standard_errors(self, target: Target) -> FloatArray:
        """Return the standard errors, (q,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance(target))))

    def interval(self, target: Target, level: float = 0.95) -> FloatArray:
        """Return the ends of intervals that cover with this level, (q, 2)."""
        return self.ends(target, level)
