"""95% intervals from releases by groups hold what they say: counts, sums, averages, shares and ratios, with weights.

A table is dealt to groups anew for every release, by the real deal (in batches; for robust groups inside cells, where
some records are withheld). What DuckDB would sum is summed here, so the
code under test is what `Release.sql` runs after it. Given the table, the truth is that of the published records; for a
population the table is sampled anew, and the truth is that of the whole.

Cells with an expected count of at least 30 are judged: mean coverage in [93%, 97%], single cells between the 1e-6
quantiles of true coverages of 93.5% and 96.5%. Errors that are 15% too small, or 20% too large, must fail. Seeds are
fixed. Means over more releases: benchmarks/buckets.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from sfumato.analyst.answer import Answer, Key, Quotient, Target
from sfumato.analyst.ask.cells import Partition, cells_of
from sfumato.analyst.ask.measure import Measure
from sfumato.analyst.counting.tally import ROWS, Number
from sfumato.analyst.grouped.compositions import Kinds
from sfumato.analyst.grouped.dealt import Dealt, dealt_of
from sfumato.analyst.grouped.figures import BucketFigures
from sfumato.analyst.grouped.tally import BucketTally
from sfumato.analyst.measures import evaluate
from sfumato.methods.robustness.grouping import group_records
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.bucket_deal import Deal, Runs
from sfumato.values.randomness import simulation
from tests.conftest import slow
from tests.statistical.test_figures_coverage import MEASURES, Covered, People, adult, numbers_of, synthetic

RELEASES = 400
LEAST = 30
LOWEST = float(binom.ppf(1e-6, RELEASES, 0.935)) / RELEASES
HIGHEST = float(binom.isf(1e-6, RELEASES, 0.965)) / RELEASES
WITHHELD = -1
BY_TARGET = ("table", slow("population"))


# --- deals ------------------------------------------------------------------------------------------------------------


def anatomy(people: People, size: int, rng: np.random.Generator) -> IntArray:
    """Return the group of each record, dealt in batches as a release by Anatomy is."""
    counts = np.bincount(people.value)
    runs = Runs.of_table(counts, people.value.size // size)
    order = np.lexsort((rng.random(runs.pieces[0].size), runs.batch_of_piece))
    record = rng.permutation(people.value.size)
    record = record[np.argsort(people.value[record], kind="stable")]
    group = np.empty(record.size, dtype=np.int64)
    group[record] = Deal(runs, order).group_of(*_every_record(counts))
    return group


def _every_record(counts: IntArray) -> tuple[IntArray, IntArray]:
    run = np.repeat(np.arange(counts.size), counts)
    return run, np.arange(run.size) - (np.cumsum(counts) - counts)[run]


def cells(people: People) -> IntArray:
    """Return the cell of each record: three classes of y."""
    return np.searchsorted(np.quantile(people.y, [0.4, 0.75]), people.y).astype(np.int64)


def robust(people: People, size: int, rng: np.random.Generator) -> IntArray:
    """Return the group of each record, dealt inside cells; -1 for those that are withheld."""
    cell, order = cells(people), rng.permutation(people.value.size).astype(np.uint64)
    return group_records(cell, people.value, [cell], order, size)


def mixing(people: People, size: int, rng: np.random.Generator) -> IntArray:
    """Return the same, with every 25th group of the first cell joined to one of another cell."""
    group, cell = robust(people, size, rng), cells(people)
    first, other = (np.unique(group[(group >= 0) & chosen])[::25] for chosen in (cell == 0, cell > 0))
    for one, joined in zip(first, other, strict=False):
        group[group == one] = joined
    return group


Dealer = Callable[[People, int, np.random.Generator], IntArray]


# --- what DuckDB sums -------------------------------------------------------------------------------------------------


def summed(people: People, group: IntArray, dealt: Dealt, weighted: bool, by: tuple[str, ...]) -> BucketTally:
    """Return the sums by kind of group and column."""
    column = people.group if by else np.zeros_like(people.group)
    columns = people.groups if by else 1
    kind, size = (dealt.kinds[name].to_numpy() for name in ("kind", "size"))
    of_group, place = np.unique(group * columns + column, return_inverse=True)
    number, own_column = np.divmod(of_group, columns)
    keys, bins = np.unique(kind[number] * columns + own_column, return_inverse=True)
    totals = {n for measure in MEASURES.values() for n in measure.totals}
    products = {n for measure in MEASURES.values() for n in numbers_of(measure)}
    weight = "w" if weighted else ""
    sums, between, ends = {}, {}, {}
    for n in {ROWS} | totals | products:
        z = people.number(n, weighted and n is not ROWS)
        sql, by_group = n.summed(weight if n is not ROWS else ""), np.bincount(place, z)
        sums[sql] = np.bincount(bins, by_group)
        if n in totals:
            between[sql] = np.bincount(bins, by_group**2 / size[number])
            low, high = np.full(keys.size, np.inf), np.full(keys.size, -np.inf)
            np.minimum.at(low, bins[place], z)
            np.maximum.at(high, bins[place], z)
            ends[sql] = low, high
    named = (Key("group", tuple(range(columns)), np.arange(columns)),) if by else ()
    everyone = np.zeros(columns, dtype=np.int64)
    return BucketTally(
        named,
        columns,
        np.arange(columns),
        ((),),
        everyone,
        weight,
        keys // columns,
        keys % columns,
        sums,
        between,
        ends,
    )


# --- many releases ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Judged(Covered):
    @property
    def is_right(self) -> bool:
        low, high = self.cells >= LOWEST, (self.cells <= HIGHEST) | (self.bounded < 0.99)
        return bool(low.all() and high.all() and 0.93 <= self.mean <= 0.97)

    @property
    def is_enough(self) -> bool:
        return bool((self.cells >= LOWEST).all() and self.mean >= 0.93)


@dataclass(frozen=True, eq=False)
class Study:
    """Estimates of many releases, with their truths: [releases, groups, values] for each measure."""

    low: dict[str, FloatArray]
    high: dict[str, FloatArray]
    value: dict[str, FloatArray]
    truth: dict[str, FloatArray]
    counts: FloatArray
    loose: FloatArray  # of each release, the share of records in groups that mix cells

    def coverage(self, name: str, factor: float = 1.0) -> Judged:
        low, high = (
            np.where(np.isfinite(end[name]), self.value[name] + factor * (end[name] - self.value[name]), end[name])
            for end in (self.low, self.high)
        )
        inside = (low <= self.truth[name]) & (self.truth[name] <= high)
        judged = self.counts >= LEAST
        return Judged(inside.mean(axis=0)[judged], np.isfinite(high).mean(axis=0)[judged])


def true_figure(people: People, values: int, measure: Measure, weighted: bool) -> FloatArray:
    def totals(number: Number) -> FloatArray:
        flat, z = people.group * values + people.value, people.number(number, weighted)
        return np.bincount(flat, z, people.groups * values).reshape(people.groups, values)

    top = totals(measure.top)
    if measure.bottom is not None:
        with np.errstate(invalid="ignore", divide="ignore"):  # cells without a record, which are not judged
            return top / totals(measure.bottom)
    if measure.partition is None:
        return top
    return top / (top.sum(axis=1, keepdims=True) if measure.partition else top.sum())


def domain_of(values: int) -> SensitiveDomain:
    return SensitiveDomain((Domain("value", tuple(f"v{k}" for k in range(values))),))


def figures_of(
    people: People, group: IntArray, cell: IntArray | None, target: Target, weighted: bool, values: int
) -> BucketFigures:
    """Return the estimates from one release; `cell` has the cell of each record if the deal was inside cells."""
    line, count = np.unique(group * values + people.value, return_counts=True)
    stratum, mixed = np.zeros(int(group.max()) + 1, dtype=np.int64), 9
    if cell is not None:
        stratum[group] = cell
        stratum[group[stratum[group] != cell]] = mixed
    kinds = Kinds.of(line // values, line % values, count, stratum)
    dealt = dealt_of(kinds, values, mixed, inside_cells=cell is not None)
    tallies = {by: summed(people, group, dealt, weighted, by) for by in ((), ("group",))}
    of_code = cells_of(domain_of(values), ("value",))
    return BucketFigures(
        tallies["group",],
        lambda pattern: of_code.of_code,
        values,
        group.size,
        target,
        dealt,
        False,
        lambda by: tallies[by],
    )


def study(
    people: People, dealer: Dealer, size: int, target: Target, weighted: bool = False, releases: int = RELEASES
) -> Study:
    rng, values = simulation(11), int(people.value.max()) + 1
    found: dict[str, dict[str, list[FloatArray]]] = {name: {} for name in ("low", "high", "value", "truth")}
    shown, loose = np.arange(values), []
    for _ in range(releases):
        drawn = people if target == "table" else people.take(rng.integers(0, people.group.size, people.group.size))
        group = dealer(drawn, size, rng)
        cell, kept = None if dealer is anatomy else cells(drawn), np.flatnonzero(group != WITHHELD)
        own, group = drawn.take(kept), np.unique(group[kept], return_inverse=True)[1].astype(np.int64)
        figures = figures_of(own, group, None if cell is None else cell[kept], target, weighted, values)
        loose.append((figures.dealt.loose.mixed + figures.dealt.loose.untold) / group.size)
        for name, measure in MEASURES.items():
            tally, every = figures.tally, cells_of(domain_of(values), ("value",))
            of = Partition.of(tally.keys, tally.groups, every, measure.partition or ())
            got = evaluate(figures, measure, of, shown)
            value, error, *quotient = got
            answer = Answer((), value, error, value, value, "inverse", target, 0.95, (), Quotient(*quotient))
            truth = true_figure(people if target == "population" else own, values, measure, weighted)
            for key, array in zip(found, (*answer.interval(), value, truth.ravel()), strict=True):
                found[key].setdefault(name, []).append(array.reshape(truth.shape))
    counts = true_figure(people, values, MEASURES["count"], False)
    return Study(
        *({name: np.array(arrays) for name, arrays in found[key].items()} for key in found), counts, np.array(loose)
    )


# --- the claim --------------------------------------------------------------------------------------------------------


@cache
def counted(target: Target) -> Study:
    return study(synthetic(), anatomy, 3, target)


@pytest.mark.parametrize("target", BY_TARGET)
def test_anatomy(target: Target) -> None:
    for name in MEASURES:
        found = counted(target).coverage(name)
        print(f"anatomy {target} {name}: {found}")
        assert found.is_right, (name, str(found))


@pytest.mark.slow
def test_weighted() -> None:
    made = study(synthetic(), anatomy, 2, "table", weighted=True)
    for name in MEASURES:
        found = made.coverage(name)
        print(f"weighted {name}: {found}")
        assert found.is_right, (name, str(found))


def test_cells() -> None:
    """Robust groups withhold records that are no random sample: so the truth is that of the published ones."""
    made = study(synthetic(), robust, 2, "table")
    assert not made.loose.any()
    for name in MEASURES:
        found = made.coverage(name)
        print(f"cells {name}: {found}")
        assert found.is_right, (name, str(found))


def test_groups_that_mix_cells() -> None:
    """Their largest error is added: intervals hold the truth at least as often as they say."""
    made = study(synthetic(), mixing, 3, "table", releases=250)
    assert (made.loose > 0.02).all()
    for name in MEASURES:
        found = made.coverage(name)
        print(f"mixing {name}: {found}")
        assert found.is_enough, (name, str(found))


@pytest.mark.parametrize("target", BY_TARGET)
def test_adult(target: Target, real_data: Callable[[str], Path]) -> None:
    made = study(adult(real_data("adult_complete_45222.parquet")), anatomy, 4, target)
    for name in MEASURES:
        found = made.coverage(name)
        print(f"adult {target} {name}: {found}")
        assert found.is_right, (name, str(found))


@pytest.mark.parametrize("factor", [0.85, 1.2])
@pytest.mark.parametrize("target", BY_TARGET)
def test_wrong_standard_errors_fail(target: Target, factor: float) -> None:
    for name in MEASURES:
        assert not counted(target).coverage(name, factor).is_right, name
