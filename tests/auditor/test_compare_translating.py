"""One requirement in the words of every method: worked examples."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from sfumato.auditor.compare.bounds import OWN_BOUND
from sfumato.auditor.compare.translating import (
    GENERALIZATION,
    POINTS,
    Table,
    diversity,
    grid,
    known_columns,
    limit_of,
    own_name,
    translations,
)
from sfumato.errors import PolicyError
from sfumato.publisher.policy import Policy
from sfumato.values.requirement import Amplification, FineGrainPrivacy
from tests.conftest import make_policy

ROLES = {"age": "quasi_identifier", "sex": "quasi_identifier", "disease": "sensitive"}
SHARE = Fraction(1, 4)
TABLE = Table(SHARE, Fraction(1, 1), 6, 1000, {"age": 50, "sex": 2}, lambda names: 80 if "age" in names else 2)


def asked(policy: Policy, limit: Fraction) -> dict[str, dict[str, Any]]:
    return {each.name: each.requirement for each in translations(policy, TABLE, limit)}


def test_an_l_becomes_what_each_method_takes() -> None:
    policy = make_policy(ROLES, "l = 3", "anatomy")
    found = asked(policy, limit_of(policy.requirement, SHARE, ()))
    third, rho = {"risk_limit": "1/3"}, {"rho1": "1/4", "rho2": "1/3"}
    assert found == {
        "uniform": rho,
        "fine-grain": rho,
        "subset": rho,
        "ranges": rho,
        "plateau": rho,
        "geometric": rho,
        "small-domain": rho,
        "randomized-response (quasi-identifiers)": third,
        "randomized-response (sensitive)": third,
        "randomized-response (both)": third,
        "anatomy": {"l": 3},
        "suppression": {"l": 3},
        "robust-anatomy": {"r": 3},
        GENERALIZATION: {"l": 3},
    }


def test_rho2_becomes_a_limit_and_the_next_stricter_l() -> None:
    policy = make_policy(ROLES, "rho1 = 0.2\nrho2 = 0.4", "small-domain")
    found = asked(policy, limit_of(policy.requirement, SHARE, ()))
    assert found["uniform"] == found["fine-grain"] == found["small-domain"] == {"rho1": 0.2, "rho2": 0.4}
    assert found["randomized-response (both)"] == {"risk_limit": "2/5"}
    assert found["anatomy"] == {"l": 3}  # 1/2 would be above 2/5
    assert found["robust-anatomy"] == {"r": 3}


def test_a_gamma_becomes_the_belief_it_allows_from_the_largest_share() -> None:
    policy = make_policy(ROLES, "gamma = 3", "uniform")
    limit = limit_of(policy.requirement, SHARE, [Fraction(3)] * 6)
    assert limit == Fraction(1, 2)  # odds 1 : 3, times 3
    found = asked(policy, limit)
    assert found["fine-grain"] == {"gamma": 3}
    assert found["small-domain"] == {"rho1": "1/4", "rho2": "1/2"}
    assert found["suppression"] == {"l": 2}


def test_of_several_gammas_the_strictest_counts() -> None:
    assert limit_of(Amplification(3), SHARE, [Fraction(9), Fraction(3)]) == Fraction(1, 2)
    with pytest.raises(PolicyError, match="protects no value"):
        limit_of(FineGrainPrivacy((), None, True), SHARE, ())


@pytest.mark.parametrize(
    ("method", "requirement", "options", "name"),
    [
        ("randomized-response", "risk_limit = 0.5", 'scope = "both"', "randomized-response (both)"),
        ("robust-anatomy", "r = 4", 'attribute_sets = [["age"]]\nprior = "table"', "robust-anatomy"),
        ("fine-grain", "gamma = 2", 'weights = "equal"', "fine-grain"),
    ],
)  # fmt: skip
def test_the_own_method_stays_as_the_policy_says(method: str, requirement: str, options: str, name: str) -> None:
    policy = make_policy(ROLES, requirement, method, options=options)
    found = translations(policy, TABLE, Fraction(1, 2))
    own = [each for each in found if each.own]
    assert [each.name for each in own] == [name] == [own_name(policy)]
    assert own[0].policy(policy) is policy
    others = {each.name: each for each in found if not each.own and each.method and "sensitive)" not in each.name}
    with pytest.raises(PolicyError, match="add steps"):  # nobody else can say for how many steps it is to hold
        others.pop("geometric").policy(policy)
    assert all(each.policy(policy).columns == policy.columns for each in others.values())


def test_a_record_key_is_left_out_of_trials() -> None:
    roles = {"id": "identifier", **ROLES}
    policy = make_policy(roles, "gamma = 2", "fine-grain", 'record_key = "id"\nseries = "s"', 'weights = "equal"')
    for each in translations(policy, TABLE, Fraction(1, 2))[:3]:
        tried = each.policy(policy)
        assert tried.record_key is None
        assert tried.columns == policy.columns
        assert (tried.method == policy.method) == each.own


def test_robust_groups_take_as_many_columns_as_have_room() -> None:
    assert known_columns(TABLE, 2) == ("sex",)  # 80 combinations of 12.5 records: fewer than 20
    assert known_columns(TABLE, 1) == ("sex", "age")
    policy = make_policy(ROLES, "r = 2", "robust-anatomy", options='attribute_sets = [["age"]]')
    found = {each.name: each for each in translations(policy, TABLE, Fraction(1, 2))}
    assert found["robust-anatomy"].method["attribute_sets"] == (("age",),)


def test_every_promise_names_another_attacker() -> None:
    policy = make_policy(ROLES, "l = 3", "anatomy")
    promises = {each.name.split(" (")[0]: each.promise for each in translations(policy, TABLE, Fraction(1, 3))}
    assert all("The odds of any statement" in promises.pop(name) for name in ("subset", "ranges", "plateau"))
    assert len(set(promises.values())) == len(promises) == 9  # uniform's is that of the three
    assert "No belief is bounded" in promises[GENERALIZATION]
    assert "depend on sex;" in promises["robust-anatomy"]


def test_a_method_that_does_not_fit_says_why_in_the_terms_of_the_policy() -> None:
    roles = {**ROLES, "group": "other"}
    policy = make_policy(roles, "rho1 = 0.2\nrho2 = 0.5", "uniform")
    found = {each.name: each for each in translations(policy, TABLE, Fraction(1, 2))}
    with pytest.raises(PolicyError, match="does not fit: the column name 'group' is taken: anatomy adds a column"):
        found["anatomy"].policy(policy)


def test_grids_go_from_strict_to_loose() -> None:
    policy = make_policy(ROLES, "l = 3", "anatomy")
    for each in translations(policy, TABLE, Fraction(1, 3)):
        points = [_looseness(point.requirement) for point in grid(each, TABLE)]
        assert points == sorted(points)
        assert len(set(points)) == len(points) <= POINTS
        assert all(point.name == each.name and point.method == each.method for point in grid(each, TABLE))


def _looseness(rule: dict[str, Any]) -> float:
    (name, value), *_ = reversed(rule.items())
    return -float(Fraction(value)) if name in ("l", "r") else float(Fraction(value))


@pytest.mark.parametrize(("limit", "l"), [("1/2", 2), ("0.9", 2), ("1/3", 3), ("0.34", 3), ("0.33", 4), ("1/100", 100)])
def test_the_least_l_within_a_limit(limit: str, l: int) -> None:  # noqa: E741
    found = diversity(Fraction(limit))
    assert found == l
    assert Fraction(1, found) <= Fraction(limit)


# --- the bound in words -----------------------------------------------------------------------------------------------

VALUES = """rho1 = 0.3
rho2 = 0.7
values = [{ value = "HIV", rho1 = "1/10", rho2 = "1/4" }, { value = "gout", rho1 = "1/10", rho2 = 0.6 },
          { prefix = "flu", gamma = 3 }]"""


def bounds(requirement: str, method: str, limit: Fraction) -> dict[str, str]:
    policy = make_policy(ROLES, requirement, method)
    return {each.name: each.bound for each in translations(policy, TABLE, limit)}


def test_a_bound_that_is_not_the_policys_own_is_told_with_what_the_policy_asks_for() -> None:
    found = bounds(VALUES, "fine-grain", Fraction(7, 10))
    assert found["fine-grain"] == found["uniform"] == found["subset"] == OWN_BOUND
    less = "your policy asks for 25% for HIV, and {}a bound on the odds of flu..."
    half = less.format("")
    assert found["robust-anatomy"] == (
        f"r = 2 (no value of anybody surer than 50%; {half}), against those who know sex"
    )
    assert found["anatomy"] == f"l = 2 (no value of anybody surer than 50%; {half})"
    loose = less.format("60% for gout, and ")
    assert found["randomized-response (both)"] == f"risk_limit = 0.7 (no value of a row surer than 70%; {loose})"
    sure = "nobody at most 25% sure of a value gets above 70%"
    assert found["small-domain"] == f"rho1 = 0.25 and rho2 = 0.7 ({sure}; {loose})"
    assert found[GENERALIZATION] == "entropy l = 2, which bounds no belief"


def test_a_bound_that_is_as_strict_needs_no_more_words() -> None:
    found = bounds("rho1 = 0.2\nrho2 = 0.4", "uniform", Fraction(2, 5))
    assert found["anatomy"] == "l = 3 (no value of anybody surer than 33.3%)"
    assert bounds("l = 3", "anatomy", Fraction(1, 3))["anatomy"] == OWN_BOUND


def test_bounds_of_odds_and_of_groups_are_told_too() -> None:
    odds = bounds("gamma = 3", "uniform", Fraction(1, 2))["anatomy"]
    assert odds == "l = 2 (no value of anybody surer than 50%; your policy bounds how far odds may change)"
    groups = 'risk_limit = 0.5\ngroups = [{ where = { sex = ["F", "M"] }, l = 5 }]'
    found = bounds(groups, "randomized-response", Fraction(1, 2))["anatomy"]
    assert found == "l = 2 (no value of anybody surer than 50%; your policy asks for 20% for sex = F or M)"
