"""Priors from files, and what robust Anatomy refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sfumato.errors import PolicyError
from sfumato.methods.robustness.grouping import group_records
from sfumato.methods.robustness.prior import Prior, check_prior, read_prior
from sfumato.values.steps import WITHHELD

HEADER = "sex,value,probability\n"
GOOD = HEADER + "F,flu,0.7\nF,HIV,0.003\nF,cold,0.297\nM,flu,1/3\nM,HIV,2/3\nX,flu,1\n"
SEEN = np.array([[3, 0, 1], [1, 2, 0]])


def read(path: Path, text: str) -> Prior:
    path.write_text(text, encoding="utf-8")
    return read_prior(path, ["sex"], [("F",), ("M",)], ["flu", "HIV", "cold"], SEEN)


def test_a_prior_from_a_file(tmp_path: Path) -> None:
    prior = read(tmp_path / "prior.csv", GOOD)
    assert prior.weights.tolist() == [[700, 3, 297], [1, 2, 0]]
    assert prior.totals.tolist() == [1000, 3]
    assert prior.probabilities[0].tolist() == [0.7, 0.003, 0.297]


def test_columns_of_a_prior_in_any_order(tmp_path: Path) -> None:
    lines = [",".join(reversed(line.split(","))) for line in GOOD.splitlines()]
    assert (read(tmp_path / "a.csv", "\n".join(lines)).weights == read(tmp_path / "b.csv", GOOD).weights).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("M,flu,1/3\nM,HIV,2/3\n", ""), r"says nothing of \(M\)"),
        (GOOD.replace("0.297", "0.2"), r"of \(F\) sum to 0.903, not to 1"),
        (GOOD.replace("M,HIV,2/3", "M,cold,2/3"), r"contradicts the table: it gives 'HIV' probability 0 for \(M\)"),
        (GOOD.replace("0.003", "-0.003"), "line 3: a probability lies between 0 and 1"),
        (GOOD.replace("0.003", "rare"), "line 3: probability must be a finite number"),
        (GOOD.replace("F,HIV,0.003", "F,flu,0.003"), r"line 3: 'flu' is listed twice for \(F\)"),
        (GOOD.replace("F,HIV,0.003", "F,HIV"), "line 3: 2 field"),
        (GOOD.replace("sex,", "gender,"), "must have the columns sex, value, probability"),
        (GOOD.replace("0.7", "0.7" + "0" * 20 + "1"), "too many digits"),
        ("", "is empty"),
    ],
)
def test_a_wrong_prior_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        read(tmp_path / "prior.csv", text)


def test_a_prior_that_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="There is no file"):
        read_prior(tmp_path / "none.csv", ["sex"], [("F",)], ["flu"], SEEN)
    with pytest.raises(PolicyError, match="cannot be read as CSV: embedded null byte"):
        read_prior(tmp_path / "no\0ne.csv", ["sex"], [("F",)], ["flu"], SEEN)


def test_wrong_calls_are_refused() -> None:
    cells, values, order = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.arange(4)
    with pytest.raises(ValueError, match="same random number"):
        group_records(cells, values, [cells], np.array([0, 1, 1, 2]), 2)
    with pytest.raises(ValueError, match="different signatures"):
        group_records(cells, values, [values], order, 2)
    with pytest.raises(PolicyError, match="contradicts the table"):
        check_prior(Prior(np.array([[1, 0], [1, 1]]), np.array([1, 2])), cells, values)


def test_a_table_of_which_nothing_can_be_published() -> None:
    cells, values = np.array([0, 0, 1]), np.array([0, 0, 1])
    priors = [Prior(np.ones((2, 2), dtype=np.int64), np.array([2, 2]))]
    for known in (None, priors):
        found = group_records(cells, values, [cells], np.arange(3), 2, known)
        assert found.tolist() == [WITHHELD] * 3
