"""A release of many files that was changed is refused or does not verify, and the file that is wrong is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import ReleaseError
from sfumato.release.folder import connected, file_sha256
from sfumato.release.parts import FilePart
from tests.conftest import make_policy
from tests.engines.parts import data_in_parts, groups_in_parts, in_parts
from tests.engines.tools import ROLES, patients, sealed

KINDS = {"uniform": "rho1 = 0.2\nrho2 = 0.5", "anatomy": "l = 2"}


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Give a real release of a method in six parts, not one from a seed; each is made once."""
    made: dict[str, Path] = {}

    def find(method: str) -> Path:
        if method not in made:
            folder = tmp_path_factory.mktemp(method)
            table = sf.scan(patients(), make_policy(ROLES, KINDS[method], method))
            plan = sf.plan(sf.profile(table), table.policy.method, table.policy.requirement)
            made[method] = in_parts(sf.publish(table, plan, folder / "one"), folder / "many", 6).folder
        return made[method]

    return find


@pytest.fixture(params=KINDS)
def release(request: pytest.FixtureRequest, originals: Callable[[str], Path], tmp_path: Path) -> sf.Release:
    """Give a copy to tamper with."""
    shutil.copytree(originals(request.param), tmp_path / "r")
    return sf.open_release(tmp_path / "r")


def tables(release: sf.Release) -> dict[str, list[Path]]:
    """Return the files of each table of a release."""
    return {"data": release.data_files} | ({"groups": release.groups_files} if release.groups else {})


def failed(release: sf.Release) -> dict[str, str]:
    return {c.name: c.detail for c in sf.open_release(release.folder).verify().checks if c.status == "fails"}


def test_as_it_was_published_it_verifies(release: sf.Release) -> None:
    assert failed(release) == {}


# --- files that were changed ------------------------------------------------------------------------------------------


def test_a_part_with_a_flipped_bit_or_cut_or_lost(release: sf.Release) -> None:
    for name, files in tables(release).items():
        path, content = files[3], files[3].read_bytes()
        for changed in (content[:50] + bytes([content[50] ^ 1]) + content[51:], content[:-9], b"", content + b"\n"):
            path.write_bytes(changed)
            assert failed(release) == {f"checksum of {name}": "Changed after publication: part-00003.parquet."}
        path.unlink()
        assert failed(release) == {f"checksum of {name}": "Not there: part-00003.parquet."}
        with pytest.raises(ReleaseError, match=f"lost its data file '{name}/part-00003.parquet'"):
            release.count("disease")
        path.mkdir()  # a folder is no file
        assert failed(release) == {f"checksum of {name}": "Not there: part-00003.parquet."}
        path.rmdir()
        path.write_bytes(content)
    assert failed(release) == {}


def test_parts_that_were_swapped(release: sf.Release) -> None:
    for name, files in tables(release).items():
        first, second = files[2].read_bytes(), files[3].read_bytes()
        files[2].write_bytes(second)
        files[3].write_bytes(first)
        told = "Changed after publication: part-00002.parquet, part-00003.parquet."
        assert failed(release) == {f"checksum of {name}": told}
        files[2].write_bytes(first)
        files[3].write_bytes(second)


def test_a_file_that_was_added(release: sf.Release) -> None:
    for name, files in tables(release).items():
        for extra in ("part-00006.parquet", ".hidden", "_SUCCESS", "more/part-00000.parquet"):
            path = files[0].parent / extra
            path.parent.mkdir(exist_ok=True)
            shutil.copy(files[0], path)
            told = f"{name}/{extra.split('/')[0]}"
            assert failed(release) == {"folder": f"It also holds {told!r}."}
            assert release.to_arrow().num_rows == release.manifest.data.rows  # nobody reads it
            path.unlink()
            if path.parent != files[0].parent:
                path.parent.rmdir()
    (release.folder / "plan.json").write_text("{}")
    assert failed(release) == {"folder": "It also holds 'plan.json'."}


def test_a_part_that_was_renamed(release: sf.Release) -> None:
    for name, files in tables(release).items():
        files[4].rename(files[4].with_name("part-00009.parquet"))
        assert failed(release) == {
            f"checksum of {name}": "Not there: part-00004.parquet.",
            "folder": f"It also holds '{name}/part-00009.parquet'.",
        }
        files[4].with_name("part-00009.parquet").rename(files[4])


def test_many_lost_parts_are_counted(release: sf.Release) -> None:
    shutil.rmtree(release.data)
    named = ", ".join(f"part-0000{k}.parquet" for k in range(5))
    assert failed(release) == {"checksum of data": f"Not there: {named} and 1 more."}
    release.data.write_text("a file in the place of the folder")
    assert failed(release) == {"checksum of data": f"Not there: {named} and 1 more."}


