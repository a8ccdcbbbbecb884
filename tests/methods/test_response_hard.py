"""The solver of randomized response where it is hard: limits next to the least one, rows that depend on each other."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.methods.response.joint import JointTable
from sfumato.methods.response.problem import ObjectiveName, pose
from sfumato.methods.response.reach import RiskOutOfReach
from sfumato.methods.response.solver import solve
from tests.methods.test_response_risks import OBJECTIVE_NAMES


@pytest.mark.parametrize("objective", OBJECTIVE_NAMES)
def test_an_optimum_reaches_its_limits_also_where_rows_depend_on_each_other(objective: ObjectiveName) -> None:
    """A value without records leaves cells that become empty; mending them may throw a point far away."""
    counts = np.zeros((2, 2, 2, 5))
    counts[0, 1, 0, 2], counts[0, 1, 1, 0], counts[1, 1, 1, 3] = 16, 7, 11
    counts[1, 1, 0, 2:4] = 7, 11
    table = JointTable.from_array(counts)
    for limit in np.linspace(0.78, 0.998, 110).tolist():
        found = solve(pose(table, limit, objective=objective))
        assert found.risk > limit * (1 - 1e-5)
        assert found.objective < 100


WITHOUT_BOUND: tuple[tuple[ObjectiveName, object, object], ...] = (
    (
        "l2",
        [[19, 3, 17], [18, 9, 3], [19, 18, 9]],
        [
            [0.11330545913830387, 0.21221518834224873, 0.4995818387238859],
            [0.5869969203453766, 0.8007960231713769, 0.7109567371909017],
            [0.14757302400470396, 0.5099920534775548, 0.10720460919646566],
        ],
    ),
    (
        "chi-square",
        [[0, 4, 4], [3, 1, 4]],
        [
            [0.26298885105278, 0.26123368601176256, 0.5224874923335084],
            [0.8028587993379717, 0.37797412060097063, 0.8004201304228513],
        ],
    ),
    ("chi-square", [[1, 3], [2, 1]], [[0.2931097444714712, 0.13138291204111813]] * 2),
)


@pytest.mark.parametrize(("objective", "counts", "limits"), WITHOUT_BOUND)
def test_estimates_without_bound_are_no_warning(objective: ObjectiveName, counts: object, limits: object) -> None:
    """Beyond the least limits that can be reached multipliers and B may overflow; the verdict is what counts."""
    table = JointTable.from_array(np.array(counts))
    with pytest.raises(RiskOutOfReach):
        solve(pose(table, np.array(limits), risk="link", scope="quasi-identifiers", objective=objective))
