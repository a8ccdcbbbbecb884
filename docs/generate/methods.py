"""methods/index: every method, what it promises, how strongly, and when not to use it."""

from __future__ import annotations

from docs.generate.attackers import manifests
from docs.generate.cards import promised
from docs.generate.markdown import page as whole
from docs.generate.markdown import sentence, table
from sfumato.claims.claim import STRENGTHS
from sfumato.methods import METHODS, Method

INTRODUCTION = """\
Each method has a page with its card, a picture, an example and when to use it. Claim and proof are one click further.
[Choose](../start/choose.md) asks a few questions and names one of them."""

AFTER = """\
[Several columns](several.md) can each have a method of their own.
[Generalization](generalization.md) is a baseline that `sfumato compare` measures; it is no method to publish by.
[Papers](papers.md) runs every example of the papers again."""


def page() -> str:
    """Return the page."""
    header = ("method", "what it promises", "strength", "do not use it if", "proof")
    return whole("Methods", INTRODUCTION, table(header, map(row, METHODS)), AFTER)


def row(method: type[Method]) -> tuple[str, ...]:
    return (
        f"[`{method.name}`]({method.name}.md)",
        promised(method),
        strength(method),
        sentence(method.avoid_if),
        f"[proof](proofs/{method.name}.md)",
    )


def strength(method: type[Method]) -> str:
    """Return how strong the promise of a release is, with a declared domain."""
    return STRENGTHS[manifests()[method.name].guarantee.strength]
