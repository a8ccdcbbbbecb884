"""How strongly two categorical variables go together, from an estimated two-way table of counts.

Everything here takes arrays; the caller estimates them from the release:
    x             [r, c]     estimated counts, which may be negative; n = sum(x) is the number of rows
    covariance    [rc, rc]   Cov[x] in C order, for the table or for the population
    published     [r, c]     counts of the published rows: what someone computes who does not correct

p = x/n are the estimated shares, p_i and p_j their margins, S = covariance/n^2. Uncertainty coefficient and Cramer's V
rest on smooth functions f(p) that are 0 at independence and never below, so noise alone makes them positive:
    E f(p_hat) = f(p) + tr(H S)/2 + ...,    Var f(p_hat) = g'S g + tr(H S H S)/2 + ...        (g gradient, H Hessian)
The bias tr(H S)/2 is taken off. Intervals come from a noncentral chi-square law with these moments (`_Fit.interval`):
the normal law would be wrong near 0, where f is a sum of squares.

With covariance 0 every estimate is the textbook figure of the table x.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from sfumato.analyst.answer import check_level
from sfumato.analyst.two_by_two import Strength, two_by_two
from sfumato.errors import UsageError
from sfumato.values.arrays import FloatArray

Normaliser = Literal["first", "second"]

MARGIN_FLOOR = 2.0
"""Cramer's V divides by no margin below so many of its standard errors: a rare value's noise would drown the rest."""
LARGE = 1e6
"""Above this statistic the noncentral chi-square law is normal for our purposes (and slow to compute)."""
ROUNDING = 1e-12
"""Variances below this part of the largest are rounding error of zero."""


@dataclass(frozen=True)
class IndependenceTest:
    """A chi-square test of independence in the population that the rows are a random sample of."""

    statistic: float
    degrees: int
    p_value: float
    naive_statistic: float  # Pearson's, on the published table
    naive_p_value: float


@dataclass(frozen=True)
class Association:
    """All that is said about two variables; `two_by_two` is empty unless both have two values."""

    uncertainty: Strength
    cramers_v: Strength
    test: IndependenceTest
    two_by_two: tuple[Strength, ...] = ()

    @property
    def measures(self) -> tuple[Strength, ...]:
        """All measures, in the order in which they are shown."""
        return (self.uncertainty, self.cramers_v, *self.two_by_two)


def associate(
    x: FloatArray,
    covariance: FloatArray,
    population_covariance: FloatArray,
    published: FloatArray,
    independent: bool,
    level: float = 0.95,
    normaliser: Normaliser = "second",
    rows: float | None = None,
) -> Association:
    """Estimate the uncertainty coefficient and Cramer's V, test independence, and for 2 x 2 compare the risks.

    `independent`: whether the noise of the two variables is independent given the record (an untouched column and a
    randomized one: yes; two parts of a compound that is randomized as one: no). The test is for the population
    whatever `covariance` is for. `rows` are those of the whole release, of which the population's covariance is, where
    x has a part of them only.
    """
    _check(x, published)
    check_level(level)
    shares = _occupied(x, covariance)
    return Association(
        _uncertainty(shares, published, level, normaliser),
        _cramers_v(shares, published, level),
        independence_test(x, population_covariance, published, independent, rows),
        two_by_two(x, covariance, published, level) if x.shape == (2, 2) else (),
    )


def _check(x: FloatArray, published: FloatArray) -> None:
    if x.ndim != 2 or x.shape != published.shape:
        raise ValueError(f"the estimated and the published table are one two-way table: {x.shape}, {published.shape}")
    if published.sum() <= 0:
        raise UsageError("No published row is left to measure an association in.", "Choose a wider condition.")
    if min(x.shape) < 2:
        raise UsageError(
            f"An association needs two values of each variable; the table is {x.shape[0]} x {x.shape[1]}.",
            "Choose another variable, or a condition that leaves more than one of its values.",
        )


# --- shares and their noise -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Shares:
    """Estimated shares and their covariance."""

    p: FloatArray  # [r, c]
    spread: FloatArray  # [r, c, r, c]: S

    @property
    def variance(self) -> FloatArray:
        """S's diagonal, [r, c]; rounding may have left less than 0."""
        variance: FloatArray = np.maximum(np.einsum("ijij->ij", self.spread), 0)
        return variance

    def margin(self, axis: int) -> tuple[FloatArray, FloatArray]:
        """Return the shares of the rows (0) or of the columns (1), and their variances."""
        other = 1 - axis
        spread = self.spread.sum(axis=(other, other + 2))
        return self.p.sum(axis=other), np.maximum(np.diagonal(spread), 0)

    def transposed(self) -> _Shares:
        return _Shares(self.p.T, self.spread.transpose(1, 0, 3, 2))

    def variance_of(self, gradient: FloatArray) -> float:
        """Return g'S g."""
        g = gradient.ravel()
        return max(float(g @ self.spread.reshape(g.size, g.size) @ g), 0.0)


