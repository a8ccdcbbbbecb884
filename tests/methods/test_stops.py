"""What stops a publisher before harm is done."""

from __future__ import annotations

import datetime
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import Infeasible, PolicyError
from sfumato.methods import load_plan
from sfumato.methods.response.joint import JointTable
from sfumato.publisher.policy import Policy
from tests.conftest import make_policy
from tests.constants import set_constants

UNIFORM = """
[method]
name = "uniform"
[requirement]
rho1 = 0.3
rho2 = 0.7
"""


# --- words --------------------------------------------------------------------------------------------------------


def test_t3_11_a_domain_beyond_all_memory_is_too_large_to_list() -> None:
    """No "39,745,213,164,754,779,366,227,968 GB" and no time of 10^25 hours."""
    table = JointTable((1000,) * 8 + (2,), np.zeros((1, 8), dtype=np.int64), np.ones((1, 2)))
    with pytest.raises(Infeasible) as error:
        table.check_size(dense=False)
    assert "The domain has about 10^24 cells" in error.value.message
    assert "too many to list" in error.value.message
    assert " GB" not in error.value.message
    assert len(error.value.message) < 250


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("rho1 = 0.3\n", "rho1: this key does not belong at the top of the policy, outside all sections; it goes into"),
        ("[output]\nrho1 = 0.3\n", "output.rho1: this key does not belong into [output]; it goes into [requirement]"),
        ("[output]\nrecord_key = 'a'\n", "it goes to the top of the policy, before all sections"),
        ("[output]\nformta = 'csv'\n", "output.formta: this key is not known; did you mean 'format'?"),
    ],
)
def test_t3_13_a_key_in_the_wrong_place_is_told_its_own(wrong: str, said: str) -> None:
    """It was: `rho1: not known; did you mean 'rho1'?`."""
    with pytest.raises(PolicyError) as error:
        Policy.parse(wrong + '[columns.a]\nrole = "sensitive"\n' + UNIFORM)
    assert said in error.value.message
    assert "did you mean 'rho1'" not in error.value.message


# --- what a policy says of itself -----------------------------------------------------------------------------------


def test_t3_5_all_open_decisions_are_listed_at_once() -> None:
    text = '[columns.a]\nrole = "sensitive"\n[columns.b]\nrole = "DECIDE: quasi_identifier or drop"\n'
    text += '[columns.c]\nrole = "DECIDE: sensitive or drop"\n' + UNIFORM
    with pytest.raises(PolicyError) as error:
        Policy.parse(text, "policy.toml")
    assert error.value.message == (
        "policy.toml leaves 2 decision(s) to you:\n"
        "  columns.b.role: quasi_identifier or drop\n"
        "  columns.c.role: sensitive or drop"
    )
    assert "DECIDE" in error.value.hint


def test_t7_what_was_read_off_the_table_is_listed_until_it_is_confirmed() -> None:
    column = '[columns.income]\nrole = "sensitive"\nbins = { breaks = [10, 20] }\nmissing = "category"\n'
    marked = Policy.parse(f"{column}from_table = true\n{UNIFORM}from_table = true\n")
    assert marked.facts_from_table == (
        "the bins of income",
        "that income has missing values",
        "rho1 and rho2 of the requirement",
    )
    confirmed = Policy.parse(f"{column}from_table = false\n{UNIFORM}")
    assert confirmed.facts_from_table == ()
    assert confirmed.hash() == Policy.parse(column + UNIFORM).hash() != marked.hash()
    declared = '[columns.illness]\nrole = "sensitive"\ndomain = ["flu", "HIV"]\nfrom_table = true\n' + UNIFORM
    assert Policy.parse(declared).facts_from_table == ("the domain of illness, as the policy lists it",)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ('role = "other"\npublish_as_is = ""', "takes the reason, in quotes"),
        ('role = "other"\npublish_as_is = true', "takes the reason, in quotes"),
        ('role = "identifier"\npublish_as_is = "I like it"', "goes with the role quasi_identifier or other"),
    ],
)
def test_publish_as_is_needs_a_reason_and_a_column_that_is_published_so(rule: str, said: str) -> None:
    with pytest.raises(PolicyError) as error:
        Policy.parse(f'[columns.a]\nrole = "sensitive"\n[columns.b]\n{rule}\n{UNIFORM}')
    assert said in error.value.message


