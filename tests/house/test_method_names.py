"""What a method is, its home says: nothing outside `methods` compares names of methods or asks for kinds of plans.

One place may: the reader of a manifest, which tells by the shape what is claimed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import sfumato
from sfumato.methods import METHODS, named

PACKAGE = Path(sfumato.__file__).parent
READER = "release/manifest.py"
NAMES = {method.name for method in METHODS} | {"generalization"}
CLASSES = {method.__name__ for method in METHODS}
OTHER_MEANINGS = {"auditor/attackers/eligibility.py"}
"""Where "uniform" is a prior."""


def found_in(tree: ast.AST) -> Iterator[str]:
    """Give the comparisons with names of methods, by the name itself or by a constant of the module, and `isinstance`.

    Of `isinstance` those that ask a plan or its figures, or for a class of plans or methods.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(map(_names_method, [node.left, *node.comparators])):
            yield ast.unparse(node)
        if isinstance(node, ast.MatchValue) and _names_method(node.value):
            yield f"case {ast.unparse(node)}"
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            asked, kinds = (ast.unparse(argument) for argument in node.args)
            of_plan = asked.split(".")[-1] == "plan" or asked.endswith(("plan.figures", "made.figures"))
            if of_plan or "Plan" in kinds or CLASSES & set(re.findall(r"\w+", kinds)):
                yield ast.unparse(node)


def _names_method(compared: ast.expr) -> bool:
    if isinstance(compared, ast.Tuple | ast.List | ast.Set):
        return any(map(_names_method, compared.elts))
    if isinstance(compared, ast.Name) and compared.id.isupper():
        return compared.id.lower().replace("_", "-") in NAMES
    return isinstance(compared, ast.Constant) and compared.value in NAMES


def all_found(package: Path) -> dict[str, list[str]]:
    files = {path.relative_to(package).as_posix(): path for path in package.rglob("*.py")}
    read = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in files.items()}
    found = {name: list(found_in(tree)) for name, tree in read.items() if not name.startswith("methods/")}
    return {name: lines for name, lines in found.items() if lines}


def test_only_methods_and_the_reader_of_manifests_know_methods_by_name() -> None:
    found = all_found(PACKAGE)
    assert found.keys() - OTHER_MEANINGS == {READER}


# --- one home: nothing else names the methods that were added last ----------------------------------------------------

ADDED = ("subset", "ranges", "plateau", "geometric")
PUBLIC = "__init__.py"
"""The list of public names, which is where users find a method's class."""


def namers(package: Path) -> dict[str, list[str]]:
    """Return the files outside of `methods` that import a home of these, or name them in a text but for docstrings."""
    found: dict[str, list[str]] = {}
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if not name.startswith("methods/") and name != PUBLIC:
            lines = list(_naming(ast.parse(path.read_text(encoding="utf-8"))))
            found |= {name: lines} if lines else {}
    return found


def _naming(tree: ast.AST) -> Iterator[str]:
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and re.search(r"methods\.(ordered|subset)\b", node.module or ""):
            yield node.module or ""
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
        if is_text and set(re.findall(r"[a-z-]+", node.value)) & set(ADDED):
            yield node.value


def test_methods_that_were_added_need_no_file_outside_their_home() -> None:
    assert namers(PACKAGE) == {}
    homes = {Path(import_module(named(name).__module__).__file__ or "").parent.name for name in ADDED}
    assert homes == {"subset", "ordered"}


@pytest.mark.parametrize(
    "planted",
    [
        'WORDS = {"plateau": "..."}',
        "from sfumato.methods.ordered.ranges import Ranges",
        'told = f"choose subset or {x}"',
    ],
)
def test_a_planted_name_is_found(planted: str, tmp_path: Path) -> None:
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "planted.py").write_text(planted, encoding="utf-8")
    assert namers(tmp_path).keys() == {"cli/planted.py"}


@pytest.mark.parametrize(
    "planted",
    [
        'same = manifest.method == "uniform"',
        'grouped = method in ("anatomy", "suppression")',
        "rolled = each.method != GENERALIZATION",
        "match name:\n    case 'small-domain':\n        pass",
        "dealt = isinstance(self.plan, Anything)",
        "plain = isinstance(self.method, Uniform | methods.FineGrain)",
        "dealt = isinstance(made.figures, BucketFigures | ResponseFigures)",
    ],
)
def test_a_planted_one_is_found(planted: str, tmp_path: Path) -> None:
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "planted.py").write_text(planted, encoding="utf-8")
    assert all_found(tmp_path).keys() == {"claims/planted.py"}
