"""Pages that the code writes are as the code says today, and say it of everything that there is."""

from __future__ import annotations

import re

import pytest

import sfumato as sf
from docs.generate import PAGES, ROOT, attackers, commands, errors, names
from docs.generate.markdown import table
from sfumato.auditor.attackers import ROLES
from sfumato.methods import METHODS


@pytest.mark.parametrize("page", PAGES)
def test_a_generated_page_is_as_the_code_says(page: str) -> None:
    committed = (ROOT / page).read_text(encoding="utf-8")
    assert committed == PAGES[page](), f"{page} is out of date: python -m docs.generate"


def test_every_attacker_is_told_by_every_method() -> None:
    rows = re.findall(r"^\| \[(\w+)\]\(#\1\) \|(.*)\|$", attackers.cells(), re.MULTILINE)
    assert {name for name, _ in rows} <= set(ROLES)
    assert {len(cells.split("|")) for _, cells in rows} == {len(METHODS) + 1}  # and several columns
    assert set(re.findall(r"^### (\w+)$", attackers.who(), re.MULTILINE)) == set(attackers.roles())
    assert {cell.strip() for _, cells in rows for cell in cells.split("|")} == set(attackers.SYMBOLS.values())


def test_a_cell_says_what_the_attacker_says_of_the_manifest() -> None:
    """Known cells: two releases are never covered, background knowledge is by uniform and is not by Anatomy."""
    released, roles = attackers.manifests(), attackers.roles()
    assert not any(attackers.verdict(roles["averaging"], manifest) for manifest in released.values())
    assert attackers.verdict(roles["background"], released["uniform"]) is True
    assert attackers.verdict(roles["background"], released["anatomy"]) is False
    assert attackers.verdict(roles["eligibility"], released["uniform"]) is None


def test_every_public_name_every_command_and_every_error_has_its_place() -> None:
    assert re.findall(r"^### (\w+)$", names.page(), re.MULTILINE) == [
        n for some in names.groups().values() for n in some
    ]
    assert sorted(name for some in names.groups().values() for name in some) == sorted(sf.__all__)
    assert {"init", "publish", "verify"} <= set(re.findall(r"^## (\w+)$", commands.page(), re.MULTILINE))
    assert all(f"`{kind.__name__}`" in errors.page() for kind in errors.every())


def test_a_bar_does_not_break_a_table() -> None:
    assert table(("a",), [("x | y",)]) == "| a |\n| --- |\n| x \\| y |\n"
