"""The order of a hidden column's values, and the numbers that they stand for."""

from __future__ import annotations

import pytest

from sfumato.analyst.ask.scale import Scale, places_over
from sfumato.errors import UsageError
from sfumato.values.attributes import Domain, SensitiveDomain


def scale(*values: object, ordered: bool = False) -> Scale:
    return Scale.of_values(Domain("x", values, ordered))  # type: ignore[arg-type]


def test_numbers_in_text_are_in_the_order_of_numbers() -> None:
    found = scale("10", "9", None, "-1.5")
    assert found.places == (2, 1, -1, 0)
    assert found.marks == ("-1.5", "9", "10")
    assert found.numbers.tolist() == [-1.5, 9, 10]
    assert found.number().of_value == (10, 9, 0, -1.5)
    assert found.known().of_value == (1, 1, 0, 1)
    assert found.are_numbers
    assert not found.are_bins
    assert found.has_missing


def test_one_number_in_two_spellings_has_one_place() -> None:
    found = scale("7", "007", "8")
    assert found.places == (0, 0, 1)
    assert found.marks == ("7", "8")
    assert found.numbers.tolist() == [7, 8]


def test_numbers_beyond_double_precision_are_told_apart() -> None:
    assert scale(2**63, 2**63 - 1).places == (1, 0)


def test_truth_values_are_numbers() -> None:
    assert scale(True, False).number().of_value == (1, 0)


def test_bins_are_in_the_order_of_their_ends_and_count_at_their_middles() -> None:
    found = scale("[100, 110)", "[20, 30)", "[0.5, 20)")
    assert found.places == (2, 1, 0)
    assert found.number().of_value == (105, 25, 10.25)
    assert found.number("lower").of_value == (100, 20, 0.5)
    assert found.number("upper").of_value == (110, 30, 20)
    assert found.numbers.tolist() == [0, 1, 2]  # the places: bins are no numbers
    assert found.are_bins
    found.require_numbers()


def test_bins_without_an_end_are_in_order_but_have_no_middle() -> None:
    found = scale(">= 65", "< 18", "[18, 65)")
    assert found.places == (2, 0, 1)
    found.require_order()
    with pytest.raises(UsageError, match="'>= 65' has no end, so it has no middle") as caught:
        found.require_numbers()
    assert "sfumato distribution RELEASE x" in caught.value.hint
    assert "QUANTILE(x, 0.5)" in caught.value.hint


@pytest.mark.parametrize(
    ("values", "places"),
    [
        (("2019-Q2", "2018-Q4", None), (1, 0, -1)),
        (("2019-11", "2019-02"), (1, 0)),
        ((">= 2020-07-01", "< 2019-01-01", "[2019-01-01, 2020-07-01)"), (2, 0, 1)),
    ],
    ids=["quarters", "months", "between days"],
)
def test_periods_are_in_order_and_no_numbers(values: tuple[object, ...], places: tuple[int, ...]) -> None:
    found = scale(*values)
    assert found.places == places
    with pytest.raises(UsageError, match="no numbers") as caught:
        found.require_numbers()
    assert "distribution" in caught.value.hint


def test_texts_have_no_order_unless_it_is_declared() -> None:
    with pytest.raises(UsageError, match="'mild' and 'severe', which are in no order") as caught:
        scale("mild", "severe").require_order()
    assert "ordered = true" in caught.value.hint
    with pytest.raises(UsageError, match="no numbers") as caught:
        scale("mild", "severe").require_numbers()
    assert caught.value.hint == "Ask for counts by it: GROUP BY x"
    declared = scale("mild", "severe", "none", None, ordered=True)
    declared.require_order()
    assert declared.places == (0, 1, 2, -1)
    with pytest.raises(UsageError, match="no numbers") as caught:
        declared.require_numbers()
    assert "Its distribution function and quantiles can be told" in caught.value.hint


def test_a_declared_order_of_numbers_is_the_order_and_they_stay_numbers() -> None:
    """Grades: 1 is the best."""
    grades = scale("5", "3", "1", ordered=True)
    assert grades.places == (0, 1, 2)
    assert grades.numbers.tolist() == [5, 3, 1]
    assert grades.number().of_value == (5, 3, 1)


def test_a_column_of_missing_values_alone_has_neither() -> None:
    assert scale(None).size == 0


def test_scores_and_places_of_a_combination() -> None:
    domain = SensitiveDomain((Domain("a", ("p", "q")), Domain("x", (2, None, 1))))
    assert scale(2, None, 1).number().over(domain).tolist() == [2, 0, 1, 2, 0, 1]
    assert places_over(domain, scale(2, None, 1)).tolist() == [1, -1, 0, 1, -1, 0]
