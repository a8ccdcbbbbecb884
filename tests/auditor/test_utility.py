"""Distances and errors of estimated tables: worked by hand, and against slow sums over fractions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from statistics import mean, median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy

from sfumato.auditor.utility.distances import CubeErrors, RelativeErrors, cube_errors, distances, relative_errors
from sfumato.errors import UsageError
from sfumato.values.arrays import FloatArray
from sfumato.values.matrix.retention import PerturbationMatrix

NEAR = {"rel": 1e-12, "abs": 1e-12}


def table(rows: object) -> FloatArray:
    return np.array(rows, dtype=np.float64)


# --- worked by hand -----------------------------------------------------------------------------------------------


def test_distances_by_hand() -> None:
    """Shares 1/2, 1/4, 1/4, 0 against 1/4, 1/4, 1/4, 1/4.

    kl = 1/2 ln 2 + 0 + 0; chi-square = ((1/4)^2 + (1/4)^2) / (1/4); l1 = 1/4 + 1/4; l2 = sqrt(1/16 + 1/16).
    """
    found = distances(table([[4, 2], [2, 0]]), table([[3, 3], [3, 3]]))
    assert found.kl == pytest.approx(math.log(2) / 2)
    assert found.chi_square == pytest.approx(1 / 2)
    assert found.l1 == pytest.approx(1 / 2)
    assert found.l2 == pytest.approx(math.sqrt(1 / 8))
    assert found.total_variation == pytest.approx(1 / 4)
    assert (found.floor, found.floored) == (1 / 16, 0)


def test_the_floor_by_hand() -> None:
    """Ten records; the estimate is 8, 4 and -2, shares 0.8, 0.4 and -0.2; the floor is 1/20.

    Raised: 0.8, 0.4, 0.05, which sum to 1.25; so 0.64, 0.32, 0.04 for kl and chi-square. The rest takes what was given.
    """
    found = distances(table([5, 4, 1]), table([8, 4, -2]))
    assert (found.floor, found.floored) == (0.05, 1)
    assert found.kl == pytest.approx(0.5 * math.log(0.5 / 0.64) + 0.4 * math.log(0.4 / 0.32) + 0.1 * math.log(2.5))
    assert found.chi_square == pytest.approx(0.14**2 / 0.64 + 0.08**2 / 0.32 + 0.06**2 / 0.04)
    assert found.l1 == pytest.approx(0.3 + 0 + 0.3)
    assert found.l2 == pytest.approx(math.sqrt(0.18))
    coarser = distances(table([5, 4, 1]), table([8, 4, -2]), floor=0.5)
    assert (coarser.floor, coarser.floored) == (0.5, 2)  # 0.8, 0.5, 0.5 of 1.8
    assert coarser.chi_square == pytest.approx(
        sum((a - b / 18) ** 2 / (b / 18) for a, b in [(0.5, 8), (0.4, 5), (0.1, 5)])
    )


def test_the_truth_is_at_no_distance_unless_its_empty_cells_are_raised() -> None:
    full = distances(table([3, 1, 4]), table([6, 2, 8]))
    assert (full.kl, full.chi_square, full.l1, full.l2, full.floored) == (0, 0, 0, 0, 0)
    sparse = distances(table([4, 0]), table([4, 0]))  # 1 and 1/8 become 8/9 and 1/9
    assert (sparse.l1, sparse.floored) == (0, 1)
    assert sparse.kl == pytest.approx(math.log(9 / 8))
    assert sparse.chi_square == pytest.approx((1 / 81) / (8 / 9) + (1 / 81) / (1 / 9))


def test_relative_errors_by_hand() -> None:
    """1/4, 2/2, 0/1 and an empty cell estimated at -3; the median of 0, 1/4 and 1."""
    assert relative_errors(table([[4, 2], [1, 0]]), table([[5, 0], [1, -3]])) == RelativeErrors(
        mean=pytest.approx(5 / 12), median=0.25, cells=3, zero_cells=1, zero_mean_error=3
    )


def test_cube_errors_by_hand() -> None:
    """Cells (3, 1), (0, 4), estimated at (2, 2), (1, 1): rows 4, 4 at 4, 2; columns 3, 5 at 3, 3; total 8 at 6."""
    found = cube_errors(table([[3, 1], [0, 4]]), table([[2, 2], [1, 1]]))
    total, margins, joint = found.by_columns
    assert total == RelativeErrors(0.25, 0.25, 1, 0, pytest.approx(math.nan, nan_ok=True))
    assert (margins.mean, margins.cells) == (pytest.approx((0 + 1 / 2 + 0 + 2 / 5) / 4), 4)
    assert joint == relative_errors(table([[3, 1], [0, 4]]), table([[2, 2], [1, 1]]))
    assert joint.mean == pytest.approx((1 / 3 + 1 + 3 / 4) / 3)
    assert found.pooled.mean == pytest.approx((0.25 + 0.9 + 1 / 3 + 1 + 3 / 4) / 8)
    assert (found.pooled.cells, found.pooled.zero_cells, found.pooled.zero_mean_error) == (8, 1, 1)


def test_without_any_record_there_is_no_relative_error() -> None:
    found = relative_errors(table([0, 0]), table([1, -3]))
    assert math.isnan(found.mean)
    assert math.isnan(found.median)
    assert (found.cells, found.zero_cells, found.zero_mean_error) == (0, 2, 2)


def test_what_cannot_be_compared() -> None:
    for measure in (distances, relative_errors, cube_errors):
        with pytest.raises(ValueError, match=r"shape \(1, 2\) for true counts of shape \(2,\)"):
            measure(table([1, 2]), table([[1, 2]]))
    with pytest.raises(UsageError, match="true counts sum to 0"):
        distances(table([0, 0]), table([1, 2]))
    with pytest.raises(UsageError, match="estimated counts sum to nan"):
        distances(table([1, 2]), table([1, math.nan]))
    for floor in (0.0, -0.1, 1.0, math.nan):
        with pytest.raises(UsageError, match="The floor is a share"):
            distances(table([1, 2]), table([1, 2]), floor)


# --- against slow sums over fractions -----------------------------------------------------------------------------

Counts = dict[tuple[int, ...], Fraction]


@st.composite
def two_tables(draw: st.DrawFn) -> tuple[FloatArray, FloatArray]:
    """A table of counts and an estimate of it, with one to four axes; both have records."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    size = math.prod(shape)
    truth = draw(st.lists(st.integers(0, 50), min_size=size, max_size=size).filter(any))
    estimate = draw(
        st.lists(st.integers(-800, 6400), min_size=size, max_size=size).filter(lambda cells: sum(cells) > 0)
    )
    return table(truth).reshape(shape), table(estimate).reshape(shape) / 64  # binary fractions: their sums are exact


