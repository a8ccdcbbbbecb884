"""A release by groups that was changed does not verify: every check is seen to fail, by what it is for.

Checksums are forged where the data change, so that the checks of the content are looked at.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.claims.claim import Shape
from sfumato.errors import ReleaseError
from sfumato.release.folder import file_sha256
from tests.conftest import make_policy
from tests.engines.tools import ROLES, patients

KINDS: dict[str, tuple[str, str, str]] = {
    "anatomy": ("anatomy", "l = 2", ""),
    "suppression": ("suppression", "l = 3", ""),
    "safe-d": ("suppression", "l = 3", 'variant = "safe-d"'),
    "spread": ("suppression", "l = 3", 'variant = "spread"'),
    "eligible": ("suppression", "l = 2", ""),
    "always": ("suppression", "l = 2", "always = true"),
    "robust": ("robust-anatomy", "r = 2", 'attribute_sets = [["sex"]]'),
    "table": ("robust-anatomy", "r = 2", 'attribute_sets = [["sex"]]\nprior = "table"'),
}


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Give a real release of a kind, not one from a seed, made once."""
    made: dict[tuple[str, str], Path] = {}

    def find(kind: str, format: str) -> Path:
        if (kind, format) not in made:
            method, requirement, options = KINDS[kind]
            table = sf.scan(patients(), make_policy(ROLES, requirement, method, options=options))
            plan = sf.plan(sf.profile(table), table.policy.method, table.policy.requirement)
            folder = tmp_path_factory.mktemp("in") / "r"
            made[kind, format] = sf.publish(table, plan, folder, format=format).folder  # type: ignore[arg-type]
        return made[kind, format]

    return find


@pytest.fixture(params=["parquet", "csv"])
def copied(
    request: pytest.FixtureRequest, originals: Callable[[str, str], Path], tmp_path: Path
) -> Callable[[str], sf.Release]:
    """Give a copy to tamper with."""

    def copy(kind: str) -> sf.Release:
        shutil.copytree(originals(kind, request.param), tmp_path / "r")
        return sf.open_release(tmp_path / "r")

    return copy


def failed(folder: Path) -> set[str]:
    return {check.name for check in sf.open_release(folder).verify().checks if check.status == "fails"}


def edited(release: sf.Release, change: Callable[[dict[str, Any]], None]) -> Path:
    path = release.folder / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content, indent=2) + "\n")
    return release.folder


def rewritten(release: sf.Release, rows: pa.Table | None = None, lines: pa.Table | None = None) -> set[str]:
    """Replace one or both files, forge the checksums, and return what fails besides the seal of the manifest."""
    assert release.groups is not None
    for path, table in ((release.data, rows), (release.groups, lines)):
        if table is not None and release.manifest.data.format == "csv":
            pacsv.write_csv(table, path, pacsv.WriteOptions(quoting_style="needed"))
        elif table is not None:
            pq.write_table(table, path, store_schema=bool(table.schema.metadata))

    def forge(manifest: dict[str, Any]) -> None:
        manifest["data"]["sha256"] = file_sha256(release.data)
        manifest["groups"]["sha256"] = file_sha256(release.groups)  # type: ignore[arg-type]

    found = failed(edited(release, forge))
    assert "manifest" in found
    return found - {"manifest"}


def files(release: sf.Release) -> tuple[pa.Table, pa.Table]:
    """Return both files, with the types that they have in Parquet."""
    rows, lines = release.to_arrow(), release.groups_to_arrow()
    return rows, lines.set_column(0, "group", lines["group"].cast(pa.int32()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_as_it_was_published_verifies(kind: str, copied: Callable[[str], sf.Release]) -> None:
    release = copied(kind)
    assert failed(release.folder) == set()
    rows, lines = files(release)
    assert rewritten(release, rows, lines) == set()  # but for the seal: the rewriting itself changes nothing


def test_another_manifest_beside_the_same_files_is_read_anew(copied: Callable[[str], sf.Release]) -> None:
    """What the files tell is kept between questions: with a domain of fewer values it is asked again."""
    release = copied("anatomy")
    assert release.count("disease").value.size == 4
    folder = edited(release, lambda m: m["groups"]["domain"][0]["values"].pop())
    with pytest.raises(ReleaseError):
        sf.open_release(folder).count("disease")


def test_checksums_folder_and_lost_files(copied: Callable[[str], sf.Release]) -> None:
    release = copied("anatomy")
    assert release.groups is not None
    (release.folder / "plan.json").write_text("{}")
    assert failed(release.folder) == {"folder"}
    (release.folder / "plan.json").unlink()
    for path in (release.data, release.groups):
        content = path.read_bytes()
        path.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
        assert failed(release.folder) == {f"checksum of {path.name}"}
        path.unlink()
        assert failed(release.folder) == {f"checksum of {path.name}"}
        path.write_bytes(content)
    assert failed(release.folder) == set()


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["groups"].update(file="../r/groups.parquet"),
        lambda m: m["groups"].update(file="/etc/passwd"),
        lambda m: m["groups"].update(file=m["data"]["file"]),
        lambda m: m["groups"].update(file="README.md"),
        lambda m: m["groups"].update(domain=[]),
        lambda m: m["groups"].update(number=0),
        lambda m: m["groups"].update(at_most="half"),
        lambda m: m.update(groups=None),
    ],
)
def test_a_manifest_that_cannot_be_one_is_not_opened(
    change: Callable[[dict[str, Any]], None], copied: Callable[[str], sf.Release]
) -> None:
    folder = edited(copied("anatomy"), change)
    with pytest.raises(ReleaseError):
        sf.open_release(folder)


