"""The parameters under a risk limit: exact fractions, grids, what cannot be had, estimates and guesses."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import reduce
from itertools import product as combinations
from math import ceil

import numpy as np
import pytest

from sfumato.errors import Infeasible
from sfumato.methods.response.estimating import likely_worst, sampled_risk
from sfumato.methods.response.guessing import estimates, guesses, limit_success
from sfumato.methods.response.joint import MOST_CELLS, Channel, JointTable, forward, untouched
from sfumato.methods.response.problem import ChiSquare, Kappa, ObjectiveName, pose
from sfumato.methods.response.reach import RiskOutOfReach, between
from sfumato.methods.response.risks import RISKS, Link, Posterior, Reconstruction, RiskName
from sfumato.methods.response.solver import solve
from sfumato.values.matrix.retention import WORDS
from tests.methods.test_response_risks import (
    OBJECTIVE_NAMES,
    RISK_NAMES,
    TIPPING,
    printed_reconstruction,
    random_channels,
    tables,
)

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
                found = solve(pose(table, limit, risk=risk))
            except RiskOutOfReach:
                continue
            exact = exact_risks(table, found.noise, risk)
            assert max(exact) <= limit
            assert found.risk >= max(exact)
            assert found.risk == pytest.approx(float(max(exact)), rel=1e-12)
            assert [channel.matrix.size for channel in found.channels] == list(table.sizes)
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
            found = solve(pose(table, 0.6, risk=risk, scope="quasi-identifiers", objective=objective))
        except RiskOutOfReach:
            continue
        solved += any(found.noise)
        cost = {"l2": Kappa, "chi-square": ChiSquare}[objective](table)
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
    found = solve(pose(table, Fraction(1, 3), risk="reconstruction", scope="quasi-identifiers"))
    assert found.diagonal == pytest.approx((low, 1.0), rel=1e-9)


def test_a_limit_that_holds_anyway_costs_nothing() -> None:
    table = JointTable.from_array([[10, 10, 10], [5, 5, 6]])
    found = solve(pose(table, Fraction(2, 5)))
    assert found.noise == (0, 0)
    assert (found.kappa, found.expected_error) == (1, 0)
    assert found.diagonal == (1, 1)


def test_scopes_and_fixed_attributes_are_left_alone() -> None:
    table = next(t for t in tables(13, 60) if len(t.sizes) == 4)
    limit = 0.5
    quasi = solve(pose(table, limit, risk="reconstruction", scope="quasi-identifiers"))
    both = solve(pose(table, limit, risk="reconstruction", scope="both"))
    fixed = solve(pose(table, limit, risk="reconstruction", scope="both", fixed=(0, 3)))
    assert quasi.noise[-1] == 0
    assert (fixed.noise[0], fixed.noise[3]) == (0, 0)
    assert both.kappa <= min(quasi.kappa, fixed.kappa) * (1 + 1e-9)
    assert solve(pose(table, 0.9, risk="posterior", scope="both")).noise[-1] == 0  # noise in S does not lower it
    with pytest.raises(ValueError, match="from 0 to 3"):
        solve(pose(table, limit, fixed=(4,)))


def test_different_limits_for_different_records() -> None:
    """AD section IV-B: women are content with 0.6, men want 0.3. Both hold, and cost less than 0.3 for all would."""
    table = JointTable.from_array([[[40, 2, 5], [3, 38, 9], [9, 4, 44]], [[10, 12, 9], [14, 9, 10], [8, 11, 13]]])
    found = solve(pose(table, np.where(table.groups[:, :1] == 0, 0.6, 0.3), risk="reconstruction"))
    women, men = Reconstruction(table, found.channels).values.reshape(2, -1)
    assert 0.3 < women.max() <= 0.6
    assert men.max() <= 0.3
    strict, loose = (solve(pose(table, limit, risk="reconstruction")).kappa for limit in (0.3, 0.6))
    assert loose <= found.kappa < strict
    one_group = np.where((table.groups == [0, 2]).all(axis=1), 0.5, 1)[:, None]  # 1: no limit
    found = solve(pose(table, one_group, risk="reconstruction"))
    assert Reconstruction(table, found.channels).values.reshape(2, 3, 3)[0, 2].max() == pytest.approx(0.5, rel=1e-6)
    assert Reconstruction(table, found.channels).values.max() > 0.5


def test_a_posterior_takes_the_strictest_limit_of_each_value() -> None:
    """A released group mixes records, so that one record's limit holds for its value everywhere."""
    table = JointTable.from_array([[9, 5, 6], [2, 8, 7], [6, 6, 1]])
    by_value = np.array([0.36, 0.45, 0.45])
    found = solve(pose(table, by_value, risk="posterior"))
    assert (Posterior(table, found.channels).values.reshape(3, 3).max(axis=0) <= by_value).all()
    assert found.risk == pytest.approx(0.36, rel=1e-6)
    by_cell = np.full((3, 3), 0.45)
    by_cell[1, 0] = 0.36
    assert solve(pose(table, by_cell, risk="posterior")).noise == found.noise