# --- manifests that were changed --------------------------------------------------------------------------------------


def edited(release: sf.Release, change: Callable[[dict[str, Any]], None]) -> Path:
    path = release.folder / "manifest.json"
    content = json.loads(path.read_text())
    for table in tables(release):
        change(content[table])
    path.write_text(json.dumps(content, indent=2) + "\n")
    return release.folder


def swapped(table: dict[str, Any], keys: tuple[str, ...]) -> None:
    first, second = table["parts"][2], table["parts"][3]
    for key in keys:
        first[key], second[key] = second[key], first[key]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda t: t["parts"].reverse(), "part 0 is named 'part-00000.parquet', not 'part-00005.parquet'"),
        (lambda t: swapped(t, ("rows", "sha256")), "sha256 is not the one of the parts in their order"),
        (lambda t: swapped(t, ("file", "rows", "sha256")), "part 2 is named 'part-00002.parquet', not"),
        (lambda t: t["parts"].pop(), "rows together, not"),
        (lambda t: t["parts"].pop(1), "part 1 is named 'part-00001.parquet', not 'part-00002.parquet'"),
        (lambda t: t["parts"].append(t["parts"][0]), "part 6 is named 'part-00006.parquet', not 'part-00000.parquet'"),
        (lambda t: t["parts"][2].update(rows=t["parts"][2]["rows"] + 1), "rows together, not"),
        (lambda t: t["parts"][2].update(rows=-1), r"parts\.2\.rows"),
        (lambda t: t["parts"][2].update(sha256="0" * 64), "sha256 is not the one of the parts in their order"),
        (lambda t: t["parts"][2].update(sha256="0"), r"parts\.2\.sha256"),
        (lambda t: t["parts"][2].update(more=1), r"parts\.2\.more"),
        (lambda t: t["parts"][2].update(file="../data/part-00002.parquet"), r"parts\.2\.file"),
        (lambda t: t["parts"][2].update(file="part-00002.parquet\n"), r"parts\.2\.file"),
        (lambda t: t["parts"][2].update(file="part-2.parquet"), r"parts\.2\.file"),
        (lambda t: t["parts"][2].update(file="part-000002.parquet"), "part 2 is named"),
        (lambda t: t["parts"][2].update(file="/etc/passwd"), r"parts\.2\.file"),
        (lambda t: t.update(file=".."), r"the parts lie in the folder '\w+', not in '\.\.'"),
        (lambda t: t.update(file=""), r"the parts lie in the folder '\w+', not in ''"),
        (lambda t: t.update(file="elsewhere"), r"the parts lie in the folder '\w+', not in 'elsewhere'"),
        (lambda t: t.update(sha256="0" * 64), "sha256 is not the one of the parts in their order"),
        (lambda t: t.update(parts=[]), "parts"),
        (lambda t: t.update(file="..", parts=None), "outside"),
    ],
)
def test_a_manifest_whose_parts_do_not_fit_is_not_opened(
    change: Callable[[dict[str, Any]], None], told: str, release: sf.Release
) -> None:
    folder = edited(release, change)
    with pytest.raises(ReleaseError, match=told):
        sf.open_release(folder)


def test_parts_are_parquet(release: sf.Release) -> None:
    path = release.folder / "manifest.json"
    path.write_text(path.read_text().replace('"format": "parquet"', '"format": "csv"'))
    with pytest.raises(ReleaseError, match="a table in parts is Parquet, not csv"):
        sf.open_release(release.folder)


def test_the_groups_of_a_csv_release_have_no_parts(originals: Callable[[str], Path], tmp_path: Path) -> None:
    shutil.copytree(originals("anatomy"), tmp_path / "r")
    path = tmp_path / "r" / "manifest.json"
    content = json.loads(path.read_text())
    content["data"].pop("parts")
    content["data"].update(file="data.csv", format="csv")
    path.write_text(json.dumps(content))
    with pytest.raises(ReleaseError, match="a table in parts is Parquet, not csv"):
        sf.open_release(tmp_path / "r")


def test_parts_that_are_left_out_are_a_lost_file(release: sf.Release) -> None:
    """The folder cannot stand for a file."""
    edited(release, lambda t: t.pop("parts"))
    found = failed(release)
    assert all(found[f"checksum of {name}"] == "The file is not there." for name in tables(release))
    assert "manifest" in found


# --- releases that were made wrongly, with checksums that fit ---------------------------------------------------------


