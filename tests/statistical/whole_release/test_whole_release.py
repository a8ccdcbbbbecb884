"""The whole release is the mechanism: nothing that can be seen of a folder changes the odds by more than is promised.

Many releases, each with a fresh secret key, of two tables that differ in one record. Every observable is a feature
(`observing`), and no event of any feature may be more than gamma times as likely under one table as under the other
(`odds`: an exact test, false alarms at most 1e-8 for each case). What the number of releases can find is stated by
POWER, and shown in test_planted_leaks.
"""

from __future__ import annotations

import math

import pytest

import sfumato as sf
from sfumato.claims.steps import StepsClaim
from tests.statistical.whole_release.cases import CASES, FURTHER, GAMMA
from tests.statistical.whole_release.odds import events, leaks, observed, power
from tests.statistical.whole_release.publishing import Publisher, planned

RELEASES = 220
MORE = 4000
DIFFERENT = 2000
"""Events that occur in different releases: fewer than these are looked at in each case."""


def test_power() -> None:
    """A fact that is certain in one table and rare in the other is found, but with a chance of 1e-6 to miss it."""
    assert power(1, 0, GAMMA, RELEASES, DIFFERENT) > 1 - 1e-6
    assert power(0.91, 0.02, GAMMA, RELEASES, DIFFERENT) > 0.999  # a flag like the one that order = "auto" set
    assert power(0.7, 0.05, GAMMA, RELEASES, DIFFERENT) > 0.4
    assert power(0.35, 0.1, GAMMA, MORE, 50 * DIFFERENT) > 0.999
    assert power(0.5, 0.2, GAMMA, MORE, 50 * DIFFERENT) > 0.9


def check(case: Publisher, releases: int, different: int) -> None:
    seen = observed(case, releases)
    assert all(features["refused"] is None for features in seen.seen)
    assert seen.features > 100
    assert len(events(seen.seen, 10)) < different
    found = leaks(seen, case.pair.gamma)
    assert not found, found[:5]


@pytest.mark.parametrize("case", CASES)
def test_no_observable_changes_the_odds_by_more_than_is_promised(case: str) -> None:
    pair, format = CASES[case]
    check(Publisher(pair, format), RELEASES, DIFFERENT)


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CASES, *FURTHER])
def test_no_observable_of_many_releases_does(case: str) -> None:
    pair, format = (CASES | FURTHER)[case]
    check(Publisher(pair, format), MORE, 50 * DIFFERENT)


@pytest.mark.slow
def test_nor_does_what_verify_says() -> None:
    pair, format = CASES["uniform, few rows"]
    check(Publisher(pair, format, verified=True), RELEASES, DIFFERENT)


@pytest.mark.parametrize("case", [*CASES, *FURTHER])
def test_the_promise_is_the_strong_one(case: str) -> None:
    """These are the cases in which someone may know all other records."""
    pair = (CASES | FURTHER)[case][0]
    for first in (True, False):
        plan = planned(sf.scan(pair.table(first), pair.policy))
        assert "values of any other records" in plan.guarantee.adversary
        assert not plan.from_table
        if isinstance(plan.claim, StepsClaim):  # what is bounded for everybody is more
            strictest = [plan.claim.bound.gamma]
        else:
            differing = 2 if pair.other_sex else 1  # columns: their factors multiply
            strictest = [min(b.gamma for b in m.bounds if b.gamma) for m in plan.mechanisms[:differing]]
        assert math.prod(strictest) == pair.gamma
