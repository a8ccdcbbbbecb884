"""Measuring the errors of count queries: all methods on the same tables and pools, some times over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.values.randomness import SecretKey
from sfumato_papers.charts import Point
from sfumato_papers.experiment import Setting
from sfumato_papers.sdr.census import Census, Floats, Kind
from sfumato_papers.sdr.queries import SELECTIVITIES, Pool
from sfumato_papers.sdr.released import Anatomized, Perturbed

PP, PROVED, UP, ANA, UNBIASED = "PP as published", "PP proved", "UP", "Ana", "Ana, unbiased estimate"
REPETITIONS, QUICK_REPETITIONS = 5, 2
MOST_REPETITIONS = 1_000
MOST_NAMED = 3


@dataclass(frozen=True, eq=False)
class Curve:
    """The errors of a method at one place, [repetitions, selectivities]. bias: how much too large its answers are."""

    errors: Floats
    bias: float
    risk: float

    @property
    def mean(self) -> Floats:
        """Mean relative errors, one for each selectivity."""
        return np.asarray(self.errors.mean(axis=0))

    @property
    def standard_error(self) -> Floats:
        """Of the means, over pools and releases."""
        return np.asarray(self.errors.std(axis=0, ddof=1) / np.sqrt(len(self.errors)))


Methods = Mapping[str, Perturbed | Anatomized]


def repetitions(setting: Setting) -> int:
    """How often everything is published and asked."""
    return QUICK_REPETITIONS if setting.quick else REPETITIONS


def first_seed(setting: Setting) -> int:
    """The seed of the first repetition."""
    return setting.seed * MOST_REPETITIONS


def measure(table: Census, places: Sequence[Methods], setting: Setting) -> tuple[dict[str, Curve], ...]:
    """Publish a table by each method at each place, with one pool of queries for each repetition."""
    times = repetitions(setting)
    found: list[dict[str, list[tuple[Floats, float]]]] = [{} for _ in places]
    for repetition in range(times):
        seed = first_seed(setting) + repetition
        pool, key = Pool.drawn(table, seed), SecretKey.from_seed(seed)
        for k, methods in enumerate(places):
            for name, answers in _answered(table, methods, pool, key).items():
                found[k].setdefault(name, []).append((pool.errors(answers), pool.bias(answers)))
            setting.progress((repetition + (k + 1) / len(places)) / times)
    return tuple(_curves(one, methods) for one, methods in zip(found, places, strict=True))


def _curves(found: Mapping[str, Sequence[tuple[Floats, float]]], methods: Methods) -> dict[str, Curve]:
    return {
        name: Curve(
            np.array([errors for errors, _ in one]),
            float(np.mean([bias for _, bias in one])),
            methods[ANA if name == UNBIASED else name].risk,
        )
        for name, one in found.items()
    }


def _answered(table: Census, methods: Methods, pool: Pool, key: SecretKey) -> dict[str, Floats]:
    answered = {}
    for name, made in methods.items():
        if isinstance(made, Perturbed):
            answered[name] = made.answers(table, pool, key)
            continue
        both = made.answers(table, pool, key)
        answered[name] = both.classical
        if both.unbiased is not None:
            answered[UNBIASED] = both.unbiased
    return answered


@dataclass(frozen=True)
class Curves:
    """What was measured at several places: values of L, or sizes of the table."""

    kind: Kind
    axis: str
    places: Sequence[int]
    found: tuple[Mapping[str, Curve], ...]

    def mean(self, name: str) -> Floats:
        """Return the mean errors of a method, [places, selectivities]."""
        return np.array([one[name].mean for one in self.found])

    def error(self, name: str) -> Floats:
        """Return their standard errors."""
        return np.array([one[name].standard_error for one in self.found])

    @property
    def names(self) -> tuple[str, ...]:
        """The methods that answer at every place."""
        return tuple(name for name in self.found[0] if all(name in one for one in self.found))

    @property
    def noise(self) -> str:
        """How certain the errors are."""
        times = len(self.found[0][PP].errors)
        largest = max(float(self.error(name).max()) for name in self.names)
        return f"{times} releases, each with its pool of queries; standard errors up to {percent(largest)}"

    def rows(self) -> tuple[dict[str, Any], ...]:
        """Return the lines of the table."""
        return tuple(
            {
                "table": self.kind.name,
                "method": name,
                self.axis: place,
                "selectivity": s,
                "mean relative error": round(float(self.mean(name)[k, j]), 6),
                "standard error": round(float(self.error(name)[k, j]), 6),
                "measured risk": round(self.found[k][name].risk, 6),
            }
            for name in self.names
            for k, place in enumerate(self.places)
            for j, s in enumerate(SELECTIVITIES)
        )

    def points(self) -> tuple[Point, ...]:
        """Return the curves at the least selectivity, in percent, with two standard errors either way."""
        return tuple(
            Point(name, place, y, max(y - 2 * e, y / 10), y + 2 * e)
            for name in self.names
            for place, y, e in zip(self.places, 100 * self.mean(name)[:, 0], 100 * self.error(name)[:, 0], strict=True)
        )

    def shown(self, name: str) -> str:
        """Return the errors at the least selectivity, at the first place and at the last."""
        first, last = self.mean(name)[[0, -1], 0]
        return f"{name} {percent(first)} at {self._place(0)} to {percent(last)} at {self._place(-1)}"

    def _place(self, k: int) -> str:
        return f"{self.axis} = {self.places[k]:,}"

    def exceptions(self, smaller: str, larger: str) -> list[str]:
        """Return where the one method's error is not smaller than the other's; where that is often, how often."""
        wrong = np.argwhere(self.mean(smaller) >= self.mean(larger)).tolist()
        if len(wrong) > MOST_NAMED:
            return [f"{len(wrong)} of {self.mean(smaller).size} points"]
        return [
            f"{self._place(k)}, s = {SELECTIVITIES[j]:.1%} ({self._apart(smaller, larger, k, j)})" for k, j in wrong
        ]

    def _apart(self, one: str, other: str, k: int, j: int) -> str:
        """Return by how much an error is larger, release by release: all methods answer the same pools."""
        apart = self.found[k][one].errors[:, j] - self.found[k][other].errors[:, j]
        error = apart.std(ddof=1) / np.sqrt(apart.size)
        return f"larger by {percent(float(apart.mean()))}, standard error {percent(float(error))}"


def percent(share: float) -> str:
    return f"{100 * share:.3g}%"
