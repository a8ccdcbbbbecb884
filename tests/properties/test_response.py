"""Randomized response under a risk limit, against dense matrices, printed sums, exact fractions and grids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import reduce
from itertools import product as combinations
from math import ceil

import numpy as np
import pytest

from sfumato.errors import Infeasible
from sfumato.matrix import WORDS, FloatArray
from sfumato.methods.response import (
    Channel,
    Channels,
    ChiSquare,
    JointTable,
    Kappa,
    Link,
    ObjectiveName,
    Posterior,
    Reconstruction,
    RiskName,
    RiskOutOfReach,
    forward,
    guess,
    kappa,
    likely_worst,
    limit_success,
    row_posterior,
    sampled_risk,
    solve,
    trade_off,
    untouched,
)
from sfumato.methods.response.channels import Mix, product
from sfumato.methods.response.joint import MOST_CELLS
from sfumato.methods.response.risks import RISKS, Risk

RISK_NAMES: tuple[RiskName, ...] = ("reconstruction", "posterior", "link")
OBJECTIVE_NAMES: tuple[ObjectiveName, ...] = ("kappa", "chi_square")
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
    "P^-1": (lambda c: c.inverse, np.linalg.inv),
    "P^-1oP^-1": (lambda c: c.inverse_squared, lambda p: np.linalg.inv(p) ** 2),
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


# --- the solver -----------------------------------------------------------------------------------------------------


def exact_risks(table: JointTable, noise: tuple[int, ...], risk: RiskName) -> list[Fraction]:
    """Every cell's risk on the integers, in fractions."""
    one = Fraction(1)
    matrices = [
        [
            [(one if x == y else 0) * (1 - d * Fraction(q, WORDS)) + Fraction(q, WORDS) for x in range(d)]
            for y in range(d)
        ]
        for d, q in zip(table.sizes, noise, strict=True)
    ]
    groups = list(np.ndindex(table.sizes[:-1]))
    joint = {a: [Fraction(int(c)) for c in table.array[a]] for a in groups}

    def chance(b: tuple[int, ...], a: tuple[int, ...]) -> Fraction:
        return reduce(lambda c, k: c * matrices[k][b[k]][a[k]], range(len(a)), one)

    values = range(table.sizes[-1])
    moved = {b: [sum(chance(b, a) * joint[a][u] for a in groups) for u in values] for b in groups}
    share = {b: [x / sum(moved[b]) for x in moved[b]] for b in groups if sum(moved[b])}
    if risk == "posterior":
        return [h for b in share for h in share[b]]
    occupied = [(a, u) for a in groups for u in values if joint[a][u]]
    if risk == "link":
        return [sum((chance(b, a) * share[b][u] for b in share), start=Fraction(0)) for a, u in occupied]
    p_s = matrices[-1]
    result = []
    for a, u in occupied:
        linked = sum((chance(b, a) ** 2 / sum(moved[b]) for b in share), start=Fraction(0))
        published = [sum(p_s[v][w] * joint[a][w] for w in values) for v in values]
        guessed = sum((p_s[v][u] ** 2 / published[v] for v in values if published[v]), start=Fraction(0))
        result.append(joint[a][u] ** 2 * linked * guessed)
    return result


@pytest.mark.parametrize("risk", RISK_NAMES)
def test_limits_hold_exactly_on_the_integers(risk: RiskName) -> None:
    """In fractions; and they are reached, to a millionth."""
    solved = 0
    for table in tables(11, 25, attributes=2):
        for limit in (Fraction(1, 2), Fraction(2, 3), Fraction(9, 10)):
            try:
                found = solve(table, limit, risk=risk)
            except RiskOutOfReach:
                continue
            exact = exact_risks(table, found.noise, risk)
            assert max(exact) <= limit
            assert found.risk >= max(exact)
            assert found.risk == pytest.approx(float(max(exact)), rel=1e-12)
            assert [m.size for m in found.matrices] == list(table.sizes)
            if any(found.noise):
                solved += 1
                assert max(exact) > limit * (1 - Fraction(1, 10**6))
    assert solved > 20


