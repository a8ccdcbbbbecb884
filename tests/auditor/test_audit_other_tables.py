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
from tests.auditor.test_audit import by
from tests.conftest import make_policy

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
    with pytest.raises(UsageError, match="no column 'sex', only 'age', 'disease'"):
        sf.audit(sf.scan(TRUE, make_policy(GENERAL)), tmp_path / "other.parquet")


def test_known_members_are_taken_out_of_their_classes(tmp_path: Path) -> None:
    """Of flu, flu, gout, flu the person of 34 is known: flu is left. HIV and gout are not touched."""
    table = sf.scan(TRUE, make_policy(GENERAL, "l = 2", "anatomy"))
    (found,) = by(sf.audit(table, generalized(tmp_path), known=pa.table({"age": [34], "sex": ["M"]})), "corruption")
    assert (found.verdict, found.stated, found.worst) == ("not covered by the guarantee", 0.5, 1)
    assert (found.records, found.at_risk, found.mean) == (5, 3, pytest.approx((3 * 1 + 2 * 0.5) / 5))
    assert "no member known the largest belief is 75%" in found.remark
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


# --- values and labels that are written otherwise ---------------------------------------------------------------------

ONE = {"age": "quasi_identifier", "disease": "sensitive"}
AGES, VALUES = ["23", "27", "34", "38"], ["flu", "gout", "gout", "HIV"]


def of(published: dict[str, list[Any]], truth: dict[str, list[Any]] | None = None, **given: Any) -> sf.Audit:
    """Audit what another tool published of people with an age and a disease, at l = 2."""
    table = sf.scan(pa.table(truth or {"age": AGES, "disease": VALUES}), make_policy(ONE, "l = 2", "anatomy"))
    return sf.audit(table, pa.table(published), **given)


def reason(audit: sf.Audit, attacker: str) -> str:
    (found,) = (each.reason for each in (*audit.not_applicable, *audit.not_measured) if each.attacker == attacker)
    return found


@pytest.mark.parametrize(
    ("ages", "diseases", "worst"),
    [
        (AGES, ["gout", "gout", "HIV", "flu"], 1),  # perturbed
        (["20-29"] * 2 + ["30-39"] * 2, ["flu", "HIV", "gout", "HIV"], 0.5),
        (["20-29"] * 2 + ["30-39"] * 2, ["mumps", "HIV", "mumps", "mumps"], 1),  # a value that nobody has
    ],
)
def test_perturbed_values_end_no_audit(ages: list[str], diseases: list[str], worst: float) -> None:
    found = of({"age": ages, "disease": diseases})
    assert (by(found, "classes")[0].worst, by(found, "linking")[0].worst) == (worst, worst)
    assert "does not show the values of its people" in reason(found, "background")


@pytest.mark.parametrize("unknown", ["*", "?", "", " ", None])
def test_a_sensitive_value_that_is_not_shown_is_unknown(unknown: str | None) -> None:
    """One class of flu, gout and two rows without a value: gout is one of the two that are told."""
    found = of({"age": ["*"] * 4, "disease": ["flu", "gout", unknown, unknown]})
    (classes,), (linking,) = by(found, "classes"), by(found, "linking")
    assert (classes.worst, classes.mean, linking.worst, linking.verdict) == (0.5, 0.5, 0.5, "within the bound")
    assert "2 published row(s) show no value" in classes.remark
    assert by(found, "reidentification")[0].worst == 1 / 4  # they are rows all the same
    assert found.published_rows == 4
    assert "withheld" in reason(found, "background")


def test_no_sensitive_value_at_all() -> None:
    found = of({"age": ["*"] * 4, "disease": ["*"] * 4})
    assert [f.attacker for f in found.findings] == ["reidentification"]
    assert {reason(found, name) for name in ("classes", "linking")} == {"no published row shows a sensitive value."}


def test_a_question_mark_that_the_table_has_is_a_value() -> None:
    people = {"age": AGES, "disease": ["flu", "?", "?", "?"]}
    found = of({"age": ["*"] * 4, "disease": ["flu", "?", "?", "?"]}, people)
    assert by(found, "linking")[0].worst == 0.75


def test_numbers_are_matched_by_their_value() -> None:
    """1 is published as 1.0; the class has 1 twice and 2 twice."""
    people = {"age": AGES, "disease": [1, 1, 2, 2]}
    found = of({"age": ["*"] * 4, "disease": [1.0, 1.0, 2.0, 2.0]}, people)
    assert (by(found, "linking")[0].worst, by(found, "linking")[0].mean) == (0.5, 0.5)
    assert len(by(found, "background")) == 1
    assert found.utility.aggregate_utility == 1
    large = {"age": AGES, "disease": [2**60, 2**60, 2**60 + 1, 2**60 + 1]}  # floats would not tell them apart
    assert by(of({"age": ["*"] * 4, "disease": [str(d) for d in large["disease"]]}, large), "linking")[0].worst == 0.5


