"""A release that was changed after it was published does not verify, and the check that fails says what was changed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sfumato.analyst.release import Release, open_release
from sfumato.cli.main import app
from sfumato.errors import ReleaseError
from sfumato.methods import plan
from sfumato.publisher.publish import publish
from sfumato.publisher.table import profile, scan
from sfumato.release.folder import file_sha256
from tests.conftest import make_policy
from tests.engines.tools import ROLES, patients

FINE = 'rho1 = 0.1\nrho2 = 0.5\n[[requirement.values]]\nvalue = "mumps"\nrho1 = 0.05\nrho2 = 0.1'


@pytest.fixture(scope="module", params=["parquet", "csv"])
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a real release, not one from a seed; fine-grain, so that the weights differ."""
    policy = make_policy(ROLES, FINE, "fine-grain", options='objective = "records"')
    table = scan(patients(2000), policy)
    made = plan(profile(table), policy.method, policy.requirement)
    return publish(table, made, tmp_path_factory.mktemp("in") / "r", format=request.param).folder


@pytest.fixture
def release(original: Path, tmp_path: Path) -> Release:
    """Give a copy to tamper with."""
    shutil.copytree(original, tmp_path / "r")
    return open_release(tmp_path / "r")


def failed(release: Release) -> set[str]:
    """Return the checks that fail, as the command line tells them."""
    result = CliRunner().invoke(app, ["verify", str(release.folder), "--details"])
    found = set(re.findall(r"^fails {2,}(.+?) {2,}", result.stdout, re.MULTILINE))
    assert result.exit_code == (1 if found else 0)
    return found


def test_a_release_as_it_was_published_verifies(release: Release) -> None:
    assert failed(release) == set()


def test_a_flipped_bit_in_the_data(release: Release) -> None:
    content = bytearray(release.data.read_bytes())
    for place in (5, len(content) // 2, len(content) - 3):
        content[place] ^= 1
        release.data.write_bytes(content)
        assert failed(release) == {f"checksum of {release.data.name}"}
        content[place] ^= 1
    release.data.write_bytes(content)
    assert failed(release) == set()


def test_a_changed_readme(release: Release) -> None:
    path = release.folder / "README.md"
    path.write_text(path.read_text().replace("randomized", "true"))
    assert failed(release) == {"checksum of README.md"}


@pytest.mark.parametrize("lost", ["data", "README.md"])
def test_a_lost_file(lost: str, release: Release) -> None:
    path = release.data if lost == "data" else release.folder / lost
    path.unlink()
    assert failed(release) == {f"checksum of {path.name}"}


def test_a_lost_manifest(release: Release) -> None:
    (release.folder / "manifest.json").unlink()
    with pytest.raises(ReleaseError, match="not a release"):
        open_release(release.folder)


def edited(release: Release, change: Callable[[dict[str, Any]], None]) -> Release:
    path = release.folder / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content, indent=2) + "\n")
    return release


@pytest.mark.parametrize("change", [1, -1, 10**15, -(10**15)])
def test_a_changed_weight(change: int, release: Release) -> None:
    """Of any value, by any amount: also where the guarantee would still hold."""
    path = release.folder / "manifest.json"
    text = path.read_text()
    for weight in set(release.manifest.mechanisms[0].sub_tables[0].noise.weights):
        path.write_text(text.replace(f'"{weight}"', f'"{int(weight) + change}"', 1))
        assert "manifest" in failed(release)


