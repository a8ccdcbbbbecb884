"""Every error says what to do: it is made with a hint, or by what names a remedy for each place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import sfumato
from sfumato import errors

SOURCE = Path(sfumato.__file__).parent
ERRORS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
NAMING = ("explained(problem", "'; '.join(reasons)")
"""Lists of what is wrong with a policy, each with its remedy beside it."""


def without_hint(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in ERRORS:
            continue
        message = ast.unparse(node.args[0]) if node.args else ""
        is_named = any(naming in message for naming in NAMING) or isinstance(node.args[0], ast.Starred)
        if len(node.args) == 1 and not node.keywords and not is_named:
            yield f"line {node.lineno}: {message}"


def test_every_error_has_a_hint() -> None:
    files = SOURCE.rglob("*.py")
    found = [f"{file.name}, {line}" for file in files for line in without_hint(file.read_text(encoding="utf-8"))]
    assert found == []


def test_an_error_without_one_is_found() -> None:
    assert list(without_hint("raise UsageError('wrong')")) == ["line 1: 'wrong'"]
