"""The list of attackers: each says all that the audit, the reports and the handbook need to know of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sfumato.auditor.attacker import KINDS, LAST, Attacker
from sfumato.auditor.attackers import ATTACKERS, ROLES

HANDBOOK = Path(__file__).parents[2] / "docs" / "review" / "audit.md"


def test_every_attacker_has_a_name_and_a_place_of_its_own() -> None:
    names, places = ([getattr(attacker, of) for attacker in ATTACKERS] for of in ("name", "place"))
    assert len(set(names)) == len(names)
    assert places == sorted(set(places))
    assert max(places) < LAST


@pytest.mark.parametrize("attacker", ATTACKERS, ids=lambda attacker: attacker.name)
def test_an_attacker_knows_all_kinds_of_release(attacker: Attacker) -> None:
    """Where columns have mechanisms of their own, it may be as on one of them, column by column."""
    assert set(attacker.on) | {"several"} == set(KINDS)
    reasons = [how for how in attacker.on.values() if isinstance(how, str)]
    assert not any(reason.endswith(".") for reason in reasons), "the audit ends the sentence"
    assert len(reasons) < len(KINDS)
    assert all(attacker.on[kind] and not isinstance(attacker.on[kind], str) for kind in attacker.promised)


def test_words_for_public_pages_have_no_figures() -> None:
    for role in ROLES.values():
        assert not re.search(r"\d", role.knows), role.name
        assert role.why_not_covered.endswith("."), role.name


def test_the_handbook_names_all_attackers() -> None:
    lines = re.findall(r"^\| ([a-z, ]+?) \|", HANDBOOK.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(ROLES) <= {name for line in lines for name in line.split(", ")}
