"""T10: randomized response publishes retentions of two digits within its limits, and says that its matrices tell."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import PlanMismatch
from sfumato.methods.plan import Plan
from sfumato.methods.response.figures import ResponseFigures
from sfumato.methods.response.joint import JointTable
from sfumato.methods.response.problem import pose
from sfumato.methods.response.reach import RiskOutOfReach
from sfumato.methods.response.request import settled
from sfumato.methods.response.solver import solve
from sfumato.values.matrix.grid import is_on_grid, next_down, next_up, noise_of, rounded_down
from sfumato.values.matrix.retention import PerturbationMatrix
from tests.conftest import make_policy

CLINIC = np.array([[20, 30, 22], [12, 8, 8]])  # AD Table 1: cancer, flu, gout of men and women
ROLES = {"sex": "quasi_identifier", "illness": "sensitive"}


def candidates() -> list[np.ndarray]:
    """Return the tables that someone who knows all records but one, a man with flu, holds possible."""
    known = CLINIC.copy()
    known[0, 1] -= 1
    return [known + np.eye(6, dtype=np.int64)[cell].reshape(2, 3) for cell in range(6)]


def rows(counts: np.ndarray) -> pa.Table:
    cells = [(s, i) for s in range(2) for i in range(3) for _ in range(int(counts[s, i]))]
    return pa.table({"sex": ["MF"[s] for s, _ in cells], "illness": [("cancer", "flu", "gout")[i] for _, i in cells]})


def planned(counts: np.ndarray = CLINIC, limit: str = "0.4") -> Plan:
    policy = make_policy(ROLES, f"risk_limit = {limit}", "randomized-response")
    made = sf.plan(sf.profile(sf.scan(rows(counts), policy)), policy.method, policy.requirement)
    assert isinstance(made.figures, ResponseFigures)
    return made


def test_t10_the_best_integers_differ_for_all_six_candidates_and_those_of_the_grid_for_fewer() -> None:
    tables = [JointTable.from_array(counts) for counts in candidates()]
    assert len({solve(pose(table, 0.4)).noise for table in tables}) == 6
    assert len({settled(pose(t, 0.4, "posterior"), solve(pose(t, 0.4))).noise for t in tables}) == 5


def test_t10_in_a_table_of_ten_thousands_one_record_seldom_changes_a_digit() -> None:
    """A hundred candidates for one unknown record: nearly as many best matrices, and one on the grid."""
    rng = np.random.default_rng(5)
    known = rng.multinomial(30_000, rng.dirichlet(np.full(4 * 3 * 6, 2.0))).reshape(4, 3, 6)
    best, published = set(), set()
    for _ in range(40):
        counts = known.copy()
        counts[tuple(rng.integers(0, known.shape))] += 1
        table = JointTable.from_array(counts)
        best.add((found := solve(pose(table, 0.3))).noise)
        published.add(settled(pose(table, 0.3, "posterior"), found).noise)
    assert len(best) > 10
    assert len(published) == 1


@pytest.mark.parametrize("risk", ["posterior", "link", "reconstruction"])
@pytest.mark.parametrize("seed", range(8))
def test_t10_the_limit_is_kept_on_the_grid_and_no_retention_can_be_a_step_larger(risk: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = JointTable.from_array(rng.integers(1, 60, (3, 4, 2, 5)))
    limit = float(rng.uniform(0.3, 0.45))
    problem = pose(table, limit, risk)  # type: ignore[arg-type]
    best = solve(pose(table, limit, risk=risk))  # type: ignore[arg-type]
    found = settled(problem, best)
    assert problem.within(problem.risk(table, found.channels))
    assert all(is_on_grid(channel.matrix) for channel in found.channels if channel.noise)
    assert [bool(noise) for noise in found.noise] == [bool(noise) for noise in best.noise]
    assert best.kappa * (1 - 1e-4) <= found.kappa <= best.kappa * 1.25
    for axis, channel in enumerate(found.channels):
        above = next_up(rounded_down(Fraction(channel.retention + 1e-12))) if channel.noise else None
        if above is not None:
            higher = list(found.channels)
            higher[axis] = type(channel).from_noise(channel.size, noise_of(above, channel.size))
            assert not problem.within(problem.risk(table, tuple(higher)))


def test_t10_a_limit_that_no_point_nearby_keeps_is_refused_with_the_least_risk_found() -> None:
    """Best parameters that do not belong to the problem: its own limit is far below, and not reached in 64 steps."""
    table = JointTable.from_array(CLINIC)
    problem = pose(table, 0.381, "link")
    with pytest.raises(RiskOutOfReach, match=r"at the least of a few points, above its limit of 0.381"):
        settled(problem, solve(pose(table, 0.41, risk="link")))


def test_t10_plan_and_manifest_say_that_the_matrices_tell_something(tmp_path: Path) -> None:
    made = planned()
    assert made.discloses_frequencies
    assert made.from_table
    assert made.figures.attributes[0].retention == pytest.approx(0.45, abs=1e-15)
    assert made.figures.best_l2 < made.figures.expected_l2 < 1.05 * made.figures.best_l2
    assert "two significant digits" in " ".join(made.guarantee.limits)
    assert "tell something of it" in " ".join(made.guarantee.limits)
    policy = make_policy(ROLES, "risk_limit = 0.4", "randomized-response")
    release = sf.publish(sf.scan(rows(CLINIC), policy), made, tmp_path / "r")
    assert release.manifest.discloses_frequencies
    assert "the matrices" in (tmp_path / "r" / "README.md").read_text()
    assert release.verify().holds


def test_t10_a_plan_or_release_off_the_grid_is_refused(tmp_path: Path) -> None:
    policy = make_policy(ROLES, "risk_limit = 0.4", "randomized-response")
    table = sf.scan(rows(CLINIC), policy)
    raw = json.loads(planned().to_json())
    noise = int(raw["mechanisms"][0]["sub_tables"][0]["noise"]["weights"][0]) + 2**40  # more noise: the limit holds
    raw["mechanisms"][0]["sub_tables"][0]["noise"]["weights"] = [str(noise)]
    with pytest.raises(PlanMismatch, match="retentions of more than two digits"):
        sf.publish(table, Plan.from_dict(raw, ResponseFigures.from_dict(raw)), tmp_path / "r")


def test_points_of_the_grid_are_recognised_in_integers_and_neighbours_are_not() -> None:
    rng = np.random.default_rng(1)
    for _ in range(2_000):
        m, point = int(rng.integers(2, 500)), Fraction(int(rng.integers(10, 100)), 10 ** int(rng.integers(2, 8)))
        noise = noise_of(point, m)
        assert is_on_grid(PerturbationMatrix(np.full(m, noise, dtype=np.uint64)))
        assert not is_on_grid(PerturbationMatrix(np.full(m, noise - 2**30, dtype=np.uint64)))
        assert rounded_down(point) == point
        above = next_up(point)
        assert above is None or next_down(above) == point