def exact(counts: FloatArray) -> Counts:
    return {cell: Fraction(float(counts[cell])) for cell in np.ndindex(counts.shape)}


def slow_errors(truth: Counts, estimate: Counts) -> RelativeErrors:
    relative = [abs(truth[c] - estimate[c]) / truth[c] for c in truth if truth[c] > 0]
    zeros = [abs(estimate[c]) for c in truth if truth[c] == 0]
    figures = [float(f(x)) if x else math.nan for f, x in ((mean, relative), (median, relative), (mean, zeros))]
    a, b, c = (pytest.approx(x, nan_ok=True) for x in figures)
    return RelativeErrors(a, b, len(relative), len(zeros), c)


def margin(counts: Counts, kept: tuple[int, ...]) -> Counts:
    sums: Counts = {}
    for cell, value in counts.items():
        key = tuple(cell[k] for k in kept)
        sums[key] = sums.get(key, Fraction(0)) + value
    return sums


def slow_cube(truth: Counts, estimate: Counts, axes: int) -> CubeErrors:
    levels: list[tuple[Counts, Counts]] = []
    for columns in range(axes + 1):
        true, guessed = {}, {}
        for kept in itertools.combinations(range(axes), columns):
            true |= {(*kept, -1, *c): x for c, x in margin(truth, kept).items()}
            guessed |= {(*kept, -1, *c): x for c, x in margin(estimate, kept).items()}
        levels.append((true, guessed))
    pooled = [{k: x for level in levels for k, x in level[side].items()} for side in (0, 1)]
    return CubeErrors(slow_errors(*pooled), tuple(slow_errors(*level) for level in levels))


