"""Suppression rates |T_S|/|T| of SK's algorithms, of Suppress-All, and of rotation; R-suppression also by instances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.methods.suppression.seats import Draw
from sfumato.methods.suppression.suppress import Variant, costs, suppress
from sfumato.values.randomness import SecretKey, Step
from sfumato_papers.charts import Point

SUPPRESS_ALL, SAFE, ROTATION, SPREAD = "Suppress-All", "Safe D", "rotation (proved)", "spread (proved)"
INSTANCES, EXPECTED, UNSAFE, MINIMAL = "R-sup, mean of instances", "R-sup, expected", "Unsafe D", "minimal"
VARIANTS: Mapping[str, Variant] = {
    SAFE: "safe-d",
    ROTATION: "rotation",
    SPREAD: "spread",
    EXPECTED: "r-suppression",
    UNSAFE: "unsafe-d",
    MINIMAL: "minimal",
}
DRAWN = (SUPPRESS_ALL, SAFE, ROTATION, INSTANCES, EXPECTED, UNSAFE)
"""What charts show."""
Samples = npt.NDArray[np.int64]
"""(sample, value) -> records."""


@dataclass(frozen=True, eq=False)
class Rates:
    """Means over samples of equal size, with their standard errors (SK 6.1); of one table, that of the instances."""

    each: Mapping[str, npt.NDArray[np.float64]]  # algorithm -> rate of each sample
    mean: Mapping[str, float]
    error: Mapping[str, float]
    by_chance: float  # the standard error of R-suppression's instances, given the samples

    @property
    def samples(self) -> int:
        """How many there are."""
        return len(self.each[SUPPRESS_ALL])

    @property
    def violating(self) -> int:
        """How many samples violate l-eligibility."""
        return int(self.each[SUPPRESS_ALL].sum())

    @property
    def remoteness(self) -> float:
        """How far R-suppression is from Unsafe D, in units of how far it is from Safe D."""
        own = self.mean[EXPECTED]
        return (own - self.mean[UNSAFE]) / (self.mean[SAFE] - own)

    def ratio(self, name: str, to: str = SAFE) -> tuple[float, float]:
        """Return the ratio of two mean rates, and its standard error (delta method) if there were one sample."""
        ratio = self.mean[name] / self.mean[to]
        return ratio, float(np.std(self.each[name] - ratio * self.each[to])) / self.mean[to]

    def points(self, x: float) -> Iterable[Point]:
        """Give the point of each series, with intervals of two standard errors where there are several samples."""
        for name in DRAWN:
            mean, half = self.mean[name], 2 * self.error[name]
            ends = (max(0.0, mean - half), mean + half) if half else (None, None)
            yield Point(name, x, mean, *ends)

    def row(self, **place: float) -> dict[str, float]:
        """Return a line of a CSV."""
        return {**place, **self.mean, **{f"{name}, standard error": error for name, error in self.error.items()}}


def drawing(seed: int) -> Draw:
    """Return where the instances of R-suppression draw from."""
    return SecretKey.from_seed(seed).drawing(Step.SUPPRESS)


def rates(samples: Samples | Sequence[Sequence[int]], ell: int, instances: int, draw: Draw) -> Rates:
    """Return the rates of each algorithm; of R-suppression the expected one, and the mean of so many instances."""
    found: dict[str, list[float]] = {name: [] for name in (SUPPRESS_ALL, INSTANCES, *VARIANTS)}
    spread = 0.0
    for counts in np.asarray(samples):
        size, cost = int(counts.sum()), costs(counts, ell)
        violates = cost["minimal"] > 0
        found[SUPPRESS_ALL].append(float(violates))
        made = _instances(counts, ell, instances if violates else 0, draw) / size
        spread += float(made.var()) / made.size
        found[INSTANCES].append(float(made.mean()))
        for name, variant in VARIANTS.items():
            found[name].append(float(cost[variant]) / size)
    each = {name: np.array(of) for name, of in found.items()}
    mean = {name: float(of.mean()) for name, of in each.items()}
    error = {name: float(of.std()) / len(samples) ** 0.5 for name, of in each.items()}
    chance = spread**0.5 / len(samples)
    return Rates(each, mean, error | {INSTANCES: max(chance, error[INSTANCES])}, chance)


def _instances(counts: npt.NDArray[np.int64], ell: int, instances: int, draw: Draw) -> npt.NDArray[np.int64]:
    """Return what each of the instances suppresses; zero where there are none."""
    made = [suppress(counts, ell, "r-suppression", draw=draw).withheld for _ in range(instances)]
    return np.array(made or [0])


def seen(found: Mapping[float, Rates], axis: str) -> str:
    """Return what a chart of rates shows: each series at both ends, and where it is lowest between them."""
    first, *_, last = found
    return (
        f"Suppression rates by {axis}, from {first:g} to {last:g}: " + "; ".join(_course(found, n) for n in DRAWN) + "."
    )


def _course(found: Mapping[float, Rates], name: str) -> str:
    first, *_, last = found
    course = {x: of.mean[name] for x, of in found.items()}
    lowest = min(course, key=lambda x: course[x])
    dip = (
        f", lowest at {lowest:g} with {course[lowest]:.1%}" if course[lowest] < min(course[first], course[last]) else ""
    )
    return f"{name} {course[first]:.1%} to {course[last]:.1%}{dip}"


def farthest(all_rates: Iterable[Rates]) -> str:
    """Return how far the instances are from what is expected, at most."""
    off = [(abs(of.mean[INSTANCES] - of.mean[EXPECTED]), of.by_chance) for of in all_rates if of.by_chance]
    errors = max(distance / error for distance, error in off)
    return (
        f"The mean of R-suppression's instances is {max(off)[0]:.3%} of the records at most from its exact "
        f"expectation, and {errors:.1f} standard errors."
    )
