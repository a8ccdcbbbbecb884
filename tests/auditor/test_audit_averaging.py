"""Several releases: against all sequences of published values, and in fractions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.auditor.attackers.averaging import (
    averaging_findings,
    dealt_channel,
    enumerated_recovery,
    exact_recovery,
    recovery,
    simulated_recovery,
)
from sfumato.auditor.attackers.posterior import Factor, worst_priors
from sfumato.claims.odds import with_fresh_noise
from sfumato.methods.small_domain.method import uniform_matrix
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.retention import WORDS, PerturbationMatrix
from sfumato.values.mechanism import LABEL, Bound, Mechanism, SubTable
from sfumato.values.requirement import rho_bound
from tests.conftest import exact_weights

RHO = rho_bound("1/10", "1/4")
NOT_COVERED = "not covered by the guarantee"


def single(matrix: PerturbationMatrix, bound: Bound = RHO) -> Mechanism:
    domain = SensitiveDomain((Domain("d", tuple(f"v{k}" for k in range(matrix.size))),))
    return Mechanism.single(domain, matrix, (bound,) * matrix.size)


def recovered_share(matrix: PerturbationMatrix, shares: np.ndarray, releases: int) -> float:
    return exact_recovery(matrix, shares, releases, np.ones(matrix.size)).mean


def slow_share(matrix: PerturbationMatrix, shares: list[Fraction], t: int) -> Fraction:
    """Over all sequences, in fractions."""
    weights, m = exact_weights(matrix), matrix.size
    total = Fraction(0)
    for seen in itertools.product(range(m), repeat=t):
        total += max(f * math.prod(weights[y][x] for y in seen) for x, f in enumerate(shares))
    return total / WORDS**t


# --- the worst prior --------------------------------------------------------------------------------------------------


def fresh(releases: int) -> Factor:
    return lambda matrix, code: with_fresh_noise(matrix.upward(code), matrix, releases)


@pytest.mark.parametrize("t", [1, 2, 3])
def test_t4_the_factor_is_reached_and_never_exceeded(t: int) -> None:
    """Over all that is published and all values at all times: own factor times the largest ratio^(t - 1), exactly."""
    matrix = PerturbationMatrix.from_retention([0.5, 0.2, 0.35])
    weights, times = exact_weights(matrix), list(itertools.product(range(3), repeat=t))

    def chance(seen: tuple[int, ...], x: tuple[int, ...]) -> int:
        return math.prod(weights[y][own] for y, own in zip(seen, x, strict=True))

    for worst in worst_priors(single(matrix).tables[0], "upward", fresh(t)):
        ratios = []
        for seen in times:
            above = max(chance(seen, x) for x in times if x[0] == worst.code)
            ratios.append(Fraction(above, min(chance(seen, x) for x in times if x[0] != worst.code)))
        assert max(ratios) == worst.factor
        assert worst.factor >= (matrix.upward(worst.code) or 0) ** t  # of someone who knows that the value stays


def test_two_releases_by_hand() -> None:
    """gamma = 3 from a prior of 1/10: 3/12 after one release, 9/18 after two."""
    table = single(uniform_matrix(Fraction(3), 4)).tables[0]
    assert [float(next(worst_priors(table, "upward", fresh(t))).posterior) for t in (1, 2)] == pytest.approx(
        [1 / 4, 1 / 2]
    )


# --- the share that is recovered --------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_the_share_is_the_sum_over_all_sequences(data: st.DataObject) -> None:
    m, t = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 2))
    matrix = PerturbationMatrix.from_retention(data.draw(st.lists(st.floats(0, 1), min_size=m, max_size=m)))
    counts = data.draw(st.lists(st.integers(0, 9), min_size=m, max_size=m).filter(any))
    shares = [Fraction(c, sum(counts)) for c in counts]
    found = recovered_share(matrix, np.array(shares, dtype=np.float64), t)
    assert found == pytest.approx(float(slow_share(matrix, shares, t)), abs=1e-12)


def test_more_releases_recover_more_and_never_less_than_the_commonest_value() -> None:
    matrix, shares = uniform_matrix(Fraction(6), 40), 1 / np.arange(1, 41)
    shares /= shares.sum()
    once, twice = (recovered_share(matrix, shares, t) for t in (1, 2))
    assert shares[0] <= once < twice


def test_many_values_agree_with_a_simulation() -> None:
    matrix, shares = uniform_matrix(Fraction(300), 200), np.random.default_rng(1).dirichlet(np.ones(200))
    found = recovered_share(matrix, shares, 2)
    drawn = simulated_recovery(matrix.dense(), shares, 2, np.full(200, np.inf), seed=3)
    assert drawn.interval is not None
    assert drawn.interval[0] < found < drawn.interval[1]
    assert drawn.interval[1] - drawn.interval[0] < 0.02


def test_the_exact_share_and_the_largest_belief_agree_with_an_enumeration() -> None:
    rng = np.random.default_rng(4)
    for t in (1, 2):
        matrix = PerturbationMatrix.from_retention(rng.uniform(0, 0.9, 6))
        counts = rng.integers(1, 40, 6)
        fast = recovery(single(matrix), [counts], t)
        slow = enumerated_recovery(matrix.dense(), counts / counts.sum(), t, np.full(6, 0.25))
        assert (fast.mean, fast.worst) == (pytest.approx(slow.mean, abs=1e-12), pytest.approx(slow.worst, abs=1e-12))


def test_limits_of_a_simulation_are_the_normal_ones() -> None:
    """A value is kept with probability 3/4: two releases that agree are believed by 9/10, others by 1/2."""
    flip = PerturbationMatrix.from_retention([0.5, 0.5]).dense()
    drawn = simulated_recovery(flip, np.array([0.5, 0.5]), 2, np.full(2, 0.8), seed=2, records=1000)
    agree = (drawn.mean - 0.5) / 0.4
    error = 0.4 * np.sqrt(agree * (1 - agree) / 999)
    assert drawn.interval == pytest.approx((drawn.mean - 1.959964 * error, drawn.mean + 1.959964 * error))
    assert drawn.above == pytest.approx(agree)


# --- sub-tables -------------------------------------------------------------------------------------------------------


def dealt() -> tuple[Mechanism, list[np.ndarray]]:
    domain = SensitiveDomain((Domain("d", tuple("abcd")),))
    bound = rho_bound("1/3", "2/3")
    tables = tuple(
        SubTable(np.array(codes, dtype=np.int32), uniform_matrix(Fraction(4), 3), (bound,) * 3)
        for codes in ([0, 1, 2], [1, 2, 3])
    )
    return Mechanism(domain, tables, LABEL), [np.array([4, 4, 4]), np.array([2, 2, 2])]


def test_sub_tables_are_dealt_anew() -> None:
    """b is in both sub-tables, 4 of its 6 records in the first; a and d in one: both labels together exclude them."""
    mechanism, quotas = dealt()
    channel = dealt_channel(mechanism, quotas)
    assert channel.sum(axis=0) == pytest.approx(np.ones(4))
    assert channel[:3, 1] == pytest.approx(np.array([1 / 6, 4 / 6, 1 / 6]) * 4 / 6, abs=1e-15)
    assert channel[3:, 0].tolist() == [0, 0, 0]
    found = recovery(mechanism, quotas, 2)
    # labels 1 and 2, b published twice: b against c, whose shares are the same: 4*4 against 1*1
    assert found.worst >= 16 / 17
    drawn = simulated_recovery(channel, np.array([4, 6, 6, 2]) / 18, 2, np.full(4, 2 / 3), seed=1)
    assert drawn.interval is not None
    assert drawn.interval[0] < found.mean < drawn.interval[1]
    assert found.above is not None
    assert drawn.above == pytest.approx(found.above, abs=0.02)


def test_the_finding_of_sub_tables() -> None:
    (found,) = averaging_findings(*dealt())
    assert found.verdict == "not covered by the guarantee"
    assert found.excess == pytest.approx(found.worst - 2 / 3)
    assert 0 < found.at_risk <= found.records == 18


# --- the finding ------------------------------------------------------------------------------------------------------


def test_a_second_release_is_not_covered_and_told_with_its_size() -> None:
    (found,) = averaging_findings(single(uniform_matrix(Fraction(3), 4)), [[40, 30, 20, 10]])
    assert (found.verdict, found.worst, found.stated) == ("not covered by the guarantee", pytest.approx(0.5), 0.25)
    assert found.mean == pytest.approx(recovered_share(uniform_matrix(Fraction(3), 4), np.array([4, 3, 2, 1]) / 10, 2))
    assert found.at_risk == 100


def test_t3_a_record_key_counts_both_releases() -> None:
    """Prior 1/10, gamma 3, four values: odds 1/9 * 3 * (3 + 3) = 2 after equal values. It was told as 1/4, kept."""
    mechanism, counts = single(uniform_matrix(Fraction(3), 4)), [[40, 30, 20, 10]]
    equal, different = averaging_findings(mechanism, counts, keyed=True)
    assert (equal.verdict, equal.worst, equal.stated) == (NOT_COVERED, pytest.approx(2 / 3), 0.25)
    assert (equal.about, equal.at_risk, equal.mean) == ("published equal", 100, recovery(mechanism, counts, 1).mean)
    assert "Assumed, not proved" in equal.remark
    assert (different.about, different.verdict, different.worst) == ("published different", NOT_COVERED, 1.0)
