"""Bounds on sets of values, from the policy to the release: what is stated, proved, refused, found and asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.auditor.attackers.posterior import worst_of_sets
from sfumato.claims.claim import BOTH
from sfumato.errors import Infeasible, PlanMismatch, PolicyError
from sfumato.release.manifest import Manifest
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.bound import Bound, Choice, SetBound
from sfumato.values.matrix.dense import DenseMatrix
from sfumato.values.mechanism import Mechanism
from tests.conftest import make_policy
from tests.engines.tools import sealed

CODES = ("A01", "B20", "B21", "B24", "C50", "J10")
ROLES = {"age": "quasi_identifier", "illness": f"sensitive; domain = {list(CODES)}"}
SETS = """
others = "unprotected"
values = [{ prefix = "B2", rho1 = "1/10", rho2 = "1/4" }, { values = ["C50", "J10"], gamma = 4 }]
"""
ONE_COLUMN = 'others = "unprotected"\nvalues = [{ column = "illness", prefix = "B2", gamma = 3 }]'


def people(rows: int = 3_000) -> pa.Table:
    rng = np.random.default_rng(5)
    shares = (0.1, 0.2, 0.1, 0.1, 0.2, 0.3)
    return pa.table({"age": rng.integers(20, 60, rows), "illness": rng.choice(CODES, rows, p=shares)})


def planned(
    requirement: str = SETS, method: str = "fine-grain", options: str = "", table: pa.Table | None = None
) -> Any:
    policy = make_policy(ROLES, requirement, method, options=options)
    scanned = sf.scan(people() if table is None else table, policy)
    return scanned, sf.plan(sf.profile(scanned), policy.method, policy.requirement)


def failed(release: Any) -> set[str]:
    return {check.name for check in sf.open_release(release.folder).verify().checks if check.status == "fails"}


def edited(release: Any, change: Callable[[dict[str, Any]], None]) -> Any:
    path = release.folder / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content, indent=2) + "\n")
    return release


def test_a_release_states_its_sets_and_proves_them(tmp_path: Path) -> None:
    table, plan = planned()
    release = sf.publish(table, plan, tmp_path / "r")
    sentence = release.manifest.guarantee.sentence
    assert sentence == (
        "That a record's illness starts with 'B2' (3 values): a prior belief of at most 10% stays at most 25% after "
        "seeing the release, and of at least 25% stays at least 10%. That a record's illness is 'C50' or 'J10' "
        "(2 values): seeing the release lets its odds change by at most the factor 4."
    )
    limits = " ".join(release.manifest.guarantee.limits)
    assert "Only the sets are protected, not the single values in them" in limits
    assert "('B20', 'B21', 'B24' and 2 more)" in limits
    assert "Values without a requirement are not protected." in limits  # A01 is in no set
    assert release.manifest.mechanisms[0].sub_tables[0].model_dump(exclude_none=True)["sets"] == (
        {"values": (1, 2, 3), "prefix": "B2", "bound": {"gamma": "3", "rho1": "1/10", "rho2": "1/4", "given": ""}},
        {"values": (4, 5), "bound": {"gamma": "4", "given": ""}},
    )
    found = {check.name: check.detail for check in release.verify().checks}
    assert found["guarantee of sets, upward"] == "The bound holds for 2 set(s) of values, in exact integers."
    assert "guarantee, upward" not in found
    assert failed(release) == set()


def test_a_release_without_sets_says_nothing_of_them(tmp_path: Path) -> None:
    table, plan = planned("gamma = 3")
    release = sf.publish(table, plan, tmp_path / "r")
    assert "sets" not in json.loads((release.folder / "manifest.json").read_text())["mechanisms"][0]["sub_tables"][0]
    assert not [check for check in release.verify().checks if "sets" in check.name]


def _set(content: dict[str, Any], place: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = content["mechanisms"][0]["sub_tables"][0]["sets"][place]
    return found


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda m: _set(m)["bound"].update(gamma="3/2", rho1=None, rho2=None), "guarantee of sets, upward"),
        (lambda m: _set(m)["bound"].update(gamma="2"), "bounds"),
        (lambda m: _set(m, 1)["bound"].update(gamma="2"), "guarantee of sets, downward"),
        (lambda m: _set(m, 1)["bound"].update(gamma=None), "matrix"),
        (lambda m: _set(m, 1)["bound"].update(gamma="5"), "guarantee, as stated"),
        (lambda m: _set(m).update(values=[1, 2]), "matrix"),
        (lambda m: _set(m).update(prefix="B"), "manifest"),
        (lambda m: _set(m).update(prefix="A"), "matrix"),
        (lambda m: _set(m, 1).update(values=[5, 4]), "matrix"),
        (lambda m: _set(m, 1).update(values=[4, 6]), "matrix"),
        (lambda m: m["mechanisms"][0]["sub_tables"][0].pop("sets"), "guarantee, as stated"),
    ],
)
def test_a_set_that_is_stated_otherwise_is_found(
    change: Callable[[dict[str, Any]], None], found: str, tmp_path: Path
) -> None:
    table, plan = planned()
    assert found in failed(edited(sf.publish(table, plan, tmp_path / "r"), change))


def test_a_planted_break_is_found_by_the_audit(tmp_path: Path) -> None:
    """A release whose sets are stated stricter than its matrix keeps: every seal fits, and the attacker finds it."""
    table, plan = planned()
    release = sf.publish(table, plan, tmp_path / "r")
    honest = {f.about: f for f in sf.audit(table, release, seed=1).findings if f.attacker == "posterior"}
    assert honest["sets of values, upward"].verdict == "within the bound"
    assert honest["sets of values, downward"].verdict == "within the bound"
    assert honest["upward"].why_not_covered == "Only sets of values have a bound."
    content = json.loads(release.manifest.to_json())
    _set(content)["bound"] = {"gamma": "5/2", "rho1": None, "rho2": None, "given": ""}
    planted = sealed(Manifest.model_validate(content), release.folder)
    found = {f.about: f for f in sf.audit(table, planted, seed=1).findings if f.attacker == "posterior"}
    for direction in BOTH:
        broken = found[f"sets of values, {direction}"]
        assert broken.verdict == "above the bound"
        assert broken.at_risk == sum(code.startswith("B2") for code in people()["illness"].to_pylist())
        assert "illness starts with 'B2'" in (broken.nearest.who if broken.nearest else broken.who)


def test_the_belief_in_a_set_is_that_of_bayes() -> None:
    """By hand: {a, b} of three values, the worst prior puts all of the set on one value and the rest on c."""
    matrix = DenseMatrix.from_shares([(6, 2, 4), (2, 6, 4), (3, 3, 6)])
    domain = SensitiveDomain((Domain("v", ("a", "b", "c")),))
    each = SetBound((0, 1), Bound(Fraction(9, 4), Fraction(1, 10), Fraction(1, 5)))
    own = Mechanism.single(domain, matrix, (Bound(None),) * 3, sets=(each,))
    (up,) = worst_of_sets(own, "upward")
    assert up.factor == max(Fraction(matrix.weight(y, i), matrix.weight(y, 2)) for y in range(3) for i in (0, 1))
    assert up.posterior == pytest.approx(2 / 10 / (2 / 10 + 9 / 10))
    assert not up.is_broken
    (down,) = worst_of_sets(own, "downward")
    assert down.factor == max(Fraction(matrix.weight(y, 2), matrix.weight(y, i)) for y in range(3) for i in (0, 1))


def test_a_plan_file_is_held_to_its_sets(tmp_path: Path) -> None:
    table, plan = planned()
    policy = table.policy
    path = tmp_path / "plan.json"
    path.write_text(plan.to_json())
    again = sf.load_plan(path)
    assert again.figures.mechanism.sets == plan.figures.mechanism.sets
    assert again.explain() == plan.explain()
    assert again.figures.meets(policy.requirement, None)
    for other in (SETS.replace("B2", "B24"), SETS.replace("gamma = 4", "gamma = 5"), SETS.replace('"C50"', '"A01"')):
        requirement = make_policy(ROLES, other, "fine-grain").requirement
        assert not again.figures.meets(requirement, None)
    stricter = tuple(replace(each, bound=Bound(Fraction(2))) for each in plan.figures.mechanism.sets)
    own = Mechanism.single(plan.figures.domain, plan.figures.matrix, plan.figures.bounds, sets=stricter)
    with pytest.raises(PlanMismatch, match="does not keep its own bound that illness starts with 'B2'"):
        replace(plan.figures, mechanisms=(own,)).require(plan)


def test_a_plan_tells_what_binds_and_what_other_choices_cost() -> None:
    _, plan = planned()
    text = plan.explain()
    assert "Sets of values that have a bound together" in text
    assert "illness starts with 'B2', upward, against all other values (gamma = 3.00)" in text
    assert 'under fine-grain, objective = "records"' in text


@pytest.mark.parametrize("method", ["uniform", "subset"])
def test_a_promise_of_any_statement_takes_the_strictest(method: str, tmp_path: Path) -> None:
    table, plan = planned(method=method)
    assert plan.guarantee.sentence == (
        "For any statement about a record's illness: seeing the release lets its odds change by at most the factor 3."
    )
    assert any("The strictest requirement of all values and of 2 set(s), the factor 3" in note for note in plan.notes)
    assert failed(sf.publish(table, plan, tmp_path / "r")) == set()


@pytest.mark.parametrize(("method", "options"), [("ranges", ""), ("plateau", "")])
def test_methods_for_ordered_values_take_the_strictest(method: str, options: str) -> None:
    roles = {**ROLES, "illness": f"{ROLES['illness']}; ordered = true"}
    policy = make_policy(roles, SETS, method, options=options)
    plan = sf.plan(sf.profile(sf.scan(people(), policy)), policy.method, policy.requirement)
    assert plan.guarantee.sentence.endswith("change by at most the factor 3.")


@pytest.mark.parametrize(("method", "options"), [("geometric", "steps = 1"), ("small-domain", "")])
def test_methods_with_one_bound_for_all_say_so(method: str, options: str) -> None:
    roles = {**ROLES, "illness": f"{ROLES['illness']}; ordered = true"}
    policy = make_policy(roles, SETS, method, options=options)
    with pytest.raises(PolicyError, match="for all values"):
        sf.plan(sf.profile(sf.scan(people(), policy)), policy.method, policy.requirement)


def test_a_matrix_from_a_file_is_held_to_sets_and_not_to_their_values(tmp_path: Path) -> None:
    """B20 is told from B21 by 9, which the set allows; across the set by 3 in one file, and by 4 in the other."""
    requirement = 'others = "unprotected"\nvalues = [{ prefix = "B2", gamma = 3 }]'
    for name, cross in (("good.csv", 3), ("bad.csv", 4)):
        rows = [["published", *CODES]]
        for y in CODES:
            rows.append([y, *(_weight(y, x, cross) for x in CODES)])
        (tmp_path / name).write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n")
    for name in ("good.csv", "bad.csv"):
        policy = make_policy(ROLES, requirement, "fine-grain", options=f'matrix = "{name}"')
        policy.method.named_in(tmp_path)
        profile = sf.profile(sf.scan(people(), policy))
        if name == "good.csv":
            assert sf.plan(profile, policy.method, policy.requirement).figures.matrix.largest_ratio == pytest.approx(9)
        else:
            with pytest.raises(Infeasible, match=r"breaks the requirement that illness starts with 'B2'"):
                sf.plan(profile, policy.method, policy.requirement)


def _weight(y: str, x: str, cross: int) -> Fraction:
    """A staircase of two sides of three values each: own 9, the other side 9/cross, the own side 1."""
    total = 9 + 2 + Fraction(27, cross)
    return (
        Fraction(9) if x == y else Fraction(9, cross) if (x[:2] == "B2") != (y[:2] == "B2") else Fraction(1)
    ) / total


def test_of_two_columns_one_alone_is_bounded(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    table = people(600).append_column("outcome", pa.array(rng.choice(["better", "worse"], 600)))
    policy = make_policy({**ROLES, "outcome": "sensitive"}, ONE_COLUMN, "fine-grain")
    scanned = sf.scan(table, policy)
    release = sf.publish(scanned, sf.plan(sf.profile(scanned), policy.method, policy.requirement), tmp_path / "r")
    assert release.manifest.guarantee.sentence.startswith("That a record's illness starts with 'B2' (6 values): ")
    assert release.manifest.mechanism_values[0].sets[0].choice == Choice("B2", column="illness")
    assert failed(release) == set()


def test_many_sets_are_told_together_and_listed(tmp_path: Path) -> None:
    entries = ", ".join(f'{{ values = ["{one}", "{CODES[-1]}"], gamma = 4 }}' for one in CODES[:4])
    table, plan = planned(f"gamma = 9\nvalues = [{entries}]")
    assert (
        "For each of 4 sets of values (listed with the matrix), that a record's illness is one"
        in plan.guarantee.sentence
    )
    assert failed(sf.publish(table, plan, tmp_path / "r")) == set()


def test_a_second_release_is_told_of_the_strictest_set() -> None:
    _, plan = planned()
    told = plan.figures.claim.second_release(plan.figures, keyed=False)
    assert "The odds of the set with the strictest bound can change by up to the factor 3 in one release" in told


@pytest.mark.parametrize("where", ["illness LIKE 'B2%'", "illness IN ('B20', 'B21', 'B24')"])
def test_an_analyst_asks_for_the_union_as_ever(where: str, tmp_path: Path) -> None:
    table, plan = planned()
    release = sf.publish(table, plan, tmp_path / "r", key=sf.SecretKey.from_seed(4))
    found = release.sql(f"SELECT COUNT(*) FROM release WHERE {where}")
    true = sum(code.startswith("B2") for code in people()["illness"].to_pylist())
    assert abs(found.value - true) < 5 * found.standard_error


def test_icd_codes_as_a_new_user_would(real_data: Callable[[str], Path], tmp_path: Path) -> None:
    """Mental disorders (290 to 319) and injuries of diabetes130, by number and by prefix."""
    rows = pq.read_table(real_data("diabetes130_patients.parquet"), columns=["gender", "age", "diag_1"])
    requirement = """
others = "unprotected"
values = [{ between = [290, 319.99], rho1 = 0.1, rho2 = 0.25 }, { prefix = "V5", gamma = 4 }]
"""
    roles = {"gender": "quasi_identifier", "age": "quasi_identifier", "diag_1": "sensitive; missing = 'category'"}
    policy = make_policy(roles, requirement, "fine-grain")
    table = sf.scan(rows, policy)
    plan = sf.plan(sf.profile(table), policy.method, policy.requirement)
    inside = [plan.figures.domain.labels[code] for code in plan.figures.mechanism.sets[0].codes]
    assert all(290 <= float(code) < 320 for code in inside)
    assert plan.figures.expected_error < 0.75 * plan.figures.uniform.expected_error
    release = sf.publish(table, plan, tmp_path / "r")
    assert failed(release) == set()
