"""The card that is signed with a plan is the card of the release."""

from __future__ import annotations

from pathlib import Path

import pytest

import sfumato as sf
from tests.golden.cases import CASES, FILES, table

METHODS = ("uniform", "fine-grain", "several", "small-domain", "subset, sets", "randomized-response", "anatomy")


@pytest.mark.parametrize("name", METHODS)
def test_plan_and_release_have_the_same_card(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for file, text in {**FILES, "policy.toml": CASES[name].policy}.items():
        Path(file).write_text(text, encoding="utf-8")
    policy = sf.Policy.load("policy.toml")
    scanned = sf.scan(table(), policy)
    made = sf.plan(sf.profile(scanned), policy.method, policy.requirement)
    Path("plan.json").write_text(made.to_json(), encoding="utf-8")
    released = sf.publish(scanned, made, "release").manifest.card
    assert made.card.rows == released.rows
    assert sf.load_plan("plan.json").card.rows == released.rows
