"""The import contracts: each is shown to fail on an import that it forbids. (What holds today CI checks itself.)"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FORBIDDEN = {  # the package that may not import, and what it may not import
    "values": "claims.planted",
    "claims": "release.planted",
    "release": "analyst.planted",
    "engines": "methods.planted",
    "methods": "engines.planted",
    "analyst": "engines.planted",
    "publisher": "auditor.planted",
    "auditor": "cli.planted",
    "studio/analyst": "methods.planted",
    "studio/web": "auditor.planted",
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the contracts say of a copy of the package in which every package has a file with a forbidden import."""
    tree = tmp_path_factory.mktemp("planted")
    for source in (ROOT / "src" / "sfumato", ROOT / "papers" / "src" / "sfumato_papers"):
        shutil.copytree(source, tree / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    for package, target in FORBIDDEN.items():
        (tree / "sfumato" / package / "planted.py").write_text(f"from sfumato.{target} import *\n", encoding="utf-8")
    (tree / "sfumato" / "cli" / "planted.py").write_text("from sfumato_papers import running\n", encoding="utf-8")
    with (tree / "sfumato" / "sklearn.py").open("a", encoding="utf-8") as public:
        public.write("from sfumato.engines.planted import *\n")
    (tree / "sfumato" / "attic").mkdir()
    (tree / "sfumato" / "attic" / "__init__.py").write_text("", encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(tree)}
    command = ["lint-imports", "--no-cache", "--config", str(ROOT / "pyproject.toml")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tree, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("package", FORBIDDEN)
def test_a_planted_import_that_is_forbidden_is_found(package: str, report: str) -> None:
    module = package.replace("/", ".")
    assert f"sfumato.{module}.planted -> sfumato.{FORBIDDEN[package]}" in report.replace("\n", " ")


def test_an_import_of_the_papers_is_found(report: str) -> None:
    assert "sfumato.cli.planted -> sfumato_papers.running" in report.replace("\n", " ")


def test_an_import_by_the_module_for_scikit_learn_is_found(report: str) -> None:
    assert "sfumato.sklearn -> sfumato.engines.planted" in report.replace("\n", " ")


def test_a_package_without_a_place_is_found(report: str) -> None:
    assert "attic" in report


def test_every_contract_is_broken_by_what_was_planted(report: str) -> None:
    assert report.count("BROKEN") == 4
    assert "KEPT" not in report
