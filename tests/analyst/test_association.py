"""Associations: the paper's figures, worked examples, and every formula against a slow oracle."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import astuple
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from sfumato.analyst.two_by_two import Strength, two_by_two
from sfumato.analyst.two_way import Association, Normaliser, associate, independence_test
from sfumato.errors import UsageError
from sfumato.values.arrays import FloatArray
from sfumato.values.matrix.retention import PerturbationMatrix

# --- tools ------------------------------------------------------------------------------------------------------------


def sampling_covariance(x: FloatArray) -> FloatArray:
    """Return the population's covariance where nothing is randomized."""
    n = x.sum()
    covariance: FloatArray = n / (n - 1) * (np.diag(x.ravel()) - np.outer(x, x) / n)
    return covariance


def exact(x: FloatArray, normaliser: Normaliser = "second") -> Association:
    """Return the association of a table that is known."""
    zero = np.zeros((x.size, x.size))
    return associate(x, zero, sampling_covariance(x), x, independent=True, normaliser=normaliser)


def released(
    published: FloatArray, of_rows: FloatArray, of_columns: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return x and both covariances where rows and columns were randomized by matrices of their own."""
    inverse, o, n = np.linalg.inv(np.kron(of_rows, of_columns)), published.ravel(), published.sum()
    x, moment = inverse @ o, (inverse * o) @ inverse.T
    population = n / (n - 1) * (moment - np.outer(x, x) / n)
    return x.reshape(published.shape), moment - np.diag(x), population


def dense(retention: FloatArray | list[float]) -> FloatArray:
    return PerturbationMatrix.from_retention(retention).dense()


def random_covariance(rng: np.random.Generator, size: int, scale: float) -> FloatArray:
    """Return a covariance of counts whose sum is known."""
    a = rng.normal(size=(size, size)) * scale
    a -= a.mean(axis=0)
    return a @ a.T


def numeric_gradient(f: Callable[[FloatArray], float], p: FloatArray) -> FloatArray:
    h = 1e-6
    steps = np.eye(p.size) * h
    return np.array([(f(p + s) - f(p - s)) / (2 * h) for s in steps])


def numeric_hessian(f: Callable[[FloatArray], float], p: FloatArray) -> FloatArray:
    h = 1e-4
    steps = np.eye(p.size) * h
    return np.array(
        [[(f(p + s + t) - f(p + s - t) - f(p - s + t) + f(p - s - t)) / (4 * h * h) for t in steps] for s in steps]
    )


# --- AD, Tables 4 and 5 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "normaliser", "percent"),
    [
        ("education", "occupation", "second", 9.90),
        ("income", "occupation", "second", 2.74),
        ("sex", "occupation", "second", 4.40),
        ("race", "occupation", "second", 0.57),
        ("education", "income", "second", 11.54),
        ("education", "sex", "second", 0.68),
        ("education", "race", "second", 1.92),
        ("income", "sex", "second", 4.12),
        ("income", "race", "second", 1.07),
        ("sex", "race", "first", 1.08),  # the paper divided by the entropy of the first here
    ],
)
def test_the_papers_original_figures(
    real_data: Callable[[str], Path], first: str, second: str, normaliser: Normaliser, percent: float
) -> None:
    frame = pq.read_table(real_data("adult_complete_45222.parquet"), columns=[first, second, "split"]).to_pandas()
    frame = frame[frame["split"] == "train"]
    assert len(frame) == 30_162
    (a, i), (b, j) = (np.unique(frame[name].astype(str), return_inverse=True) for name in (first, second))
    table = np.bincount(i * len(b) + j, minlength=len(a) * len(b)).reshape(len(a), len(b)).astype(float)
    found = exact(table, normaliser).uncertainty
    assert round(100 * found.estimate, 2) == percent
    assert found.standard_error == found.bias == 0
    assert found.lower == found.upper == found.estimate
    assert normaliser in found.name


# --- worked examples --------------------------------------------------------------------------------------------------

SMOKERS = np.array([[30.0, 70.0], [10.0, 90.0]])


def test_a_known_2_x_2_table() -> None:
    """Risks 0.3 and 0.1: difference 0.2, ratio 3, odds ratio 27/7; Phi2 = (30*90 - 70*10)^2/(100*100*40*160) = 1/16."""
    found = exact(SMOKERS)
    assert found.cramers_v.estimate == pytest.approx(0.25)
    assert [m.name for m in found.two_by_two] == ["risk difference", "risk ratio", "odds ratio"]
    assert [m.estimate for m in found.two_by_two] == pytest.approx([0.2, 3, 27 / 7])
    assert all(m.lower == pytest.approx(m.upper) == m.estimate and m.bias == 0 for m in found.two_by_two)
    assert found.measures == (found.uncertainty, found.cramers_v, *found.two_by_two)
    assert found.test.naive_statistic == pytest.approx(200 / 16)


def test_all_or_nothing() -> None:
    assert [m.estimate for m in exact(np.diag([5.0, 7.0, 9.0])).measures] == pytest.approx([1, 1])
    nothing = exact(np.outer([1.0, 2, 3], [4.0, 5, 6, 7]))
    assert [m.estimate for m in nothing.measures] == pytest.approx([0, 0], abs=1e-7)
    assert nothing.test.p_value == pytest.approx(1)


def test_a_2_x_2_table_with_noise() -> None:
    """Known margins 100 and 100, errors 10 and 6 of the two risks' counts: the difference has error sqrt(136)/100."""
    one = np.array([[1.0, -1.0], [-1.0, 1.0]])
    covariance = np.kron(np.diag([1.0, 0]), 100 * one) + np.kron(np.diag([0, 1.0]), 36 * one)
    published = np.array([[40.0, 60.0], [30.0, 70.0]])
    difference, ratio, odds = two_by_two(SMOKERS, covariance, published)
    half = 1.959964 * math.sqrt(136) / 100
    assert (difference.lower, difference.upper) == pytest.approx((0.2 - half, 0.2 + half), abs=1e-6)
    assert difference.standard_error == pytest.approx(math.sqrt(136) / 100)
    assert (difference.naive, difference.bias) == pytest.approx((0.1, -0.1))
    # 10/6 = 1.67 < 1.96 standard errors: the second risk may be 0
    assert math.isinf(ratio.upper)
    assert math.isinf(odds.upper)
    assert "second risk is not told apart from 0" in ratio.note
    # and 30/10 = 3 > 1.96: the first may not
    assert 0 < ratio.lower < 3
    assert "first risk is not told apart" not in ratio.note
    assert ratio.standard_error == pytest.approx(math.sqrt(100 + 9 * 36) / 10)


# --- U and V against numeric derivatives ------------------------------------------------------------------------------


def information(p: FloatArray) -> float:
    return float((p * np.log(p / np.outer(p.sum(axis=1), p.sum(axis=0)))).sum())


def entropy(p: FloatArray) -> float:
    return float(-(p.sum(axis=0) * np.log(p.sum(axis=0))).sum())


def phi2(p: FloatArray) -> float:
    expected = np.outer(p.sum(axis=1), p.sum(axis=0))
    return float(((p - expected) ** 2 / expected).sum())


def strong_table(rng: np.random.Generator, r: int, c: int) -> FloatArray:
    x = rng.uniform(50, 150, (r, c)) * rng.uniform(0.5, 2, (r, c))
    x[0, 0] += 300  # so that U is not clipped
    return x


@pytest.mark.parametrize("shape", [(2, 2), (2, 4), (4, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_uncertainty_is_its_second_order_expansion(shape: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = strong_table(rng, *shape)
    covariance = random_covariance(rng, x.size, 1.5)
    n, p = x.sum(), (x / x.sum()).ravel()
    s = covariance / n**2

    def table(f: Callable[[FloatArray], float]) -> Callable[[FloatArray], float]:
        return lambda q: f(q.reshape(shape) / q.sum())

    i_hessian, h_hessian = (numeric_hessian(table(f), p) for f in (information, entropy))
    denominator = entropy(x / n) - np.trace(h_hessian @ s) / 2
    value = (information(x / n) - np.trace(i_hessian @ s) / 2) / denominator
    i_gradient, h_gradient = (numeric_gradient(table(f), p) for f in (information, entropy))
    gradient, product = (i_gradient - value * h_gradient) / denominator, i_hessian @ s / denominator
    variance = gradient @ s @ gradient - np.trace(product @ product) / 2
    found = associate(x, covariance, covariance, x, independent=True).uncertainty
    assert found.estimate == pytest.approx(value, rel=1e-5)
    assert found.standard_error == pytest.approx(math.sqrt(variance), rel=1e-4)
    assert found.naive == pytest.approx(information(x / n) / entropy(x / n))


@pytest.mark.parametrize("shape", [(2, 2), (2, 4), (4, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_cramers_v_is_its_second_order_expansion(shape: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = strong_table(rng, *shape)
    covariance = random_covariance(rng, x.size, 1.5)
    n, p, most = x.sum(), (x / x.sum()).ravel(), min(shape) - 1
    s = covariance / n**2

    def deviations(q: FloatArray) -> FloatArray:
        table = q.reshape(shape)
        return (table - np.outer(table.sum(axis=1), table.sum(axis=0))).ravel()

    jacobian = np.array([numeric_gradient(lambda q, k=k: float(deviations(q)[k]), p) for k in range(p.size)])
    weight = np.diag(1 / np.outer((x / n).sum(axis=1), (x / n).sum(axis=0)).ravel())
    product = weight @ jacobian @ s @ jacobian.T
    value = (phi2(x / n) - np.trace(product)) / most
    gradient = numeric_gradient(lambda q: phi2(q.reshape(shape)), p)
    variance = (gradient @ s @ gradient - 2 * np.trace(product @ product)) / most**2
    found = associate(x, covariance, covariance, x, independent=True).cramers_v
    assert found.estimate == pytest.approx(math.sqrt(value), rel=1e-6)
    assert found.standard_error == pytest.approx(math.sqrt(variance) / (2 * math.sqrt(value)), rel=1e-5)
    assert found.naive == pytest.approx(math.sqrt(phi2(x / n) / most))


def test_cramers_v_of_equal_noise_has_the_exact_interval() -> None:
    """Known margins of 200 in a 2 x 2 table leave one unknown, t in 100 +- t: V = |t|/100 has the law of |normal|."""
    one = np.kron([[1.0, -1.0], [-1.0, 1.0]], [[1.0, -1.0], [-1.0, 1.0]])  # the only direction with noise
    z = stats.norm.isf(0.025)
    for shift, error in [(40.0, 10.0), (15.0, 10.0), (10.0, 10.0), (5.0, 10.0)]:
        x = np.full((2, 2), 100.0) + shift * np.array([[1, -1], [-1, 1]])
        found = associate(x, error**2 * one, sampling_covariance(x), x, independent=True).cramers_v
        at_least_0 = max(shift / error, 1)  # an estimate below 0, shift^2 < error^2, has the interval of 0
        low, high = (mean_of_folded_normal(at_least_0, q) * error / 100 for q in (0.975, 0.025))
        assert found.lower == pytest.approx(low, abs=1e-6)
        assert (found.lower == 0) == (shift / error < z)
        assert found.upper == pytest.approx(high, rel=1e-6)
        if shift / error > 3:
            assert high == pytest.approx((shift + z * error) / 100, rel=1e-3)


def mean_of_folded_normal(value: float, probability: float) -> float:
    """Return m >= 0 with P(|N + m| <= value) = probability; 0 where m = 0 has less."""
    grid = np.linspace(0, value + 5, 2_000_001)
    below = stats.norm.cdf(value - grid) - stats.norm.cdf(-value - grid)
    return float(grid[np.argmin(np.abs(below - probability))]) if below[0] > probability else 0.0


def test_cramers_v_divides_by_no_margin_below_two_standard_errors() -> None:
    """The third column's count, 6, has a standard error of sqrt(18): the divisor is 2 sqrt(18)."""
    x, n = np.array([[300.0, 197, 3], [150, 347, 3]]), 1000
    covariance = np.kron(np.eye(2), np.array([[9.0, 0, -9], [0, 0, 0], [-9, 0, 9]]))
    d = x / n - np.outer([0.5, 0.5], [0.45, 0.544, 0.006])
    weight = 1 / np.outer([0.5, 0.5], [0.45, 0.544, 2 * math.sqrt(18) / n])
    # rows are known: d_ij changes by dx_ij - (dx_1j + dx_2j)/2, a variance of 9/2 wherever there is noise
    bias = (weight[:, [0, 2]] * 4.5 / n**2).sum()
    found = associate(x, covariance, sampling_covariance(x), x, independent=True).cramers_v
    assert found.estimate == pytest.approx(math.sqrt((weight * d**2).sum() - bias))


def test_almost_no_noise_gives_the_normal_interval() -> None:
    x = np.array([[300.0, 200, 100], [100, 200, 300]])
    covariance = 1e-12 * sampling_covariance(x)
    for measure in associate(x, covariance, sampling_covariance(x), x, independent=True).measures:
        assert measure.estimate == pytest.approx(measure.naive)
        assert measure.upper - measure.lower == pytest.approx(2 * 1.959964 * measure.standard_error, rel=1e-3)


# --- the test of independence -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_with_one_matrix_it_is_pearsons_test_of_the_published_table(seed: int) -> None:
    rng = np.random.default_rng(seed)
    r, c = int(rng.integers(2, 5)), int(rng.integers(2, 7))
    published = rng.poisson(rng.uniform(5, 200, (r, c))).astype(float) + 1
    noise = dense(rng.uniform(0.2, 0.9, r)), dense(rng.uniform(0.1, 0.9, c))
    for matrices in ((np.eye(r), np.eye(c)), (np.eye(r), noise[1]), noise):  # the last: both, independently
        x, covariance, population = released(published, *matrices)
        test = associate(x, covariance, population, published, independent=True).test
        pearson = stats.chi2_contingency(published, correction=False)
        assert (test.naive_statistic, test.naive_p_value) == pytest.approx((pearson.statistic, pearson.pvalue))
        assert test.statistic == pytest.approx(pearson.statistic, rel=1e-8)
        assert test.degrees == pearson.dof == (r - 1) * (c - 1)
        assert test.p_value == pytest.approx(stats.chi2.sf(test.statistic, test.degrees))


@pytest.mark.parametrize("seed", range(4))
def test_of_a_compound_is_walds_with_the_influence_of_every_record(seed: int) -> None:
    """The slow way: one weight matrix for each published value, its influence on D, and their covariance."""
    rng = np.random.default_rng(seed)
    r, c = int(rng.integers(2, 4)), int(rng.integers(2, 5))
    published = rng.poisson(300, r * c).astype(float)
    inverse, n = np.linalg.inv(dense(rng.uniform(0.2, 0.8, r * c))), published.sum()
    x = (inverse @ published).reshape(r, c)
    row, column = x.sum(axis=1) / n, x.sum(axis=0) / n
    influence = []
    for y in range(r * c):
        a = inverse[:, y].reshape(r, c)
        influence.append((a - np.outer(a.sum(axis=1), column) - np.outer(row, a.sum(axis=0))).ravel())
    centred = np.array(influence) - np.average(influence, axis=0, weights=published)
    covariance = n / (n - 1) * (centred.T * published) @ centred
    d = (x - n * np.outer(row, column)).ravel()
    wald = d @ np.linalg.pinv(covariance, rcond=1e-9, hermitian=True) @ d

    moment = (inverse * published) @ inverse.T
    population = n / (n - 1) * (moment - np.outer(x, x) / n)
    test = independence_test(x, population, published.reshape(r, c), independent=False)
    assert test.statistic == pytest.approx(wald, rel=1e-7)
    assert test.degrees == (r - 1) * (c - 1)


def test_a_value_that_nobody_has_takes_no_degree() -> None:
    x = np.array([[30.0, 0, 70], [20, 0, 80], [0, 0, 0]])
    test = exact(x).test
    pearson = stats.chi2_contingency(x[:2][:, [0, 2]], correction=False)
    assert (test.degrees, test.naive_statistic) == (1, pytest.approx(pearson.statistic))
    assert test.statistic == pytest.approx(pearson.statistic)


@pytest.mark.parametrize("independent", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_a_part_of_the_rows_is_a_table_of_its_own(seed: int, independent: bool) -> None:
    """A condition takes n of 4 n rows: how many it takes varies in a sample, but no figure is about that number."""
    rng = np.random.default_rng(seed)
    published = rng.poisson(rng.uniform(5, 200, (3, 4))).astype(float) + 1
    x, _, alone = released(published, dense(rng.uniform(0.2, 0.9, 3)), dense(rng.uniform(0.1, 0.9, 4)))
    n, rows, cells = x.sum(), 4 * x.sum(), np.outer(x, x)
    sampled = rows / (rows - 1)
    part = sampled * ((n - 1) / n * alone + cells / n - cells / rows)
    found, expected = (
        associate(x, spread, spread, published, independent, rows=of)
        for spread, of in ((part, rows), (sampled * (n - 1) / n * alone, rows))
    )
    assert found.test.statistic == pytest.approx(expected.test.statistic, rel=1e-8)
    for one, other in zip(found.measures, expected.measures, strict=True):
        for own, theirs in zip(astuple(one)[1:5], astuple(other)[1:5], strict=True):
            assert own == pytest.approx(theirs, rel=1e-6, abs=1e-9)
    if independent:
        pearson = stats.chi2_contingency(published, correction=False)
        assert found.test.statistic == pytest.approx(pearson.statistic, rel=1e-8)


# --- Fieller's interval -----------------------------------------------------------------------------------------------


def products(z: FloatArray) -> dict[str, tuple[float, float]]:
    a, b, c, d = z
    return {
        "risk difference": (a * d - b * c, (a + b) * (c + d)),
        "risk ratio": (a * (c + d), c * (a + b)),
        "odds ratio": (a * d, b * c),
    }


def product_of(name: str, place: int) -> Callable[[FloatArray], float]:
    return lambda z: products(z)[name][place]


@pytest.mark.parametrize("seed", range(20))
def test_intervals_are_all_values_that_the_noise_allows(seed: int) -> None:
    """A value t is in the interval iff (top - t bottom)^2 <= z^2 Var(top - t bottom); searched on a grid."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(20, 200, 4)
    covariance = random_covariance(rng, 4, rng.choice([1.0, 5, 20]))
    z = stats.norm.isf(0.05)
    for measure in two_by_two(x.reshape(2, 2), covariance, np.ones((2, 2)), level=0.9):
        top, bottom = products(x)[measure.name]
        slopes = np.array([numeric_gradient(product_of(measure.name, k), x) for k in (0, 1)])
        spread = slopes @ covariance @ slopes.T
        grid = np.linspace(-1, 1, 4001) if measure.name == "risk difference" else np.geomspace(1e-4, 1e4, 8001)
        error = np.sqrt(spread[0, 0] - 2 * grid * spread[0, 1] + grid**2 * spread[1, 1])
        allowed = grid[np.abs(top - grid * bottom) <= z * error]
        if bottom <= z * math.sqrt(spread[1, 1]):
            assert measure.upper == (1 if measure.name == "risk difference" else math.inf)
        else:
            step = 0.0006 if measure.name == "risk difference" else 0.003 * measure.upper
            assert measure.upper == pytest.approx(min(allowed.max(), grid[-1]), abs=step)
            assert measure.lower == pytest.approx(max(allowed.min(), -1), abs=step)
        assert measure.lower <= measure.estimate <= measure.upper


FAR_BELOW = np.array([[-40.0, 140.0], [60.0, 40.0]])


def test_a_risk_that_is_hidden() -> None:
    """Estimates below 0 give no ratio, but an interval that says what is known."""
    one = np.kron(np.eye(2), [[1.0, -1.0], [-1.0, 1.0]]) * 100
    below = np.array([[-5.0, 105.0], [40.0, 60.0]])
    difference, ratio, odds = two_by_two(below, one, np.abs(below))
    assert difference.estimate == pytest.approx(-0.45)
    assert math.isnan(ratio.estimate)
    assert math.isnan(odds.estimate)
    assert math.isnan(odds.bias)
    assert ratio.lower == odds.lower == 0
    assert 0 < ratio.upper < 1
    assert "first risk is not told apart from 0" in ratio.note
    hidden = two_by_two(below[::-1], one, np.abs(below))
    assert [(m.lower > 0, m.upper) for m in hidden[1:]] == [(True, math.inf)] * 2
    nothing = two_by_two(np.array([[-5.0, 105], [5, 95]]), 100 * one, np.abs(below))
    assert [(m.lower, m.upper) for m in nothing[1:]] == [(0, math.inf)] * 2
    assert "second risk" in nothing[1].note
    assert "first risk" in nothing[1].note
    # far below 0, the first risk still has an interval; the second tells nothing
    first, second = (two_by_two(x, one, np.abs(x))[1] for x in (FAR_BELOW, FAR_BELOW[::-1]))
    assert first.lower == 0 < first.upper < 1
    assert (second.lower, second.upper) == (0, math.inf)
    # a risk above 1 hides the odds ratio, not the risk ratio
    above = two_by_two(np.array([[105.0, -5], [40, 60]]), one, np.abs(below))
    assert above[1].estimate == pytest.approx(1.05 / 0.4)
    assert math.isnan(above[2].estimate)
    assert math.isinf(above[2].upper)


def test_a_row_without_records() -> None:
    x, published = np.array([[-3.0, -4.0], [40.0, 67.0]]), np.array([[0.0, 0.0], [40.0, 60.0]])
    for measure in two_by_two(x, 50 * np.eye(4), published):
        assert math.isnan(measure.estimate)
        assert math.isnan(measure.standard_error)
        assert math.isnan(measure.naive)
        assert measure.lower <= 0
        assert measure.upper >= 1
        assert measure.note


# --- what must hold always --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_order_and_direction_do_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    published = rng.poisson(rng.uniform(20, 300, (3, 5))).astype(float)
    x, covariance, population = released(published, np.eye(3), dense(rng.uniform(0.2, 0.8, 5)))
    whole = associate(x, covariance, population, published, independent=True)
    across = np.arange(15).reshape(3, 5).T.ravel()
    turned = associate(
        x.T,
        covariance[np.ix_(across, across)],
        population[np.ix_(across, across)],
        published.T,
        independent=True,
        normaliser="first",
    )
    rows, columns = rng.permutation(3), rng.permutation(5)
    order = np.arange(15).reshape(3, 5)[np.ix_(rows, columns)].ravel()
    mixed = associate(
        x[np.ix_(rows, columns)],
        covariance[np.ix_(order, order)],
        population[np.ix_(order, order)],
        published[np.ix_(rows, columns)],
        independent=True,
    )
    for other in (turned, mixed):
        for a, b in zip(whole.measures, other.measures, strict=True):
            assert numbers(a) == pytest.approx(numbers(b), rel=1e-6, abs=1e-9, nan_ok=True)
        assert other.test.statistic == pytest.approx(whole.test.statistic, rel=1e-7)


def numbers(measure: Strength) -> list[float]:
    return [measure.estimate, measure.standard_error, measure.lower, measure.upper, measure.naive, measure.bias]


@pytest.mark.parametrize("seed", range(40))
def test_any_noise_gives_an_interval(seed: int) -> None:
    """Much more noise than signal, negative cells and margins: no warning, no failure, ends in order and range."""
    rng = np.random.default_rng(seed)
    r, c = int(rng.integers(2, 6)), int(rng.integers(2, 12))
    published = rng.poisson(rng.choice([0.5, 3, 50], (r, c))).astype(float)
    published[rng.integers(r), rng.integers(c)] += 5
    x, covariance, population = released(published, np.eye(r), dense(rng.uniform(0.01, 0.3, c)))
    if min((x.sum(axis=1) > 0).sum(), (x.sum(axis=0) > 0).sum()) < 2:
        with pytest.raises(UsageError, match="fewer have an estimated count above 0"):
            associate(x, covariance, population, published, independent=True)
        return
    for cov in (covariance, population):
        for independent in (True, False):
            found = associate(x, cov, population, published, independent)
            for measure in found.measures[:2]:
                assert 0 <= measure.lower <= measure.upper <= 1
                assert 0 <= measure.estimate <= measure.upper + 1e-12
                assert measure.lower <= measure.estimate + 1e-12
            for measure in found.two_by_two:
                assert measure.lower <= measure.upper
            assert 0 <= found.test.p_value <= 1


def test_less_noise_and_a_lower_level_give_shorter_intervals() -> None:
    published = np.array([[300.0, 200, 100], [100, 200, 300]])
    x, covariance, population = released(published, np.eye(2), dense([0.5] * 3))

    def widths(scale: float, level: float) -> list[float]:
        found = associate(x, scale * covariance, population, published, True, level).measures
        return [m.upper - m.lower for m in found]

    for k in (0, 1):
        by_noise = [widths(scale, 0.95)[k] for scale in (0, 0.01, 0.1, 0.5, 1)]
        by_level = [widths(1, level)[k] for level in (0.5, 0.8, 0.95, 0.99)]
        assert by_noise[0] == 0
        assert all(a < b for a, b in (*pairwise(by_noise), *pairwise(by_level)))


def test_a_rare_value_with_a_negative_estimate_is_left_out() -> None:
    x = np.array([[300.0, 200, -4], [100, 200, 1]])
    rest = x[:, :2]
    found, without = exact_estimates(x), exact_estimates(rest)
    assert found == pytest.approx(without)


def exact_estimates(x: FloatArray) -> list[float]:
    zero = np.zeros((x.size, x.size))
    found = associate(x, zero, sampling_covariance(np.abs(x)), np.abs(x), independent=True)
    return [found.uncertainty.estimate, found.cramers_v.estimate]


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "level", "message"),
    [
        (np.ones((1, 3)), 0.95, "the table is 1 x 3"),
        (np.ones((3, 1)), 0.95, "the table is 3 x 1"),
        (np.array([[3.0, -1], [2, -1]]), 0.95, "fewer have an estimated count above 0"),
        (np.zeros((2, 2)), 0.95, "No published row"),
        (np.ones((2, 2)), 95.0, "must lie between 0 and 1, not 95.0"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_a_hint(x: FloatArray, level: float, message: str) -> None:
    covariance = np.eye(x.size)
    with pytest.raises(UsageError, match=message) as caught:
        associate(x, covariance, covariance, np.maximum(x, 0), independent=True, level=level)
    assert caught.value.hint


def test_risks_need_two_rows_and_two_columns() -> None:
    with pytest.raises(UsageError, match="not 2 x 3"):
        two_by_two(np.ones((2, 3)), np.eye(6), np.ones((2, 3)))
    with pytest.raises(UsageError, match="level must lie between 0 and 1"):
        two_by_two(np.ones((2, 2)), np.eye(4), np.ones((2, 2)), level=0)


def test_tables_of_two_shapes_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="one two-way table"):
        associate(np.ones((2, 3)), np.eye(6), np.eye(6), np.ones((3, 2)), independent=True)
