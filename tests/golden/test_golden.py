"""Seeded releases, and all that is said of them, are what they were: see `python -m tests.golden --help`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from tests.golden.cases import CASES, ON_SPARK, Case
from tests.golden.hashes import check, differing, digests, load
from tests.golden.texts import of_release, texts


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_what_it_was(name: str, tmp_path: Path) -> None:
    check(name, texts(CASES[name], tmp_path))


def test_the_file_has_the_cases_that_there_are() -> None:
    assert list(load()) == [*CASES, *ON_SPARK]


# --- the net holds ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Give the folders of one release in Parquet and one in CSV, with groups."""
    case, folder = CASES["anatomy"], tmp_path_factory.mktemp("published")
    texts(case, folder)
    return {name: folder / name for name in ("parquet", "csv")}


def _rewritten(name: str, change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
    def rewrite(folder: Path) -> None:
        pq.write_table(change(pq.read_table(folder / name)), folder / name)

    return rewrite


def _replaced(name: str, old: str, new: str) -> Callable[[Path], None]:
    def replace(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8")
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    return replace


def _with_column(table: pa.Table, name: str, change: Callable[[list[Any]], list[Any]], kind: Any = None) -> pa.Table:
    place = table.column_names.index(name)
    values = pa.array(change(table[name].to_pylist()), kind or table.schema.field(name).type)
    return table.set_column(place, name, values)


ALTERED: dict[str, tuple[str, str, Callable[[Path], None]]] = {
    "one value": (
        "parquet",
        "rows",
        _rewritten("data.parquet", lambda t: _with_column(t, "visits", lambda v: [v[0] + 1, *v[1:]])),
    ),
    "a missing value": (
        "parquet",
        "rows",
        _rewritten("data.parquet", lambda t: _with_column(t, "sex", lambda v: [*v[:-1], None])),
    ),
    "the order of two rows": (
        "parquet",
        "rows",
        _rewritten("data.parquet", lambda t: t.take([1, 0, *range(2, t.num_rows)])),
    ),
    "a row left out": ("parquet", "rows", _rewritten("data.parquet", lambda t: t.slice(1))),
    "a type": (
        "parquet",
        "rows",
        _rewritten("data.parquet", lambda t: _with_column(t, "visits", list, pa.int32())),
    ),
    "a name": (
        "parquet",
        "rows",
        _rewritten("data.parquet", lambda t: t.rename_columns([name.upper() for name in t.column_names])),
    ),
    "a value of a group": (
        "parquet",
        "groups",
        _rewritten("groups.parquet", lambda t: _with_column(t, "diagnosis", lambda v: ["plague", *v[1:]])),
    ),
    "one value in CSV": ("csv", "rows", _replaced("data.csv", "sea", "see")),
    "a group in CSV": ("csv", "groups", _replaced("groups.csv", "asthma", "gout")),
    "a word of the manifest": ("parquet", "manifest", _replaced("manifest.json", "believes", "thinks")),
    "a number of the manifest": ("parquet", "manifest", _replaced("manifest.json", '"rows": 600', '"rows": 601')),
    "the policy's hash": ("csv", "manifest", _replaced("manifest.json", '"policy_sha256": "', '"policy_sha256": "0')),
    "a word of the README": ("csv", "readme", _replaced("README.md", "Attacker", "Enemy")),
}


@pytest.mark.parametrize("what", ALTERED)
def test_what_is_altered_is_seen(what: str, published: dict[str, Path], tmp_path: Path) -> None:
    kind, part, alter = ALTERED[what]
    folder = tmp_path / "release"
    folder.mkdir()
    for file in published[kind].iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    before = digests(of_release(folder))
    assert before == digests(of_release(published[kind]))
    alter(folder)
    assert differing(before, digests(of_release(folder))) == [part]


def test_another_seed_or_requirement_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["uniform"]
    policy = case.policy.replace("rho2 = 0.5", "rho2 = 0.51")
    assert policy != case.policy
    (tmp_path / "stricter").mkdir()
    with pytest.raises(AssertionError, match=r"(?s)^uniform: changed: plan, explain, parquet/rows, .*changes\.md"):
        check("uniform", texts(Case("uniform", policy), tmp_path / "stricter"))
    monkeypatch.setattr("tests.golden.texts.SEED", 8)
    (tmp_path / "seed").mkdir()
    with pytest.raises(AssertionError, match=r"^uniform: changed: parquet/rows, csv/rows, parquet/answers, audit"):
        check("uniform", texts(case, tmp_path / "seed"))


def test_what_is_random_or_dated_is_not_seen(published: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "release"
    folder.mkdir()
    for file in published["csv"].iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    before = digests(of_release(folder))
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    _replaced("README.md", manifest["release_id"], "0" * 16)(folder)
    manifest |= {"release_id": "0" * 16, "created": "2031-01-01", "software": "sfumato 9.9", "readme_sha256": "1" * 64}
    manifest["data"]["sha256"] = "2" * 64
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert digests(of_release(folder)) == before
    assert sf.open_release(folder).manifest.data.rows == 600
