"""Randomized response: each of its three risks as the experiment that its sentence tells, enumerated exactly.

A row is drawn from the table's own distribution, published by the integer matrices of the real manifest, and looked at
by the adversary of the sentence. AD Table 1: 72 men and 28 women with three illnesses; besides, two quasi-identifiers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy
from tests.enumeration.bayes import Law, belief, posteriors
from tests.enumeration.folders import ALARM, chance_to_find, chi_square, columns, planned, published

CLINIC = {("M",): (20, 30, 22), ("F",): (12, 8, 8)}
REGIONS = {
    ("M", "n"): (10, 16, 9), ("M", "s"): (10, 14, 13), ("F", "n"): (7, 3, 4), ("F", "s"): (5, 5, 4),
}  # fmt: skip
QUASI = {1: ("sex",), 2: ("sex", "region")}
ILLNESSES = ("cancer", "flu", "gout")
POSTERIOR = (
    "For each combination of {quasi} that can be published and each illness x: someone who sees that a row is "
    "published with "
    "the combination believes that its true value is x by at most 40%."
)
LINK = (
    "For each record and its illness x: the expected share of the true value x among rows that are published with the "
    "same {quasi} as the record (expected rows with x over expected rows), averaged over what the record is published "
    "with, is at most 40%."
)
RECONSTRUCTION = (
    "For each {quasi} and each illness x that occur together: that a person with these quasi-identifiers has x, and "
    "that drawing first the true quasi-identifiers and then the true value of its published row gives these and x, has "
    "a probability (AD Eq. (6)) of at most 30%."
)


@dataclass(frozen=True)
class Case:
    risk: str
    rows: Any
    sentence: str
    limit: Fraction
    strength: str

    @property
    def quasi(self) -> tuple[str, ...]:
        return QUASI[len(next(iter(self.rows)))]


LIMIT = Fraction(2, 5)
OWN = "this table's own risk"
CASES = {
    "posterior": Case("posterior", CLINIC, POSTERIOR, LIMIT, OWN),
    "posterior, two columns": Case("posterior", REGIONS, POSTERIOR, LIMIT, OWN),
    "link": Case("link", CLINIC, LINK, LIMIT, OWN),
    "link, two columns": Case("link", REGIONS, LINK, LIMIT, OWN),
    "reconstruction": Case("reconstruction", CLINIC, RECONSTRUCTION, Fraction(3, 10), "as published"),
    "reconstruction, two columns": Case("reconstruction", REGIONS, RECONSTRUCTION, Fraction(3, 10), "as published"),
}
Cell = tuple[tuple[str, ...], str]


class Worlds:
    """The table's distribution, and the matrices that a real release is drawn with."""

    def __init__(self, name: str, times: int = 1, key: SecretKey | None = None) -> None:
        case = CASES[name]
        self.case = case
        cells = [(a, u, n * times) for a, counts in case.rows.items() for u, n in zip(ILLNESSES, counts, strict=True)]
        rows = [(*a, u) for a, u, n in cells for _ in range(n)]
        named = dict(zip((*case.quasi, "illness"), map(list, zip(*rows, strict=True)), strict=True))
        self.content = pa.table(named | {"n": list(range(len(rows)))})
        roles = dict.fromkeys(case.quasi, "quasi_identifier") | {
            "illness": "sensitive",
            "n": "other",
        }
        assured = "" if case.risk != "reconstruction" else '\nassurance = "as-published"'
        asked = make_policy(
            roles, f'risk_limit = "{case.limit}"', "randomized-response", options=f'risk = "{case.risk}"{assured}'
        )
        self.plan = planned(self.content, asked)
        self.manifest, _, (self.data,) = published(self.content, asked, self.plan, key)
        self.total = len(rows)
        self.share = {(a, u): Fraction(n, self.total) for a, u, n in cells}
        self.matrices = {}
        for place, mechanism in enumerate(self.manifest["mechanisms"]):
            (domain,) = mechanism["domain"]
            self.matrices[domain["name"]] = (domain["values"], columns(self.manifest, place))

    def chance(self, column: str, true: str, shown: str) -> Fraction:
        """Return Pr[true -> shown] of one column; what is not randomized stays."""
        if column not in self.matrices:
            return Fraction(true == shown)
        values, matrix = self.matrices[column]
        return matrix[values.index(shown)][values.index(true)]

    def shown(self, true: tuple[str, ...]) -> Law:
        """Return the law of the published quasi-identifiers."""
        combinations = product(*(sorted({a[k] for a in self.case.rows}) for k in range(len(true))))
        return {
            b: prod((self.chance(c, x, y) for c, x, y in zip(self.case.quasi, true, b, strict=True)), start=Fraction(1))
            for b in combinations
        }

    @property
    def seen(self) -> dict[Any, dict[Cell, Fraction]]:
        """What is believed of a row's true cell by someone who sees its published quasi-identifiers."""
        return posteriors(self.share, lambda cell: self.shown(cell[0]))


