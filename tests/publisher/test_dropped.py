"""The role `drop`: the column is left out, as an identifier is, without being called one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv as pacsv

from sfumato.errors import PolicyError
from sfumato.publisher.survey import survey
from sfumato.publisher.table import scan
from tests.conftest import make_policy
from tests.engines.tools import multiset, patients, read_by_spark, released
from tests.release.test_residues import all_bytes

ROLES = {"name": "drop", "age": "drop", "sex": "quasi_identifier", "disease": "sensitive"}


@pytest.fixture(params=["arrow", "parquet", "csv"])
def kind(request: pytest.FixtureRequest) -> str:
    """Give each kind of table; tests/spark/test_shared.py gives another one."""
    return str(request.param)


def stored(table: pa.Table, kind: str, folder: Path) -> object:
    if kind == "arrow":
        return table
    if kind == "csv":
        pacsv.write_csv(table, folder / "t.csv")
        return folder / "t.csv"
    pq.write_table(table, folder / "t.parquet")
    return read_by_spark(folder / "t.parquet") if kind == "spark" else folder / "t.parquet"


def test_a_dropped_column_is_left_out_like_an_identifier(kind: str, tmp_path: Path) -> None:
    table = stored(patients(), kind, tmp_path)
    roles = (ROLES, dict(ROLES, name="identifier", age="identifier"))
    dropped, named = (released(table, make_policy(r), folder=tmp_path / f"r{k}") for k, r in enumerate(roles))
    assert [c.name for c in dropped.manifest.columns] == ["sex", "disease"]
    assert multiset(dropped) == multiset(named)
    assert b"patient 299" not in all_bytes(dropped.folder)


@pytest.mark.parametrize("role", ["drop", "identifier"])
def test_persons_and_records_may_be_told_apart_by_either(role: str, tmp_path: Path) -> None:
    asked = 'record_key = "name"\nseries = "visits"\nperson = { column = "age" }'
    policy = make_policy(dict(ROLES, name=role, age=role), extra=asked)
    assert scan(patients(), policy).policy.record_key == "name"


def test_missing_values_of_a_dropped_column_leave_no_row_out(tmp_path: Path) -> None:
    table = pa.table({"x": [None, 1] * 60, "s": ["a", "b", "c"] * 40})
    for missing in ("error", "drop", "category"):
        policy = make_policy({"x": f"drop; missing = '{missing}'", "s": "sensitive"})
        release = released(table, policy, folder=tmp_path / missing)
        assert release.manifest.data.rows == 120


def test_what_is_not_published_can_be_dropped(tmp_path: Path) -> None:
    table = pa.table({"x": [[1]] * 60, "s": ["a", "b"] * 30})
    assert released(table, make_policy({"x": "drop", "s": "sensitive"}), folder=tmp_path / "r")


@pytest.mark.parametrize("more", ["domain = ['a']", "bins = { width = 10 }", "bins = 'year'", "merge = { a = ['b'] }"])
def test_a_dropped_column_takes_no_values(more: str) -> None:
    with pytest.raises(PolicyError, match="the column is dropped: it takes no domain, no bins and no merge"):
        make_policy({"x": f"drop; {more}", "s": "sensitive"})


def test_a_column_without_a_role_is_told_of_both(tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        scan(patients(), make_policy({"disease": "sensitive"}))
    assert "identifier or drop" in caught.value.hint


def test_a_survey_shows_the_role() -> None:
    opened = scan(patients(), make_policy(ROLES))
    assert {c.name: c.role for c in survey(opened.source, opened).columns} == ROLES
