"""Tests of coefficients, and comparison of models.

Inverse fits have no likelihood ratio: with lambda the eigenvalues of [(H^-1)_22]^-1 [H^-1 V H^-1]_22,

    2 (L1 - L0) ~ sum_j lambda_j chi2_1        information criterion  -2 L + 2 tr(H^-1 V)

Wald's test and the score test, T = (E U)'(E V E')^-1 (E U) with E = [-H21 H11^-1, I], are chi-square. Of likelihood
fits 2 (l1 - l0) is chi-square, and the criterion is -2 l + 2 q; both are about the population.

A test for the target "table" is about a number that describes this table, not about a law.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.analyst.regression.effects import solution_of
from sfumato.analyst.regression.problem import Target
from sfumato.analyst.regression.result import Fit
from sfumato.analyst.regression.solving import require_solved, solved
from sfumato.analyst.regression.variance import bread
from sfumato.errors import CannotMeet, UsageError
from sfumato.values.arrays import FloatArray, IntArray

UNCERTAIN = 1e-10
"""Of a p-value of a mixture."""
MOST_TERMS = 20_000


@dataclass(frozen=True)
class Test:
    """A statistic, the chi-square (or the weights of a sum of them) that it is compared with, and the p-value."""

    __test__ = False  # for pytest: this is no test of the code

    name: str
    statistic: float
    freedom: int
    p_value: float


def wald_test(fit: Fit, names: Sequence[str], target: Target) -> Test:
    """Test that the named coefficients are all 0, by their estimates and errors."""
    chosen = _places(fit, names)
    d, covariance = fit.coefficients[chosen], fit.covariance(target)[np.ix_(chosen, chosen)]
    return chi_square("Wald", float(d @ np.linalg.solve(covariance, d)), chosen.size)


def score_test(fit: Fit, names: Sequence[str], target: Target) -> Test:
    """Test that the named coefficients are all 0, by the equations where they are."""
    solution, chosen = solution_of(fit), _places(fit, names)
    held = np.zeros(fit.coefficients.size, dtype=np.bool_)
    held[chosen] = True
    start = np.where(held, 0.0, solution.best.beta)
    point = require_solved(solution.equations, solved(solution.equations, start, held=held))
    H = point.sums.information
    E = np.zeros((chosen.size, start.size))
    E[:, chosen] = np.eye(chosen.size)
    E[:, point.free] = -H[np.ix_(chosen, point.free)] @ np.linalg.inv(point.inner)
    moved, noise = E @ point.sums.score, E @ solution.equations.score_noise(point.beta).of(target) @ E.T
    return chi_square("score", float(moved @ np.linalg.solve(noise, moved)), chosen.size)


def compare(larger: Fit, smaller: Fit, target: Target) -> Test:
    """Test a model against a larger one that has all of its coefficients, by 2 (L1 - L0)."""
    _require_comparable(larger, smaller)
    chosen = _places(larger, [name for name in larger.names if name not in smaller.names])
    statistic = 2 * (larger.log_likelihood - smaller.log_likelihood)
    if larger.method == "likelihood":
        _require_population(target)
        return chi_square("likelihood ratio", statistic, chosen.size)
    weights = _weights(larger, chosen, target)
    return Test("2 (L1 - L0)", statistic, chosen.size, weighted_chi_square_tail(weights, statistic))


def _weights(fit: Fit, chosen: IntArray, target: Target) -> FloatArray:
    inverse = bread(solution_of(fit).best)[np.ix_(chosen, chosen)]
    ratio = np.linalg.solve(inverse, fit.covariance(target)[np.ix_(chosen, chosen)])
    return np.asarray(np.maximum(np.linalg.eigvals(ratio).real, 0))


def information_criterion(fit: Fit, target: Target) -> float:
    """Return -2 L + 2 tr(H^-1 V), or -2 l + 2 q of a likelihood fit: smaller is better, for equal rows and outcomes."""
    if fit.method == "likelihood":
        _require_population(target)
        return -2 * fit.log_likelihood + 2 * fit.coefficients.size
    solution = solution_of(fit)
    return float(-2 * fit.log_likelihood + 2 * np.trace(bread(solution.best) @ solution.noise.of(target)))


def weighted_chi_square_tail(weights: FloatArray, value: float) -> float:
    """Return Pr[sum_j lambda_j chi2_1 > value], for weights of 0 and more.

    With l the smallest weight it is a mixture of chi-squares (Ruben 1962), all a_k being positive with sum 1:

        sum_k a_k Pr[chi2_{q + 2k} > value/l]        a_0 = prod_j (l/lambda_j)^(1/2)
        a_k = sum_{r < k} g_{k-r} a_r / k            g_k = sum_j (1 - l/lambda_j)^k / 2

    Weights below a thousandth of the largest count as that much.

    >>> round(weighted_chi_square_tail(np.array([1.0]), 3.841458820694124), 6)
    0.05
    """
    largest = float(weights.max(initial=0))
    if largest <= 0:
        return float(value <= 0)
    own = np.maximum(weights, largest / 1000)
    least = own.min()
    a, g, ratio = [float(np.sqrt(least / own).prod())], [0.0], 1 - least / own
    while 1 - sum(a) > UNCERTAIN and len(a) < MOST_TERMS:
        g.append(float((ratio ** len(a)).sum()) / 2)
        a.append(float(np.dot(g[:0:-1], a)) / len(a))
    return float(np.dot(a, chi_square_tail(value / least, own.size + 2 * np.arange(len(a)))))


def chi_square_tail(statistic: float, freedom: int | IntArray) -> FloatArray:
    """Return the chance that a chi-square is larger."""
    from scipy.special import gammaincc  # a second that only tests of several coefficients need

    return np.asarray(gammaincc(np.asarray(freedom) / 2, max(statistic, 0.0) / 2))


def two_sided(statistic: float) -> float:
    """Return the chance that a standard normal number is farther from 0.

    >>> round(two_sided(-1.959963984540054), 6)
    0.05
    """
    return math.erfc(abs(statistic) / math.sqrt(2))


def chi_square(name: str, statistic: float, freedom: int) -> Test:
    """Return the test of a statistic that is chi-square; without degrees of freedom there is nothing to reject."""
    if freedom == 1:  # the square of a standard normal number
        return Test(name, statistic, freedom, two_sided(math.sqrt(max(statistic, 0.0))))
    return Test(name, statistic, freedom, float(chi_square_tail(statistic, freedom)) if freedom else 1.0)


def _places(fit: Fit, names: Sequence[str]) -> IntArray:
    unknown = [name for name in names if name not in fit.names]
    if unknown or not names:
        named = ", ".join(map(repr, unknown)) or "to test"
        raise UsageError(f"The model has no coefficient {named}.", f"It has {', '.join(fit.names)}.")
    places = np.array([fit.names.index(name) for name in names], dtype=np.int64)
    infinite = [fit.names[j] for j in places if not np.isfinite(fit.coefficients[j])]
    if infinite:
        raise CannotMeet(f"{', '.join(infinite)} is infinite: it has no error to test by.", "Merge the level.")
    return places


def _require_comparable(larger: Fit, smaller: Fit) -> None:
    if not set(smaller.names) < set(larger.names):
        raise UsageError("The models are not nested.", "Compare them by `information_criterion`.")
    if larger.method != smaller.method or larger.family != smaller.family:
        raise UsageError("The models differ in method or family.", "Fit both in the same way.")
    if not np.isclose(larger.used, smaller.used, rtol=1e-9, atol=1e-6):
        raise UsageError(
            f"The models are about different rows: {larger.used:,.1f} and {smaller.used:,.1f} after correction.",
            "Leave the same true values out of both.",
        )


def _require_population(target: Target) -> None:
    if target != "population":
        raise UsageError(
            "A likelihood says nothing about this table without the model.", "Ask for the target 'population'."
        )
