"""The share of the commonest value of a group: against counting, and against all priors on members."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.auditor.attackers.background import group_beliefs
from sfumato.auditor.attackers.posterior import group_shares_finding
from sfumato.auditor.grouped import GroupTables
from sfumato.auditor.knowledge import Knowledge
from sfumato.methods.robustness.prior import Prior


def tables(groups: list[int], values: list[int]) -> GroupTables:
    return GroupTables.of(np.array(groups), np.array(values))


def test_by_hand() -> None:
    """Two groups of two and one of three with a value twice: 2/3 > 1/2."""
    found = group_shares_finding(tables([0, 0, 1, 1, 2, 2, 2], [0, 1, 1, 2, 2, 0, 2]), Fraction(1, 2), "abc")
    assert (found.verdict, found.at_risk, found.records) == ("above the bound", 3, 7)
    assert (found.worst, found.promised, found.baseline) == pytest.approx((2 / 3, 1 / 2, 3 / 7))
    assert found.mean == pytest.approx((4 * 1 / 2 + 2 * 2 / 3 + 1 / 3) / 7)
    assert [(group.who, group.records) for group in found.exposed] == [
        ("group 3: 'c'", 3), ("group 1: 'b'", 2), ("group 2: 'c'", 2)
    ]  # fmt: skip
    assert found.remark == "1 of 3 group(s) have a value with a larger share."


def test_a_share_that_is_the_bound_is_within_it() -> None:
    """1/3 and 2/6 in floating point are not asked."""
    found = group_shares_finding(tables([0] * 3 + [1] * 6, [0, 1, 2, 0, 0, 1, 1, 2, 2]), Fraction(1, 3))
    assert (found.verdict, found.at_risk, found.worst) == ("within the bound", 0, 1 / 3)


def test_a_share_a_little_above_the_bound_is_above_it() -> None:
    found = group_shares_finding(tables([0] * 201, [0] * 101 + [1] * 100), Fraction(1, 2))
    assert (found.verdict, found.at_risk) == ("above the bound", 201)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20), st.integers(2, 4))
def test_the_share_is_that_of_counting(records: list[tuple[int, int]], ell: int) -> None:
    numbers = {group: k for k, group in enumerate(sorted({group for group, _ in records}))}
    groups = [numbers[group] for group, _ in records]
    found = group_shares_finding(tables(groups, [value for _, value in records]), Fraction(1, ell))
    sizes, pairs = Counter(groups), Counter(zip(groups, (v for _, v in records), strict=True))
    shares = {pair: Fraction(count, sizes[pair[0]]) for pair, count in pairs.items()}
    assert found.worst == pytest.approx(float(max(shares.values())))
    assert found.mean == pytest.approx(float(sum(shares[pair] * n for pair, n in pairs.items()) / len(records)))
    above = {group for (group, _), share in shares.items() if share > Fraction(1, ell)}
    assert (found.broken, found.at_risk) == (bool(above), sum(sizes[group] for group in above))


def test_no_prior_keeps_a_bound_that_the_share_breaks() -> None:
    """Beliefs of one who tells members apart average to the share: the largest of them is no smaller."""
    rng = np.random.default_rng(5)
    for _ in range(30):
        own = tables([0] * 5, rng.integers(0, 3, 5).tolist())
        prior = Prior(rng.integers(1, 20, (5, 3)), np.full(5, 60))
        beliefs = group_beliefs(own, Knowledge("who", np.arange(5), prior), 2)
        assert beliefs.largest.max() >= group_shares_finding(own, Fraction(1, 2)).worst - 1e-12
