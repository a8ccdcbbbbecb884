"""Uniform and fine-grain perturbation: their sentences against every table, every folder and the worst prior, exactly.

The adversary knows all other records; one record's value is open. Every candidate is planned and published by the real
program. With a declared domain and equal weights all that is said besides the data is the same for all candidates, so
the data decide: their law follows from the integers in the manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

from sfumato.values.randomness import SecretKey
from tests.enumeration.bayes import Law, belief, mixed, posteriors, statements
from tests.enumeration.folders import (
    ALARM,
    chance_to_find,
    chi_square,
    columns,
    planned,
    policy,
    published,
    shown,
    stated,
    table,
)

RHO = 'rho1 = "1/5"\nrho2 = "1/2"\n'
OWN = RHO + 'values = [{ value = "a", rho1 = "1/10", rho2 = "1/4" }, { value = "b", rho1 = "1/8", rho2 = "3/10" }]'
EQUAL = 'weights = "equal"'
BY_VALUE = (
    "For each disease x with a requirement (listed with the matrix): a prior belief of at most rho1_x stays at most "
    "rho2_x after seeing the release{back}; its odds {change} by at most the factor gamma_x."
)
BACK = ", and one of at least rho2_x stays at least rho1_x"


ANY_STATEMENT = (
    "For any statement about a record's disease: a prior belief of at most 20% stays at most 50% after seeing the "
    "release, and of at least 50% stays at least 20%."
)


GRADED = "graded = true"


@dataclass(frozen=True)
class Case:
    """A requirement, and the sentence that is to be held."""

    requirement: str
    domain: str
    sentence: str
    method: str = "uniform"
    options: str = ""
    scope: str = "any predicate"
    both: bool = True
    ordered: bool = False

    @property
    def policy(self) -> Any:
        return policy(self.requirement, self.domain, self.method, self.options, ordered=self.ordered)


CASES = {
    "uniform": Case(RHO, "abc", ANY_STATEMENT),
    "uniform, two values": Case(
        "gamma = 3",
        "ab",
        "For any statement about a record's disease: seeing the release lets its odds change by at most the factor 3.",
    ),
    "uniform, own bounds": Case(
        OWN,
        "abcd",
        "For any statement about a record's disease: seeing the release lets its odds change by at most the factor 3.",
    ),
    "fine-grain": Case(OWN, "abcd", BY_VALUE.format(back=BACK, change="change"), "fine-grain", EQUAL, "single values"),
    "fine-grain, records": Case(
        OWN,
        "abcd",
        BY_VALUE.format(back=BACK, change="change"),
        "fine-grain",
        'objective = "records"',
        "single values",
    ),
    "fine-grain, upward only": Case(
        OWN,
        "abcd",
        BY_VALUE.format(back="", change="rise"),
        "fine-grain",
        "upward_only = true",
        "single values",
        False,
    ),
    "subset, sets": Case(RHO, "abcd", ANY_STATEMENT, "subset", 'members = 2\nform = "set"'),
    "subset, cards": Case(RHO, "abcde", ANY_STATEMENT, "subset", 'members = 2\nform = "card"'),
    "subset, graded sets": Case(
        OWN, "abcd", BY_VALUE.format(back=BACK, change="change"), "subset", GRADED + '\nform = "set"', "single values"
    ),
    "subset, graded cards": Case(
        OWN, "abcd", BY_VALUE.format(back=BACK, change="change"), "subset", GRADED + '\nform = "card"', "single values"
    ),
    "fine-grain, as published": Case(
        OWN,
        "abcd",
        BY_VALUE.format(back="", change="rise"),
        "fine-grain",
        f'{EQUAL}\nassurance = "as-published"',
        "single values",
        False,
    ),
}
SETS = 'others = "unprotected"\nvalues = [{ values = ["a", "b"], rho1 = "1/5", rho2 = "1/2" }]'
MIXED = (
    'gamma = 8\nvalues = [{ value = "a", gamma = 5 }, { between = ["c", "d"], gamma = 3 }, '
    '{ values = ["b", "e"], rho1 = "1/5", rho2 = "1/2" }]'
)
PAIR = (
    "That a record's disease is 'a' or 'b' (2 values): a prior belief of at most 20% stays at most 50% after seeing "
    "the release, and of at least 50% stays at least 20%."
)
OF_MIXED = (
    "For each disease x with a requirement (listed with the matrix): seeing the release lets its odds change by at "
    "most the factor gamma_x. That a record's disease is between 'c' and 'd' (2 values): seeing the release lets its "
    "odds change by at most the factor 3. That a record's disease is 'b' or 'e' (2 values): a prior belief of at most "
    "20% stays at most 50% after seeing the release, and of at least 50% stays at least 20%."
)
CASES |= {
    "fine-grain, a set alone": Case(SETS, "abcd", PAIR, "fine-grain", "", "single values"),
    "fine-grain, a set alone, upward only": Case(
        SETS, "abcd", PAIR.partition(", and")[0] + ".", "fine-grain", "upward_only = true", "single values", False
    ),
    "fine-grain, values and sets": Case(MIXED, "abcde", OF_MIXED, "fine-grain", "", "single values"),
    "fine-grain, values and sets, records": Case(
        MIXED, "abcde", OF_MIXED, "fine-grain", 'objective = "records"', "single values"
    ),
    "uniform, a set alone": Case(
        SETS,
        "abc",
        "For any statement about a record's disease: seeing the release lets its odds change by at most the factor 4.",
    ),
    "subset, values and sets": Case(
        MIXED,
        "abcde",
        "For any statement about a record's disease: seeing the release lets its odds change by at most the factor 3.",
        "subset",
        'form = "set"',
    ),
}
CASES |= {
    "ranges, sets": Case(RHO, "abcd", ANY_STATEMENT, "ranges", 'form = "set"', ordered=True),
    "ranges, cards": Case(RHO, "abcde", ANY_STATEMENT, "ranges", 'form = "card"', ordered=True),
    "ranges, beside values": Case(
        RHO, "abcd", ANY_STATEMENT, "ranges", 'form = "set"\nmixed_with = "values"', ordered=True
    ),
    "plateau": Case(RHO, "abcd", ANY_STATEMENT, "plateau", ordered=True),
    "geometric": Case(
        RHO,
        "abcd",
        "For any statement about a record's disease, and someone who already knows it up to 2 steps (one of 3 "
        "neighbouring values): a prior belief of at most 20% stays at most 50% after seeing the release, and of at "
        "least 50% stays at least 20%. For everybody else its odds change by at most the factor 8.",
        "geometric",
        "steps = 2",
        ordered=True,
    ),
}
OTHERS = ("a",)
"""The values of the known records; the first record's is open."""


