"""Randomized response under a risk limit, against dense matrices and printed sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import reduce
from itertools import product as combinations

import numpy as np
import pytest

from sfumato.methods.response.joint import (
    SLAB,
    Channel,
    Channels,
    JointTable,
    Mix,
    _mix,
    forward,
    kappa,
    product,
    untouched,
)
from sfumato.methods.response.problem import ChiSquare, Kappa, ObjectiveName
from sfumato.methods.response.risks import Link, Posterior, Reconstruction, Risk, RiskName, row_posterior
from sfumato.values.arrays import FloatArray
from sfumato.values.matrix.retention import WORDS
from sfumato_papers.ad.response import inverse

RISK_NAMES: tuple[RiskName, ...] = ("reconstruction", "posterior", "link")
OBJECTIVE_NAMES: tuple[ObjectiveName, ...] = ("l2", "chi-square")
TIPPING = [[[3, 0], [0, 4]], [[2, 8], [0, 0]]]  # the link risk can rise when the first attribute is randomized more


# --- tables and channels --------------------------------------------------------------------------------------------


def tables(seed: int, number: int, attributes: int = 3) -> Iterator[JointTable]:
    """Random joint tables of one to `attributes` quasi-identifiers: sparse, skewed, with empty groups."""
    rng = np.random.default_rng(seed)
    while number:
        shape = rng.integers(2, 5, int(rng.integers(1, attributes + 1)) + 1)
        counts = rng.poisson(rng.gamma(0.5, rng.choice([3, 20, 200]), shape))
        if np.count_nonzero(counts) >= 2:
            number -= 1
            yield JointTable.from_array(counts)


def random_channels(table: JointTable, rng: np.random.Generator) -> Channels:
    return tuple(Channel.from_diagonal(d, rng.uniform(1 / d + 0.02, 1)) for d in table.sizes)


def shifted(channels: Channels, axis: int, by: float) -> Channels:
    """The channels with one log-retention moved."""
    moved = Channel.from_log_retention(channels[axis].size, float(np.log(channels[axis].retention)) + by)
    return (*channels[:axis], moved, *channels[axis + 1 :])


def dense(channel: Channel) -> FloatArray:
    return np.where(np.eye(channel.size) > 0, channel.diagonal, channel.off_diagonal)


def kronecker(matrices: list[FloatArray]) -> FloatArray:
    return reduce(np.kron, matrices, np.ones((1, 1)))


# --- products -------------------------------------------------------------------------------------------------------


MATRICES: dict[str, tuple[Callable[[Channel], Mix], Callable[[FloatArray], FloatArray]]] = {
    "P": (lambda c: c.forward, lambda p: p),
    "PoP": (lambda c: c.squared, lambda p: p * p),
    "P^-1": (inverse, np.linalg.inv),
}


@pytest.mark.parametrize("name", MATRICES)
def test_products_are_those_of_dense_kronecker_matrices(name: str) -> None:
    mix, matrix = MATRICES[name]
    rng = np.random.default_rng(1)
    for _ in range(60):
        sizes = rng.integers(1, 6, int(rng.integers(1, 4))).tolist()
        channels = [Channel.from_diagonal(d, rng.uniform(0.3 + 0.7 / d, 1)) for d in sizes]
        x = rng.normal(size=sizes)
        slow = kronecker([matrix(dense(c)) for c in channels])
        difference = product([mix(c) for c in channels], x).ravel() - slow @ x.ravel()
        assert np.abs(difference).max() <= 1e-12 * max(1.0, np.abs(slow @ x.ravel()).max())
        assert np.abs(slow - slow.T).max() <= 1e-12 * np.abs(slow).max()  # so no transpose is needed


def test_a_product_leaves_its_argument_and_other_axes_alone() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    channel = Channel.from_diagonal(3, 0.7)
    y = forward((channel,), x, first=1)
    assert (x == np.arange(24.0).reshape(2, 3, 4)).all()
    assert y == pytest.approx(np.einsum("ji,aib->ajb", dense(channel), x), rel=1e-14)


def test_channels_agree_however_they_are_made() -> None:
    for d, p in ((2, 0.9), (7, 0.4), (41, 0.03), (5, 1.0)):
        channel = Channel.from_diagonal(d, p)
        assert channel.diagonal == pytest.approx(p, rel=1e-15)
        assert channel.off_diagonal == pytest.approx((1 - p) / (d - 1), rel=1e-15)
        again = Channel.from_log_retention(d, float(np.log(channel.retention)))
        assert (again.retention, again.off_diagonal) == pytest.approx(
            (channel.retention, channel.off_diagonal), rel=1e-13
        )
        noise = channel.noise
        assert 0 <= noise - Fraction(channel.off_diagonal) * WORDS < 1
        assert channel.sampled().noise == noise
        assert channel.sampled().diagonal == pytest.approx(float(channel.matrix.diagonal[0]), rel=1e-15)
    with pytest.raises(ValueError, match="between 1/4 and 1"):
        Channel.from_diagonal(4, 0.2)


@pytest.mark.parametrize("d", [2, 3, 7, 10, 41, 1000])
def test_noise_stays_within_what_can_be_sampled(d: int) -> None:
    """Even at no retention at all: rounded down to 53 bits, retention stays positive."""
    nothing = Channel.from_log_retention(d, -np.inf)
    assert nothing.matrix.retention[0] > 0
    assert nothing.sampled().noise == nothing.noise
    assert 0 < nothing.sampled().retention < 1e-12


# --- what it costs --------------------------------------------------------------------------------------------------


def covariance(table: JointTable, channels: Channels) -> FloatArray:
    """[P^-1 diag(P pi) P^-T - diag(pi)]/N, dense."""
    p = kronecker([dense(c) for c in channels])
    pi = table.array.ravel() / table.records
    back = np.linalg.inv(p)
    return (back @ np.diag(p @ pi) @ back.T - np.diag(pi)) / table.records


def test_expected_errors_are_those_of_the_dense_covariance() -> None:
    rng = np.random.default_rng(2)
    for table in tables(2, 30, attributes=2):
        channels = tuple(Channel.from_diagonal(d, rng.uniform(0.4 + 0.6 / d, 1)) for d in table.sizes)
        variance = np.diag(covariance(table, channels))
        pi = table.array.ravel() / table.records
        assert Kappa(table).expected_error(channels) == pytest.approx(variance.sum(), rel=1e-10)
        there = pi > 0
        relative = (variance[there] / pi[there]).sum()
        assert ChiSquare(table).expected_error(channels) == pytest.approx(relative, rel=1e-10)


def test_kappa_is_the_mean_square_of_the_inverse() -> None:
    """AD Lemma 4: ||P^-1||_F^2 = (d-1)^3/(dp-1)^2 + 1."""
    channels = (Channel.from_diagonal(3, 0.6), Channel.from_diagonal(5, 0.9))
    back = np.linalg.inv(kronecker([dense(c) for c in channels]))
    assert kappa(channels) == pytest.approx((back**2).sum() / 15, rel=1e-13)
    assert kappa(channels) == pytest.approx((8 / 0.8**2 + 1) / 3 * (64 / 3.5**2 + 1) / 5, rel=1e-13)


def test_expected_error_by_enumerating_every_release() -> None:
    """Three records, one binary quasi-identifier and a sensitive value: 4^3 releases."""
    table = JointTable.from_array([[2, 0], [0, 1]])
    channels = (Channel.from_diagonal(2, 0.8), Channel.from_diagonal(2, 0.7))
    p = kronecker([dense(c) for c in channels])
    back, pi, total = np.linalg.inv(p), np.array([2, 0, 0, 1]) / 3, 0.0
    for release in combinations(range(4), repeat=3):
        chance = np.prod([p[y, x] for x, y in zip((0, 0, 3), release, strict=True)])
        total += chance * ((back @ np.bincount(release, minlength=4) / 3 - pi) ** 2).sum()
    assert Kappa(table).expected_error(channels) == pytest.approx(total, rel=1e-13)


# --- risks ----------------------------------------------------------------------------------------------------------


def printed_reconstruction(table: JointTable, channels: Channels) -> FloatArray:
    """AD Eq. (6)-(8), sum by sum; 0 where nobody is."""
    pi, p_s = table.array / table.records, dense(channels[-1])
    groups = list(np.ndindex(table.sizes[:-1]))

    def chance(b: tuple[int, ...], a: tuple[int, ...]) -> float:
        return float(np.prod([dense(c)[y, x] for c, y, x in zip(channels, b, a, strict=False)]))

    size = {a: pi[a].sum() for a in groups}
    released = {b: sum(size[g] * chance(b, g) for g in groups) for b in groups}
    risk = np.zeros(table.sizes)
    for a in groups:
        linked = sum(size[a] * chance(b, a) ** 2 / released[b] for b in groups if released[b] > 0)
        for u in range(table.sizes[-1]):
            if pi[a][u] == 0:
                continue
            guessed = sum(p_s[v, u] ** 2 * pi[a][u] / (p_s[v] @ pi[a]) for v in range(table.sizes[-1]) if p_s[v, u] > 0)
            risk[(*a, u)] = pi[a][u] / size[a] * linked * guessed
    return risk


def on_cells(table: JointTable, full: FloatArray) -> FloatArray:
    """The occupied groups' rows of an array over the whole domain."""
    return full.reshape(-1, table.sizes[-1])[table.places].ravel()


