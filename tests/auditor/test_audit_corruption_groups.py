"""Known members of groups, without and with a prior on signatures: by all worlds."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.auditor.attackers.corruption import (
    groups_finding,
    known_members_finding,
    robust_groups_finding,
    worst_when_known,
)
from sfumato.auditor.grouped import GroupTables
from sfumato.auditor.knowledge import Knowledge
from sfumato.auditor.worlds import chance_of, enumerate_posteriors
from sfumato.errors import UsageError
from sfumato.methods.robustness.posterior import Composition
from sfumato.methods.robustness.prior import Prior
from sfumato_papers.pi.worlds import arrangements, in_groups
from tests.conftest import same_chance
from tests.constants import set_constants

EVEN = Prior(np.ones((1, 4), dtype=np.int64), np.array([4]))


# --- no prior ---------------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_the_finding_of_groups_is_that_of_all_worlds(data: st.DataObject) -> None:
    """Two groups, any members known: the largest belief in each group, over who is known and what they have."""
    m, t = 3, data.draw(st.integers(0, 2))
    groups = [
        data.draw(st.lists(st.integers(0, 2), min_size=m, max_size=m).filter(lambda c: 1 <= sum(c) <= 4))
        for _ in range(2)
    ]
    sizes = [sum(counts) for counts in groups]
    worst = [Fraction(0)] * 2
    for world, _ in in_groups(groups):
        for group, first in enumerate((0, sizes[0])):
            known = min(t, sizes[group] - 1)
            told = {first + k: world[first + k] for k in range(known)}  # places in a group are alike
            beliefs = enumerate_posteriors(in_groups(groups), same_chance, m, told)[first + known]
            worst[group] = max(worst[group], *beliefs)
    found = groups_finding(groups, t, stated=1 / 3)
    assert found.worst == float(max(worst))
    assert found.mean == pytest.approx(float(np.average([float(w) for w in worst], weights=sizes)))
    assert found.at_risk == sum(n for n, w in zip(sizes, worst, strict=True) if w > Fraction(1, 3))


def test_a_risk_equal_to_the_bound_is_not_above_it() -> None:
    assert groups_finding([[1, 1, 1], [1, 1, 1, 1]], 0, stated=1 / 3).at_risk == 0


# --- a prior ----------------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_robust_groups_move_as_over_all_worlds(data: st.DataObject) -> None:
    """Any prior, zeros among it; every set of known members with all that they can have."""
    m, n = 3, data.draw(st.integers(2, 4))
    t = data.draw(st.integers(0, n - 1))
    signatures, values = (data.draw(st.lists(st.integers(0, m - 1), min_size=n, max_size=n)) for _ in range(2))
    weights = data.draw(st.lists(st.lists(st.integers(0, 5), min_size=m, max_size=m), min_size=m, max_size=m))
    for s, x in zip(signatures, values, strict=True):
        weights[s][x] += 1
    counts = [values.count(x) for x in range(m)]
    chance = chance_of(weights, signatures)
    worst = Fraction(0)
    for world, _ in arrangements(counts):
        if chance(world):
            for members in itertools.combinations(range(n), t):
                told = {k: world[k] for k in members}
                beliefs = enumerate_posteriors(arrangements(counts), chance, m, told)
                worst = max(worst, *(b for k in range(n) if k not in members for b in beliefs[k]))
    prior = Prior(np.array(weights), np.array([30] * m))
    found, _ = worst_when_known([Composition.of(signatures, values)], prior, t)
    assert found[0] == pytest.approx(float(worst))


def test_with_one_signature_it_is_the_plain_posterior() -> None:
    for counts in ([1, 1, 1], [2, 1, 1], [3, 2, 2], [1]):
        group = Composition.of([0] * sum(counts), np.repeat(np.arange(len(counts)), counts).tolist())
        for t in range(4):
            found, _ = worst_when_known([group], EVEN, t)
            assert found[0] == pytest.approx(groups_finding([counts], t).worst)


def test_the_finding_of_robust_groups() -> None:
    """Two groups of one signature each, three and two members; one member known."""
    tables = GroupTables.of(np.array([0, 0, 0, 1, 1]), np.array([0, 1, 2, 0, 1]))
    prior = Prior(np.ones((2, 3), dtype=np.int64), np.array([3, 3]))
    found = robust_groups_finding(tables, Knowledge("sex", np.array([0, 0, 0, 1, 1]), prior), known=1, r=2)
    assert (found.worst, found.at_risk, found.stated, found.baseline) == (1, 2, 0.5, None)
    assert found.mean == pytest.approx((3 * 0.5 + 2 * 1) / 5)
    assert [group.who for group in found.exposed] == ["group 2", "group 1"]
    assert found.verdict == "not covered by the guarantee"


def test_too_many_possibilities_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, "sfumato.auditor", MOST_REDUCED=5)
    group = Composition.of(range(4), range(4))
    with pytest.raises(UsageError, match="known members can leave more than 5"):
        worst_when_known([group], Prior(np.ones((4, 4), dtype=np.int64), np.array([4] * 4)), 1)


# --- members of a file ------------------------------------------------------------------------------------------------


def test_known_members_are_taken_out() -> None:
    """Group 1 keeps two of three; group 2 is known whole; group 3 is untouched and keeps its number."""
    tables = GroupTables.of(np.array([0, 0, 0, 1, 1, 2, 2]), np.array([0, 1, 2, 0, 1, 2, 3]))
    known = np.array([0, 1, 0, 1, 1, 0, 0], dtype=bool)
    left = tables.without(known, np.array([1, 0, 1]))
    assert [left.rows.tolist(), left.groups.tolist(), left.values.tolist()] == [
        [0, 0, 1, 1],
        [0, 0, 1, 1],
        [0, 2, 2, 3],
    ]
    assert [left.told(k) for k in range(2)] == ["group 1", "group 3"]
    finding = known_members_finding(
        tables, [Knowledge("nothing", np.zeros(7, np.int64), EVEN)], 3, known, np.array([1, 0, 1]), "abcd"
    )
    assert (finding.worst, finding.records, finding.attacker) == (0.5, 4, "corruption")
    assert finding.remark.startswith("Known members move the worst belief from 50% to 50%.")
    assert "Knows the true values of 3 member(s)" in finding.assumption


def test_known_members_with_a_prior_as_over_all_worlds() -> None:
    weights = [[19, 10, 10], [10, 19, 19]]
    tables = GroupTables.of(np.zeros(3, np.int64), np.arange(3))
    signatures = np.array([0, 1, 1])
    sets = [Knowledge("sex", signatures, Prior(np.array(weights), np.array([190, 190])))]
    known = np.array([False, True, False])
    finding = known_members_finding(tables, sets, 2, known, np.array([1]))
    beliefs = enumerate_posteriors(arrangements([1, 1, 1]), chance_of(weights, signatures.tolist()), 3, {1: 1})
    assert finding.worst == pytest.approx(float(max(beliefs[0])))
    assert finding.worst == pytest.approx(361 / 461)


def test_members_who_cannot_be_are_refused() -> None:
    tables = GroupTables.of(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    with pytest.raises(UsageError, match="More members"):
        tables.without(np.array([True, True, False, False]), np.array([0, 0]))
    with pytest.raises(UsageError, match="nobody is left"):
        tables.without(np.ones(4, dtype=bool), np.array([0, 1, 0, 1]))