@cache
def worlds(case: Case) -> dict[str, tuple[Law, Any, Any]]:
    """Return, for every value of the open record: the law of the whole folder, the manifest, and the plan."""
    found = {}
    for value in case.domain:
        content = table([value, *OTHERS])
        plan = planned(content, case.policy)
        manifest, _, _ = published(content, case.policy, plan)
        found[value] = (_law(stated(content, case.policy), [value, *OTHERS], manifest), manifest, plan)
    return found


def _law(said: Any, values: list[str], manifest: Any) -> Law:
    """Rows are drawn one by one and shuffled; `who` tells whose each is."""
    (part,) = manifest["mechanisms"][0]["domain"]
    domain, matrix, outputs = part["values"], columns(manifest), shown(manifest)
    codes = [domain.index(value) for value in values]
    return {
        (said, tuple(outputs[y] for y in drawn)): prod(matrix[y][x] for y, x in zip(drawn, codes, strict=True))
        for drawn in product(range(len(outputs)), repeat=len(values))
    }


@pytest.mark.parametrize("name", CASES)
def test_the_sentence_holds_for_the_worst_prior_and_is_reached(name: str) -> None:
    case = CASES[name]
    found = worlds(case)
    plan = found[case.domain[0]][2]
    assert plan.guarantee.sentence == case.sentence
    assert plan.guarantee.scope == case.scope
    assert plan.guarantee.directions == (("upward", "downward") if case.both else ("upward",))
    assert "the values of any other records" in plan.guarantee.adversary
    laws = {value: law for value, (law, _, _) in found.items()}
    bounds = _bounds(case, plan)
    nearest = Fraction(0)
    for statement, bound in bounds.items():
        gamma = bound.gamma
        for folder in set().union(*laws.values()):
            inside = [laws[value].get(folder, Fraction(0)) for value in statement]
            outside = [laws[value].get(folder, Fraction(0)) for value in case.domain if value not in statement]
            assert max(inside) <= gamma * min(outside)
            nearest = max(nearest, max(inside) / (gamma * min(outside)) if min(outside) else 0)
            if case.both:
                assert max(outside) <= gamma * min(inside)
    assert 1 - nearest < Fraction(1, 10**12)  # tight: for some prior and folder the odds change by all of gamma


