"""The audit of other tools' tables, against a slow oracle that compares every person with every row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sfumato.auditor.foreign.audit import linking_finding as linking
from sfumato.auditor.foreign.audit import reidentification_finding as reidentification
from sfumato.auditor.foreign.linked import Linked, meant

TRUE = pa.table(
    {
        "age": [23, 27, 34, 38, 61, 66],
        "zip": ["48101", "48103", "48101", "48177", "50001", "50002"],
        "disease": ["flu", "flu", "gout", "flu", "HIV", "gout"],
    }
)
PUBLISHED = pa.table(
    {
        "age": ["[20, 40)"] * 4 + ["60+"] * 2,
        "zip": ["481**"] * 4 + ["5000*"] * 2,
        "disease": ["flu", "flu", "gout", "flu", "HIV", "gout"],
    }
)


def test_the_share_of_the_commonest_value_of_a_class() -> None:
    found = linking(Linked.of(TRUE, PUBLISHED, ["age", "zip"], ["disease"]), 1 / 2)
    assert found.worst == 3 / 4
    assert found.mean == pytest.approx((4 * (9 / 16 + 1 / 16) + 2 * 1 / 2) / 6)
    assert (found.at_risk, found.records, found.verdict) == (4, 6, "above the bound")
    assert found.exposed[0].risk == 3 / 4


def test_without_a_bound_it_is_not_covered() -> None:
    found = linking(Linked.of(TRUE, PUBLISHED, ["age", "zip"], ["disease"]), None)
    assert found.verdict == "not covered by the guarantee"
    assert found.baseline == 1 / 2


def test_one_of_the_rows_of_a_class_is_the_persons() -> None:
    found = reidentification(Linked.of(TRUE, PUBLISHED, ["age", "zip"], ["disease"]))
    assert (found.worst, found.mean) == (1 / 2, pytest.approx((4 / 4 + 2 / 2) / 6))


def test_overlapping_labels_are_all_candidates() -> None:
    """A row that was suppressed may be anybody's."""
    published = pa.table(
        {"age": ["[20, 40)", "*", "61"], "zip": ["*", "*", "50001"], "disease": ["flu", "gout", "HIV"]}
    )
    linked = Linked.of(TRUE, published, ["age", "zip"], ["disease"])
    assert linked.candidates.sum(axis=1).tolist() == [2, 2, 2, 2, 2, 1]


@pytest.mark.parametrize("seed", range(30))
def test_candidates_are_those_of_a_slow_comparison(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, labels = int(rng.integers(1, 40)), ["*", "[0, 3)", "2-4", ">= 3", "{1, 5}", "4"]
    truth = pa.table(
        {"a": rng.integers(0, 6, rows), "b": rng.integers(0, 6, rows), "s": rng.choice(["x", "y", "z"], rows)}
    )
    number = int(rng.integers(1, 40))
    published = pa.table(
        {"a": rng.choice(labels, number), "b": rng.choice(labels, number), "s": rng.choice(["x", "y", "z"], number)}
    )
    linked = Linked.of(truth, published, ["a", "b"], ["s"])
    for k, (a, b) in enumerate(linked.people.codes.tolist()):
        person = (linked.people.columns[0][a], linked.people.columns[1][b])
        fits = [
            row["s"]
            for row in published.to_pylist()
            if meant([row["a"]], [person[0]])[0, 0] and meant([row["b"]], [person[1]])[0, 0]
        ]
        assert linked.candidates[k].tolist() == [fits.count(value) for value in linked.values]
    assert linked.people.sizes.sum() == rows
