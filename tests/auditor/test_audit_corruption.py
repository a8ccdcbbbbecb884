"""Known members: by all worlds of small tables."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.auditor.attackers.composition import composition_beliefs
from sfumato.auditor.attackers.corruption import (
    composition_corruption_finding,
    demonstrate,
    groups_finding,
    known_taken_out,
    randomized_finding,
    randomized_movement,
)
from sfumato.auditor.beliefs import Counts
from sfumato.auditor.worlds import chance_of, enumerate_posteriors, independent
from sfumato.errors import UsageError
from sfumato.methods.small_domain.method import uniform_matrix
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato.values.mechanism import Mechanism, SubTable
from sfumato.values.requirement import rho_bound
from sfumato_papers.pi.worlds import arrangements, in_groups
from tests.conftest import exact_weights, same_chance

# --- worlds -----------------------------------------------------------------------------------------------------------


def test_worlds_by_hand() -> None:
    assert [world for world, _ in arrangements([2, 1])] == [(0, 0, 1), (0, 1, 0), (1, 0, 0)]
    assert [world for world, _ in in_groups([[1, 1], [0, 1]])] == [(0, 1, 1), (1, 0, 1)]
    assert dict(independent([[1, 2], [3, 4]])) == {(0, 0): 3, (0, 1): 4, (1, 0): 6, (1, 1): 8}


def test_contradictions_and_large_tables_are_refused() -> None:
    with pytest.raises(UsageError, match="No world"):
        enumerate_posteriors(arrangements([2, 1]), same_chance, 2, {0: 1, 1: 1})
    with pytest.raises(UsageError, match="possible worlds"):
        list(arrangements([20, 20]))
    with pytest.raises(UsageError, match="possible worlds"):
        list(independent([[1] * 11] * 6))


# --- randomized -------------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_randomized_releases_do_not_move(data: st.DataObject) -> None:
    """Any matrix, prior, release and known members: the belief of the rest is Bayes' rule of its own value alone."""
    m, n = data.draw(st.integers(2, 3)), data.draw(st.integers(2, 4))
    weights = exact_weights(
        PerturbationMatrix.from_retention(data.draw(st.lists(st.floats(0, 0.9), min_size=m, max_size=m)))
    )
    shares = data.draw(st.lists(st.integers(1, 9), min_size=m, max_size=m))
    shown, true = (data.draw(st.lists(st.integers(0, m - 1), min_size=n, max_size=n)) for _ in range(2))
    known = {r: true[r] for r in range(1, data.draw(st.integers(2, n)))}
    assert randomized_movement(weights, shares, shown, known) == 0
    own = [f * w for f, w in zip(shares, weights[shown[0]], strict=True)]
    beliefs = enumerate_posteriors(independent([shares] * n), chance_of(weights, shown), m, known)
    assert beliefs[0] == tuple(Fraction(w, sum(own)) for w in own)


def test_the_demonstration_takes_as_many_records_as_it_can() -> None:
    few, many = uniform_matrix(Fraction(3), 3), uniform_matrix(Fraction(3), 300)
    small, large = demonstrate(few, [5, 0, 2]), demonstrate(many, [1] * 300)
    assert (small, large) == ((5, 0), (2, 0))
    assert demonstrate(few, [5, 0, 0]) is None


def test_the_finding_of_a_randomized_release() -> None:
    domain = SensitiveDomain((Domain("d", tuple("abc")),))
    mechanism = Mechanism.single(domain, uniform_matrix(Fraction(3), 3), (rho_bound("1/10", "1/4"),) * 3)
    found = randomized_finding(mechanism, [5, 3, 2], covered=True)
    assert (found.attacker, found.verdict, found.worst) == ("corruption", "within the bound", pytest.approx(0.25))
    assert "no belief about the other moves (by 0)" in found.remark
    from_table = randomized_finding(mechanism, [5, 3, 2], covered=False)
    assert from_table.verdict == "not covered by the guarantee"
    assert "not measured" in from_table.remark


# --- small domain -----------------------------------------------------------------------------------------------------

CASES = [
    ([0, 1, 2, 2, 0], [2, 1, 2], {0: 0}),
    ([0, 1, 2, 2, 0], [2, 1, 2], {1: 2, 3: 0}),
    ([1, 1, 1, 0, 0], [2, 2, 1], {0: 1, 1: 2, 4: 0}),
]


