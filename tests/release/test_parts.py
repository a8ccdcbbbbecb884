"""A release of many files is the release of one: the same answers, checks, findings and pages, for every method."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.auditor.report.page import html_of
from sfumato.auditor.report.reporting import private_page
from sfumato.release.manifest import DataFile, Manifest
from sfumato.release.parts import FilePart, parts_rows, parts_sha256
from tests.auditor.test_audit import METHODS, rows_for
from tests.engines.parts import cut, data_in_parts, in_parts
from tests.engines.tools import released

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "manifest.schema.json"
QUERIES = [
    "SELECT disease, COUNT(*) FROM release GROUP BY disease",
    "SELECT sex, disease, COUNT(*) FROM release WHERE sex = 'F' GROUP BY sex, disease",
    "SELECT sex, COUNT(*), COUNT(*) / SUM(COUNT(*)) OVER () FROM release GROUP BY sex",
]

Pair = tuple[sf.Release, sf.Release]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Pair]:
    """Give a release of a method in one file, and in five; each is made once."""
    made: dict[str, Pair] = {}

    def find(method: str) -> Pair:
        if method not in made:
            folder = tmp_path_factory.mktemp(method) / "a [b]* x=1"  # a path that has to be quoted
            folder.mkdir()
            one = released(rows_for(METHODS[method]), METHODS[method], folder=folder / "one")
            made[method] = one, in_parts(one, folder / "many")
        return made[method]

    return find


# --- worked example ---------------------------------------------------------------------------------------------------


def test_parts_are_described_by_their_rows_and_checksums() -> None:
    digests = [hashlib.sha256(bytes([k])).hexdigest() for k in range(3)]
    parts = [FilePart(file=f"part-0000{k}.parquet", rows=10 * k, sha256=digests[k]) for k in range(3)]
    whole = hashlib.sha256(b"".join(hashlib.sha256(bytes([k])).digest() for k in range(3))).hexdigest()
    assert (parts_rows(parts), parts_sha256(part.sha256 for part in parts)) == (30, whole)
    assert data_in_parts(parts, shuffled=True) == DataFile(
        file="data", format="parquet", rows=30, sha256=whole, shuffled=True, parts=tuple(parts)
    )


def test_the_pieces_of_these_tests_are_unequal_and_one_is_empty() -> None:
    pieces = cut(pa.table({"n": range(300)}), 5)
    assert [piece.num_rows for piece in pieces] == [12, 0, 96, 84, 108]
    assert pa.concat_tables(pieces)["n"].to_pylist() == list(range(300))


# --- the manifest -----------------------------------------------------------------------------------------------------


def test_a_manifest_of_one_file_says_nothing_of_parts(pair: Callable[[str], Pair]) -> None:
    """So that releases stay as they were, also for software that knows of no parts."""
    for method in METHODS:
        one, _ = pair(method)
        text = (one.folder / "manifest.json").read_text(encoding="utf-8")
        assert '"parts"' not in text
        assert Manifest.model_validate_json(text).to_json() == text
        assert (one.data_files, one.groups_files) == ([one.data], [one.groups] if one.groups else [])


@pytest.mark.parametrize("method", ["uniform", "anatomy"])
def test_a_manifest_of_parts_is_one(method: str, pair: Callable[[str], Pair]) -> None:
    _, many = pair(method)
    text = (many.folder / "manifest.json").read_text(encoding="utf-8")
    assert Manifest.model_validate_json(text).to_json() == text
    jsonschema.validate(json.loads(text), json.loads(SCHEMA.read_text()), cls=jsonschema.Draft202012Validator)
    assert many.data == many.folder / "data"
    names = [f"part-0000{k}.parquet" for k in range(5)]
    assert many.data_files == [many.folder / "data" / name for name in names]
    assert many.groups_files == ([many.folder / "groups" / name for name in names] if method == "anatomy" else [])


@pytest.mark.parametrize("method", ["uniform", "anatomy"])
def test_the_readme_tells_of_the_files(method: str, pair: Callable[[str], Pair]) -> None:
    one, many = pair(method)
    text = (many.folder / "README.md").read_text(encoding="utf-8")
    for name in ["data", *(["groups"] if method == "anatomy" else [])]:
        assert f"`{name}/` is one table in 5 Parquet files, `part-00000.parquet` and so on" in text
        assert f"`SELECT * FROM '{name}/*.parquet'`" in text
    assert "Parquet files" not in (one.folder / "README.md").read_text(encoding="utf-8")


# --- the same of both -------------------------------------------------------------------------------------------------


def audited(method: str, release: sf.Release) -> sf.Audit:
    return sf.audit(sf.scan(rows_for(METHODS[method]), METHODS[method]), release, seed=1)


@pytest.mark.parametrize("method", METHODS)
def test_rows_and_answers_are_the_same(method: str, pair: Callable[[str], Pair]) -> None:
    one, many = pair(method)
    assert many.to_arrow().equals(one.to_arrow())
    assert one.to_arrow()["sex"].to_pylist() == pq.read_table(one.data)["sex"].to_pylist()
    if one.groups:
        assert many.groups_to_arrow().equals(one.groups_to_arrow())
    for query in QUERIES:
        assert many.sql(query).to_dict() == one.sql(query).to_dict()
    assert np.array_equal(many.table(["sex", "disease"]).value, one.table(["sex", "disease"]).value)


@pytest.mark.parametrize("method", METHODS)
def test_checks_are_the_same(method: str, pair: Callable[[str], Pair]) -> None:
    """But for the parts' own, and for how files are called."""

    def told(release: sf.Release) -> dict[str, str]:
        found = {check.name.replace(".parquet", ""): check.status for check in release.verify().checks}
        return {name: status for name, status in found.items() if not name.startswith("parts")}

    one, many = pair(method)
    assert told(many) == told(one)
    assert [name for name, status in told(many).items() if status == "fails"] == ["secret key"]
    own = [check.name for check in many.verify().checks if check.name.startswith("parts")]
    assert own == (["parts", "parts of groups"] if one.groups else ["parts"])


