"""What is measured of an estimated table, over repeated releases: AD section V.B, and a guesser's success."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import t

from sfumato.auditor.utility.distances import cube_errors, distances, relative_errors
from sfumato.auditor.utility.measuring import uncertainty
from sfumato.values.arrays import FloatArray

LETTERS = "ESGRO"
WITHIN = ("E vs. S", "E vs. G", "E vs. R", "S vs. G", "S vs. R", "G vs. R")
"""Pairs of quasi-identifiers: AD Table 4."""
WITH_SENSITIVE = ("E vs. O", "S vs. O", "G vs. O", "R vs. O")
"""AD Table 5."""
DISTANCES = ("KL", "chi-square", "L2")
ERRORS = ("base", "cube")
SUCCESS = "guessed right"
LARGEST = "guessed right, at the best stop"
"""Of randomized response: the largest over the numbers of steps after which its guesser may stop."""
BY_FIRST = "G vs. R"
"""The pair that the paper divides by the entropy of the first attribute; all others by that of the second."""

Figures = Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Repeated:
    """Figures of releases that were drawn again and again; one where there is no chance."""

    runs: tuple[Figures, ...]

    @classmethod
    def of(cls, runs: Iterable[Figures]) -> Repeated:
        """Collect them."""
        return cls(tuple(runs))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What was measured."""
        return tuple(self.runs[0])

    def mean(self, name: str) -> float:
        """The mean of a figure."""
        return float(np.mean([run[name] for run in self.runs]))

    def deviation(self, name: str) -> float:
        """The standard deviation of one release; 0 without chance."""
        return float(np.std([run[name] for run in self.runs], ddof=1)) if len(self.runs) > 1 else 0.0

    def error(self, name: str) -> float:
        """The standard error of the mean."""
        return self.deviation(name) / math.sqrt(len(self.runs))

    def reach(self, name: str) -> float:
        """How far one more release is from the mean at most, 19 times of 20: t s sqrt(1 + 1/n).

        >>> round(Repeated.of([{"x": 1.0}, {"x": 2.0}, {"x": 3.0}]).reach("x"), 2)
        4.97
        """
        n = len(self.runs)
        return float(t.ppf(0.975, n - 1)) * self.deviation(name) * math.sqrt(1 + 1 / n) if n > 1 else 0.0

    def average(self, names: Sequence[str]) -> float:
        """The mean over several figures."""
        return float(np.mean([self.mean(name) for name in names]))


def distance_figures(truth: FloatArray, estimate: FloatArray) -> Figures:
    """Return the distances of AD section V, and the total variation."""
    found = distances(truth, estimate)
    return {
        "KL": found.kl,
        "chi-square": found.chi_square,
        "L2": found.l2,
        "total variation": found.total_variation,
    }


def all_figures(truth: FloatArray, estimate: FloatArray, success: float) -> Figures:
    """Return all that is measured of an estimate of ESGRO."""
    return {
        **distance_figures(truth, estimate),
        "base": relative_errors(truth, estimate).mean,
        "cube": cube_errors(truth, estimate).pooled.mean,
        **{pair: correlation(estimate, pair) for pair in (*WITHIN, *WITH_SENSITIVE)},
        SUCCESS: success,
    }


def correlation(counts: FloatArray, pair: str) -> float:
    """Return the uncertainty coefficient in hundredths, AD Eq. (12); negative cells of the margin are taken as 0."""
    first, second = (LETTERS.index(letter) for letter in pair.split(" vs. "))
    margin = np.maximum(counts.sum(axis=tuple({0, 1, 2, 3, 4} - {first, second})), 0)
    if 1 in margin.shape:  # an attribute with one value tells nothing, and has no entropy to divide by
        return 0.0
    return max(0.0, 100 * uncertainty(margin.T if pair == BY_FIRST else margin))