def _bounds(case: Case, plan: Any) -> dict[frozenset[str], Any]:
    """Return the statements of the promise, each with its bound: values and sets; or any, with the strictest of all."""
    sets = {frozenset(case.domain[code] for code in each.codes): each.bound for each in plan.figures.mechanism.sets}
    values = {frozenset(value): bound for value, bound in zip(case.domain, plan.figures.bounds, strict=True)}
    stated = {statement: bound for statement, bound in {**values, **sets}.items() if bound.gamma is not None}
    if case.scope != "any predicate":
        return stated
    return dict.fromkeys(statements(case.domain), min(stated.values(), key=lambda bound: bound.gamma))


@pytest.mark.parametrize("name", CASES)
def test_beliefs_stay_within_rho(name: str) -> None:
    """Bayes on priors of all kinds: no belief of at most rho1 rises above rho2, nor, if stated, falls below rho1."""
    case = CASES[name]
    found = worlds(case)
    laws = {value: law for value, (law, _, _) in found.items()}
    bounds = _bounds(case, found[case.domain[0]][2])
    for prior in _priors(case.domain):
        after = posteriors(prior, laws.__getitem__)
        for statement, bound in bounds.items():
            if bound.rho1 is None or bound.rho2 is None:
                continue
            before = belief(prior, statement.__contains__)
            for believed in after.values():
                now = belief(believed, statement.__contains__)
                assert before > bound.rho1 or now <= bound.rho2
                assert not case.both or before < bound.rho2 or now >= bound.rho1


def _priors(domain: str) -> Any:
    """Give priors in steps of a tenth; of four values, in steps of an eighth."""
    steps = 10 if len(domain) < 4 else 8 if len(domain) < 5 else 5
    for parts in product(range(steps + 1), repeat=len(domain) - 1):
        if sum(parts) <= steps:
            yield dict(zip(domain, [Fraction(k, steps) for k in (*parts, steps - sum(parts))], strict=True))


def test_beliefs_of_someone_who_knows_a_value_up_to_some_steps_stay_within_rho() -> None:
    """Geometric: priors on three neighbours of four values, in steps of a tenth; and one on all four exceeds rho2."""
    case = CASES["geometric"]
    laws = {value: law for value, (law, _, _) in worlds(case).items()}
    low, high, highest = Fraction(1, 5), Fraction(1, 2), Fraction(0)
    for near, statement in product((case.domain[:3], case.domain[1:]), statements(case.domain)):
        for prior in _priors(near):
            before = belief(prior, statement.__contains__)
            for believed in posteriors(prior, laws.__getitem__).values():
                now = belief(believed, statement.__contains__)
                assert before > low or now <= high
                assert before < high or now >= low
                highest = max(highest, now if before <= low else 0)
    assert high - highest < Fraction(1, 10**12)  # reached
    far = posteriors({"a": low, "d": 1 - low}, laws.__getitem__)
    assert max(belief(believed, "a".__contains__) for believed in far.values()) > Fraction(3, 5)


