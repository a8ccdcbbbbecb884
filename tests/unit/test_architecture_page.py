"""The page on the architecture names modules and rooms that exist, and all rooms."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "sfumato"
PAGE = (ROOT / "docs" / "project" / "architecture.md").read_text(encoding="utf-8")


def test_every_module_that_the_page_names_exists() -> None:
    named = re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)`", PAGE)
    assert len(named) > 20
    assert [path for path in named if not any((base / path).exists() for base in (PACKAGE, ROOT))] == []


def test_every_room_is_on_the_page() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == rooms