def _occupied(x: FloatArray, covariance: FloatArray) -> _Shares:
    """Return the shares; rows and columns whose estimated count is not positive are left out."""
    rows, columns = x.sum(axis=1) > 0, x.sum(axis=0) > 0
    spread = covariance.reshape(x.shape + x.shape)
    if not (rows.all() and columns.all()):
        x, spread = x[np.ix_(rows, columns)], spread[np.ix_(rows, columns, rows, columns)]
    n = x.sum()
    if min(x.shape) < 2 or n <= 0:
        raise UsageError(
            "An association needs two values of each variable; fewer have an estimated count above 0.",
            "Choose a variable with more frequent values, or a condition that leaves more rows.",
        )
    return _Shares(x / n, _of_shares(x / n, spread) / n**2)


def _of_shares(p: FloatArray, spread: FloatArray) -> FloatArray:
    """Return Cov[x - p sum(x)], [r, c, r, c]: n times the shares, which do not vary with the number of rows.

    That number varies where a condition takes some rows of a sample: by Cov[x] = n (diag p - p p' n/rows) then.
    """
    cells, flat = p.ravel(), spread.reshape(p.size, p.size)
    with_sum = flat.sum(axis=1)
    crossed = np.outer(cells, with_sum)
    of_shares: FloatArray = flat - crossed - crossed.T + np.outer(cells, cells) * with_sum.sum()
    return of_shares.reshape(spread.shape)


def _noise_of_deviations(p: FloatArray, spread: FloatArray) -> FloatArray:
    """Return Cov of d_ij = p_ij - p_i p_j, [r, c, r, c], to first order: d changes by dp_ij - p_j dp_i - p_i dp_j."""
    row, column = p.sum(axis=1), p.sum(axis=0)
    half = spread - column[None, :, None, None] * spread.sum(axis=1)[:, None]
    half -= row[:, None, None, None] * spread.sum(axis=0)[None]
    noise: FloatArray = half - column * half.sum(axis=3)[..., None]
    noise -= row[:, None] * half.sum(axis=2)[:, :, None]
    return noise


# --- measures that are 0 at independence ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Fit:
    """f with its bias taken off, the bias, and the two terms of the variance: g'S g at p_hat, and tr(H S H S)/2."""

    value: float
    bias: float
    first: float
    second: float

    @property
    def standard_error(self) -> float:
        """Return sqrt(g'S g + tr(H S H S)/2); g'S g at the noisy p_hat is tr(H S H S) too large on average."""
        return math.sqrt(max(self.first - self.second, self.second))

    def interval(self, level: float) -> tuple[float, float]:
        """Return the ends of the interval for f, not below 0, by the law f_hat + bias = s chi^2_v(f/s).

        The noncentral chi-square law has mean f + s v and variance 4 s f + 2 s^2 v. Its scale s makes the first part
        the first-order variance, its degrees v make the second part the second-order one. So it is exact for a sum
        of squares with equal noise, and nearly normal far from 0. An estimate below 0 has the scale of f = 0, and the
        upper end of an estimate 0: no interval is empty.
        """
        tail, centre, scale = (1 - level) / 2, max(self.value, 0.0), self._scale
        degrees = self.second / scale / scale / 2 if scale > 0 else 0.0
        if not (degrees > 0 and centre / scale + degrees < LARGE):
            half = NormalDist().inv_cdf(1 - tail) * math.sqrt(self.first + self.second)
            return max(centre - half, 0.0), centre + half
        lower, upper = (scale * _noncentrality(centre / scale + degrees, degrees, q) for q in (1 - tail, tail))
        return lower, upper

    @property
    def _scale(self) -> float:
        if self.value > 0:
            return self.first / (4 * max(self.value + self.bias, self.value))
        return self.second / (2 * self.bias) if self.bias > 0 else 0.0


def _noncentrality(statistic: float, degrees: float, probability: float) -> float:
    """Return the noncentrality that gives a chi-square below `statistic` this probability; 0 if 0 gives less."""
    from scipy.special import chdtr, chndtrinc

    return float(chndtrinc(statistic, degrees, probability)) if chdtr(degrees, statistic) > probability else 0.0


# --- uncertainty coefficient ------------------------------------------------------------------------------------------


