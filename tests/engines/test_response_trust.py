"""Nothing is taken on trust: what a changed plan, manifest or release of randomized response meets."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.analyst.release import Release, open_release
from sfumato.auditor.audit import audit
from sfumato.engines.base import RecordKey
from sfumato.errors import PlanMismatch, ReleaseError
from sfumato.methods import load_plan
from sfumato.methods.plan import Plan, content_hash
from sfumato.publisher.publish import publish
from sfumato.publisher.table import Table, scan
from sfumato.values.mechanism import NO_BOUND, Mechanism
from sfumato.values.randomness import SecretKey, simulation
from tests.engines.test_response import AS_PUBLISHED, asked, changed, holds, people, released, stated
from tests.engines.tools import planned

Raw = dict[str, Any]

# --- plans ------------------------------------------------------------------------------------------------------------


def weights(raw: Raw, number: int, noise: list[str]) -> None:
    raw["mechanisms"][number]["sub_tables"][0]["noise"]["weights"] = noise


def nearly_no_noise(raw: Raw) -> None:
    for number in range(len(raw["mechanisms"])):
        weights(raw, number, ["1"])


def one_matrix_less(raw: Raw) -> None:
    raw["mechanisms"] = raw["mechanisms"][:-1]


def a_bit_less_noise(raw: Raw) -> None:
    own = raw["mechanisms"][0]["sub_tables"][0]["noise"]["weights"][0]
    weights(raw, 0, [str(int(own) * 999 // 1000)])


def unequal_noise(raw: Raw) -> None:
    weights(raw, 0, [str(2**62), str(2**61)])


def twice_the_same(raw: Raw) -> None:
    raw["mechanisms"].append(raw["mechanisms"][0])


def another_order(raw: Raw) -> None:
    raw["mechanisms"][1]["parts"][0]["values"].reverse()


def a_stronger_sentence(raw: Raw) -> None:
    raw["guarantee"]["sentence"] = "Nobody learns anything."


CHANGES: dict[Callable[[Raw], None], str] = {
    nearly_no_noise: "do not keep its limit for this table",
    a_bit_less_noise: "have retentions of more than two digits",
    one_matrix_less: "guarantee is not what follows from the policy",
    unequal_noise: "are not those of randomized response",
    twice_the_same: "list of hidden columns is not what follows from the policy",
    another_order: "are not those of randomized response",
    a_stronger_sentence: "guarantee is not what follows from the policy",
}


def rewritten(plan: Plan, file: Path, change: Callable[[Raw], None]) -> Any:
    """Return the plan of a file that was changed, and sealed again with the plain hash."""
    raw = {key: value for key, value in json.loads(plan.to_json()).items() if key != "plan_hash"}
    change(raw)
    file.write_text(json.dumps(raw | {"plan_hash": content_hash(raw)}), encoding="utf-8")
    return load_plan(file)


@pytest.mark.parametrize("bound", [True, False])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_plan_that_was_changed_and_sealed_again_is_refused(
    change: Callable[[Raw], None], bound: bool, tmp_path: Path
) -> None:
    table = scan(people(), asked())
    made: Any = planned(table)
    made = made.bound_to(table.hash(), table.policy.hash()) if bound else made
    same = rewritten(made, tmp_path / "same.json", lambda raw: None)
    with pytest.raises(PlanMismatch, match=CHANGES[change]):
        publish(table, rewritten(made, tmp_path / "plan.json", change), tmp_path / "r")
    assert not (tmp_path / "r").exists()
    assert holds(publish(table, same, tmp_path / "r", key=SecretKey.from_seed(1)))


@pytest.mark.parametrize("options", ['risk = "link"', AS_PUBLISHED, f'scope = "sensitive"\n{AS_PUBLISHED}'])
def test_every_risk_is_evaluated_again(options: str, tmp_path: Path) -> None:
    limit = {"risk": "risk_limit = 0.36", "assu": "l = 9", "scop": "l = 5"}[options[:4]]
    table = scan(people(), asked(limit, options))
    made: Any = planned(table)
    with pytest.raises(PlanMismatch, match="do not keep its limit for this table"):
        publish(table, rewritten(made, tmp_path / "plan.json", nearly_no_noise), tmp_path / "r")
    assert holds(publish(table, made, tmp_path / "r", key=SecretKey.from_seed(1)))


def test_groups_keep_their_own_limit_in_a_plan_file(tmp_path: Path) -> None:
    group = '\n[[requirement.groups]]\nwhere = { sex = "F" }\nrisk_limit = 0.36'
    strict, loose = (scan(people(), asked(f"risk_limit = 0.38{more}")) for more in (group, ""))
    made: Any = planned(strict)
    lax = planned(loose)

    def less(raw: Raw) -> None:
        raw["mechanisms"] = json.loads(lax.to_json())["mechanisms"]

    with pytest.raises(PlanMismatch, match="guarantee is not what follows from the policy"):
        publish(strict, rewritten(made, tmp_path / "plan.json", less), tmp_path / "r")


# --- manifests --------------------------------------------------------------------------------------------------------


def opened_with(release: Release, change: Callable[[Raw], None]) -> Release:
    raw = json.loads((release.folder / "manifest.json").read_text(encoding="utf-8"))
    change(raw)
    (release.folder / "manifest.json").write_text(json.dumps(raw), encoding="utf-8")
    return open_release(release.folder)


@pytest.mark.parametrize("key", ["sensitive", "quasi_identifiers"])
def test_a_manifest_names_its_columns(key: str, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=key):
        opened_with(released(people(), asked(), folder=tmp_path / "r"), lambda raw: raw["response"].update({key: []}))


def test_a_column_has_one_mechanism(tmp_path: Path) -> None:
    release = released(people(), asked(), folder=tmp_path / "r")
    with pytest.raises(ReleaseError, match="a column is randomized by one mechanism only"):
        opened_with(release, lambda raw: raw["mechanisms"].append(raw["mechanisms"][0]))


def test_verify_checks_the_matrices_and_the_columns(tmp_path: Path) -> None:
    """All else stays: a matrix is told to be of another kind, or a column is not there."""
    release = released(people(), asked(), folder=tmp_path / "r")
    first, *rest = release.manifest.mechanisms
    for noise in (("0",), (str(2**62), str(2**61))):
        table = first.sub_tables[0]
        other = table.model_copy(update={"noise": table.noise.model_copy(update={"weights": noise})})
        mechanisms = (first.model_copy(update={"sub_tables": (other,)}), *rest)
        assert _wrong(changed(release, mechanisms=mechanisms)) == ["matrices"]
    columns = tuple(column for column in release.manifest.columns if column.name != "disease")
    assert _wrong(changed(release, columns=columns)) == ["columns"]
    assert stated(release) == "holds"


def _wrong(release: Release) -> list[str]:
    (check,) = [check for check in release.verify().checks if check.name == "guarantee, as stated"]
    assert check.status == "fails"
    return check.detail.rsplit(": ", 1)[1].rstrip(".").split(", ")


# --- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("faulty", [False, True])
def test_columns_alike_have_words_of_their_own_under_a_record_key(
    faulty: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two columns with the same values, the same matrix and the same true codes change independently of each other.

    If they do not, as with contexts that do not tell columns apart, the audit finds it.
    """
    if faulty:
        monkeypatch.setattr(RecordKey, "noise_context", lambda self, mechanism: bytes(16))
    rows, rng = 4000, simulation(3)
    codes = rng.integers(0, 2, rows)
    values = [("no", "yes")[k] for k in codes]
    disease = [("flu", "gout", "mumps")[k] for k in np.where(rng.random(rows) < 0.4, codes, rng.integers(0, 3, rows))]
    names = [f"person {k}" for k in range(rows)]
    table = pa.table({"name": names, "one": values, "two": values, "id": range(rows), "disease": disease})
    quasi = dict.fromkeys(("one", "two"), "quasi_identifier")
    roles = {"name": "identifier", **quasi, "id": "other", "disease": "sensitive"}
    opened = scan(table, asked("risk_limit = 0.45", roles=roles, top='record_key = "name"\nseries = "s"'))
    SecretKey.create(tmp_path / "key")
    release = publish(opened, _alike(opened), tmp_path / "r", key=SecretKey.load(tmp_path / "key"))
    published = release.to_arrow().sort_by("id")
    one, two = (np.array(published[name].to_pylist()) != np.array(values) for name in quasi)
    assert 0.1 < one.mean() < 0.5
    together = one.mean() * two.mean()
    apart = abs((one & two).mean() - together) < 5 * np.sqrt(together / rows)  # sharing words, it would be one.mean()
    assert apart != faulty
    (found,) = [f for f in audit(opened, release, seed=1).findings if f.about == "columns"]
    assert found.verdict == ("above the bound" if faulty else "within the bound")
    assert "one and two: kept in both or in neither" in found.exposed[0].who or not faulty


def _alike(table: Table) -> Plan:
    """Return the plan with the stronger noise of its two columns in both: more noise keeps the posterior's limit."""
    made: Any = planned(table)
    first, second = made.mechanisms
    strongest = max((first, second), key=lambda mechanism: int(mechanism.matrix.noise[0])).matrix
    mechanisms = tuple(Mechanism.single(m.domain, strongest, (NO_BOUND,) * 2) for m in (first, second))
    plan: Plan = replace(made, figures=replace(made.figures, mechanisms=mechanisms))
    return plan