def test_a_record_among_unknown_others_is_as_well_hidden() -> None:
    """Nobody's value is known, rows cannot be told apart: what is believed of one record moves by less than gamma."""
    case, gamma = CASES["uniform, two values"], 3
    _, manifest, _ = worlds(case)["a"]
    matrix, n = columns(manifest), 3

    def release(world: tuple[int, ...]) -> Law:
        return mixed(
            (prod(matrix[y][x] for y, x in zip(d, world, strict=True)), {sum(d): Fraction(1)})
            for d in product((0, 1), repeat=n)
        )

    for shares in ((1, 9), (5, 5), (9, 1)):
        share = [Fraction(s, 10) for s in shares]
        prior = {w: share[w[0]] * Fraction(1, 4) for w in product((0, 1), repeat=n)}
        odds = share[0] / share[1]
        for believed in posteriors(prior, release).values():
            now = belief(believed, lambda w: w[0] == 0)
            assert odds / gamma <= now / (1 - now) <= odds * gamma


def test_what_is_said_is_the_same_for_all_candidates() -> None:
    for case in CASES.values():
        assert len({stated(table([value, *OTHERS]), case.policy) for value in case.domain}) == 1


# --- where something was computed from the table ----------------------------------------------------------------------


FROM_TABLE: Mapping[str, Any] = {
    "observed domain": policy("gamma = 3", None, "uniform"),
    "observed weights": policy(OWN, "abcd", "fine-grain", 'weights = "observed"\nobjective = "records"'),
    "observed rho1": policy('tolerance = 2\nrho1 = "observed"', "abc", "fine-grain", EQUAL),
}


@pytest.mark.parametrize("name", FROM_TABLE)
def test_someone_who_knows_all_others_is_not_promised_anything_where_the_table_decides(name: str) -> None:
    """The folder excludes some values of the open record, by what it says alone: the odds change without bound."""
    others = {"observed domain": "ab", "observed weights": "ad", "observed rho1": "abcabc"}[name]
    said = {value: stated(table([value, *others]), FROM_TABLE[name]) for value in "abc"}
    assert len(set(said.values())) > 1
    plan = planned(table(["a", *others]), FROM_TABLE[name])
    assert plan.from_table
    assert "any other records" not in plan.guarantee.adversary
    assert "computed from the table" in plan.guarantee.adversary


# --- the law is the one that releases are drawn from ------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "uniform",
        "fine-grain",
        "fine-grain, upward only",
        "subset, sets",
        "subset, cards",
        "subset, graded sets",
        "subset, graded cards",
        "ranges, sets",
        "ranges, cards",
        "plateau",
        "geometric",
    ],
)
def test_releases_follow_the_law(name: str) -> None:
    """What is published by true values, of 120,000 rows and more; a retention that is off by 5% would fail."""
    case, rows = CASES[name], 40_000
    content = table([value for value in case.domain for _ in range(rows)])
    plan = planned(content, case.policy)
    manifest, _, (data,) = published(content, case.policy, plan, SecretKey.fresh())
    matrix = np.array([[float(p) for p in row] for row in columns(manifest)])
    true = dict(zip(content.column("who").to_pylist(), content.column("disease").to_pylist(), strict=True))
    counted, place = np.zeros_like(matrix), {output: y for y, output in enumerate(shown(manifest))}
    freedom = len(case.domain) * (len(place) - 1)
    for row in data:
        counted[place[row["disease"]], case.domain.index(true[row["who"]])] += 1
    assert chi_square(rows * matrix, counted, freedom) > ALARM
    assert chance_to_find(rows * matrix, rows * _with_more_retained(matrix), freedom) > 0.99


def _with_more_retained(matrix: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Five in a hundred records publish something that stands for their own value, whatever they drew."""
    held = matrix >= matrix.max(axis=1, keepdims=True) * (1 - 1e-9)
    return np.asarray(0.95 * matrix + 0.05 * held / held.sum(axis=0))