@pytest.mark.parametrize("method", ["uniform", "small-domain", "randomized-response", "anatomy"])
def test_findings_and_pages_are_the_same(method: str, pair: Callable[[str], Pair]) -> None:
    def told(audit: sf.Audit) -> dict[str, Any]:
        return {k: v for k, v in audit.to_dict().items() if k not in ("created", "seconds", "published")}

    one, many = pair(method)
    records = [audited(method, release) for release in (one, many)]
    assert told(records[1]) == told(records[0])
    pages = [private_page(release, records[0].to_dict()) for release in (one, many)]
    shown = [html_of(replace(page, sections=page.sections[:-1])) for page in pages]
    assert shown[1] == shown[0]
    checksums = html_of(replace(pages[1], sections=pages[1].sections[-1:]))
    assert f"SHA-256 of data (5 files): {many.manifest.data.sha256}" in checksums
    assert ("groups (5 files)" in checksums) == (one.groups is not None)


def test_the_order_of_the_rows_is_that_of_the_parts(tmp_path: Path) -> None:
    """More files than threads, some of them empty."""
    rows = pa.table({"age": range(40), "sex": ["F", "M"] * 20, "disease": ["a", "b", "c", "d"] * 10})
    policy = METHODS["uniform"]
    one = released(rows.add_column(0, "name", [[str(k) for k in range(40)]]), policy, folder=tmp_path / "one")
    many = in_parts(one, tmp_path / "many", 40)
    assert many.to_arrow().equals(one.to_arrow())
    assert [path.name for path in many.data_files] == [f"part-{k:05}.parquet" for k in range(40)]


def test_a_value_that_slipped_into_one_part_is_found(tmp_path: Path) -> None:
    policy = METHODS["uniform"]
    one = released(rows_for(policy), policy, folder=tmp_path / "one")
    original = cut

    def with_residue(rows: pa.Table, number: int) -> list[pa.Table]:
        """The dictionary of the fourth piece keeps a name that no row has."""
        pieces = original(rows, number)
        sex = pieces[3]["sex"].combine_chunks().dictionary_encode()
        names = pa.array([*sex.dictionary.to_pylist(), "patient 5"])
        place = rows.schema.get_field_index("sex")
        pieces[3] = pieces[3].set_column(place, "sex", pa.DictionaryArray.from_arrays(sex.indices, names))
        return pieces

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.engines.parts.cut", with_residue)
        many = in_parts(one, tmp_path / "many")
    assert many.verify().checks == in_parts(one, tmp_path / "clean").verify().checks  # it shows in the bytes only
    found = [finding for finding in audited("uniform", many).findings if finding.attacker == "residue"]
    assert [(f.at_risk, f.exposed[0].who) for f in found] == [(1, "values of 'name'")]
