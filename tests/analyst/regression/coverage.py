"""How often intervals of coefficients cover, over many releases: `python -m tests.analyst.regression.coverage FILE`.

An interval by standard errors covers a value b if |estimate - b|/se <= z; a score interval, which is the set of all b
with |T(b)| <= z, if that holds for T. So neither needs its ends: both statistics are taken at the true coefficients of
the table, and of the population.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import norm

from sfumato.analyst.regression.problem import Target
from sfumato.analyst.regression.result import Intervals
from sfumato.analyst.regression.score_intervals import direction, score_statistic
from sfumato.analyst.regression.solution import Solution, solve
from sfumato.analyst.regression.solving import solved
from sfumato.errors import CannotMeet
from sfumato.values.arrays import BoolArray, FloatArray
from tests.analyst.regression.studies import FAMILIES, PLACES, Study

RELEASES = 1000
TARGETS: tuple[Target, ...] = ("table", "population")
KINDS: tuple[Intervals, ...] = ("score", "wald")
SHRUNK = 0.85
"""The planted error: standard errors that are 15% too small."""


@dataclass
class Coverage:
    """Statistics at the true coefficients, (releases, coefficients): 95% intervals cover where these are within z."""

    at_truth: dict[tuple[Intervals, Target], FloatArray]
    has_noise: BoolArray  # (coefficients,) whether it has enough, given the table, for 95% to be promised
    unsolved: int

    def shares(self, kind: Intervals, target: Target, shrunk: float = 1.0) -> FloatArray:
        """Return how often each coefficient is covered, of those that have noise."""
        chosen = self.has_noise | (target == "population")
        within = np.abs(self.at_truth[kind, target][:, chosen]) <= shrunk * norm.ppf(0.975)
        return np.asarray(within.mean(axis=0))


def coverage(study: Study, releases: int, seed: int = 31) -> Coverage:
    """Draw tables, publish and fit them; a release that is refused is counted, and covers nothing."""
    random, model = np.random.default_rng(seed), study.model
    truth = solve(model.truth(study.chances * study.rows)).best.beta
    found: dict[tuple[Intervals, Target], list[FloatArray]] = {(k, t): [] for k in KINDS for t in TARGETS}
    told, unsolved = np.zeros_like(truth), 0
    for _ in range(releases):
        table = study.table(random)
        rights = dict(zip(TARGETS, (solve(model.truth(table)).best.beta, truth), strict=True))
        source = study.release(random, table)
        try:
            solution = solve(source)
        except CannotMeet:
            unsolved += 1
            for statistics in found.values():
                statistics.append(np.full_like(truth, np.inf))
            continue
        told += np.diag(solution.covariance.table) / np.diag(solution.covariance.population)
        for target, right in rights.items():
            errors = np.sqrt(np.diag(solution.covariance.of(target)))
            found["wald", target].append((solution.best.beta - right) / errors)
            found["score", target].append(_scores(solution, right, target))
    arrays = {which: np.array(statistics) for which, statistics in found.items()}
    return Coverage(arrays, told > study.least_noise * (releases - unsolved), unsolved)


def _scores(solution: Solution, right: FloatArray, target: Target) -> FloatArray:
    """Return T of each coefficient where it is held at a value, and all others are solved for."""
    equations, best = solution.equations, solution.best
    scores = np.empty_like(right)
    for j, value in enumerate(right):
        held = np.arange(right.size) == j
        point = solved(equations, best.beta + (value - best.beta[j]) * direction(best, j), held=held)
        scores[j] = score_statistic(equations, point, j, target) if point.solved else np.inf
    return scores


# --- the table for people ---------------------------------------------------------------------------------------------


def _line(case: tuple[str, str]) -> str:
    family, place = case
    found = coverage(PLACES[place](FAMILIES[family]), RELEASES)
    figures = [_figures(found, kind, target) for target in TARGETS for kind in KINDS]
    planted = [found.shares(kind, target, SHRUNK).mean() for target in TARGETS for kind in KINDS]
    return f"| {family} | {place} | {' | '.join(figures)} | {max(planted):.1%} | {found.unsolved} |"


def _figures(found: Coverage, kind: Intervals, target: Target) -> str:
    shares = 100 * found.shares(kind, target)
    return f"{shares.mean():.1f} ({shares.min():.1f}-{shares.max():.1f})"


def lines() -> Iterator[str]:
    """Yield the table of docs/reference/benchmarks.md, a line as soon as it is known."""
    columns = [
        "family",
        "noise in",
        *(f"{target}, {kind}" for target in TARGETS for kind in KINDS),
        "planted",
        "refused",
    ]
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    with ProcessPoolExecutor(2) as pool:
        yield from pool.map(_line, [(family, place) for place in PLACES for family in FAMILIES])


if __name__ == "__main__":
    with Path(sys.argv[1]).open("w") as file:
        for line in lines():
            print(line, file=file, flush=True)
