"""The certificate: it is what release and audit say, every change is found, and a public one tells no figure."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import sfumato as sf
from sfumato.auditor.report.certifying import certificate, write_certificate
from sfumato.errors import PlanMismatch, UsageError
from sfumato.release.certificate import Certificate, json_schema, load_certificate
from tests.page.releases import POLICIES, made

METHODS = list(POLICIES)
SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "certificate.schema.json"
CHECKS = ["seal", "release", "promise", "requirement", "card", "policy", "unique records"]


@cache
def certified(method: str, public: bool = False) -> Certificate:
    of = made(method)
    return certificate(of.record, of.table, of.release, public=public)


def checked(release: sf.Release, path: Path) -> dict[str, str]:
    """Return what became of the checks of a certificate."""
    found = release.verify(path)
    beginning = "certificate, "
    return {c.name.removeprefix(beginning): c.status for c in found.checks if c.name.startswith(beginning)}


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_it_goes_round(method: str, public: bool, tmp_path: Path) -> None:
    made_one, path = certified(method, public), tmp_path / "certificate.json"
    write_certificate(made_one, path)
    assert load_certificate(path) == made_one
    statuses = checked(made(method).release, path)
    assert {name: statuses.pop(name) for name in CHECKS} == dict.fromkeys(CHECKS, "holds")
    assert statuses == {"figures of the table": "needs audit"}
    jsonschema.validate(json.loads(path.read_text()), json.loads(SCHEMA.read_text()))


def test_the_committed_schema_is_the_generated_one() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == json_schema(), f"write json_schema() to {SCHEMA}"
    jsonschema.Draft202012Validator.check_schema(json.loads(json_schema()))


@pytest.mark.parametrize("method", METHODS)
def test_it_has_what_the_audit_and_the_manifest_say(method: str) -> None:
    of, own = made(method), certified(method)
    assert [(a.attacker, a.about, a.worst, a.promised) for a in own.attacks] == [
        (f["attacker"], f["about"], f["worst"], f["promised"]) for f in of.record["findings"]
    ]
    assert [(line.label, line.text) for line in own.card] == list(of.release.manifest.card.rows)
    assert own.table is not None
    assert own.table.alone is not None
    assert own.table.alone.unique == of.table.engine.sizes(of.table.rows, ("age", "sex")).get(1, 0)


@pytest.mark.parametrize("method", METHODS)
def test_a_public_one_holds_no_figure_of_the_table(method: str) -> None:
    public = certified(method, public=True)
    assert (public.public, public.table, public.from_private_table) == (True, None, ("attacks.verdict",))
    assert all(each is None for a in public.attacks for each in (a.before, a.worst, a.promised, a.records, a.at_risk))
    of = made(method)
    other = [{**finding, "worst": 0.123, "records": 7} for finding in of.record["findings"]]
    assert certificate({**of.record, "findings": other}, of.table, of.release, public=True) == public
    verdicts = {a.attacker: a.verdict for a in public.attacks}
    assert all(verdicts[f["attacker"]] for f in of.record["findings"])


Change = Callable[[dict[str, Any]], object]
TAMPERED: dict[str, tuple[str, Change]] = {
    "another release": ("release", lambda c: c["release"].update(release_id="0" * 16)),
    "more rows": ("release", lambda c: c["release"].update(rows=c["release"]["rows"] + 1)),
    "another manifest": ("release", lambda c: c["release"].update(manifest_sha256="0" * 64)),
    "another table": ("release", lambda c: c["release"]["files"][0].update(sha256="0" * 64)),
    "a test as a release": ("release", lambda c: c["release"].update(status="release")),
    "a better promise": ("promise", lambda c: c["promise"].update(sentence="Nobody can learn anything.")),
    "fewer limits": ("promise", lambda c: c["promise"].update(limits=[])),
    "a stricter requirement": ("requirement", lambda c: c["requirement"][0].update(limit="3/2")),
    "a better card": ("card", lambda c: c["card"][0].update(text="Nobody can learn anything.")),
    "no card": ("card", lambda c: c.update(card=[])),
    "another policy": ("policy", lambda c: c["policy"].update(sha256="0" * 64)),
    "fewer unique records": ("unique records", lambda c: c["alone"].update(smallest_group=5000)),
}


@pytest.mark.parametrize("change", TAMPERED)
def test_every_change_of_what_can_be_checked_is_found_with_a_new_seal_too(change: str, tmp_path: Path) -> None:
    check, tamper = TAMPERED[change]
    content = json.loads(certified("fine-grain").to_json())
    tamper(content)
    for name, sealed in (("old", False), ("new", True)):
        changed, path = Certificate.model_validate(content), tmp_path / f"{name}.json"
        write_certificate(changed.sealed() if sealed else changed, path)
        statuses = checked(made("fine-grain").release, path)
        assert statuses[check] == "fails"
        assert statuses["seal"] == ("holds" if sealed else "fails")
        assert not made("fine-grain").release.verify(path).holds


def test_a_changed_figure_of_the_table_is_found_by_the_seal_alone(tmp_path: Path) -> None:
    content = json.loads(certified("fine-grain").to_json())
    content["attacks"][0]["worst"] = 0.0
    write_certificate(Certificate.model_validate(content), tmp_path / "c.json")
    assert checked(made("fine-grain").release, tmp_path / "c.json")["seal"] == "fails"


def test_words_of_another_version_are_for_people_to_compare(tmp_path: Path) -> None:
    content = json.loads(certified("fine-grain").to_json())
    content["card"][0]["text"] = "The same in other words."
    content["software"] = "sfumato 99.0"
    write_certificate(Certificate.model_validate(content).sealed(), tmp_path / "c.json")
    assert checked(made("fine-grain").release, tmp_path / "c.json")["card"] == "needs audit"


def test_one_of_another_release_does_not_pass(tmp_path: Path) -> None:
    write_certificate(certified("anatomy"), tmp_path / "c.json")
    statuses = checked(made("suppression").release, tmp_path / "c.json")
    assert {name for name, status in statuses.items() if status == "fails"} >= {"release", "requirement", "card"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "is not a certificate: made: Field required"),
        ("no JSON", "is not a certificate"),
        (None, "cannot be read"),
    ],
)
def test_what_is_no_certificate_is_refused(text: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=message):
        made("anatomy").release.verify(path)


def test_it_is_written_outside_of_releases_and_over_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="lies inside the release"):
        write_certificate(certified("anatomy"), made("anatomy").release.folder / "c.json")
    (tmp_path / "c.json").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        write_certificate(certified("anatomy"), tmp_path / "c.json")


def test_it_is_of_the_table_the_policy_and_the_plan(tmp_path: Path) -> None:
    of, other = made("anatomy"), made("suppression")
    with pytest.raises(UsageError, match="policy is not the one"):
        certificate(of.record, other.table, of.release)
    plans = {}
    for each in (of, other):
        plan = sf.plan(sf.profile(each.table), each.table.policy.method, each.table.policy.requirement)
        path = tmp_path / f"{each.table.policy.method.name}.json"
        path.write_text(plan.bound_to(each.table.hash(), each.table.policy.hash()).to_json())
        plans[each.table.policy.method.name] = path
    assert certificate(of.record, of.table, of.release, plan=plans["anatomy"]).plan_sha256
    with pytest.raises(PlanMismatch):
        certificate(of.record, of.table, of.release, plan=plans["suppression"])
