"""The unbiased estimate and its variances: against a dense inverse, and exactly, by enumerating all releases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from sfumato.analyst.randomized import inverse
from sfumato.analyst.randomized.channel import is_usable
from sfumato.errors import SingularMatrix
from sfumato.values.arrays import FloatArray
from sfumato.values.matrix.retention import PerturbationMatrix, uniform_retention
from tests.conftest import variance_given_table, variance_in_population
from tests.values.test_matrix import exact_inverse, exact_matrix, random_retention

RETENTIONS = ([0.4, 0.4, 0.4], [0.7, 0.2, 0.45], [0.0, 0.3, 0.9], [1.0, 0.5, 0.25])


def releases_of(matrix: PerturbationMatrix, table: list[int]) -> Iterator[tuple[float, FloatArray]]:
    """Yield every release of a table (its records' values): probability, published counts."""
    dense = matrix.dense()
    for published in product(range(matrix.size), repeat=len(table)):
        chance = float(np.prod([dense[y, x] for y, x in zip(published, table, strict=True)]))
        yield chance, np.bincount(published, minlength=matrix.size).astype(float)


def sampled_releases(matrix: PerturbationMatrix, share: FloatArray, rows: int) -> Iterator[tuple[float, FloatArray]]:
    """Yield every release of a random sample: share[i] = Pr(group and x_i), the rest of the rows is not in the group.

    The states of a record are "elsewhere" and (original value, published value).
    """
    dense, m = matrix.dense(), matrix.size
    states: list[tuple[float, int | None]] = [(1 - float(share.sum()), None)]
    states += [(float(share[x] * dense[y, x]), y) for x in range(m) for y in range(m)]
    for records in product(states, repeat=rows):
        published = [y for _, y in records if y is not None]
        yield float(np.prod([chance for chance, _ in records])), np.bincount(published, minlength=m).astype(float)


def moments(
    matrix: PerturbationMatrix, releases: Iterator[tuple[float, FloatArray]]
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return probabilities and published counts of all releases, and the exact mean and covariance of the estimate."""
    merged: dict[tuple[float, ...], float] = defaultdict(float)
    for chance, counts in releases:
        merged[tuple(counts)] += chance
    chances, observed = np.array(list(merged.values())), np.array(list(merged))
    assert chances.sum() == pytest.approx(1, abs=1e-12)
    x = observed @ np.linalg.inv(matrix.dense()).T
    mean = chances @ x
    return chances, observed, mean, (x - mean).T @ (chances[:, None] * (x - mean))


# --- exactly, on tiny tables --------------------------------------------------------------------------------


@pytest.mark.parametrize("retention", RETENTIONS)
@pytest.mark.parametrize("table", [[0, 0, 1], [0, 1, 2], [2, 2, 2, 1], [1]])
def test_given_table_estimate_and_variances_are_unbiased(retention: list[float], table: list[int]) -> None:
    matrix = PerturbationMatrix.from_retention(retention)
    chances, observed, mean, covariance = moments(matrix, releases_of(matrix, table))
    x = np.bincount(table, minlength=3)
    assert mean == pytest.approx(x, abs=1e-12)
    assert chances @ inverse.estimate(matrix, observed) == pytest.approx(x, abs=1e-12)
    variances = variance_given_table(matrix, observed)
    assert chances @ variances == pytest.approx(np.diag(covariance), abs=1e-11)
    covariances = np.array([inverse.covariance_given_table(matrix, o) for o in observed])
    assert np.allclose(np.tensordot(chances, covariances, axes=1), covariance, atol=1e-11)
    a = np.linalg.inv(matrix.dense())  # and the formula itself: P^-1 diag(P x) P^-T - diag(x)
    assert np.allclose(a @ np.diag(matrix.apply(x.astype(float))) @ a.T - np.diag(x), covariance, atol=1e-11)


@pytest.mark.parametrize("retention", RETENTIONS)
@pytest.mark.parametrize("share", [[0.2, 0.3, 0.1], [0.5, 0.3, 0.2], [0.0, 0.05, 0.9]])
def test_population_estimate_and_variance_are_unbiased(retention: list[float], share: list[float]) -> None:
    matrix, cells, rows = PerturbationMatrix.from_retention(retention), np.array(share), 3
    chances, observed, mean, covariance = moments(matrix, sampled_releases(matrix, cells, rows))
    assert mean == pytest.approx(rows * cells, abs=1e-12)
    variances = variance_in_population(matrix, observed, rows)
    assert chances @ variances == pytest.approx(np.diag(covariance), abs=1e-11)


def test_the_two_variances_differ_by_the_sampling_of_the_table() -> None:
    """Var(population) = E[Var(given table)] + Var(table) = E[Var(given table)] + rows share (1 - share)."""
    matrix, share, rows = PerturbationMatrix.from_retention([0.7, 0.2, 0.45]), np.array([0.2, 0.3, 0.1]), 3
    chances, observed, _, covariance = moments(matrix, sampled_releases(matrix, share, rows))
    given = chances @ variance_given_table(matrix, observed)
    assert given + rows * share * (1 - share) == pytest.approx(np.diag(covariance), abs=1e-11)


# --- against dense numpy ------------------------------------------------------------------------------------


def test_agrees_with_the_dense_inverse_for_groups_and_single_tables() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        m = int(rng.integers(1, 10))
        matrix = PerturbationMatrix.from_retention(0.05 + 0.95 * rng.random(m))
        a = np.linalg.inv(matrix.dense())
        observed = rng.integers(0, 500, (4, m)).astype(float)
        x = observed @ a.T
        rows = observed.sum() + 10
        population = (observed @ (a * a).T - x**2 / rows) * rows / (rows - 1)
        assert np.allclose(inverse.estimate(matrix, observed), x, rtol=1e-9, atol=1e-7)
        assert np.allclose(variance_given_table(matrix, observed), observed @ (a * a - a).T, rtol=1e-7, atol=1e-6)
        assert np.allclose(variance_in_population(matrix, observed, rows), population, rtol=1e-7, atol=1e-6)
        single = variance_given_table(matrix, observed[2])
        assert np.allclose(single, variance_given_table(matrix, observed)[2])
        covariance = inverse.covariance_given_table(matrix, observed)
        assert covariance.shape == (4, m, m)
        assert np.allclose(np.diagonal(covariance, axis1=1, axis2=2), observed @ (a * a - a).T, rtol=1e-7, atol=1e-6)
        assert np.allclose(covariance[1], a @ np.diag(observed[1]) @ a.T - np.diag(x[1]), rtol=1e-7, atol=1e-5)


@pytest.mark.parametrize(("gamma", "m"), [(3.0, 2), (5.0, 50), (1.5, 14)])
def test_uniform_is_sdr_equation_7(gamma: float, m: int) -> None:
    matrix = PerturbationMatrix.from_retention([uniform_retention(gamma, m)] * m)
    o = np.random.default_rng(m).integers(0, 1000, m).astype(float)
    expected = ((m - 1 + gamma) * o - o.sum()) / (gamma - 1)
    assert inverse.estimate(matrix, o) == pytest.approx(expected, rel=1e-9, abs=1e-6)


def test_the_inverse_has_the_sign_pattern_that_the_proofs_use() -> None:
    rng = np.random.default_rng(2)
    for _ in range(100):
        m = int(rng.integers(1, 6))
        matrix = PerturbationMatrix.from_retention(random_retention(rng, m))
        if not matrix.is_invertible:
            continue
        a = exact_inverse(exact_matrix(matrix))
        assert all(a[k][k] >= 1 for k in range(m))
        assert all(a[i][k] <= 0 for i in range(m) for k in range(m) if i != k)
        assert all(sum(a[i][k] for i in range(m)) == Fraction(1) for k in range(m))


def test_no_linear_combination_has_a_negative_variance() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        m = int(rng.integers(2, 8))
        matrix = PerturbationMatrix.from_retention(0.1 + 0.9 * rng.random(m))
        observed = rng.integers(0, 20, m) * (rng.random(m) < 0.5)  # unlikely tables too
        covariance = inverse.covariance_given_table(matrix, observed.astype(float))
        assert np.linalg.eigvalsh(covariance).min() >= -1e-9 * max(1, np.abs(covariance).max())
        assert np.allclose(covariance.sum(axis=0), 0, atol=1e-7 * max(1, np.abs(covariance).max()))  # n is known


def test_no_perturbation_no_variance() -> None:
    matrix, o = PerturbationMatrix.from_retention([1.0, 1.0, 1.0]), np.array([3.0, 0.0, 5.0])
    assert inverse.estimate(matrix, o).tolist() == o.tolist()
    assert variance_given_table(matrix, o).tolist() == [0, 0, 0]
    binomial = o * (1 - o / 10) * 10 / 9
    assert variance_in_population(matrix, o, 10) == pytest.approx(binomial)


# --- edges --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0, 3), (2, 3), (3,)])
def test_empty_groups(shape: tuple[int, ...]) -> None:
    matrix, zeros = PerturbationMatrix.from_retention([0.5, 0.4, 0.3]), np.zeros(shape)
    for answer in (
        inverse.estimate(matrix, zeros),
        variance_given_table(matrix, zeros),
        variance_in_population(matrix, zeros, 100),
    ):
        assert answer.shape == shape
        assert not answer.any()


def refused(retention: npt.ArrayLike) -> str:
    matrix = PerturbationMatrix.from_retention(np.asarray(retention))
    assert not is_usable(matrix)
    observed, messages = np.ones(matrix.size), set()
    calls: tuple[Callable[[], object], ...] = (
        lambda: inverse.require_invertible(matrix),
        lambda: inverse.estimate(matrix, observed),
        lambda: variance_given_table(matrix, observed),
        lambda: variance_in_population(matrix, observed, 10),
        lambda: inverse.covariance_given_table(matrix, observed),
    )
    for call in calls:
        with pytest.raises(SingularMatrix) as raised:
            call()
        messages.add(str(raised.value))
    assert len(messages) == 1
    return messages.pop()


def test_refuses_singular_matrices_and_says_why() -> None:
    message = refused([0.0, 0.3, 0.0, 0.4, 0.0])
    assert "3 of its 5 values have retention 0" in message
    assert 'method "em"' in message
    assert "condition number is 1." in refused([1e-10, 0.5, 1e-10])
    assert "condition number is 1.0e+11" in refused([1e-11] * 4)
    for retention in ([0.0, 0.3, 0.4], [0.0], [1e-8, 1e-8]):
        inverse.require_invertible(PerturbationMatrix.from_retention(retention))


def test_rows_is_the_whole_release() -> None:
    matrix = PerturbationMatrix.from_retention([0.5, 0.5])
    with pytest.raises(ValueError, match="whole release: 10 is less than a group's 12"):
        variance_in_population(matrix, np.array([[5.0, 7.0], [1.0, 1.0]]), 10)
