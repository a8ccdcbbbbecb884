"""The pages name what exists: files and folders, modules, public names, commands; the architecture has all rooms."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from sfumato.cli.main import app

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "sfumato"
GUIDE, DRAWING = ROOT / "CONTRIBUTING.md", ROOT / "docs" / "project" / "architecture.md"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", GUIDE, *sorted((ROOT / "docs").rglob("*.md"))]
TOLD = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:[a-z_]+/)+(?:[a-z_]+\.py)?|[a-z_]+\.py")
DOTTED = re.compile(r"\b(?:sfumato|sf)(?:\.[A-Za-z_]\w*)+")
COMMAND = re.compile(r"sfumato ([a-z]\w*)")
MADE = {"sfumato-demo/", "sfumato.commands"}
"""A folder that a command makes, and a group of entry points."""


def told(page: Path) -> list[str]:
    """Return what a page sets as code in its sentences: its blocks of code are run."""
    return TOLD.findall(re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL))


def named(page: Path, pattern: re.Pattern[str]) -> set[str]:
    """Return what a page sets as code and is of this form as a whole."""
    return {text for text in told(page) if pattern.fullmatch(text)} - MADE


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_and_folders_exist(page: Path) -> None:
    assert {path for path in named(page, PATH) if not exists(path)} == set()


def exists(path: str) -> bool:
    """Tell whether there is such a path in the repository or the package; a file's name alone will do."""
    return any((base / path).exists() for base in (ROOT, PACKAGE)) or ("/" not in path and any(PACKAGE.rglob(path)))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_dotted_names_lead_somewhere(page: Path) -> None:
    dotted = {found for text in told(page) for found in DOTTED.findall(text)} - MADE
    assert {found for found in dotted if not resolves(found)} == set()


def resolves(dotted: str) -> bool:
    """Tell whether a name is a module, or what one holds.

    >>> resolves("sf.Policy.load"), resolves("sfumato.values.steps.Perturb"), resolves("sfumato.plans")
    (True, True, False)
    """
    first, *parts = dotted.split(".")
    found = import_module("sfumato" if first == "sf" else first)
    for part in parts:
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = import_module(f"{found.__name__}.{part}")
            except ImportError:
                return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_are_those_of_the_program(page: Path) -> None:
    commands = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    assert {found for text in told(page) for found in COMMAND.findall(text)} <= commands


@pytest.mark.parametrize(("page", "least"), [(DRAWING, 20), (GUIDE, 25)], ids=["architecture", "contributing"])
def test_names_for_those_who_carry_on_are_in_the_code(page: Path, least: int) -> None:
    words = named(page, re.compile(r"\w+"))
    assert len(words) >= least
    assert words - names_of_code() - {path.name for path in (ROOT / "tests").iterdir()} == set()


def names_of_code() -> set[str]:
    """Return the names of packages, modules, classes, functions, and of what is assigned; also of what tests share."""
    names = {part for path in PACKAGE.rglob("*.py") for part in path.relative_to(PACKAGE).with_suffix("").parts}
    for path in (*PACKAGE.rglob("*.py"), *(ROOT / "tests").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
    return names


def test_what_is_not_there_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("`values/gone.py`, `values/steps.py`, `gone.py` and `sfumato gone`\n```\n`left/out.py`\n```\n")
    assert {path for path in named(page, PATH) if not exists(path)} == {"values/gone.py", "gone.py"}
    assert not resolves("sf.GroupPlan")
    assert resolves("sfumato.auditor.attackers.linking_guesser")
    assert COMMAND.findall("sfumato gone") == ["gone"]


def test_every_room_is_on_the_page() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert set(re.findall(r"^\| `(\w+)` \|", DRAWING.read_text(encoding="utf-8"), re.MULTILINE)) == rooms