# --- columns that tell who people are -------------------------------------------------------------------------------

N = 400
DAY_ONE = datetime.date(1950, 1, 1)


def patients(**more: object) -> pa.Table:
    columns = {
        "age": np.arange(N) % 60,
        "sex": ["F", "M"] * (N // 2),
        "illness": [("flu", "gout", "HIV", "asthma")[k % 4] for k in range(N)],
    }
    return pa.table(columns | more)


def asked(table: pa.Table, **rules: str) -> Policy:
    """All columns that are not told otherwise are quasi-identifiers."""
    known = {"illness": 'role = "sensitive"\ndomain = ["flu", "gout", "HIV", "asthma"]'} | rules
    text = "".join(
        f'[columns."{name}"]\n' + known.get(name, 'role = "quasi_identifier"') + "\n" for name in table.column_names
    )
    return Policy.parse(text + UNIFORM)


TELLING: dict[str, tuple[str, object, str]] = {
    "record number by its name": ("patient_nbr", np.arange(N) % 200, "is named like an identifier"),
    "name": ("last name", [f"Smith {k % 90}" for k in range(N)], "tells who a person is"),
    "e-mail by its contents": ("x", [f"p{k % 90}@example.org" for k in range(N)], "holds e-mail addresses"),
    "telephone": ("x", [f"+44 20 7946 {k % 90:04d}" for k in range(N)], "telephone numbers"),
    "street": ("x", [f"{k % 90 + 1} High Street, Leeds" for k in range(N)], "street addresses"),
    "account": ("x", [f"GB29NWBK601613319268{k % 90:02d}" for k in range(N)], "numbers of persons, accounts"),
    "notes": ("x", [f"came again on day {k % 150} with a cough" for k in range(N)], "holds free text"),
    "birth date": (
        "x",
        [DAY_ONE + datetime.timedelta(days=7 * (k % 150)) for k in range(N)],
        "holds dates to the day: 150 different ones",
    ),
    "moment": (
        "x",
        [datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=7 * (k % 150)) for k in range(N)],
        "holds dates to the day: 150 different ones",
    ),
    "amount": ("x", np.arange(N) * 0.37, "is nearly unique: 400 different values in 400 rows"),
    "3,211 values in 4,000 rows": ("x", [min(k, 320) for k in range(N)], "is nearly unique: 321 different values"),
}


@pytest.mark.parametrize("role", ["quasi_identifier", "other"])
@pytest.mark.parametrize("case", TELLING)
def test_t3_1_and_4_a_column_that_tells_who_people_are_is_refused(case: str, role: str, tmp_path: Path) -> None:
    """By plan and publish, from memory, Parquet and CSV alike; unless the policy says why it is published."""
    name, values, said = TELLING[case]
    table = patients(**{name: values})
    policy = asked(table, **{name: f'role = "{role}"'})
    pq.write_table(table, tmp_path / "t.parquet")
    csv.write_csv(table, tmp_path / "t.csv")
    for place in (table, tmp_path / "t.parquet", tmp_path / "t.csv"):
        with pytest.raises(PolicyError) as error:
            planned(place, policy)
        assert said in error.value.message
        assert "publish_as_is" in error.value.hint
    as_is = asked(table, **{name: f'role = "{role}"\npublish_as_is = "drawn anew for the release"'})
    made = planned(table, as_is)
    with pytest.raises(PolicyError, match="can tell who people are"):
        sf.publish(sf.scan(table, policy), made, tmp_path / "refused")
    assert not (tmp_path / "refused").exists()
    assert sf.publish(sf.scan(table, as_is), made, tmp_path / "release").manifest.data.rows == N


