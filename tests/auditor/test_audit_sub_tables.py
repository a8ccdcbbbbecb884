"""The audit of sub-tables: what is promised of them, and what their label tells; and of rows that were left out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from tests.auditor.test_audit import METHODS, audited, by, rows_for
from tests.conftest import make_policy


def test_of_sub_tables_only_the_upward_bound_and_their_own_shares_are_promised(tmp_path: Path) -> None:
    found = audited(tmp_path / "r", METHODS["small-domain"])
    upward, downward = by(found, "posterior")
    assert (upward.verdict, downward.verdict) == ("within the bound", "not covered by the guarantee")
    assert "once the record's sub-table is seen" in upward.assumption
    assert {finding.verdict for finding in by(found, "background")} == {"not covered by the guarantee"}
    assert [finding.verdict for finding in by(found, "frequencies")] == ["within the bound"]


def test_the_label_of_a_sub_table_tells_by_itself(tmp_path: Path) -> None:
    policy = METHODS["small-domain"]
    rows = rows_for(policy)
    found = audited(tmp_path / "r", policy, rows, shuffle=False)
    (label,) = by(found, "label")
    release = sf.open_release(tmp_path / "r")
    numbers, values = release.to_arrow()["sub_table"].to_pylist(), rows["disease"].to_pylist()
    sizes, cells, table = Counter(numbers), Counter(zip(numbers, values, strict=True)), Counter(values)
    beliefs = {cell: n / sizes[cell[0]] for cell, n in cells.items()}
    assert label.verdict == "not covered by the guarantee"
    assert label.mean == pytest.approx(sum(n * beliefs[cell] for cell, n in cells.items()) / 300)
    assert (label.worst, label.baseline) in [
        (pytest.approx(b), pytest.approx(table[v] / 300)) for (_, v), b in beliefs.items()
    ]
    assert label.worst > label.baseline
    assert "local epsilon is infinite" in label.remark
    assert "becomes certainty" in label.remark
    other = audited(tmp_path / "u", METHODS["uniform"])
    assert ("label", "there are no sub-tables.") in [(each.attacker, each.reason) for each in other.not_applicable]


def test_what_absence_tells_is_measured_against_the_whole_table(tmp_path: Path) -> None:
    """13 of 22 people have a, 8 have b, one c; of the seven without a sex five, one and one."""
    sexes = ["F"] * 5 + [None] * 7 + ["M"] * 10
    diseases = [*"ababa", *"aaaaa", "b", "c", *"ab" * 5]
    rows = pa.table({"sex": sexes, "disease": diseases})
    policy = make_policy({"sex": "quasi_identifier; missing = 'drop'", "disease": "sensitive"})
    (absent,) = by(audited(tmp_path / "r", policy, rows), "missing")
    assert (absent.worst, absent.records) == (pytest.approx(5 / 7), 7)
    assert absent.mean == pytest.approx((5 * 5 / 7 + 2 * 1 / 7) / 7)
    assert absent.baseline == pytest.approx(13 / 22)
    assert absent.at_risk == 5 + 1  # a and c are commoner among those who are absent, b is rarer
