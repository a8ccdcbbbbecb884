"""What the solver accepts: points within every limit, wherever they lie, and no others."""

from __future__ import annotations

from itertools import product as combinations

import numpy as np
import pytest

from sfumato.methods.response import JointTable, Link, Reconstruction, RiskOutOfReach, solve
from sfumato.methods.response.problem import pose
from sfumato.methods.response.solver import _slid
from tests.properties.test_response import tables


def test_with_one_limit_no_link_risk_is_below_that_of_no_retention() -> None:
    """Of the records with the most frequent value of a cell of fixed attributes the mean risk is its share at least."""
    rng = np.random.default_rng(17)
    for table in tables(17, 40):
        fixed = int(rng.integers(len(table.sizes)))
        free = pose(table, 0.5, "link", "both", [fixed], "kappa")
        assert free.least_without_retention
        least = free.largest(np.full(len(free.free), -40.0))
        for _ in range(20):
            assert free.largest(-rng.exponential(1, len(free.free))) >= least * (1 - 1e-12)


def test_with_limits_by_group_a_point_with_retention_can_be_the_only_way() -> None:
    """Without retention the link risk is 1.054 of its limit, elsewhere .960: a search is needed."""
    table = JointTable.from_array([[[1, 0], [17, 3], [0, 2]], [[2, 6], [2, 0], [0, 1]]])
    by_cell = np.array([[0.6139, 0.9, 0.9], [0.6139, 0.7011, 0.7011]])
    limits = by_cell[tuple(table.groups.T)][:, None]
    problem = pose(table, limits, "link", "both", (), "kappa")
    assert not problem.least_without_retention
    assert problem.largest(np.full(2, -40.0)) == pytest.approx(1.054, abs=5e-4)
    found = solve(table, limits, risk="link")
    risks = Link(table, found.channels).values.reshape(table.counts.shape)
    assert (risks <= limits).all()
    assert (risks / limits).max() > 1 - 1e-6
    ratios = [problem.largest(-np.array(x)) for x in combinations(np.geomspace(0.01, 40, 30), repeat=2)]
    with pytest.raises(RiskOutOfReach, match="was found to be"):
        solve(table, limits * min(ratios) * 0.9, risk="link")
    assert solve(table, limits * min(ratios) * 1.0001, risk="link").risk > 0


def test_parameters_that_break_a_limit_are_no_response() -> None:
    problem = pose(JointTable.from_array([[20, 30, 22], [12, 8, 8]]), 0.4, "posterior", "both", (), "kappa")
    assert not problem.kept(np.zeros(1))
    with pytest.raises(ValueError, match="do not keep the limits"):
        problem.response(np.zeros(1))


def test_an_attribute_is_left_untouched_only_if_the_others_make_up_for_it() -> None:
    """The first attribute tells the value: however little it loses at first, leaving it as it is breaks the limit."""
    table = JointTable.from_array([[[8, 2], [9, 1]], [[2, 8], [1, 9]]])
    problem = pose(table, 0.7, "posterior", "both", (), "kappa")
    nearly, inside = np.array([-1e-9, -1.0]), np.full(2, -40.0)
    assert not problem.kept(np.array([0.0, -40.0]))
    found = _slid(problem, nearly, inside)
    assert problem.kept(found)
    assert found[0] < 0


def test_a_limit_of_one_in_a_group_is_none() -> None:
    """A lone record's posterior of 1 is allowed by its own limit, whatever the others ask for."""
    table = JointTable.from_array([[0, 1], [6, 4], [5, 5]])
    limits = np.where(table.groups == 0, 1, 0.55)
    free = solve(table, limits, risk="reconstruction", scope="quasi_identifiers")
    risks = Reconstruction(table, free.channels).values.reshape(3, 2)
    assert risks[1:].max() <= 0.55
    assert solve(table, limits * np.array([[1.0], [2], [2]]), risk="reconstruction").noise == (0, 0)
    assert risks[0].max() > 0.55
