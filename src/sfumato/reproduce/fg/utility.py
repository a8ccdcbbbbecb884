"""FG section V: record utility and aggregate utility of uniform and fine-grain perturbation, by tolerance theta.

record utility      sum f_i P[i, i]                          FG Def. 3
aggregate utility   1 - (1/m) sum |f_i - f'_i|               FG Def. 2, f' by iterative Bayes
measured risk       sum_y max_x f_x P[y, x]                  how often the best guess of a value is right, by one
                                                             who knows the frequencies and the matrix
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from sfumato.guarantee import violations
from sfumato.matrix import PerturbationMatrix
from sfumato.methods import plan
from sfumato.plans import Plan
from sfumato.policy import Policy
from sfumato.profiles import Profile
from sfumato.randomness import SecretKey, Step
from sfumato.reconstruct import bayes
from sfumato.reproduce.charts import Chart, Point
from sfumato.reproduce.experiment import Comparison, Outcome, Setting, sentence
from sfumato.reproduce.fg.tables import VALUES, Counted, Floats, reactions, zipf
from sfumato.requirement import tolerance
from sfumato.table import profile, scan

UNIFORM, PUBLISHED, PROVED = "uniform", "fine-grain as published", "fine-grain proved"
EQUAL_RISK = "uniform at fine-grain's risk"
MATRICES: tuple[tuple[str, Literal["uniform", "fine-grain"], Literal["proved", "as-published"]], ...] = (
    (UNIFORM, "uniform", "proved"),
    (PUBLISHED, "fine-grain", "as-published"),
    (PROVED, "fine-grain", "proved"),
)
REACTION_THETAS = (2, 3, 4, 5, 6, 7, 8)
ZIPF_THETAS = (4, 6, 8, 10, 15, 20, 25, 30)
INSTANCES, QUICK_INSTANCES = 10, 5
"""Perturbed tables for each matrix: the paper has 10."""
ALMOST = 0.002
"""Aggregate utilities that are nearer are almost the same."""
LOST = "the values of theta in the figure are lost"


@dataclass(frozen=True, eq=False)
class Measured:
    """A matrix at one theta, with what was measured in so many perturbed tables."""

    name: str
    theta: int
    record: float
    risk: float
    aggregate: Floats  # one for each perturbed table
    variation: float  # total variation between true and estimated shares, on average
    least_retention: float
    downward: int  # values whose posterior can fall below rho1

    @property
    def mean(self) -> float:
        """The aggregate utility."""
        return float(self.aggregate.mean())

    @property
    def error(self) -> float:
        """The standard error of the aggregate utility."""
        return float(self.aggregate.std(ddof=1) / np.sqrt(self.aggregate.size))

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
            "least retention": round(self.least_retention, 6),
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
        """Return between which thetas the aggregate utility falls, by more than three standard errors."""
        pairs = zip(self.of(name), self.of(name)[1:], strict=False)
        return [f"{a.theta} to {b.theta}" for a, b in pairs if a.mean - b.mean > 3 * math.hypot(a.error, b.error)]

    @property
    def noise(self) -> str:
        """How certain an aggregate utility is."""
        largest = max(one.error for one in self.measured)
        return f"{self.instances} perturbed tables for each point; standard errors of the utility up to {largest:.2g}"

    def shown(self, figures: Floats, digits: int = 3) -> str:
        """Return figures in words, from the first theta to the last."""
        return f"{figures[0]:.{digits}f} at theta = {self.thetas[0]} to {figures[-1]:.{digits}f} at {self.thetas[-1]}"


# --- measuring --------------------------------------------------------------------------------------------------------


def _curves(table: Counted, thetas: Sequence[int], setting: Setting) -> Curves:
    """Measure the three matrices, and the uniform one with the measured risk of fine-grain as published."""
    counted, found = _profile(table), []
    instances = QUICK_INSTANCES if setting.quick else INSTANCES
    for done, theta in enumerate(thetas):
        plans = {name: _planned(counted, method, assurance, theta) for name, method, assurance in MATRICES}
        matrices = {name: made.matrix for name, made in plans.items()}
        matrices[EQUAL_RISK] = _uniform_with(guessed(matrices[PUBLISHED], table.shares), table.shares)
        for name, matrix in matrices.items():
            downward = sum(1 for _ in violations(matrix, plans[PUBLISHED].bounds, ("downward",)))
            found.append(_measured(name, theta, matrix, table, instances, setting.seed, downward))
        setting.progress((done + 1) / len(thetas))
    return Curves(table, thetas, instances, tuple(found))


def _profile(table: Counted) -> Profile:
    policy = Policy.parse(
        '[columns.value]\nrole = "sensitive"\n[method]\nname = "uniform"\n[requirement]\nrho1 = 0.1\nrho2 = 0.5'
    )
    names = [f"value {i:02}" for i in range(1, table.counts.size + 1)]
    return profile(scan(pa.table({"value": np.repeat(names, table.counts)}), policy))


def _planned(
    counted: Profile, method: Literal["uniform", "fine-grain"], assurance: Literal["proved", "as-published"], theta: int
) -> Plan:
    made = plan(counted, method=method, requirement=tolerance(theta), assurance=assurance)
    assert isinstance(made, Plan)
    return made


def guessed(matrix: PerturbationMatrix, shares: Floats) -> float:
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
    name: str, theta: int, matrix: PerturbationMatrix, table: Counted, instances: int, seed: int, downward: int
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
        variation=float(sums.mean() / 2),
        least_retention=float(matrix.retention.min()),
        downward=downward,
    )


# --- Fig. 4 -----------------------------------------------------------------------------------------------------------


def distributions(setting: Setting) -> Outcome:
    """The frequencies of both tables, the most frequent value first."""
    tables = {"drug reactions": reactions(setting), "Zipf": zipf()}
    real, law = tables["drug reactions"], tables["Zipf"]
    points = [Point(name, k + 1, float(f)) for name, table in tables.items() for k, f in enumerate(table.shares)]
    comparisons = (
        sentence(
            "Zipf is more skewed than the reactions",
            "it is",
            f"largest share {law.shares[0]:.1%} and {real.shares[0]:.1%}; distance from equal shares "
            f"{law.distance_from_even:.3f} and {real.distance_from_even:.3f}",
            law.shares[0] > real.shares[0] and law.distance_from_even > real.distance_from_even,
            because=real.about,
        ),
    )
    alt = (
        f"Shares of {VALUES} values by rank. Zipf begins at {law.shares[0]:.1%} and falls steeply; the reactions begin "
        f"at {real.shares[0]:.1%} and fall more slowly."
    )
    chart = Chart(alt, "rank of the value", "share of the records", tuple(points))
    rows = tuple({"table": p.series, "rank": p.x, "share": round(p.y, 6)} for p in points)
    return Outcome(comparisons, rows, chart, f"{real.about}; {law.about}")


# --- Fig. 5 -----------------------------------------------------------------------------------------------------------


def on_reactions(setting: Setting) -> Outcome:
    """Fig. 5 (a)."""
    curves = _curves(reactions(setting), REACTION_THETAS, setting)
    gain = curves.record(PUBLISHED) / curves.record(UNIFORM) - 1
    told = [t for t, g in zip(curves.thetas, gain, strict=True) if round(g, 1) in (0.1, 0.2)]
    apart = np.abs(curves.aggregate(PUBLISHED) - curves.aggregate(UNIFORM))
    variation = [[one.variation for one in curves.of(name)] for name in (PUBLISHED, UNIFORM)]
    comparisons = (
        _better_records(curves),
        sentence(
            "gain in record utility",
            "about 10% to 20%",
            f"{gain[0]:.0%} at theta = {curves.thetas[0]} to {gain[-1]:.0%} at {curves.thetas[-1]}; about 10% to 20% "
            f"at theta = {', '.join(map(str, told))}",
            len(told) >= 2,
            proved=_gain(curves, PROVED),
            because="another table stands in, with other frequencies",
            noise=f"{LOST}; {curves.table.about.split(';')[0]}",
        ),
        sentence(
            "aggregate utility of both",
            "almost the same",
            f"they differ by {apart.max():.4f} at most",
            bool((apart < ALMOST).all()),
            because=f"they differ by more than {ALMOST}",
            noise=curves.noise,
        ),
        *_growing(curves),
        sentence(
            "record utility is lower than aggregate utility",
            "it is",
            f"{curves.record(PUBLISHED).max():.3f} at most, and {curves.aggregate(PUBLISHED).min():.3f} at least",
            curves.record(PUBLISHED).max() < curves.aggregate(PUBLISHED).min(),
            noise=curves.noise,
        ),
        _at_equal_risk(curves),
    )
    alt = (
        f"Record utility by theta. Uniform rises from {curves.shown(curves.record(UNIFORM))}; fine-grain as published "
        f"is above it everywhere, to {curves.record(PUBLISHED)[-1]:.3f}; fine-grain proved is next to uniform. "
        "Uniform with the measured risk of fine-grain as published is the highest."
    )
    notes = (
        f"Aggregate utility divides by the {VALUES} values and hides much: at theta = {curves.thetas[-1]} the total "
        f"variation is {variation[0][-1]:.3f} with fine-grain as published and {variation[1][-1]:.3f} with uniform.",
        _downward_note(curves),
    )
    points = _points(curves, lambda one: Point(one.name, one.theta, one.record))
    return _outcome(curves, comparisons, Chart(alt, "theta", "record utility", points), notes)


def on_zipf(setting: Setting) -> Outcome:
    """Fig. 5 (b)."""
    curves = _curves(zipf(), ZIPF_THETAS, setting)
    even = 1 - 2 * curves.table.distance_from_even / VALUES
    ours, others = curves.aggregate(PUBLISHED), curves.aggregate(UNIFORM)
    below = [one for one in curves.of(PUBLISHED) if one.mean < even]
    comparisons = (
        _better_records(curves),
        *_growing(curves),
        sentence(
            "aggregate utility of fine-grain",
            "lower than that of uniform",
            f"lower by {(others - ours).min():.4f} to {(others - ours).max():.4f}",
            bool((ours < others).all()),
            proved=f"{curves.shown(curves.aggregate(PROVED), 4)}",
            noise=curves.noise,
        ),
        _at_equal_risk(curves),
    )
    worst = min(curves.of(PUBLISHED), key=lambda one: one.mean)
    alt = (
        "What aggregate utility lacks of 1, by theta, on a logarithmic axis. Uniform falls steadily; fine-grain as "
        f"published is above it and jumps up and down, up to {1 - worst.mean:.3f} at theta = {worst.theta}. "
        "Uniform with the measured risk of fine-grain as published is the lowest."
    )
    notes = (
        f"Whoever guesses equal shares without looking at the release has aggregate utility {even:.3f}: fine-grain as "
        f"published is below that at {len(below)} of {len(curves.thetas)} values of theta.",
        f"Fine-grain as published jumps because its optimum gives up single values: at theta = {worst.theta} the least "
        f"retention is {worst.least_retention:.2g}, and such a value's count can hardly be estimated.",
        _downward_note(curves),
    )
    points = _points(
        curves,
        lambda one: Point(one.name, one.theta, 1 - one.mean, *(1 - one.mean + s * 2 * one.error for s in (-1, 1))),
    )
    chart = Chart(alt, "theta", "1 - aggregate utility", points, logarithmic=True)
    return _outcome(curves, comparisons, chart, notes)


def _better_records(curves: Curves) -> Comparison:
    return sentence(
        "record utility of fine-grain",
        "better than that of uniform at every theta",
        f"{curves.shown(curves.record(PUBLISHED))}; uniform {curves.shown(curves.record(UNIFORM))}",
        bool((curves.record(PUBLISHED) > curves.record(UNIFORM)).all()),
        proved=curves.shown(curves.record(PROVED)),
    )


def _growing(curves: Curves) -> tuple[Comparison, ...]:
    """Both utilities of both methods grow with theta."""
    found = []
    for name in (UNIFORM, PUBLISHED):
        record, aggregate = curves.record(name), curves.aggregate(name)
        falls = curves.falls(name)
        found.append(
            sentence(
                f"record utility of {name}",
                "improves with theta",
                curves.shown(record),
                bool((np.diff(record) > 0).all()),
            )
        )
        found.append(
            sentence(
                f"aggregate utility of {name}",
                "improves with theta",
                f"{curves.shown(aggregate, 4)}{'; falls from theta = ' + ', '.join(falls) if falls else ''}",
                not falls,
                because="the optimum gives up single rare values, other ones at each theta",
                noise=curves.noise,
            )
        )
    return tuple(found)


def _at_equal_risk(curves: Curves) -> Comparison:
    """Uniform is allowed the measured risk of fine-grain as published."""
    ours, others = curves.record(PUBLISHED), curves.record(EQUAL_RISK)
    better = int((ours > others).sum())
    risks = [curves.of(name)[-1].risk for name in (UNIFORM, PUBLISHED)]
    return sentence(
        "the same at equal measured risk",
        "record utility of fine-grain is better (the paper compares at equal requirement)",
        f"better at {better} of {len(curves.thetas)} values of theta: {curves.shown(ours)}; uniform "
        f"{curves.shown(others)}",
        better == len(curves.thetas),
        because=(
            "the requirement is the same, but not the risk: the best guess is right for "
            f"{risks[1]:.1%} of the records with fine-grain as published and {risks[0]:.1%} with uniform at theta = "
            f"{curves.thetas[-1]}; where uniform is allowed as much risk, it retains more at "
            f"{len(curves.thetas) - better} values of theta"
        ),
    )


def _gain(curves: Curves, name: str) -> str:
    gain = curves.record(name) / curves.record(UNIFORM) - 1
    return f"{gain[0]:.1%} to {gain[-1]:.1%}"


def _downward_note(curves: Curves) -> str:
    downward, proved = ([one.downward for one in curves.of(name)] for name in (PUBLISHED, PROVED))
    return (
        f"With fine-grain as published the posterior of {min(downward)} to {max(downward)} of the {VALUES} values can "
        f"fall below rho1, which Theorem 1 excludes; with the proved one of {max(proved)}."
    )


def _points(curves: Curves, point: Callable[[Measured], Point]) -> tuple[Point, ...]:
    names = (UNIFORM, PUBLISHED, PROVED, EQUAL_RISK)
    return tuple(point(one) for name in names for one in curves.of(name))


def _outcome(curves: Curves, comparisons: tuple[Comparison, ...], chart: Chart, notes: tuple[str, ...]) -> Outcome:
    rows = tuple(one.row() for one in curves.measured)
    return Outcome(comparisons, rows, chart, curves.table.about, curves.instances, notes)
