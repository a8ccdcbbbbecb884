"""Proposed policies: every choice has its reason, every table gets a policy that fits it."""

from __future__ import annotations

import datetime
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.engines.base import RESERVED
from sfumato.engines.embedded.sources import open_source
from sfumato.errors import PolicyError, TableError, UsageError
from sfumato.methods import METHODS, plan
from sfumato.methods.ordered.plateau import Plateau
from sfumato.methods.ordered.ranges import Ranges
from sfumato.methods.subset.method import Subset
from sfumato.methods.uniform import Uniform
from sfumato.publisher import toml
from sfumato.publisher.policy import Policy
from sfumato.publisher.proposal import choosing, propose
from sfumato.publisher.survey import survey
from sfumato.publisher.table import RESULT_NAMES, Table, profile, scan
from sfumato.values.matrix.retention import amplification
from tests.conftest import slow

ROWS = 200


def clinic(**changes: Any) -> pa.Table:
    rng = np.random.default_rng(1)
    columns: dict[str, Any] = {
        "patient_id": [f"p{k}" for k in range(ROWS)],
        "name": rng.choice(["Ann", "Bob", "Eve"], ROWS),
        "age": np.arange(ROWS) % 90,
        "sex": rng.choice(["F", "M"], ROWS),
        "shoe_size": rng.integers(36, 46, ROWS),
        "diagnosis": rng.choice(["flu", "gout", "hiv"], ROWS, p=[0.6, 0.3, 0.1]),
    }
    return pa.table({**columns, **changes})


def proposed(table: Any) -> tuple[str, Policy]:
    """The text, and the policy after it was fitted to the table."""
    text = propose(open_source(table))
    policy = Policy.parse(decided(text))
    scanned = scan(table, policy)
    if policy.person is None:
        profile(scanned)
    return text, policy


def decided(text: str) -> str:
    """What is open is decided by the first choice of each place; of rho1, by the one that is offered."""
    first = re.sub(r'^role = "DECIDE: (\w+).*"$', r'role = "\1"', text, flags=re.MULTILINE)
    return re.sub(r'^rho1 = "DECIDE: rho1 = ([0-9.]+) .*"$', r"rho1 = \1", first, flags=re.MULTILINE)


def roles(policy: Policy) -> dict[str, str]:
    return {name: rule.role for name, rule in policy.columns.items()}


def reason(text: str, column: str) -> str:
    """The comment above a column, as one line."""
    block = next(b for b in text.split("\n\n") if f"[columns.{toml.key(column)}]" in b)
    return " ".join(line.removeprefix("# ") for line in block.split("[columns.")[0].splitlines())


# --- roles --------------------------------------------------------------------------------------------------


def test_a_clinic_gets_the_roles_a_reader_would_give() -> None:
    text, policy = proposed(clinic())
    assert roles(policy) == {
        "patient_id": "identifier",
        "name": "identifier",
        "age": "quasi_identifier",
        "sex": "quasi_identifier",
        "shoe_size": "quasi_identifier",
        "diagnosis": "sensitive",
    }
    assert "200 different values in 200 rows. It is named like an identifier; it is left out." in reason(
        text, "patient_id"
    )
    assert "Named like a secret" in reason(text, "diagnosis")
    assert "Not recognized, so taken as known to others" in reason(text, "shoe_size")
    assert policy.columns["age"].bins is not None
    assert policy.columns["age"].bins.width == 10
    assert '# record_key = "patient_id"' in text
    assert "ASSUMED, NOT PROVED" in text.replace("\n# ", " ")