def planned(place: object, policy: Policy) -> sf.Plan:
    return sf.plan(sf.profile(sf.scan(place, policy)), policy.method, policy.requirement)


HARMLESS: dict[str, tuple[str, object, str]] = {
    "a code that is named like an identifier": ("admission_type_id", np.arange(N) % 8, ""),
    "a binned amount": ("salary", np.arange(N) * 0.37, "bins = { width = 20 }"),
    "an id in few bins": ("patient_id", np.arange(N), "bins = { width = 100 }"),
    "a few days of visits": ("day", [DAY_ONE + datetime.timedelta(days=k % 20) for k in range(N)], ""),
    "the years of birth, as dates": ("born", [datetime.date(1940 + k % 60, 1, 1) for k in range(N)], ""),
    "names of products": ("product", [f"vitamin tablets of kind {k % 60} for adults" for k in range(N)], ""),
    "postal codes": ("zip", [f"{10000 + k % 150}" for k in range(N)], ""),
    "whether there is an e-mail": ("email", ["yes", "no"] * (N // 2), ""),
    "codes with dots": ("icd", [f"{k % 15}.{k % 7}" for k in range(N)], ""),
}


@pytest.mark.parametrize("case", HARMLESS)
def test_columns_of_categories_and_coarse_ones_are_planned(case: str) -> None:
    name, values, rule = HARMLESS[case]
    table = patients(**{name: values})
    assert planned(table, asked(table, **{name: f'role = "quasi_identifier"\n{rule}'})).rows == N


def test_all_columns_that_stop_are_told_at_once() -> None:
    table = patients(phone=[f"{k}" for k in range(N)], note=[f"seen by doctor {k} in ward two" for k in range(N)])
    with pytest.raises(PolicyError) as error:
        planned(table, asked(table))
    assert error.value.message.startswith("The policy publishes 2 column(s) that can tell who people are:")
    assert "'phone'" in error.value.message
    assert "'note'" in error.value.message


def test_a_small_table_says_nothing_of_uniqueness() -> None:
    table = patients(x=np.arange(N)).slice(0, 20)
    assert planned(table, asked(table)).rows == 20


def test_near_uniqueness_is_counted_over_the_whole_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many values among the first rows are no proof: here each of 150 comes back in the rows that follow."""
    set_constants(monkeypatch, "sfumato.engines", FIRST_ROWS=100)
    table = pa.concat_tables([patients(x=np.arange(N) % 150).slice(k, 100) for k in (0, 100, 200, 300)])
    assert planned(table, asked(table)).rows == N
    table = pa.concat_tables([patients(x=np.arange(N)).slice(k, 100) for k in (0, 100, 200, 300)])
    with pytest.raises(PolicyError, match="400 different values in 400 rows"):
        planned(table, asked(table))


def test_t3_6_free_text_as_the_sensitive_column_is_refused() -> None:
    table = patients(illness=[f"patient {k} complains of a cough" for k in range(300)] + ["no complaints today"] * 100)
    with pytest.raises(PolicyError) as error:
        planned(table, asked(table, illness='role = "sensitive"'))
    assert "'illness' is nearly unique: 301 different values in 400 records" in error.value.message
    for way in ("bins", 'role = "drop"', "another sensitive column"):
        assert way in error.value.hint


# --- how many records can be found ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["uniform", "small-domain", "anatomy", "randomized-response"])
def test_t3_4_a_plan_says_how_many_records_are_alone(method: str, tmp_path: Path) -> None:
    """The figure is the survey's; it is kept in the plan, and is nowhere in the release."""
    table = patients(village=[("hill", "lake", "mill")[k % 3] if k % 40 else f"farm {k}" for k in range(N)])
    asked_for = "l = 2" if method in ("anatomy", "randomized-response") else "rho1 = 0.3\nrho2 = 0.7"
    stated = asked(table).model_dump()
    stated |= {"method": {"name": method}, "requirement": tomllib.loads(asked_for)}
    policy = Policy.model_validate(stated)
    opened = sf.scan(table, policy)
    made = sf.plan(sf.profile(opened), policy.method, policy.requirement)
    counts = Counter(zip(*(table[c].to_pylist() for c in ("age", "sex", "village")), strict=True))
    alone = sum(n == 1 for n in counts.values())
    assert alone >= 10
    sentence = f"{alone} of {N} records ({alone / N:.1%}) are alone with their age, sex and village."
    assert sentence in made.explain()
    (tmp_path / "plan.json").write_text(made.to_json())
    assert load_plan(tmp_path / "plan.json").uniqueness == made.uniqueness
    release = sf.publish(opened, made, tmp_path / "r")
    assert "alone" not in release.manifest.to_json()


def test_records_that_are_alone_are_counted_unasked_in_small_tables_only(monkeypatch: pytest.MonkeyPatch) -> None:
    table = patients()
    opened = sf.scan(table, asked(table))
    assert sf.profile(opened).uniqueness is not None
    set_constants(monkeypatch, "sfumato.publisher", SMALL_TABLE=N - 1)
    assert sf.profile(opened).uniqueness is None
    assert sf.profile(opened, uniqueness=True).uniqueness is not None


def test_t7_the_adversary_follows_from_what_was_read_off_the_table() -> None:
    """The same plan promises less until both places are confirmed, and keeps to whom it promises it."""
    table = patients(income=[30.0 + k % 50 for k in range(N)]).drop_columns(["illness"])
    bins = 'role = "sensitive"\nbins = { breaks = [40, 50, 60] }'
    promised = {}
    for column, whole in ((True, True), (False, True), (True, False), (False, False)):
        stated = asked(table, income=bins + f"\nfrom_table = {str(column).lower()}").model_dump(exclude_unset=True)
        stated["requirement"]["from_table"] = whole
        made = planned(table, Policy.model_validate(stated))
        promised[column, whole] = (made.guarantee.strength, made.computed_from_table)
        assert ("the values of any other records" in made.guarantee.adversary) == (not column and not whole)
    weaker = "any prior, computed from this table"
    assert promised == {
        (True, True): (weaker, ("the bins of income", "rho1 and rho2 of the requirement")),
        (False, True): (weaker, ("rho1 and rho2 of the requirement",)),
        (True, False): (weaker, ("the bins of income",)),
        (False, False): ("any prior", ()),
    }


def test_what_is_published_for_a_reason_is_told_to_who_signs(tmp_path: Path) -> None:
    """The column and the reason stand in the plan: otherwise nobody sees the exemption."""
    rows = pa.table({"rid": list(range(60)), "s": ["a", "b", "c"] * 20})
    reason = "drawn at random for this release"
    policy = Policy.parse(
        f'[columns.rid]\nrole = "other"\npublish_as_is = "{reason}"\n[columns.s]\nrole = "sensitive"\n{UNIFORM}'
    )
    table = sf.scan(rows, policy)
    told = sf.plan(sf.profile(table), policy.method, policy.requirement).explain()
    assert f"'rid' is published as it is, whatever it tells of who people are. The policy says why: {reason}." in told


@pytest.mark.parametrize(
    ("form", "value", "hint"), [("set", "a|b", 'Ask for form = "card"'), ("card", "card 1", "Merge")]
)
def test_cards_that_cannot_be_written_stop_the_plan(form: str, value: str, hint: str) -> None:
    rows = pa.table({"age": [1, 2, 3, 4] * 25, "disease": [value, "flu", "gout", "mumps"] * 25})
    policy = make_policy({"age": "drop", "disease": "sensitive"}, "gamma = 2", "subset", "", f'form = "{form}"')
    with pytest.raises(PolicyError, match="cannot be published") as error:
        sf.plan(sf.profile(sf.scan(rows, policy)), policy.method, policy.requirement)
    assert str(error.value.hint).startswith(hint)
