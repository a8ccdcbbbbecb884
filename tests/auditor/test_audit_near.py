"""Someone who knows a value up to some steps: their factor against brute force, honest releases, and planted faults."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binomtest

import sfumato as sf
from sfumato.analyst.release import Release
from sfumato.auditor.attackers.near import ATTACKER, clopper_pearson, on_integers, on_release, pairs_of, widest
from sfumato.auditor.evidence import DoesNotApply, Evidence
from sfumato.auditor.finding import Finding
from sfumato.claims.claim import BOTH
from sfumato.claims.steps import StepsClaim
from sfumato.methods.ordered.geometric import Geometric
from sfumato.publisher.policy import Policy
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.base import Matrix
from sfumato.values.matrix.dense import DenseMatrix
from sfumato.values.mechanism import Bound, Mechanism
from sfumato.values.randomness import SecretKey
from tests.conftest import exact_weights, make_policy, slow
from tests.engines.tools import resealed, sealed

GAMMA = Fraction(4)
AGES = list(range(10))
ROLES = {"id": "quasi_identifier", "age": f"sensitive; domain = {AGES}"}


def geometric(steps: int, m: int = 10) -> Matrix:
    domain = SensitiveDomain((Domain("age", tuple(range(m))),))
    bounds = (Bound(GAMMA),) * m
    return Geometric(steps=steps).matrix_for(domain, bounds, np.full(m, float(GAMMA)), np.ones(m))


def mechanism(matrix: Matrix) -> Mechanism:
    domain = SensitiveDomain((Domain("age", tuple(range(matrix.size))),))
    return Mechanism.single(domain, matrix, (Bound(matrix.largest_ratio),) * matrix.size)


def claimed(steps: int, bound: Bound | None = None) -> StepsClaim:
    return StepsClaim("any predicate", BOTH, steps=steps, bound=bound or Bound(GAMMA))


# --- the figures against brute force ----------------------------------------------------------------------------------


def test_the_factor_is_that_of_all_pairs_within_the_steps() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        m = int(rng.integers(2, 9))
        matrix = DenseMatrix.from_floats(rng.dirichlet(np.ones(m), m).T, 1e-9)
        order, steps, weights = rng.permutation(m).tolist(), int(rng.integers(1, m + 2)), exact_weights(matrix)
        pairs = [(i, k) for a, i in enumerate(order) for b, k in enumerate(order) if 0 < abs(a - b) <= steps]
        factor = max(Fraction(row[i], row[k]) for row in weights for i, k in pairs)
        found = widest(matrix, order, steps)
        assert found.factor == factor == Matrix.largest_step(matrix, order, steps)
        row = weights[found.published]
        assert Fraction(row[found.likelier], row[found.rarer]) == factor
        assert (found.likelier, found.rarer) in pairs


def test_an_entry_of_zero_is_told_apart_without_bound() -> None:
    matrix = DenseMatrix.from_shares([(1, 1, 0), (1, 1, 1), (0, 1, 1)])
    assert widest(matrix, [0, 1, 2], 1).factor is None
    found = on_integers(mechanism(matrix), claimed(1), "upward", 9)
    assert (found.worst, found.verdict, found.at_risk) == (1.0, "above the bound", 9)
    assert "without bound" in found.remark


def test_pairs_by_counting() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        m = int(rng.integers(2, 8))
        steps, counts = int(rng.integers(1, m)), rng.integers(0, 9, (m, m))
        found = pairs_of(counts, steps)
        expected = []
        for x in range(m - steps):
            high = x + steps
            expected.append((high, x, counts[high, high:].sum(), counts[x, high:].sum()))
        for x in range(m - steps):
            high = x + steps
            expected.append((x, high, counts[x, : x + 1].sum(), counts[high, : x + 1].sum()))
        assert np.column_stack((found.values, found.hits)).tolist() == [list(map(float, line)) for line in expected]
        assert (found.records == counts.sum(axis=1)[found.values]).all()


def test_limits_are_those_of_the_exact_interval() -> None:
    for hits, records in ((0, 5), (3, 9), (9, 9), (40, 200)):
        low, high = clopper_pearson(np.array([float(hits)]), np.array([float(records)]), 0.01)
        exact = binomtest(hits, records).proportion_ci(0.99)
        assert (low[0], high[0]) == pytest.approx((exact.low, exact.high))


# --- false alarms and power -------------------------------------------------------------------------------------------


def drawn(matrix: Matrix, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    true = rng.integers(0, matrix.size, rows).astype(np.int32)
    return true.astype(np.int64), matrix.sample(true, rng.integers(0, 2**64, rows, dtype=np.uint64)).astype(np.int64)


@pytest.mark.parametrize("rows", [30, 3_000])
@pytest.mark.parametrize("releases", [200, slow(5_000)])
def test_honest_draws_give_no_alarm_although_the_factor_is_used_up(rows: int, releases: int) -> None:
    own = geometric(2)
    found = [on_release(mechanism(own), claimed(2), *drawn(own, rows, seed)) for seed in range(releases)]
    assert {finding.verdict for finding in found} == {"within the bound"}
    assert any(finding.worst > 0.8 for finding in found)  # the share itself is beyond, by chance


@pytest.mark.parametrize("rows", [3_000, 20_000])
def test_draws_with_half_the_steps_are_found(rows: int) -> None:
    """gamma within one step in place of two, so gamma^2 within two; 300 records of each value are enough."""
    found = [on_release(mechanism(geometric(2)), claimed(2), *drawn(geometric(1), rows, seed)) for seed in range(20)]
    assert {finding.verdict for finding in found} == {"above the bound"}
    assert all(0 < finding.at_risk <= rows for finding in found)


# --- whole releases ---------------------------------------------------------------------------------------------------


def people(rows: int = 3_000) -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table({"id": [f"p{k}" for k in range(rows)], "age": np.minimum(rng.poisson(4, rows), 9)})


def release_of(folder: Path, options: str = "steps = 2", method: str = "geometric") -> tuple[Policy, Release]:
    policy = make_policy(ROLES, "rho1 = 0.2\nrho2 = 0.5", method, options=options)
    opened = sf.scan(people(), policy)
    plan = sf.plan(sf.profile(opened), policy.method, policy.requirement).bound_to(opened.hash(), policy.hash())
    return policy, sf.publish(opened, plan, folder, key=SecretKey.from_seed(5))


def near(policy: Policy, release: Release) -> dict[str, Finding]:
    found = sf.audit(sf.scan(people(), policy), release, seed=1).findings
    return {finding.about: finding for finding in found if finding.attacker == "near"}


def test_an_honest_release_is_within_both_promises(tmp_path: Path) -> None:
    policy, release = release_of(tmp_path / "r")
    found = sf.audit(sf.scan(people(), policy), release, seed=1)
    assert found.holds
    own = near(policy, release)
    assert {about: finding.verdict for about, finding in own.items()} == dict.fromkeys(
        ("upward", "downward", "release"), "within the bound"
    )
    assert own["upward"].worst == pytest.approx(0.5)  # rho2, used up
    assert own["downward"].worst == pytest.approx(0.2)
    (far,) = [f for f in found.findings if f.attacker == "posterior" and f.about == "upward"]
    assert far.promised is not None
    assert far.promised > 0.99  # everybody else: gamma = 4 within 2 steps is 2^9 over all
    assert "up to 512" in own["upward"].remark
    assert "Already knows the record's value up to 2 steps." in own["release"].assumption


def test_a_matrix_of_half_the_steps_is_found(tmp_path: Path) -> None:
    """The matrix that is stated and drawn from keeps the requirement within one step, and two are promised."""
    policy, release = release_of(tmp_path / "r", "steps = 1")
    made = release.manifest
    part = made.mechanisms[0]
    assert part.near is not None
    promised = part.model_copy(update={"near": part.near.model_copy(update={"steps": 2})})
    release = sealed(made.model_copy(update={"mechanisms": (promised,)}), release.folder)
    assert {about for about, found in near(policy, release).items() if found.verdict == "above the bound"} == {
        "upward",
        "downward",
        "release",
    }


def test_values_drawn_with_half_the_steps_are_found(tmp_path: Path) -> None:
    """The manifest is that of an honest release; its values are those of another matrix."""
    policy, release = release_of(tmp_path / "r")
    _, other = release_of(tmp_path / "other", "steps = 1")
    ids = release.to_arrow()["id"].to_pylist()
    drawn = dict(zip(*(other.to_arrow()[name].to_pylist() for name in ("id", "age")), strict=True))
    data = pq.read_table(release.data)
    values = pa.array([drawn[i] for i in ids]).cast(data.schema.field("age").type)
    pq.write_table(
        data.set_column(data.schema.get_field_index("age"), data.schema.field("age"), values),
        release.data,
        store_schema=False,
    )
    found = near(policy, resealed(release))
    assert found["release"].verdict == "above the bound"
    assert found["upward"].verdict == "within the bound"


def test_audits_of_other_methods_do_not_mention_it(tmp_path: Path) -> None:
    policy, release = release_of(tmp_path / "r", "", "plateau")
    found = sf.audit(sf.scan(people(), policy), release, seed=1)
    assert "near" not in {*found.seconds, *(each.attacker for each in found.not_applicable)}
    assert ATTACKER.public(release.manifest) is None
    with pytest.raises(DoesNotApply, match="nothing is promised by steps of an order"):
        list(ATTACKER.attack(Evidence(sf.scan(people(), policy), release)))
