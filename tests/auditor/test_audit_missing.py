"""Who is absent: against all labelled tables, and by hand."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from sfumato.auditor.attackers.eligibility import by_shape, by_uniform_prior
from sfumato.auditor.attackers.missing import _absent, absent_finding, full_values, suppressed_finding
from sfumato.auditor.grouped import GroupTables
from sfumato.methods.robustness.grouping import group_records
from sfumato.methods.suppression.suppress import suppress
from tests.methods.test_suppression import alike, joint, seeded, skewed

# --- suppression ------------------------------------------------------------------------------------------------------


def test_suppression_as_over_all_labellings() -> None:
    """(10, 4, 2, 1, 1), l = 3, rotation: the expected share of each value among the withheld records."""
    counts = (10, 4, 2, 1, 1)
    outcomes = joint(alike(counts), lambda table, draw: suppress(table, 3, draw=draw))
    kept = (2, 3, 2, 1, 1)
    seen = outcomes[kept]
    expected = [(records - c) / 9 for c, (_, _, records) in zip(kept, seen.posteriors(), strict=True)]
    found = suppressed_finding(by_shape(np.array(counts), np.array(kept), 3, "rotation"), np.array(counts))
    assert found.worst == pytest.approx(float(max(expected)))
    assert found.mean == pytest.approx(float((8 * expected[0] + 1 * expected[1]) / 9))
    assert (found.records, found.baseline, found.stated) == (9, 0.2, pytest.approx(1 / 3))
    assert found.verdict == "not covered by the guarantee"
    assert "one of 3 value(s)" in found.remark
    assert expected[:3] == [Fraction(1, 3)] * 3
    assert found.at_risk == 0


def test_safe_d_is_the_strict_choice() -> None:
    """Never above 1/l under Safe D; under rotation it can be."""
    for number, (counts, ell) in enumerate(skewed(33, 200)):
        made = suppress(counts, ell, "safe-d", draw=seeded(number))
        found = suppressed_finding(by_shape(made.counts, made.kept, ell, "safe-d"), made.counts)
        assert found.excess <= 1e-12
        assert found.at_risk == 0
    made = suppress([11, 9, 2, *[1] * 7], 3, draw=seeded(1))
    found = suppressed_finding(by_shape(made.counts, made.kept, 3, "rotation"), made.counts, ["flu", *"bcdefghij"])
    assert found.worst == pytest.approx(14 / 39)  # the published 5; both others have 25/78
    assert found.excess == pytest.approx(14 / 39 - 1 / 3)


def test_the_uniform_prior_and_nobody_withheld() -> None:
    counts, kept = np.array([4, 2, 1, 1]), np.array([2, 2, 1, 1])
    found = suppressed_finding(by_uniform_prior(kept, 8, 3, "r-suppression"), counts)
    assert found.records == 2
    assert found.worst >= 7 / 17
    nobody = suppressed_finding(by_shape(kept, kept, 2, "rotation"), kept)
    assert (nobody.records, nobody.worst, nobody.mean, nobody.remark) == (0, 0, 0, "Nobody is withheld.")


def absent_of(cells: np.ndarray, values: np.ndarray, absent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All records and the absent ones by cell and value."""
    table, gone = np.zeros((2, cells.max() + 1, values.max() + 1), dtype=np.int64)
    np.add.at(table, (cells, values), 1)
    np.add.at(gone, (cells[absent], values[absent]), 1)
    return table, gone


# --- cells ------------------------------------------------------------------------------------------------------------


def test_cells_by_hand() -> None:
    """First cell 4 x a, 1 x b with all but one a absent; second with one of each absent."""
    cells = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1])
    values = np.array([0, 0, 0, 0, 1, 0, 0, 1, 1])
    gone = np.array([1, 1, 1, 0, 0, 1, 0, 1, 0], dtype=bool)
    found = absent_finding(*absent_of(cells, values, gone), "a value is too frequent", 0.5, ["F", "M"], ["a", "b"])
    assert (found.worst, found.records, found.at_risk, found.baseline) == (1, 5, 3, 0.8)
    assert found.mean == pytest.approx((3 * 1 + 2 * 0.5) / 5)
    assert [(group.who, group.records, group.risk) for group in found.exposed] == [
        ("F: a", 3, 1.0),
        ("M: a", 1, 0.5),
        ("M: b", 1, 0.5),
    ]
    assert found.verdict == "not covered by the guarantee"
    assert "too frequent" in found.assumption
    assert absent_finding(*absent_of(cells, values, gone), "x").at_risk == 3  # above the cell's shares


