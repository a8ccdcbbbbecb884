"""A new attacker is one new file: the audit, its record and the reports find it, and no other file is touched."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sfumato

TOY = '''
"""The attacker who guesses for everybody the value that most rows of the release show."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sfumato.auditor.attacker import IN_GROUPS, Attacker, Listed
from sfumato.auditor.evidence import Evidence
from sfumato.auditor.finding import Finding


def guess_all(evidence: Evidence) -> Iterator[Finding]:
    commonest = np.bincount(evidence.values.release).argmax()
    right = int((evidence.values.table == commonest).sum())
    yield Finding(
        attacker="herd",
        question="Which value has a person?",
        assumption="Sees the release, and holds all people to be alike.",
        measured="the share of people who are guessed right; exact",
        worst=right / evidence.rows,
        mean=None,
        records=evidence.rows,
        at_risk=0,
    )


ATTACKER = Attacker(
    name="herd",
    knows="guesses for all what most rows show",
    why_not_covered="No release hides what is frequent.",
    on={"randomized": guess_all, "response": guess_all, "groups": IN_GROUPS},
    public=lambda manifest: None if manifest.groups else Listed(50, covered=False),
)
'''

STORY = """
import json
from pathlib import Path
import sfumato as sf
from sfumato.auditor.attackers import ATTACKERS
from sfumato.auditor.report.page import html_of
from tests.page.releases import made

for method in ("fine-grain", "anatomy"):
    of = made(method)
    Path(f"{method}.json").write_text(json.dumps(of.record))
    for name in ("private", "public"):
        Path(f"{method}.{name}.html").write_text(html_of(getattr(of, name)))
    if method == "fine-grain":
        Path("words.txt").write_text(sf.audit(of.table, of.release, seed=1).explain())
print(sf.__file__, [attacker.name for attacker in ATTACKERS])
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder in which a copy of the package with one more file has told its story."""
    folder = tmp_path_factory.mktemp("with an attacker more")
    package = folder / "src" / "sfumato"
    shutil.copytree(Path(sfumato.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "auditor" / "attackers" / "herd.py").write_text(TOY, encoding="utf-8")
    root = Path(__file__).parents[2]
    paths = os.pathsep.join([str(folder / "src"), str(root)])
    done = subprocess.run(
        [sys.executable, "-c", STORY],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert str(package) in done.stdout
    return folder


def test_it_is_let_loose_after_the_others(told: Path) -> None:
    record = json.loads((told / "fine-grain.json").read_text())
    found = record["findings"][-1]
    assert (found["attacker"], found["verdict"]) == ("herd", "not covered by the guarantee")
    assert found["why_not_covered"] == "No release hides what is frequent."
    assert 0.2 < found["worst"] < 0.3
    assert list(record["seconds"])[-2:] == ["herd", "utility"]
    assert "herd" in (told / "words.txt").read_text()


def test_where_it_does_not_apply_the_reason_is_told(told: Path) -> None:
    record = json.loads((told / "anatomy.json").read_text())
    assert record["not_applicable"][-1] == {
        "attacker": "herd",
        "reason": "values are published as they are, in groups.",
    }


def test_the_reports_list_it(told: Path) -> None:
    private, public = ((told / f"fine-grain.{name}.html").read_text() for name in ("private", "public"))
    assert "Sees the release, and holds all people to be alike." in private
    assert "guesses for all what most rows show" in public
    assert "guesses for all what most rows show" not in (told / "anatomy.public.html").read_text()


def test_without_its_file_nobody_knows_it() -> None:
    from sfumato.auditor.attackers import ROLES

    assert "herd" not in ROLES
