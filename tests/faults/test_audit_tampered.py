"""A release that was changed after it was published, or that was made wrongly, is not audited as if nothing were."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.analyst.release import Release
from sfumato.auditor import codes, evidence
from sfumato.errors import ReleaseError, UsageError
from sfumato.release.manifest import Manifest
from tests.conftest import make_policy
from tests.engines.tools import patients, released, resealed, sealed

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


@pytest.mark.parametrize("form", ["value", "card"])
def test_a_randomized_column_that_is_none_of_the_table_is_refused(form: str, tmp_path: Path) -> None:
    policy = POLICY if form == "value" else make_policy(ROLES, "gamma = 2", "subset", "", 'form = "card"')
    raw = released(patients(), policy, folder=tmp_path / "r").manifest.model_dump()
    raw["mechanisms"][0]["domain"][0]["name"] = "illness"
    foreign = sealed(Manifest.model_validate(raw), tmp_path / "r")
    with pytest.raises(ReleaseError, match="'illness' is randomized, which the policy does not publish"):
        sf.audit(sf.scan(patients(), policy), foreign)


# --- groups that were made wrongly ------------------------------------------------------------------------------------

SAME = {"sex": "quasi_identifier", "disease": "sensitive"}
GROUPS = {
    "anatomy": make_policy(SAME, "l = 2", "anatomy"),
    "suppression": make_policy(SAME, "l = 2", "suppression"),
    "robust-anatomy": make_policy(SAME, "r = 2", "robust-anatomy", "", 'attribute_sets = [["sex"]]\nprior = "table"'),
}


def of_one_value(release: Release) -> Release:
    """Give each group one value only; how often each value occurs in all stays."""
    assert release.groups is not None
    lines = pq.read_table(release.groups)
    names, counts = lines["disease"].cast(pa.string()).to_pylist(), lines["count"].to_pylist()
    values = sorted(name for name, count in zip(names, counts, strict=True) for _ in range(count))
    sizes = lines.group_by("group").aggregate([("count", "sum")]).sort_by("group")
    first = 0
    rows = []
    for group, size in zip(sizes["group"].to_pylist(), sizes["count_sum"].to_pylist(), strict=True):
        own = values[first : first + size]
        rows += [{"group": group, "disease": value, "count": own.count(value)} for value in sorted(set(own))]
        first += size
    pq.write_table(pa.Table.from_pylist(rows, schema=lines.schema), release.groups)
    made = release.manifest.model_copy(
        update={"groups": release.manifest.groups.model_copy(update={"lines": len(rows)})}  # type: ignore[union-attr]
    )
    return resealed(Release(release.folder, made))


@pytest.mark.parametrize("method", GROUPS)
def test_groups_of_one_value_are_above_the_bound(method: str, tmp_path: Path) -> None:
    rows = pa.table({"sex": ["F"] * 8, "disease": ["flu", "gout"] * 4})
    release = released(rows, GROUPS[method], folder=tmp_path / "r")
    table = sf.scan(rows, GROUPS[method])
    before = sf.audit(table, release, seed=1)
    (kept,) = (finding for finding in before.findings if finding.attacker == "posterior")
    assert (kept.verdict, kept.worst, kept.promised, before.holds) == ("within the bound", 0.5, 0.5, True)
    after = sf.audit(table, of_one_value(release), seed=1)
    (broken,) = (finding for finding in after.findings if finding.attacker == "posterior")
    assert (broken.verdict, broken.worst, broken.at_risk, after.holds) == ("above the bound", 1, 8, False)


@pytest.mark.parametrize("method", GROUPS)
def test_a_table_with_other_values_is_refused(method: str, tmp_path: Path) -> None:
    rows = pa.table({"sex": ["q"] * 40, "disease": ["a"] * 14 + ["b"] * 13 + ["c"] * 13})
    release = released(rows, GROUPS[method], folder=tmp_path / "r")
    other = rows.set_column(1, "disease", pa.array(["a"] * 38 + ["b", "c"]))
    with pytest.raises(UsageError, match=r"not made from this table\. Its groups have 'b' 13 times, the table 1\."):
        sf.audit(sf.scan(other, GROUPS[method]), release)


def with_table(release: Release, part: str, table: pa.Table, rows: int) -> Release:
    """Put another table into one of the files, and state that it has so many rows; the seal fits."""
    path = release.data if part == "data" else release.groups
    assert path is not None
    pq.write_table(table, path)
    stated = getattr(release.manifest, part).model_copy(update={"rows" if part == "data" else "lines": rows})
    return resealed(Release(release.folder, release.manifest.model_copy(update={part: stated})))


@pytest.mark.parametrize("part", ["data", "groups"])
@pytest.mark.parametrize("held", [0, 7, 10_000])
def test_a_number_of_rows_that_is_not_the_stated_one_is_refused(part: str, held: int, tmp_path: Path) -> None:
    """Also none at all, which ended in an internal error; and before rows are read, which could be any number."""
    policy = GROUPS["anatomy"]
    rows = pa.table({"sex": ["F"] * 8, "disease": ["flu", "gout"] * 4})
    release = released(rows, policy, folder=tmp_path / "r")
    file = release.data if part == "data" else release.groups
    table = pq.read_table(file)
    table = table.take(pa.array([0] * held, pa.int64()))
    stated = 8 if part == "data" else release.manifest.buckets.lines
    with pytest.raises(ReleaseError, match=f"has {held:,} rows where its manifest states {stated:,}"):
        sf.audit(sf.scan(rows, policy), with_table(release, part, table, stated))


def test_a_release_of_more_rows_than_the_table_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = released(patients(), POLICY, folder=tmp_path / "r")
    many = with_table(release, "data", pq.read_table(release.data).take([0] * 10_000), 10_000)
    monkeypatch.setattr(codes, "release_codes", None)
    monkeypatch.setattr(evidence, "release_codes", None)
    with pytest.raises(UsageError, match="It has 300 records, and the release was made from 10,000"):
        sf.audit(sf.scan(patients(), POLICY), many)


@pytest.mark.parametrize("change", ["none", "another", "more"])
def test_groups_with_other_columns_are_refused(change: str, tmp_path: Path) -> None:
    policy = GROUPS["anatomy"]
    rows = pa.table({"sex": ["F"] * 8, "disease": ["flu", "gout"] * 4})
    release = released(rows, policy, folder=tmp_path / "r")
    table = pq.read_table(release.groups)
    table = {
        "none": table.drop_columns("disease"),
        "another": table.rename_columns(["group", "illness", "count"]),
        "more": table.append_column("name", pa.array(["x"] * table.num_rows)),
    }[change]
    with pytest.raises(ReleaseError, match=r"The (table of the groups has other columns|data of)"):
        sf.audit(sf.scan(rows, policy), with_table(release, "groups", table, table.num_rows))
