"""Randomized response from policy to release to estimate: formats, compounds, bins, missing values, keys, real data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from sfumato.analyst.release import Release
from sfumato.errors import PlanMismatch, TableError
from sfumato.publisher.policy import Policy
from sfumato.publisher.publish import publish
from sfumato.publisher.survey import survey
from sfumato.publisher.table import profile, scan
from sfumato.release.folder import file_sha256
from sfumato.values.randomness import SecretKey, simulation
from tests.conftest import make_policy
from tests.engines.tools import multiset, planned, released

ROWS = 800
METHOD = "randomized-response"
VALUES = {"sex": ["F", "M"], "region": ["east", "north", "west"], "disease": ["asthma", "flu", "gout", "mumps"]}
QUASI = {"sex": "quasi_identifier", "region": "quasi_identifier", "age": "quasi_identifier; bins = { width = 30 }"}
ROLES = {"name": "identifier", **QUASI, "disease": "sensitive"}


def people(rows: int = ROWS, seed: int = 4) -> pa.Table:
    """Return a table in which the disease depends on sex and age."""
    rng = simulation(seed)
    sex, region, age = rng.integers(0, 2, rows), rng.integers(0, 3, rows), rng.integers(0, 90, rows)
    disease = (rng.integers(0, 4, rows) + (rng.random(rows) < 0.3) * (sex + age // 45 + region)) % 4
    return pa.table(
        {
            "name": [f"person {k}" for k in range(rows)],
            "sex": [VALUES["sex"][k] for k in sex],
            "region": [VALUES["region"][k] for k in region],
            "age": age.tolist(),
            "disease": [VALUES["disease"][k] for k in disease],
        }
    )


def asked(
    requirement: str = "risk_limit = 0.36", method: str = "", roles: dict[str, str] | None = None, top: str = ""
) -> Policy:
    """Return a policy; `method` are more lines of its section."""
    return make_policy(roles or ROLES, requirement, METHOD, top, method)


AS_PUBLISHED = 'assurance = "as-published"'


def holds(release: Release) -> bool:
    """Whether every check holds but the one of the secret key: releases of tests are drawn from a seed."""
    failed = [check.name for check in release.verify().checks if check.status == "fails"]
    return failed == ["secret key"]


def treatments(release: Release) -> dict[str, str]:
    return {column.name: column.treatment for column in release.manifest.columns}


# --- formats ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.parametrize("source", ["parquet", "csv", "arrow"])
def test_every_format_gives_the_same_rows(source: str, form: str, tmp_path: Path) -> None:
    table: Any = people()
    path = tmp_path / f"people.{source}"
    if source == "parquet":
        pq.write_table(table, path)
    elif source == "csv":
        pa_csv.write_csv(table, path)
    release = released(table if source == "arrow" else path, asked(), folder=tmp_path / "r", format=form)
    reference = released(people(), asked(), folder=tmp_path / "reference")
    assert holds(release)
    assert release.manifest.data.shuffled
    assert multiset(release) == multiset(reference)
    assert treatments(release) == {
        "sex": "randomized", "region": "randomized", "age": "randomized", "disease": "untouched",
    }  # fmt: skip
    assert [m.domain.names for m in release.manifest.mechanism_values] == [("sex",), ("region",), ("age",)]
    assert {m.kind for m in release.manifest.mechanisms} == {METHOD}


@pytest.mark.parametrize("risk", ["posterior", "link"])
def test_the_release_says_that_the_sensitive_column_is_untouched(risk: str, tmp_path: Path) -> None:
    """Though the scope is both: in the manifest's limits, first, and in the README."""
    release = released(people(), asked(method=f'risk = "{risk}"\nscope = "both"'), folder=tmp_path / "r")
    assert release.manifest.guarantee.limits[0].startswith("disease is published untouched: every row shows the true")
    text = (release.folder / "README.md").read_text(encoding="utf-8")
    assert "`disease`, the sensitive column(s), are **not randomized**: every row shows the true value." in text
    assert "| disease | string | as collected |" in text
    randomized = released(people(), asked("l = 9", AS_PUBLISHED), folder=tmp_path / "s")
    assert "not randomized" not in (randomized.folder / "README.md").read_text(encoding="utf-8")


def test_untouched_columns_are_counted_exactly(tmp_path: Path) -> None:
    """Under `posterior` the sensitive column is published as it is; by itself its counts are the true ones."""
    answer = released(people(), asked(), folder=tmp_path / "r").count(by="disease")
    truth = Counter(people()["disease"].to_pylist())
    assert {group[0]: value for group, value in zip(answer.groups, answer.value, strict=True)} == pytest.approx(truth)
    assert answer.standard_error == pytest.approx(0, abs=1e-6)


