"""A new format is one new file: releases are written in it, read, verified, searched, and no other file is touched."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sfumato
from sfumato.release.formats import FORMATS

TOY = '''
"""JSON, an object a line, compressed by gzip."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sfumato.release.format import Carried, Format, Piece
from sfumato.release.formats.csv import Csv

NAMED = 8
"""The bit of the fourth byte that tells that the name of a file follows."""


class JsonLines(Format):
    """Objects with the names of the columns."""

    prepares_long = True
    tells = ("metadata",)
    sql_type = Csv.sql_type

    def prepared(self, table: Any) -> Piece:
        lines = "".join(json.dumps(row) + "\\n" for row in table.to_pylist())
        return Piece(table.schema, table.num_rows, lines.encode())

    def writer(self, path: Path, schema: Any) -> JsonLinesWriter:
        return JsonLinesWriter(path, schema)

    @staticmethod
    def relation(files: str, names: Iterable[str]) -> str:
        columns = ", ".join(f"'{name}': 'VARCHAR'" for name in names)
        return f"read_json({files}, format = 'newline_delimited', compression = 'gzip', columns = {{{columns}}})"

    @staticmethod
    def carried(path: Path) -> Carried:
        lines = gzip.decompress(path.read_bytes()).splitlines()
        return Carried(list(json.loads(lines[0])), (), len(lines), [b"name"] * _is_named(path))

    @staticmethod
    def hidden(path: Path) -> Iterator[bytes]:
        yield gzip.decompress(path.read_bytes())


def _is_named(path: Path) -> bool:
    return bool(path.read_bytes()[3] & NAMED)


class JsonLinesWriter:
    """Appends to a compressed stream that tells neither the time nor its name."""

    def __init__(self, path: Path, schema: Any) -> None:
        self._schema, self._file = schema, open(path, "wb")
        self._packed = gzip.GzipFile("", "wb", fileobj=self._file, mtime=0)

    def write(self, piece: Piece) -> None:
        self._packed.write(piece.content)

    def close(self) -> Any:
        self._packed.close()
        self._file.close()
        return self._schema


FORMAT = JsonLines
'''

STORY = """
import gzip
import json
import pyarrow as pa
from pathlib import Path
import sfumato as sf
from sfumato.auditor.attackers.residue import find_residues
from sfumato.release.formats import FORMATS
from sfumato.release.verify.verification import carried
from tests.conftest import make_policy

ROLES = {"name": "identifier", "age": "other", "ward": "quasi_identifier", "illness": "sensitive"}
table = pa.table({
    "name": [f"person number {k}" for k in range(300)],
    "age": [20 + k % 60 for k in range(300)],
    "ward": ["AB"[k % 2] for k in range(300)],
    "illness": [["flu", "gout", "mumps"][k * k % 11 % 3] for k in range(300)],
})
story = {"package": sf.__file__, "formats": list(FORMATS)}

def told(release):
    return {check.name: check.status for check in carried(release)}

def private(release, opened):
    return {name: len(found) for name, found in find_residues(opened, release).found.items()}

for method, limit in (("uniform", "gamma = 4"), ("anatomy", "l = 2")):
    opened = sf.scan(table, make_policy(ROLES, limit + '\\n[output]\\nformat = "jsonl"', method))
    plan = sf.plan(sf.profile(opened), opened.policy.method, opened.policy.requirement)
    release = sf.publish(opened, plan, method)
    groups = release.sql("SELECT illness, ward, COUNT(*) FROM release WHERE age < 50 GROUP BY illness, ward")
    audit = sf.audit(opened, release)
    sf.report(audit, f"{method}.html", release=release, table=opened)
    story[method] = {
        "files": sorted(path.name for path in Path(method).iterdir()),
        "format": release.manifest.data.format,
        "types": [column.type for column in release.manifest.columns],
        "verified": release.verify().holds,
        "told": told(release),
        "answer": sum(groups.value),
        "rows": release.to_arrow().num_rows,
        "ages": sorted(set(release.to_arrow().column("age").to_pylist())) == list(range(20, 80)),
        "residue": [f.at_risk for f in audit.findings if f.attacker == "residue"],
        "found": private(release, opened),
    }

data = Path("uniform/data.jsonl")
lines = gzip.decompress(data.read_bytes())
data.write_bytes(gzip.compress(lines + b'{"age": 20, "ward": "person number 7"}\\n', mtime=0))
story["planted"] = private(sf.open_release("uniform"), sf.scan(table, make_policy(ROLES, "gamma = 4", "uniform")))
with open(data, "wb") as file, gzip.GzipFile("private.jsonl", "wb", fileobj=file) as packed:
    packed.write(lines)
story["named"] = told(sf.open_release("uniform"))
data.write_bytes(b"no gzip")
story["broken"] = told(sf.open_release("uniform"))

from sfumato.engines.spark.engine import check_format
try:
    check_format("jsonl")
except sf.UsageError as refused:
    story["spark"] = str(refused)
try:
    sf.publish(opened, plan, "nothing", format="feather")
except sf.UsageError as refused:
    story["unknown"] = str(refused)
Path("story.json").write_text(json.dumps(story))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the story of a copy of the package with one more file."""
    folder = tmp_path_factory.mktemp("with a format more")
    package = folder / "src" / "sfumato"
    shutil.copytree(Path(sfumato.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "release" / "formats" / "jsonl.py").write_text(TOY, encoding="utf-8")
    paths = os.pathsep.join([str(folder / "src"), str(Path(__file__).parents[2])])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", STORY], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    story: dict[str, Any] = json.loads((folder / "story.json").read_text(encoding="utf-8"))
    assert str(package) in story["package"]
    assert (folder / "uniform.html").exists()
    return story


def test_policies_know_it(told: dict[str, Any]) -> None:
    assert told["formats"] == ["parquet", "csv", "jsonl"]
    assert list(FORMATS) == ["parquet", "csv"]


def test_rows_are_published_opened_asked_and_audited(told: dict[str, Any]) -> None:
    of = told["uniform"]
    assert of["files"] == ["README.md", "data.jsonl", "manifest.json"]
    assert (of["format"], of["types"], of["rows"], of["ages"]) == ("jsonl", ["int64", "string", "string"], 300, True)
    assert of["verified"]
    assert of["answer"] == pytest.approx(150)
    assert (of["residue"], of["found"]) == ([0], {})


def test_buckets_too(told: dict[str, Any]) -> None:
    of = told["anatomy"]
    assert of["files"] == ["README.md", "data.jsonl", "groups.jsonl", "manifest.json"]
    assert of["verified"]
    assert of["answer"] == pytest.approx(150, abs=1)
    assert (of["residue"], of["found"]) == ([0], {})


def test_what_its_files_carry_is_verified(told: dict[str, Any]) -> None:
    assert told["uniform"]["told"] == {"metadata": "holds"}
    assert told["anatomy"]["told"] == {"metadata": "holds", "metadata of groups.jsonl": "holds"}
    assert told["named"] == {"metadata": "fails"}
    assert told["broken"] == {"metadata": "fails"}


def test_what_is_compressed_is_searched(told: dict[str, Any]) -> None:
    assert told["planted"] == {"name": 1}


def test_spark_which_cannot_write_it_says_so(told: dict[str, Any]) -> None:
    assert told["spark"] == 'On Spark a release is written as Parquet.\nSay output.format = "parquet".'


def test_a_format_that_there_is_not(told: dict[str, Any]) -> None:
    assert told["unknown"] == "There is no format 'feather'.\nName one of 'parquet', 'csv', 'jsonl'."