def test_reconstruction_is_the_printed_one() -> None:
    rng = np.random.default_rng(3)
    for table in tables(3, 25, attributes=2):
        for channels in (random_channels(table, rng), untouched(table.sizes)):
            slow = on_cells(table, printed_reconstruction(table, channels))
            assert Reconstruction(table, channels).values == pytest.approx(slow, rel=1e-12)


def test_without_randomization_the_risk_is_the_share() -> None:
    for table in tables(4, 20):
        for risk in (Reconstruction, Link):
            assert risk(table, untouched(table.sizes)).values == pytest.approx(table.shares.ravel(), rel=1e-14)
        shares = Posterior(table, untouched(table.sizes)).values.reshape(-1, table.sizes[-1])
        assert shares[table.places] == pytest.approx(table.shares, rel=1e-14)
        assert np.delete(shares, table.places, axis=0).sum() == 0  # nothing is released there


def test_posterior_and_link_against_dense_matrices() -> None:
    rng = np.random.default_rng(5)
    for table in tables(5, 40):
        channels = random_channels(table, rng)
        p, joint = kronecker([dense(c) for c in channels[:-1]]), table.array.reshape(-1, table.sizes[-1])
        h = (p @ joint) / (p @ joint).sum(axis=1, keepdims=True)
        assert Posterior(table, channels).values == pytest.approx(h.ravel(), rel=1e-12)
        there = (table.counts > 0).ravel()
        link = (p.T @ h)[table.places].ravel()
        assert Link(table, channels).values == pytest.approx(np.where(there, link, 0), rel=1e-12)
        assert (Reconstruction(table, channels).values <= Link(table, channels).values + 1e-12).all()