STATED = "guarantee, as stated"


@pytest.mark.parametrize(
    ("kind", "change", "fails"),
    [
        ("anatomy", lambda m: m["guarantee"].update(sentence="Nothing can be learned."), {STATED}),
        ("anatomy", lambda m: m["guarantee"]["limits"].pop(0), {STATED}),
        ("anatomy", lambda m: m["groups"].update(at_most="1/3"), {STATED, "guarantee, shares"}),
        ("anatomy", lambda m: m["groups"].update(at_most=f"1/{10**40}"), {STATED, "guarantee, shares"}),
        ("anatomy", lambda m: m["groups"].update(at_most="1/0"), {STATED}),
        ("anatomy", lambda m: m["groups"].update(at_most="2/3"), {STATED}),
        ("anatomy", lambda m: m["groups"].update(at_most="1"), {STATED}),
        ("anatomy", lambda m: m["groups"].update(withheld=3), {STATED}),
        ("anatomy", lambda m: m["groups"].update(prior="none"), {STATED}),
        ("anatomy", lambda m: m["groups"].update(dealt_within=["sex"]), {STATED}),
        ("anatomy", lambda m: m.update(method="uniform"), {STATED}),
        ("anatomy", lambda m: m.update(method="suppression"), {STATED}),
        ("anatomy", lambda m: m.update(from_table=False), {STATED}),
        ("anatomy", lambda m: m.update(discloses_frequencies=False), {STATED}),
        ("anatomy", lambda m: m["data"].update(shuffled=False), {STATED}),
        ("anatomy", lambda m: m.update(status="not for release"), {"secret key"}),
        ("anatomy", lambda m: m["columns"][-1].update(treatment="untouched"), {STATED}),
        ("anatomy", lambda m: m["data"].update(rows=m["data"]["rows"] + 1), {"rows"}),
        ("anatomy", lambda m: m["groups"].update(lines=m["groups"]["lines"] - 1), {"lines"}),
        ("anatomy", lambda m: m["groups"].update(number=m["groups"]["number"] + 1), {"groups of data"}),
        ("anatomy", lambda m: m["groups"]["domain"][0]["values"].__setitem__(0, "plague"), {"domain"}),
        ("anatomy", lambda m: m["groups"]["domain"][0].update(values=["flu"] * 4), {STATED, "data"}),
        ("anatomy", lambda m: m["groups"]["domain"][0]["values"].reverse(), {"order of values"}),
        ("suppression", lambda m: m["groups"].update(variant="safe-d"), {STATED}),
        ("suppression", lambda m: m["groups"].update(variant=None), {STATED}),
        ("suppression", lambda m: m["groups"].update(variant="r-suppression"), {STATED}),
        ("robust", lambda m: m["groups"].update(attribute_sets=[["age"]], dealt_within=["age"]), {STATED}),
        ("robust", lambda m: m["groups"].update(attribute_sets=[], dealt_within=[]), {STATED}),
        ("robust", lambda m: m["groups"].update(prior="table"), {STATED}),
        ("robust", lambda m: m["groups"].update(dealt_within=[]), {STATED}),
        ("table", lambda m: m["groups"].update(prior="none"), {STATED}),
        ("table", lambda m: m.update(assurance="as-published"), {STATED}),
    ],
)
def test_a_changed_manifest(
    kind: str, change: Callable[[dict[str, Any]], None], fails: set[str], copied: Callable[[str], sf.Release]
) -> None:
    found = {name.removesuffix(".csv").removesuffix(".parquet") for name in failed(edited(copied(kind), change))}
    assert {"manifest", *fails} <= found


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["data"].update(rows=1),
        lambda m: m["groups"].update(lines=1),
        lambda m: m["groups"].update(lines=10**12),
        lambda m: m["groups"].update(number=10**12),
    ],
    ids=["rows", "lines", "many lines", "groups"],
)
def test_more_groups_than_lines_or_lines_than_records(
    change: Callable[[dict[str, Any]], None], copied: Callable[[str], sf.Release]
) -> None:
    folder = edited(copied("anatomy"), change)
    with pytest.raises(ReleaseError, match="each group has a line, and each line a record"):
        sf.open_release(folder)


