"""Small domain randomization: its sentence against the adversary that it names, and against the one that it warns of.

The adversary takes the records of a sub-table for independent draws with its shares. The shares are those of the real
plan, the matrices those of the real manifest, all in fractions.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

from sfumato.values.randomness import SecretKey
from tests.enumeration.bayes import Law, alike, assignments, belief, posteriors
from tests.enumeration.folders import ALARM, chance_to_find, chi_square, columns, planned, policy, published, table

RHO = 'rho1 = "1/3"\nrho2 = "2/3"'
RHO2 = Fraction(2, 3)
SENTENCE = (
    "For each protected value x of disease (those with a bound, listed with the matrices): someone who believes "
    "that a record "
    "has x by as much as the share of x in the record's sub-table believes in it by at most 2/3 after seeing the "
    "release."
)
SMALLEST = "minimum_sub_table = 4"
SDR_EXAMPLE = "".join(
    f"{value}" * count for value, count in zip("abcdefghij", [12, 8, 6, 5, 4, 3, 1, 1, 1, 1], strict=True)
)
CASES = {
    "one table": ("aabbccddeeff", SMALLEST),
    "two sub-tables": ("aaabbbccddef", SMALLEST),
    "an unprotected value": ("aaaaaabbccddefg", SMALLEST),
    "SDR Example 1": (SDR_EXAMPLE, SMALLEST),
    "SDR Example 1, as published": (SDR_EXAMPLE, 'assurance = "as-published"'),
}


@cache
def made(name: str) -> tuple[Any, Any]:
    values, options = CASES[name]
    asked = policy(RHO, None, "small-domain", options)
    content = table(values)
    plan = planned(content, asked)
    return plan, published(content, asked, plan)[0]


@pytest.mark.parametrize("name", CASES)
def test_the_sentence_holds_and_is_reached(name: str) -> None:
    plan, manifest = made(name)
    assert plan.guarantee.sentence == SENTENCE
    assert plan.guarantee.scope == "single values"
    worst = Fraction(0)
    for number, (sub_table, quotas) in enumerate(zip(plan.figures.mechanism.tables, plan.figures.quotas, strict=True)):
        codes, records = sub_table.codes.tolist(), int(quotas.sum())
        prior = {(code,): Fraction(int(quota), records) for code, quota in zip(codes, quotas, strict=True)}
        for believed in posteriors(prior, _rows(columns(manifest, 0, number), codes)).values():
            for code in _protected(manifest, number, codes):
                now = belief(believed, lambda world: world[0] == code)  # noqa: B023
                assert now <= RHO2
                worst = max(worst, now)
    assert RHO2 - worst < Fraction(1, 10**12)


def _protected(manifest: Any, number: int, codes: list[int]) -> list[int]:
    bounds = manifest["mechanisms"][0]["sub_tables"][number]["bounds"]
    bounds = bounds * len(codes) if len(bounds) == 1 else bounds
    return [code for code, bound in zip(codes, bounds, strict=True) if bound["gamma"] is not None]


def _rows(matrix: list[list[Fraction]], codes: list[int]) -> Any:
    """Return the law of the published values of some records of one sub-table, whose rows can be told apart."""

    def law(world: tuple[int, ...]) -> Law:
        places = [codes.index(code) for code in world]
        return {
            drawn: prod(matrix[y][x] for y, x in zip(drawn, places, strict=True))
            for drawn in product(range(len(codes)), repeat=len(world))
        }

    return law


def test_the_rows_of_others_tell_nothing_of_a_record() -> None:
    """Two records of a sub-table, independent draws with its shares: the bound is on each of them."""
    plan, manifest = made("two sub-tables")
    codes, quotas = plan.figures.mechanism.tables[0].codes.tolist(), plan.figures.quotas[0]
    share = {code: Fraction(int(q), int(quotas.sum())) for code, q in zip(codes, quotas, strict=True)}
    prior = {world: share[world[0]] * share[world[1]] for world in product(codes, repeat=2)}
    after = posteriors(prior, _rows(columns(manifest, 0, 0), codes))
    for record, code in product((0, 1), codes):
        assert max(belief(b, lambda w: w[record] == code) for b in after.values()) <= RHO2  # noqa: B023


def test_someone_who_knows_the_composition_exceeds_it_as_the_limits_say() -> None:
    """SDR Example 1, the sub-table of six records with six values: 74996/80427 instead of 2/3."""
    plan, manifest = made("SDR Example 1, as published")
    (number,) = (k for k, quotas in enumerate(plan.figures.quotas) if quotas.tolist() == [1] * 6)
    codes, matrix = list(range(6)), columns(manifest, 0, number)
    published_as = tuple(codes)  # a permutation: every value once
    law = {w: prod(matrix[y][x] for y, x in zip(published_as, w, strict=True)) for w in assignments(codes)}
    after = posteriors(alike(law), lambda w: {published_as: law[w]})[published_as]
    worst = belief(after, lambda w: w[0] == 0)
    assert abs(worst - Fraction(74996, 80427)) < Fraction(1, 10**12)
    gamma = Fraction(10)
    assert worst / (1 - worst) <= Fraction(1, 5) * gamma**2
    assert any("how many records of a sub-table have each value" in limit for limit in plan.guarantee.limits)


def test_releases_follow_the_law() -> None:
    """Published values by sub-table and true value: 5% more retained would fail."""
    values = "".join(
        value * count
        for value, count in zip("abcdefgh", [13500, 10500, 7500, 4500, 3000, 3000, 1500, 1500], strict=True)
    )
    asked = policy('rho1 = "1/3"\nrho2 = "1/2"', None, "small-domain", "minimum_sub_table = 4500")
    content = table(values)
    plan = planned(content, asked)
    manifest, _, (data,) = published(content, asked, plan, SecretKey.fresh())
    assert len(plan.figures.quotas) > 1
    true = dict(zip(content.column("who").to_pylist(), values, strict=True))
    seen = Counter((row["sub_table"], true[row["who"]], row["disease"]) for row in data)
    expected, other, counted, freedom = [], [], [], 0
    for number, (sub_table, quotas) in enumerate(zip(plan.figures.mechanism.tables, plan.figures.quotas, strict=True)):
        matrix = np.array([[float(p) for p in row] for row in columns(manifest, 0, number)])
        labels = ["abcdefgh"[code] for code in sub_table.codes]
        counts = np.array([[seen[number + 1, x, y] for x in labels] for y in labels])
        assert counts.sum(axis=0).tolist() == quotas.tolist()
        expected.append(matrix * quotas)
        other.append((0.95 * matrix + 0.05 * np.eye(len(matrix))) * quotas)
        counted.append(counts)
        freedom += len(labels) * (len(labels) - 1)
    flat = [np.concatenate([part.ravel() for part in parts]) for parts in (expected, other, counted)]
    assert chi_square(flat[0], flat[2], freedom) > ALARM
    assert chance_to_find(flat[0], flat[1], freedom) > 0.99
