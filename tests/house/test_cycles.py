"""No module of the package needs itself: imports are followed wherever they stand, also inside functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import sfumato

PACKAGE = Path(sfumato.__file__).parent


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Lazy imports count as well: what can only be loaded in one order cannot be read on its own either."""
    assert cycles_of(imports_of(PACKAGE)) == []


def test_a_cycle_through_a_lazy_import_is_found() -> None:
    """The search finds a cycle, and nothing besides."""
    found = cycles_of({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set()})
    assert found == [{"a", "b", "c"}]
    tree = ast.parse("def f():\n    from sfumato.values import text\n")
    assert set(_imported(tree, {"sfumato.values", "sfumato.values.text"})) == {"sfumato.values.text"}


def imports_of(package: Path) -> dict[str, set[str]]:
    """Return the modules that each module imports, at its top or inside a function."""
    files = {_name(package, file): file for file in package.rglob("*.py")}
    trees = {name: ast.parse(file.read_text(encoding="utf-8")) for name, file in files.items()}
    return {name: set(_imported(tree, trees.keys())) - {name} for name, tree in trees.items()}


def cycles_of(imports: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the sets of modules that reach each other."""
    reached = {name: _reached(name, imports) for name in imports}
    circular = [name for name in imports if name in reached[name]]
    sets = {frozenset(other for other in reached[name] if name in reached[other]) for name in circular}
    return sorted(map(set, sets), key=sorted)


def _name(package: Path, file: Path) -> str:
    parts = (package.name, *file.relative_to(package).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(tree: ast.Module, known: set[str] | Mapping[str, object]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from inner & set(known)
            if inner - set(known):
                yield node.module


def _reached(start: str, imports: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    ahead = [start]
    while ahead:
        new = imports[ahead.pop()] - reached
        reached |= new
        ahead += new
    return reached
