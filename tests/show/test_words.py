"""Figures as people read them: what is said of a bound stays true, and figures of a column have the same decimals."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.show.words import at_least, at_most, beside_figures, bound, chance, chances, column, percent, share

BELIEFS = st.fractions(min_value=Fraction(1, 10**6), max_value=Fraction(999_999, 10**6), max_denominator=10**6)


def told(text: str) -> Fraction:
    """Read a bound: a fraction, if there is one, else the percentage."""
    fraction = re.match(r"\d+/\d+", text)
    return Fraction(fraction[0]) if fraction else Fraction(text.rstrip("%")) / 100


@given(BELIEFS)
def test_what_is_said_of_a_bound_stays_true(belief: Fraction) -> None:
    assert belief <= told(at_most(belief)) < belief + Fraction(1, 1000)
    assert belief - Fraction(1, 1000) < told(at_least(belief)) <= belief
    assert told(at_least(belief)) > 0


@pytest.mark.parametrize(
    ("written", "shown"), [("0.1", "10%"), ("1/7", "1/7 (14.3%)"), ("1/3", "1/3 (33.3%)"), ("0.0125", "1.25%")]
)
def test_a_bound_is_shown_as_it_was_written(written: str, shown: str) -> None:
    exact = Fraction(written)
    assert at_most(exact) == at_least(exact) == bound(exact) == shown
    assert beside_figures(shown) in (percent(float(exact)), shown)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8))
def test_a_column_has_the_same_decimals(parts: list[float]) -> None:
    for shown in (share, chance):
        assert len({len(shown(part).rstrip("%").partition(".")[2]) for part in parts}) == 1


@given(st.floats(0, 1))
def test_only_0_and_1_are_shown_as_such(part: float) -> None:
    assert (share(part) == "0.0%") == (part == 0)
    assert (share(part) == "100.0%") == (part == 1)
    assert percent(part) in (share(part), share(part).replace(".0%", "%"))


def test_two_ends_that_look_alike_are_told_once() -> None:
    assert chances(0.1, 0.10000001) == "10.00%"
    assert chances(0.1, 0.2) == "10.00% to 20.00%"


@given(st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=2, max_size=8))
def test_figures_of_a_model_have_the_decimals_that_the_least_of_them_needs(values: list[float]) -> None:
    told = column(values)
    plain = [text for text in told if "e" not in text]
    assert len({len(text.partition(".")[2]) for text in plain}) <= 1
    for value, text in zip(values, told, strict=True):
        assert float(text.replace(",", "")) == pytest.approx(value, rel=0.05, abs=5e-5)
        assert value == 0 or float(text.replace(",", "")) != 0
