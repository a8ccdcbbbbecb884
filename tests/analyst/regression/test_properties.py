"""What must not change a fit: merging states, splitting or permuting cells, patterns, reading in parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.analyst.regression.blocks import Block, Noise
from sfumato.analyst.regression.families import Family, Linear, Logistic, Multinomial, Poisson
from sfumato.analyst.regression.fit import fit
from sfumato.analyst.regression.problem import Cells
from sfumato.analyst.regression.result import Fit
from sfumato.values.arrays import FloatArray
from tests.analyst.regression.cases import CASES, source_of
from tests.analyst.regression.made import Model, uniform
from tests.analyst.regression.whole import Whole
from tests.constants import set_constants


def same(one: Fit, other: Fit) -> None:
    """Assert that two fits are the same but for rounding."""
    assert np.allclose(one.coefficients, other.coefficients, rtol=1e-8, atol=1e-9)
    assert np.allclose(one.naive, other.naive, rtol=1e-8, atol=1e-9)
    assert np.allclose(one.table, other.table, rtol=1e-7, atol=1e-13)
    assert np.allclose(one.population, other.population, rtol=1e-7, atol=1e-13)
    assert np.allclose(one.log_likelihood, other.log_likelihood, rtol=1e-9)


def covariate_of_four(random: np.random.Generator) -> tuple[Model, FloatArray]:
    """Return a model in which states 1 and 2 are one level, and 3 another."""
    w = np.repeat(random.normal(size=6), 2)
    rows = [[[1, x, 0, 0], [1, x, 1, 0], [1, x, 1, 0], [1, x, 0, 1]] for x in w]
    P = 0.5 * np.eye(4) + 0.5 * random.dirichlet(np.ones(4), size=4).T
    model = Model(Logistic(), np.array(rows, dtype=float), (np.arange(12) % 2.0)[:, None], P)
    return model, model.published(random, random.integers(100, 300, size=(12, 4)).astype(float))


@settings(max_examples=15)
@given(st.integers(0, 10_000))
def test_merged_states(seed: int) -> None:
    """States that the design does not tell apart may be one: their weights add up."""
    model, published = covariate_of_four(np.random.default_rng(seed))
    whole = model.source(published)
    cells, into = whole.cells, np.array([[1.0, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]])
    assert cells.published is not None
    merged = replace(
        cells,
        weights=cells.weights @ into,
        design=cells.design[:, [0, 1, 3]],
        published=np.array([0, 1, 1, 2])[cells.published],
        chances=None,
    )
    same(fit(whole), fit(replace(whole, cells=merged)))


@settings(max_examples=15)
@given(st.integers(0, 10_000))
def test_cells_may_be_split_and_permuted(seed: int) -> None:
    """A cell is as good as its rows, in any order, with or without patterns."""
    random = np.random.default_rng(seed)
    model, published = covariate_of_four(random)
    whole = model.source(published)
    cells = whole.cells
    assert cells.pattern is not None
    assert cells.published is not None
    order = random.permutation(np.repeat(np.arange(cells.count.size), 2))
    half = cells.count[order] / 2
    split = replace(
        cells,
        weights=cells.weights[order],
        design=cells.design[cells.pattern[order]],
        outcome=cells.outcome[cells.pattern[order]],
        pattern=None,
        published=cells.published[order],
        chances=None,
        count=half,
        squares=half,
    )
    same(fit(whole), fit(replace(whole, cells=split)))


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.sampled_from([Logistic(), Poisson(), Linear(), Multinomial(("a", "b", "c"))]))
def test_quick_noise_is_the_plain_one(seed: int, family: Family) -> None:
    """Where the design does not depend on the state, residuals are summed first; psi itself gives the same."""
    random = np.random.default_rng(seed)
    model = Model(family, random.normal(size=(9, 1, 2)), np.array([[0.0, 1, 2]]), uniform(3, 0.5))
    if isinstance(family, Logistic):
        model = replace(model, outcome=np.array([[0.0, 1, 1]]))
    cells = model.source(random.integers(0, 5, size=(9, 3)).astype(float)).cells
    beta = random.normal(size=2 * family.equations)
    for block in (Block(cells, family), Block(_without_patterns(cells), family)):
        quick, plain = block.score_noise(beta), block.noise(block.psi(beta))
        assert np.allclose(quick.table, plain.table, rtol=1e-9, atol=1e-9)
        assert np.allclose(quick.population, plain.population, rtol=1e-9, atol=1e-9)


FAMILIES = [Logistic(), Poisson(), Linear(), Multinomial(("a", "b", "c"))]


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from(FAMILIES), st.booleans(), st.booleans(), st.booleans())
def test_sums_by_design_are_the_plain_ones(
    seed: int, family: Family, partial: bool, hidden_outcome: bool, patterned: bool
) -> None:
    """A hidden covariate: sums by outcome, class and design, over runs of levels, are those of psi for each cell."""
    random = np.random.default_rng(seed)
    cells = _of_hidden_level(random, family, partial=partial, hidden_outcome=hidden_outcome)
    cells = cells if patterned else _without_patterns(cells)
    beta, u = (0.5 * random.normal(size=5 * family.equations) for _ in range(2))
    quick, plain = Block(cells, family), Block(cells, family, passing=True)
    assert quick.kinds is not None or not patterned
    assert plain.kinds is None
    assert_same_noise(quick.score_noise(beta), plain.noise(plain.psi(beta)))
    assert_same_noise(quick.noise_along(beta, u), plain.noise(plain.psi(beta) @ u[:, None]))
    assert_same_noise(quick.curvature_noise(beta, u), plain.noise(plain.curvature(beta, u[:, None])))
    for share in (0.0, 0.4, 1.0):
        one, other = quick.sums(beta, share), plain.sums(beta, share)
        for name in ("score", "information", "scale"):
            assert np.allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-9)
    assert np.allclose(quick.psi(beta), plain.psi(beta), rtol=1e-12, atol=1e-12)
    assert np.allclose(quick.predictor(beta), plain.predictor(beta), rtol=1e-12, atol=1e-12)
    assert quick.log_likelihood(beta) == pytest.approx(plain.log_likelihood(beta), rel=1e-9)


def assert_same_noise(one: Noise, other: Noise) -> None:
    assert np.allclose(one.table, other.table, rtol=1e-8, atol=1e-8)
    assert np.allclose(one.population, other.population, rtol=1e-9, atol=1e-9)


def _of_hidden_level(random: np.random.Generator, family: Family, *, partial: bool, hidden_outcome: bool) -> Cells:
    """Return cells of 24 designs with two outcomes each, or one that depends on the state; the states are levels."""
    states, designs = np.eye(3)[:, 1:], 24
    x, sex = random.integers(0, 4, designs) / 4, random.integers(0, 2, designs)
    rows = [[[1, x[g], sex[g], *states[k]] for k in range(3)] for g in range(designs)]
    most = 1 if isinstance(family, Logistic) else 2
    own = random.integers(0, most + 1, (1, 3)) if hidden_outcome else np.repeat([[0], [most]], designs, axis=0)
    model = Model(family, np.array(rows * 2, dtype=float), own.astype(float), uniform(3, 0.5))
    cells = model.source(random.integers(0, 5, size=(2 * designs, 3)).astype(float)).cells
    return replace(cells, used=np.array([[True, True, False]])) if partial else cells


def _without_patterns(cells: Cells) -> Cells:
    assert cells.pattern is not None
    outcome = cells.outcome if len(cells.outcome) == 1 else cells.outcome[cells.pattern]
    return replace(cells, design=cells.design[cells.pattern], outcome=outcome, pattern=None)


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.sampled_from([Logistic(), Poisson(), Linear(), Multinomial(("a", "b", "c"))]))
def test_derivatives(seed: int, family: Family) -> None:
    """U is the gradient of L, and -H that of U, by differences."""
    random = np.random.default_rng(seed)
    design = random.normal(size=(6, 3, 2))
    model = Model(family, design, np.array([[0.0, 1, 1 if isinstance(family, Logistic) else 2]]), uniform(3, 0.5))
    block = Block(model.source(random.integers(1, 5, size=(6, 3)).astype(float)).cells, family)
    beta, small = 0.3 * random.normal(size=2 * family.equations), 1e-5
    sums = block.sums(beta)
    for j, step in enumerate(small * np.eye(beta.size)):
        slope = (block.log_likelihood(beta + step) - block.log_likelihood(beta - step)) / (2 * small)
        change = (block.sums(beta + step).score - block.sums(beta - step).score) / (2 * small)
        assert slope == pytest.approx(sums.score[j], rel=1e-5, abs=1e-5)
        assert np.allclose(change, -sums.information[:, j], rtol=1e-5, atol=1e-5)


@dataclass
class InParts:
    """A source that is read a few patterns at a time, and counts how often."""

    whole: Whole
    at_once: int
    reads: int = 0

    def __post_init__(self) -> None:
        self.names, self.indicator, self.family = self.whole.names, self.whole.indicator, self.whole.family
        self.buckets = None

    def batches(self) -> Iterator[Cells]:
        """Yield the cells, in order."""
        self.reads += 1
        cells = self.whole.cells
        assert cells.pattern is not None
        for first in range(0, cells.design.shape[0], self.at_once):
            chosen = (cells.pattern >= first) & (cells.pattern < first + self.at_once)
            last = first + self.at_once
            assert cells.published is not None
            yield Cells(
                weights=cells.weights[chosen],
                design=cells.design[first:last],
                outcome=cells.outcome if cells.outcome.shape[0] == 1 else cells.outcome[first:last],
                count=cells.count[chosen],
                squares=cells.squares[chosen],
                pattern=cells.pattern[chosen] - first,
                published=cells.published[chosen],
            )


@pytest.mark.parametrize("place", ["outcome", "covariate"])
def test_streams(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells that are read in parts give the fit of those in memory, in few passes, and say what their intervals are."""
    random = np.random.default_rng(2)
    if place == "covariate":
        model, published = covariate_of_four(random)
    else:
        model = Model(Logistic(), random.normal(size=(40, 1, 3)), np.array([[0.0, 1.0]]), uniform(2, 0.5))
        published = model.published(random, random.integers(100, 300, size=(40, 2)).astype(float))
    whole = model.source(published)
    expected, told = fit(whole), []
    set_constants(monkeypatch, "sfumato.analyst.regression", NUMBERS_HELD=published.size * 2)
    parts = InParts(whole, 4)
    found = fit(parts, progress=told.append)
    same(expected, found)
    assert found.rows == expected.rows
    assert parts.reads <= 6
    assert sum(told) >= 3 * whole.cells.count.size
    assert found.intervals_by == "wald"
    assert "rows were read in parts" in found.notes[-1]
    margin = 1.959963984540054 * found.standard_errors("table")
    assert np.allclose(found.interval("table")[:, 1], found.coefficients + margin)


