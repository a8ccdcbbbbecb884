"""What a comparison recommends: answers known by construction, no winner where data do not tell, what would help."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.auditor.compare.figures import Figures, Keeps, Outcome, Promised, Spread
from sfumato.auditor.compare.recommending import Asked, Recommendation, about, recommend
from sfumato.auditor.compare.record import INDEPENDENCE, PLAIN, MethodComparison
from sfumato.claims.claim import Strength
from tests.conftest import make_policy

VALUES: Keeps = "randomized values"
SETS: Keeps = "sets of values"
GROUPS: Keeps = "true values in groups"
LEAST = 0.4  # the error of the independence table
ASKED = Asked("diagnosis", 12, 1000, 3)


def outcome(method: str, strength: Strength, keeps: Keeps, low: float, high: float, **changed: Any) -> Outcome:
    error = Spread((low + high) / 2, low, high)
    figures = Figures(
        Spread(0.3, 0.3, 0.3), "rows", 0.5, error, error, 0.0, 0.01, 1.0, 0.1, 0.2, strength=strength, keeps=keeps
    )
    return Outcome(method, "l = 3", "a promise", False, replace(figures, **changed))


def independence(*by_columns: float) -> Figures:
    figures = outcome("", "any prior", VALUES, LEAST, LEAST).figures
    assert figures is not None
    return replace(figures, errors_by_columns=by_columns)


def advice(*outcomes: Outcome, asked: Asked = ASKED) -> Recommendation:
    return recommend(outcomes, independence(), asked)


def test_first_by_promise_then_by_what_is_kept_then_by_error() -> None:
    found = advice(
        outcome("anatomy", "one stated prior", GROUPS, 0.01, 0.02),
        outcome("uniform", "any prior", VALUES, 0.1, 0.12),
        outcome("plateau", "any prior", VALUES, 0.2, 0.22),
        outcome("subset", "any prior, computed from this table", SETS, 0.03, 0.05),
    )
    assert [(c.promise, c.keeps, c.method) for c in found.choices] == [
        ("any prior", SETS, "subset"),
        ("any prior", VALUES, "uniform"),
        ("one stated prior", GROUPS, "anatomy"),
    ]
    assert found.sentences == (
        "If people may recognise rows and must not learn diagnosis, whatever they believe beforehand: if rows may show "
        "a set of values, take subset: about ±4.0% on counts; if every row must show one value, take uniform: about "
        "±11% on counts.",
        "If it is enough to hold against someone with one stated belief beforehand: if values must stay true, for "
        "groups of rows, take anatomy: about ±1.5% on counts.",
    )
    assert found.would_help == ()


def test_where_errors_overlap_there_is_no_winner() -> None:
    found = advice(
        outcome("uniform", "any prior", VALUES, 0.10, 0.14),
        outcome("fine-grain", "any prior", VALUES, 0.13, 0.2),
        outcome("plateau", "any prior", VALUES, 0.15, 0.2),
    )
    assert [(c.method, c.alike) for c in found.choices] == [("uniform", ("fine-grain",))]
    assert "take uniform or fine-grain: about ±12% on counts (the data do not tell them apart)" in found.sentences[0]
    assert "plateau" not in found.sentences[0]


def test_the_bound_is_named_with_the_method() -> None:
    """Of several that the data do not tell apart each has its own, unless it is the same."""
    one, other = (
        replace(outcome(name, "one stated prior", GROUPS, 0.1, 0.14), bound=bound)
        for name, bound in (("robust-anatomy", "r = 2 (so much)"), ("anatomy", "l = 2 (so much)"))
    )
    told = advice(one, other)
    assert "take robust-anatomy with r = 2 (so much) or anatomy with l = 2 (so much): about ±12%" in told.sentences[0]
    assert told.choices[0].bounds == ("r = 2 (so much)", "l = 2 (so much)")
    alike = advice(one, replace(other, bound=one.bound))
    assert "take robust-anatomy or anatomy with r = 2 (so much): about ±12%" in alike.sentences[0]
    bad = replace(outcome("subset", "any prior", SETS, 0.5, 0.5), bound="your policy's bound")
    assert "The nearest: subset with your policy's bound, ±50%." in advice(one, bad).sentences[0]


def test_one_release_names_no_winner() -> None:
    found = advice(outcome("uniform", "any prior", VALUES, 0.1, 0.1), asked=replace(ASKED, repeat=1))
    assert "take" not in found.sentences[0]
    assert "uniform has the least error: about ±10% on counts" in found.sentences[0]
    assert found.sentences[-1].startswith("This is from one release of each method.")


def test_a_method_whose_releases_are_on_both_sides_of_independence_is_not_better() -> None:
    found = advice(
        outcome("subset", "any prior", SETS, LEAST - 0.05, LEAST + 0.01),
        outcome("anatomy", "one stated prior", GROUPS, 0.1, 0.2),
    )
    assert [c.better for c in found.choices] == [False, True]
    assert found.sentences[0].endswith(
        "nothing is better than guessing that diagnosis depends on nothing (±40%). The nearest: subset, ±38% (±35% to "
        "±41%)."
    )


def test_where_nothing_is_better_than_independence_it_says_what_would_help() -> None:
    """Twice the error: four times the records, or half the values."""
    found = recommend([outcome("uniform", "any prior", VALUES, 0.8, 0.8)], independence(), ASKED)
    assert found.sentences[0].startswith(
        "Nothing here is better than guessing that diagnosis depends on nothing (±40%)"
    )
    assert found.would_help == (
        "about 4,000 records, with which uniform would be as good",
        "about 6 values of like size in place of 12",
        "coarser columns",
        "a looser bound, or another promise",
    )


def test_counts_by_fewer_columns_may_be_better() -> None:
    own = outcome("uniform", "any prior", VALUES, 0.8, 0.8, errors_by_columns=(0.1, 0.5, None))
    found = recommend([own], independence(0.2, 0.4, 0.6), ASKED)
    assert "coarser or fewer columns: counts are better by 1 column ±10% against ±20%" in found.would_help


def test_what_was_seen_to_fail_or_promises_nothing_is_never_taken_for_a_promise() -> None:
    failed = Promised("groups", 0.3, 0.5, "above the bound")
    found = advice(
        outcome("anatomy", "one stated prior", GROUPS, 0.1, 0.1, promised=failed),
        outcome("suppression", "as published", GROUPS, 0.2, 0.2),
    )
    assert {c.promise for c in found.choices} == {"none"}
    assert found.sentences[0] == "No method with a promise could be measured at this requirement."
    assert found.sentences[1].startswith("If nothing has to be promised:")
    assert found.would_help == ()


def test_no_promise_is_worth_telling_only_where_it_has_the_least_error() -> None:
    promising = outcome("anatomy", "one stated prior", GROUPS, 0.1, 0.1)
    worse, better = (outcome("generalization", "as published", "coarser quasi-identifiers", e, e) for e in (0.2, 0.05))
    assert not any("nothing has to be promised" in line for line in advice(promising, worse).sentences)
    assert "take generalization: about ±5.0% on counts" in advice(promising, better).sentences[-1]


def test_withheld_records_are_told() -> None:
    found = advice(outcome("suppression", "one stated prior", GROUPS, 0.1, 0.1, published_share=0.973))
    assert found.sentences[0].endswith("take suppression: about ±10% on counts, with 2.7% of the records withheld.")


def test_a_record_of_before_says_so() -> None:
    now = outcome("uniform", "any prior", VALUES, 0.1, 0.1)
    assert now.figures is not None
    assert advice(replace(now, figures=replace(now.figures, strength=None))).sentences == (
        "This comparison was made before promises were kept with it: compare again for a recommendation.",
    )


@pytest.mark.parametrize(
    ("error", "told"), [(0.0, "±0%"), (0.00123, "±0.12%"), (0.0996, "±10%"), (0.5, "±50%"), (1.4, "±140%")]
)
def test_errors_have_two_digits(error: float, told: str) -> None:
    assert about(error).replace(".0%", "%") == told


# --- the first screen -------------------------------------------------------------------------------------------------

EVERY: list[tuple[Strength, Keeps]] = [
    ("any prior", VALUES),
    ("any prior", SETS),
    ("one stated prior", VALUES),
    ("one stated prior", GROUPS),
    ("this table's own risk", "randomized quasi-identifiers"),
    ("this table's own risk", "randomized quasi-identifiers and values"),
    ("as published", "coarser quasi-identifiers"),
]


def compared(*outcomes: Outcome) -> MethodComparison:
    chance = outcome(INDEPENDENCE, "any prior", VALUES, LEAST, LEAST)
    plain = outcome(PLAIN, "any prior", VALUES, 0, 0)
    return MethodComparison(
        "2026-01-01", "sfumato", "t.csv", "00", 1000, "l = 3", 1 / 3, 3, 1, 50, outcomes, (chance, plain),
        sensitive=("diagnosis",), values=12,
    )  # fmt: skip


@pytest.mark.parametrize("worst", [0.3, 0.9])
def test_the_first_screen_has_at_most_25_lines(worst: float) -> None:
    """Every promise and everything that can be kept, with several methods each that cannot be told apart."""
    several = [
        outcome(f"randomized-response-{number}-{k}", strength, keeps, 0.2, worst)
        for number, (strength, keeps) in enumerate(EVERY)
        for k in range(2)
    ]
    refused = [replace(each, figures=None, reason="It is too small. " * 40) for each in several]
    bounded = [
        replace(each, bound=f"r = {k} (no value of anybody surer than 50%; {'more ' * 20})")
        for k, each in enumerate(several)
    ]
    for outcomes in (several, several[:1], refused, [*several, *refused], bounded):
        screen = compared(*outcomes).explain()
        assert len(screen.splitlines()) <= 25
        assert max(map(len, screen.splitlines())) <= 120
        assert "--details" in screen
    assert len(compared(*several).explain(details=True).splitlines()) > 25


def test_every_reason_is_told_where_nothing_can_be_measured() -> None:
    reason = "The table has one value only. Choose another sensitive column."
    refused = Outcome("anatomy", "l = 3", "a promise", True, None, reason)
    assert f"anatomy (l = 3): {reason}" in compared(refused).explain()


# --- on tables for which the answer is known --------------------------------------------------------------------------


def table(rows: int, dependent: bool) -> pa.Table:
    """Half of the people of each sex; the illness goes with the sex in nine of ten cases, or with nothing."""
    rng = np.random.default_rng(3)
    sex = rng.integers(0, 2, rows)
    own = np.where(rng.random(rows) < 0.9, sex, 1 - sex) if dependent else rng.integers(0, 2, rows)
    illness = np.array(["flu", "gout", "HIV", "none"])[2 * own + rng.integers(0, 2, rows)]
    return pa.table({"sex": np.array(["F", "M"])[sex], "illness": illness})


def asked(rows: int, dependent: bool, requirement: str = "gamma = 9", repeat: int = 3) -> MethodComparison:
    domain = 'sensitive; domain = ["flu", "gout", "HIV", "none"]'
    policy = make_policy({"sex": "quasi_identifier", "illness": domain}, requirement, "uniform")
    return sf.compare(sf.scan(table(rows, dependent), policy), repeat=repeat, seed=7)


def test_strong_dependence_and_many_records_have_methods_of_every_promise() -> None:
    """Independence is off by four fifths or more; noise of twenty thousand records by a few percent."""
    found = asked(20_000, dependent=True)
    choices = {(c.promise, c.keeps): c for c in found.recommendation.choices}
    best = choices["any prior", VALUES]
    assert best.better
    assert {best.method, *best.alike} >= {"uniform", "fine-grain"}  # one matrix: the same releases
    assert choices["one stated prior", GROUPS].better
    assert found.recommendation.independence > 0.5
    assert found.recommendation.sentences[0].startswith("If people may recognise rows and must not learn illness")
    assert found.recommendation.would_help == ()


def test_no_dependence_and_few_records_have_none() -> None:
    """The independence table is the truth but for chance: no noise can be better."""
    found = asked(400, dependent=False, requirement="gamma = 2").recommendation
    assert not any(c.better for c in found.choices if c.promise == "any prior")
    assert "records, with which" in found.would_help[0]


def test_the_promise_of_each_method_is_that_of_its_own_release() -> None:
    figures = {m.method: m.figures for m in asked(2000, dependent=True, repeat=1).methods if m.figures}
    assert {name: (of.strength, of.keeps) for name, of in figures.items() if name in ("uniform", "anatomy")} == {
        "uniform": ("any prior", VALUES),
        "anatomy": ("one stated prior", GROUPS),
    }
    assert figures["generalization"].strength == "none"
    assert figures["generalization"].keeps == "coarser quasi-identifiers"
