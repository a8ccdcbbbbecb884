"""What docs/methods says that fails is found in releases as published; what is proved is within its bound."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.auditor.finding import Finding
from sfumato.publisher.policy import Policy
from sfumato.publisher.publish import publish
from sfumato.values.randomness import SecretKey
from tests.conftest import CLINIC_ROLES, make_policy
from tests.methods.test_response_plan import CLINIC
from tests.methods.test_response_plan import clinic as ad_clinic
from tests.papers.test_ad import ESGR, Data

AS_PUBLISHED = 'assurance = "as-published"'


def audited(rows: pa.Table, policy: Policy, folder: Path, seed: int = 1) -> sf.Audit:
    """Plan, publish with a seed, and audit."""
    table = sf.scan(rows, policy)
    key = SecretKey.from_seed(seed)
    plan = sf.plan(sf.profile(table), policy.method, policy.requirement, key=key)
    return sf.audit(table, publish(table, plan, folder, key=key), seed=1)


def by(audit: sf.Audit, attacker: str) -> list[Finding]:
    return [finding for finding in audit.findings if finding.attacker == attacker]


def seeds(folder: Path, most: int = 200) -> Iterator[tuple[int, Path]]:
    return ((seed, folder / str(seed)) for seed in range(most))


# --- FG Example 1 -----------------------------------------------------------------------------------------------------

FG = {"SARS": ("1/10", "1/7"), "HIV": ("1/10", "1/4"), "H1N1": ("1/9", "19/35"), "cancer": ("1/8", "18/25")}


def fg_policy(options: str = "") -> Policy:
    values = "\n".join(
        f'[[requirement.values]]\nvalue = "{value}"\nrho1 = "{rho1}"\nrho2 = "{rho2}"'
        for value, (rho1, rho2) in FG.items()
    )
    return make_policy(CLINIC_ROLES | {"disease": f"sensitive; domain = {list(FG)}"}, values, "fine-grain", "", options)


def test_fine_grain_as_published_lets_sars_fall_to_1_13(clinic: pa.Table, tmp_path: Path) -> None:
    found = audited(clinic, fg_policy(AS_PUBLISHED), tmp_path / "r")
    upward, downward = by(found, "posterior")
    assert upward.verdict == "within the bound"
    assert (downward.verdict, downward.direction) == ("above the bound", "at least")
    assert (downward.worst, downward.promised) == pytest.approx((1 / 13, 1 / 10))
    assert "SARS" in downward.exposed[0].who
    assert "FG Theorem 1" in downward.remark
    assert (found.holds, found.worst_verdict) == (False, "above the bound")


def test_fine_grain_as_proved_is_within_the_bound(clinic: pa.Table, tmp_path: Path) -> None:
    found = audited(clinic, fg_policy(), tmp_path / "r")
    assert [finding.verdict for finding in by(found, "posterior")] == ["within the bound"] * 2
    assert found.holds


# --- SDR Example 1 ----------------------------------------------------------------------------------------------------

T = pa.table({"d": [v for v, n in zip("abcdefghij", [12, 8, 6, 5, 4, 3, 1, 1, 1, 1], strict=True) for _ in range(n)]})
SDR = make_policy({"d": "sensitive"}, 'rho1 = "1/3"\nrho2 = "2/3"', "small-domain", "", AS_PUBLISHED)


def test_a_sub_table_that_is_published_as_a_permutation_gives_9325(tmp_path: Path) -> None:
    """T2: six records with six values. Releases are drawn until it is published as a permutation."""
    for seed, folder in seeds(tmp_path):
        (found,) = by(audited(T, SDR, folder, seed), "composition")
        if found.worst == pytest.approx(74996 / 80427, abs=1e-9):
            break
    assert f"{found.worst:.4f}" == "0.9325"
    assert (found.verdict, found.stated) == ("not covered by the guarantee", pytest.approx(2 / 3))
    assert found.excess == pytest.approx(74996 / 80427 - 2 / 3)


def test_small_domain_as_proved_leaves_a_small_excess(real_data: Data, tmp_path: Path) -> None:
    occupation = pq.read_table(real_data("adult_complete_45222.parquet"), columns=["occupation"])
    policy = make_policy({"occupation": "sensitive"}, 'rho1 = "1/4"\nrho2 = "1/2"', "small-domain")
    found = audited(occupation, policy, tmp_path / "r")
    (own,), (composition,) = by(found, "frequencies"), by(found, "composition")
    assert (own.verdict, own.at_risk) == ("within the bound", 0)
    assert composition.verdict == "not covered by the guarantee"
    assert 0 < composition.excess < 0.02
    assert found.holds


# --- PI ---------------------------------------------------------------------------------------------------------------

F, G = "0.1", "0.052631579"
"""f = 1/10 and g = 1/19, a little above: with equality, rounding decides whether PI Eq. (4) holds."""
PRIOR = {"a": {"x": F, "y": G, "z": G, "w": "0.794736842"}, "b": {"x": G, "y": F, "z": F, "w": "0.747368421"}}


def pi_policy(folder: Path, options: str) -> Policy:
    entries = [f"{s},{value},{p}" for s, of in PRIOR.items() for value, p in of.items()]
    (folder / "prior.csv").write_text("\n".join(["s,value,probability", *entries]))
    text = f"""
    [columns.s]
    role = "quasi_identifier"
    [columns.d]
    role = "sensitive"
    [method]
    name = "robust-anatomy"
    attribute_sets = [["s"]]
    prior = ["prior.csv"]
    {options}
    [requirement]
    r = 2
    """
    (folder / "policy.toml").write_text(text)
    return Policy.load(folder / "policy.toml")


def test_robust_groups_as_published_give_361_561(tmp_path: Path) -> None:
    rows = pa.table({"s": ["a", "b", "b"], "d": ["x", "y", "z"]})
    found = audited(rows, pi_policy(tmp_path, AS_PUBLISHED), tmp_path / "r")
    promised, own, *_ = by(found, "background")
    assert (promised.verdict, promised.promised) == ("above the bound", 0.5)
    assert promised.worst == pytest.approx(361 / 561, rel=1e-6)
    assert "a has 'x'" in promised.exposed[0].who
    assert own.verdict == "not covered by the guarantee"  # the table's own shares are another prior
    assert not found.holds


@pytest.mark.parametrize("records", [3, 40])
def test_robust_groups_as_proved_are_within_the_bound(records: int, tmp_path: Path) -> None:
    rows = pa.table({"s": (["a", "b", "b"] * records)[:records], "d": (["x", "y", "z"] * records)[:records]})
    found = audited(rows, pi_policy(tmp_path, ""), tmp_path / "r")
    promised = by(found, "background")[0]
    assert (promised.verdict, promised.at_risk) == ("within the bound", 0)
    assert found.holds


# --- SK ---------------------------------------------------------------------------------------------------------------

DOMINATED = pa.table({"d": list("aaaabbcd")})


def sk_policy(options: str) -> Policy:
    return make_policy({"d": "sensitive"}, "l = 3", "suppression", "", options)


def test_r_suppression_gives_7_17(tmp_path: Path) -> None:
    """T_P = (2, 2, 1, 1) of (4, 2, 1, 1): releases are drawn until that is published."""
    for seed, folder in seeds(tmp_path):
        found = audited(DOMINATED, sk_policy(AS_PUBLISHED), folder, seed)
        blind = by(found, "eligibility")[-1]
        if blind.worst == pytest.approx(7 / 17):
            break
    assert "7/17" in blind.remark
    assert "every table" in blind.assumption
    assert (blind.verdict, blind.promised) == ("above the bound", pytest.approx(1 / 3))
    assert not found.holds


@pytest.mark.parametrize("variant", ["rotation", "spread", "safe-d"])
def test_suppression_as_proved_is_within_the_bound(variant: str, tmp_path: Path) -> None:
    for seed, folder in seeds(tmp_path, 5):
        found = audited(DOMINATED, sk_policy(f'variant = "{variant}"'), folder, seed)
        assert {finding.verdict for finding in by(found, "eligibility")} == {"within the bound"}
        (absent,) = by(found, "missing")
        assert absent.verdict == "not covered by the guarantee"


# --- AD ---------------------------------------------------------------------------------------------------------------


def test_the_guesser_is_above_1_l_on_a_release_as_published(tmp_path: Path) -> None:
    """AD Table 1: 100 people, l = 3. The risk of the paper is kept, and every third guess would be right by 1/l."""
    policy = make_policy(CLINIC, "l = 3", "randomized-response", "", AS_PUBLISHED)
    found = audited(ad_clinic(), policy, tmp_path / "r")
    (reconstruction,), (guesser,) = by(found, "reconstruction"), by(found, "guesser")
    assert reconstruction.verdict == "within the bound"
    assert guesser.verdict == "not covered by the guarantee"
    assert guesser.mean is not None
    assert guesser.mean > 1 / 3
    assert guesser.at_risk > 0
    assert guesser.worst >= guesser.mean  # over the same releases
    assert guesser.exposed[0].risk == guesser.worst
    assert "Stops after as many of 1, 3, 10, 30 or 100 steps as guess most people right" in guesser.assumption
    assert "The best guesser, who knows the true table, is right for 42%: nobody" in guesser.remark


def test_esgro_at_l_3(real_data: Data, tmp_path: Path) -> None:
    rows = pq.read_table(real_data("adult_complete_45222.parquet"))
    rows = rows.filter(pc.equal(rows["split"].cast("string"), "train")).select([*ESGR, "occupation"])
    assert rows.num_rows == 30_162
    policy = make_policy(
        dict.fromkeys(ESGR, "quasi_identifier") | {"occupation": "sensitive"}, "l = 3", "randomized-response"
    )
    found = audited(rows, policy, tmp_path / "r")
    (posterior,), (distribution,), (guesser,) = (by(found, name) for name in ("posterior", "distribution", "guesser"))
    assert (posterior.verdict, posterior.at_risk) == ("within the bound", 0)
    assert posterior.promised == pytest.approx(1 / 3)
    assert "Sees the published quasi-identifiers of one row and nothing else" in posterior.assumption
    assert distribution.verdict == "not covered by the guarantee"
    assert distribution.worst == 1
    assert distribution.at_risk > 30_162 / 4
    assert distribution.mean == pytest.approx(0.31, abs=0.03)
    assert guesser.mean <= distribution.mean + 0.01
    assert found.holds


# --- corruption -------------------------------------------------------------------------------------------------------


def test_known_members_move_anatomy_and_no_randomized_release(clinic: pa.Table, tmp_path: Path) -> None:
    domain = f"sensitive; domain = {list(FG)}"
    uniform = make_policy(CLINIC_ROLES | {"disease": domain}, 'rho1 = "1/5"\nrho2 = "1/2"')
    (randomized,) = by(audited(clinic, uniform, tmp_path / "u"), "corruption")
    assert (randomized.verdict, randomized.at_risk) == ("within the bound", 0)
    assert "no belief about the other moves (by 0)" in randomized.remark
    anatomy = make_policy(CLINIC_ROLES, "l = 2", "anatomy")
    (moved,) = by(audited(clinic, anatomy, tmp_path / "a"), "corruption")
    assert (moved.verdict, moved.stated, moved.worst) == ("not covered by the guarantee", 0.5, 1)
    assert "With no member known the largest belief is 50%." in moved.remark
    # nobody is known among shuffled rows without quasi-identifiers
    in_no_order = T.take(np.random.default_rng(1).permutation(T.num_rows))
    kept = make_policy(
        {"d": "sensitive"}, 'rho1 = "1/3"\nrho2 = "2/3"\n[output]\norder = "keep"', "small-domain", "", AS_PUBLISHED
    )
    (small,) = by(audited(in_no_order, kept, tmp_path / "s"), "corruption")
    assert small.verdict == "not covered by the guarantee"
    assert "Known members move the worst belief from" in small.remark