def test_every_column_has_a_reason_above_it() -> None:
    text, policy = proposed(clinic())
    for name in policy.columns:
        assert re.search(r"\d+ different value", reason(text, name))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("E-Mail", "identifier"),
        ("email", "identifier"),
        ("homePhone", "identifier"),
        ("SSN", "identifier"),
        ("patient name", "identifier"),
        ("product_name", "quasi_identifier"),
        ("zip", "quasi_identifier"),
        ("date_of_birth", "quasi_identifier"),
        ("ICD10", "sensitive"),
        ("annual.salary", "sensitive"),
        ("number_diagnoses", "quasi_identifier"),
    ],
)
def test_names_decide(name: str, expected: str) -> None:
    values = [f"v{k % 7}" for k in range(ROWS)]
    table = pa.table({name: values, "religion" if expected != "sensitive" else "sex": ["a", "b"] * (ROWS // 2)})
    assert roles(proposed(table)[1])[name] == expected


def test_nearly_unique_columns_are_dropped_whatever_their_name() -> None:
    table = clinic(token=[f"t{k}" for k in range(ROWS)], exact=np.arange(ROWS) * 7, measure=np.arange(ROWS) / 7)
    text, policy = proposed(table)
    assert policy.columns["token"].role == "drop"
    for name in ("token", "exact", "measure"):
        assert "It is nearly unique" in reason(text, name)
    for name in ("exact", "measure"):  # amounts or numbers of persons: who knows?
        assert f'[columns.{name}]\nrole = "DECIDE: drop, or quasi_identifier with bins"' in text


def test_an_id_with_few_values_is_a_code() -> None:
    text, policy = proposed(clinic(admission_type_id=np.arange(ROWS) % 8))
    assert policy.columns["admission_type_id"].role == "quasi_identifier"
    assert "it is a code" in reason(text, "admission_type_id")


def test_one_secret_is_chosen_and_the_others_are_dropped_until_decided() -> None:
    table = clinic(income=np.arange(ROWS) % 50, diag_2=["x", "y"] * (ROWS // 2))
    text, policy = proposed(table)
    assert [name for name, role in roles(policy).items() if role == "sensitive"] == ["diagnosis"]
    for name in ("income", "diag_2"):
        assert f'[columns.{name}]\nrole = "DECIDE: drop, sensitive or quasi_identifier"' in text
        assert "LOOKS SENSITIVE TOO" in reason(text, name)


@pytest.mark.parametrize("name", ["wealth", "income", "diag_2"])
def test_what_a_second_secret_is_offered_works(name: str) -> None:
    """Its own method and requirement, whatever the method of the first takes."""
    rng = np.random.default_rng(3)
    table = amounts().append_column("wealth", pa.array(np.exp(rng.normal(11, 1, 4_000))))
    if name != "wealth":
        table = clinic(income=np.arange(ROWS) % 50 * 1_000.5, diag_2=["x", "y", "y", None] * (ROWS // 4))
    text = propose(open_source(table))
    assert "together with the first" not in plain(text)
    before, after = text.split(f'[columns.{name}]\nrole = "DECIDE: drop, sensitive or quasi_identifier"')
    section, rest = after.split("\n\n", 1)
    asked = "\n".join(line.removeprefix("# ") for line in section.split("\n") if re.match(r"# (\[|\w+ = )", line))
    policy = Policy.parse(decided(f'{before}[columns.{name}]\nrole = "sensitive"\n{asked}\n\n{rest}'))
    scanned = scan(table, policy)
    assert policy.method.name == "several"
    assert plan(profile(scanned), policy.method, policy.requirement).rows == table.num_rows


def test_without_a_likely_secret_the_publisher_chooses_one() -> None:
    table = clinic().drop_columns(["diagnosis"]).append_column("serial", pa.array([f"s{k}" for k in range(ROWS)]))
    text, policy = proposed(table)
    assert policy.columns["shoe_size"].role == "sensitive"
    assert "No column looks sensitive, and this one stands for yours" in reason(text, "shoe_size")
    with pytest.raises(PolicyError, match="leaves 1 decision"):
        Policy.parse(text)


def test_what_cannot_be_published_is_dropped() -> None:
    table = clinic(blob=[b"x"] * ROWS, tags=[["a"]] * ROWS, void=pa.nulls(ROWS))
    _, policy = proposed(table)
    assert {roles(policy)[name] for name in ("blob", "tags", "void")} == {"drop"}


def test_a_table_without_a_column_to_randomize_is_refused() -> None:
    with pytest.raises(TableError, match="No column can be randomized"):
        propose(open_source(pa.table({"day": pa.array([1, 2], pa.date32()), "one": ["x", "x"]})))
    with pytest.raises(TableError, match="no rows"):
        propose(open_source(pa.table({"disease": pa.array([], pa.string())})))


# --- details ------------------------------------------------------------------------------------------------


def test_missing_values_are_a_category_with_their_count() -> None:
    holes = [None if k % 10 == 0 else "F" for k in range(ROWS)]
    text, policy = proposed(clinic(sex=holes, diagnosis=[None, "flu"] * (ROWS // 2)))
    assert policy.columns["sex"].missing == policy.columns["diagnosis"].missing == "category"
    assert policy.columns["age"].missing == "error"
    assert 'missing = "category"    # missing in 20 rows' in text


def test_ages_are_binned_other_numbers_only_by_suggestion() -> None:
    text, policy = proposed(clinic(dose=np.arange(ROWS) % 80))
    assert policy.columns["dose"].bins is None
    assert "# bins = { width = 10 }" in text
    few = proposed(clinic(age=np.arange(ROWS) % 25))[1]
    assert few.columns["age"].bins is None


def test_a_secret_number_gets_round_bins() -> None:
    rng = np.random.default_rng(2)
    table = clinic(income=np.exp(rng.normal(10, 1, ROWS))).drop_columns(["diagnosis"])
    _, policy = proposed(table)
    assert policy.columns["income"].bins is not None
    breaks = policy.columns["income"].bins.breaks
    assert 4 <= len(breaks) <= 8
    assert all(f"{x:g}".rstrip("0")[0] in "125" for x in breaks)
    assert min(breaks) < float(np.median(table["income"].to_numpy())) < max(breaks)


def test_the_domain_can_be_pasted_and_rare_values_are_named() -> None:
    secrets = ["flu", 'say "ah"', "x\ty"] * 66 + ["hiv", "hiv"]
    text, policy = proposed(clinic(diagnosis=secrets))
    assert policy.columns["diagnosis"].domain == "observed"
    line = next(line for line in text.splitlines() if line.startswith("# domain = ["))
    assert tomllib.loads(line.removeprefix("# ")) == {"domain": ["flu", "hiv", 'say "ah"', "x\ty"]}
    assert '1 of them in fewer than 5 rows: "hiv"' in " ".join(text.replace("\n#", "").split())
    declared = text.replace('domain = "observed"', line.removeprefix("# "))
    assert Policy.parse(declared).columns["diagnosis"].domain == ("flu", "hiv", 'say "ah"', "x\ty")


def test_repeated_persons_stop_until_the_publisher_decides() -> None:
    table = clinic(patient_id=[f"p{k // 2}" for k in range(ROWS)])
    text, policy = proposed(table)
    assert policy.person is not None
    assert (policy.person.column, policy.person.repeated) == ("patient_id", "error")
    with pytest.raises(TableError, match="200 rows belong to 100 persons"):
        profile(scan(table, policy))
    profile(scan(table, Policy.parse(text.replace('repeated = "error"', 'repeated = "keep-one"'))))
    told = re.search(r"only with ([^;]*); for other methods keep one row", " ".join(text.replace("#", "").split()))
    assert told
    assert set(re.split(", | and ", told[1])) == {method.name for method in METHODS if not method.why_not_one}


def test_suggestions_are_valid_when_switched_on() -> None:
    text, _ = proposed(clinic(dose=np.arange(ROWS) % 80))
    switched = text.replace("# bins = { width = 10 }", "bins = { width = 10 }")
    switched = switched.replace("# record_key", "record_key").replace("# series", "series")
    policy = Policy.parse(switched)
    assert policy.record_key == "patient_id"
    profile(scan(clinic(dose=np.arange(ROWS) % 80), policy))
    for alternative in ("epsilon = 1", "gamma = 3"):
        rho = re.sub(r"^rho[12] = .*\n", "", text, flags=re.MULTILINE)
        Policy.parse(rho.replace(f"# {alternative}", alternative))


def test_blurred_quasi_identifiers_are_offered_and_can_be_had() -> None:
    """In place of both sections; without quasi-identifiers there is nothing to offer."""
    text, _ = proposed(clinic())
    without = re.sub(
        r'^(\[method\]\nname = "uniform"|\[requirement\]\nrho1 = .*\nrho2 = .*\nfrom_table = .*)$',
        "",
        text,
        flags=re.MULTILINE,
    )
    offered = re.search(
        r'^# \[method\]\n# name = "randomized-response"\n# \[requirement\]\n# risk_limit.*$', text, re.MULTILINE
    )
    assert offered
    policy = Policy.parse(without.replace(offered[0], offered[0].replace("# ", "")))
    made = plan(profile(scan(clinic(), policy)), policy.method, policy.requirement)
    assert set(made.figures.randomized) <= set(policy.linked)
    assert made.figures.randomized
    alone, _ = proposed(pa.table({"diagnosis": ["flu", "gout", "hiv"] * 20}))
    assert "randomized-response" not in alone


# --- what was read off the table, and what cannot be promised -------------------------------------------------


def test_t7_init_marks_what_it_read_off_the_table() -> None:
    """60 salaries, one of them 30 or 900,000: the breaks differ, so the domain tells of one record."""
    rng = np.random.default_rng(2)
    wages = np.exp(rng.normal(10, 0.5, ROWS))
    one, other = (proposed(clinic(salary=np.append(wages[1:], x)).drop_columns(["diagnosis"])) for x in (30, 9e9))
    assert one[1].columns["salary"].bins != other[1].columns["salary"].bins
    for text, policy in (one, other):
        assert policy.columns["salary"].from_table
        assert policy.requirement_rule.from_table
        assert policy.facts_from_table == ("the bins of salary", "rho1 and rho2 of the requirement")
        confirmed = Policy.parse(re.sub(r"^from_table = true.*\n", "", text, flags=re.MULTILINE))
        assert confirmed.facts_from_table == ()


def test_t7_a_domain_that_is_pasted_and_missing_values_count_as_read_off_the_table() -> None:
    text, _ = proposed(clinic(diagnosis=[None, "flu", "gout", "hiv"] * (ROWS // 4)))
    pasted = text.replace('domain = "observed"', 'domain = ["flu", "gout", "hiv"]')
    assert Policy.parse(pasted).facts_from_table[:2] == (
        "the domain of diagnosis, as the policy lists it",
        "that diagnosis has missing values",
    )


def test_t3_2_dates_are_left_open_from_csv_and_parquet_alike(tmp_path: Path) -> None:
    born = [datetime.date(1950, 1, 1) + datetime.timedelta(days=97 * k) for k in range(ROWS)]
    table = clinic(born=born)
    csv.write_csv(table, tmp_path / "t.csv")
    pq.write_table(table, tmp_path / "t.parquet")
    for place in (table, tmp_path / "t.csv", tmp_path / "t.parquet"):
        text = propose(open_source(place))
        assert '''[columns.born]\nrole = "DECIDE: drop, or quasi_identifier with bins = \\"year\\""''' in text
        with pytest.raises(PolicyError, match=r"columns\.born\.role: drop, or quasi_identifier with bins"):
            Policy.parse(text)


def test_t3_8_nothing_is_proposed_where_one_value_has_nearly_all_records() -> None:
    """It was: rho .95 to .98."""
    text, policy = proposed(clinic(diagnosis=["healthy"] * 188 + ["flu", "gout", "hiv"] * 4))
    assert "94.0% of the records have one value" in text
    assert "no promise about it can be of use" in " ".join(text.replace("\n#", "").split())
    with pytest.raises(PolicyError, match=r"requirement\.rho1: rho1 = 0\.1 and rho2 = 0\.3 protect rare values only"):
        Policy.parse(text)
    assert policy.requirement.rho1 == 0.1


def test_t3_9_uniform_is_not_proposed_where_its_counts_are_noise() -> None:
    """200 values: uniform keeps 2% of them. Sub-tables keep more, and the proposal says by how much counts are off."""
    rng = np.random.default_rng(3)
    codes = np.minimum(rng.zipf(1.3, 20_000) - 1, 199)
    table = pa.table({"sex": ["F", "M"] * 10_000, "diagnosis": [f"d{k:03d}" for k in codes]})
    text, policy = proposed(table)
    assert policy.method.name == "small-domain"
    assert "is off by about" in text
    many = pa.table({"sex": ["F", "M"] * 500, "diagnosis": [f"d{k % 90}" for k in range(1000)]})
    text, policy = proposed(many)
    assert policy.method.name == "subset"
    assert "THAT IS MOSTLY NOISE" in text
    assert "THAT IS MOSTLY NOISE" not in proposed(clinic())[0]


# --- of methods with the same promise, the one with the least error -------------------------------------------


def plain(text: str) -> str:
    """The text without breaks of comments."""
    return " ".join(text.replace("#", "").split())


@pytest.mark.parametrize(("values", "expected"), [(3, "uniform"), (7, "uniform"), (12, "subset"), (40, "subset")])
def test_sets_are_proposed_where_they_estimate_counts_better(values: int, expected: str) -> None:
    codes = np.random.default_rng(4).integers(0, values, 5_000)
    table = pa.table({"sex": ["F", "M"] * 2_500, "diagnosis": [f"d{k:02d}" for k in codes]})
    text, policy = proposed(table)
    assert policy.method.name == expected
    assert ("(with uniform" in text) == (expected == "subset")
    figures = plan(profile(scan(table, policy)), policy.method, policy.requirement).figures
    assert not figures.uniform_estimates_better
    if expected == "subset":
        assert "The truth may lie outside" in plain(text)
        assert 'form = "set" or "card" decides' in plain(text)


def amounts(rows: int = 4_000, **changes: Any) -> pa.Table:
    rng = np.random.default_rng(6)
    columns: dict[str, Any] = {"sex": rng.choice(["F", "M"], rows), "income": np.exp(rng.normal(10, 1, rows))}
    return pa.table({**columns, **changes})


def test_ranges_are_proposed_for_amounts_and_what_that_costs_is_said() -> None:
    table = amounts()
    text, policy = proposed(table)
    assert policy.method.name == "ranges"
    assert policy.columns["income"].bins is not None
    assert policy.columns["income"].from_table
    assert "COUNTS OF SINGLE VALUES are estimated worse than by uniform or subset" in plain(text)
    typical = re.search(r"typically off by about (\d+) \(with uniform (\d+), with subset (\d+)", plain(text))
    assert typical is not None  # what the warning compares is told
    assert int(typical[1]) > int(typical[2])
    ranges, *others = (
        plan(profile(scan(table, policy)), method(), policy.requirement).figures.expected
        for method in (Ranges, Uniform, Subset, Plateau)
    )
    for other in others:
        assert ranges.share < 0.9 * other.share
        assert f"{other.share:.2%}" in text
        assert f"{other.mean:.2%}" in text


def test_open_bins_have_no_mean_and_bins_of_one_width_are_offered() -> None:
    assert "quantiles, but no mean" in plain(proposed(amounts())[0])
    table = pa.table({"sex": ["F", "M"] * 1000, "wage": np.random.default_rng(7).integers(10, 90, 2_000)})
    text, policy = proposed(table)
    line = next(line for line in text.splitlines() if line.startswith("# bins = { width"))
    switched = re.sub(r"^bins = .*$", line.removeprefix("# "), text, flags=re.MULTILINE)
    release = scan(table, Policy.parse(switched))
    assert policy.columns["wage"].bins is not None
    made = plan(profile(release), policy.method, policy.requirement).figures
    assert made.expected.mean is not None


def test_the_weaker_promise_is_offered_and_never_proposed() -> None:
    text, policy = proposed(amounts())
    assert policy.method.name != "geometric"
    assert "WEAKER PROMISE: geometric keeps the requirement only for someone who already knows" in plain(text)
    other = text.replace('name = "ranges"', "").replace(
        '# name = "geometric"\n# steps = 2', 'name = "geometric"\nsteps = 2'
    )
    assert Policy.parse(other).method.name == "geometric"
    assert "geometric" not in proposed(clinic())[0]


def test_quantities_with_missing_values_say_why_no_order_is_used() -> None:
    holes = [None if k % 10 == 0 else float(x) for k, x in enumerate(amounts()["income"].to_pylist())]
    text, policy = proposed(amounts(income=holes))
    assert policy.method.name in ("uniform", "subset")
    assert "not tried: 'income' may be missing, and a missing value is in no order." in plain(text)


def test_whole_numbers_are_quantities_by_name_or_where_nothing_else_helps() -> None:
    rng = np.random.default_rng(7)
    by_name = pa.table({"sex": ["F", "M"] * 1000, "wage": rng.integers(10, 90, 2_000)})
    text, policy = proposed(by_name)
    assert policy.columns["wage"].bins is not None
    assert "IF THEY ARE CODES" not in text
    codes = pa.table({"sex": ["F", "M"] * 1000, "diagnosis": rng.integers(10, 60, 2_000)})
    text, policy = proposed(codes)
    assert (policy.columns["diagnosis"].bins, policy.method.name) == (None, "subset")
    assert "# bins = { breaks" in text
    unnamed = pa.table({"sex": ["F", "M"] * 1000, "ernval": rng.integers(10, 90, 2_000)})
    text, policy = proposed(unnamed)
    assert policy.columns["ernval"].bins is not None
    assert "IF THEY ARE CODES and not amounts, remove them" in plain(text)


def test_the_secret_can_be_stated() -> None:
    source = open_source(clinic())
    policy = Policy.parse(decided(propose(source, "age")))
    assert policy.columns["age"].role == "sensitive"
    assert policy.columns["age"].bins is not None
    assert "Chosen as the secret" in propose(source, "sex")
    assert '[columns.diagnosis]\nrole = "DECIDE: drop, sensitive or quasi_identifier"' in propose(source, "age")
    with pytest.raises(UsageError, match="no column 'diagnoses'") as caught:
        propose(source, "diagnoses")
    assert caught.value.hint == "Did you mean 'diagnosis'?"
    with pytest.raises(TableError, match="'one' cannot be randomized"):
        propose(open_source(clinic(one=["x"] * ROWS)), "one")


def test_csv_delimiter_and_missing_texts(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    lines = [f"{20 + k % 50};{'F' if k % 2 else '?'};{'flu' if k % 3 else 'hiv'}" for k in range(ROWS)]
    path.write_text("age;sex;disease\n" + "\n".join(lines) + "\n")
    text, policy = proposed(path)
    assert policy.input.delimiter == ";"
    assert '# missing_values = ["", "?"]' in text
    assert Policy.parse(text.replace("# missing_values", "missing_values")).input.missing_values == ("", "?")
    assert policy.columns["age"].bins is not None  # read as text, recognized as numbers


ODD = ["blood pressure", "a.b", 'quo"te', "it's", "größe", "病名", "#", "=", "[x]", " lead"]


def test_odd_column_names_survive() -> None:
    table = clinic(**dict.fromkeys(ODD, ["x", "y"] * (ROWS // 2)))
    _, policy = proposed(table)
    assert set(ODD) < set(policy.columns)


def test_names_that_cannot_be_published_are_dropped() -> None:
    pair = ["x", "y"] * (ROWS // 2)
    text, policy = proposed(clinic(**dict.fromkeys(["tab\tnew\nline", "del\x7f", "Age"], pair)))
    assert {roles(policy)[name] for name in ("tab\tnew\nline", "del\x7f", "Age")} == {"drop"}
    assert 'Differs from "age" in case only' in reason(text, "Age")
    with pytest.raises(TableError, match="No column can be randomized"):
        propose(open_source(pa.table({"\x7f": pair})))


def is_taken(name: str) -> bool:
    """Whether a column of that name is refused."""
    return name.lower() in RESULT_NAMES or name.startswith(RESERVED)


TEXT = st.characters(codec="utf-8", exclude_characters="\0")  # Arrow ends a name there
NAMES = st.text(TEXT, min_size=1).filter(lambda name: name.strip() and name.isprintable() and not is_taken(name))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(NAMES, min_size=1, max_size=4, unique_by=str.lower),
    st.lists(st.text(TEXT), min_size=2, max_size=5, unique=True),
)
def test_any_names_and_values_give_a_policy_that_fits(names: list[str], values: list[str]) -> None:
    table = pa.table(dict.fromkeys(names, values * 3))
    _, policy = proposed(table)
    assert list(policy.columns) == names


# --- figures ------------------------------------------------------------------------------------------------


@given(st.floats(1e-9, 1))
def test_requirements_are_valid_and_moderate(share: float) -> None:
    rho1, rho2 = choosing.requirement(share)
    assert 0 < rho1 < rho2 < 1
    assert 1000 * rho1 >= min(1000 * share, 990)
    assert rho2 <= 3 * rho1
    assert 1 < amplification(rho1, rho2) <= choosing.ODDS


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.floats(0, 1))
def test_breaks_are_ascending_few_and_inside(low: float, spread: float, where: float) -> None:
    high = low + spread
    if not high > low:
        return
    found = choosing.round_breaks(low, low + where * (high - low), high)
    assert 1 <= len(found) <= 2 * choosing.CLASSES
    assert found == sorted(set(found))


# --- real tables --------------------------------------------------------------------------------------------

REAL = [
    "adult_complete_45222.csv",
    "adult_complete_45222.parquet",
    "adult_full_48842.parquet",
    "acs2024_census_like_10k.csv",
    "diabetes130_101766.parquet",
    slow("diabetes130_patients.csv"),
    slow("diabetes130_patients.parquet"),
    "caers_supplements_20156.csv",
    "caers_supplements_20156.parquet",
    "sdcmicro_cascrefmicrodata_1080.csv",
    "sdcmicro_cascrefmicrodata_1080.parquet",
    "sdcmicro_francdat_8.csv",
    "sdcmicro_francdat_8.parquet",
    "sdcmicro_tarragona_834.csv",
    "sdcmicro_tarragona_834.parquet",
    "sdcmicro_testdata_4580.csv",
    "sdcmicro_testdata_4580.parquet",
]


@pytest.fixture(params=REAL)
def real(request: pytest.FixtureRequest) -> Path:
    folder = os.environ.get("SFUMATO_DATA")
    if not folder:
        pytest.skip("SFUMATO_DATA does not name the folder of the real tables")
    path = Path(folder, str(request.param))
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return path


def test_real_tables_get_a_policy_that_fits_and_a_survey(real: Path) -> None:
    text, policy = proposed(real)
    secret = next(name for name, role in roles(policy).items() if role == "sensitive")
    expected = {"adult": "income", "diabetes130": "diag_1", "caers": "reaction", "acs2024": "occupation"}
    assert secret == expected.get(real.name.split("_")[0], secret)
    scanned: Table = scan(real, policy)
    found = survey(scanned.source, scanned)
    assert found.feasibility is not None
    assert found.feasibility[0].reason == ""
    assert found.explain()
    if policy.person is not None:  # patients and reports with several rows: the policy stops until it is decided
        assert any("Publishing would stop" in warning for warning in found.warnings)
        per_row = Policy.parse(decided(text).replace('repeated = "error"', 'repeated = "per-row"'))
        profile(scan(real, per_row))
    else:
        assert not any("Publishing would stop" in warning for warning in found.warnings)