def test_less_noise_than_the_guarantee_needs_breaks_the_guarantee(release: Release) -> None:
    def quiet(content: dict[str, Any]) -> None:
        weights = content["mechanisms"][0]["sub_tables"][0]["noise"]["weights"]
        content["mechanisms"][0]["sub_tables"][0]["noise"]["weights"] = [str(int(w) // 2) for w in weights]

    assert {"manifest", "guarantee, upward", "guarantee, downward", "epsilon"} <= failed(edited(release, quiet))


@pytest.mark.parametrize(
    ("change", "also"),
    [
        (lambda m: m["guarantee"].update(sentence="Nothing can be learned."), set()),
        (lambda m: m["mechanisms"][0]["domain"][0]["values"].reverse(), set()),
        (lambda m: m["data"].update(rows=1), {"rows"}),
        (lambda m: m["columns"].pop(0), {"columns"}),
        (lambda m: m["mechanisms"][0].update(epsilon=0.1), {"epsilon"}),
        (lambda m: m["mechanisms"][0].update(epsilon=None), {"epsilon"}),
        (lambda m: m["mechanisms"][0]["sub_tables"][0]["noise"].update(weights=["5"]), {"guarantee, upward"}),
        (lambda m: m["mechanisms"][0]["sub_tables"][0]["noise"].update(weights=[]), {"matrix"}),
        (lambda m: m["mechanisms"][0]["sub_tables"][0]["noise"].update(weights=["9" * 20] * 4), {"matrix"}),
        (lambda m: m["mechanisms"][0]["sub_tables"][0]["noise"].update(size=10**13), {"matrix"}),
        (lambda m: m["mechanisms"][0]["sub_tables"][0]["bounds"][0].update(gamma="1/0"), {"matrix"}),
        (lambda m: m["mechanisms"][0]["sub_tables"][0].update(bounds=[]), {"matrix"}),
        (lambda m: m["mechanisms"][0]["domain"][0].update(values=["flu"] * 4), {"matrix"}),
        (lambda m: m["mechanisms"][0]["domain"][0]["values"].__setitem__(0, "plague"), {"domain"}),
    ],
)
def test_a_changed_manifest(change: Callable[[dict[str, Any]], None], also: set[str], release: Release) -> None:
    found = failed(edited(release, change))
    assert "manifest" in found
    assert also <= found or "data" in found  # a CSV file with other columns cannot be read at all


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["mechanisms"][0]["sub_tables"][0]["noise"].update(weights=["9" * 20] * 4),
        lambda m: m["mechanisms"][0]["sub_tables"][0]["noise"].update(size=10**13),
        lambda m: m["mechanisms"][0].update(domain=[]),
        lambda m: m["mechanisms"][0]["domain"][0]["values"].__setitem__(0, "plague"),
        lambda m: m["data"].update(file="../r/" + m["data"]["file"]),
        lambda m: m["data"].update(file="/etc/passwd"),
        lambda m: m.update(manifest_version=2),
        lambda m: m.update(surprise=1),
        lambda m: m.pop("mechanisms"),
    ],
)
def test_an_estimate_from_a_broken_manifest_is_refused(
    change: Callable[[dict[str, Any]], None], release: Release
) -> None:
    edited(release, change)
    with pytest.raises(ReleaseError):
        open_release(release.folder).count("disease")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\xff"])
def test_a_manifest_that_is_none(text: str, release: Release) -> None:
    (release.folder / "manifest.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ReleaseError, match="manifest"):
        open_release(release.folder)
    assert CliRunner().invoke(app, ["verify", str(release.folder), "--details"]).exception


def rewritten(release: Release, rows: Any) -> None:
    """Replace the rows, and forge the data's checksum as well."""
    if release.manifest.data.format == "csv":
        from pyarrow import csv as pacsv

        pacsv.write_csv(rows, release.data, pacsv.WriteOptions(quoting_style="needed"))
    else:
        pq.write_table(rows, release.data, store_schema=bool(rows.schema.metadata))
    edited(release, lambda m: m["data"].update(sha256=file_sha256(release.data)))


def test_a_removed_row_is_seen_even_with_a_forged_checksum(release: Release) -> None:
    rewritten(release, release.to_arrow().slice(1))
    assert {"manifest", "rows"} <= failed(release)


def test_a_column_that_was_not_drawn_with_the_matrix_is_seen(release: Release) -> None:
    rows = release.to_arrow()
    rewritten(release, rows.set_column(2, "disease", [["flu"] * rows.num_rows]))
    assert {"manifest", "published frequencies"} <= failed(release)


def test_metadata_that_was_added_is_seen(release: Release) -> None:
    if release.manifest.data.format == "csv":
        pytest.skip("a CSV file has no metadata")
    rewritten(release, release.to_arrow().replace_schema_metadata({"author": "me"}))
    assert {"manifest", "metadata"} <= failed(release)
