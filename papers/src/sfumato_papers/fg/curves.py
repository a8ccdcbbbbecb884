"""Measuring uniform and fine-grain perturbation, by tolerance theta: FG section V.

record utility      sum f_i P[i, i]                          FG Def. 3
aggregate utility   1 - (1/m) sum |f_i - f'_i|               FG Def. 2, f' by iterative Bayes
measured risk       sum_y max_x f_x P[y, x]                  how often the best guess of a value is right, by one
                                                             who knows the frequencies and the matrix
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.analyst.randomized import bayes
from sfumato.claims.odds import violations
from sfumato.methods import plan
from sfumato.methods.fine_grain import FineGrain
from sfumato.methods.method import Method
from sfumato.methods.plan import Plan
from sfumato.methods.uniform import Uniform
from sfumato.publisher.policy import Policy
from sfumato.publisher.table import profile, scan
from sfumato.values.matrix.base import Matrix
from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey, Step
from sfumato.values.requirement import tolerance
from sfumato_papers.experiment import Setting
from sfumato_papers.fg.tables import Counted, Floats

UNIFORM, PUBLISHED, PROVED = "uniform", "fine-grain as published", "fine-grain proved"
EQUAL_RISK = "uniform at fine-grain's risk"
MATRICES: tuple[tuple[str, Method], ...] = (
    (UNIFORM, Uniform()),
    (PUBLISHED, FineGrain(assurance="as-published", weights="observed")),
    (PROVED, FineGrain(weights="observed", objective="records")),
)
INSTANCES, QUICK_INSTANCES = 10, 5
"""Perturbed tables for each matrix: the paper has 10."""
GIVEN_UP = 0.01
"""A value that is retained with less probability is given up: its count can hardly be estimated."""
BEYOND_NOISE = 3
"""Differences count if they are larger than so many standard errors."""


@dataclass(frozen=True, eq=False)
class Measured:
    """A matrix at one theta, with what was measured in so many perturbed tables."""

    name: str
    theta: int
    record: float
    risk: float
    aggregate: Floats  # one for each perturbed table
    errors: Floats  # |f_i - f'_i| of each value, the most frequent first, on average
    retention: Floats  # p_i of each value
    downward: int  # values whose posterior can fall below rho1

    @property
    def mean(self) -> float:
        """The aggregate utility."""
        return float(self.aggregate.mean())

    @property
    def error(self) -> float:
        """The standard error of the aggregate utility."""
        return float(self.aggregate.std(ddof=1) / np.sqrt(self.aggregate.size))

    @property
    def variation(self) -> float:
        """Total variation between true and estimated shares, on average."""
        return float(self.errors.sum() / 2)

    @property
    def given_up(self) -> int:
        """How many values are given up."""
        return int((self.retention < GIVEN_UP).sum())

    def row(self) -> dict[str, Any]:
        """Return it as a line of the table."""
        return {
            "matrix": self.name,
            "theta": self.theta,
            "record utility": round(self.record, 6),
            "measured risk": round(self.risk, 6),
            "aggregate utility": round(self.mean, 6),
            "standard error": round(self.error, 6),
            "total variation": round(self.variation, 6),
            "least retention": round(float(self.retention.min()), 6),
            "values given up": self.given_up,
            "values that can fall below rho1": self.downward,
        }


@dataclass(frozen=True)
class Curves:
    """All that was measured on one table."""

    table: Counted
    thetas: Sequence[int]
    instances: int
    measured: tuple[Measured, ...]

    def of(self, name: str) -> list[Measured]:
        """Return a curve, by theta."""
        return [one for one in self.measured if one.name == name]

    def record(self, name: str) -> Floats:
        """Return the record utilities of a curve."""
        return np.array([one.record for one in self.of(name)])

    def aggregate(self, name: str) -> Floats:
        """Return the aggregate utilities of a curve."""
        return np.array([one.mean for one in self.of(name)])

    def falls(self, name: str) -> list[str]:
        """Return between which thetas the aggregate utility falls, by more than noise."""
        return [f"{a.theta} to {b.theta}" for a, b in pairwise(self.of(name)) if is_above(a, b)]

    def rises(self, name: str) -> bool:
        """Whether the aggregate utility is larger at the last theta than at the first, beyond noise."""
        return is_above(self.of(name)[-1], self.of(name)[0])

    def aggregate_gains(self) -> tuple[Floats, Floats]:
        """Return by how much the aggregate utility of fine-grain as published is above uniform, with standard errors.

        Both matrices replace by the same random words, so the differences are taken table by table.
        """
        pairs = zip(self.of(PUBLISHED), self.of(UNIFORM), strict=True)
        apart = np.array([ours.aggregate - other.aggregate for ours, other in pairs])
        return apart.mean(axis=1), apart.std(axis=1, ddof=1) / np.sqrt(apart.shape[1])

    def gain(self, name: str) -> Floats:
        """Return the gain in record utility over uniform, relative to it."""
        return np.asarray(self.record(name) / self.record(UNIFORM) - 1)

    def rank_correlation(self, *names: str) -> float:
        """Return that of record and aggregate utility at all thetas, over uniform and fine-grain as published."""
        points = [(one.record, one.mean) for name in names or (UNIFORM, PUBLISHED) for one in self.of(name)]
        ranks = np.argsort(np.argsort(np.array(points), axis=0), axis=0)
        return float(np.asarray(np.corrcoef(ranks.T))[0, 1])

    @property
    def guess(self) -> float:
        """The aggregate utility of equal shares, guessed without a release."""
        return 1 - 2 * self.table.distance_from_even / self.table.counts.size

    @property
    def noise(self) -> str:
        """How certain an aggregate utility is."""
        largest = max(one.error for one in self.measured)
        return f"{self.instances} perturbed tables for each point; standard errors of the utility up to {largest:.2g}"

    def shown(self, figures: Floats, digits: int = 3) -> str:
        """Return figures in words, from the first theta to the last."""
        return f"{figures[0]:.{digits}f} at theta = {self.thetas[0]} to {figures[-1]:.{digits}f} at {self.thetas[-1]}"

    def at(self, chosen: Iterable[bool]) -> str:
        """Return the thetas that are chosen, in words."""
        named = [str(theta) for theta, is_chosen in zip(self.thetas, chosen, strict=True) if is_chosen]
        return f"theta = {', '.join(named)}" if named else "no theta"


def is_above(one: Measured, other: Measured) -> bool:
    """Whether the aggregate utility is larger, beyond noise."""
    return one.mean - other.mean > BEYOND_NOISE * math.hypot(one.error, other.error)


# --- measuring --------------------------------------------------------------------------------------------------------


def measured_curves(table: Counted, thetas: Sequence[int], setting: Setting) -> Curves:
    """Measure the three matrices, and the uniform one with the measured risk of fine-grain as published."""
    counted, found = _profile(table), []
    instances = QUICK_INSTANCES if setting.quick else INSTANCES
    for done, theta in enumerate(thetas):
        plans = {name: _planned(counted, method, theta) for name, method in MATRICES}
        matrices: dict[str, Matrix] = {name: made.mechanisms[0].matrix for name, made in plans.items()}
        matrices[EQUAL_RISK] = _uniform_with(guessed(matrices[PUBLISHED], table.shares), table.shares)
        for name, matrix in matrices.items():
            downward = sum(1 for _ in violations(matrix, plans[PUBLISHED].mechanisms[0].bounds, ("downward",)))
            found.append(_measured(name, theta, matrix, table, instances, setting.seed, downward))
        setting.progress((done + 1) / len(thetas))
    return Curves(table, thetas, instances, tuple(found))


def _profile(table: Counted) -> Profile:
    policy = Policy.parse(
        '[columns.value]\nrole = "sensitive"\n[method]\nname = "uniform"\n[requirement]\nrho1 = 0.1\nrho2 = 0.5'
    )
    names = [f"value {i:02}" for i in range(1, table.counts.size + 1)]
    return profile(scan(pa.table({"value": np.repeat(names, table.counts)}), policy))


def _planned(counted: Profile, method: Method, theta: int) -> Plan:
    return plan(counted, method, tolerance(theta))


def guessed(matrix: Matrix, shares: Floats) -> float:
    """Return the measured risk: how often the best guess is right.

    >>> guessed(PerturbationMatrix.from_retention([1.0, 1.0]), np.array([0.3, 0.7]))
    1.0
    """
    return float((matrix.dense() * shares).max(axis=1).sum())


def _uniform_with(risk: float, shares: Floats) -> PerturbationMatrix:
    """Return the uniform matrix with this measured risk: by bisection, since risk grows with retention."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        matrix = PerturbationMatrix.from_retention([middle] * shares.size)
        low, high = (middle, high) if guessed(matrix, shares) < risk else (low, middle)
    return PerturbationMatrix.from_retention([low] * shares.size)


def _measured(
    name: str, theta: int, matrix: Matrix, table: Counted, instances: int, seed: int, downward: int
) -> Measured:
    codes = np.repeat(np.arange(table.counts.size, dtype=np.int32), table.counts)
    differences = []
    for instance in range(instances):
        words = SecretKey.from_seed(seed).words(Step.PERTURB, instance, 0, codes.size)
        published = np.bincount(matrix.sample(codes, words), minlength=table.counts.size)
        estimated = bayes.iterate(matrix, published.astype(np.float64)).value / codes.size
        differences.append(np.abs(estimated - table.shares))
    sums = np.sum(differences, axis=1)
    return Measured(
        name=name,
        theta=theta,
        record=float(table.shares @ matrix.diagonal),
        risk=guessed(matrix, table.shares),
        aggregate=1 - sums / table.counts.size,
        errors=np.mean(differences, axis=0),
        retention=np.asarray(matrix.retention),
        downward=downward,
    )
