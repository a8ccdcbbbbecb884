"""What a comparison concludes: worked examples of its sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sfumato.auditor.compare.figures import Figures, Outcome, Spread
from sfumato.auditor.compare.record import INDEPENDENCE, PLAIN, MethodComparison


def outcome(method: str, low: float, high: float, *, share: float = 1.0, own: bool = False) -> Outcome:
    error = Spread((low + high) / 2, low, high)
    seconds = None if method == "generalization" else 0.2  # a baseline publishes no release
    figures = Figures(Spread(0.3, 0.3, 0.3), "rows", 0.5, error, error, 0.0, 0.01, share, 0.1, seconds)
    return Outcome(method, "l = 3", "a promise", own, figures)


def comparison(*methods: Outcome, repeat: int = 3) -> MethodComparison:
    references = (outcome(INDEPENDENCE, 0.4, 0.4), outcome(PLAIN, 0, 0))
    return MethodComparison(
        "2026-01-01", "sfumato", "t.csv", "00", 100, "l = 3", 1 / 3, repeat, 1, 50, methods, references
    )


def test_a_winner_lies_below_all_releases_of_the_others() -> None:
    first, *_ = comparison(outcome("uniform", 0.2, 0.3), outcome("anatomy", 0.1, 0.19)).conclusions()
    assert first == (
        "At this requirement, the least mean error is 14.5% (10.0% to 19.0% over 3 releases), of anatomy, with a "
        "belief of up to 50.0% in a true value. All releases of the others have larger ones."
    )


def test_who_is_within_the_spread_cannot_be_told_from_the_best() -> None:
    methods = outcome("uniform", 0.2, 0.3), outcome("anatomy", 0.1, 0.2), outcome("suppression", 0.21, 0.22)
    first, *_ = comparison(*methods).conclusions()
    assert first.endswith("in a true value; uniform cannot be told from it.")


def test_one_release_has_no_winner() -> None:
    first, *_ = comparison(outcome("uniform", 0.2, 0.2), outcome("anatomy", 0.1, 0.1), repeat=1).conclusions()
    assert "anatomy has the least mean error, 10.0%, on one release" in first
    assert "no winner is named" in first


def test_a_baseline_that_bounds_nothing_is_not_the_best_at_a_requirement() -> None:
    found = comparison(outcome("generalization", 0, 0), outcome("anatomy", 0.1, 0.2))
    at_equal = replace(found, target=0.3, at_equal_risk=found.methods)
    first, second, third, *_ = at_equal.conclusions()
    assert "of anatomy" in first
    assert "bounds no belief" in second
    assert third.startswith("At equal measured risk (30.0%)")
    assert "of generalization" in third
    assert "releases" not in third.split(", of")[0]  # it draws nothing


def test_what_does_not_beat_independence_and_what_withholds_is_told() -> None:
    told = list(comparison(outcome("uniform", 0.4, 0.6), outcome("robust-anatomy", 0, 0.1, share=0.9)).conclusions())
    assert (
        "At this requirement, no better than the independence table (mean error 40.0%), in which values depend on "
        "nothing: uniform." in told
    )
    assert any(line.startswith("At this requirement, records are withheld: robust-anatomy 10.0%.") for line in told)


def test_at_equal_risk_the_same_is_told_and_who_is_below_it() -> None:
    methods = outcome("uniform", 0.4, 0.6), outcome("suppression", 0, 0.1, share=0.9)
    told = list(replace(comparison(*methods), target=0.32, at_equal_risk=methods).conclusions())
    assert any(line.startswith("At equal measured risk, no better than the independence table") for line in told)
    assert any(line.startswith("At equal measured risk, records are withheld: suppression 10.0%.") for line in told)
    below = "Below that risk by more than 1% of the people, since no parameter tried is nearer: "
    assert f"{below}uniform 30.0%, suppression 30.0%." in told
    near = list(replace(comparison(*methods), target=0.305, at_equal_risk=methods).conclusions())
    assert not any(line.startswith("Below") for line in near)


def test_nothing_can_be_had() -> None:
    refused = Outcome("anatomy", "l = 9", "a promise", True, None, "There are too few values. Ask for l <= 4.")
    found = comparison(refused)
    assert next(iter(found.conclusions())) == "At this requirement, no method was measured."
    assert "anatomy (l = 9): There are too few values. Ask for l <= 4." in found.explain(details=True)


def test_what_is_measured_at_equal_risk_only_is_measured() -> None:
    refused = Outcome("anatomy", "l = 9", "a promise", True, None, "There are too few values.")
    baseline, looser = outcome("generalization", 0, 0), outcome("anatomy", 0.1, 0.2)
    assert not comparison(refused, baseline).measured
    assert not replace(comparison(refused), target=0.3, at_equal_risk=(refused, baseline)).measured
    assert replace(comparison(refused), target=0.3, at_equal_risk=(looser,)).measured
    assert comparison(looser).measured


def test_who_has_the_same_reason_is_told_together() -> None:
    refused = [
        Outcome(name, "l = 9", "a promise", False, None, "There are no rows.") for name in ("anatomy", "uniform")
    ]
    told = comparison(*refused).explain()
    assert "anatomy (l = 9), uniform (l = 9): There are no rows." in told
    assert told.count("There are no rows.") == 1


@pytest.mark.parametrize("numbers", [[0.5], [0.1, 0.2, 0.6]])
def test_a_spread_holds_its_numbers(numbers: list[float]) -> None:
    found = Spread.of(numbers)
    assert found.low == min(numbers) <= found.mean <= max(numbers) == found.high
    assert found.mean == pytest.approx(sum(numbers) / len(numbers))