@pytest.mark.parametrize("objective", OBJECTIVE_NAMES)
@pytest.mark.parametrize("risk", RISK_NAMES)
def test_no_point_of_a_grid_is_better(risk: RiskName, objective: ObjectiveName) -> None:
    """Two quasi-identifiers, 20 x 20 retentions: none within the limit has a lower objective."""
    solved = 0
    for table in [t for t in tables(12, 40) if len(t.sizes) == 3]:
        try:
            found = solve(table, 0.6, risk=risk, scope="quasi_identifiers", objective=objective)
        except RiskOutOfReach:
            continue
        solved += any(found.noise)
        cost = {"kappa": Kappa, "chi_square": ChiSquare}[objective](table)
        same = Channel(table.sizes[-1], 1.0, 0.0)
        for x, y in combinations(-np.geomspace(1e-3, 3, 20), repeat=2):
            channels = tuple(Channel.from_log_retention(d, v) for d, v in zip(table.sizes[:-1], (x, y), strict=True))
            if RISKS[risk](table, (*channels, same)).values.max() <= 0.6:
                assert found.objective <= cost.value((*channels, same)) * (1 + 1e-9)
    assert solved >= 5


def test_one_attribute_by_bisection() -> None:
    """AD Table 1's women and men: p of the gender such that the risk is 1/3, found without a solver."""
    table = JointTable.from_array([[20, 30, 22], [12, 8, 8]])
    low, high = 0.5, 1.0
    for _ in range(60):
        p = (low + high) / 2
        within = printed_reconstruction(table, (Channel.from_diagonal(2, p), Channel(3, 1.0, 0.0))).max() <= 1 / 3
        low, high = (p, high) if within else (low, p)
    found = solve(table, Fraction(1, 3), risk="reconstruction", scope="quasi_identifiers")
    assert found.diagonal == pytest.approx((low, 1.0), rel=1e-9)


def test_a_limit_that_holds_anyway_costs_nothing() -> None:
    table = JointTable.from_array([[10, 10, 10], [5, 5, 6]])
    found = solve(table, Fraction(2, 5))
    assert found.noise == (0, 0)
    assert (found.kappa, found.expected_error) == (1, 0)
    assert found.diagonal == (1, 1)


def test_scopes_and_fixed_attributes_are_left_alone() -> None:
    table = next(t for t in tables(13, 60) if len(t.sizes) == 4)
    limit = 0.5
    quasi = solve(table, limit, risk="reconstruction", scope="quasi_identifiers")
    both = solve(table, limit, risk="reconstruction", scope="both")
    fixed = solve(table, limit, risk="reconstruction", scope="both", fixed=(0, 3))
    assert quasi.noise[-1] == 0
    assert (fixed.noise[0], fixed.noise[3]) == (0, 0)
    assert both.kappa <= min(quasi.kappa, fixed.kappa) * (1 + 1e-9)
    assert solve(table, 0.9, risk="posterior", scope="both").noise[-1] == 0  # noise in S does not lower it
    with pytest.raises(ValueError, match="from 0 to 3"):
        solve(table, limit, fixed=(4,))


def test_different_limits_for_different_records() -> None:
    """AD section IV-B: women are content with 0.6, men want 0.3. Both hold, and cost less than 0.3 for all would."""
    table = JointTable.from_array([[[40, 2, 5], [3, 38, 9], [9, 4, 44]], [[10, 12, 9], [14, 9, 10], [8, 11, 13]]])
    found = solve(table, np.where(table.groups[:, :1] == 0, 0.6, 0.3), risk="reconstruction")
    women, men = Reconstruction(table, found.channels).values.reshape(2, -1)
    assert 0.3 < women.max() <= 0.6
    assert men.max() <= 0.3
    strict, loose = (solve(table, limit, risk="reconstruction").kappa for limit in (0.3, 0.6))
    assert loose <= found.kappa < strict
    one_group = np.where((table.groups == [0, 2]).all(axis=1), 0.5, 1)[:, None]  # 1: no limit
    found = solve(table, one_group, risk="reconstruction")
    assert Reconstruction(table, found.channels).values.reshape(2, 3, 3)[0, 2].max() == pytest.approx(0.5, rel=1e-6)
    assert Reconstruction(table, found.channels).values.max() > 0.5


def test_a_posterior_takes_the_strictest_limit_of_each_value() -> None:
    """A released group mixes records, so that one record's limit holds for its value everywhere."""
    table = JointTable.from_array([[9, 5, 6], [2, 8, 7], [6, 6, 1]])
    by_value = np.array([0.36, 0.45, 0.45])
    found = solve(table, by_value, risk="posterior")
    assert (Posterior(table, found.channels).values.reshape(3, 3).max(axis=0) <= by_value).all()
    assert found.risk == pytest.approx(0.36, rel=1e-6)
    by_cell = np.full((3, 3), 0.45)
    by_cell[1, 0] = 0.36
    assert solve(table, by_cell, risk="posterior").noise == found.noise


