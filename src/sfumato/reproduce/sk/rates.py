"""Suppression rates |T_S|/|T| of SK's algorithms, of Suppress-All, and of rotation; R-suppression also by instances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sfumato.methods.suppression import Variant, costs, suppress
from sfumato.methods.suppression.seats import Draw
from sfumato.randomness import SecretKey, Step
from sfumato.reproduce.charts import Point
from sfumato.reproduce.experiment import Comparison

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


@dataclass(frozen=True)
class Rates:
    """Means over samples of equal size, with their standard errors (SK 6.1); of one table, that of the instances."""

    samples: int
    mean: Mapping[str, float]
    error: Mapping[str, float]
    by_chance: float  # the standard error of R-suppression's instances, given the samples

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
    number = len(samples)
    mean = {name: float(np.mean(of)) for name, of in found.items()}
    error = {name: float(np.std(of)) / number**0.5 for name, of in found.items()}
    chance = spread**0.5 / number
    return Rates(number, mean, error | {INSTANCES: max(chance, error[INSTANCES])}, chance)


def _instances(counts: npt.NDArray[np.int64], ell: int, instances: int, draw: Draw) -> npt.NDArray[np.int64]:
    """Return what each of the instances suppresses; zero where there are none."""
    made = [suppress(counts, ell, "r-suppression", draw=draw).withheld for _ in range(instances)]
    return np.array(made or [0])


def is_near(rates: Rates) -> bool:
    """Whether R-suppression is nearer to Unsafe D than to Safe D, where anything is suppressed."""
    own = rates.mean[EXPECTED]
    return own - rates.mean[UNSAFE] <= rates.mean[SAFE] - own


def farthest(all_rates: Iterable[Rates]) -> str:
    """Return how far the instances are from what is expected, at most."""
    off = [(abs(of.mean[INSTANCES] - of.mean[EXPECTED]), of.by_chance) for of in all_rates if of.by_chance]
    errors = max(distance / error for distance, error in off)
    return (
        f"The mean of R-suppression's instances is {max(off)[0]:.3%} of the records at most from its exact "
        f"expectation, and {errors:.1f} standard errors."
    )


def simulated(compared: Comparison, noise: str) -> Comparison:
    """Return a comparison of a simulated number: what agrees to the printed digits does so within noise."""
    return replace(compared, verdict="within noise", because=noise) if compared.verdict == "equal" else compared