@given(two_tables(), st.one_of(st.none(), st.integers(1, 63)))
def test_distances_equal_their_slow_sums(tables: tuple[FloatArray, FloatArray], floor_in_64ths: int | None) -> None:
    truth, estimate = exact(tables[0]), exact(tables[1])
    n = sum(truth.values())
    floor = Fraction(1, 2 * n) if floor_in_64ths is None else Fraction(floor_in_64ths, 64)
    pi = {c: x / n for c, x in truth.items()}
    h = {c: x / sum(estimate.values()) for c, x in estimate.items()}
    raised = {c: max(x, floor) for c, x in h.items()}
    g = {c: x / sum(raised.values()) for c, x in raised.items()}
    found = distances(*tables, None if floor_in_64ths is None else float(floor))
    assert found.l1 == pytest.approx(float(sum(abs(pi[c] - h[c]) for c in pi)), **NEAR)
    assert found.total_variation == found.l1 / 2
    assert found.l2**2 == pytest.approx(float(sum((pi[c] - h[c]) ** 2 for c in pi)), **NEAR)
    assert found.chi_square == pytest.approx(float(sum((pi[c] - g[c]) ** 2 / g[c] for c in pi)), **NEAR)
    assert found.kl == pytest.approx(
        math.fsum(pi[c] * math.log(pi[c] / g[c]) for c in pi if pi[c]), rel=1e-12, abs=1e-12
    )
    assert found.kl == pytest.approx(
        entropy(list(map(float, pi.values())), list(map(float, g.values()))), rel=1e-12, abs=1e-12
    )
    assert found.floor == float(floor)
    on_it = sum(abs(x - floor) < Fraction(1, 10**12) for x in h.values())  # rounding decides of these
    assert abs(found.floored - sum(x < floor for x in h.values())) <= on_it


@given(two_tables())
def test_distances_keep_their_inequalities(tables: tuple[FloatArray, FloatArray]) -> None:
    """Where nothing is raised: 2 tv^2 <= kl <= ln(1 + chi-square), and l2 <= l1 <= sqrt(cells) l2."""
    truth, estimate = tables[0], np.abs(tables[1]) + 100
    found = distances(truth, estimate, 1e-9)
    assert found.floored == 0
    assert 2 * found.total_variation**2 <= found.kl * (1 + 1e-12) + 1e-12
    assert found.kl <= math.log1p(found.chi_square) * (1 + 1e-12) + 1e-12
    assert found.l2 <= found.l1 * (1 + 1e-12) + 1e-12
    assert found.l1 <= math.sqrt(truth.size) * found.l2 * (1 + 1e-12) + 1e-12


@given(two_tables())
def test_errors_equal_their_slow_sums(tables: tuple[FloatArray, FloatArray]) -> None:
    truth, estimate = exact(tables[0]), exact(tables[1])
    assert relative_errors(*tables) == slow_errors(truth, estimate)
    assert cube_errors(*tables) == slow_cube(truth, estimate, tables[0].ndim)


def test_the_cube_of_a_lone_total() -> None:
    found = cube_errors(table(8), table(6))
    assert found.pooled == found.by_columns[0] == relative_errors(table([8]), table([6]))


# --- what the distance of a randomized table is -----------------------------------------------------------------


def test_the_squared_distance_is_what_the_matrix_makes_it() -> None:
    """E l2^2 = (kappa - 1)/N with kappa = |P^-1|_F^2 / m; the mean of 2,000 within 5 of its standard errors."""
    matrix, counts, rng = (
        PerturbationMatrix.from_retention([0.4] * 5),
        np.array([500, 300, 150, 50, 0]),
        np.random.default_rng(5),
    )
    dense = matrix.dense()
    observed = sum(rng.multinomial(n, dense[:, i], size=2000) for i, n in enumerate(counts.tolist()))
    squares = np.array([distances(counts.astype(float), matrix.solve(o.astype(float))).l2 ** 2 for o in observed])
    due = ((np.linalg.inv(dense) ** 2).sum() / 5 - 1) / counts.sum()
    assert abs(squares.mean() - due) < 5 * squares.std() / math.sqrt(2000)
    assert abs(squares.mean() - 1.1 * due) > 5 * squares.std() / math.sqrt(2000)  # a tenth off would be noticed
