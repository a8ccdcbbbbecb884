"""Anatomy: its sentence against every assignment of the values, every deal, and the whole folder, exactly.

The oracle deals as docs/methods/proofs/anatomy.md says: the values in a random order, those of each value too, in turn
to g groups. (Batches come with 16 groups and more.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from sfumato.engines.deal.buckets import Groups, ranked
from sfumato.values.randomness import SecretKey
from tests.enumeration.bayes import Law, alike, assignments, belief, drawn, posteriors
from tests.enumeration.folders import ALARM, chance_to_find, chi_square, planned, policy, published, stated, table

CASES = {"aabbcc": 2, "aabbc": 2, "abcd": 2, "aabcd": 2, "abc": 3, "aabbccd": 3}


def sentence(ell: int) -> str:
    most = {2: "50%", 3: "1/3"}[ell]
    return (
        "For each published record and each disease x: someone who sees the release believes that the record "
        "has x by at most "
        f"{most}."
    )


@cache
def deals(values: str, groups: int) -> Law:
    """Return the law of the published groups: that of each record, and the values of each group."""

    def published_as(lines: Sequence[Sequence[int]]) -> Any:
        group = {record: place % groups for place, record in enumerate(k for line in lines for k in line)}
        members = [sorted(values[k] for k in group if group[k] == g) for g in range(groups)]
        return tuple(group[k] for k in range(len(values))), tuple(map(tuple, members))

    holders = [[k for k, value in enumerate(values) if value == x] for x in sorted(set(values))]
    return drawn(
        published_as(lines) for order in permutations(holders) for lines in product(*(permutations(h) for h in order))
    )


@pytest.mark.parametrize("values", CASES)
def test_the_sentence_holds_and_is_reached(values: str) -> None:
    ell = CASES[values]
    asked = policy(f"l = {ell}", None, "anatomy")
    plan = planned(table(values), asked)
    assert plan.guarantee.sentence == sentence(ell)
    assert plan.guarantee.scope == "single values"
    assert "how records are withheld and groups are made" in plan.guarantee.adversary
    assert "every assignment of the table's values to its records is equally likely" in plan.guarantee.prior
    worst = Fraction(0)
    after = posteriors(
        alike("".join(world) for world in assignments(values)), lambda world: deals(world, plan.figures.groups)
    )
    for (group_of, members), believed in after.items():
        for record, x in product(range(len(values)), set(values)):
            group = members[group_of[record]]
            now = belief(believed, lambda world: world[record] == x)  # noqa: B023
            assert now == Fraction(group.count(x), len(group)) <= Fraction(1, ell)
            worst = max(worst, now)
    assert worst == Fraction(1, ell)


def test_it_holds_too_for_one_who_does_not_know_the_counts() -> None:
    """Any exchangeable prior: tables that cannot be dealt are refused, and the others tell their counts."""
    asked, n, ell = policy("l = 2", None, "anatomy"), 4, 2
    worlds = ["".join(world) for world in product("abc", repeat=n)]
    said_of = {counts: stated(table(sorted(counts)), asked) for counts in {_sorted(world) for world in worlds}}
    said = {world: said_of[_sorted(world)] for world in worlds}  # as the next test shows
    weight = {counts: Fraction(3 + k, 7) for k, counts in enumerate(sorted({_counts(world) for world in worlds}))}

    def release(world: str) -> Law:
        if isinstance(said[world], str):  # refused
            return {said[world]: Fraction(1)}
        return {(said[world], folder): chance for folder, chance in deals(world, n // ell).items()}

    for folder, believed in posteriors({world: weight[_counts(world)] for world in worlds}, release).items():
        if not isinstance(folder, str):
            for record, x in product(range(n), "abc"):
                assert belief(believed, lambda world: world[record] == x) <= Fraction(1, ell)  # noqa: B023


def _sorted(world: str) -> str:
    return "".join(sorted(world))


def _counts(world: str) -> tuple[int, ...]:
    return tuple(world.count(x) for x in "abc")


@pytest.mark.parametrize("values", ["aabc", "aabb"])
def test_what_is_said_is_the_same_for_all_assignments(values: str) -> None:
    asked = policy("l = 2", None, "anatomy")
    assert len({stated(table(world), asked) for world in assignments(values)}) == 1


def test_a_deal_by_file_order_would_be_found() -> None:
    """Records of a value that stand in file order instead of a random one: the belief is then 1, not 1/2."""

    def release(world: str) -> Law:
        line = sorted(range(len(world)), key=lambda k: world[k])
        group = {record: place % 2 for place, record in enumerate(line)}
        members = tuple(tuple(sorted(world[k] for k in group if group[k] == g)) for g in range(2))
        return {(tuple(group[k] for k in range(len(world))), members): Fraction(1)}

    after = posteriors(alike("".join(world) for world in assignments("aabc")), release)
    assert any(belief(believed, lambda world: world[1] == "a") == 1 for believed in after.values())


# --- the law is the one that releases are drawn from ------------------------------------------------------------------


def _dealt(values: str, groups: int, key: SecretKey) -> Any:
    """Deal as the engine does: the same words, without files."""
    codes = np.unique(list(values), return_inverse=True)[1].astype(np.int32)
    counts = np.bincount(codes).astype(np.int64)
    deal = Groups.drawn(counts, np.zeros_like(counts), groups, key)
    group_of = deal.group_of(codes, ranked(codes, 0, key).ranks).tolist()
    members = [sorted(v for v, g in zip(values, group_of, strict=True) if g == group) for group in range(groups)]
    return tuple(group_of), tuple(map(tuple, members))


@pytest.mark.parametrize("values", ["aabbcc", "aabbc"])
def test_releases_are_dealt_like_that(values: str) -> None:
    asked, content = policy("l = 2", None, "anatomy"), table(values)
    plan = planned(content, asked)
    for seed in range(5):
        key = SecretKey.from_seed(seed)
        group_of, members = _dealt(values, plan.figures.groups, key)
        _, _, (data, groups) = published(content, asked, plan, key)
        assert {row["who"]: row["group"] - 1 for row in data} == {f"w{k:02}": g for k, g in enumerate(group_of)}
        lines = Counter((line["group"] - 1, line["disease"]) for line in groups)
        assert lines == Counter((g, v) for g, of_group in enumerate(members) for v in of_group)


@pytest.mark.parametrize("values", ["aabbcc", "aabbc"])
def test_deals_follow_the_law(values: str) -> None:
    """One in ten deals by file order would fail."""
    number, groups = 4000, len(values) // 2
    law = deals(values, groups)
    folders = list(law)
    seen = Counter(_dealt(values, groups, SecretKey.fresh()) for _ in range(number))
    assert set(seen) <= set(folders)
    expected = number * np.array([float(law[folder]) for folder in folders])
    assert chi_square(expected, np.array([seen[folder] for folder in folders]), len(folders) - 1) > ALARM
    in_file_order = 0.9 * expected
    in_file_order[0] += 0.1 * number
    assert chance_to_find(expected, in_file_order, len(folders) - 1) > 0.99