def described(files: list[Path], order: list[int]) -> list[FilePart]:
    """Describe the files as they are, but with the rows of the parts in this order."""
    rows = [pq.read_metadata(path).num_rows for path in files]
    return [FilePart(file=p.name, rows=rows[k], sha256=file_sha256(p)) for p, k in zip(files, order, strict=True)]


def stating(release: sf.Release, data: list[FilePart], groups: list[FilePart]) -> sf.Release:
    """Seal the release with these parts."""
    made = release.manifest
    update: dict[str, Any] = {"data": data_in_parts(data, shuffled=made.data.shuffled)}
    if made.groups:
        stated = {k: v for k, v in made.groups if k not in ("file", "lines", "sha256", "parts")}
        update["groups"] = groups_in_parts(groups, **stated)
    return sealed(made.model_copy(update=update), release.folder)


def resealed(release: sf.Release, order: tuple[int, ...] = (0, 1, 2, 3, 4, 5)) -> sf.Release:
    data, groups = (described(files, [*order][: len(files)]) for files in (release.data_files, release.groups_files))
    return stating(release, data, groups)


def test_rows_that_are_wrong_in_each_part_and_right_together(release: sf.Release) -> None:
    found = failed(resealed(release, (0, 1, 3, 2, 4, 5)))
    for name, files in tables(release).items():
        second, third = (pq.read_metadata(path).num_rows for path in files[2:4])
        told = f"part-00002.parquet: It has {second} rows, not {third} as stated."
        assert second != third
        assert found.pop("parts" if name == "data" else "parts of groups") == told
    assert found == {}


def rewritten(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    rows = change(pq.read_table(path))
    pq.write_table(rows, path, store_schema=bool(rows.schema.metadata))


@pytest.mark.parametrize("number", [0, 4])
def test_each_part_is_looked_at(number: int, release: sf.Release) -> None:
    """A column, a type or metadata that only one part has: DuckDB takes the columns of the first for those of all."""
    for name, files in tables(release).items():
        of, path, content = "" if name == "data" else f" of {name}", files[number], files[number].read_bytes()
        told = f"part-0000{number}.parquet: "
        rewritten(path, lambda rows: rows.append_column("name", pa.array(["Andy"] * rows.num_rows)))
        found = failed(resealed(release))
        assert found[f"parts{of}"].startswith(f"{told}Its columns are ")
        assert found[f"types{of}"].startswith(f"{told}They are ")
        first = pq.read_schema(path).names[0]
        path.write_bytes(content)
        rewritten(path, lambda rows: rows.set_column(0, first, rows.column(0).cast(pa.string())))  # noqa: B023
        assert failed(resealed(release))[f"types{of}"].startswith(f"{told}They are ['string'")
        path.write_bytes(content)
        rewritten(path, lambda rows: rows.replace_schema_metadata({"author": "me"}))
        assert failed(resealed(release))[f"metadata{of}"].startswith(f"{told}The file carries ")
        path.write_bytes(content)
    assert failed(resealed(release)) == {}


def test_a_part_that_is_no_parquet_file(release: sf.Release) -> None:
    parts = {name: described(files, [*range(6)]) for name, files in tables(release).items()}
    for name, files in tables(release).items():
        content, of = files[4].read_bytes(), "" if name == "data" else f" of {name}"
        files[4].write_bytes(b"nothing")
        forged = parts[name][4].model_copy(update={"sha256": file_sha256(files[4])})
        now = parts | {name: [*parts[name][:4], forged, parts[name][5]]}
        found = failed(stating(release, now["data"], now.get("groups", [])))
        assert set(found) == {"data", f"types{of}"}
        assert found[f"types{of}"].startswith("part-00004.parquet: The file cannot be read: ")
        files[4].write_bytes(content)


@pytest.mark.parametrize("problem", [duckdb.InvalidInputException("too small.\nmore"), OSError("too small.\nmore")])
def test_what_is_found_while_rows_are_read_is_told_as_what_is_found_before(
    problem: Exception, release: sf.Release
) -> None:
    """Which of both is raised of a broken part depends on which thread of DuckDB comes first."""
    with pytest.raises(ReleaseError, match="cannot be read: too small"), connected(release):
        raise problem


def test_records_in_the_parts_of_another_order_are_seen_where_order_matters(
    originals: Callable[[str], Path], tmp_path: Path
) -> None:
    """Parts of a release by groups that are put in another order, with names and checksums that fit."""
    shutil.copytree(originals("anatomy"), tmp_path / "r")
    release = sf.open_release(tmp_path / "r")
    contents = [path.read_bytes() for path in release.data_files]
    for path, content in zip(release.data_files, reversed(contents), strict=True):
        path.write_bytes(content)
    assert "groups of data" in failed(resealed(release))