def test_as_published_the_sensitive_column_is_randomized_too(tmp_path: Path) -> None:
    release = released(people(), asked("l = 9", AS_PUBLISHED), folder=tmp_path / "r")
    assert holds(release)
    assert treatments(release)["disease"] == "randomized"
    assert release.manifest.response is not None
    assert release.manifest.response.model_dump() == {
        "risk": "reconstruction", "scope": "both", "quasi_identifiers": ("sex", "region", "age"),
        "sensitive": ("disease",), "limit": "1/9", "groups": (),
    }  # fmt: skip
    text = (release.folder / "README.md").read_text(encoding="utf-8")
    assert "depends on the original table" in text


def test_several_sensitive_columns_are_one_compound(tmp_path: Path) -> None:
    table = people().append_column("outcome", pa.array(["ill", "well"] * (ROWS // 2)))
    release = released(table, asked("l = 12", AS_PUBLISHED, ROLES | {"outcome": "sensitive"}), folder=tmp_path / "r")
    assert holds(release)
    assert [m.domain.names for m in release.manifest.mechanism_values][-1] == ("disease", "outcome")
    answer = release.sql("SELECT sex, outcome, COUNT(*) FROM release GROUP BY sex, outcome")
    assert len(answer.groups) == 4
    assert float(answer.value.sum()) == pytest.approx(ROWS)


def test_fixed_columns_stay_as_they_are(tmp_path: Path) -> None:
    fixed = asked(method='fixed = ["region"]')
    made = released(people(), fixed, folder=tmp_path / "r")
    assert holds(made)
    assert treatments(made)["region"] == "untouched"
    assert Counter(made.to_arrow()["region"].to_pylist()) == Counter(people()["region"].to_pylist())
    assert "Published untouched: region." in made.manifest.guarantee.limits


def test_missing_values_are_a_category_or_drop_the_row(tmp_path: Path) -> None:
    table = people()
    gaps = pa.array([None if k % 10 == 0 else v for k, v in enumerate(table["region"].to_pylist())])
    table = table.set_column(2, "region", gaps)
    category = released(
        table, asked(roles=ROLES | {"region": "quasi_identifier; missing = 'category'"}), folder=tmp_path / "category"
    )
    assert holds(category)
    assert None in category.manifest.mechanism_values[1].domain.parts[0].values
    answer = category.count(by="region")
    assert len(answer.groups) == 4
    dropped = released(
        table, asked(roles=ROLES | {"region": "quasi_identifier; missing = 'drop'"}), folder=tmp_path / "drop"
    )
    assert holds(dropped)
    assert dropped.manifest.data.rows == ROWS - ROWS // 10
    assert any(limit.startswith("Rows without a value of region") for limit in dropped.manifest.guarantee.limits)
    with pytest.raises(TableError, match="'region' is missing in 80 row"):
        released(table, asked(), folder=tmp_path / "error")


def test_a_declared_domain_is_published_whole(tmp_path: Path) -> None:
    roles = ROLES | {"region": "quasi_identifier; domain = ['east', 'north', 'south', 'west']"}
    release = released(people(), asked(roles=roles), folder=tmp_path / "r")
    assert holds(release)
    assert release.manifest.mechanism_values[1].domain.size == 4
    assert "region" not in release.manifest.observed_domains
    roles["region"] = "quasi_identifier; domain = ['east', 'north']"
    with pytest.raises(TableError, match="outside its declared domain"):
        released(people(), asked(roles=roles), folder=tmp_path / "s")


# --- keys, persons, plans ---------------------------------------------------------------------------------------------


def test_records_keep_their_draws_with_a_key(tmp_path: Path) -> None:
    policy = asked("l = 9", AS_PUBLISHED, top='record_key = "name"\nseries = "s"')
    SecretKey.create(tmp_path / "key")
    key = SecretKey.load(tmp_path / "key")
    first, second = (released(people(), policy, folder=tmp_path / name, key=key) for name in ("a", "b"))
    order = simulation(1).permutation(ROWS)
    third = released(people().take(pa.array(order)), policy, folder=tmp_path / "c", key=key)
    assert (
        multiset(first)
        == multiset(second)
        == multiset(third)
        != multiset(released(people(), policy, folder=tmp_path / "d"))
    )
    assert first.verify().holds
    assert first.manifest.second_release.startswith("Records keep their draws")
    assert "ASSUMED, NOT PROVED" in first.manifest.second_release
    assert "a new row or a corrected value, can give others" in first.manifest.second_release


def test_several_rows_of_a_person_are_told(tmp_path: Path) -> None:
    twice = pa.concat_tables([people(400), people(400)])
    policy = asked(top='person = { column = "name", repeated = "per-row" }')
    release = released(twice, policy, folder=tmp_path / "r")
    assert any(limit.startswith("Several rows of one person") for limit in release.manifest.guarantee.limits)


def test_the_table_must_be_the_one_that_was_planned(tmp_path: Path) -> None:
    """The limit is that of the table's own counts; one record more or less has another risk."""
    table, other = scan(people(), asked()), scan(people().slice(1), asked())
    with pytest.raises(PlanMismatch, match="other combinations of values, or other numbers"):
        publish(other, planned(table), tmp_path / "r")
    bound = planned(table).bound_to(table.hash(), table.policy.hash())
    with pytest.raises(PlanMismatch, match="The table is not the one that was planned"):
        publish(other, bound, tmp_path / "r")
    with pytest.raises(PlanMismatch, match="not for the method, the assurance and the requirement"):
        publish(scan(people(), asked("risk_limit = 0.37")), planned(table), tmp_path / "r")
    assert holds(publish(table, bound, tmp_path / "r", key=SecretKey.from_seed(1)))


def test_the_survey_tries_the_policy(tmp_path: Path) -> None:
    table = scan(people(), asked())
    found = survey(table.source, table)
    assert found.feasibility is not None
    own = found.feasibility[0]
    assert (own.method, own.requirement, own.reason) == (METHOD, "risk_limit = 0.36", "")
    assert own.invertible
    assert METHOD in found.explain()
    assert found.sensitive is not None
    assert found.sensitive.values == 4


def test_the_survey_says_what_lone_records_cost() -> None:
    lone = scan(people(), asked(roles=ROLES | {"age": "quasi_identifier"}))
    warnings = survey(lone.source, lone).warnings
    assert any("it takes much noise in the quasi-identifiers to hide it" in warning for warning in warnings)


# --- what verify notices ----------------------------------------------------------------------------------------------


def changed(release: Release, **update: Any) -> Release:
    return Release(release.folder, release.manifest.model_copy(update=update))


def stated(release: Release) -> str:
    return next(check.status for check in release.verify().checks if check.name == "guarantee, as stated")


def test_a_guarantee_that_does_not_follow_is_noticed(tmp_path: Path) -> None:
    release = released(people(), asked("l = 9", AS_PUBLISHED), folder=tmp_path / "r")
    response, data, parts = release.manifest.response, release.manifest.data, release.manifest.mechanisms
    assert response is not None
    assert stated(release) == "holds"
    for update in (
        {"response": None},
        {"response": response.model_copy(update={"limit": "1/10"})},
        {"response": response.model_copy(update={"limit": "0"})},
        {"response": response.model_copy(update={"risk": "posterior"})},
        {"response": response.model_copy(update={"scope": "quasi-identifiers"})},
        {"response": response.model_copy(update={"quasi_identifiers": ("sex", "region")})},
        {"assurance": "proved"},
        {"from_table": False},
        {"method": "uniform"},
        {"data": data.model_copy(update={"shuffled": False})},
        {"mechanisms": parts[1:]},
        {"mechanisms": (parts[0].model_copy(update={"kind": "perturbation"}), *parts[1:])},
    ):
        assert stated(changed(release, **update)) == "fails", update


@pytest.mark.parametrize("name", ["sex", "disease"])
def test_every_column_is_checked_against_its_matrix(name: str, tmp_path: Path) -> None:
    """A column in which all rows have one value was not drawn with its matrix; the others hold."""
    release = released(people(20_000), asked("l = 9", AS_PUBLISHED), folder=tmp_path / "r")
    assert holds(release)
    rows = release.to_arrow()
    same = pa.array([VALUES[name][0]] * rows.num_rows).dictionary_encode()
    pq.write_table(rows.set_column(rows.column_names.index(name), name, same), release.data)
    data = release.manifest.data.model_copy(update={"sha256": file_sha256(release.data)})
    failed = [check.name for check in changed(release, data=data).verify().checks if check.status == "fails"]
    assert [check for check in failed if "of" in check.split()] == [f"published frequencies of {name}"]


# --- estimates --------------------------------------------------------------------------------------------------------

QUERIES = {
    ("sex",): "SELECT sex, COUNT(*) FROM release GROUP BY sex",
    ("disease",): "SELECT disease, COUNT(*) FROM release GROUP BY disease",
    ("region", "disease"): "SELECT region, disease, COUNT(*) FROM release GROUP BY region, disease",
    ("sex", "region", "disease"): "SELECT sex, region, disease, COUNT(*) FROM release GROUP BY sex, region, disease",
}
RELEASES = 60
FALSE_ALARM_Z = 4.6
"""Two-sided normal quantile for 4e-6: with 42 cells a false alarm in 1 of 6,000 runs (and seeds are fixed)."""


def test_estimates_on_any_columns_are_unbiased_and_cover(tmp_path: Path) -> None:
    """The mean over seeded releases is the truth, within its standard error; 95% intervals hold it as often."""
    table, policy = people(), asked("l = 9", AS_PUBLISHED)
    opened = scan(table, policy)
    made = planned(opened)
    found: dict[tuple[str, ...], list[Any]] = {columns: [] for columns in QUERIES}
    for seed in range(RELEASES):
        release = publish(opened, made, tmp_path / str(seed), key=SecretKey.from_seed(seed))
        for columns, query in QUERIES.items():
            answer = release.sql(query)
            low, high = answer.interval(0.95)
            rows = zip(answer.groups, answer.value, low, high, strict=True)
            found[columns].append({tuple(group): figures for group, *figures in rows})
    covered = []
    for columns, answers in found.items():
        truth = Counter(zip(*(table[name].to_pylist() for name in columns), strict=True))
        for group, count in truth.items():
            values = np.array([answer[group] for answer in answers])
            error = values[:, 0].std(ddof=1) / np.sqrt(RELEASES)
            assert abs(values[:, 0].mean() - count) < FALSE_ALARM_Z * error, (columns, group)
            covered += [np.mean((values[:, 1] <= count) & (count <= values[:, 2]))]
    assert 0.93 < np.mean(covered) < 0.97


# --- real data --------------------------------------------------------------------------------------------------------

EMGRW = {
    **dict.fromkeys(["education", "marital_status", "sex", "race"], "quasi_identifier"),
    "workclass": "sensitive",
}


@pytest.fixture
def emgrw(real_data: Callable[[str], Path]) -> pa.Table:
    table = pq.read_table(real_data("adult_complete_45222.parquet"))
    return table.filter(pc.equal(table["split"], "train")).select(list(EMGRW))


def test_adult_as_published(emgrw: pa.Table, tmp_path: Path) -> None:
    """RR-Both at l = 3: the risk is next to its limit, and the estimates lie within 5 standard errors of the truth."""
    policy = asked("l = 3", AS_PUBLISHED, EMGRW)
    table = scan(emgrw, policy)
    made: Any = planned(table)
    assert made.figures.best_l2 == pytest.approx((6.9663 - 1) / 30_162, rel=1e-4)
    assert made.figures.kappa == pytest.approx(7.0865, abs=1e-4)  # with two digits
    assert made.figures.single_valued == 283
    assert 0.995 / 3 < made.figures.risks["reconstruction"] <= 1 / 3
    release = publish(table, made, tmp_path / "r", key=SecretKey.from_seed(3))
    assert holds(release)
    answer = release.sql("SELECT sex, workclass, COUNT(*) FROM release GROUP BY sex, workclass")
    truth = Counter(zip(emgrw["sex"].to_pylist(), emgrw["workclass"].to_pylist(), strict=True))
    for group, value, error in zip(answer.groups, answer.value, answer.standard_error, strict=True):
        assert abs(value - truth[tuple(group)]) < 5 * error
    assert float(answer.value.sum()) == pytest.approx(30_162)
    em = release.count(by=["race", "workclass"], method="em")
    assert float(em.value.min()) >= 0
    assert float(em.value.sum()) == pytest.approx(30_162)


def test_adult_proved(real_data: Callable[[str], Path], tmp_path: Path) -> None:
    """Occupation has no frequent value: the posterior keeps 1/2, evaluated here from its definition."""
    roles = {**dict.fromkeys(["education", "income", "sex", "race"], "quasi_identifier"), "occupation": "sensitive"}
    whole = pq.read_table(real_data("adult_complete_45222.parquet"))
    table = scan(whole.filter(pc.equal(whole["split"], "train")).select(list(roles)), asked("l = 2", roles=roles))
    made: Any = planned(table)
    assert made.figures.best_l2 == pytest.approx((8.762421 - 1) / 30_162, rel=1e-6)
    assert made.figures.kappa == pytest.approx(8.873901, abs=1e-6)  # with two digits
    counted = profile(table)
    released_table = counted.counts.reshape(counted.domain.sizes).astype(float)
    for axis, mechanism in enumerate(made.mechanisms):
        turned = np.tensordot(mechanism.matrix.dense(), released_table, axes=(1, axis))
        released_table = np.moveaxis(turned, 0, axis)
    belief = released_table / released_table.sum(axis=-1, keepdims=True)
    assert belief.max() <= 0.5
    assert holds(publish(table, made, tmp_path / "r", key=SecretKey.from_seed(2)))