def _uncertainty(shares: _Shares, published: FloatArray, level: float, normaliser: Normaliser) -> Strength:
    """Return U = I(X; Y)/H(Y), AD Eq. (12): the share of Y's entropy that X explains, between 0 and 1.

        I = sum p_ij log p_ij - sum p_i log p_i - sum p_j log p_j        H(Y) = -sum p_j log p_j

    Y is the `normaliser`: the second variable (columns) as in the paper, or the first.
    """
    if normaliser == "first":
        shares, published = shares.transposed(), published.T
    name = f"uncertainty coefficient (of the {normaliser} variable's entropy)"
    cells = _p_log_p(shares.p, shares.variance)
    rows, columns = (_p_log_p(*shares.margin(axis)) for axis in (0, 1))
    information, entropy = cells.total - rows.total - columns.total, -columns.total
    naive = _plug_in_uncertainty(published)
    if entropy <= 0:
        return Strength(name, math.nan, math.nan, 0.0, 1.0, naive, math.nan, "The noise hides the entropy.")
    value = information / entropy
    gradient = (cells.slope - rows.slope[:, None] - columns.slope + value * columns.slope) / entropy
    curved = cells.curvature[:, :, None, None] * shares.spread
    curved -= (rows.curvature[:, None, None] * shares.spread.sum(axis=1))[:, None]
    curved -= (columns.curvature[:, None, None] * shares.spread.sum(axis=0))[None]
    second = float(np.einsum("ijkl,klij->", curved, curved)) / 2 / entropy**2
    bias = (cells.bias - rows.bias - columns.bias) / entropy
    fit = _Fit(value, bias, shares.variance_of(gradient), second)
    estimate, (lower, upper) = _clipped(value), (_clipped(end) for end in fit.interval(level))
    return Strength(name, estimate, fit.standard_error, lower, upper, naive, naive - estimate)


@dataclass(frozen=True, eq=False)
class _Curve:
    """sum p log p with its bias taken off, and for each share the slope and the curvature of p log p."""

    total: float
    bias: float
    slope: FloatArray
    curvature: FloatArray


def _p_log_p(p: FloatArray, variance: FloatArray) -> _Curve:
    """Return p log p, continued below the share's own standard error by its Taylor polynomial of second order.

    (Of the continuations tried in simulations this has the least bias: a tangent, or a projection onto shares that
    are not negative, pulls weak associations to 0; see benchmarks/association.py for the coverage.)
    """
    at = np.maximum(p, np.sqrt(variance))
    known = at > 0
    log, step = np.log(at, where=known, out=np.zeros_like(at)), p - at
    curvature = np.divide(1, at, where=known, out=np.zeros_like(at))
    bias = float((curvature * variance).sum()) / 2
    value = at * log + (log + 1) * step + curvature * step**2 / 2
    return _Curve(float(value.sum()) - bias, bias, log + 1 + curvature * step, curvature)


def _plug_in_uncertainty(counts: FloatArray) -> float:
    p = counts / counts.sum()
    cells, rows, columns = (_p_log_p(q, np.zeros_like(q)).total for q in (p, p.sum(axis=1), p.sum(axis=0)))
    return (cells - rows - columns) / -columns if columns < 0 else math.nan


def _clipped(value: float) -> float:
    return min(max(value, 0.0), 1.0)


# --- Cramer's V -------------------------------------------------------------------------------------------------------


def _cramers_v(shares: _Shares, published: FloatArray, level: float) -> Strength:
    """Return V = sqrt(Phi2/min(r - 1, c - 1)), Phi2 = sum d_ij^2/(p_i p_j), d_ij = p_ij - p_i p_j.

    Phi2 = d'W d is a quadratic form: its bias is tr(W G) with G = Cov(d), and the second-order variance is
    2 tr((W G)^2). The ends of V's interval are the roots of those of Phi2/min(r - 1, c - 1).
    """
    (row, row_variance), (column, column_variance) = (shares.margin(axis) for axis in (0, 1))
    d = shares.p - np.outer(row, column)
    divisors = _floored(row, row_variance), _floored(column, column_variance)
    weight = 1 / np.outer(*divisors)
    noise = _noise_of_deviations(shares.p, shares.spread).reshape(d.size, d.size)
    w, most = weight.ravel(), min(d.shape) - 1
    bias = float(w @ np.diagonal(noise)) / most
    first = shares.variance_of(_gradient_of_squares(shares.p, d, *divisors)) / most**2
    second = 2 * float(w @ noise**2 @ w) / most**2
    fit = _Fit(float((weight * d**2).sum()) / most - bias, bias, first, second)
    estimate, lower, upper = (math.sqrt(_clipped(value)) for value in (fit.value, *fit.interval(level)))
    naive = _plug_in_v(published)
    error = fit.standard_error / (2 * estimate) if estimate > 0 else math.nan
    return Strength("Cramer's V", estimate, error, lower, upper, naive, naive - estimate)


def _floored(margin: FloatArray, variance: FloatArray) -> FloatArray:
    """Return what to divide by: the margin, or MARGIN_FLOOR standard errors where it is less."""
    return np.maximum(margin, MARGIN_FLOOR * np.sqrt(variance))


