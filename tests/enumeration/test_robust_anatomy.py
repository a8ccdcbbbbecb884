"""Robust Anatomy: its sentences against every table that the prior allows, every order of the secret words, exactly.

Groups depend on the records' values and on the order of their secret words alone, and all orders are equally likely:
the law of the release is found by going through all of them with the real deal. Records with the same sex are alike
beforehand; how many of them have each value is known, or believed in any way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import permutations, product
from math import prod
from typing import Any

import numpy as np
import pytest

from sfumato.methods.robustness.grouping import group_records
from sfumato.methods.robustness.rehearsal import _different_words
from sfumato.values.randomness import SecretKey
from tests.enumeration.bayes import Law, alike, assignments, belief, drawn, posteriors
from tests.enumeration.folders import ALARM, chance_to_find, chi_square, planned, policy, published, stated, table

SETS = 'attribute_sets = [["sex"]]'
ASKED = policy("r = 2", "abc", "robust-anatomy", SETS, known=["sex"])
HALF = Fraction(1, 2)
OF_A_RECORD = (
    "For each published record and each disease x: someone who sees the release believes that the record has x "
    "by at most 50%"
)
TABLES = {"two cells": ("FFMM", "abbc"), "one withheld": ("FFFMM", "aabbc"), "one cell": ("FFFFF", "aabbc")}


@cache
def law(sexes: str, values: str) -> Law:
    """Return the law of the published groups: that of each record, or -1, and the values of each group."""
    return drawn(_grouped(sexes, values, order) for order in permutations(range(len(values))))


def _grouped(sexes: str, values: str, order: Sequence[int]) -> Any:
    cells, codes = np.array(["FM".index(s) for s in sexes]), np.array(["abc".index(v) for v in values])
    cells = np.unique(cells, return_inverse=True)[1]
    groups = group_records(cells, codes, [cells], np.array(order), 2).tolist()
    members = [
        sorted(v for v, g in zip(values, groups, strict=True) if g == number) for number in range(max(groups) + 1)
    ]
    return tuple(groups), tuple(map(tuple, members))


def _within_cells(sexes: str, values: str) -> list[str]:
    """Return every table with the same values among the records of each sex."""
    cells = [[k for k, sex in enumerate(sexes) if sex == cell] for cell in sorted(set(sexes))]
    found = []
    for ways in product(*(assignments([values[k] for k in cell]) for cell in cells)):
        placed = {k: v for cell, way in zip(cells, ways, strict=True) for k, v in zip(cell, way, strict=True)}
        found.append("".join(placed[k] for k in range(len(sexes))))
    return found


@pytest.mark.parametrize("name", TABLES)
def test_the_sentence_holds_for_any_prior_by_the_known_columns_and_is_reached(name: str) -> None:
    sexes, values = TABLES[name]
    content = table(values, sex=list(sexes))
    plan = planned(content, ASKED)
    assert plan.guarantee.sentence == f"{OF_A_RECORD}, whatever they knew beforehand of how disease depends on sex."
    assert "records that agree in all of them are alike" in plan.guarantee.prior
    assert "how records are withheld and groups are made" in plan.guarantee.adversary
    worst = Fraction(0)
    for (groups, members), believed in posteriors(alike(_within_cells(sexes, values)), lambda w: law(sexes, w)).items():
        for record, x in product(range(len(values)), "abc"):
            if groups[record] >= 0:
                group = members[groups[record]]
                now = belief(believed, lambda world: world[record] == x)  # noqa: B023
                assert now == Fraction(group.count(x), len(group)) <= HALF
                worst = max(worst, now)
    assert worst == HALF


def test_it_holds_whatever_is_believed_of_how_values_depend_on_sex() -> None:
    """How many men and women have each value is not known: women tend to have a, and men c."""
    sexes = "FFMM"
    weight = {"F": {"a": 7, "b": 2, "c": 1}, "M": {"a": 1, "b": 3, "c": 6}}
    worlds = ["".join(world) for world in product("abc", repeat=4)]
    prior = {w: Fraction(prod(weight[s][v] for s, v in zip(sexes, w, strict=True)), 10**4) for w in worlds}
    said = {w: stated(table(w, sex=list(sexes)), ASKED) for w in {"".join(sorted(w)) for w in worlds}}

    def release(world: str) -> Law:
        if isinstance(said["".join(sorted(world))], str):  # refused: a value has more than half of the records
            return {"refused": Fraction(1)}
        return law(sexes, world)

    for folder, believed in posteriors(prior, release).items():
        if folder != "refused":
            for record, x in product(range(4), "abc"):
                if folder[0][record] >= 0:  # type: ignore[index]
                    assert belief(believed, lambda world: world[record] == x) <= HALF  # noqa: B023


def test_someone_who_knows_who_is_withheld_learns_of_them_as_the_limits_say() -> None:
    sexes, values = TABLES["one withheld"]
    plan = planned(table(values, sex=list(sexes)), ASKED)
    after = posteriors(alike(_within_cells(sexes, values)), lambda w: law(sexes, w))
    missing = {
        belief(believed, lambda world: world[record] == "a")  # noqa: B023
        for (groups, _), believed in after.items()
        for record in range(3)
        if groups[record] < 0
    }
    assert missing == {Fraction(1)}
    assert any("missing from the release has a value that is too frequent" in limit for limit in plan.guarantee.limits)


@pytest.mark.parametrize("name", TABLES)
def test_what_is_said_is_the_same_for_all_assignments(name: str) -> None:
    sexes, values = TABLES[name]
    worlds = _within_cells(sexes, values)[::3]
    assert len({stated(table(world, sex=list(sexes)), ASKED) for world in worlds}) == 1


# --- with a prior: one group at a time --------------------------------------------------------------------------------


def by_group(shares: dict[str, dict[str, Fraction]], signatures: Sequence[str], values: Sequence[str]) -> Fraction:
    """Return the largest belief in a value of a member, by PI Eqs. (1)-(3): over all possible worlds."""
    weights = {
        world: prod((shares[s].get(v, Fraction(0)) for s, v in zip(signatures, world, strict=True)), start=Fraction(1))
        for world in set(permutations(values))
    }
    total = sum(weights.values())
    held = product(range(len(values)), set(values))
    return max(sum((w for world, w in weights.items() if world[k] == x), Fraction(0)) / total for k, x in held)


def _shares(sexes: str, values: str) -> dict[str, dict[str, Fraction]]:
    found = {}
    for sex in set(sexes):
        here = [v for s, v in zip(sexes, values, strict=True) if s == sex]
        found[sex] = {v: Fraction(n, len(here)) for v, n in Counter(here).items()}
    return found


def _released(sexes: str, values: str, asked: Any, seed: int) -> tuple[Any, list[tuple[list[str], list[str]]]]:
    """Return the plan and, of each group of a real release, the signatures and the values."""
    content = table(values, sex=list(sexes))
    plan = planned(content, asked)
    _, _, (data, lines) = published(content, asked, plan, SecretKey.from_seed(seed))
    groups = sorted({row["group"] for row in data})
    members = {g: [row["sex"] for row in data if row["group"] == g] for g in groups}
    held = {g: [line["disease"] for line in lines if line["group"] == g for _ in range(line["count"])] for g in groups}
    return plan, [(members[g], held[g]) for g in groups]


WITH_GUESTS = ("FFFFFFFMMMMMM", "cabcaaabbbcaa")


def test_groups_with_guests_keep_the_bound_one_by_one() -> None:
    sexes, values = WITH_GUESTS
    asked = policy("r = 2", "abc", "robust-anatomy", f'{SETS}\nprior = "table"', known=["sex"])
    guests = 0
    for seed in range(6):
        plan, groups = _released(sexes, values, asked, seed)
        assert plan.guarantee.sentence == (
            f"{OF_A_RECORD}, if they knew beforehand how likely each value is given sex: by PI Eqs. (1)-(3), "
            f"one set at "
            "a time."
        )
        assert plan.guarantee.prior == "The table's own shares of each disease among the records with the same (sex)."
        assert "reasons from each published group by itself" in plan.guarantee.adversary
        for signatures, held in groups:
            guests += len(set(signatures)) > 1
            assert by_group(_shares(sexes, values), signatures, held) <= HALF
    assert guests


def test_merged_groups_keep_within_what_is_said_as_published() -> None:
    sexes, values = WITH_GUESTS
    options = f'{SETS}\nprior = "table"\nassurance = "as-published"'
    asked = policy("r = 2", "abc", "robust-anatomy", options, known=["sex"])
    for seed in range(6):
        plan, groups = _released(sexes, values, asked, seed)
        assert plan.guarantee.sentence == (
            "No belief is bounded by 50%. Each published group meets the Delta condition of PI Eq. (4) for disease "
            "given sex; in a group of N records this keeps the belief that one of them has a value, by PI Eqs. "
            "(1)-(3), within (N-1)/(N-1 + 1)."
        )
        assert plan.guarantee.strength == "as published"
        for signatures, held in groups:
            n = len(held)
            assert by_group(_shares(sexes, values), signatures, held) <= max(HALF, Fraction(n - 1, n))


# --- the law is the one that releases are drawn from ------------------------------------------------------------------


def _dealt(sexes: str, values: str, key: SecretKey) -> Any:
    words = _different_words(key, len(values))
    return _grouped(sexes, values, np.argsort(np.argsort(words)).tolist())


@pytest.mark.parametrize("name", TABLES)
def test_releases_are_dealt_like_that(name: str) -> None:
    sexes, values = TABLES[name]
    content = table(values, sex=list(sexes))
    plan = planned(content, ASKED)
    for seed in range(4):
        key = SecretKey.from_seed(seed)
        groups, members = _dealt(sexes, values, key)
        _, _, (data, lines) = published(content, ASKED, plan, key)
        assert {row["who"]: row["group"] - 1 for row in data} == {f"w{k:02}": g for k, g in enumerate(groups) if g >= 0}
        told = Counter({(line["group"] - 1, line["disease"]): line["count"] for line in lines})
        assert told == Counter((g, v) for g, of_group in enumerate(members) for v in of_group)


def test_deals_follow_the_law() -> None:
    """One in ten deals by file order would fail."""
    sexes, values = TABLES["one cell"]
    number, expected_law = 3000, law(sexes, values)
    folders = list(expected_law)
    seen = Counter(_dealt(sexes, values, SecretKey.fresh()) for _ in range(number))
    assert set(seen) <= set(folders)
    expected = number * np.array([float(expected_law[folder]) for folder in folders])
    assert chi_square(expected, np.array([seen[folder] for folder in folders]), len(folders) - 1) > ALARM
    in_file_order = 0.9 * expected
    in_file_order[folders.index(_grouped(sexes, values, range(len(values))))] += 0.1 * number
    assert chance_to_find(expected, in_file_order, len(folders) - 1) > 0.99
