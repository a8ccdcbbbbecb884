"""Suppression: its sentences against every way to give the counts to the values, every draw, and the whole folder.

The oracle draws as docs/methods/proofs/suppression.md says: equally frequent values in a random order; the slots;
S_1 .. S_k to random ones of the first l. Which values are most frequent, and which record has which value, are two
questions: the first is asked of labelled histograms, the second of tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import pytest

from sfumato.methods.suppression.suppress import suppress
from sfumato.values.randomness import SecretKey, Step
from tests.enumeration.bayes import Law, alike, assignments, belief, drawn, mixed, posteriors
from tests.enumeration.folders import ALARM, chance_to_find, chi_square, planned, policy, published, stated, table
from tests.enumeration.test_anatomy import deals

VALUES = "abcde"
Counts = tuple[int, ...]


# --- the oracle -------------------------------------------------------------------------------------------------------


def violating(counts: Counts, ell: int) -> int:
    return sum(ell * count > sum(counts) for count in counts)


def _capped(slots: Sequence[int], ell: int) -> list[int]:
    cap = max(level for level in range(max(slots) + 1) if ell * level <= sum(min(w, level) for w in slots))
    return [min(w, cap) for w in slots]


def _slots(ranked: Sequence[int], ell: int, variant: str, moved: int) -> list[int]:
    """Return the published counts by slot: F_{i+k-b}, capped; 0-based here."""
    if variant == "safe-d":
        return [min(count, ranked[ell - 1]) for count in ranked]
    before = [i * moved // ell if variant == "spread" else max(0, i + moved - ell) for i in range(1, ell + 1)]
    return _capped([ranked[i + moved - b - 1] for i, b in enumerate(before, start=1)] + list(ranked[ell:]), ell)


def _seats(ell: int, variant: str, moved: int) -> list[tuple[int, ...]]:
    """Return the equally likely slots of S_1 .. S_k, in their order."""
    if variant == "rotation":
        return list(permutations(range(ell), moved))
    shifts = [[j for j in range(ell) if (j * moved + u) // ell < ((j + 1) * moved + u) // ell] for u in range(ell)]
    return [order for chosen in shifts for order in permutations(chosen)]


@cache
def kept(counts: Counts, ell: int, variant: str, always: bool) -> Law:
    """Return the law of (the published counts, S_1): who is called S_1 among equals is drawn too."""
    moved = max(violating(counts, ell), int(always))
    ranks = [o for o in permutations(range(len(counts))) if [counts[x] for x in o] == sorted(counts, reverse=True)]
    if not moved:
        return drawn((counts, order[0]) for order in ranks)

    def outcomes() -> Any:
        for order in ranks:
            slots = _slots([counts[x] for x in order], ell, variant, moved)
            for seats in [()] if variant == "safe-d" else _seats(ell, variant, moved):
                taken = dict(zip(seats, order[: len(seats)], strict=True))
                others = iter(order[len(seats) :])
                published_as = {taken[slot] if slot in taken else next(others): w for slot, w in enumerate(slots)}
                yield tuple(published_as[x] for x in range(len(counts))), order[0]

    return drawn(outcomes())


# --- which values are frequent ----------------------------------------------------------------------------------------

OF_A_RECORD = (
    "For each published record and each disease x: someone who sees the release believes that the record has x "
    "by at most"
)
DOMINANT = (
    "hat x is the most frequent value (of equally frequent ones, one drawn at random) is believed by at most {most}."
)
VIOLATING = (
    "If k values have more than {most} of the table, that x is one of them is believed by at most k/{ell} by someone "
    "who knows k; by someone who does not, by at most the k that they expect, divided by {ell}."
)
JOINT = (
    "For every table, also one with nothing withheld: that x is the most frequent value and has more than "
    "{most} of the table is believed by at most {most}."
)
SKEWED = "Some value has more than {most} of the table (that is public)."
PUBLIC = (
    "No value has more than {most} of the records. Nothing is withheld, all counts are exact, and which value is the "
    "most frequent is public."
)
MOST = {2: "50%", 3: "1/3", 4: "25%"}


def sentence(ell: int, withheld: bool, always: bool) -> str:
    """Return what has to be said."""
    if always:
        parts = [f"For every table: t{DOMINANT}", VIOLATING]
    else:
        parts = [SKEWED, f"T{DOMINANT}", VIOLATING, JOINT] if withheld else [PUBLIC, JOINT]
    return " ".join([f"{OF_A_RECORD} {{most}}.", *parts]).format(most=MOST[ell], ell=ell)


def _histograms(n: int, m: int) -> list[Counts]:
    """Return every way to give n records to m values, each at least one."""
    return [
        tuple(b - a for a, b in zip((0, *cuts), (*cuts, n), strict=True)) for cuts in combinations(range(1, n), m - 1)
    ]


SETTINGS = [(8, 4, 3), (7, 3, 2), (7, 4, 4), (9, 4, 3)]  # n, m, l
PROVED = [("rotation", False), ("rotation", True), ("spread", False), ("safe-d", False), ("safe-d", True)]


@pytest.mark.parametrize(("variant", "always"), PROVED)
@pytest.mark.parametrize(("n", "m", "ell"), SETTINGS)
def test_what_is_believed_of_the_values(n: int, m: int, ell: int, variant: str, always: bool) -> None:
    """Everybody sees the published counts and how many records are withheld; all labelled tables are alike beforehand.

    Then for someone who knows the sorted counts, and so k and more.
    """
    every = _histograms(n, m)
    known = {tuple(sorted(counts)): [c for c in every if sorted(c) == sorted(counts)] for counts in every}
    reached = Fraction(0)
    for worlds in (every, *known.values()):
        prior = {(c, s): w * p for c, w in alike(worlds).items() for s, p in _first(c).items()}
        for (kept_as, _), believed in posteriors(prior, lambda w: _folder(w, ell, variant, always)).items():
            withheld = n - sum(kept_as) > 0
            expected = sum((p * violating(c, ell) for (c, _), p in believed.items()), Fraction(0))
            for x in range(m):
                dominant = belief(believed, lambda w: w[1] == x)  # noqa: B023
                both = belief(believed, lambda w: w[1] == x and ell * w[0][x] > n)  # noqa: B023
                frequent = belief(believed, lambda w: ell * w[0][x] > n)  # noqa: B023
                assert both <= Fraction(1, ell)
                assert frequent <= expected / ell
                if withheld or always:
                    assert dominant <= Fraction(1, ell)
                    reached = max(reached, dominant)
    assert reached == Fraction(1, ell)


def _first(counts: Counts) -> Law:
    """Return who is S_1: of equally frequent values one drawn at random."""
    return alike([x for x in range(len(counts)) if counts[x] == max(counts)])


def _folder(world: tuple[Counts, int], ell: int, variant: str, always: bool) -> Law:
    """Return the law of the published counts given the table and who is S_1 in it; how many are withheld is public."""
    counts, first = world
    law = {k: p for (k, s), p in kept(counts, ell, variant, always).items() if s == first}
    total = sum(law.values())
    return {(k, sum(counts) - sum(k)): p / total for k, p in law.items()}


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize(("values", "ell"), [("aaaabbc", 2), ("aaabbcc", 2), ("aaaabbcd", 3), ("aabbccdd", 3)])
def test_the_sentence_is_that_one(values: str, ell: int, always: bool) -> None:
    plan = planned(table(values), _asked(ell, "rotation", always))
    counts = tuple(Counter(values).values())
    assert plan.guarantee.sentence == sentence(ell, violating(counts, ell) > 0, always)
    assert plan.guarantee.strength == "one stated prior"
    if violating(counts, ell) or always:
        assert "every way to give the same counts to the values is equally likely" in plan.guarantee.prior


def _asked(ell: int, variant: str, always: bool) -> Any:
    options = f'variant = "{variant}"' + ("\nalways = true" if always else "")
    return policy(f"l = {ell}", None, "suppression", options)


def test_t2_which_value_is_the_most_frequent_is_public_where_nothing_is_withheld() -> None:
    """Counts 4, 3, 3 and l = 2: the counts are published, and the belief is 1."""
    prior = {(c, s): w * p for c, w in alike(_histograms(10, 3)).items() for s, p in _first(c).items()}
    after = posteriors(prior, lambda w: _folder(w, 2, "rotation", False))
    assert belief(after[(4, 3, 3), 0], lambda w: w[1] == 0) == 1
    assert (
        "which value is the most frequent is public"
        in planned(table("aaaabbbccc"), _asked(2, "rotation", False)).guarantee.sentence
    )


def test_t12_someone_who_does_not_know_k_expects_more() -> None:
    """l = 4: (3, 1, 1, 1) and (2, 2, 1, 1) both publish (1, 1, 1, 1): .4, which is E[k]/4, not 1/4."""
    prior = {(c, s): w * p for c, w in alike(_histograms(6, 4)).items() for s, p in _first(c).items()}
    believed = posteriors(prior, lambda w: _folder(w, 4, "rotation", False))[(1, 1, 1, 1), 2]
    assert belief(believed, lambda w: 4 * w[0][0] > 6) == Fraction(2, 5)


# --- as published -----------------------------------------------------------------------------------------------------


class _Next(Exception):
    """The script of draws is at its end; the next one would be below this number."""


def every_draw(work: Any) -> dict[Any, Fraction]:
    """Return the law of what work(draw) returns: all that draw(n), uniform below n, may give is gone through."""
    found: dict[Any, Fraction] = {}
    open_scripts: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    while open_scripts:
        script, chance = open_scripts.pop()
        given = iter(script)

        def draw(below: int) -> int:
            for number in given:  # noqa: B023
                return number
            raise _Next(below)

        try:
            outcome = work(draw)
        except _Next as end:
            (below,) = end.args
            open_scripts += [((*script, number), chance / below) for number in range(below)]
        else:
            found[outcome] = found.get(outcome, Fraction(0)) + chance
    return found


def _by_the_program(counts: Counts, ell: int, variant: Any, always: bool = False) -> dict[Any, Fraction]:
    return every_draw(
        lambda draw: tuple(suppress(np.array(counts), ell, variant, draw=draw, always=always).kept.tolist())
    )


@pytest.mark.parametrize(("variant", "always"), PROVED)
def test_the_program_draws_exactly_like_the_oracle(variant: str, always: bool) -> None:
    """All draws of the real algorithm, gone through, against what the documentation says."""
    for counts, ell in (((4, 2, 1, 1), 3), ((3, 3, 1, 1), 3), ((4, 4, 3, 2, 2), 4), ((3, 2, 2, 1), 2), ((2, 2, 2), 2)):
        law = mixed((p, {kept_as: Fraction(1)}) for (kept_as, _), p in kept(counts, ell, variant, always).items())
        assert _by_the_program(counts, ell, variant, always) == law


def test_r_suppression_as_published_bounds_nothing_and_excludes_no_one() -> None:
    """7/17 for (2, 2, 1, 1) with 8 records and l = 3; S_1 is one of the l most frequent published, each is possible."""
    n, m, ell = 8, 4, 3
    prior = {(c, s): w * p for c, w in alike(_histograms(n, m)).items() for s, p in _first(c).items()}
    after = posteriors(prior, lambda w: _with_first(w, ell))
    skewed = {k: b for k, b in after.items() if k[1] > 0}  # type: ignore[index]
    assert belief(skewed[(2, 2, 1, 1), 2], lambda w: w[1] == 0) == Fraction(7, 17)
    for (kept_as, _), believed in skewed.items():  # type: ignore[misc]
        least = sorted(kept_as, reverse=True)[ell - 1]
        possible = {x for x in range(m) if belief(believed, lambda w: w[1] == x)}  # noqa: B023
        assert {x for x in range(m) if kept_as[x] > least} <= possible
        assert possible <= {x for x in range(m) if kept_as[x] >= least}
    plan = planned(table("aaaabbcd"), policy("l = 3", None, "suppression", 'assurance = "as-published"'))
    assert plan.guarantee.strength == "as published"
    assert plan.guarantee.sentence == (
        f"{OF_A_RECORD} 1/3. {SKEWED} That x is the most frequent value is not bounded by 1/3: it is one of the 3 most "
        "frequent published ones, and none of these is excluded for someone who does not know the table's counts."
    ).format(most="1/3")


def _with_first(world: tuple[Counts, int], ell: int) -> Law:
    """Return the law of R-suppression, given which of equally frequent values is S_1."""
    counts, first = world

    def work(draw: Any) -> Any:
        found = suppress(np.array(counts), ell, "r-suppression", draw=draw)
        return (tuple(found.kept.tolist()), found.withheld), int(found.ranked[0])

    law = {folder: chance for (folder, dominant), chance in every_draw(work).items() if dominant == first}
    return {folder: chance / sum(law.values()) for folder, chance in law.items()}


# --- which record has which value -------------------------------------------------------------------------------------


def release(values: str, ell: int, variant: str, always: bool) -> Law:
    """Return the law of the whole release: who is withheld, who is in which group, and the groups' values."""
    labels = sorted(set(values))
    counts = tuple(values.count(x) for x in labels)
    holders = {x: [k for k, v in enumerate(values) if v == x] for x in labels}

    def laws() -> Any:
        for (numbers, _), chance in kept(counts, ell, variant, always).items():
            chosen = list(
                product(*(combinations(holders[x], number) for x, number in zip(labels, numbers, strict=True)))
            )
            for sets in chosen:
                records = sorted(k for of_value in sets for k in of_value)
                law = deals("".join(values[k] for k in records), len(records) // ell)
                yield chance / len(chosen), {(tuple(records), folder): p for folder, p in law.items()}

    return mixed(laws())


@pytest.mark.parametrize(
    ("values", "ell", "variant", "always"),
    [("aaaabb", 2, "rotation", False), ("aabbc", 2, "rotation", True), ("aaabbcc", 3, "safe-d", False)],
)
def test_a_published_record_is_believed_to_have_a_value_by_at_most_one_in_l(
    values: str, ell: int, variant: str, always: bool
) -> None:
    """All assignments are alike beforehand, the counts are known, and so is who is missing."""
    worst = Fraction(0)
    prior = alike("".join(world) for world in assignments(values))
    for (records, (groups, members)), believed in posteriors(prior, lambda w: release(w, ell, variant, always)).items():
        for place, x in product(range(len(records)), set(values)):
            now = belief(believed, lambda world: world[records[place]] == x)  # noqa: B023
            group = members[groups[place]]
            assert now == Fraction(group.count(x), len(group)) <= Fraction(1, ell)
            worst = max(worst, now)
    assert worst == Fraction(1, ell)


def test_a_missing_person_tells_more_as_the_limits_say() -> None:
    values, ell = "aaaabc", 2
    prior = alike("".join(world) for world in assignments(values))
    after = posteriors(prior, lambda w: {folder[0]: p for folder, p in _who(w, ell).items()})
    worst = max(
        belief(believed, lambda world: world[k] == "a")  # noqa: B023
        for records, believed in after.items()
        for k in range(len(values))
        if k not in records  # type: ignore[operator]
    )
    assert worst > Fraction(1, ell)
    limits = planned(table(values), _asked(ell, "rotation", False)).guarantee.limits
    assert any("one of them can be believed by more than 50%" in limit for limit in limits)


def _who(values: str, ell: int) -> Law:
    """Return the law of who is published, for someone who does not look at the values."""
    total: dict[Any, Fraction] = {}
    for (records, _), chance in release(values, ell, "rotation", False).items():
        total[(records,)] = total.get((records,), Fraction(0)) + chance
    return total


def test_what_is_said_is_the_same_for_all_assignments() -> None:
    asked = _asked(2, "rotation", False)
    said = {stated(table(world), asked) for world in assignments("aaabc")}
    assert len(said) == 1


# --- the law is the one that plans are drawn from ---------------------------------------------------------------------


DRAWS = [
    ((6, 4, 3, 2, 1), 3, "rotation", False),
    ((4, 4, 3, 2, 2), 4, "spread", False),
    ((5, 4, 3, 3), 3, "rotation", True),
]


@pytest.mark.parametrize(("counts", "ell", "variant", "always"), DRAWS)
def test_draws_follow_the_law(counts: Counts, ell: int, variant: Any, always: bool) -> None:
    """One in ten draws that leave the most frequent value where it is would fail."""
    law = mixed((chance, {numbers: Fraction(1)}) for (numbers, _), chance in kept(counts, ell, variant, always).items())
    number, folders = 6000, list(law)
    seen = Counter(_drawn(counts, ell, variant, always, SecretKey.fresh()) for _ in range(number))
    assert set(seen) <= set(folders)
    expected = number * np.array([float(law[folder]) for folder in folders])
    assert chi_square(expected, np.array([seen[folder] for folder in folders]), len(folders) - 1) > ALARM
    fixed = 0.9 * expected
    fixed[int(np.argmax([folder[0] for folder in folders]))] += 0.1 * number
    assert chance_to_find(expected, fixed, len(folders) - 1) > 0.99


def _drawn(counts: Counts, ell: int, variant: Any, always: bool, key: SecretKey) -> Counts:
    found = suppress(np.array(counts), ell, variant, draw=key.drawing(Step.SUPPRESS), always=always)
    return tuple(found.kept.tolist())


@pytest.mark.parametrize(("counts", "ell", "variant", "always"), DRAWS)
def test_releases_publish_what_was_drawn(counts: Counts, ell: int, variant: str, always: bool) -> None:
    values, asked = "".join(x * n for x, n in zip(VALUES, counts, strict=False)), _asked(ell, variant, always)
    content = table(values)
    for seed in range(3):
        key = SecretKey.from_seed(seed)
        plan = planned(content, asked, key)
        manifest, _, (data, lines) = published(content, asked, plan, key)
        shown = Counter(line["disease"] for line in lines for _ in range(line["count"]))
        assert tuple(shown[x] for x in VALUES[: len(counts)]) == _drawn(counts, ell, variant, always, key)
        assert len(data) == shown.total() == len(values) - manifest["groups"]["withheld"]
