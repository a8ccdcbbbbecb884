"""Older manifests state their guarantees in other words, and still verify."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.claims.claim import Shape, differing
from sfumato.claims.wording import REWORDED, todays
from tests.golden.cases import CASES, FILES, table

REWRITTEN = ("anatomy", "suppression", "robust-anatomy", "small-domain", "randomized-response")
UNCHANGED = ("uniform", "fine-grain", "subset, sets", "geometric", "several")


def planned(name: str, folder: Path) -> sf.Plan:
    for file, text in FILES.items():
        (folder / file).write_text(text, encoding="utf-8")
    (folder / "policy.toml").write_text(CASES[name].policy, encoding="utf-8")
    policy = sf.Policy.load(folder / "policy.toml")
    return sf.plan(sf.profile(sf.scan(table(), policy)), policy.method, policy.requirement)


def as_before(text: str) -> str:
    """Return a sentence as it was written before."""
    for before, now in reversed(REWORDED):
        text = text.replace(now, before)
    return text


@pytest.mark.parametrize("name", REWRITTEN)
def test_a_guarantee_in_earlier_words_is_the_same(name: str, tmp_path: Path) -> None:
    plan = planned(name, tmp_path)
    due = plan.claim.guarantee(Shape(plan.mechanisms, plan.figures.total_withheld, plan.computed_from_table))
    before = replace(
        due,
        sentence=as_before(due.sentence),
        prior=as_before(due.prior),
        adversary=as_before(due.adversary),
        limits=tuple(map(as_before, due.limits)),
    )
    assert before != due
    assert differing(before, due) == []
    assert differing(replace(before, sentence=before.sentence + " More."), due) == ["sentence"]


@pytest.mark.parametrize("name", [*REWRITTEN, *UNCHANGED])
def test_todays_words_are_read_as_they_are(name: str, tmp_path: Path) -> None:
    stated = planned(name, tmp_path).guarantee
    assert todays(json.dumps(stated.to_dict())) == json.dumps(stated.to_dict())


def test_every_rewording_is_of_words_that_are_gone() -> None:
    assert all(todays(now) == now and todays(before) == now for before, now in REWORDED)
