"""Conditions on numbers of which sets or cards are published: they are about the values, as under uniform noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from tests.conftest import make_policy

INCOMES = [10, 20, 30, 40, 50]
TABLE = pa.table({"sex": ["m", "f"] * 100, "income": np.resize(INCOMES, 200).tolist()})


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("method", "options"), [("ranges", ""), ("subset", 'form = "set"'), ("subset", 'form = "card"'), ("uniform", "")]
)
def test_conditions_compare_numbers(method: str, options: str, kind: str, tmp_path: Path) -> None:
    income = f"sensitive; domain = {INCOMES}; ordered = true"
    policy = make_policy(
        {"sex": "other", "income": income}, "gamma = 4", method, f'output = {{ format = "{kind}" }}', options
    )
    table = sf.scan(TABLE, policy)
    release = sf.publish(table, sf.plan(sf.profile(table), policy.method, policy.requirement), tmp_path / "r")
    counts = {row["income"]: row["estimate"] for row in release.count(by="income").to_arrow().to_pylist()}
    for condition, meant in (
        ("income >= 30", {30, 40, 50}),
        ("income = 30", {30}),
        ("income IN (20, 40)", {20, 40}),
        ("income BETWEEN 20 AND 40", {20, 30, 40}),
    ):
        (row,) = release.sql(f"SELECT count(*) FROM release WHERE {condition}").to_arrow().to_pylist()
        assert row["estimate"] == pytest.approx(sum(counts[value] for value in meant))
    above = release.sql("SELECT sex, AVG(income) FROM release WHERE income > 20 GROUP BY sex")
    assert len(above.to_arrow().to_pylist()) == 2