# --- what cannot be had ---------------------------------------------------------------------------------------------


def test_out_of_reach_names_the_least_risk_and_the_cells() -> None:
    """Group 1 has one value: RR-S cannot lower its risk of 1."""
    table = JointTable.from_array([[4, 4, 4], [0, 6, 0], [5, 1, 0]])
    with pytest.raises(RiskOutOfReach) as error:
        solve(table, Fraction(1, 2), risk="reconstruction", scope="sensitive")
    assert error.value.least == pytest.approx(1, rel=1e-14)
    assert error.value.cells.tolist() == [[1, 1], [2, 0]]  # (5/6)^2 is above 1/2 too
    assert error.value.single_valued == 1
    assert "single sensitive value" in error.value.message
    assert "Randomize attribute(s) 0 too" in error.value.hint
    assert solve(table, Fraction(1, 2), risk="reconstruction", scope="both").risk <= 1 / 2


def test_a_posterior_is_out_of_reach_where_a_value_is_too_frequent() -> None:
    table = JointTable.from_array([[[8, 2], [3, 1]], [[1, 4], [2, 3]]])
    with pytest.raises(RiskOutOfReach) as error:
        solve(table, Fraction(1, 2), risk="posterior")
    assert error.value.least == pytest.approx(14 / 24, rel=1e-12)
    assert error.value.cells.tolist() == [[-1, -1, 0]]  # whatever the quasi-identifiers
    assert "Suppress" in error.value.hint
    assert solve(table, 0.6, risk="posterior").risk <= 0.6
    with pytest.raises(RiskOutOfReach) as error:
        solve(table, 0.6, risk="posterior", fixed=(0,))
    assert error.value.cells.tolist() == [[0, -1, 0], [1, -1, 1]]  # 11/14 and 7/10
    assert "Randomize attribute(s) 0 too" in error.value.hint


def test_a_link_risk_below_that_of_no_retention_is_found() -> None:
    """TIPPING without retention has max link = 12/17; less is reachable, and what is reachable is kept exactly."""
    table = JointTable.from_array(TIPPING)
    nothing = tuple(Channel.from_log_retention(d, -np.inf) for d in (2, 2))
    at_nothing = Link(table, (*nothing, Channel(2, 1.0, 0.0))).values.max()
    assert at_nothing == pytest.approx(12 / 17, rel=1e-12)
    with pytest.raises(RiskOutOfReach) as error:
        solve(table, 0.5, risk="link")
    least = error.value.least
    assert least <= at_nothing * (1 + 1e-9)
    grid = -np.concatenate([[0], np.geomspace(1e-3, 10, 25)])
    points = (tuple(Channel.from_log_retention(2, v) for v in pair) for pair in combinations(grid, repeat=2))
    assert least <= min(Link(table, (*c, Channel(2, 1.0, 0.0))).values.max() for c in points) * (1 + 1e-6)
    assert solve(table, least * 1.01, risk="link").risk <= least * 1.01


def test_a_trade_off_falls_and_ends() -> None:
    table = JointTable.from_array([[8, 2, 3], [3, 6, 2], [2, 3, 7]])
    *found, last = trade_off(table, [0.6, 0.5, 0.4, 0.3], risk="posterior")
    costs = [response.kappa for response in found if not isinstance(response, RiskOutOfReach)]
    assert len(costs) == 3
    assert costs == sorted(costs)
    assert isinstance(last, RiskOutOfReach)
    assert last.least == pytest.approx(13 / 36, rel=1e-12)


def test_too_large_a_domain_is_refused_with_its_price() -> None:
    sizes = (2000, 2000, 2000, 3)
    table = JointTable.from_cells(sizes, np.array([[0, 1, 2, 0], [3, 4, 5, 1]]), [1, 2])
    assert table.group_cells > MOST_CELLS
    with pytest.raises(Infeasible, match=r"8,000,000,000 cells.*768 GB and 7\.0 h, with 336 s") as error:
        solve(table, 0.5, risk="reconstruction")
    assert "sfumato risk" in error.value.hint


