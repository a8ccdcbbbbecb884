"""Verdicts at the edge of a bound, what registers count, and the limits of what is simulated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sfumato.auditor.attackers.background import background_finding
from sfumato.auditor.attackers.linking_guesser import STOPS, _mean_limits, repeated_guesses
from sfumato.auditor.attackers.register import Register, Told, rows_finding, values_finding
from sfumato.auditor.finding import Finding, largest_at, settled
from sfumato.auditor.first_screen import _only_by_chance
from sfumato.auditor.grouped import GroupTables
from sfumato.auditor.knowledge import Knowledge
from sfumato.auditor.record import _row, _told
from sfumato.methods.response.joint import Channel, JointTable
from sfumato.methods.robustness.prior import Prior
from sfumato.show.words import percent, share

ONE = Finding(
    attacker="order", question="q", assumption="a", measured="m", worst=0.25, records=10, at_risk=0, promised=0.25
)

# --- verdicts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("worst", "verdict"),
    [(0.25 * (1 + 1e-13), "within the bound"), (0.25 * (1 + 1e-9), "above the bound"), (0.2501, "above the bound")],
)
def test_only_rounding_is_forgiven(worst: float, verdict: str) -> None:
    assert replace(ONE, worst=worst).verdict == verdict


@pytest.mark.parametrize(
    ("direction", "interval", "verdict"),
    [
        ("at most", (0.2, 0.4), "within the bound"),
        ("at most", (0.26, 0.4), "above the bound"),
        ("at least", (0.1, 0.3), "within the bound"),
        ("at least", (0.1, 0.24), "above the bound"),
    ],
)
def test_of_a_simulation_the_whole_interval_must_be_beyond(
    direction: str, interval: tuple[float, float], verdict: str
) -> None:
    found = replace(ONE, worst=sum(interval) / 2, direction=direction, interval=interval)  # type: ignore[arg-type]
    assert found.verdict == verdict
    assert found.excess == pytest.approx(interval[0] - 0.25 if direction == "at most" else 0.25 - interval[1])


def test_a_risk_that_was_bounded_only_is_marked() -> None:
    """4,000 people of 70 signatures in one group: too many states for the exact posterior."""
    rng = np.random.default_rng(1)
    signatures, values = rng.integers(0, 70, 4000), rng.integers(0, 8, 4000)
    weights = np.zeros((70, 8), dtype=np.int64)
    np.add.at(weights, (signatures, values), 1)
    known = Knowledge("age", signatures, Prior(weights, weights.sum(axis=1)))
    found = background_finding(GroupTables.of(np.zeros(4000, dtype=np.int64), values), [known], 2, False)
    assert found.is_bound
    assert _row(found)[2] == f"<= {share(found.worst)}"
    assert any(f"worst <= {percent(found.worst)}" in line for line in _told(found))
    small = background_finding(
        GroupTables.of(np.repeat([0, 1], 2), np.array([0, 1, 0, 1])),
        [Knowledge("sex", np.array([0, 1, 0, 1]), Prior(np.array([[2, 1], [1, 2]]), np.array([3, 3])))],
        2,
        False,
    )
    assert not small.is_bound
    assert _row(small)[2] == share(small.worst)


# --- registers --------------------------------------------------------------------------------------------------------


def register(rows: list[int]) -> Register:
    return Register(("age",), np.ones(len(rows), dtype=np.int64), tuple(map(str, rows)), np.array(rows))


def test_few_rows_are_fewer_than_five() -> None:
    found = rows_finding(register([1, 4, 5, 6]), 100)
    assert "1 people fit one row only, 2 (50.0%) fit fewer than 5, 0 fit none" in found.remark
    assert (found.worst, found.mean, found.at_risk) == (1, pytest.approx((1 + 1 / 4 + 1 / 5 + 1 / 6) / 4), 1)


def test_a_belief_slightly_above_its_bound_is_at_risk() -> None:
    """Of 100 rows each 50, 51 and 52 have a value: one half is kept by the first only."""
    told = Told(np.array([[50.0, 50.0], [51.0, 49.0], [48.0, 52.0]]), np.full(2, 0.5), True, ("a", "b"))
    found = values_finding(register([100, 100, 100]), told)
    assert (found.worst, found.at_risk, found.verdict) == (0.52, 2, "above the bound")
    kept = values_finding(register([100]), Told(np.array([[50.0, 50.0]]), np.full(2, 0.5), True, ("a", "b")))
    assert (kept.at_risk, kept.verdict) == (0, "within the bound")


# --- limits of the guesser --------------------------------------------------------------------------------------------

TABLE = JointTable.from_array([[[5, 1], [2, 2], [1, 3]], [[4, 4], [1, 6], [2, 7]]])
CHANNELS = (Channel.from_diagonal(2, 0.75), Channel.from_diagonal(3, 0.5), Channel.from_diagonal(2, 0.875))


def test_limits_of_the_largest_chance_share_the_confidence_among_all_cells() -> None:
    """By scipy's Clopper and Pearson, with 5% for all 12 cells that have people, at each of the stops."""
    found = repeated_guesses(TABLE, CHANNELS, 0.5, repetitions=30, seed=1)
    held = TABLE.counts > 0
    assert int(held.sum()) == 12
    slow = [
        stats.binomtest(round(30 * share), 30).proportion_ci(1 - 0.05 / 12 / len(STOPS), method="exact")
        for share in found.chances[held]
    ]
    assert found.worst_limits == pytest.approx((max(ci.low for ci in slow), max(ci.high for ci in slow)), abs=1e-9)


def test_limits_of_the_mean_are_students() -> None:
    """By scipy's, over the numbers of people guessed right in each release."""
    rates = np.array([0.5, 0.75, 0.625, 0.5, 0.875])
    low, high = stats.t.interval(0.9, 4, rates.mean(), stats.sem(rates))
    assert _mean_limits(rates, 0.9) == pytest.approx((low, high))


def test_which_of_equal_risks_is_named_first_does_not_depend_on_the_last_digit() -> None:
    risks = np.array([0.1 + 0.2, 0.3, np.nextafter(0.3, 0), 0.1])
    assert largest_at(risks) == 0
    assert largest_at(risks[::-1].copy()) == 1
    assert settled(np.array([1e-17, 0.0, -1e-17])).tolist() == [0, 0, 0]  # differences to a bound that is reached
    assert settled(np.array([-1234.5678901234567])).tolist() == pytest.approx([-1234.56789012])


@pytest.mark.parametrize(
    ("worst", "interval", "told"),
    [(0.334, (0.30, 0.36), True), (0.3334, (0.30, 0.36), False), (0.32, (0.30, 0.36), False), (0.334, None, False)],
)
def test_a_figure_beyond_its_limit_by_chance_says_so(
    worst: float, interval: tuple[float, float] | None, told: bool
) -> None:
    """33.4% beside a limit of 33.3% and the word "kept" would be a riddle; 33.34% shows as 33.3%."""
    found = replace(ONE, worst=worst, promised=1 / 3, interval=interval)
    assert _only_by_chance(found) is told
