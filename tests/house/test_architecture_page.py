"""The pages for those who carry on name modules that exist; the architecture has all rooms."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "sfumato"
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "project" / "architecture.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("page", "least"), [(PAGE, 20), (GUIDE, 10)], ids=["architecture", "contributing"])
def test_every_module_that_a_page_names_exists(page: str, least: int) -> None:
    named = re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)`", page)
    assert len(named) > least
    assert [path for path in named if not any((base / path).exists() for base in (PACKAGE, ROOT))] == []


def test_every_room_is_on_the_page() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == rooms