def sub_table() -> SubTable:
    return SubTable(np.arange(3, dtype=np.int32), uniform_matrix(Fraction(4), 3), (rho_bound("1/3", "2/3"),) * 3)


@pytest.mark.parametrize(("shown", "true", "known"), CASES)
def test_known_members_move_a_known_composition_as_over_all_worlds(
    shown: list[int], true: list[int], known: dict[int, int]
) -> None:
    table = sub_table()
    counts = Counts(tuple(np.bincount(shown, minlength=3).tolist()), tuple(true))
    left = known_taken_out(counts, [(shown[r], x) for r, x in known.items()])
    moved_from, moved_to = (composition_beliefs(table.matrix, c.published, c.true).beliefs for c in (counts, left))
    chance = chance_of(exact_weights(table.matrix), shown)
    before = enumerate_posteriors(arrangements(true), chance, 3)
    after = enumerate_posteriors(arrangements(true), chance, 3, known)
    others = [r for r in range(5) if r not in known]
    for r in others:
        assert moved_from[shown[r]] == pytest.approx([float(b) for b in before[r]], abs=1e-11)
        assert moved_to[shown[r]] == pytest.approx([float(b) for b in after[r]], abs=1e-11)
    largest = max(abs(a - b) for r in others for a, b in zip(before[r], after[r], strict=True))
    moved = np.abs(moved_to - moved_from)[np.array(left.published) > 0].max()
    assert moved == pytest.approx(float(largest), abs=1e-11)
    assert moved > 0.01


def test_the_finding_keeps_the_bound_of_the_whole_sub_table() -> None:
    """All but two of six are known: the rest is a and b, each by far more than 2/3 where published."""
    domain = SensitiveDomain((Domain("d", tuple("abc")),))
    mechanism = Mechanism(domain, (sub_table(),))
    counts = Counts((2, 2, 2), (2, 2, 2))
    found = composition_corruption_finding(mechanism, [counts], [[(0, 0), (1, 1), (2, 2), (2, 2)]])
    assert found.worst == pytest.approx(16 / 17)
    assert (found.stated, found.records, found.at_risk) == (pytest.approx(2 / 3), 2, 2)
    assert found.verdict == "not covered by the guarantee"
    assert "to 94.1%" in found.remark


def test_known_members_who_are_none_are_refused() -> None:
    with pytest.raises(UsageError, match="More members are known"):
        known_taken_out(Counts((1, 1), (1, 1)), [(0, 0), (0, 1)])


# --- groups -----------------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=3).filter(lambda c: 2 <= sum(c) <= 6), st.data())
def test_groups_move_as_over_all_worlds(counts: list[int], data: st.DataObject) -> None:
    n, m = sum(counts), len(counts)
    t = data.draw(st.integers(0, n - 1))
    worst = Fraction(0)
    for world, _ in arrangements(counts):
        known = dict(enumerate(world[:t]))
        beliefs = enumerate_posteriors(arrangements(counts), same_chance, m, known)[t]
        left = [count - list(known.values()).count(x) for x, count in enumerate(counts)]
        assert beliefs == tuple(Fraction(count, sum(left)) for count in left)
        worst = max(worst, *beliefs)
    assert float(worst) == groups_finding([counts], t).worst


def test_the_finding_of_groups() -> None:
    found = groups_finding([[1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 0, 0]], known=1, stated=0.5)
    assert (found.worst, found.records, found.at_risk, found.baseline) == (1, 9, 2, None)
    assert found.mean == pytest.approx((3 / 2 + 4 / 3 + 2) / 9)
    assert [group.who for group in found.exposed] == ["group 3", "group 1", "group 2"]
    assert found.verdict == "not covered by the guarantee"
    assert groups_finding([[1, 1], [1, 1]], known=1).at_risk == 4


def test_anatomy_moves_where_randomization_does_not() -> None:
    """FG section I: two groups of three, one member known; the others of the group move, those of the other do not."""
    groups = [[1, 1, 1, 0], [0, 1, 1, 1]]
    before = enumerate_posteriors(in_groups(groups), same_chance, 4)
    after = enumerate_posteriors(in_groups(groups), same_chance, 4, {0: 0})
    assert after[1][1:3] == (Fraction(1, 2), Fraction(1, 2))
    assert before[1][1:3] == (Fraction(1, 3), Fraction(1, 3))
    assert list(itertools.islice(after, 3, 6)) == list(itertools.islice(before, 3, 6))
