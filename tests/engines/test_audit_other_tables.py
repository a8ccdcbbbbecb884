"""The audit of tables that other tools published: classes, known members, registers, and tables that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import UsageError
from tests.conftest import make_policy
from tests.engines.test_audit import by

TRUE = pa.table(
    {
        "age": [23, 27, 34, 38, 61, 66],
        "sex": ["F", "F", "M", "M", "F", "M"],
        "disease": ["flu", "flu", "gout", "flu", "HIV", "gout"],
    }
)
GENERAL = {"age": "quasi_identifier", "sex": "quasi_identifier", "disease": "sensitive"}


def generalized(folder: Path) -> Path:
    table = pa.table({"age": ["[20, 40)"] * 4 + ["60+"] * 2, "sex": ["*"] * 6, "disease": TRUE["disease"].to_pylist()})
    pacsv.write_csv(table, folder / "other.csv")
    return folder / "other.csv"


def test_a_generalized_table_is_held_to_1_l(tmp_path: Path) -> None:
    found = sf.audit(sf.scan(TRUE, make_policy(GENERAL, "l = 2", "anatomy")), generalized(tmp_path))
    (classes,), (linking,) = by(found, "classes"), by(found, "linking")
    assert (classes.worst, classes.promised, classes.at_risk) == (0.75, 0.5, 4)
    assert (linking.worst, linking.verdict) == (0.75, "above the bound")
    assert by(found, "reidentification")[0].worst == 0.5
    backgrounds = by(found, "background")
    assert [f.assumption.split("given ")[1].split(".")[0] for f in backgrounds] == ["age", "sex", "age, sex"]
    assert backgrounds[-1].worst == 1  # age tells all people apart, and the table's shares given it are certain
    assert (found.method, found.release_id, found.assurance, found.holds) == ("other", None, None, False)
    assert found.utility.aggregate_utility == 1


def test_background_knowledge_of_sex_by_hand(tmp_path: Path) -> None:
    """Women have flu, flu, HIV and men gout, flu, gout. In the class 20 to 40 two women and two men: flu 3, gout 1."""
    found = sf.audit(sf.scan(TRUE, make_policy(GENERAL, "l = 2", "anatomy")), generalized(tmp_path))
    sex = by(found, "background")[1]
    assert sex.worst == 1  # only a man can have gout, and only a woman HIV
    assert "sex: worst 1" in sex.remark


def test_without_an_l_nothing_is_promised(tmp_path: Path) -> None:
    found = sf.audit(sf.scan(TRUE, make_policy(GENERAL)), generalized(tmp_path))
    assert {f.verdict for f in found.findings} == {"not covered by the guarantee"}
    assert [each.attacker for each in found.not_applicable] == ["corruption", "register", "background"]
    assert found.holds


def test_a_table_without_a_column_is_refused(tmp_path: Path) -> None:
    pq.write_table(TRUE.drop_columns(["sex"]), tmp_path / "other.parquet")
    with pytest.raises(UsageError, match="no column 'sex'"):
        sf.audit(sf.scan(TRUE, make_policy(GENERAL)), tmp_path / "other.parquet")


def test_known_members_are_taken_out_of_their_classes(tmp_path: Path) -> None:
    """Of flu, flu, gout, flu the person of 34 is known: flu is left. HIV and gout are not touched."""
    table = sf.scan(TRUE, make_policy(GENERAL, "l = 2", "anatomy"))
    (found,) = by(sf.audit(table, generalized(tmp_path), known=pa.table({"age": [34], "sex": ["M"]})), "corruption")
    assert (found.verdict, found.stated, found.worst) == ("not covered by the guarantee", 0.5, 1)
    assert (found.records, found.at_risk, found.mean) == (5, 3, pytest.approx((3 * 1 + 2 * 0.5) / 5))
    assert "no member known the largest belief is 0.75" in found.remark
    pacsv.write_csv(pa.table({"age": [23, 27, 61]}), tmp_path / "known.csv")
    (found,) = by(sf.audit(table, generalized(tmp_path), known=tmp_path / "known.csv"), "corruption")
    assert (found.records, found.worst, found.mean) == (3, 1, pytest.approx((0.5 + 0.5 + 1) / 3))


def test_known_members_who_fit_several_classes_are_not_taken_out(tmp_path: Path) -> None:
    """Who is 34 may be in both classes, who is 27 has a value that is not published for the class."""
    pq.write_table(
        pa.table({"age": ["*"] * 2 + ["< 30"] * 2, "sex": ["*"] * 4, "disease": ["flu", "gout", "gout", "HIV"]}),
        tmp_path / "other.parquet",
    )
    table = sf.scan(TRUE, make_policy(GENERAL, "l = 2", "anatomy"))
    (found,) = by(sf.audit(table, tmp_path / "other.parquet", known=pa.table({"age": [23, 34]})), "corruption")
    assert "1 known member(s) could not be taken out" in found.remark
    assert found.records == 4


def test_a_register_is_linked_with_labels(tmp_path: Path) -> None:
    """25 fits four rows, 64 two, 50 none; by sex alone, everybody fits all."""
    table = sf.scan(TRUE, make_policy(GENERAL, "l = 2", "anatomy"))
    register = pa.table({"age": [25, 25, 64, 50], "street": list("abcd")})
    row, value = by(sf.audit(table, generalized(tmp_path), external=register), "register")
    assert (row.worst, row.mean, row.records) == (0.5, pytest.approx((2 / 4 + 1 / 2) / 4), 4)
    assert "1 fit none" in row.remark
    assert (value.verdict, value.worst, value.at_risk) == ("above the bound", 0.75, 2)
    assert value.exposed[0].who == "age = 25: 'flu'"
    row, _ = by(sf.audit(table, generalized(tmp_path), external=pa.table({"sex": ["F"]})), "register")
    assert (row.worst, row.baseline) == (1 / 6, 1 / 6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"known": pa.table({"age": [23], "street": ["a"]})}, "listed by age, street"),
        ({"known": pa.table({"age": [99]})}, "not among the records"),
        ({"known": TRUE.select(["age"])}, "nobody is left"),
        ({"external": pa.table({"street": ["a"]})}, "no quasi-identifier of the table, only street"),
        ({"external": pa.table({"age": pa.array([], pa.int64())})}, "register has no rows"),
        ({"known": pa.table({"age": pa.array([], pa.int64())})}, "list of known members has no rows"),
    ],
)
def test_what_does_not_fit_another_tools_table(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        sf.audit(sf.scan(TRUE, make_policy(GENERAL, "l = 2", "anatomy")), generalized(tmp_path), **given)
