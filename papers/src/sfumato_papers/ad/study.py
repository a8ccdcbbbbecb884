"""All methods of AD section V.B on ESGRO at the same l, measured alike: what Figs. 5-7 and Tables 4-5 are made of."""

# ruff: noqa: E741  (l is the papers' letter)

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from sfumato.methods.generalization import generalize
from sfumato.methods.response.problem import Response, pose
from sfumato.methods.response.reach import RiskOutOfReach
from sfumato.methods.response.risks import RiskName
from sfumato.methods.response.solver import solve
from sfumato.values.randomness import simulation
from sfumato_papers.ad.competitors import Anatomized, anatomize, class_success, constant_success, independent
from sfumato_papers.ad.measures import LARGEST, Figures, Repeated, all_figures
from sfumato_papers.ad.response import Randomized
from sfumato_papers.ad.tables import ESGRO, Joint, hierarchies, joint
from sfumato_papers.charts import Point
from sfumato_papers.data import Data
from sfumato_papers.experiment import Setting

RR = "RR-QI"
UNCLIPPED = "RR-QI, unclipped"
BAYES = "RR-QI, iterative Bayes"
PROVED = "RR-QI, proved"
ANATOMY = "Anatomy"
LEAST_SQUARES = "Anatomy, least squares"
DIVERSITY = "l-diversity"
INDEPENDENT = "independent columns"

LS = range(1, 8)
"""The l of Figs. 5-7; at l = 1 nothing is asked for."""
REPETITIONS, QUICK_REPETITIONS = 20, 3
ROUNDING = 1e-12
"""A share by which equal figures may seem to differ."""
MEANING = (
    f"{RR} limits the paper's risk to 1/l; the table is the inverse estimate with negative cells set to 0. {BAYES}: "
    f"the same release, estimated without negative cells. {PROVED}: the posterior is limited to 1/l, which is what the "
    "requirement is meant to say; estimated by iterative Bayes.",
    "Anatomy is Xiao and Tao's algorithm with their own estimate, which takes value and columns as independent inside "
    f"a group; {LEAST_SQUARES}: the unbiased estimate from the same two tables.",
    "l-diversity is the best full-domain generalization with entropy l-diversity by L2 distance, each class spread "
    "evenly; ARX's hierarchies of Adult, with White and others as a level of race.",
)


def ranked(points: Sequence[Point]) -> str:
    """Tell the order of the series at their last point, from the lowest on: for who does not see a chart."""
    last = {point.series: point for point in points}
    order = sorted(last.values(), key=lambda point: point.y)
    return "; ".join(f"{point.series} {point.y:.3g}" for point in order)


def repetitions(setting: Setting) -> int:
    """Return how often each release is drawn."""
    return QUICK_REPETITIONS if setting.quick else REPETITIONS


def generator(seed: int, *which: int) -> np.random.Generator:
    """Return random numbers of their own for each part of a simulation."""
    for number in which:
        seed = 1_000 * seed + number
    return simulation(seed)


# --- randomized response ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=128)
def solved(data: Data, names: tuple[str, ...], limit: Fraction, risk: RiskName, both: bool = False) -> Response | None:
    """Return the parameters of least cost; None if no parameters keep the limit."""
    try:
        scope = "both" if both else "quasi-identifiers"
        return solve(pose(joint(data, names).table, limit, risk=risk, scope=scope))  # type: ignore[arg-type]
    except RiskOutOfReach:
        return None


def randomized(table: Joint, found: Response, times: int, rng: np.random.Generator) -> Mapping[str, Repeated]:
    """Measure repeated releases of ESGRO: each by its three estimates."""
    runs: dict[str, list[Figures]] = {RR: [], UNCLIPPED: [], BAYES: []}
    for _ in range(times):
        release = Randomized.drawn(table.table, found.channels, rng)
        guessed = release.guessed()
        last, largest = guessed[-1], max(guess.success for guess in guessed)
        estimates = {RR: release.clipped(), UNCLIPPED: release.inverse(), BAYES: last.estimate}
        for name, estimate in estimates.items():
            runs[name].append({**all_figures(table.counts, estimate, last.success), LARGEST: largest})
    return {name: Repeated.of(figures) for name, figures in runs.items()}


