"""Plans and comparisons say where plain uniform perturbation estimates better than fine-grain."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.auditor.compare.record import _uniform_better
from sfumato.methods import Method
from sfumato.methods.perturbed import PerturbationFigures
from sfumato.methods.plan import Plan
from tests.conftest import make_policy


def planned(values: list[str], requirement: sf.Requirement, method: Method) -> Plan:
    policy = make_policy({"d": "sensitive"})
    made = sf.plan(sf.profile(sf.scan(pa.table({"d": values}), policy)), method, requirement)
    assert isinstance(made.figures, PerturbationFigures)
    return made


def one_stricter(value: str) -> sf.Requirement:
    return sf.FineGrainPrivacy((sf.ValueRequirement(value, "1/10", "2/5"),), sf.RhoPrivacy("1/5", "4/5"))


RECORDS = sf.FineGrain(objective="records")
VALUES = [f"v{k:02}" for k in range(30) for _ in range(400 - 10 * k)]


def test_a_plan_says_that_uniform_estimates_better() -> None:
    made = planned(VALUES, one_stricter("v05"), RECORDS)
    other = planned(VALUES, one_stricter("v05"), sf.Uniform())
    assert made.figures.uniform is not None
    assert made.figures.total_variation is not None
    assert other.figures.standard_error is not None
    assert made.figures.uniform.total_variation == pytest.approx(other.figures.total_variation)
    assert made.figures.uniform.record_utility == pytest.approx(other.figures.record_utility)
    assert made.figures.uniform.standard_error == pytest.approx(other.figures.standard_error[5])
    assert made.figures.uniform_estimates_better
    assert made.notes[0].startswith("Plain uniform perturbation with the strictest requirement would estimate better")
    assert (
        f"{made.figures.uniform.expected_error:.4g}; this plan has {made.figures.expected_error:,.4g}" in made.notes[0]
    )
    assert "the count of 'v05' with a standard error of" in made.notes[0]
    assert 'uniform, give a retention_floor of at most 0.1428, or ask for objective = "error".' in made.notes[0]
    assert "plain uniform perturbation with the strictest requirement: record utility" in made.explain()
    assert PerturbationFigures.from_dict(json.loads(made.to_json())).uniform == made.figures.uniform


def test_it_does_not_where_fine_grain_is_no_worse_or_the_remedy_was_taken() -> None:
    floor = planned(VALUES, one_stricter("v05"), sf.FineGrain(retention_floor=0.14))
    alike = planned(VALUES, sf.RhoPrivacy("1/5", "4/5"), sf.FineGrain())
    for made in (floor, alike):
        assert not made.figures.uniform_estimates_better
        assert not any("estimate better" in note for note in made.notes)
    assert planned(VALUES, one_stricter("v05"), sf.Uniform()).figures.uniform is None


def test_a_matrix_without_an_inverse_is_worse_than_uniform() -> None:
    two = (sf.ValueRequirement("v05", "1/10", "2/5"), sf.ValueRequirement("v06", "1/10", "2/5"))
    made = planned(VALUES, sf.FineGrainPrivacy(two, sf.RhoPrivacy("1/5", "4/5")), RECORDS)
    assert made.figures.total_variation is None
    assert "this plan's matrix gives no error bars at all" in made.notes[0]


def test_adverse_reactions(real_data: Callable[[str], Path]) -> None:
    """One of 40 reactions from 10% to 40%, all others from 20% to 80%: its count has 27 times uniform's error."""
    reactions = pq.read_table(real_data("faers2022q3_top40_one_per_case.parquet"))["reaction"].to_pylist()
    made = planned(reactions, one_stricter("Malaise"), RECORDS)
    assert made.figures.uniform is not None
    assert made.figures.standard_error is not None
    assert made.figures.total_variation == pytest.approx(0.1126, abs=1e-4)
    assert made.figures.uniform.total_variation == pytest.approx(0.0565, abs=1e-4)
    assert made.figures.uniform.value == "Malaise"
    assert made.figures.standard_error.max() > 25 * made.figures.uniform.standard_error
    assert made.figures.uniform_estimates_better


def test_the_least_error_is_never_above_uniforms_and_beside_all_others(real_data: Callable[[str], Path]) -> None:
    reactions = pq.read_table(real_data("faers2022q3_top40_one_per_case.parquet"))["reaction"].to_pylist()
    made = planned(reactions, one_stricter("Malaise"), sf.FineGrain())
    beside = {choice.name: choice.expected_error for choice in made.figures.choices}
    assert made.figures.expected_error == pytest.approx(beside['fine-grain, objective = "error"'], rel=1e-9)
    assert beside["subset"] < beside['fine-grain, objective = "error"'] < beside["uniform"]
    assert beside['fine-grain, objective = "records"'] > 5 * beside["uniform"]
    assert not any("estimate better" in note for note in made.notes)
    again = PerturbationFigures.from_dict(json.loads(made.to_json()))
    assert again.choices == made.figures.choices


def test_a_comparison_says_it_too(tmp_path: Path) -> None:
    rows = pa.table({"q": [str(k % 3) for k in range(len(VALUES))], "d": VALUES})
    stricter = '\n[[requirement.values]]\nvalue = "v05"\nrho1 = "1/10"\nrho2 = "2/5"'
    policy = make_policy(
        {"q": "quasi_identifier", "d": "sensitive"},
        'rho1 = "1/5"\nrho2 = "4/5"' + stricter,
        "fine-grain",
        options='objective = "records"',
    )
    found = sf.compare(sf.scan(rows, policy), repeat=2, seed=3)
    [told] = [line for line in found.conclusions() if "estimates the values better than fine-grain" in line]
    assert told.endswith("Give fine-grain a retention_floor, or choose uniform.")
    assert told in " ".join(found.explain(details=True).split())
    alone = [each for each in found.methods if each.method != "uniform"]
    assert not list(_uniform_better(alone))