def _gradient_of_squares(p: FloatArray, d: FloatArray, by_row: FloatArray, by_column: FloatArray) -> FloatArray:
    """Return the gradient in p of sum d_ij^2/(by_i by_j); a divisor follows its margin unless it is the floor."""
    row, column = p.sum(axis=1), p.sum(axis=0)
    weight = 1 / np.outer(by_row, by_column)
    straight, squares = 2 * weight * d, weight * d**2
    through_rows = straight @ column + squares.sum(axis=1) / by_row * (by_row == row)
    through_columns = row @ straight + squares.sum(axis=0) / by_column * (by_column == column)
    gradient: FloatArray = straight - through_rows[:, None] - through_columns
    return gradient


def _plug_in_v(counts: FloatArray) -> float:
    statistic, degrees = _pearson(counts)
    rows, columns = (int((counts.sum(axis=axis) > 0).sum()) for axis in (1, 0))
    return math.sqrt(statistic / counts.sum() / (min(rows, columns) - 1)) if degrees else math.nan


# --- test of independence ---------------------------------------------------------------------------------------------


def independence_test(
    x: FloatArray,
    population_covariance: FloatArray,
    published: FloatArray,
    independent: bool,
    rows: float | None = None,
) -> IndependenceTest:
    """Test whether the two variables are independent in the population.

    With D = x - row x column/n and independent noise, Cov[D_ij, D_kl] = n V_X[i, k] V_Y[j, l] under independence.
    V_X and V_Y are the covariances of what one record adds to the margins of x: those of the margins, over n. Then

        T = tr(V_X^- D V_Y^- D')/n        is chi-square with (r - 1)(c - 1) degrees.

    Where one matrix P randomized the columns, or none, this is Pearson's statistic of the *published* table:
    D = D_published P^-T and V_Y = P^-1 V_published P^-T, so P cancels. (For that V_X and V_Y are divided by the number
    of rows as Pearson's are, not by one less.) For independence survives noise that depends on one variable alone, and
    the naive test has the right level; with sub-tables too, where it is another test. It has not for two parts of a
    compound, whose noise is dependent. There the test is Wald's, D' Cov[D]^- D with the first-order covariance of D.
    """
    n = float(x.sum())
    spread = _of_shares(x / n, population_covariance.reshape(x.shape + x.shape))
    deviation = x - np.outer(x.sum(axis=1), x.sum(axis=0)) / n
    of_rows, of_columns = spread.sum(axis=(1, 3)) / n, spread.sum(axis=(0, 2)) / n
    left, right = _free(of_rows), _free(of_columns)
    d = deviation[np.ix_(left, right)]
    if independent:
        by_rows = _solved(of_rows[np.ix_(left, left)], d)
        by_columns = _solved(of_columns[np.ix_(right, right)], d.T)
        sampled = n if rows is None else rows
        statistic = float((by_rows * by_columns.T).sum()) / n * (sampled / max(sampled - 1, 1)) ** 2
    else:
        noise = _noise_of_deviations(x / n, spread)[np.ix_(left, right, left, right)]
        statistic = float(d.ravel() @ _solved(noise.reshape(d.size, d.size), d.ravel()))
    naive = _pearson(published)
    return IndependenceTest(statistic, d.size, _upper_tail(statistic, d.size), naive[0], _upper_tail(*naive))


def _free(covariance: FloatArray) -> npt.NDArray[np.intp]:
    """Return the values that vary, without the one that varies most: the others determine it, as the sum is known."""
    variance = np.diagonal(covariance)
    vary = variance > ROUNDING * variance.max()
    vary[np.argmax(variance)] = False
    return np.flatnonzero(vary)


def _solved(covariance: FloatArray, right: FloatArray) -> FloatArray:
    """Return covariance^-1 right, scaled to correlations; the ridge, of the size of rounding, is for singular ones."""
    error = np.sqrt(np.diagonal(covariance))
    by_row = error if right.ndim == 1 else error[:, None]
    correlation = covariance / np.outer(error, error) + ROUNDING * np.eye(error.size)
    solution: FloatArray = np.linalg.solve(correlation, right / by_row) / by_row
    return solution


def _pearson(counts: FloatArray) -> tuple[float, int]:
    """Return Pearson's chi-square statistic and its degrees; empty rows and columns are left out."""
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)
    expected = np.outer(rows, columns) / counts.sum()
    there = expected > 0
    statistic = float(((counts - expected)[there] ** 2 / expected[there]).sum())
    return statistic, int(((rows > 0).sum() - 1) * ((columns > 0).sum() - 1))


def _upper_tail(statistic: float, degrees: int) -> float:
    from scipy.special import chdtrc

    return float(chdtrc(degrees, statistic)) if degrees else math.nan
