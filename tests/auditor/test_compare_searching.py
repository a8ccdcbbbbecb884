"""The search for a parameter at which as many are guessed right: it never goes beyond the target."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.auditor.compare.compare import Nearest, nearest
from sfumato.errors import Infeasible

RISKS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]


def found(risks: list[float | None], target: float, quick: list[float | None] | None = None) -> Nearest[int, str]:
    def measure(of: list[float | None], place: int) -> float:
        risk = of[place]
        if risk is None:
            raise Infeasible(f"point {place} cannot be planned")
        return risk

    return nearest(
        range(len(risks)), lambda k: measure(quick or risks, k), lambda k: (measure(risks, k), f"result {k}"), target
    )


@pytest.mark.parametrize(("target", "place"), [(0.1, 0), (0.35, 2), (0.4, 3), (0.9, 5)])
def test_the_largest_risk_within_the_target(target: float, place: int) -> None:
    result = found([*RISKS], target)
    assert result.parameter == place
    assert result.risk == RISKS[place]
    assert result.result == f"result {place}"


def test_a_target_that_is_not_reached_tells_the_least_risk() -> None:
    result = found([*RISKS], 0.05)
    assert result.parameter is None
    assert result.risk == 0.1


def test_a_parameter_that_is_measured_again_is_one_that_was_tried() -> None:
    assert found([*RISKS], 0.05).tried == 2  # the third and the first; this one over all releases too
    assert found([*RISKS], 0.9).tried == 3  # the third, the fifth and the last, twice
    assert found([], 0.5).tried == 0


def test_what_cannot_be_planned_is_too_strict() -> None:
    assert found([None, None, 0.3, 0.4, 0.5, 0.6], 0.45).parameter == 3
    nothing = found([None, None], 0.5)
    assert (nothing.parameter, nothing.risk) == (None, None)
    assert "cannot be planned" in nothing.reason


def test_one_release_that_misleads_is_set_right_by_all() -> None:
    result = found([0.1, 0.2, 0.45, 0.46, 0.5, 0.6], 0.4, quick=[0.1, 0.2, 0.3, 0.35, 0.5, 0.6])
    assert (result.parameter, result.risk) == (1, 0.2)


def test_one_release_with_more_right_guesses_than_all_does_not_make_it_too_strict() -> None:
    result = found([0.1, 0.2, 0.3, 0.35, 0.5, 0.6], 0.4, quick=[0.1, 0.45, 0.5, 0.5, 0.5, 0.6])
    assert (result.parameter, result.risk) == (3, 0.35)


def test_the_least_risk_is_that_of_all_releases() -> None:
    result = found([None, 0.24, 0.4], 0.2, quick=[None, 0.26, 0.5])
    assert (result.parameter, result.risk) == (None, 0.24)


risk = st.one_of(st.none(), st.floats(0, 1))


@given(st.lists(st.tuples(risk, risk), min_size=1, max_size=30), st.floats(0, 1))
def test_never_beyond_the_target(pairs: list[tuple[float | None, float | None]], target: float) -> None:
    risks, quick = [own for own, _ in pairs], [other for _, other in pairs]
    result = found(risks, target, quick)
    if result.parameter is not None:
        assert result.risk == risks[result.parameter]
        assert result.risk is not None
        assert result.risk <= target


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30).map(sorted), st.floats(0, 1))
def test_on_risks_that_rise_it_is_the_loosest_within_the_target(risks: list[float], target: float) -> None:
    within = [k for k, risk in enumerate(risks) if risk <= target]
    assert found([*risks], target).parameter == (within[-1] if within else None)
