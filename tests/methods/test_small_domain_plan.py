"""Plans of small domain randomization: every figure against its definition, and requests that cannot be met."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sfumato.errors import Infeasible, PolicyError
from sfumato.methods import load_plan, plan
from sfumato.methods.small_domain.method import SmallDomain
from sfumato.methods.uniform import Uniform
from sfumato.publisher.policy import Policy
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.retention import WORDS
from sfumato.values.profile import Profile
from sfumato.values.requirement import LocalPrivacy, RhoPrivacy
from sfumato.values.row_order import OrderTest
from tests.engines.test_sub_tables import planned, policy, policy_text, workers

HASHES = ("plan_hash", "table_hash", "policy_hash")


def counted(counts: list[int]) -> Profile:
    domain = SensitiveDomain((Domain("job", tuple(f"job {k}" for k in range(len(counts)))),))
    cells = np.flatnonzero(counts)
    return Profile(domain, cells[:, None].astype(np.int32), np.array(counts)[cells], OrderTest.combined(1.0, 1.0))


def test_the_plan_of_38_31_31_stays_one_block() -> None:
    """T = {38, 31, 31} with (.38, .45): SDR Eq. (14) as printed would split it; as-published says so."""
    for assurance in ("proved", "as-published"):
        made = plan(counted([38, 31, 31]), SmallDomain(assurance=assurance), RhoPrivacy("0.38", "0.45"))
        assert len(made.figures.mechanism.tables) == 1
        assert made.figures.mechanism.label is None
        why = "fewer than twice the minimum" if assurance == "proved" else "does not pay"
        assert any(why in note for note in made.notes)
        assert any("as printed" in note for note in made.notes) == (assurance == "as-published")


def test_one_block_is_uniform_perturbation() -> None:
    """rho1 is the largest share: the same matrix as uniform perturbation's, up to the rounding of the integers."""
    requirement = RhoPrivacy("0.38", "0.45")
    one = plan(counted([38, 31, 31]), SmallDomain(), requirement)
    uniform = plan(counted([38, 31, 31]), Uniform(), requirement)
    assert np.allclose(one.figures.matrix.retention, uniform.figures.matrix.retention, rtol=1e-12)
    assert one.figures.partition is not None
    assert one.figures.partition.uniform_retention == pytest.approx(float(uniform.figures.matrix.retention[0]))


def test_the_json_of_a_plan(tmp_path: Path) -> None:
    """Every figure against its definition, and back from the file."""
    opened, made = planned(workers(), policy())
    (tmp_path / "plan.json").write_text(made.bound_to(opened.hash(), opened.policy.hash()).to_json())
    loaded = load_plan(tmp_path / "plan.json")
    assert loaded.to_dict() == {**made.to_dict(), **{k: loaded.to_dict()[k] for k in HASHES}}
    raw = json.loads((tmp_path / "plan.json").read_text())
    sizes = [sum(quotas) for quotas in raw["quotas"]]
    gammas, retentions = [], []
    for table, quotas in zip(raw["sub_tables"], raw["quotas"], strict=True):
        rho1 = Fraction(max(quotas), sum(quotas))
        gamma = (1 - rho1) / rho1  # rho2 = 1/2
        assert {b["gamma"] for b in table["bounds"]} == {str(gamma)}
        weight = int(table["noise"]["weights"][0])
        assert weight == -(-WORDS // (len(quotas) - 1 + gamma))
        gammas.append(gamma)
        retentions.append(1 - len(quotas) * weight / WORDS)
    figures = raw["partition"]
    assert figures["sub_tables"] == len(sizes) == len(gammas)
    assert sum(sizes) == raw["rows"]
    assert min(sizes) >= figures["minimum_size"] == 300
    assert figures["mean_retention"] == pytest.approx(np.mean(retentions))
    assert figures["record_retention"] == pytest.approx(np.average(retentions, weights=sizes))
    spread = sum(size / p**2 for size, p in zip(sizes, retentions, strict=True))
    assert figures["valid_bound"] == pytest.approx(np.sqrt(np.log(40) / 2 * spread) / sum(sizes))
    eps = 2 * np.sqrt(np.log(40)) / sum(sizes) * sum(np.sqrt(s) / p for s, p in zip(sizes, retentions, strict=True))
    assert figures["published_bound"] == pytest.approx(eps)
    assert figures["theta"] == raw["rows"] // max(raw["counts"])
    assert raw["epsilon"] is None
    assert figures["other"]["sub_tables"] == len(planned(workers(), policy("as-published"))[1].figures.mechanism.tables)
    shown = made.explain()
    parts = "theta = ", "eps(Part)", "mean retention", "plain uniform perturbation", "delta = 1/20", "as-published"
    assert all(part in shown for part in parts)


def test_values_above_rho1_are_named_and_not_protected() -> None:
    counts = [5000, *[300] * 20]
    made = plan(counted(counts), SmallDomain(minimum_sub_table=100), RhoPrivacy("1/20", "1/4"))
    assert made.figures.partition is not None
    assert made.figures.partition.unprotected == ("job 0",)
    assert made.figures.partition.protected == 20
    assert made.figures.gamma[0] == np.inf
    assert any("'job 0'" in note and "easier to infer" in note for note in made.notes)
    assert any("1 value(s) that occur have no bound" in limit for limit in made.guarantee.limits)


@pytest.mark.parametrize("assurance", ["proved", "as-published"])
def test_no_value_to_protect_is_refused_with_the_nearest_request(assurance: str) -> None:
    with pytest.raises(Infeasible, match="No value is protected") as refusal:
        plan(counted([30, 30, 40]), SmallDomain(assurance=assurance), RhoPrivacy("0.2", "0.5"))
    assert "rho1 >= 3/10 (30%)" in refusal.value.hint


def test_rho1_not_below_rho2_is_refused() -> None:
    with pytest.raises(PolicyError, match="not below rho2"):
        policy(rho=("1/3", "1/4"))


def test_other_requirements_are_refused() -> None:
    with pytest.raises(PolicyError, match="one rho1 and one rho2"):
        plan(counted([5, 5]), SmallDomain(), LocalPrivacy(1))


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        ('record_key = "n"', "record_key does not go with small-domain"),
        (
            'person = { column = "n", repeated = "keep-one" }',
            "does not go with small-domain.* keep one row of each person",
        ),
    ],
)
def test_what_does_not_go_with_dealing(key: str, complaint: str) -> None:
    with pytest.raises(PolicyError, match=complaint):
        Policy.parse(key + policy_text())


def test_the_label_needs_its_name() -> None:
    with pytest.raises(PolicyError, match="'sub_table' is taken"):
        Policy.parse(policy_text().replace("columns.sex", "columns.Sub_Table"))


@pytest.mark.parametrize(
    ("method", "key"),
    [("uniform", "delta = 0.1"), ("fine-grain", "minimum_sub_table = 5"), ("small-domain", "retention_floor = 0.1")],
)
def test_keys_of_other_methods_are_refused(method: str, key: str) -> None:
    text = policy_text().replace("minimum_sub_table = 300", key).replace('"small-domain"', f'"{method}"')
    with pytest.raises(PolicyError, match=f"{key.split()[0]} does not go with {method}"):
        Policy.parse(text)
