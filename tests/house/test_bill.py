"""The bill of materials has what its schema requires, and every package that the code imports."""

from __future__ import annotations

import ast
import json
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

from docs.bill import bill, main, name_of

ROOT = Path(__file__).parents[2]
EXTRAS = ("studio", "sklearn", "spark")
KINDS = {"application", "library"}
SERIAL = re.compile("urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def imported() -> set[str]:
    """Return the packages that the code imports, of others."""
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
            found |= {name.partition(".")[0] for name in names}
    return found - set(sys.stdlib_module_names) - {"sfumato", "pandas", "polars"}  # which tables may come from


@pytest.mark.parametrize("extras", [(), ("studio",), EXTRAS])
def test_it_has_what_the_schema_requires(extras: tuple[str, ...]) -> None:
    made = bill(extras)
    assert (made["bomFormat"], made["specVersion"], made["version"]) == ("CycloneDX", "1.6", 1)
    assert SERIAL.fullmatch(made["serialNumber"])
    parts: list[dict[str, Any]] = [made["metadata"]["component"], *made["components"]]
    for part in parts:
        assert part["type"] in KINDS
        assert part["name"]
        assert part["version"]
        assert part["purl"] == part["bom-ref"] == f"pkg:pypi/{part['name']}@{part['version']}"
        for licence in part.get("licenses", []):
            assert list(licence) == ["expression"] or licence["license"]["name"]
    references = [part["bom-ref"] for part in parts]
    assert len(set(references)) == len(references)
    assert sorted(each["ref"] for each in made["dependencies"]) == sorted(references)
    assert {ref for each in made["dependencies"] for ref in each["dependsOn"]} == set(references[1:])


def test_every_package_that_the_code_imports_is_in_it() -> None:
    known = packages_distributions()
    named = {part["name"] for part in bill(EXTRAS)["components"]}
    missing = {name for name in imported() if not {name_of(own) for own in known[name]} & named}
    assert missing == set()


def test_what_is_for_development_is_not() -> None:
    assert not {"pytest", "hypothesis", "ruff", "mypy", "pandas"} & {part["name"] for part in bill()["components"]}


def test_it_is_the_same_twice_and_names_no_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bill", str(tmp_path / "bill.json"), "studio"])
    main()
    monkeypatch.setattr("sys.argv", ["bill", "-", "studio"])
    main()
    text = (tmp_path / "bill.json").read_text()
    assert text == capsys.readouterr().out
    assert json.loads(text)["components"]
    assert "http" not in text
    assert str(Path.home()) not in text


def test_an_extra_that_is_not_there() -> None:
    with pytest.raises(SystemExit, match="no extra nothing"):
        bill(["nothing"])
