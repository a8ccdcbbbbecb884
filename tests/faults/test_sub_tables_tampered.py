"""Sub-tables on the command line, and releases with sub-tables that were tampered with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sfumato.analyst.release import Release, open_release
from sfumato.claims.claim import Shape
from sfumato.cli.main import app
from sfumato.errors import ReleaseError
from sfumato.publisher.publish import publish
from sfumato.release.folder import file_sha256
from sfumato.release.manifest import Manifest
from sfumato.values.randomness import SecretKey
from tests.engines.test_sub_tables import VALUES, planned, policy, policy_text, workers
from tests.engines.tools import released, sealed


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_from_table_to_answer_on_the_command_line(format: str, tmp_path: Path) -> None:
    run = CliRunner()
    pq.write_table(workers(), tmp_path / "t.parquet")
    (tmp_path / "p.toml").write_text(policy_text() + f'[output]\nformat = "{format}"\n')
    made = run.invoke(app, ["plan", str(tmp_path / "t.parquet"), str(tmp_path / "p.toml"), "-o", str(tmp_path / "j")])
    assert made.exit_code == 0, made.output
    assert "sub-tables, which the column sub_table tells" in made.output.replace("\n", " ")
    arguments = ["publish", str(tmp_path / "t.parquet"), str(tmp_path / "p.toml"), "-o", str(tmp_path / "r")]
    done = run.invoke(app, [*arguments, "--plan", str(tmp_path / "j")])
    assert done.exit_code == 0, done.output
    assert run.invoke(app, ["verify", str(tmp_path / "r")]).exit_code == 0
    answer = run.invoke(app, ["estimate", str(tmp_path / "r"), "--by", "job", "--where", "sex = 'F'", "--json"])
    assert len(json.loads(answer.stdout)["rows"]) == VALUES
    readme = (tmp_path / "r" / "README.md").read_text()
    assert "tells which values and which matrix" in readme


def change_data(release: Release, column: str, value: Any) -> None:
    rows = pq.read_table(release.data)
    place = rows.schema.get_field_index(column)
    values = [value, *rows[column].to_pylist()[1:]]
    changed = rows.set_column(place, rows.schema.field(column), pa.array(values, rows.schema.types[place]))
    pq.write_table(changed, release.data)


@pytest.mark.parametrize("label", [0, 99, -1, 2**31 - 1, None])
def test_a_label_that_does_not_exist_is_found(label: int, tmp_path: Path) -> None:
    """Checksums aside: the domain check finds it, and an estimate refuses it."""
    release = released(workers(), policy(), folder=tmp_path / "r", shuffle=False)
    change_data(release, "sub_table", label)
    manifest = json.loads((release.folder / "manifest.json").read_text())
    manifest["data"]["sha256"] = file_sha256(release.data)
    (release.folder / "manifest.json").write_text(json.dumps(manifest))
    changed = open_release(release.folder)
    assert "domain" in [c.name for c in changed.verify().checks if c.status == "fails"]
    with pytest.raises(ReleaseError, match=f"a row of sub-table {label or 0}"):
        changed.count(by="job")


@pytest.mark.parametrize(
    ("edit", "fails"),
    [
        (lambda m: m["mechanisms"][0]["sub_tables"][0]["noise"].update(weights=["5"]), "guarantee, upward"),
        (lambda m: m["mechanisms"][0]["sub_tables"][1]["noise"].update(size=3), "matrix"),
        (lambda m: m["mechanisms"][0]["sub_tables"][1].update(values=[0, 0, 1]), "matrix"),
        (lambda m: m["mechanisms"][0]["sub_tables"][0]["values"].__setitem__(-1, 999), "matrix"),
        (lambda m: m["mechanisms"][0].update(sub_table_column=None), "matrix"),
        (lambda m: m["mechanisms"][0].update(kind="perturbation"), "guarantee, as stated"),
        (lambda m: m["mechanisms"][0].update(epsilon=1.0), "epsilon"),
        (lambda m: m.update(from_table=False), "guarantee, as stated"),
        (lambda m: m.update(discloses_frequencies=False), "guarantee, as stated"),
        (lambda m: m.update(assurance="as-published"), "guarantee, as stated"),
        (lambda m: m["mechanisms"][0].update(minimum_sub_table=3000), "sub-table sizes"),
        (lambda m: m["mechanisms"][0]["sub_tables"][0]["bounds"][0].update(gamma="1000"), "bounds"),
        (lambda m: m["mechanisms"][0]["sub_tables"][0]["bounds"][0].update(rho1="1/1000"), "bounds"),
        (lambda m: m["mechanisms"][0]["sub_tables"][0]["bounds"][0].update(rho1=None), "bounds"),
        (lambda m: m["mechanisms"][0]["sub_tables"][0]["bounds"][0].update(rho2="1/4"), "bounds"),
        (lambda m: m["guarantee"].update(scope="any predicate"), "guarantee, any predicate"),
        (lambda m: m["guarantee"].update(limits=[]), "guarantee, as stated"),
        (lambda m: m["guarantee"].update(prior="Any prior."), "guarantee, as stated"),
        (lambda m: m["mechanisms"][0]["sub_tables"].pop(), "domain"),
    ],
)
def test_a_changed_manifest_is_found(edit: Callable[[Any], Any], fails: str, tmp_path: Path) -> None:
    release = released(workers(), policy(), folder=tmp_path / "r", shuffle=False)
    content = json.loads((release.folder / "manifest.json").read_text())
    edit(content)
    (release.folder / "manifest.json").write_text(json.dumps(content))
    result = CliRunner().invoke(app, ["verify", str(release.folder), "--json"])
    assert result.exit_code == 1
    assert fails in [c["name"] for c in json.loads(result.stdout)["checks"] if c["status"] == "fails"]


def test_the_release_holds_no_quota(tmp_path: Path) -> None:
    """The manifest has domains, matrices and bounds; of the counts only the largest share of each sub-table."""
    opened, made = planned(workers(), policy())
    release = publish(opened, made, tmp_path / "r", key=SecretKey.from_seed(1))
    content = json.loads((release.folder / "manifest.json").read_text())
    assert set(content["mechanisms"][0]) == {
        "kind", "domain", "sub_table_column", "minimum_sub_table", "rho1", "sub_tables", "epsilon",
    }  # fmt: skip
    assert all(set(table) == {"values", "noise", "bounds"} for table in content["mechanisms"][0]["sub_tables"])
    assert content["discloses_frequencies"]
    assert content["from_table"]


def test_a_value_that_more_of_a_sub_table_have_than_is_stated(tmp_path: Path) -> None:
    """Someone who starts from the share of a value is held to rho2 only as far as its rho1 is as large."""
    release = released(workers(40_000), policy(rho=("1/5", "9/10")), folder=tmp_path / "r")
    assert {check.name for check in release.verify().checks if check.status == "fails"} == {"secret key"}
    raw = release.manifest.model_dump()
    for table in raw["mechanisms"][0]["sub_tables"]:
        table["bounds"] = [{"gamma": "8991", "rho1": "1/1000", "rho2": "9/10", "given": ""}]
    manifest = Manifest.model_validate(raw)
    shape = Shape(manifest.mechanism_values, computed=manifest.computed_from_table)
    stated = {
        "guarantee": manifest.claim.guarantee(shape),
        "second_release": manifest.claim.second_release(shape, keyed=False),
    }
    found = sealed(manifest.model_copy(update=stated), release.folder).verify()
    told = {check.name: check.detail for check in found.checks if check.status == "fails"}
    assert told.keys() == {"secret key", "published frequencies"}
    assert "larger share of its sub-table than its rho1" in told["published frequencies"]