# --- all methods ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Study:
    """What was measured of each method at each l."""

    table: Joint
    at: Mapping[int, Mapping[str, Repeated]]

    @property
    def ls(self) -> tuple[int, ...]:
        """The l from 2 on that were studied."""
        return tuple(l for l in self.at if l > 1)

    def mean(self, method: str, l: int, name: str) -> float:
        """The mean of a figure."""
        return self.at[l][method].mean(name)

    def means(self, method: str, name: str) -> list[float]:
        """The same for every l from 2 on at which there is one."""
        return [self.mean(method, l, name) for l in self.ls if method in self.at[l]]

    def not_less(self, method: str, other: str, name: str) -> list[int]:
        """The l from 2 on at which a method's figure is not below another's."""
        return [l for l in self.ls if method in self.at[l] and self.mean(method, l, name) >= self.mean(other, l, name)]

    def falls(self, method: str, name: str) -> list[int]:
        """The l at which a method's figure is below that of the l before, from 2 on."""
        ls = [l for l in self.ls if method in self.at[l]]
        return [b for a, b in pairwise(ls) if self.mean(method, b, name) < self.mean(method, a, name) * (1 - ROUNDING)]

    def told(self, method: str, name: str) -> str:
        """The figures in words."""
        return f"{method} {', '.join(f'{x:.3g}' for x in self.means(method, name))}"

    def noise(self, name: str, *methods: str) -> str:
        """How certain the means of some methods are."""
        found = [self.at[l][method] for l in self.ls for method in methods if method in self.at[l]]
        largest = max(one.error(name) / abs(one.mean(name)) for one in found)
        return f"means of {len(self.at[1][RR].runs)} releases; standard errors are up to {largest:.1%} of them"

    def rows(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield a line for each l and method: means, and standard errors."""
        for l, methods in self.at.items():
            for method, found in methods.items():
                means = {name: found.mean(name) for name in names}
                yield {"l": l, "method": method, **means, **{f"{n}, standard error": found.error(n) for n in names}}

    def points(self, name: str, *methods: str) -> Iterator[Point]:
        """Yield the points of a chart, with two standard errors to either side."""
        for method in methods:
            for l in self.at:
                if method not in self.at[l]:
                    continue
                found = self.at[l][method]
                y, half = found.mean(name), 2 * found.error(name)
                yield Point(method, l, y, y - half, y + half) if half else Point(method, l, y)


def studied(setting: Setting) -> Study:
    """Measure all methods on ESGRO for l = 1 to 7, as far as no value has more than 1/l of the records."""
    table, at = joint(setting.data, ESGRO), {}
    most = int(1 / constant_success(table.counts))
    for l in LS[:most]:
        at[l] = _at(setting.data, setting.seed, repetitions(setting), l)
        setting.progress(l / min(most, len(LS)))
    return Study(table, at)


@lru_cache(maxsize=64)
def _at(data: Data, seed: int, times: int, l: int) -> Mapping[str, Repeated]:
    table = joint(data, ESGRO)
    published, proved = (solved(data, ESGRO, Fraction(1, l), risk) for risk in ("reconstruction", "posterior"))
    assert published is not None
    found = dict(randomized(table, published, times, generator(seed, l, 1)))
    if proved is not None:
        found[PROVED] = randomized(table, proved, times, generator(seed, l, 2))[BAYES]
    found |= _anatomized(table, l, times, generator(seed, l, 3))
    general = generalize(table.counts, hierarchies(data, table), l)
    found[DIVERSITY] = Repeated.of([all_figures(table.counts, general.estimate(), class_success(general))])
    without = independent(table.counts)
    found[INDEPENDENT] = Repeated.of([all_figures(table.counts, without, constant_success(table.counts))])
    return found


def _anatomized(table: Joint, l: int, times: int, rng: np.random.Generator) -> Mapping[str, Repeated]:
    counts = np.bincount(table.codes[:, -1])
    runs: dict[str, list[Figures]] = {ANATOMY: [], LEAST_SQUARES: []}
    for _ in range(times):
        release = Anatomized.dealt(table, anatomize(counts, l, rng), rng)
        estimates = release.estimates()
        success = release.success(estimates[1])
        for name, estimate in zip(runs, estimates, strict=True):
            runs[name].append(all_figures(table.counts, estimate, success))
    return {name: Repeated.of(figures) for name, figures in runs.items()}
