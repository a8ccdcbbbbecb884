"""The likelihood estimate against slow EM, the KKT conditions, and its own second derivation."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.analyst.randomized import bayes, inverse
from sfumato.analyst.randomized.channel import is_usable
from sfumato.values.arrays import FloatArray
from sfumato.values.matrix.retention import PerturbationMatrix
from tests.conftest import variance_in_population

SKEW = [0.9, 0.05, 0.3, 0.6, 0.1]  # far from symmetric: P and P^T tell apart


def plain_em(p: FloatArray, observed: FloatArray, steps: int) -> FloatArray:
    """Return the dense, unaccelerated textbook iteration, from equal shares."""
    x = np.full(len(observed), observed.sum() / len(observed))
    for _ in range(steps):
        x = x * (p.T @ (observed / (p @ x)))
    return x


def log_likelihood(p: FloatArray, observed: FloatArray, x: FloatArray) -> float:
    return float(sum(o * np.log(e) for o, e in zip(observed, p @ x, strict=True) if o > 0))


def gradient(p: FloatArray, observed: FloatArray, x: FloatArray) -> FloatArray:
    expected = p @ x
    ratio = np.array([o / e if o > 0 else 0.0 for o, e in zip(observed, expected, strict=True)])
    slope: FloatArray = p.T @ ratio
    return slope


def random_problem(rng: np.random.Generator) -> tuple[PerturbationMatrix, FloatArray]:
    """Return a matrix (uniform, fine-grain, some without retention) and published counts, not always likely ones."""
    m = int(rng.integers(1, 9))
    p = rng.choice([1.0, 0.3, 0.05]) * rng.random(m)
    kind = rng.integers(5)
    if kind == 0:
        p[:] = p[0]
    elif kind == 1:
        p[rng.random(m) < 0.4] = 0
    elif kind == 2:
        p[rng.integers(m)] = 1
    observed = rng.integers(0, int(rng.choice([3, 30, 3000])), m) * (rng.random(m) < 0.8)
    observed[0] += observed.sum() == 0
    return PerturbationMatrix.from_retention(p), observed.astype(float)


# --- the maximum --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retention", "observed"),
    [
        (SKEW, [400, 150, 90, 300, 60]),  # inside
        (SKEW, [700, 100, 10, 150, 40]),  # on the border
        (SKEW, [5, 0, 1, 0, 2]),
        ([0.3] * 4, [25, 40, 10, 25]),
        ([0.0, 0.5, 0.4], [30, 50, 20]),
        ([0.5, 0.8], [1, 99]),
    ],
)
def test_agrees_with_plain_em_run_for_very_long(retention: list[float], observed: list[float]) -> None:
    matrix, o = PerturbationMatrix.from_retention(retention), np.array(observed, float)
    slow = plain_em(matrix.dense(), o, 40_000)
    for start in (None, np.ones(matrix.size)):
        result = bayes.iterate(matrix, o, gap=1e-9, start=start)
        assert result.converged
        assert result.value == pytest.approx(slow, abs=2e-3 * np.sqrt(o.sum()))


@pytest.mark.parametrize("seed", range(8))
def test_kkt_conditions(seed: int) -> None:
    """g <= 1, and = 1 where the count is positive, up to rounding: nothing is more likely."""
    rng = np.random.default_rng(seed)
    for _ in range(100):
        matrix, o = random_problem(rng)
        result = bayes.iterate(matrix, o)
        x, g = result.value, gradient(matrix.dense(), o, result.value)
        assert result.converged
        assert x.min() >= 0
        assert x.sum() == pytest.approx(o.sum(), rel=1e-12)
        assert g.max() <= 1 + 1e-7
        assert np.abs(x * (g - 1)).max() <= 1e-6 * o.sum()


def test_closed_form_and_accelerated_em_agree() -> None:
    """Two derivations of one number: KKT with bisection, and iteration from equal shares."""
    rng = np.random.default_rng(20)
    compared = 0
    for _ in range(80):
        matrix, o = random_problem(rng)
        direct = bayes.iterate(matrix, o)
        iterated = bayes.iterate(matrix, o, start=np.ones(matrix.size), gap=1e-6, most=10_000)
        if not iterated.converged:
            continue
        compared += 1
        p = matrix.dense()
        most, other = log_likelihood(p, o, direct.value), log_likelihood(p, o, iterated.value)
        assert -1e-7 <= most - other <= 1e-6 + 1e-7
        if is_usable(matrix) and matrix.condition_number < 50:
            assert iterated.value == pytest.approx(direct.value, abs=0.02 * np.sqrt(o.sum()) * matrix.condition_number)
    assert compared > 65


def test_is_the_inverse_estimate_where_that_has_no_negative_count() -> None:
    rng = np.random.default_rng(21)
    for _ in range(100):
        m = int(rng.integers(2, 20))
        matrix = PerturbationMatrix.from_retention(0.1 + 0.9 * rng.random(m))
        x = rng.integers(0, 100, m).astype(float)
        x[0] += 1
        assert bayes.iterate(matrix, matrix.apply(x)).value == pytest.approx(x, abs=1e-6)


def test_a_mixed_up_transpose_would_be_caught() -> None:
    """The test of the tests: with P in the place of P^T the textbook iteration ends elsewhere."""
    matrix, o = PerturbationMatrix.from_retention(SKEW), np.array([400.0, 150, 90, 300, 60])
    p = matrix.dense()
    right = bayes.iterate(matrix, o).value
    x = np.full(5, 200.0)
    for _ in range(10_000):
        x = x * (p @ (o / (p @ x)))
        x *= o.sum() / x.sum()
    assert np.abs(x - right).max() > 50
    assert np.abs(plain_em(p.T, o, 10_000) - right).max() > 50


# --- the stopping rule --------------------------------------------------------------------------------------


def test_the_gap_bounds_the_distance_from_the_maximum() -> None:
    """log L* - log L <= n (max g - 1), for points near and far; `most=1` measures the start and does not move."""
    rng = np.random.default_rng(30)
    for _ in range(200):
        matrix, o = random_problem(rng)
        top = bayes.iterate(matrix, o, gap=1e-9).value
        start = (0.01 + rng.random(matrix.size)) * rng.choice([1.0, 0.01]) + rng.choice([0, 10]) * top / top.sum()
        result = bayes.iterate(matrix, o, gap=0.0, most=1, start=start)
        x = start * o.sum() / start.sum()
        assert result.value == pytest.approx(x)
        p = matrix.dense()
        assert float(result.gap) == pytest.approx(o.sum() * (gradient(p, o, x).max() - 1), abs=1e-9 * o.sum())
        assert log_likelihood(p, o, top) - log_likelihood(p, o, x) <= result.gap + 1e-7


def test_the_likelihood_never_falls() -> None:
    rng = np.random.default_rng(31)
    for _ in range(40):
        matrix, o = random_problem(rng)
        p, before = matrix.dense(), -np.inf
        for most in range(1, 60, 4):
            now = log_likelihood(p, o, bayes.iterate(matrix, o, gap=0.0, most=most, start=np.ones(matrix.size)).value)
            assert now >= before - 1e-9 * o.sum()
            before = now


def test_stops_at_the_gap_that_is_asked_for_and_says_when_it_does_not_get_there() -> None:
    matrix, o = PerturbationMatrix.from_retention(SKEW), np.array([700.0, 100, 10, 150, 40])
    equal = np.ones(5)
    results = {gap: bayes.iterate(matrix, o, gap=gap, start=equal) for gap in (10.0, 1e-3, 1e-6)}
    assert all(r.converged and r.gap <= gap for gap, r in results.items())
    assert results[10.0].iterations < results[1e-3].iterations < results[1e-6].iterations
    early = bayes.iterate(matrix, o, most=10, start=equal)
    assert not early.converged
    assert early.gap > bayes.GAP
    assert 10 <= early.iterations <= 13
    assert bayes.iterate(matrix, o).iterations == 1  # the closed form leaves nothing to do


def test_acceleration_is_worth_it() -> None:
    matrix, o = PerturbationMatrix.from_retention([0.3, 0.25, 0.2, 0.35]), np.array([300.0, 260, 230, 210])
    accelerated = bayes.iterate(matrix, o, start=np.ones(4))
    assert accelerated.converged
    plain = plain_em(matrix.dense(), o, 5 * accelerated.iterations)
    gap = o.sum() * (gradient(matrix.dense(), o, plain).max() - 1)
    assert gap > bayes.GAP  # five times as many plain steps do not get there


def test_the_default_gap_is_a_small_part_of_a_standard_error() -> None:
    """Stopped at 1e-3 nats from afar, each count is within 0.045 (here 0.06) standard errors of the maximum."""
    rng = np.random.default_rng(32)
    for _ in range(50):
        m = int(rng.integers(2, 8))
        matrix = PerturbationMatrix.from_retention(0.2 + 0.5 * rng.random(m))
        o = matrix.apply(rng.integers(200, 2000, m).astype(float))
        stopped = bayes.iterate(matrix, o, start=np.ones(m))
        error = np.sqrt(variance_in_population(matrix, o, float(o.sum())))
        assert (np.abs(stopped.value - inverse.estimate(matrix, o)) <= 0.06 * error).all()


# --- groups and edges ---------------------------------------------------------------------------------------


def test_groups_are_independent_and_empty_ones_are_zero() -> None:
    rng = np.random.default_rng(40)
    matrix = PerturbationMatrix.from_retention(SKEW)
    o = rng.integers(0, 200, (6, 5)).astype(float)
    o[2] = 0
    for start in (None, np.ones_like(o)):
        whole = bayes.iterate(matrix, o, start=start)
        assert whole.value.shape == (6, 5)
        assert whole.gap.shape == (6,)
        assert whole.converged
        assert not whole.value[2].any()
        for k in range(6):
            alone = bayes.iterate(matrix, o[k], start=None if start is None else start[k])
            assert whole.value[k] == pytest.approx(alone.value, rel=1e-9, abs=1e-9)
            assert whole.gap[k] == pytest.approx(float(alone.gap), rel=1e-6, abs=1e-9)
    assert bayes.iterate(matrix, np.zeros((0, 5))).value.shape == (0, 5)
    assert bayes.iterate(matrix, np.zeros(5)).converged


def test_singular_matrix_gives_equal_shares_to_what_nothing_tells_apart() -> None:
    matrix = PerturbationMatrix.from_retention([0.0, 0.0, 0.5, 0.4])
    o = np.array([30.0, 20, 40, 30])
    for start in (None, np.ones(4)):
        result = bayes.iterate(matrix, o, gap=1e-8, start=start)
        assert result.converged
        assert result.value[0] == pytest.approx(result.value[1], rel=1e-12)
        # t = (30 + 20)/2, x_i = (o_i - t)/p_i for the last two, and the rest of n = 120 for the first two
        assert result.value == pytest.approx([38.75, 38.75, 30, 12.5], abs=0.02)
    noise = PerturbationMatrix.from_retention([0.0, 0.0, 0.0])
    assert bayes.iterate(noise, np.array([1.0, 2.0, 9.0])).value == pytest.approx([4, 4, 4])


def test_extremes() -> None:
    identity = PerturbationMatrix.from_retention([1.0, 1.0, 1.0])
    assert bayes.iterate(identity, np.array([5.0, 0.0, 7.0])).value == pytest.approx([5, 0, 7])
    assert bayes.iterate(PerturbationMatrix.from_retention([0.4]), np.array([7.0])).value == pytest.approx([7])
    one_value = PerturbationMatrix.from_retention([0.2, 0.2, 0.2])
    assert bayes.iterate(one_value, np.array([0.0, 9.0, 0.0])).value == pytest.approx([0, 9, 0])
    rng = np.random.default_rng(41)
    for exponent in (3, 6, 9, 12):
        matrix = PerturbationMatrix.from_retention(10.0 ** (-exponent * rng.random(10)))
        result = bayes.iterate(matrix, rng.multinomial(100_000, np.full(10, 0.1), size=10).astype(float))
        assert result.converged


@pytest.mark.parametrize("n", [1_000, 100_000])
def test_weak_retention_in_a_large_domain_is_fast(n: int) -> None:
    """Plain or accelerated EM does not get there in 30,000 steps; the closed form does."""
    rng = np.random.default_rng(n)
    matrix = PerturbationMatrix.from_retention(np.full(1000, 0.02))
    share = matrix.apply(rng.dirichlet(np.ones(1000)))
    result = bayes.iterate(matrix, rng.multinomial(n, share / share.sum(), size=5).astype(float))
    assert result.converged
    assert result.iterations == 1
    assert result.gap.max() < 1e-6


def test_refuses_negative_counts() -> None:
    with pytest.raises(ValueError, match="not negative"):
        bayes.iterate(PerturbationMatrix.from_retention([0.5, 0.5]), np.array([3.0, -1.0]))