def test_another_variant_than_was_published(copied: Callable[[str], sf.Release]) -> None:
    """A release by rotation that is relabelled, guarantee and all, has not the equal counts of safe-d."""
    release = copied("suppression")

    def relabel(manifest: dict[str, Any]) -> None:
        manifest["groups"]["variant"] = "safe-d"
        claim = replace(release.manifest.bucket_claim, variant="safe-d")
        manifest["guarantee"] = claim.guarantee(Shape(withheld=1)).to_dict()

    assert failed(edited(release, relabel)) == {"manifest", "suppression"}


@pytest.mark.parametrize(("kind", "other"), [("suppression", False), ("eligible", True)])
def test_t2_the_sentence_of_another_table(kind: str, other: bool, copied: Callable[[str], sf.Release]) -> None:
    """What is promised depends on whether records are withheld: neither release may carry the other's sentence."""
    release = copied(kind)
    swapped = release.manifest.bucket_claim.guarantee(Shape(withheld=int(other))).to_dict()
    assert failed(edited(release, lambda m: m.update(guarantee=swapped))) == {"manifest", STATED}


def test_t2_a_release_that_does_not_always_hide(copied: Callable[[str], sf.Release]) -> None:
    """A table that was published as it is, relabelled: its most frequent values have not the same count."""
    release = copied("eligible")

    def relabel(manifest: dict[str, Any]) -> None:
        manifest["groups"]["always"] = True
        claim = replace(release.manifest.bucket_claim, always=True)
        manifest["guarantee"] = claim.guarantee(Shape()).to_dict()

    assert failed(edited(release, relabel)) == {"manifest", "suppression"}


def test_one_record_more_of_a_suppressed_value(copied: Callable[[str], sf.Release]) -> None:
    """The third value of a group becomes another one: the counts that rotation makes equal are no longer so."""
    release = copied("suppression")
    _, lines = files(release)
    disease, group = lines["disease"].to_pylist(), lines["group"].to_pylist()
    held = {g: {d for d, other in zip(disease, group, strict=True) if other == g} for g in group}
    counts = Counter(disease)
    second, third = (name for name, _ in counts.most_common(3)[1:])
    assert counts[second] == counts[third]
    at = next(k for k, g in enumerate(group) if disease[k] == second and third not in held[g])
    disease[at] = third
    assert "suppression" in rewritten(release, lines=lines.set_column(1, "disease", pa.array(disease)))


def test_a_listed_value_that_nobody_published_has(copied: Callable[[str], sf.Release]) -> None:
    release = copied("anatomy")
    found = failed(edited(release, lambda m: m["groups"]["domain"][0]["values"].append("plague")))
    assert found == {"manifest", "observed domain"}


def test_two_guests_in_one_group(copied: Callable[[str], sf.Release]) -> None:
    release = copied("table")
    rows, _ = files(release)
    group, sex = rows["group"].to_pylist(), rows["sex"].to_pylist()
    first = next(k for k, g in enumerate(group) if group.count(g) == 3)
    for others, fails in ((["X"], set()), (["X", "Y"], {"guests"})):
        changed = [*sex[:first], *others, *sex[first + len(others) :]]
        assert rewritten(release, rows.set_column(1, "sex", pa.array(changed))) == fails


def test_other_groups_in_the_data(copied: Callable[[str], sf.Release]) -> None:
    """A row moved to another group, groups out of order, a number left out, none at all."""
    release = copied("anatomy")
    rows, _ = files(release)
    group = np.array(rows["group"].to_pylist())
    data = f"groups of {release.data.name}"
    last = int(group.max())
    for changed, fails in (
        (np.where(np.arange(group.size) == int(np.argmax(group == 2)), 1, group), {"group sizes"}),
        (group[::-1], {data}),
        (np.where(group == last, last + 1, group), {data}),
        (group - 1, {data}),
        (group + 1, {data}),
    ):
        assert fails <= rewritten(release, rows.set_column(2, "group", pa.array(changed, pa.int32())))
    nothing = pa.array([None, *group[1:].tolist()], pa.int32())
    assert {data} <= rewritten(release, rows.set_column(2, "group", nothing))


