"""Nothing but `randomness` draws a number that is published; the tokens that let a browser in never are."""

from __future__ import annotations

import ast
from pathlib import Path

import sfumato
import sfumato_papers

PACKAGES = [Path(package.__path__[0]) for package in (sfumato, sfumato_papers)]
SOURCES = [path for folder in PACKAGES for path in folder.rglob("*.py") if path.name != "randomness.py"]
MODULES = {"random", "secrets", "uuid", "numpy.random"}
TOKENS = {"guard.py": ["secrets"]}  # of the studio: they belong to no release
FUNCTIONS = {"urandom", "getrandom", "default_rng", "RandomState", "SystemRandom"}


def draws(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name in MODULES]
        if isinstance(node, ast.ImportFrom) and node.module in MODULES:
            found.append(node.module)
        if isinstance(node, ast.Attribute) and node.attr in FUNCTIONS:
            found.append(node.attr)
    return found


def test_no_other_module_draws() -> None:
    assert {path.name: found for path in SOURCES if (found := draws(ast.parse(path.read_text())))} == TOKENS


def test_the_search_finds_what_it_should() -> None:
    assert draws(ast.parse("import secrets\nfrom numpy.random import default_rng\nos.urandom(8)")) == [
        "secrets",
        "numpy.random",
        "urandom",
    ]
