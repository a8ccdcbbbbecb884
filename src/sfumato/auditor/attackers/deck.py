"""Whether the cards of a release are those of the public search, and were not chosen by the table.

What a card stands for is published, and a promise on odds believes that it does not depend on the table. The search
knows nothing but the domain, the bounds and the options of the policy: so it is made again, and compared.

    cards      the same values stand on every card: exactly
    weights    every integer of 2^64 is the same, but for what the arithmetic of another machine may differ by

The integers of a deck follow from gamma in fractions; those of windows and of graded cards from shares that minimize an
error, which floating point knows to about the root of its precision, 1e-8.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from sfumato.auditor.attacker import IN_GROUPS, ONE_MATRIX, Attacker, Listed
from sfumato.auditor.evidence import DoesNotApply, Evidence
from sfumato.auditor.finding import Finding
from sfumato.errors import SfumatoError
from sfumato.methods.method import Method
from sfumato.methods.perturbation import Drawing
from sfumato.methods.several.method import Several
from sfumato.release.manifest import Manifest
from sfumato.values.bound import of_each
from sfumato.values.matrix.base import Matrix
from sfumato.values.mechanism import Mechanism

ROUNDING = 1e-6
"""Relative distance of two integers that the arithmetic of another machine may explain."""
WEIGHTS = ("inside", "outside", "columns")
"""What manifests call the integers of cards; all else that is written of a matrix says what the cards are."""
NO_CARDS = "values are published, not cards."
QUESTIONS = {
    "cards": "Are the cards those of the public search?",
    "weights": "Are the cards drawn with the integers of the public search?",
}
MEASURED = {
    "cards": "the share of card numbers that stand for other values",
    "weights": "the largest relative distance of an integer from that of the search; machines may round differently",
}
ASSUMPTION = "Makes the search again, from the domain, the bounds and the options of the policy: it knows no table."
CHOSEN = "Cards, or weights, that are chosen by the table tell something of it. Publish anew."


def searched(mechanism: Mechanism, method: Method) -> Matrix | SfumatoError:
    """Return the matrix that a method's search gives for the same domain and bounds; or why there is none."""
    if not isinstance(method, Drawing):
        raise DoesNotApply(f"{method.name} has no public search for cards.")
    each = of_each(mechanism.bounds, mechanism.sets)
    gamma = np.array([np.inf if bound.gamma is None else float(bound.gamma) for bound in each])
    try:
        return method.matrix_within(mechanism.domain, mechanism.bounds, mechanism.sets, gamma, np.ones(gamma.size))
    except SfumatoError as problem:
        return problem


def parted(written: Any) -> tuple[Any, list[int]]:
    """Return what is written of a matrix without its integers, and these.

    >>> parted({"deck": {"values": 4, "blocks": [[0, 1]], "inside": "7", "outside": "2"}})
    ({'deck': {'values': 4, 'blocks': [[0, 1]]}}, [7, 2])
    """
    if isinstance(written, dict):
        rest, words = {}, []
        for name, part in written.items():
            if name in WEIGHTS:
                words += [int(word) for word in np.ravel(part).tolist()]
            else:
                rest[name], more = parted(part)
                words += more
        return rest, words
    if isinstance(written, list):
        parts = [parted(part) for part in written]
        return [rest for rest, _ in parts], [word for _, more in parts for word in more]
    return written, []


def differing(own: Matrix, other: Matrix) -> float:
    """Return the share of card numbers that stand for other values in one matrix than in the other."""
    both = range(min(own.outputs, other.outputs))
    same = sum(np.array_equal(own.card(number), other.card(number)) for number in both)
    return 1 - same / max(own.outputs, other.outputs)


def deck_findings(mechanism: Mechanism, method: Method, rows: int) -> Iterator[Finding]:
    """Yield whether the cards are those of the search, and, if they are, whether the weights are."""
    found = searched(mechanism, method)
    if isinstance(found, SfumatoError):
        yield _finding("cards", 1.0, 0.0, rows, True, f"The search finds none: {found.message}")
        return
    # as JSON has it: tuples and numbers of arrays are what they are read as
    (cards, words), (due, expected) = (
        parted(json.loads(json.dumps(matrix.written()))) for matrix in (mechanism.matrix, found)
    )
    share = 0.0 if cards == due else differing(mechanism.matrix, found)
    yield _finding("cards", share, 0.0, rows, cards != due)
    if cards == due:
        pairs = zip(words, expected, strict=True)
        worst = max(abs(word - other) / max(word, other, 1) for word, other in pairs)
        yield _finding("weights", worst, ROUNDING, rows, worst > ROUNDING)


def _finding(about: str, worst: float, allowed: float, rows: int, broken: bool, remark: str = "") -> Finding:
    return Finding(
        attacker="deck",
        question=QUESTIONS[about],
        assumption=ASSUMPTION,
        measured=MEASURED[about],
        worst=worst,
        records=rows,
        at_risk=rows if broken else 0,
        promised=allowed,
        remark=" ".join(filter(None, (remark, CHOSEN if broken else ""))),
        broken=broken,
        about=about,
        scale="chance",
    )


def of_randomized(evidence: Evidence) -> Iterator[Finding]:
    """Yield what is found of the cards, by the method of their columns."""
    if evidence.mechanism.form == "value":
        raise DoesNotApply(NO_CARDS)
    method = evidence.table.policy.method
    own = method.each[evidence.place] if isinstance(method, Several) else method
    return deck_findings(evidence.mechanism, own, evidence.rows)


def publishes_cards(manifest: Manifest) -> bool:
    """Whether some column is published as cards, or as the sets that these stand for."""
    return any(mechanism.form != "value" for mechanism in manifest.mechanisms)


ATTACKER = Attacker(
    name="deck",
    knows="makes the public search for cards again",
    on={"randomized": of_randomized, "response": ONE_MATRIX, "groups": IN_GROUPS},
    public=lambda manifest: Listed(16, covered=True) if publishes_cards(manifest) else None,
    place=19,
    concerns=publishes_cards,
)