def test_nobody_absent() -> None:
    none = np.zeros(2, dtype=bool)
    found = absent_finding(*absent_of(np.zeros(2, np.int64), np.arange(2), none), "a value is missing")
    assert (found.worst, found.mean, found.records, found.baseline, found.exposed) == (0, 0, 0, None, ())


def test_robust_groups_withhold_what_every_group_of_the_cell_has() -> None:
    rng = np.random.default_rng(5)
    seen = 0
    for _ in range(60):
        size = int(rng.integers(8, 40))
        cells, values = rng.integers(0, 3, size), (rng.pareto(0.8, size) * 1.5).astype(np.int64).clip(0, 4)
        made = group_records(cells, values, [cells], rng.permutation(size), 2)
        kept = made >= 0
        if kept.sum() == 0:
            continue
        tables = GroupTables.of(made[kept], values[kept])
        full = full_values(tables, cells[kept])
        for cell in np.unique(cells[~kept]):
            in_groups = [set(values[made == g]) for g in np.unique(made[kept & (cells == cell)])]
            if in_groups:
                seen += 1
                common = set.intersection(*in_groups)
                assert set(values[~kept & (cells == cell)]) <= common
                assert full[cell] == len(common)
        found = absent_finding(*absent_of(cells, values, ~kept), "a value is too frequent", suspects=full)
        assert found.records == size - kept.sum()
    assert seen > 30


def test_records_of_cells_with_mixed_groups_are_absent_only_if_no_row_is_theirs() -> None:
    """Group 1 is of cell 0, group 2 has a row of each cell: how its values are shared is not known.

    Of cell 2, with a group of its own, the counts tell that a y is absent. Record 6 of cell 1 has columns of no row;
    of cell 0 one record is absent too, and others have its columns.
    """
    cells, values = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2, 2]), np.array([0, 1, 0, 1, 0, 1, 1, 0, 1, 1])
    rows_of = np.array([0, 0, 0, 1, 2, 2])  # the cell of each published row
    tables = GroupTables(
        np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1] * 3), np.ones(6, dtype=np.int64)
    )
    columns = SimpleNamespace(
        size=5, table=np.array([0, 0, 0, 0, 1, 1, 2, 3, 3, 3]), release=np.array([0, 0, 0, 1, 3, 3])
    )
    case = SimpleNamespace(
        group_tables=tables,
        comparable=("age",),
        signatures=lambda names: columns,
        values=SimpleNamespace(table=values),
        groups_part=SimpleNamespace(withheld=4),
    )
    table = np.array([[2, 2], [1, 2], [1, 2]])
    absent, unclear = _absent(case, cells, rows_of, table)  # type: ignore[arg-type]
    assert absent.tolist() == [[0, 0], [0, 1], [0, 1]]
    assert unclear == 2


def test_cells_with_guests_have_no_count_of_suspects() -> None:
    """Group 1 has records of two cells; the third cell's groups both have value 2."""
    tables = GroupTables.of(np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 2, 3, 2, 4]))
    assert full_values(tables, np.array([0, 1, 2, 2, 2, 2])).tolist() == [0, 0, 1]
    absent = absent_of(np.array([2, 2, 0]), np.array([2, 2, 1]), np.array([True, True, True]))
    found = absent_finding(*absent, "a value is too frequent", suspects=np.array([0, 0, 1]))
    assert "leaves 1 value(s) or more, so a belief of at most 100%." in found.remark


def test_exact_under_an_exchangeable_prior_on_the_labels() -> None:
    """One cell of 6 records, 3 values, r = 2, every labelled table: the withheld person's value is 1/t."""
    mass: dict[tuple[tuple[int, ...], ...], dict[int, Fraction]] = {}
    for counts in [(a, b, 6 - a - b) for a in range(7) for b in range(7 - a)]:
        values = np.repeat(np.arange(3), counts)
        groups = group_records(np.zeros(6, np.int64), values, [np.zeros(6, np.int64)], np.arange(6), 2)
        gone = values[groups < 0]
        if gone.size and (groups >= 0).any():
            shown = tuple(sorted(tuple(sorted(values[groups == g].tolist())) for g in range(groups.max() + 1)))
            here = mass.setdefault(shown, {})
            for value in gone.tolist():
                here[value] = here.get(value, Fraction(0)) + Fraction(1, gone.size)
    assert len(mass) > 3
    for shown, weights in mass.items():
        rows = np.repeat(np.arange(len(shown)), [len(group) for group in shown])
        tables = GroupTables.of(rows, np.array([value for group in shown for value in group]))
        (full,) = full_values(tables, np.zeros(rows.size, np.int64)).tolist()
        assert max(weights.values()) / sum(weights.values()) == Fraction(1, full)