# --- what cannot be had ---------------------------------------------------------------------------------------------


def test_out_of_reach_names_the_least_risk_and_the_cells() -> None:
    """Group 1 has one value: RR-S cannot lower its risk of 1."""
    table = JointTable.from_array([[4, 4, 4], [0, 6, 0], [5, 1, 0]])
    with pytest.raises(RiskOutOfReach) as error:
        solve(pose(table, Fraction(1, 2), risk="reconstruction", scope="sensitive"))
    assert error.value.least == pytest.approx(1, rel=1e-14)
    assert error.value.cells.tolist() == [[1, 1], [2, 0]]  # (5/6)^2 is above 1/2 too
    assert "1 of which have a single sensitive value" in error.value.message
    assert solve(pose(table, Fraction(1, 2), risk="reconstruction", scope="both")).risk <= 1 / 2


def test_a_posterior_is_out_of_reach_where_a_value_is_too_frequent() -> None:
    table = JointTable.from_array([[[8, 2], [3, 1]], [[1, 4], [2, 3]]])
    with pytest.raises(RiskOutOfReach) as error:
        solve(pose(table, Fraction(1, 2), risk="posterior"))
    assert error.value.least == pytest.approx(14 / 24, rel=1e-12)
    assert error.value.cells.tolist() == [[-1, -1, 0]]  # whatever the quasi-identifiers
    assert solve(pose(table, 0.6, risk="posterior")).risk <= 0.6
    with pytest.raises(RiskOutOfReach) as error:
        solve(pose(table, 0.6, risk="posterior", fixed=(0,)))
    assert error.value.cells.tolist() == [[0, -1, 0], [1, -1, 1]]  # 11/14 and 7/10


def test_a_link_risk_below_that_of_no_retention_is_found() -> None:
    """TIPPING without retention has max link = 12/17; less is reachable, and what is reachable is kept exactly."""
    table = JointTable.from_array(TIPPING)
    nothing = tuple(Channel.from_log_retention(d, -np.inf) for d in (2, 2))
    at_nothing = Link(table, (*nothing, Channel(2, 1.0, 0.0))).values.max()
    assert at_nothing == pytest.approx(12 / 17, rel=1e-12)
    with pytest.raises(RiskOutOfReach) as error:
        solve(pose(table, 0.5, risk="link"))
    least = error.value.least
    assert least <= at_nothing * (1 + 1e-9)
    grid = -np.concatenate([[0], np.geomspace(1e-3, 10, 25)])
    points = (tuple(Channel.from_log_retention(2, v) for v in pair) for pair in combinations(grid, repeat=2))
    assert least <= min(Link(table, (*c, Channel(2, 1.0, 0.0))).values.max() for c in points) * (1 + 1e-6)
    assert solve(pose(table, least * 1.01, risk="link")).risk <= least * 1.01


def test_counts_of_very_different_sizes_leave_no_room_to_the_limit() -> None:
    """One free attribute of the first, where SLSQP ends within the limit; of the second one start leads far away."""
    alone = JointTable.from_array([[[0, 10**6, 0], [1, 0, 0], [10**9, 10**9, 0], [10**9, 10**9, 0]]])
    found = solve(pose(alone, 0.8296553032072191, risk="link", objective="chi-square"))
    assert found.risk > 0.8296553032072191 * (1 - 1e-6)
    counts = np.zeros((2, 4, 3))
    counts[0] = [[0, 0, 356_000], [0, 70, 233_000], [0, 773e9, 12e6], [514, 0, 0]]
    counts[1] = [[0, 0, 664_000], [0, 0, 0], [299e9, 801_000, 778_000], [0, 0, 471_000]]
    table, limit = JointTable.from_array(counts), 0.7878095843958934
    found = solve(pose(table, limit, risk="link", objective="chi-square"))
    assert found.risk > limit * (1 - 1e-6)
    assert found.objective < 623_000  # raised from one start alone 847,812


def test_without_a_point_within_the_limits_nothing_overflows() -> None:
    table = JointTable.from_array([[941e9, 218e6], [776_000, 172e6], [915_000, 267e6], [94, 959_000]])
    limits = np.repeat([[0.9995720511601683], [0.8823044816257196], [0.42934095914473175], [0.2]], 2, axis=1)
    with pytest.raises(RiskOutOfReach):
        solve(pose(table, limits, risk="link", objective="chi-square"))


