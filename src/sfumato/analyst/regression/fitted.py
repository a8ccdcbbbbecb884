"""A fitted model with the choices that were made: what it is about, and how its intervals are made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist

import numpy as np

from sfumato.analyst.answer import check_level
from sfumato.analyst.regression.model import Model
from sfumato.analyst.regression.problem import Target
from sfumato.analyst.regression.reading import CellSource, StreamSource
from sfumato.analyst.regression.result import Fit, Intervals
from sfumato.errors import UsageError
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.text import meant


@dataclass(frozen=True, eq=False, repr=False)
class Fitted:
    """A model, the rows that it was fitted to, and the figures of its coefficients."""

    model: Model
    source: CellSource | StreamSource
    fit: Fit
    target: Target
    level: float
    intervals: Intervals

    @property
    def terms(self) -> tuple[str, ...]:
        """What each coefficient is of; of a multinomial model with the class before it."""
        return self.fit.names

    @property
    def coefficients(self) -> FloatArray:
        """The estimates: -inf or inf where a level has no corrected events."""
        return self.fit.coefficients

    @property
    def standard_errors(self) -> FloatArray:
        """Their standard errors, NaN for those that are infinite."""
        return self.fit.standard_errors(self.target)

    @cached_property
    def ends(self) -> FloatArray:
        """Both ends of their intervals, (coefficients, 2)."""
        if self.intervals == self.fit.intervals_by:
            return self.fit.interval(self.target, self.level)
        z = NormalDist().inv_cdf((1 + self.level) / 2)
        margin = np.where(np.isnan(self.standard_errors), math.inf, z * self.standard_errors)
        centre = np.where(np.isinf(self.coefficients), 0.0, self.coefficients)
        return np.asarray(centre[:, None] + (margin + self.fit.slack)[:, None] * [-1, 1])

    @property
    def covariance(self) -> FloatArray:
        """Of the coefficients, for the target."""
        return self.fit.covariance(self.target)

    def interval(self, level: float | None = None) -> FloatArray:
        """Return the ends of intervals of another level, (coefficients, 2)."""
        if level is None or level == self.level:
            return self.ends
        check_level(level)
        return replace(self, level=level).ends

    def places(self, terms: Sequence[str]) -> IntArray:
        """Return the numbers of the coefficients that are named, by themselves or by a factor."""
        columns = [column.factors for column in self.model.columns] * self.model.family.equations
        found: list[int] = []
        for term in terms:
            own = [k for k, name in enumerate(self.terms) if term == name or term in columns[k]]
            if not own:
                known = dict.fromkeys([*self.model.covariates, *self.terms])
                raise UsageError(f"The model has no term {term!r}.", meant(term, list(known), "Terms are"))
            found += own
        return np.unique(np.array(found, dtype=np.int64))