def test_least_risks_are_those_of_property_1() -> None:
    """AD Property 1, for every cell: (pi_au/pi_a)^2, pi_au and pi_au^2/pi_a."""
    for table in tables(6, 30):
        nothing = tuple(Channel.from_log_retention(d, -np.inf) for d in table.sizes)
        same, pi = untouched(table.sizes), table.counts / table.records
        least = {
            (*same[:-1], nothing[-1]): table.shares**2,
            (*nothing[:-1], same[-1]): pi,
            nothing: pi * table.shares,
        }
        for channels, expected in least.items():
            assert Reconstruction(table, channels).values == pytest.approx(expected.ravel(), rel=1e-12)


def test_risks_never_fall_with_retention() -> None:
    """Every cell of `reconstruction`, and the largest `posterior`, in each attribute."""
    rng = np.random.default_rng(7)
    for table in tables(7, 60):
        channels = random_channels(table, rng)
        for axis in range(len(table.sizes)):
            less = shifted(channels, axis, -rng.exponential(0.5))
            assert (Reconstruction(table, less).values <= Reconstruction(table, channels).values * (1 + 1e-12)).all()
            assert Posterior(table, less).values.max() <= Posterior(table, channels).values.max() * (1 + 1e-12)


def test_the_link_risk_can_rise_when_more_is_randomized() -> None:
    """So for it nothing but evaluated points is accepted."""
    table = JointTable.from_array(TIPPING)

    def largest(retention: float) -> float:
        second, same = Channel(2, 0.7, 0.15), Channel(2, 1.0, 0.0)
        return float(Link(table, (Channel(2, retention, (1 - retention) / 2), second, same)).values.max())

    assert largest(0.0) == pytest.approx(0.8261, abs=5e-5)
    assert largest(0.95) == pytest.approx(0.7849, abs=5e-5)


