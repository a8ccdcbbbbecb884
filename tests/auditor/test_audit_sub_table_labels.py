"""What the label of a sub-table tells: by hand, and SDR's third failure."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.auditor.attackers.label import label_finding
from sfumato.methods.small_domain.method import uniform_matrix
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.mechanism import LABEL, NO_BOUND, Bound, Mechanism, SubTable
from sfumato.values.requirement import rho_bound

RHO = rho_bound("1/3", "2/3")


def of_tables(*tables: tuple[list[int], tuple[Bound, ...]]) -> Mechanism:
    domain = SensitiveDomain((Domain("d", tuple("abcd")),))
    return Mechanism(
        domain,
        tuple(
            SubTable(np.array(codes, dtype=np.int32), uniform_matrix(Fraction(4), len(codes)), bounds)
            for codes, bounds in tables
        ),
        LABEL,
    )


def test_by_hand() -> None:
    """a is 1/10 of the table and 1/2 of the second sub-table; d is 7/10, without a bound."""
    own = of_tables(([1, 3], (RHO, NO_BOUND)), ([0, 2], (RHO, RHO)))
    found = label_finding(own, [[10, 70], [10, 10]])
    assert (found.attacker, found.verdict, found.records) == ("label", "not covered by the guarantee", 100)
    assert (found.worst, found.stated, found.baseline) == pytest.approx((1 / 2, 2 / 3, 1 / 10))
    assert found.mean == pytest.approx((10 * 1 / 8 + 10 * 1 / 2 + 10 * 1 / 2) / 30)
    assert found.at_risk == 0
    assert [group.who for group in found.exposed] == ["sub-table 2: 'a'", "sub-table 2: 'c'", "sub-table 1: 'b'"]
    assert "Any prior on 'b', with the rest on 'a', becomes certainty once sub-table 1 is seen" in found.remark


def test_a_share_beyond_the_bound_is_counted() -> None:
    own = of_tables(([1, 2, 3], (RHO,) * 3), ([0, 1], (RHO, RHO)))
    found = label_finding(own, [[10, 40, 40], [8, 2]])
    assert (found.worst, found.at_risk) == (pytest.approx(0.8), 8)
    assert found.excess == pytest.approx(0.8 - 2 / 3)


def test_without_bounds_what_rises_is_at_risk() -> None:
    own = of_tables(([0, 1, 2, 3], (NO_BOUND,) * 4), ([0, 1, 2, 3], (NO_BOUND,) * 4))
    found = label_finding(own, [[5, 5, 0, 0], [0, 0, 5, 5]])
    assert (found.worst, found.stated, found.baseline, found.at_risk) == (0.5, None, 0.25, 20)
    assert found.remark == "Every sub-table has all values: the label excludes none."
