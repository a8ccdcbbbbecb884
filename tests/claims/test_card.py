"""The card: five lines, the same wherever a promise is told, and never stronger than the guarantee."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.claims.claim import LABELS, rounded, typical_error
from sfumato.claims.plain import after, moved, short
from sfumato.values.bound import Bound
from sfumato.values.matrix.retention import amplification
from tests.golden.cases import CASES, FILES, table

METHODS = ("uniform", "fine-grain", "subset, sets", "geometric", "several", "small-domain", "randomized-response")
METHODS += ("anatomy", "suppression", "robust-anatomy")


@pytest.mark.parametrize("name", METHODS)
def test_plan_manifest_and_readme_show_one_card(name: str, tmp_path: Path) -> None:
    for file, text in FILES.items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    (tmp_path / "policy.toml").write_text(CASES[name].policy, encoding="utf-8")
    policy = sf.Policy.load(tmp_path / "policy.toml")
    pq.write_table(table(), tmp_path / "t.parquet")
    opened = sf.scan(tmp_path / "t.parquet", policy)
    plan = sf.plan(sf.profile(opened), policy.method, policy.requirement)
    release = sf.publish(opened, plan, tmp_path / "release")
    card = release.manifest.card
    readme = (tmp_path / "release" / "README.md").read_text(encoding="utf-8")
    assert [label for label, _ in card.rows] == list(LABELS)
    assert (card.promise, card.gaps, card.cost, card.strength) == (
        plan.card.promise,
        plan.card.gaps,
        plan.card.cost,
        plan.card.strength,
    )
    for label, text in card.rows:
        assert f"- **{label}**: {text}" in readme
        assert f"{label:<13}{text}" in plan.explain() or label == "Attacker"  # the plan knows no untouched columns
        assert not re.search(r"rho|gamma|epsilon|\d[*^]", text)


@pytest.mark.parametrize(("rho1", "rho2"), [("1/10", "1/4"), ("13/150", "13/75"), ("1/3", "2/3"), ("1/5000", "1/900")])
def test_a_rounded_bound_is_never_stronger_than_the_true_one(rho1: str, rho2: str) -> None:
    low, high = Fraction(rho1), Fraction(rho2)
    told = short(Bound(amplification(low, high), low, high))
    stated = [
        Fraction(fraction) if fraction else Fraction(number) / 100
        for fraction, number in re.findall(r"(?:(\d+/\d+) \()?([\d.]+)%", told)
    ]
    assert stated[0] <= low < Fraction(21, 20) * stated[0] or stated[0] == low
    assert stated[1] >= high
    assert f"at most {told.split()[3]}" in moved(Bound(amplification(low, high), low, high), "x", both=False)


def test_a_bound_of_the_policy_is_told_as_it_was_written() -> None:
    told = moved(Bound(Fraction(3), Fraction(1, 7), Fraction(1, 3)), "x", both=True)
    assert "at most 1/7 (14.3%) sure" in told
    assert "above 1/3 (33.3%)." in told
    assert told.endswith("a belief of 1/3 or more stays at least 1/7.")


@pytest.mark.parametrize("gamma", [Fraction(2), Fraction(3), Fraction(19, 9), Fraction(100)])
def test_a_factor_is_told_by_what_becomes_of_one_in_ten(gamma: Fraction) -> None:
    told = Fraction(after(gamma, Fraction(1, 10)).rstrip("%")) / 100
    exact = gamma / (9 + gamma)
    assert exact <= told < exact + Fraction(1, 1000)
    assert moved(Bound(Fraction(3)), "x", both=True) == "Someone 10% sure of x will not get above 25%."


def test_the_cost_is_the_standard_error_where_all_values_are_equally_frequent() -> None:
    domain = sf.plan(
        sf.profile(sf.scan(table().select(["job", "sex"]), sf.Policy.parse(_POLICY))),
        sf.Uniform(),
        sf.Amplification(4),
    )
    mechanism = domain.mechanisms[0]
    m, rows = mechanism.domain.size, 3000
    matrix = mechanism.matrix.dense()
    inverse = np.linalg.inv(matrix)
    records = np.full(m, rows / m)
    variance = (inverse**2) @ (matrix @ records) - records
    assert typical_error(mechanism, rows) == pytest.approx(math.sqrt(variance.mean()), rel=1e-9)
    told = domain.claim.cost(_shape(domain), rows)
    assert f"a count of {rounded(rows / m)} is off by about ±{rounded(math.sqrt(variance.mean()))} (standard er" in told
    assert f"about {100 - round(100 * matrix[0, 0])} of 100 published values of job are false" in told


@pytest.mark.parametrize(
    ("name", "start"), [("small-domain", "share in the record's sub-table"), ("anatomy", "equally")]
)
def test_a_promise_for_one_belief_says_which(name: str, start: str) -> None:
    card = _planned(name).card
    assert card.strength.startswith("proved only for one stated belief beforehand: ")
    assert start in card.strength


def test_anatomy_has_its_exception_in_the_promise() -> None:
    card = _planned("anatomy").card
    assert "if someone does not know how it goes with other columns" in card.promise
    assert "may become certain" in card.promise
    assert card.attacker.startswith("does NOT know how")


def _planned(name: str) -> sf.Plan:
    policy = sf.Policy.parse(CASES[name].policy)
    return sf.plan(sf.profile(sf.scan(table(), policy)), policy.method, policy.requirement)


def _shape(plan: sf.Plan):  # type: ignore[no-untyped-def]
    from sfumato.claims.claim import Shape

    return Shape(plan.mechanisms, 0, plan.computed_from_table)


_POLICY = """
columns = { job = { role = "sensitive" }, sex = { role = "quasi_identifier" } }
method = { name = "uniform" }
requirement = { gamma = 4 }
"""