def test_other_lines_of_the_groups(copied: Callable[[str], sf.Release]) -> None:
    release = copied("anatomy")
    assert release.groups is not None
    _, lines = files(release)
    numbered = f"groups of {release.groups.name}"
    disease, count = lines["disease"].to_pylist(), lines["count"].to_pylist()
    order = np.arange(lines.num_rows)
    order[[0, 1]] = [1, 0]
    for changed, fails in (
        (lines.set_column(1, "disease", pa.array(["plague", *disease[1:]])), {"domain"}),
        (lines.set_column(1, "disease", pa.array([None, *disease[1:]])), {"domain"}),
        (lines.set_column(1, "disease", pa.array([disease[1], *disease[1:]])), {"order of values"}),  # twice
        (lines.take(order), {"order of values"}),
        (lines.set_column(2, "count", pa.array([2, *count[1:]])), {"group sizes"}),
        (lines.set_column(2, "count", pa.array([0, *count[1:]])), {"group sizes", "domain"}),
        (lines.set_column(2, "count", pa.array([-1, *count[1:]])), {"group sizes", "domain"}),
        (lines.set_column(2, "count", pa.array([None, *count[1:]], pa.int64())), {"domain"}),
        (lines.slice(2), {numbered, "lines"}),
        (lines.take(order[::-1]), {numbered}),
        (lines.select(["group", "count", "disease"]), {f"columns of {release.groups.name}"}),
        (lines.append_column("name", pa.array(["x"] * lines.num_rows)), {f"columns of {release.groups.name}"}),
    ):
        found = rewritten(release, lines=changed)
        assert fails <= found or "data" in found  # a CSV file with other columns may not be read at all


def test_a_value_with_too_large_a_share(copied: Callable[[str], sf.Release]) -> None:
    """Two values of a group become one, with the count of both: sizes fit, and the share is all."""
    release = copied("anatomy")
    _, lines = files(release)
    count = lines["count"].to_pylist()
    merged = lines.set_column(2, "count", pa.array([2, *count[1:]])).take(np.delete(np.arange(lines.num_rows), 1))
    first = lines["group"].to_pylist()[:3]
    assert first[0] == first[1] != first[2]
    edited(release, lambda m: m["groups"].update(lines=m["groups"]["lines"] - 1))
    assert rewritten(sf.open_release(release.folder), lines=merged) == {"guarantee, shares"}


def test_a_group_with_two_signatures(copied: Callable[[str], sf.Release]) -> None:
    """Where nothing is assumed of the prior, each record needs enough others of its signature in its group."""
    release = copied("robust")
    rows, _ = files(release)
    sex = rows["sex"].to_pylist()
    changed = rows.set_column(1, "sex", pa.array(["M" if sex[0] == "F" else "F", *sex[1:]]))
    assert rewritten(release, changed) == {"guarantee, any prior on sex"}


def test_with_a_prior_from_the_table_that_needs_an_audit(copied: Callable[[str], sf.Release]) -> None:
    release = copied("table")
    checks = release.verify().checks
    assert "posteriors" in {check.name for check in checks if check.status == "needs audit"}
    assert not any("any prior" in check.name for check in checks)


def test_types_and_metadata_of_both_files(originals: Callable[[str, str], Path], tmp_path: Path) -> None:
    shutil.copytree(originals("anatomy", "parquet"), tmp_path / "r")
    release = sf.open_release(tmp_path / "r")
    rows, lines = files(release)
    wide = lines.set_column(0, "group", lines["group"].cast(pa.int64()))
    assert rewritten(release, lines=wide) == {"types of groups.parquet"}
    assert rewritten(release, lines=lines.replace_schema_metadata({"a": "b"})) == {"metadata of groups.parquet"}
    assert rewritten(release, rows.replace_schema_metadata({"a": "b"}), lines) == {"metadata"}
    assert rewritten(release, rows.set_column(0, "age", rows["age"].cast(pa.int32()))) == {"types"}
    assert rewritten(release, rows) == set()


def test_what_needs_an_audit_is_listed(originals: Callable[[str, str], Path]) -> None:
    for kind in KINDS:
        checks = sf.open_release(originals(kind, "parquet")).verify().checks
        listed = [check.name for check in checks if check.status == "needs audit"]
        more = ["withheld records"] if KINDS[kind][0] == "suppression" else ["posteriors"] if kind == "table" else []
        assert listed == ["records", "dealing", "row order", *more, "other columns", "one row per person"]