def test_compound_values_that_are_written_alike_are_two() -> None:
    """("a / b", "c") and ("a", "b / c"): four values in a class, each of one person."""
    policy = make_policy(
        {"age": "quasi_identifier", "x": "sensitive", "y": "sensitive"}, "l = 4", "randomized-response"
    )
    people = pa.table({"age": AGES, "x": ["a / b", "a", "c", "a"], "y": ["c", "b / c", "d", "e"]})
    found = sf.audit(sf.scan(people, policy), people.set_column(0, "age", pa.array(["*"] * 4)))
    (classes,) = by(found, "classes")
    assert (classes.worst, classes.verdict) == (0.25, "within the bound")


def test_a_missing_sensitive_value_is_not_the_text_missing() -> None:
    roles = ONE | {"disease": 'sensitive; missing = "category"'}
    people = pa.table({"age": AGES[:2], "disease": [None, "(missing)"]})
    table = sf.scan(people, make_policy(roles, "l = 2", "anatomy"))
    (found,) = by(sf.audit(table, people.set_column(0, "age", pa.array(["*"] * 2))), "linking")
    assert found.worst == 0.5


@pytest.mark.parametrize(
    ("own", "shown"),
    [
        (["[20, 30)"] * 2 + ["[30, 40)"] * 2, ["[20, 30)"] * 2 + ["[30, 40)"] * 2),
        ([" F", " F", " M", " M"], ["F", "F ", " M", "M"]),
    ],
)
def test_labels_as_they_are_written_are_linked(own: list[str], shown: list[str]) -> None:
    found = of({"age": shown, "disease": VALUES}, {"age": own, "disease": VALUES})
    (linking,), (row,) = by(found, "linking"), by(found, "reidentification")
    assert linking.about == row.about == ""
    assert (linking.worst, linking.mean) == (0.5, 0.5)
    assert (row.worst, row.mean) == (0.5, 0.5)


def test_local_suppression_by_hand() -> None:
    """Empty ages may be anybody's: 23 and 27 fit two rows, flu and gout; 34 besides its own, gout; 38 HIV."""
    found = of({"age": [None, None, "34", "38"], "disease": VALUES})
    (linking,), (row,) = by(found, "linking"), by(found, "reidentification")
    assert (linking.worst, linking.verdict) == (2 / 3, "above the bound")
    assert linking.mean == pytest.approx((1 / 2 + 1 / 2 + 2 / 3 + 1 / 3) / 4)
    assert (row.worst, row.mean) == (1 / 2, pytest.approx((1 / 2 + 1 / 2 + 1 / 3 + 1 / 3) / 4))


def test_if_nobody_fits_nothing_is_within_a_bound() -> None:
    found = of({"age": ["20 to under 30"] * 2 + ["aged 34", "aged 38"], "disease": VALUES})
    assert [f.attacker for f in found.findings] == ["classes"]
    for attacker in ("linking", "reidentification"):
        assert reason(found, attacker).startswith("nobody fits a published row. 3 label(s) stand for nobody's value")
        assert "'age = 20 to under 30'" in reason(found, attacker)


def test_those_who_fit_no_row_are_counted_beside_the_verdict() -> None:
    found = of({"age": ["20 to under 30"] * 2 + ["30-39"] * 2, "disease": VALUES})
    (linking,), (row,) = by(found, "linking"), by(found, "reidentification")
    assert (linking.about, linking.verdict, linking.mean) == ("2 of 4 fit no row", "within the bound", 0.5)
    assert "nothing is said of them. 1 label(s) stand for nobody's value" in linking.remark
    assert (row.about, row.mean) == ("2 of 4 fit no row", 0.5)
    assert "linking (2 of 4 fit no row)" in found.explain()


def test_which_table_is_empty_is_told() -> None:
    policy = make_policy(GENERAL, "l = 2", "anatomy")
    for own, shown, which in ((TRUE.slice(6), TRUE, "original"), (TRUE, TRUE.slice(6), "published")):
        with pytest.raises(UsageError, match=f"The {which} table has no rows"):
            sf.audit(sf.scan(own, policy), shown)


def test_a_register_of_strangers_is_not_within_a_bound() -> None:
    published = {"age": ["20-29"] * 2 + ["30-39"] * 2, "disease": VALUES}
    assert "nobody of the register fits" in reason(of(published, external=pa.table({"age": [99]})), "register")
    row, value = by(of(published, external=pa.table({"age": [25, 99]})), "register")
    assert (row.about, value.about) == ("row; 1 of 2 fit no row", "value; 1 of 2 fit no row")


def test_what_is_asked_for_is_not_called_guaranteed() -> None:
    text = of({"age": ["*"] * 4, "disease": VALUES}).explain()
    assert "Asked for: l = 2: no value" in text
    assert "Guaranteed" not in text
    assert "Does not apply, because:\n" in text
    table = sf.scan(pa.table({"age": AGES, "disease": VALUES}), make_policy(ONE, "l = 2", "anatomy"))
    known, register = pa.table({"age": AGES[:1]}), pa.table({"age": AGES})
    found = sf.audit(table, pa.table({"age": ["*"] * 4, "disease": VALUES}), known=known, external=register)
    assert "Does not apply" not in found.explain()


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