@cache
def worlds(name: str) -> Worlds:
    return Worlds(name)


def largest_risk(found: Worlds) -> Fraction:
    """Carry out the experiment of the sentence, and return its largest probability."""
    seen = found.seen
    if found.case.risk == "posterior":
        return max(belief(b, lambda cell: cell[1] == u) for b in seen.values() for u in ILLNESSES)  # noqa: B023
    if found.case.risk == "link":
        return max(
            sum(chance * belief(seen[b], lambda cell: cell[1] == u) for b, chance in found.shown(a).items())  # noqa: B023
            for a, u in found.share
        )
    return max(_reconstructed(found, seen, a, u) for a, u in found.share)


def _reconstructed(found: Worlds, seen: Any, a: tuple[str, ...], u: str) -> Fraction:
    """The person has u; the quasi-identifiers drawn given the published ones are a; then u is drawn given the rest."""
    own = sum(share for (cell, _), share in found.share.items() if cell == a)
    linked = sum(p * belief(seen[b], lambda cell: cell[0] == a) for b, p in found.shown(a).items())
    guessed = Fraction(0)
    for v in ILLNESSES:
        weights = {w: found.share[a, w] * found.chance("illness", w, v) for w in ILLNESSES}
        if weights[u]:
            guessed += found.chance("illness", u, v) * weights[u] / sum(weights.values())
    return found.share[a, u] / own * linked * guessed


@pytest.mark.parametrize("name", CASES)
def test_the_sentence_holds_and_the_limit_is_nearly_used(name: str) -> None:
    found = worlds(name)
    guarantee = found.plan.guarantee
    assert guarantee.sentence == found.case.sentence.format(quasi=", ".join(found.case.quasi))
    assert guarantee.strength == found.case.strength
    assert guarantee.scope == "single values"
    assert guarantee.prior == "The table's own distribution: how many records have each combination of values."
    worst = largest_risk(found)
    assert worst <= found.case.limit
    assert worst > found.case.limit * Fraction(9, 10)  # matrices are on a grid of two digits


@pytest.mark.parametrize("name", ["posterior", "link"])
def test_less_noise_would_break_it(name: str) -> None:
    """The table as it is, without noise, is above the limit: the sentence says something."""
    found = worlds(name)
    bare = Worlds(name)
    bare.matrices = {}
    assert largest_risk(bare) > found.case.limit >= largest_risk(found)


def test_someone_who_sees_the_whole_row_knows_the_value_as_the_limits_say() -> None:
    found = worlds("posterior")
    assert "illness" not in found.matrices
    true = dict(zip(found.content.column("n").to_pylist(), found.content.column("illness").to_pylist(), strict=True))
    assert all(row["illness"] == true[row["n"]] for row in found.data)
    assert any("published untouched: every row shows the true one" in limit for limit in found.plan.guarantee.limits)


def test_t10_the_matrices_tell_of_the_table_and_that_is_listed() -> None:
    found = worlds("posterior")
    assert found.manifest["discloses_frequencies"]
    assert any(fact.startswith("the matrices") for fact in found.manifest["computed_from_table"])


def test_releases_follow_the_law() -> None:
    """Published by true quasi-identifiers, of 40,000 rows: 5% more retained would fail."""
    found = Worlds("posterior, two columns", 400, SecretKey.fresh())
    true = dict(
        zip(
            found.content.column("n").to_pylist(),
            zip(*(found.content.column(c).to_pylist() for c in found.case.quasi), strict=True),
            strict=True,
        )
    )
    seen = Counter((true[row["n"]], tuple(row[c] for c in found.case.quasi)) for row in found.data)
    groups = Counter(true.values())
    pairs = [(a, b) for a in groups for b in found.shown(a)]
    expected = np.array([groups[a] * float(found.shown(a)[b]) for a, b in pairs])
    other = 0.95 * expected + 0.05 * np.array([groups[a] * (a == b) for a, b in pairs])
    freedom = len(groups) * (len(groups) - 1)
    assert chi_square(expected, np.array([seen[pair] for pair in pairs]), freedom) > ALARM
    assert chance_to_find(expected, other, freedom) > 0.99