def test_blocks_of_few_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks are of a size that fits; how many there are changes nothing."""
    model, published = covariate_of_four(np.random.default_rng(6))
    expected = fit(model.source(published))
    set_constants(monkeypatch, "sfumato.analyst.regression", NUMBERS_AT_ONCE=50)
    same(expected, fit(model.source(published)))


def test_buckets_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a bucket may lie in several blocks and batches."""
    whole = source_of(CASES["Anatomy, outcome"])
    expected = fit(whole)
    set_constants(monkeypatch, "sfumato.analyst.regression", NUMBERS_AT_ONCE=2_000)
    same(expected, fit(whole))
    set_constants(monkeypatch, "sfumato.analyst.regression", NUMBERS_HELD=5_000)
    same(expected, fit(_Slices(whole)))


@dataclass
class _Slices:
    """Rows, a hundred at a time."""

    whole: Whole

    def __post_init__(self) -> None:
        self.names, self.indicator, self.family = self.whole.names, self.whole.indicator, self.whole.family
        self.buckets = self.whole.buckets

    def batches(self) -> Iterator[Cells]:
        """Yield slices of all arrays."""
        cells = self.whole.cells
        for first in range(0, cells.count.size, 100):
            fields = ("weights", "design", "outcome", "count", "squares", "naive", "group")
            yield Cells(**{name: getattr(cells, name)[first : first + 100] for name in fields})