@pytest.mark.parametrize("kind", [Reconstruction, Posterior, Link])
def test_gradients_are_the_limit_of_differences(kind: type[Risk]) -> None:
    """Central differences by log r, with a step of 1e-5: their error is about 1e-10."""
    rng = np.random.default_rng(8)
    for table in tables(8, 25):
        channels = random_channels(table, rng)
        point = kind(table, channels)
        cells = np.flatnonzero(point.values > 0)
        exact = point.gradient(cells)
        assert exact.shape == (cells.size, len(table.sizes))
        for axis in range(len(table.sizes)):
            up, down = (np.log(kind(table, shifted(channels, axis, by)).values[cells]) for by in (1e-5, -1e-5))
            assert exact[:, axis] == pytest.approx((up - down) / 2e-5, rel=1e-7, abs=1e-8)


def test_gradients_are_finite_where_almost_nothing_is_randomized() -> None:
    """18 binary attributes: the expected release of a far group is below 1e-155, 1 over its square no number."""
    cells = np.eye(19, dtype=np.int64)[[0, 0, 5, 18]]
    table = JointTable.from_cells((2,) * 19, cells, np.ones(4))
    channels = tuple(Channel.from_log_retention(2, -1e-9) for _ in table.sizes)
    point = Reconstruction(table, channels)
    assert 0 < point.released.min() < 1e-155
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        point.released.min() ** -2
    slopes = point.gradient(np.flatnonzero(point.values > 0))
    assert np.isfinite(slopes).all()
    assert slopes.min() >= -1e-9  # no risk falls with retention


@pytest.mark.parametrize("kind", [Kappa, ChiSquare])
def test_gradients_of_objectives(kind: type[Kappa] | type[ChiSquare]) -> None:
    rng = np.random.default_rng(9)
    for table in tables(9, 25):
        objective, channels = kind(table), random_channels(table, rng)
        for axis, exact in enumerate(objective.log_gradient(channels)):
            up, down = (np.log(objective.value(shifted(channels, axis, by))) for by in (1e-5, -1e-5))
            assert exact == pytest.approx((up - down) / 2e-5, rel=1e-7, abs=1e-8)


def test_who_sees_the_whole_row() -> None:
    """Bayes over every released (b, v); the closed form takes the largest h and v = u."""
    rng = np.random.default_rng(10)
    for table in tables(10, 30):
        channels = random_channels(table, rng)
        h = Posterior(table, channels).values.reshape(-1, table.sizes[-1])
        belief = dense(channels[-1])[None] * h[:, None, :]  # [b, v, u]
        belief /= belief.sum(axis=2, keepdims=True)
        assert row_posterior(float(h.max()), channels[-1]) == pytest.approx(belief.max(), rel=1e-12)


def test_a_table_that_was_asked_cannot_be_changed() -> None:
    """What was computed of it is kept: a changed count would be answered with former figures."""
    table = JointTable.from_array([[2, 1], [1, 2]])
    for kept in (table.counts, table.groups):
        with pytest.raises(ValueError, match="read-only"):
            kept[0, 0] = 7


@pytest.mark.parametrize("shape", [(40, 30, 12, 10), (3, 300, 200), (70_000, 2)])
def test_a_product_slab_by_slab_is_the_same_to_the_last_digit(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(4).random(shape) * 1e6
    assert x.size > SLAB
    for untouched_axis in range(len(shape)):
        mixes = [Mix(1, 0) if k == untouched_axis else Mix(0.7, 0.3 / d) for k, d in enumerate(shape)]
        for used in (mixes, mixes[:-1]):
            whole = x.copy()
            _mix(whole, used, 0)
            np.testing.assert_array_equal(product(used, x), whole)
