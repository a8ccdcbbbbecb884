"""Attackers on randomized response: a table by hand, and beliefs by Bayes' rule over all cells."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.auditor.attackers.linking import cell_risks, response_findings, risk_finding, row_risk
from sfumato.auditor.finding import named
from sfumato.methods.response.joint import Channel, JointTable
from sfumato.methods.response.problem import pose
from sfumato.methods.response.risks import Link, Posterior, Reconstruction, row_posterior
from sfumato.methods.response.solver import solve

TABLE = JointTable.from_array([[20, 30, 22], [12, 8, 8]])
CHANNELS = (Channel.from_diagonal(2, 0.8), Channel.from_diagonal(3, 0.5))
LABELS = [["man", "woman"], ["cancer", "flu", "none"]]


def tell(codes: np.ndarray) -> str:
    names = ["sex", "disease"][: codes.size]
    return named(names, (LABELS[k][code] for k, code in enumerate(codes)))


def test_the_posterior_by_hand() -> None:
    """Published women: 0.8 * 28 + 0.2 * 72 = 36.8 expected; with cancer 0.8 * 12 + 0.2 * 20 = 13.6 of them."""
    found = risk_finding(TABLE, CHANNELS, Fraction(1, 3), "posterior", True, tell)
    shares = np.array([[0.8 * 20 + 0.2 * 12, 0.8 * 30 + 0.2 * 8, 0.8 * 22 + 0.2 * 8], [13.6, 12.4, 10.8]])
    beliefs = shares / shares.sum(axis=1, keepdims=True)
    assert found.worst == pytest.approx(beliefs.max())
    assert found.mean == pytest.approx((shares * beliefs).sum() / 100)
    assert found.at_risk == round(shares[beliefs > 1 / 3].sum())
    assert (found.verdict, found.promised) == ("above the bound", pytest.approx(1 / 3))
    assert found.exposed[0].who == "sex = man, disease = flu"
    assert found.exposed[0].risk == found.worst


def test_all_three_are_those_of_the_method() -> None:
    kinds = {"posterior": Posterior, "link": Link, "reconstruction": Reconstruction}
    findings = {finding.attacker: finding for finding in response_findings(TABLE, CHANNELS, 0.4, "link", tell)}
    for name, kind in kinds.items():
        assert findings[name].worst == kind(TABLE, CHANNELS).values.max()
        assert (findings[name].promised is None) == (name != "link")
        assert findings[name].stated == (None if name == "link" else 0.4)
    assert list(findings) == ["posterior", "link", "reconstruction", "row", "distribution"]


def test_one_who_sees_the_whole_row() -> None:
    """By Bayes' rule over all published rows; its worst belief is the odds of `posterior` times p_s/q_s."""
    pi = np.array([[20, 30, 22], [12, 8, 8]]) / 100
    p, s = (channel.matrix.dense() for channel in CHANNELS)
    joint = np.einsum("ba,vu,au->bvu", p, s, pi)
    beliefs = joint / joint.sum(axis=2, keepdims=True)
    found = row_risk(TABLE, CHANNELS, 0.5)
    assert found.worst == pytest.approx(beliefs.max())
    assert found.worst == pytest.approx(row_posterior(float(Posterior(TABLE, CHANNELS).values.max()), CHANNELS[-1]))
    assert found.mean == pytest.approx((joint * beliefs).sum())
    assert found.above == pytest.approx(joint[beliefs > 0.5].sum())
    untouched = row_risk(TABLE, (CHANNELS[0], Channel.from_diagonal(3, 1)), 0.5)
    assert (untouched.worst, untouched.mean, untouched.above) == pytest.approx((1, 1, 1))


def test_a_whole_row_whose_belief_is_the_limit_is_not_above_it() -> None:
    """Even counts and diagonals of 1/2: every belief is 1/2, exactly."""
    even = JointTable.from_array([[10, 10], [10, 10]])
    found = row_risk(even, (Channel.from_diagonal(2, 0.5), Channel.from_diagonal(2, 0.5)), 0.5)
    assert (found.worst, found.above) == (0.5, 0)


def test_one_who_knows_the_distribution() -> None:
    """30 of 72 men have flu, 12 of 28 women cancer: 42 of 100 are guessed right."""
    found = response_findings(TABLE, CHANNELS, 0.42, "posterior", tell)[-1]
    assert (found.worst, found.mean) == (pytest.approx(12 / 28), pytest.approx(0.42))
    assert (found.at_risk, found.verdict) == (28, "not covered by the guarantee")
    assert (found.exposed[0].who, found.exposed[0].records) == ("sex = woman", 28)


def test_limits_of_groups_are_kept_apart() -> None:
    """Women have a stricter limit; the posterior's cells mix both, and take the strictest."""
    limits = np.array([[0.9] * 3, [0.3] * 3])
    link = cell_risks(TABLE, CHANNELS, limits, "link")
    assert link.limits.reshape(2, 3).tolist() == limits.tolist()
    assert link.nearest >= 3
    assert link.risks[link.worst] == link.risks.max()
    assert link.above == TABLE.counts[1][link.risks[3:] > 0.3].sum()
    assert set(cell_risks(TABLE, CHANNELS, limits, "posterior").limits.tolist()) == {0.3}
    untouched = (Channel(2, 1.0, 0.0), Channel(3, 1.0, 0.0))  # then nobody else is published as a woman
    assert cell_risks(TABLE, untouched, limits, "posterior").limits.reshape(2, 3).tolist() == limits.tolist()


@pytest.mark.parametrize("name", ["posterior", "reconstruction"])
def test_what_is_solved_for_is_within_the_bound(name: str) -> None:
    table = JointTable.from_array(np.random.default_rng(3).integers(1, 60, (3, 4, 5)))
    found = solve(pose(table, Fraction(1, 4), risk=name))  # type: ignore[arg-type]
    promised = risk_finding(table, found.channels, Fraction(1, 4), name, True, str)  # type: ignore[arg-type]
    assert (promised.verdict, promised.at_risk) == ("within the bound", 0)
    assert promised.worst == pytest.approx(0.25, abs=1e-6)