def test_a_trade_off_falls_and_ends() -> None:
    table = JointTable.from_array([[8, 2, 3], [3, 6, 2], [2, 3, 7]])
    costs = [solve(pose(table, limit, risk="posterior")).kappa for limit in (0.6, 0.5, 0.4)]
    assert costs == sorted(costs)
    with pytest.raises(RiskOutOfReach) as error:
        solve(pose(table, 0.3, risk="posterior"))
    assert error.value.least == pytest.approx(13 / 36, rel=1e-12)


def test_too_large_a_domain_is_refused_with_its_price() -> None:
    sizes = (2000, 2000, 2000, 3)
    table = JointTable.from_cells(sizes, np.array([[0, 1, 2, 0], [3, 4, 5, 1]]), [1, 2])
    assert table.group_cells > MOST_CELLS
    with pytest.raises(Infeasible, match=r"8,000,000,000 cells.*768 GB and 7\.0 h, with 336 s") as error:
        solve(pose(table, 0.5, risk="reconstruction"))
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
            (estimate["reconstruction"], estimate["reconstruction_error"], Reconstruction(table, channels)),
            (estimate["link"], estimate["link_error"], Link(table, channels)),
        )
        for value, error, exact in pairs:
            distance += ((value - exact.values[flat]) / error).tolist()
        posterior = Posterior(table, channels).shares
        for seen, u in zip(estimate["posterior"], cells[:, 1], strict=True):
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
    assert estimate["reconstruction"] == pytest.approx([1.0, 0.75])
    assert estimate["link"] == pytest.approx([1.0, 0.75])
    assert estimate["posterior"] == pytest.approx([1.0, 0.75])


def test_on_the_expected_release_the_guesser_knows_the_table() -> None:
    """The likelihood estimate is the table itself: whatever the noise, the guesser is as good as one who knows it."""
    table = JointTable.from_array([[[30, 5, 5], [2, 50, 8]], [[4, 9, 40], [25, 3, 6]]])
    for p in (0.7, 0.8, 0.95):
        channels = tuple(Channel.from_diagonal(d, p) for d in table.sizes)
        found = next(guesses(table, channels, forward(channels, table.array), [20_000]))
        assert found.gap <= 1e-3
        assert found.success == limit_success(table) == 145 / 187
        assert found.estimate.sum() == pytest.approx(table.records)


def test_iterative_bayes_never_exceeds_its_gap() -> None:
    """log L at the estimate is within the gap of log L at the truth, on the expected release where that is the best."""
    table = JointTable.from_array([[30, 5, 5], [4, 40, 9]])
    channels = (Channel.from_diagonal(2, 0.8), Channel.from_diagonal(3, 0.7))
    released = forward(channels, table.array)
    for most in (1, 5, 50):
        found = next(guesses(table, channels, released, [most]))
        best, here = ((released * np.log(forward(channels, x))).sum() for x in (table.array, found.estimate))
        assert 0 <= best - here <= found.gap + 1e-9


def test_the_l_of_the_hint_can_be_had() -> None:
    """The hint's l is the largest whose 1/l is above the least risk; its limits are those that ask for some noise."""
    table = JointTable.from_array([[8, 2, 3], [3, 6, 2], [2, 3, 7]])
    with pytest.raises(RiskOutOfReach) as error:
        solve(pose(table, Fraction(1, 3), risk="posterior"))
    most = ceil(1 / error.value.least) - 1
    hint = between(error.value.least, float(table.shares.max()))
    assert hint.endswith(f", such as l = {most}")
    assert solve(pose(table, Fraction(1, most), risk="posterior")).risk <= 1 / most
    ends = re.search(r"a limit above (0\.\d+), where all would be noise, and below (0\.\d+)", hint)
    assert ends is not None
    for end in ends.groups():
        assert any(solve(pose(table, Fraction(end), risk="posterior")).noise)


def test_half_the_digits_guess_alike() -> None:
    """Iterative Bayes in single precision: the same values are guessed, from estimates that agree to five digits."""
    rng = np.random.default_rng(3)
    released = rng.poisson(4.0, (6, 5, 4)).astype(np.float64)
    channels = [Channel.from_diagonal(6, 0.6), Channel.from_diagonal(5, 0.7), Channel(4, 1.0, 0.0)]
    whole, half = (
        [table for table, _ in estimates(channels, released, (10, 50), precision)]
        for precision in (np.float64, np.float32)
    )
    for one, other in zip(whole, half, strict=True):
        assert other.dtype == np.float32
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-4)
        assert (one.argmax(axis=-1) == other.argmax(axis=-1)).all()
