"""Module constants by the package that they belong to: which of its modules defines one is no test's business.

A constant that tests read or set is named with a package, and exactly one module of it must define it. Setting one sets
it wherever it was imported, so that no module keeps on with the former value.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest


def constant(package: str, name: str) -> Any:
    """Return the value of the constant of this name that the package defines."""
    return getattr(import_module(_defining(package, name)), name)


def set_constants(patch: pytest.MonkeyPatch, package: str, **values: object) -> None:
    """Set constants that the package defines, in the modules that define them and in all that import them."""
    for name, value in values.items():
        for module, bound in _holding(package, name):
            patch.setattr(import_module(module), bound, value)


@cache
def _defining(package: str, name: str) -> str:
    """Return the only module of the package that assigns the constant at its top level."""
    found = [module for module, tree in _trees(package, name) if name in _assigned(tree)]
    if len(found) != 1:
        raise LookupError(
            f"{name} is defined by {', '.join(found) or 'no module'} of {package}, not by one. "
            "Name a package in which one module defines it, or give the constant a name of its own."
        )
    return found[0]


@cache
def _holding(package: str, name: str) -> tuple[tuple[str, str], ...]:
    """Return the module that defines the constant and those that import it at their top level, and by which name.

    They are loaded before anything is set: one that is loaded later would keep the value that is set for good.
    """
    held = [(_defining(package, name), name)]
    trees = tuple(_trees(package.partition(".")[0], name))
    for source, known_as in held:  # grows: what is imported can be imported on
        held += [(module, bound) for module, tree in trees for bound in _imported(tree, source, known_as)]
    for module, _ in held:
        import_module(module)
    return tuple(held)


def _assigned(tree: ast.Module) -> set[str]:
    """Return the names that are assigned at the top level."""
    targets: list[ast.expr] = []
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            targets += statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets.append(statement.target)
    return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}


def _imported(tree: ast.Module, source: str, name: str) -> list[str]:
    """Return by which names the name is imported from the module, at the top level."""
    statements = [s for s in tree.body if isinstance(s, ast.ImportFrom) and s.module == source]
    return [alias.asname or name for statement in statements for alias in statement.names if alias.name == name]


def _trees(package: str, name: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield the package's modules in which the name occurs."""
    for module, text in _texts(package):
        if name in text:
            yield module, ast.parse(text)


@cache
def _texts(package: str) -> tuple[tuple[str, str], ...]:
    """Return the names of a package's modules and their sources; none of them is loaded."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise LookupError(f"{package} is no package: what it defines could not move to another module.")
    (folder,) = map(Path, found.submodule_search_locations)
    return tuple(
        (_dotted(package, path.relative_to(folder)), path.read_text()) for path in sorted(folder.rglob("*.py"))
    )


def _dotted(package: str, path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join((package, *(parts[:-1] if parts[-1] == "__init__" else parts)))
