"""What labels of generalized tables stand for."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.auditor.foreign.linked import meant

AGES = [19, 20, 25, 30, 64, 65, 90]


@pytest.mark.parametrize(
    ("label", "ages"),
    [
        ("*", AGES),
        ("Any", AGES),
        ("[20, 30)", [20, 25]),
        ("[20, 30[", [20, 25]),
        ("]20, 30]", [25, 30]),
        ("(20;30)", [25]),
        ("20-30", [20, 25, 30]),
        ("20 .. 30", [20, 25, 30]),
        (">= 65", [65, 90]),
        ("65+", [65, 90]),
        ("≥65", [65, 90]),
        ("<20", [19]),
        ("<= 20", [19, 20]),
        ("{19, 90}", [19, 90]),
        ("25", [25]),
        ("25.0", [25]),
        (25, [25]),
        ("6*", [64, 65]),
        ("[20, 30", []),
    ],
)
def test_a_label_means_these_ages(label: object, ages: list[int]) -> None:
    assert [age for age, is_meant in zip(AGES, meant([label], AGES)[0], strict=True) if is_meant] == ages


def test_masks_of_codes() -> None:
    codes = ["48143", "48149", "48161", "4814", "481430"]
    assert meant(["4814*", "481**", "*****"], codes).tolist() == [
        [True, True, False, True, False],
        [True, True, True, True, False],
        [True] * 5,
    ]


def test_a_missing_value_is_meant_by_a_missing_label_and_by_everything() -> None:
    assert meant([None, "*", "a"], [None, "a"]).tolist() == [[True, False], [True, True], [False, True]]


def test_a_missing_label_stands_for_every_value_where_nobody_lacks_one() -> None:
    """Local suppression leaves cells empty. Where people lack a value, an empty cell is theirs."""
    assert meant([None, "", " "], ["a", 3]).tolist() == [[True, True]] * 3
    assert meant([None, ""], ["a", None]).tolist() == [[False, True]] * 2


@pytest.mark.parametrize("label", ["[20, 30)", "20-30", ">= 65", "{a, b}", "4*", " F", "F ", "20 to under 30"])
def test_every_label_stands_for_itself(label: str) -> None:
    """The table may have been generalized already; spaces around a label or a value are not part of it."""
    assert meant([label], [label, f" {label.strip()}  ", "other"]).tolist() == [[True, True, False]]


def test_text_that_looks_like_a_range_is_itself_too() -> None:
    """Education of Adult has 1st-4th, a published 7-8 may be a code."""
    assert meant(["1st-4th", "7-8"], ["1st-4th", "7-8", "7", "9"]).tolist() == [
        [True, False, False, False],
        [False, True, True, False],
    ]


def test_negative_numbers_and_exponents() -> None:
    found = meant(["[-10, -5)", "-3--1", "1e3"], [-10, -5, -2, 1000])
    assert np.array_equal(
        found, [[True, False, False, False], [False, False, True, False], [False, False, False, True]]
    )
