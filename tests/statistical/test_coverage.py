"""95% intervals hold what they say: over 2,000 releases they cover the truth 93% to 97% of the time.

Interval: estimate -+ 1.96 sqrt(variance). The truth is the table's count (`table`: one table, released anew each
time) or rows * Pr(cell) (`population`: a new random table each time). Cells with a true count of at least 30 are
judged.

What the limits mean. The mean coverage over the cells of a case must lie in [93%, 97%]. A single cell's measured
coverage has a standard deviation of 0.5%, so the same limits would now and then fail a cell whose intervals are
fine; single cells must lie between the 1e-6 quantile of a true coverage of 94% and the 1 - 1e-6 quantile of one of
96%, which is [91.3%, 97.9%]: the false-alarm rate is at most 1e-6 a cell and side wherever the true coverage is within
a point of 95%. Power: standard errors that are 15% too small cover 90.4%, 20% too large 98.1%; both are shown to fail.

Seeds are fixed: what passes once passes always.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

from sfumato.analyst.randomized import inverse
from sfumato.methods.subset.method import best_deck, graded_deck
from sfumato.values.arrays import FloatArray
from sfumato.values.matrix.base import Matrix
from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato.values.mechanism import Bound
from sfumato.values.randomness import SecretKey, Step, simulation
from tests.conftest import variance_given_table, variance_in_population

RELEASES = 2_000
LEVEL = 0.95
LEAST = 30
LOWEST = float(binom.ppf(1e-6, RELEASES, 0.94)) / RELEASES
HIGHEST = float(binom.isf(1e-6, RELEASES, 0.96)) / RELEASES

Target = Literal["table", "population"]
Counts = npt.NDArray[np.int64]  # [groups, m]

SYNTHETIC: Counts = np.array(
    [
        [30, 55, 90, 160, 300, 420, 700, 950],
        [800, 35, 30, 450, 31, 12, 60, 0],
        [40, 40, 45, 50, 50, 60, 60, 70],
    ]
)
EIGHT = {"uniform": [0.35] * 8, "fine-grain": [0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7]}


@dataclass(frozen=True)
class Coverage:
    """The share of releases whose interval holds the truth, for the cells that are judged."""

    cells: FloatArray

    @property
    def mean(self) -> float:
        return float(self.cells.mean())

    @property
    def is_right(self) -> bool:
        single = (self.cells >= LOWEST).all() and (self.cells <= HIGHEST).all()
        return bool(single and 0.93 <= self.mean <= 0.97)

    def __str__(self) -> str:
        return f"mean {self.mean:.3%}, cells {self.cells.min():.2%} to {self.cells.max():.2%} ({self.cells.size})"


def coverage(truth: Counts, published: FloatArray, variance: FloatArray, matrix: Matrix) -> Coverage:
    """Return the coverage of the intervals; published and variance are [releases, groups, m]."""
    half = NormalDist().inv_cdf((1 + LEVEL) / 2) * np.sqrt(variance)
    covered = np.abs(inverse.estimate(matrix, published) - truth) <= half
    return Coverage(covered.mean(axis=0)[truth >= LEAST])


def variance_for(target: Target, matrix: Matrix, published: FloatArray, rows: int) -> FloatArray:
    if target == "table":
        return variance_given_table(matrix, published)
    return variance_in_population(matrix, published, rows)


# --- releases -----------------------------------------------------------------------------------------------


def tables(truth: Counts, target: Target, rng: np.random.Generator) -> Counts:
    """Return the tables that are released, [releases, groups, m]: one and the same, or random samples of its size."""
    if target == "table":
        return np.broadcast_to(truth, (RELEASES, *truth.shape))
    share = truth.ravel() / truth.sum()
    return rng.multinomial(truth.sum(), share, size=RELEASES).reshape(RELEASES, *truth.shape)


def published_records(matrix: Matrix, originals: Counts, key: SecretKey) -> FloatArray:
    """Return published counts by the real path: each record of each release drawn with its own word."""
    m = matrix.size
    published = np.empty(originals.shape)
    cells = np.arange(originals[0].size)
    for k, table in enumerate(originals):
        cell = np.repeat(cells, table.ravel())  # the group and the value of every record
        words = key.words(Step.PERTURB, file=k, start=0, count=cell.size)
        drawn = matrix.sample((cell % m).astype(np.int32), words)
        published[k] = np.bincount(cell // m * m + drawn, minlength=table.size).reshape(table.shape)
    return published


def published_counts(matrix: Matrix, originals: Counts, rng: np.random.Generator) -> FloatArray:
    """Return published counts from the same law, a multinomial for each cell: fast, for large tables."""
    columns = matrix.dense().T
    columns = columns / columns.sum(axis=1, keepdims=True)
    published: FloatArray = rng.multinomial(originals, columns).sum(axis=-2).astype(float)
    return published


# --- a synthetic table, record by record --------------------------------------------------------------------


@pytest.mark.parametrize("target", ["table", "population"])
@pytest.mark.parametrize("kind", EIGHT)
def test_synthetic_table(kind: str, target: Target) -> None:
    matrix = PerturbationMatrix.from_retention(EIGHT[kind])
    originals = tables(SYNTHETIC, target, simulation(1))
    published = published_records(matrix, originals, SecretKey.from_seed(11))
    variance = variance_for(target, matrix, published, int(SYNTHETIC.sum()))
    found = coverage(SYNTHETIC, published, variance, matrix)
    print(f"synthetic {kind} {target}: {found}")
    assert found.is_right, str(found)
    errors = inverse.estimate(matrix, published) - SYNTHETIC
    assert (np.abs(errors.mean(axis=0)) <= 5 * errors.std(axis=0) / np.sqrt(RELEASES)).all()  # no bias


# --- cards --------------------------------------------------------------------------------------------------


STRICT = Bound(Fraction(3))
CARDS: dict[str, Callable[[], Matrix]] = {
    "subset": lambda: best_deck(8, Fraction(3)),
    "graded": lambda: _graded((STRICT,) * 3 + (Bound(Fraction(9)),) * 5),
}


def _graded(bounds: tuple[Bound, ...]) -> Matrix:
    found = graded_deck(bounds)
    assert found is not None
    return found.matrix


@pytest.mark.parametrize("target", ["table", "population"])
@pytest.mark.parametrize("kind", CARDS)
def test_cards_by_their_law(kind: str, target: Target) -> None:
    matrix, rng = CARDS[kind](), simulation(7)
    published = published_counts(matrix, tables(SYNTHETIC, target, rng), rng)
    variance = variance_for(target, matrix, published, int(SYNTHETIC.sum()))
    found = coverage(SYNTHETIC, published, variance, matrix)
    print(f"cards {kind} {target}: {found}")
    assert found.is_right, str(found)
    assert not coverage(SYNTHETIC, published, variance * 0.85**2, matrix).is_right


@pytest.mark.slow
@pytest.mark.parametrize("kind", CARDS)
def test_cards_record_by_record(kind: str) -> None:
    matrix, originals = CARDS[kind](), tables(SYNTHETIC, "table", simulation(8))
    published = np.zeros((*originals.shape[:2], matrix.outputs))
    key, cells = SecretKey.from_seed(13), np.repeat(np.arange(SYNTHETIC.size), SYNTHETIC.ravel())
    for k in range(RELEASES):
        drawn = matrix.sample((cells % 8).astype(np.int32), key.words(Step.PERTURB, file=k, start=0, count=cells.size))
        np.add.at(published[k], (cells // 8, drawn), 1)
    found = coverage(SYNTHETIC, published, variance_for("table", matrix, published, int(SYNTHETIC.sum())), matrix)
    print(f"cards {kind}, record by record: {found}")
    assert found.is_right, str(found)


# --- the test of the test -----------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [0.85, 1.2])
@pytest.mark.parametrize("target", ["table", "population"])
def test_wrong_standard_errors_fail(target: Target, factor: float) -> None:
    matrix = PerturbationMatrix.from_retention(EIGHT["fine-grain"])
    rng = simulation(2)
    published = published_counts(matrix, tables(SYNTHETIC, target, rng), rng)
    right = variance_for(target, matrix, published, int(SYNTHETIC.sum()))
    assert coverage(SYNTHETIC, published, right, matrix).is_right
    assert not coverage(SYNTHETIC, published, right * factor**2, matrix).is_right


def test_the_other_targets_variance_fails() -> None:
    """For a population the given table's variance is too small, and the reverse: the two are not to be mixed up."""
    matrix = PerturbationMatrix.from_retention([0.8] * 8)
    rows = int(SYNTHETIC.sum())
    targets: tuple[Target, Target] = ("table", "population")
    for target, other in (targets, targets[::-1]):
        rng = simulation(3)
        published = published_counts(matrix, tables(SYNTHETIC, target, rng), rng)
        assert coverage(SYNTHETIC, published, variance_for(target, matrix, published, rows), matrix).is_right
        assert not coverage(SYNTHETIC, published, variance_for(other, matrix, published, rows), matrix).is_right