@pytest.mark.parametrize(
    ("counts", "message"),
    [([[0, 0], [0, 0]], "has records"), ([[0.5, 1], [1, 1]], "whole numbers"), ([[-1, 2], [1, 1]], "has records")],
)
def test_what_is_no_table_is_refused(counts: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        JointTable.from_array(counts)


def test_a_table_of_cells_is_the_table_of_the_array() -> None:
    for table in tables(15, 10):
        cells = np.argwhere(table.array > 0)
        again = JointTable.from_cells(table.sizes, cells, table.array[tuple(cells.T)])
        assert (again.array == table.array).all()
        assert (again.group_array == table.array.sum(axis=-1)).all()


# --- estimates and guesses ------------------------------------------------------------------------------------------


def test_sampled_risks_agree_with_exact_ones() -> None:
    """Within 4.5 standard errors, for all of some 100 cells: a false alarm in about 1,500 runs."""
    rng = np.random.default_rng(16)
    distance = []
    for table in tables(16, 12):
        channels = random_channels(table, rng)
        cells = likely_worst(table, channels, 5)
        assert (table.counts[tuple(cells.T)] > 0).all()
        estimate = sampled_risk(table, channels, cells, rng.random((4000, len(table.sizes) - 1)))
        flat = cells[:, 0] * table.sizes[-1] + cells[:, 1]
        pairs = (
            (estimate.reconstruction, estimate.reconstruction_error, Reconstruction(table, channels)),
            (estimate.link, estimate.link_error, Link(table, channels)),
        )
        for value, error, exact in pairs:
            distance += ((value - exact.values[flat]) / error).tolist()
        posterior = Posterior(table, channels).shares
        for seen, u in zip(estimate.posterior, cells[:, 1], strict=True):
            assert np.isclose(seen, posterior[..., u], rtol=1e-12, atol=0).any()
    assert np.abs(distance).max() < 4.5
    assert np.std(distance) == pytest.approx(1, abs=0.35)


def test_sampling_needs_no_dense_domain() -> None:
    """8e9 groups; every value untouched, so that the risk is the share."""
    table = JointTable.from_cells(
        (2000, 2000, 2000, 3), np.array([[0, 1, 2, 0], [0, 1, 2, 1], [3, 4, 5, 1]]), [1, 3, 2]
    )
    cells = likely_worst(table, untouched(table.sizes), 2)
    assert cells.tolist() == [[1, 1], [0, 1]]
    estimate = sampled_risk(table, untouched(table.sizes), cells, np.full((3, 3), 0.5))
    assert estimate.reconstruction == pytest.approx([1.0, 0.75])
    assert estimate.link == pytest.approx([1.0, 0.75])
    assert estimate.posterior == pytest.approx([1.0, 0.75])


def test_on_the_expected_release_the_guesser_knows_the_table() -> None:
    """The likelihood estimate is the table itself: whatever the noise, the guesser is as good as one who knows it."""
    table = JointTable.from_array([[[30, 5, 5], [2, 50, 8]], [[4, 9, 40], [25, 3, 6]]])
    for p in (0.7, 0.8, 0.95):
        channels = tuple(Channel.from_diagonal(d, p) for d in table.sizes)
        found = guess(table, channels, forward(channels, table.array), most=20_000)
        assert found.gap <= 1e-3
        assert found.success == limit_success(table) == 145 / 187
        assert found.estimate.sum() == pytest.approx(table.records)


def test_iterative_bayes_never_exceeds_its_gap() -> None:
    """log L at the estimate is within the gap of log L at the truth, on the expected release where that is the best."""
    table = JointTable.from_array([[30, 5, 5], [4, 40, 9]])
    channels = (Channel.from_diagonal(2, 0.8), Channel.from_diagonal(3, 0.7))
    released = forward(channels, table.array)
    for most in (1, 5, 50):
        found = guess(table, channels, released, most)
        best, here = ((released * np.log(forward(channels, x))).sum() for x in (table.array, found.estimate))
        assert 0 <= best - here <= found.gap + 1e-9


def test_the_l_of_the_hint_can_be_had() -> None:
    """The hint's l is the largest whose 1/l is above the least risk."""
    table = JointTable.from_array([[8, 2, 3], [3, 6, 2], [2, 3, 7]])
    with pytest.raises(RiskOutOfReach) as error:
        solve(table, Fraction(1, 3), risk="posterior")
    most = ceil(1 / error.value.least) - 1
    assert f"(l <= {most})" in error.value.hint
    assert solve(table, Fraction(1, most), risk="posterior").risk <= 1 / most
