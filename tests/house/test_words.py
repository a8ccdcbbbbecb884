"""What the program says is plain: no text uses a word that readers stumble over, or that says too much."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "sfumato"
NEVER = re.compile(
    r"\bone who\b|\bfor who\b"  # someone who
    r"|\b(?:he|him|his|himself)\b"  # they
    r"|\b(?:is|are) not to be had\b|\byardstick\b|, of which\b|\bwhat is left to believe\b"
    r"|\bsafe(?:ly|ty|st|r)?\b|\banonym\w*"  # nothing is
    r"|\bthereby\b|\bof which value\b",
    re.IGNORECASE,
)
NAMES = ("safe-d", "Safe D")
"""Names of the papers that hold such a word."""
ALLOWED = {
    "claims/wording.py": "it lists the words that older manifests state, to read them in today's",
}
"""Modules that may use them, and why."""


def said(source: str) -> Iterator[tuple[int, str]]:
    """Give each text of a module that may be printed, with its line: its literals, but for docstrings."""
    tree = ast.parse(source)
    silent = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.lineno, node.value


def stumbled_over(source: str) -> list[tuple[int, str]]:
    """Return the words of a module that are never used, with their lines."""
    found = []
    for line, text in sorted(said(source)):
        for name in NAMES:
            text = text.replace(name, "")
        found += [(line, match[0]) for match in NEVER.finditer(text)]
    return found


@pytest.mark.parametrize("room", sorted(path.name for path in PACKAGE.iterdir() if path.is_dir()))
def test_no_text_uses_words_that_are_never_used(room: str) -> None:
    modules = {path.relative_to(PACKAGE).as_posix(): path for path in (PACKAGE / room).rglob("*.py")}
    found = {
        name: words
        for name, path in modules.items()
        if name not in ALLOWED and (words := stumbled_over(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_the_search_finds_them_and_reads_no_docstring() -> None:
    assert stumbled_over('"""One who reads."""\nx = f"for {y}, one who knows"\nz = "safe-d, and safe"') == [
        (2, "one who"),
        (3, "safe"),
    ]
    assert all((PACKAGE / name).is_file() for name in ALLOWED)


def test_only_the_terminal_prints() -> None:
    """Text reaches a terminal through one function, which escapes it."""
    printing = [
        path.relative_to(PACKAGE).as_posix()
        for path in (PACKAGE / "cli").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert printing == []