def test_both_ways_to_simulate_agree() -> None:
    """Mean and variance of the published counts, record by record and by multinomials (6 standard errors)."""
    matrix = PerturbationMatrix.from_retention(EIGHT["fine-grain"])
    originals = tables(SYNTHETIC, "table", simulation(4))
    slow = published_records(matrix, originals, SecretKey.from_seed(12))
    fast = published_counts(matrix, originals, simulation(4))
    spread = np.sqrt((slow.var(axis=0) + fast.var(axis=0)) / RELEASES)
    assert (np.abs(slow.mean(axis=0) - fast.mean(axis=0)) <= 6 * spread).all()
    assert np.abs(np.log(slow.var(axis=0) / fast.var(axis=0))).max() <= 6 * np.sqrt(4 / RELEASES)


# --- Adult --------------------------------------------------------------------------------------------------


def adult(path: Path, column: str) -> Counts:
    """Return the counts of a column's values, grouped by sex."""
    frame = pq.read_table(path, columns=["sex", column])
    codes = [np.unique(np.array(frame[name].to_pylist()), return_inverse=True) for name in ("sex", column)]
    (sexes, sex), (values, value) = codes
    return np.bincount(sex * len(values) + value, minlength=len(sexes) * len(values)).reshape(len(sexes), -1)


@pytest.mark.parametrize("target", ["table", "population"])
@pytest.mark.parametrize("kind", ["uniform", "fine-grain"])
@pytest.mark.parametrize("column", ["occupation", "income"])
def test_adult_by_sex(real_data: Callable[[str], Path], column: str, kind: str, target: Target) -> None:
    truth = adult(real_data("adult_complete_45222.parquet"), column)
    assert truth.sum() == 45_222
    m = truth.shape[1]
    matrix = PerturbationMatrix.from_retention([0.3] * m if kind == "uniform" else np.linspace(0.1, 0.5, m))
    rng = simulation(5)
    published = published_counts(matrix, tables(truth, target, rng), rng)
    found = coverage(truth, published, variance_for(target, matrix, published, 45_222), matrix)
    print(f"Adult {column} {kind} {target}: {found}")
    assert found.is_right, str(found)
