"""What is stated is what holds: adversary, scope, wording, and what verify does about a false statement."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.claims.claim import percent, rounded_up
from sfumato.claims.odds import adversary_of_noise, exceeds_any_predicate
from sfumato.errors import Infeasible, PlanMismatch
from sfumato.methods import Method
from sfumato.release.folder import MANIFEST_NAME
from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato.values.mechanism import NO_BOUND, Bound
from sfumato.values.requirement import Requirement
from tests.conftest import make_policy
from tests.constants import constant, set_constants

KNOWS_ALL_OTHERS, KNOWS_NO_OTHERS = adversary_of_noise(()), adversary_of_noise(("the matrix",))
DECLARED = 'sensitive; domain = ["a", "b", "c", "e"]'


def values(counts: dict[str, int]) -> pa.Table:
    return pa.table({"d": [v for v, n in counts.items() for _ in range(n)]})


def planned(counts: dict[str, int], method: Method, requirement: Requirement, role: str = DECLARED) -> sf.Plan:
    policy = make_policy({"d": role})
    made = sf.plan(sf.profile(sf.scan(values(counts), policy)), method, requirement)
    assert isinstance(made, sf.Plan)
    return made


def test_one_record_can_turn_the_matrix_that_is_optimised_for_the_table() -> None:
    """Why the adversary of an optimised matrix must not know all other records."""
    asked = sf.Amplification(5)
    others, own = {"a": 5, "b": 1, "c": 1}, sf.FineGrain(weights="observed", objective="records")
    one, other = (planned(c, own, asked) for c in (others | {"a": 6}, others | {"e": 1}))
    assert not np.allclose(one.figures.matrix.retention, other.figures.matrix.retention)
    assert one.guarantee.adversary == other.guarantee.adversary == KNOWS_NO_OTHERS
    assert any("also to someone who knows no record" in note for note in one.notes)
    equal = [planned(c, sf.FineGrain(), asked) for c in (others | {"a": 6}, others | {"e": 1})]
    assert equal[0].figures.matrix.integers == equal[1].figures.matrix.integers
    assert {p.guarantee.adversary for p in equal} == {KNOWS_ALL_OTHERS}


@pytest.mark.parametrize(
    ("role", "method", "requirement", "from_table"),
    [
        (DECLARED, sf.Uniform(), sf.RhoPrivacy(0.2, 0.5), False),
        ("sensitive", sf.Uniform(), sf.RhoPrivacy(0.2, 0.5), True),
        (DECLARED, sf.Uniform(), sf.tolerance(2), True),
        (DECLARED, sf.FineGrain(), sf.RhoPrivacy(0.2, 0.5), False),
        (DECLARED, sf.FineGrain(weights="observed"), sf.RhoPrivacy(0.2, 0.5), True),
        (DECLARED, sf.FineGrain(weights={"a": 0.4, "b": 0.3, "c": 0.2, "e": 0.1}), sf.RhoPrivacy(0.2, 0.5), False),
    ],
)
def test_who_knows_all_others_is_covered_only_if_nothing_comes_from_the_table(
    role: str, method: Method, requirement: Requirement, from_table: bool
) -> None:
    made = planned({"a": 40, "b": 30, "c": 20, "e": 10}, method, requirement, role)
    assert made.from_table is from_table
    assert made.guarantee.adversary == (KNOWS_NO_OTHERS if from_table else KNOWS_ALL_OTHERS)
    assert any("computed from the table" in limit for limit in made.guarantee.limits) is from_table


def test_a_requirement_that_requires_nothing_is_refused() -> None:
    with pytest.raises(Infeasible, match="published as it is"):
        planned({"a": 50, "b": 50}, sf.Uniform(), sf.tolerance(5), "sensitive")


def test_stated_numbers_are_never_stronger_than_the_true_ones() -> None:
    rng = np.random.default_rng(3)
    for _ in range(500):
        x = Fraction(int(rng.integers(1, 10**9)), int(rng.integers(1, 10**6)))
        assert x <= Fraction(rounded_up(x)) <= x * Fraction(10002, 10000)
    assert percent(Fraction(333333, 10**6)) == "33.3333%"
    assert percent(Fraction(1, 3)) == "1/3"


def test_any_predicate_is_checked_against_the_strictest_bound() -> None:
    """Values without a bound do not loosen the bound on statements that join values."""
    bounds = (Bound(Fraction(3)), NO_BOUND, NO_BOUND)
    assert not exceeds_any_predicate(PerturbationMatrix.from_retention([0.3] * 3), bounds)
    assert exceeds_any_predicate(PerturbationMatrix.from_retention([0.4, 0.7, 0.7]), bounds)


def publish(folder: Path, method: str = "uniform") -> sf.Release:
    rng = np.random.default_rng(1)
    table = pa.table({"q": rng.integers(0, 9, 3000).tolist(), "d": rng.choice(list("abce"), 3000).tolist()})
    policy = make_policy({"q": "quasi_identifier", "d": DECLARED}, method=method)
    scanned = sf.scan(table, policy)
    return sf.publish(scanned, sf.plan(sf.profile(scanned), policy.method, policy.requirement), folder / "r")


def failures(release: sf.Release) -> set[str]:
    return {c.name for c in sf.open_release(release.folder).verify().checks if c.status == "fails"}


@pytest.mark.parametrize("method", ["uniform", "fine-grain"])
def test_an_untouched_release_verifies(tmp_path: Path, method: str) -> None:
    assert failures(publish(tmp_path, method)) == set()


@pytest.mark.parametrize(
    "change",
    [
        {"guarantee": {"directions": []}},
        {"guarantee": {"sentence": "All is well."}},
        {"guarantee": {"scope": "single values"}},
        {"guarantee": {"limits": []}},
        {"guarantee": {"adversary": "Knows nothing."}},
        {"method": "fine-grain"},
        {"assurance": "as-published", "method": "fine-grain"},
    ],
)
def test_a_statement_that_does_not_follow_fails(tmp_path: Path, change: dict[str, object]) -> None:
    release = publish(tmp_path)
    manifest = json.loads((release.folder / MANIFEST_NAME).read_text())
    for key, value in change.items():
        manifest[key] = {**manifest[key], **value} if isinstance(value, dict) else value
    (release.folder / MANIFEST_NAME).write_text(json.dumps(manifest))
    assert "guarantee, as stated" in failures(release)


def test_a_release_that_guarantees_nothing_fails(tmp_path: Path) -> None:
    release = publish(tmp_path)
    manifest = json.loads((release.folder / MANIFEST_NAME).read_text())
    manifest["mechanisms"][0]["sub_tables"][0]["bounds"] = [{"gamma": None, "rho1": None, "rho2": None, "given": ""}]
    manifest["mechanisms"][0]["sub_tables"][0]["noise"]["weights"] = ["0"]
    (release.folder / MANIFEST_NAME).write_text(json.dumps(manifest))
    assert {"guarantee, upward", "guarantee, downward"} <= failures(release)


def test_a_private_file_beside_the_data_fails(tmp_path: Path) -> None:
    release = publish(tmp_path)
    (release.folder / "plan.json").write_text("{}")
    assert failures(release) == {"folder"}


def test_a_plan_for_another_requirement_is_not_published(tmp_path: Path) -> None:
    policy = make_policy({"d": DECLARED}, requirement="gamma = 2")
    table = sf.scan(values({"a": 5, "b": 5, "c": 5, "e": 5}), policy)
    loose = sf.plan(sf.profile(table), sf.Uniform(), sf.Amplification(1000))
    with pytest.raises(PlanMismatch, match="that the policy states"):
        sf.publish(table, loose, tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_row_groups_do_not_tell_how_many_rows_were_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sfumato.release.formats import parquet

    assert constant("sfumato.engines", "BATCH_ROWS") > 100
    set_constants(monkeypatch, "sfumato.engines", BATCH_ROWS=100)
    monkeypatch.setattr(parquet.Parquet, "rows_at_once", 100)
    gaps = [None if k % 7 == 0 and k < 200 else "x" for k in range(1000)]
    table = pa.table({"q": gaps, "d": ["a", "b"] * 500})
    policy = make_policy({"q": 'quasi_identifier; missing = "drop"', "d": DECLARED})
    scanned = sf.scan(table, policy)
    made = sf.plan(sf.profile(scanned), policy.method, policy.requirement)
    release = sf.publish(scanned, made, tmp_path / "r")
    metadata = pq.ParquetFile(release.data).metadata
    sizes = [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
    assert made.rows == sum(sizes) == 971
    assert sizes == [100] * 9 + [71]
