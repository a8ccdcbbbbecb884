"""Background knowledge: PI's counter-example, and all worlds of small groups."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.auditor.attackers.background import background_finding, group_beliefs
from sfumato.auditor.attackers.frequencies import frequencies_finding
from sfumato.auditor.beliefs import record_beliefs
from sfumato.auditor.grouped import GroupTables
from sfumato.auditor.knowledge import Knowledge
from sfumato.auditor.worlds import Beliefs, chance_of, enumerate_posteriors
from sfumato.errors import PolicyError, ReleaseError
from sfumato.methods.robustness.check import meets_published_delta
from sfumato.methods.robustness.grouping import group_records
from sfumato.methods.robustness.merging import merge_records
from sfumato.methods.robustness.prior import Prior, count_prior
from sfumato.methods.small_domain.method import uniform_matrix
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato.values.mechanism import Bound, Mechanism, SubTable
from sfumato.values.requirement import rho_bound
from sfumato_papers.pi.worlds import in_groups

# --- the tables -------------------------------------------------------------------------------------------------------


def test_the_tables_of_groups() -> None:
    tables = GroupTables.of(np.array([1, 0, 1, 0, 1]), np.array([2, 0, 2, 1, 0]))
    assert [tables.groups.tolist(), tables.values.tolist(), tables.counts.tolist()] == [
        [0, 0, 1, 1],
        [0, 1, 0, 2],
        [1, 1, 1, 2],
    ]
    first, second = tables.compositions(np.array([7, 3, 7, 3, 4]))
    assert (first.signatures, first.sizes, first.values, first.counts) == ((3,), (2,), (0, 1), (1, 1))
    assert (second.signatures, second.sizes, second.values, second.counts) == ((4, 7), (1, 2), (0, 2), (1, 2))


@pytest.mark.parametrize(("groups", "counts"), [([0, 0], [1, 1]), ([0, 1], [1, 2]), ([0, 2], [2, 1]), ([0, 1], [3, 0])])
def test_tables_that_disagree_are_refused(groups: list[int], counts: list[int]) -> None:
    with pytest.raises(ReleaseError, match="Group"):
        GroupTables(np.array([0, 0, 1]), np.array(groups), np.array([0, 1]), np.array(counts))


def test_a_row_with_a_value_that_its_group_lacks_is_refused() -> None:
    tables = GroupTables.of(np.array([0, 0, 1, 1]), np.array([0, 1, 2, 3]))
    known = Knowledge("all", np.zeros(4, np.int64), Prior(np.ones((1, 4), np.int64), np.array([4])))
    with pytest.raises(ReleaseError, match="Group 2"):
        group_beliefs(tables, known, 2, np.array([0, 1, 2, 0]))


# --- groups, by all worlds --------------------------------------------------------------------------------------------


def by_worlds(tables: GroupTables, signatures: list[int], weights: list[list[int]], values: int) -> Beliefs:
    """The rows stand group by group."""
    compositions = [[0] * values for _ in tables.sizes]
    for group, value, count in zip(tables.groups, tables.values, tables.counts, strict=True):
        compositions[group][value] = int(count)
    return enumerate_posteriors(in_groups(compositions), chance_of(weights, signatures), values)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_beliefs_are_those_of_all_worlds(data: st.DataObject) -> None:
    m, sizes = 3, data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=2))
    rows = np.repeat(np.arange(len(sizes)), sizes)
    signatures, true = (
        data.draw(st.lists(st.integers(0, m - 1), min_size=rows.size, max_size=rows.size)) for _ in range(2)
    )
    weights = data.draw(st.lists(st.lists(st.integers(1, 9), min_size=m, max_size=m), min_size=m, max_size=m))
    tables = GroupTables.of(rows, np.array(true))
    known = Knowledge("s", np.array(signatures), Prior(np.array(weights), np.array([30] * m)))
    found, exact = group_beliefs(tables, known, 2, np.array(true)), by_worlds(tables, signatures, weights, m)
    assert found.true is not None
    for row, beliefs in enumerate(exact):
        assert found.largest[row] == pytest.approx(float(max(beliefs)))
        assert float(beliefs[found.likeliest[row]]) == pytest.approx(float(max(beliefs)))
        assert found.true[row] == pytest.approx(float(beliefs[true[row]]))
        assert found.above[row] == (max(beliefs) > Fraction(1, 2))
    assert found.broken == any(max(beliefs) > Fraction(1, 2) for beliefs in exact)
    assert found.mean == pytest.approx(float(np.mean(found.true)))
    finding = background_finding(tables, [known], 2, promised=True)
    assert finding.mean == pytest.approx(float(np.mean([max(beliefs) for beliefs in exact])))
    assert (finding.verdict == "above the bound") == found.broken


# --- PI's counter-example ---------------------------------------------------------------------------------------------


def counter_example() -> tuple[np.ndarray, np.ndarray, Prior]:
    """t1 = (f, g, g), t2 = t3 = (g, f, f), f = 1/10, g = 1/19; the rest is on values that nobody has."""
    weights = np.array([[19, 10, 10], [10, 19, 19]])
    return np.array([0, 1, 1]), np.array([0, 1, 2]), Prior(weights, np.array([190, 190]))


def test_the_counter_example_as_published_is_found() -> None:
    """The three meet PI Eq. (4) for r = 2 in one group; one of them is believed to have x by 361/561."""
    cells, values, prior = counter_example()
    exact = [[Fraction(int(w), 190) for w in prior.weights[cell]] for cell in cells]
    assert meets_published_delta(exact, [1, 1, 1], 2)
    known = Knowledge("sex", cells, prior, ["Male", "Female"])
    found = background_finding(GroupTables.of(np.zeros(3, np.int64), values), [known], 2, True, ["x", "y", "z"], values)
    assert found.worst == pytest.approx(361 / 561, rel=1e-14)
    assert (found.verdict, found.promised, found.at_risk, found.records) == ("above the bound", 0.5, 1, 3)
    assert found.baseline == pytest.approx(0.1)
    assert found.exposed[0].who == "group 1: Male has 'x'"
    assert found.mean == pytest.approx((361 + 461) / 561 / 3)  # t2 and t3 have y or z: half of what t1 leaves
    assert found.measured.endswith("; exact")


def test_the_published_algorithm_makes_the_counter_example() -> None:
    """f = 1/10, g = 1/19 meet the condition with equality: all three are merged, and 361/561 is found."""
    cells, values, prior = counter_example()
    groups = merge_records(cells, values, [cells], np.arange(3), 2, [prior])
    assert groups.tolist() == [0, 0, 0]
    found = background_finding(GroupTables.of(groups, values), [Knowledge("sex", cells, prior)], 2, promised=True)
    assert (found.verdict, found.worst) == ("above the bound", pytest.approx(361 / 561, rel=1e-14))


def test_what_the_published_algorithm_merges_is_found() -> None:
    """(9, 5, 5)/90 and twice (5, 9, 9)/90: 81/131 for r = 2."""
    cells, values, _ = counter_example()
    prior = Prior(np.array([[9, 5, 5], [5, 9, 9]]), np.array([90, 90]))
    groups = merge_records(cells, values, [cells], np.arange(3), 2, [prior])
    found = background_finding(GroupTables.of(groups, values), [Knowledge("sex", cells, prior)], 2, promised=True)
    assert (found.verdict, found.worst) == ("above the bound", pytest.approx(81 / 131))


def test_the_counter_example_as_proved_is_within() -> None:
    cells, values, prior = counter_example()
    groups = group_records(cells, values, [cells], np.arange(3), 2, [prior])
    kept = groups >= 0
    known = Knowledge("sex", cells[kept], prior)
    found = background_finding(GroupTables.of(groups[kept], values[kept]), [known], 2, True, true=values[kept])
    assert (found.verdict, found.worst, found.at_risk) == ("within the bound", 0.5, 0)


def test_several_attribute_sets_and_a_stated_bound() -> None:
    """Diverse groups say nothing of one who knows shares: stated, not promised. The worst set counts."""
    cells, values, prior = counter_example()
    tables = GroupTables.of(np.zeros(3, np.int64), values)
    nothing = Knowledge("nothing", np.zeros(3, np.int64), Prior(np.ones((1, 3), np.int64), np.array([4])))
    found = background_finding(tables, [nothing, Knowledge("sex", cells, prior)], 3, promised=False)
    assert (found.verdict, found.promised, found.stated) == ("not covered by the guarantee", None, pytest.approx(1 / 3))
    assert found.worst == pytest.approx(361 / 561)
    assert found.at_risk == 3  # 461/561 / 2 is above 1/3, too
    assert "nothing: worst 33.3%" in found.remark
    alone = background_finding(tables, [nothing], 3, promised=False)
    assert (alone.at_risk, alone.broken, alone.baseline) == (0, False, 0.25)


def test_beliefs_at_the_bound_are_decided_in_fractions() -> None:
    """Equal shares of three are 1/3. One part in 10^15 more, and all are above: who lacks x has y or z rather."""
    values = np.array([0, 1, 2])
    for extra, above in ((0, False), (1, True)):
        weights = np.array([[10**15 + extra, 10**15, 10**15], [10**15] * 3])
        known = Knowledge("s", np.array([0, 1, 1]), Prior(weights, weights.sum(axis=1)))
        found = background_finding(GroupTables.of(np.zeros(3, np.int64), values), [known], 3, promised=True)
        assert (found.verdict == "above the bound") == above
        assert found.at_risk == 3 * above


def test_large_groups_have_a_bound_and_say_so() -> None:
    """20 records that all differ have 2^20 states."""
    rng = np.random.default_rng(3)
    values, weights = np.arange(20), rng.integers(90, 100, (20, 20))
    known = Knowledge("all", rng.permutation(20), Prior(weights, weights.sum(axis=1)))
    found = background_finding(GroupTables.of(np.zeros(20, np.int64), values), [known], 3, promised=True)
    assert "20 record(s) in large groups, where it is an upper bound" in found.measured
    assert 1 / 20 < found.worst < 1 / 10
    assert found.verdict == "within the bound"


# --- randomized -------------------------------------------------------------------------------------------------------


def mechanism(m: int, gamma: str = "3") -> Mechanism:
    domain = SensitiveDomain((Domain("d", tuple("abcdefgh"[:m])),))
    return Mechanism.single(domain, uniform_matrix(Fraction(gamma), m), (rho_bound("1/10", "1/4"),) * m)


def test_the_table_s_own_shares_are_those_of_frequencies() -> None:
    rng = np.random.default_rng(8)
    true, published, signatures = (rng.integers(0, m, 400) for m in (5, 5, 3))
    true, published = true.astype(np.int32), published.astype(np.int32)
    known = Knowledge("sex", signatures, count_prior(signatures, true.astype(np.int64)))
    mine = record_beliefs(mechanism(5), true, published, known=known)
    for signature in range(3):
        here = signatures == signature
        theirs = record_beliefs(mechanism(5), true[here], published[here])
        for name in ("priors", "beliefs", "limits"):
            assert getattr(mine, name)[here] == pytest.approx(getattr(theirs, name), rel=1e-12)


def test_a_prior_of_a_file_by_hand() -> None:
    """gamma 3, three values, weights 3:1:1; prior 1/10, 4/10, 5/10: published as it is, 3/10 of 3/10 + 4/10 + 5/10."""
    known = Knowledge("sex", np.zeros(2, np.int64), Prior(np.array([[1, 4, 5]]), np.array([10])), ["Female"])
    true, published = np.array([0, 1], dtype=np.int32), np.array([0, 0], dtype=np.int32)
    found = record_beliefs(mechanism(3), true, published, known=known)
    assert found.beliefs == pytest.approx([3 / 12, 4 / 12])
    assert found.limits == pytest.approx([1 / 4, 3 * 4 / (6 + 3 * 4)])  # 4/10 is above rho1: its odds grow by 3
    finding = frequencies_finding(mechanism(3), true, published, known=known)
    assert (finding.attacker, finding.verdict) == ("background", "within the bound")
    assert (finding.worst, finding.promised) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert (finding.who, finding.baseline) == ("Female: 'b', published 'a'", 0.4)
    assert "its odds grow by at most 3" in finding.why_bound
    assert finding.nearest is not None
    assert (finding.nearest.who, finding.nearest.risk, finding.nearest.bound, finding.nearest.prior) == (
        "Female: 'a', published 'a'", pytest.approx(0.25), 0.25, 0.1,
    )  # fmt: skip
    assert finding.excess == pytest.approx(0)
    assert "the requirement says nothing" not in finding.remark
    assert finding.exposed[0].who == "Female"


def test_a_weaker_matrix_is_found() -> None:
    known = Knowledge("sex", np.zeros(1, np.int64), Prior(np.array([[1, 4, 5]]), np.array([10])))
    zero = np.zeros(1, dtype=np.int32)
    assert frequencies_finding(mechanism(3, "4"), zero, zero, known=known).verdict == "above the bound"


def test_sub_tables_exclude_values_and_are_not_covered() -> None:
    """In a sub-table of a and c the prior is 1 : 5."""
    whole = mechanism(3)
    table = SubTable(np.array([0, 2], dtype=np.int32), uniform_matrix(Fraction(2), 2), whole.bounds[:2])
    two = Mechanism(whole.domain, (whole.tables[0], table), "sub_table")
    known = Knowledge("sex", np.zeros(2, np.int64), Prior(np.array([[1, 4, 5]]), np.array([10])))
    true, labels = np.array([0, 2], dtype=np.int32), np.ones(2, dtype=np.int32)
    found = record_beliefs(two, true, true, labels, known=known)
    assert found.priors == pytest.approx([1 / 6, 5 / 6])
    assert found.beliefs == pytest.approx([2 / 7, 10 / 11])
    finding = frequencies_finding(two, true, true, labels, known=known)
    assert (finding.verdict, finding.promised) == ("not covered by the guarantee", None)
    assert finding.stated == pytest.approx(15 / 16)  # odds of 5 : 1 grow by gamma = 3


def test_a_prior_that_contradicts_the_table_is_refused() -> None:
    known = Knowledge("sex", np.zeros(1, np.int64), Prior(np.array([[0, 4, 6]]), np.array([10])))
    zero = np.zeros(1, dtype=np.int32)
    with pytest.raises(PolicyError, match="contradicts"):
        record_beliefs(mechanism(3), zero, zero, known=known)


def test_matrices_that_keep_everything_leave_no_doubt() -> None:
    sure = Mechanism.single(mechanism(3).domain, PerturbationMatrix.from_retention([1.0] * 3), (Bound(None),) * 3)
    known = Knowledge("sex", np.zeros(1, np.int64), Prior(np.array([[1, 4, 5]]), np.array([10])))
    zero = np.zeros(1, dtype=np.int32)
    assert record_beliefs(sure, zero, zero, known=known).beliefs.tolist() == [1]
