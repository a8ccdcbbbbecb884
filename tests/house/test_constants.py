"""Tests read and set a module constant by its package: it may move to another module, and nothing else may be hit."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

from tests.constants import constant, set_constants

TESTS = Path(__file__).parents[1]
NUMBER = iter(range(100))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    """Give a package of its own: `limits` defines a constant, `use` imports it, `again` from there, by another name."""
    name = f"moving{next(NUMBER)}"
    files = {
        "__init__.py": "",
        "limits.py": "MOST = 5\n",
        "use.py": f"from {name}.limits import MOST\n\ndef most():\n    return MOST\n",
        "deeper/__init__.py": "",
        "deeper/again.py": f"from {name}.use import MOST as LEAST\n\ndef least():\n    return LEAST\n",
        "apart.py": f"import {name}.limits\nUPMOST = 7\n",
    }
    for path, text in files.items():
        (tmp_path / name / path).parent.mkdir(exist_ok=True)
        (tmp_path / name / path).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name, tmp_path / name


def test_it_is_set_wherever_it_is_known_and_put_back(package: tuple[str, Path]) -> None:
    name, _ = package
    with pytest.MonkeyPatch.context() as patch:
        set_constants(patch, name, MOST=2, UPMOST=3)
        use, again = import_module(f"{name}.use"), import_module(f"{name}.deeper.again")
        assert (use.most(), again.least(), constant(name, "MOST"), constant(name, "UPMOST")) == (2, 2, 2, 3)
    assert (use.most(), again.least(), constant(name, "MOST"), constant(name, "UPMOST")) == (5, 5, 5, 7)


def test_a_constant_that_moved_is_found(package: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    name, folder = package
    (folder / "limits.py").rename(folder / "deeper" / "bounds.py")
    (folder / "apart.py").unlink()
    use = (folder / "use.py").read_text()
    (folder / "use.py").write_text(use.replace(f"{name}.limits", f"{name}.deeper.bounds"))
    set_constants(monkeypatch, name, MOST=2)
    assert import_module(f"{name}.use").most() == 2


def test_one_module_must_define_it(package: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    name, folder = package
    (folder / "deeper" / "second.py").write_text("MOST: int = 6\n")
    with pytest.raises(LookupError, match=rf"^MOST is defined by {name}\.deeper\.second, {name}\.limits of {name}, "):
        set_constants(monkeypatch, name, MOST=2)
    assert constant(f"{name}.deeper", "MOST") == 6
    with pytest.raises(LookupError, match=rf"^LEAST is defined by no module of {name}, not by one\. Name a package"):
        constant(name, "LEAST")


def test_a_module_is_not_named() -> None:
    with pytest.raises(LookupError, match=r"^sfumato\.engines\.base is no package"):
        constant("sfumato.engines.base", "BATCH_ROWS")


def test_no_test_sets_a_constant_of_a_module() -> None:
    """The paper tests have modules of their own."""
    files = [path for path in TESTS.rglob("*.py") if "papers" not in path.parts and path != Path(__file__)]
    found = [f"{path.relative_to(TESTS)}: {name}" for path in files for name in _set(path.read_text())]
    assert found == []
    assert _set('patch.setattr(tools, "MOST", 3)\nsetattr("sfumato.tools.MOST", 3)') == ["MOST", "sfumato.tools.MOST"]
    assert _set("tools.MOST, name.low = 3, 4") == ["MOST"]


def _set(text: str) -> list[str]:
    """Return the constants that are set by name, or by assigning to an attribute."""
    return [name for node in ast.walk(ast.parse(text)) for name in _set_by(node) if _is_constant(name)]


def _set_by(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        strings = [a.value for a in node.args[:2] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        return strings[:1] if called == "setattr" else []
    targets = node.targets if isinstance(node, ast.Assign) else []
    parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [part.attr for part in parts if isinstance(part, ast.Attribute)]


def _is_constant(name: str) -> bool:
    return (name.startswith("sfumato.") and name.rpartition(".")[2].isupper()) or name.isupper()
