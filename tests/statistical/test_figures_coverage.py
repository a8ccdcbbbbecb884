"""95% intervals of every figure of a query hold what they say: counts, sums, averages, shares and ratios, with weights.

2,000 releases of a table are drawn by the real sampler, with a secret word for each record; each is a group of its own
of one tally, so that the code under test is what `Release.sql` runs after DuckDB has counted. Cells with an expected
count of at least 30 are judged as in test_coverage: mean coverage in [93%, 97%], single cells within the limits there
(false alarm at most 1e-6 a cell and side). Errors that are 15% too small, or 20% too large, must fail. Seeds are fixed.

A quotient whose bottom is not told apart from zero has an interval without ends, which covers; where that happens in
more than one of a hundred releases, the cell may cover more than the upper limit, but not less than the lower one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import pytest

from sfumato.analyst.answer import Answer, Key, Quotient, Target
from sfumato.analyst.ask.cells import Partition, cells_of
from sfumato.analyst.ask.measure import Measure
from sfumato.analyst.counting.tally import ROWS, Number, Tally
from sfumato.analyst.measures import evaluate
from sfumato.analyst.randomized.channel import Channel
from sfumato.analyst.randomized.figures import Figures
from sfumato.values.arrays import FloatArray
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato.values.mechanism import LABEL, Bound, Mechanism, SubTable
from sfumato.values.randomness import SecretKey, Step, simulation
from tests.conftest import slow
from tests.statistical.test_coverage import HIGHEST, LEAST, LOWEST, RELEASES, Coverage

Codes = npt.NDArray[np.int64]
MEASURES = {
    "count": Measure("n", "", Number()),
    "sum": Measure("sum", "", Number(columns=("x",))),
    "average": Measure("average", "", Number(columns=("x",)), Number(known=("x",))),
    "ratio": Measure("ratio", "", Number(columns=("x",)), Number(columns=("y",))),
    "share": Measure("share", "", Number(), partition=()),
    "share in group": Measure("share", "", Number(), partition=("group",)),
}


@dataclass(frozen=True)
class People:
    """A table: group, value, two numbers (x is missing here and there) and a weight of each record."""

    group: Codes
    value: Codes
    x: FloatArray  # NaN: missing
    y: FloatArray
    w: FloatArray

    @property
    def groups(self) -> int:
        return int(self.group.max()) + 1

    def take(self, rows: Codes) -> People:
        return People(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def number(self, number: Number, weighted: bool) -> FloatArray:
        """Return a number of each record; 0 where a factor is missing."""
        product = self.w**number.weight if weighted else np.ones(self.w.size)
        for name in number.columns:
            product = product * getattr(self, name)
        for name in number.known:
            product = np.where(np.isnan(getattr(self, name)), 0, product)
        return np.nan_to_num(product)


def synthetic(rows: int = 3_000) -> People:
    """Return three groups of different sizes and mixtures of eight values, with a skewed income."""
    rng = simulation(5)
    group = rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    shares = np.array([[0.3, 0.2, 0.15, 0.12, 0.1, 0.06, 0.04, 0.03], [0.1] * 6 + [0.2, 0.2], [0.125] * 8])
    value = np.array([rng.choice(8, p=shares[g]) for g in group])
    x = np.round(np.exp(rng.normal(3 + 0.2 * value + 0.3 * group, 0.6)), 2)
    x[rng.random(rows) < 0.04] = np.nan
    return People(group, value, x, rng.gamma(4, 5 + group), rng.choice([1.0, 2.5, 4.0], rows))


def adult(path: Path, rows: int = 6_000) -> People:
    """Return records of Adult: sex, occupation, hours a week, age, and fnlwgt as a survey weight."""
    table = pq.read_table(path, columns=["sex", "occupation", "hours_per_week", "age", "fnlwgt"]).slice(0, rows)
    columns = {n: table.column(n).combine_chunks() for n in table.column_names}
    codes = {n: np.unique(columns[n].to_numpy(False), return_inverse=True)[1] for n in ("sex", "occupation")}
    numbers = {n: columns[n].to_numpy(False).astype(float) for n in ("hours_per_week", "age", "fnlwgt")}
    weight = numbers["fnlwgt"] / numbers["fnlwgt"].mean()
    return People(codes["sex"], codes["occupation"], numbers["hours_per_week"], numbers["age"], weight)


# --- mechanisms -------------------------------------------------------------------------------------------------------


def whole(retention: list[float]) -> Mechanism:
    m = len(retention)
    domain = SensitiveDomain((Domain("value", tuple(f"v{k}" for k in range(m))),))
    return Mechanism.single(domain, PerturbationMatrix.from_retention(retention), (Bound(None),) * m)


def halves(m: int, retentions: tuple[float, float]) -> Mechanism:
    """Return two sub-tables: the first two thirds of the values, and the last two thirds."""
    domain = SensitiveDomain((Domain("value", tuple(f"v{k}" for k in range(m))),))
    third = m // 3
    tables = []
    for codes, p in zip((np.arange(m - third), np.arange(third, m)), retentions, strict=True):
        matrix = PerturbationMatrix.from_retention([p] * codes.size)
        tables.append(SubTable(codes.astype(np.int32), matrix, (Bound(None),) * codes.size))
    return Mechanism(domain, tuple(tables), LABEL)


def mechanisms(m: int) -> dict[str, Mechanism]:
    return {
        "uniform": whole([0.35] * m),
        "fine-grain": whole(np.linspace(0.2, 0.7, m).tolist()),
        "sub-tables": halves(m, (0.3, 0.5)),
    }


# --- many releases, each a group of one tally -------------------------------------------------------------------------


@dataclass(frozen=True)
class Covered(Coverage):
    """A coverage of figures some of whose intervals have no ends."""

    bounded: FloatArray  # the share of releases in which a cell's interval has ends

    @property
    def is_right(self) -> bool:
        low, high = self.cells >= LOWEST, (self.cells <= HIGHEST) | (self.bounded < 0.99)
        return bool(low.all() and high.all() and 0.93 <= self.mean <= 0.97)

    def __str__(self) -> str:
        return f"{super().__str__()}; ends in {self.bounded.min():.1%} of the releases at least"


def numbers_of(measure: Measure) -> set[Number]:
    """Return what is summed for a figure: its totals, and their products."""
    return {*measure.totals, *(one * other for one in measure.totals for other in measure.totals)}


@dataclass(frozen=True)
class Study:
    """A table, its mechanism and the target; every release deals and draws anew (and for a population samples anew)."""

    people: People
    mechanism: Mechanism
    target: Target
    weighted: bool
    releases: int = RELEASES
    seed: int = 7

    @property
    def rows(self) -> int:
        return self.people.group.size

    @cached_property
    def tally(self) -> Tally:
        """The sums over the published rows, the groups of the first release first."""
        groups, tables = self.people.groups, self.mechanism.tables
        numbers = {n for measure in MEASURES.values() for n in numbers_of(measure)} | {ROWS}
        sums = {n: [np.zeros((self.releases * groups, t.matrix.outputs)) for t in tables] for n in numbers}
        rng, key = simulation(self.seed), SecretKey.from_seed(self.seed)
        for k in range(self.releases):
            people = self.people
            if self.target == "population":
                people = people.take(rng.integers(0, self.rows, self.rows))
            label = dealt(self.mechanism, people.value, rng)
            words = key.words(Step.PERTURB, file=k, start=0, count=self.rows)
            published = self.mechanism.sample(people.value.astype(np.int32), label.astype(np.int32), words)
            for t, table in enumerate(tables):
                mine, outputs = label == t, table.matrix.outputs
                flat = people.group[mine] * outputs + table.rows_of(published[mine])
                for number, arrays in sums.items():
                    weights = people.number(number, self.weighted and number is not ROWS)[mine]
                    added = np.bincount(flat, weights=weights, minlength=groups * outputs)
                    arrays[t][k * groups : (k + 1) * groups] = added.reshape(groups, -1)
        size = self.releases * groups
        keys = (
            Key("release", tuple(range(self.releases)), np.repeat(np.arange(self.releases), groups)),
            Key("group", tuple(range(groups)), np.tile(np.arange(groups), self.releases)),
        )
        weight = "w" if self.weighted else ""
        by_sql = {number.summed(weight if number is not ROWS else ""): arrays for number, arrays in sums.items()}
        return Tally(keys, size, np.arange(size), ((),), np.zeros(size, dtype=np.int64), weight, by_sql, "values")

    def truth(self, measure: Measure) -> FloatArray:
        """Return the true figure of each group and value."""

        def totals(number: Number) -> FloatArray:
            flat = self.people.group * self.mechanism.domain.size + self.people.value
            z = self.people.number(number, self.weighted)
            size = self.people.groups * self.mechanism.domain.size
            return np.bincount(flat, weights=z, minlength=size).reshape(self.people.groups, -1)

        top = totals(measure.top)
        if measure.bottom is not None:
            with np.errstate(invalid="ignore"):  # cells without a record, which are not judged
                return top / totals(measure.bottom)
        if measure.partition is None:
            return top
        return top / (top.sum(axis=1, keepdims=True) if measure.partition else top.sum())

    def figures(self, measure: Measure) -> FloatArray:
        cells = cells_of(self.mechanism.domain, ("value",))
        channel = Channel(self.mechanism.domain, self.mechanism.tables, self.mechanism.published)
        figures = Figures(self.tally, lambda pattern: cells.of_code, cells.size, self.rows, self.target, channel)
        group = np.arange(self.tally.groups)
        part = group if measure.partition else group // self.people.groups
        return evaluate(figures, measure, Partition(np.zeros(cells.size, dtype=np.int64), part), np.arange(cells.size))

    def coverage(self, measure: Measure, factor: float = 1.0, least: float = LEAST, most: float = np.inf) -> Covered:
        """Return how often the intervals (their standard errors times a factor) hold the truth in judged cells."""
        (value, error, *quotient), truth = self.figures(measure), self.truth(measure)
        q = Quotient(*quotient)
        wrong = replace(
            q,
            top_variance=q.top_variance * factor**2,
            covariance=q.covariance * factor**2,
            bottom_variance=q.bottom_variance * factor**2,
        )
        answer = Answer((), value, factor * error, value, value, "inverse", self.target, 0.95, (), wrong)
        lower, upper = (end.reshape(self.releases, *truth.shape) for end in answer.interval())
        covered = ((lower <= truth) & (truth <= upper)).mean(axis=0)
        bounded = np.isfinite(upper).mean(axis=0)
        counts = np.bincount(self.people.group * truth.shape[1] + self.people.value, minlength=truth.size)
        judged = (counts.reshape(truth.shape) >= least) & (counts.reshape(truth.shape) < most)
        return Covered(covered[judged], bounded[judged])


def dealt(mechanism: Mechanism, value: Codes, rng: Any) -> Codes:
    """Return the sub-table of each record: those that have its value, with equal chances."""
    if mechanism.label is None:
        return np.zeros(value.size, dtype=np.int64)
    holds = np.array([np.isin(np.arange(mechanism.domain.size), table.codes) for table in mechanism.tables])
    both = holds.all(axis=0)[value]
    return np.where(both, rng.integers(0, 2, value.size), np.where(holds[0][value], 0, 1))


# --- the claim --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["table", slow("population")])
@pytest.mark.parametrize(
    ("kind", "weighted"),
    [
        *(("uniform", False), ("fine-grain", False), ("sub-tables", False), ("uniform", True)),
        *(slow("fine-grain", True), slow("sub-tables", True)),
    ],
)
def test_synthetic_table(kind: str, target: Target, weighted: bool) -> None:
    study = Study(synthetic(), mechanisms(8)[kind], target, weighted)
    for name, measure in MEASURES.items():
        found = study.coverage(measure)
        print(f"synthetic {kind} {target} {weighted} {name}: {found}")
        assert found.is_right, (name, str(found))


@pytest.mark.parametrize("target", ["table", slow("population")])
@pytest.mark.parametrize("kind", ["uniform", "fine-grain", "sub-tables"])
def test_adult(kind: str, target: Target, real_data: Callable[[str], Path]) -> None:
    people = adult(real_data("adult_complete_45222.parquet"))
    study = Study(people, mechanisms(14)[kind], target, kind == "uniform")
    for name, measure in MEASURES.items():
        found = study.coverage(measure)
        print(f"adult {kind} {target} {name}: {found}")
        assert found.is_right, (name, str(found))


@pytest.mark.parametrize("factor", [0.85, 1.2])
@pytest.mark.parametrize("target", ["table", "population"])
def test_wrong_standard_errors_fail(target: Target, factor: float) -> None:
    study = Study(synthetic(), mechanisms(8)["fine-grain"], target, True)
    for name, measure in MEASURES.items():
        assert not study.coverage(measure, factor).is_right, name
