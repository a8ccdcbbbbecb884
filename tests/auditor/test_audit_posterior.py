"""Worst priors and the table's own: against grids of priors and Bayes' rule in fractions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.auditor.attackers.frequencies import frequencies_finding
from sfumato.auditor.attackers.posterior import posterior_finding, stated, worst_priors
from sfumato.auditor.beliefs import limits_at, record_beliefs
from sfumato.auditor.knowledge import Knowledge
from sfumato.claims.claim import BOTH
from sfumato.claims.odds import violations
from sfumato.methods.robustness.prior import Prior, count_prior
from sfumato.methods.small_domain.method import uniform_matrix
from sfumato.show.words import percent
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.retention import WORDS, PerturbationMatrix
from sfumato.values.mechanism import LABEL, NO_BOUND, Bound, Mechanism, SubTable
from sfumato.values.requirement import gamma_of_epsilon, rho_bound
from tests.conftest import exact_weights

RHO = rho_bound("1/10", "1/4")


def mechanism(retention: list[float], bounds: list[Bound]) -> Mechanism:
    domain = SensitiveDomain((Domain("d", tuple(f"v{k}" for k in range(len(bounds)))),))
    return Mechanism.single(domain, PerturbationMatrix.from_retention(retention), tuple(bounds))


def bayes(weights: list[list[int]], prior: list[Fraction], y: int) -> list[Fraction]:
    joint = [f * w for f, w in zip(prior, weights[y], strict=True)]
    return [weight / sum(joint) for weight in joint]


# --- the worst prior --------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(0, 0.95), min_size=2, max_size=4),
    st.fractions(Fraction(1, 50), Fraction(2, 5), max_denominator=50),
    st.fractions(Fraction(1, 2), Fraction(49, 50), max_denominator=50),
)
def test_no_prior_on_a_grid_is_worse_and_one_is_as_bad(retention: list[float], rho1: Fraction, rho2: Fraction) -> None:
    """Priors with rho1 (rho2) or less (more) on a value, and the rest in tenths on the others."""
    m = len(retention)
    own = mechanism(retention, [rho_bound(rho1, rho2)] * m)
    weights, table = exact_weights(own.matrix), own.tables[0]
    splits = [s for s in itertools.product(range(11), repeat=m - 1) if sum(s) == 10]
    for up, down in zip(worst_priors(table, "upward"), worst_priors(table, "downward"), strict=True):
        i = up.code
        beliefs = {True: [], False: []}
        for split, raised, y in itertools.product(splits, (True, False), range(m)):
            first = rho1 if raised else rho2
            rest = iter(split)
            prior = [first if k == i else (1 - first) * Fraction(next(rest), 10) for k in range(m)]
            beliefs[raised].append(bayes(weights, prior, y)[i])
        assert max(beliefs[True]) == up.posterior
        assert min(beliefs[False]) == down.posterior
        assert (up.limit, down.limit) == (rho2, rho1)
        assert up.is_broken == (up.posterior > rho2)
        assert down.is_broken == (down.posterior < rho1)


def test_broken_bounds_are_those_of_the_guarantee() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        bounds = [NO_BOUND if rng.random() < 0.2 else Bound(Fraction(int(rng.integers(2, 30)))) for _ in range(5)]
        table = mechanism(rng.uniform(0, 0.8, 5).tolist(), bounds).tables[0]
        found = {(w.code, d, w.factor) for d in BOTH for w in worst_priors(table, d) if w.is_broken}
        assert found == {(v.code, v.direction, v.factor) for v in violations(table.matrix, bounds, BOTH)}


def test_gamma_and_epsilon_are_told_from_even_odds() -> None:
    assert stated(Bound(Fraction(3))) == (Fraction(1, 2), Fraction(3, 4))
    assert stated(NO_BOUND) is None
    gamma = gamma_of_epsilon(1)
    own = mechanism([0.5] * 2, [Bound(gamma)] * 2)
    own = Mechanism.single(own.domain, uniform_matrix(gamma, 2), own.bounds)
    found = posterior_finding(own, [[5, 5]], "upward")
    assert found.worst == pytest.approx(np.e / (1 + np.e), abs=1e-12)
    assert (found.verdict, found.at_risk, found.records) == ("within the bound", 0, 10)


def test_a_bound_that_is_broken_by_one_word_in_2_64_is_broken() -> None:
    matrix = PerturbationMatrix(uniform_matrix(Fraction(3), 2).noise - np.uint64(1))
    own = Mechanism.single(mechanism([0, 0], [RHO] * 2).domain, matrix, (RHO,) * 2)
    found = posterior_finding(own, [[5, 5]], "upward")
    assert found.worst == found.promised == 0.25
    assert (found.verdict, found.at_risk) == ("above the bound", 10)


def test_a_value_without_noise_can_be_told_for_sure() -> None:
    table = SubTable(
        np.arange(2, dtype=np.int32), PerturbationMatrix(np.array([0, WORDS // 4], dtype=np.uint64)), (RHO, RHO)
    )
    upward, downward = (list(worst_priors(table, direction)) for direction in BOTH)
    assert [w.posterior for w in upward] == [Fraction(1, 10) / (Fraction(1, 10) + Fraction(9, 40)), 1]
    assert downward[0].posterior == 0
    assert all(w.is_broken for w in (*upward, *downward))


def test_the_finding_of_a_broken_bound() -> None:
    """gamma is 3. First value: (0.6 + 0.4/3) / (0.8/3) = 2.75; second: (0.2 + 0.8/3) / (0.4/3) = 3.5."""
    own = mechanism([0.6, 0.2, 0.2], [RHO, RHO, NO_BOUND])
    found = posterior_finding(own, [[7, 2, 1]], "upward")
    assert found.verdict == "above the bound"
    assert found.worst == pytest.approx(3.5 / 12.5)
    assert found.at_risk == 2
    assert found.promised == 0.25
    assert found.excess == pytest.approx(found.worst - 0.25)
    assert "'v1' at a prior of 10%" in found.exposed[0].who
    weaker = posterior_finding(own, [[7, 2, 1]], "upward", promised=False)
    assert (weaker.verdict, weaker.excess) == ("not covered by the guarantee", found.excess)


def test_the_finding_of_no_requirement() -> None:
    found = posterior_finding(mechanism([0.5, 0.5], [NO_BOUND] * 2), [[1, 1]], "downward")
    assert found.verdict == "not covered by the guarantee"


# --- the table's own frequencies --------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_beliefs_are_bayes_rule_in_each_group(data: st.DataObject) -> None:
    m, n = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 12))
    matrix = PerturbationMatrix.from_retention(data.draw(st.lists(st.floats(0, 0.9), min_size=m, max_size=m)))
    true, shown, groups = (
        np.array(data.draw(st.lists(st.integers(0, most - 1), min_size=n, max_size=n)), dtype=np.int64)
        for most in (m, m, 3)
    )
    own = Mechanism.single(SensitiveDomain((Domain("d", tuple(map(str, range(m)))),)), matrix, (NO_BOUND,) * m)
    counts = np.zeros((3, m), dtype=np.int64)
    np.add.at(counts, (groups, true), 1)
    prior = Prior(counts, np.maximum(counts.sum(axis=1), 1))
    codes = true.astype(np.int32), shown.astype(np.int32)
    known = record_beliefs(own, *codes, known=Knowledge("group", groups, prior))
    alone = [record_beliefs(own, *(part[groups == group] for part in codes)) for group in range(3)]
    for group, found in enumerate(alone):
        assert found.beliefs == pytest.approx(known.beliefs[groups == group], abs=1e-12)
    priors, beliefs = known.priors, known.beliefs
    weights = exact_weights(matrix)
    for r in range(n):
        inside = true[groups == groups[r]].tolist()
        shares = [Fraction(inside.count(x), len(inside)) for x in range(m)]
        assert priors[r] == pytest.approx(float(shares[true[r]]), abs=1e-15)
        assert beliefs[r] == pytest.approx(float(bayes(weights, shares, int(shown[r]))[true[r]]), abs=1e-12)


def test_limits_by_hand() -> None:
    """gamma is 3: a prior of 0.2 is above rho1, and its odds may still grow from 1:4 to 3:4 only."""
    bounds = [RHO, Bound(Fraction(3)), NO_BOUND]
    values = np.array([0, 0, 0, 1, 2], dtype=np.int32)
    limits = limits_at(bounds, values, np.array([0.01, 0.1, 0.2, 0.5, 0.1]))
    assert limits.tolist() == pytest.approx([0.25, 0.25, 3 / 7, 0.75, np.inf])


@given(
    st.lists(st.integers(1, 50), min_size=2, max_size=5),
    st.fractions(Fraction(1, 20), Fraction(2, 5), max_denominator=20),
    st.fractions(Fraction(1, 2), Fraction(19, 20), max_denominator=20),
)
def test_no_belief_is_above_its_limit_whatever_the_prior(counts: list[int], rho1: Fraction, rho2: Fraction) -> None:
    """Shares above rho1 too; the most frequent value, published as it is, is as near as it gets for two values."""
    m, bound = len(counts), rho_bound(rho1, rho2)
    domain = SensitiveDomain((Domain("d", tuple(f"v{k}" for k in range(m))),))
    assert bound.gamma is not None
    own = Mechanism.single(domain, uniform_matrix(bound.gamma, m), (bound,) * m)
    true = np.repeat(np.arange(m), counts).astype(np.int32)
    found = record_beliefs(own, true, true)
    assert found.covered.all()
    assert not found.above.any()
    if m == 2:
        top = found.priors.argmax()
        assert found.beliefs[top] == pytest.approx(found.limits[top])


def test_worst_and_mean_are_of_the_same_records() -> None:
    """90 records of a value without a bound are believed in most; they are told apart."""
    own = mechanism([0.3, 0.3, 0.3], [NO_BOUND, RHO, RHO])
    true = np.repeat([0, 1, 2], [90, 5, 5]).astype(np.int32)
    found = frequencies_finding(own, true, true)
    beliefs = record_beliefs(own, true, true).beliefs
    assert found.worst == pytest.approx(beliefs[-1])
    assert found.mean == pytest.approx(beliefs[90:].mean())
    assert found.mean <= found.worst < beliefs[0]
    assert "Of 90 record(s) the requirement says nothing, or there is nothing to learn" in found.remark
    assert f"there the largest belief is {percent(beliefs[0])}" in found.remark


def test_a_factor_that_is_gamma_is_within_the_bound() -> None:
    """Two values, gamma = 3: the weights are 3/4 and 1/4 exactly."""
    own = mechanism([0, 0], [Bound(Fraction(3))] * 2)
    own = Mechanism.single(own.domain, uniform_matrix(Fraction(3), 2), own.bounds)
    for direction in BOTH:
        assert [worst.factor for worst in worst_priors(own.tables[0], direction)] == [3, 3]
        found = posterior_finding(own, [[5, 5]], direction)
        assert (found.verdict, found.at_risk) == ("within the bound", 0)


def sample(own: Mechanism, true: np.ndarray, labels: np.ndarray | None, seed: int) -> np.ndarray:
    words = np.random.default_rng(seed).integers(0, WORDS, true.size, dtype=np.uint64)
    return own.sample(true.astype(np.int32), labels, words)


def test_a_sub_table_by_itself() -> None:
    """Beliefs of one sub-table do not depend on the other; rho2 is kept in both at their own shares."""
    domain = SensitiveDomain((Domain("d", tuple("abcde")),))
    bound = rho_bound("1/3", "2/3")
    tables = (
        SubTable(np.array([0, 1, 3], dtype=np.int32), uniform_matrix(Fraction(4), 3), (bound,) * 3),
        SubTable(np.array([1, 2, 4], dtype=np.int32), uniform_matrix(Fraction(4), 3), (bound,) * 3),
    )
    own = Mechanism(domain, tables, LABEL)
    true = np.tile(np.array([0, 1, 3, 1, 2, 4], dtype=np.int32), 50)
    labels = np.tile(np.array([0, 0, 0, 1, 1, 1], dtype=np.int32), 50)
    shown = sample(own, true, labels, 5)
    found = record_beliefs(own, true, shown, labels)
    assert found.beliefs[true == shown] == pytest.approx(2 / 3, abs=1e-12)
    assert found.beliefs[true != shown] == pytest.approx(1 / 6, abs=1e-12)
    finding = frequencies_finding(own, true, shown, labels)
    assert finding.verdict == "within the bound"
    assert (finding.at_risk, finding.records) == (0, 300)
    assert finding.baseline == pytest.approx(1 / 3)
    assert "sub-table" in finding.assumption


def test_records_above_the_bound_are_counted_and_shown() -> None:
    """Too much is kept: the rare value is believed by more than rho2 where it is published."""
    own = mechanism([0.6, 0.6], [RHO, NO_BOUND])
    true = np.repeat(np.array([0, 1], dtype=np.int32), [10, 90])
    shown = np.where(np.arange(100) % 5 == 0, 1 - true, true).astype(np.int32)
    finding = frequencies_finding(own, true, shown)
    assert finding.worst == pytest.approx(0.8 * 0.1 / (0.8 * 0.1 + 0.2 * 0.9))
    assert (finding.verdict, finding.at_risk) == ("above the bound", 8)
    assert finding.promised == 0.25
    assert (finding.exposed[0].who, finding.exposed[0].records) == ("'v0', published 'v0'", 8)
    assert (finding.who, finding.exposed[0].risk) == ("'v0', published 'v0'", finding.worst)
    assert "Of 90 record(s) the requirement says nothing" in finding.remark
    assert "('v1', published 'v1')" in finding.remark


def test_groups_are_named_and_single_valued_ones_teach_nothing() -> None:
    own = mechanism([0.2, 0.2, 0.2], [Bound(Fraction(3))] * 3)
    true = np.array([0, 0, 0, 1, 2, 2], dtype=np.int32)
    groups = np.array([0, 0, 0, 1, 1, 1])
    known = Knowledge("age", groups, count_prior(groups, true.astype(np.int64)), ["old", "young"])
    finding = frequencies_finding(own, true, true, known=known)
    assert [group.who for group in finding.exposed] == ["young"]
    assert finding.exposed[0].records == 3
    assert finding.promised is not None
    assert finding.verdict == "within the bound"
    assert finding.worst < 1
