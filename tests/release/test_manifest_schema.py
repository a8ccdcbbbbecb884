"""The manifest's schema: the committed file is the generated one, and real manifests satisfy it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.release.manifest import json_schema
from tests.conftest import CLINIC_ROLES, make_policy

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "manifest.schema.json"

REQUIREMENTS = {
    "uniform": ("uniform", "rho1 = 0.2\nrho2 = 0.5"),
    "fine-grain": ("fine-grain", 'tolerance = 2\nrho1 = "observed"'),
    "some unprotected": (
        "fine-grain",
        'others = "unprotected"\nvalues = [{ value = "HIV", rho1 = "1/10", rho2 = "1/4", given = "age" }]',
    ),
    "sets of values": (
        "fine-grain",
        'gamma = 9\nvalues = [{ prefix = "H", gamma = 3 }, { between = ["H", "S"], rho1 = "1/10", rho2 = "1/4" }]',
    ),
    "randomized response": (
        "randomized-response",
        'risk_limit = 0.4\ngroups = [{ where = { sex = "F", disease = ["HIV", "SARS"] }, l = 3 }]',
    ),
    "anatomy": ("anatomy", "l = 2"),
    "suppression": ("suppression", "l = 2"),
}


@pytest.fixture
def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return loaded


def manifest_of(clinic: pa.Table, folder: Path, kind: str) -> dict[str, Any]:
    method, requirement = REQUIREMENTS[kind]
    table = sf.scan(clinic, make_policy(CLINIC_ROLES, requirement, method))
    plan = sf.plan(sf.profile(table), table.policy.method, table.policy.requirement)
    release = sf.publish(table, plan, folder / "release")
    loaded: dict[str, Any] = json.loads((release.folder / "manifest.json").read_text(encoding="utf-8"))
    return loaded


def test_the_committed_schema_is_the_generated_one() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == json_schema(), f"write json_schema() to {SCHEMA}"


def test_the_schema_is_a_schema(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("kind", REQUIREMENTS)
def test_a_real_manifest_satisfies_it(kind: str, schema: dict[str, Any], clinic: pa.Table, tmp_path: Path) -> None:
    jsonschema.validate(manifest_of(clinic, tmp_path, kind), schema, cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    "change",
    [
        {"counts": [2, 2, 2, 2]},
        {"status": "perhaps"},
        {"manifest_version": 2},
        {"mechanisms": [{}]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_changed_manifest_does_not(
    change: dict[str, Any], schema: dict[str, Any], clinic: pa.Table, tmp_path: Path
) -> None:
    changed = manifest_of(clinic, tmp_path, "uniform") | change
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed, schema, cls=jsonschema.Draft202012Validator)


def test_the_manifest_page_names_every_key(schema: dict[str, Any]) -> None:
    text = (SCHEMA.parent / "manifest.md").read_text(encoding="utf-8")
    keys = {key for part in [schema, *schema["$defs"].values()] for key in part["properties"]}
    assert {key for key in keys if f"`{key}`" not in text and f".{key}`" not in text} == set()
