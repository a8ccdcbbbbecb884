"""A release that was changed after it was published, or that was made wrongly, is not audited as if nothing were."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import ReleaseError
from sfumato.release import Release
from tests.conftest import make_policy
from tests.engines.tools import patients, released, resealed

ROLES = {"name": "identifier", "age": "quasi_identifier", "sex": "quasi_identifier", "disease": "sensitive"}
POLICY = make_policy(ROLES)


@pytest.fixture
def release(tmp_path: Path) -> Release:
    return released(patients(), POLICY, folder=tmp_path / "r")


def refused(release: Release, reason: str) -> None:
    with pytest.raises(ReleaseError, match=f"not as it was published; {reason}"):
        sf.audit(sf.scan(patients(), POLICY), release)


def test_a_release_as_it_was_published_is_audited(release: Release) -> None:
    assert sf.audit(sf.scan(patients(), POLICY), resealed(release), seed=1).holds


def test_an_edited_cell_is_refused(release: Release) -> None:
    rows = pq.read_table(release.data)
    values = rows["disease"].cast(pa.string()).to_pylist()
    values[0] = "gout" if values[0] != "gout" else "flu"
    pq.write_table(rows.set_column(rows.column_names.index("disease"), "disease", pa.array(values)), release.data)
    refused(release, r"checksum of data\.parquet: The file was changed")


def test_a_file_beside_the_release_is_refused(release: Release) -> None:
    (release.folder / "plan.json").write_text("{}")
    refused(release, r"folder: It also holds 'plan\.json'")


def test_a_folder_inside_the_release_is_refused(release: Release) -> None:
    (release.folder / "old").mkdir()
    refused(release, "folder: It also holds 'old'")


def test_a_changed_manifest_is_refused(release: Release) -> None:
    path = release.folder / "manifest.json"
    content = json.loads(path.read_text())
    content["second_release"] = "Nothing."
    path.write_text(json.dumps(content, indent=2) + "\n")
    refused(sf.open_release(release.folder), "manifest: It is not the one")
