"""Sensitive columns with methods of their own: counted, planned, signed off, published and asked as any other table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.embedded.counting import count_sensitive
from sfumato.errors import Infeasible, PlanMismatch, PolicyError
from sfumato.methods.plan import content_hash
from sfumato.publisher.table import no_progress
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy
from tests.engines.tools import rows_of

DIAGNOSES, BANDS = ["flu", "HIV", "cold", "asthma"], [f"band {k}" for k in range(8)]
INCOME = f"sensitive; domain = {BANDS}; ordered = true"
OWN = f"{INCOME}; method = {{ name = 'ranges' }}; requirement = {{ gamma = 4 }}"
ROLES = {"n": "other", "sex": "quasi_identifier", "diagnosis": f"sensitive; domain = {DIAGNOSES}", "income": OWN}
RHO = "rho1 = 0.1\nrho2 = 0.25"
KEY = SecretKey.from_seed(3)


def people(rows: int = 900, seed: int = 1) -> pa.Table:
    """Return a table in random order, in which income goes with the diagnosis."""
    rng = np.random.default_rng(seed)
    ill = rng.choice(4, rows, p=[0.5, 0.1, 0.25, 0.15])
    return pa.table(
        {
            "n": list(range(rows)),
            "sex": rng.choice(["F", "M"], rows).tolist(),
            "diagnosis": [DIAGNOSES[k] for k in ill],
            "income": [BANDS[min(7, int(rng.integers(0, 5)) + k)] for k in ill],
        }
    )


def asked(roles: dict[str, str] = ROLES, **more: Any) -> Any:
    return make_policy(roles, RHO, "subset", **more)


def planned(table: sf.Table) -> Any:
    return sf.plan(sf.profile(table), table.policy.method, table.policy.requirement)


def published(folder: Path, policy: Any = None, rows: pa.Table | None = None, **more: Any) -> sf.Release:
    table = sf.scan(people() if rows is None else rows, policy or asked())
    return sf.publish(table, planned(table), folder, key=KEY, **more)


def test_each_column_is_counted_by_itself_in_one_pass() -> None:
    """The profile of each is that of the column alone; no combination is kept."""
    policy, rows = asked(), people()
    counted = sf.profile(sf.scan(rows, policy))
    assert [each.domain.names for each in counted.by_method] == [("diagnosis",), ("income",)]
    for name, each in zip(("diagnosis", "income"), counted.by_method, strict=True):
        alone = sf.scan(rows.select([name]), make_policy({name: ROLES[name].split("; method")[0]}, RHO))
        expected = count_sensitive(alone.source, alone.schema, no_progress)
        assert each.counts.tolist() == expected.counts.tolist()
        assert each.order == expected.order
    assert [part.name for part in counted.parts] == ["diagnosis", "income"]


def test_a_product_of_domains_may_be_larger_than_any_memory() -> None:
    """4,000 x 4,000 combinations, more than planning takes of one compound; each column is small."""
    names = [f"v{k}" for k in range(4000)]
    declared = f"sensitive; domain = {names}"
    rows = pa.table({"a": names, "b": names[::-1]})
    with pytest.raises(PolicyError, match="more than 10,000,000"):
        planned(sf.scan(rows, make_policy({"a": declared, "b": declared}, "gamma = 20")))
    both = {"a": declared, "b": declared + "; method = { name = 'uniform' }; requirement = { gamma = 20 }"}
    made = planned(sf.scan(rows, make_policy(both, "gamma = 20")))
    assert [mechanism.domain.size for mechanism in made.mechanisms] == [4000, 4000]


def test_the_mechanisms_are_those_of_each_column_alone() -> None:
    rows = people()
    both = planned(sf.scan(rows, asked()))
    alone = [
        planned(sf.scan(rows.select(["diagnosis"]), make_policy({"diagnosis": ROLES["diagnosis"]}, RHO, "subset"))),
        planned(sf.scan(rows.select(["income"]), make_policy({"income": INCOME}, "gamma = 4", "ranges"))),
    ]
    assert [m.matrix.integers for m in both.mechanisms] == [m.matrix.integers for p in alone for m in p.mechanisms]
    assert [part.notes[-1] for part in both.figures.parts] == [plan.notes[-1] for plan in alone]
    for plan in alone:
        assert plan.guarantee.sentence in both.guarantee.sentence


def test_a_plan_is_written_read_and_published_as_it_was_signed_off(tmp_path: Path) -> None:
    table = sf.scan(people(), asked())
    made = planned(table).bound_to(table.hash(), table.policy.hash())
    (tmp_path / "plan.json").write_text(made.to_json(), encoding="utf-8")
    again = sf.load_plan(tmp_path / "plan.json")
    assert again.to_json() == made.to_json()
    assert again.explain() == made.explain()
    assert "Column diagnosis" in again.explain()
    assert made.to_arrow().column("column").to_pylist() == ["diagnosis"] * 4 + ["income"] * 8
    one = sf.publish(table, made, tmp_path / "one", key=KEY)
    other = sf.publish(table, again, tmp_path / "other", key=KEY)
    assert rows_of(one) == rows_of(other)
    assert one.verify().holds is False  # a test seed
    assert {check.name for check in one.verify().checks if check.status == "fails"} == {"secret key"}


def test_a_plan_for_other_methods_or_requirements_is_refused(tmp_path: Path) -> None:
    table = sf.scan(people(), asked())
    made = planned(table)
    for change in ({"income": OWN.replace("= 4 }", "= 5 }")}, {"income": OWN.replace("ranges", "plateau")}):
        other = sf.scan(people(), asked(ROLES | change))
        with pytest.raises(PlanMismatch, match="not for the method"):
            sf.publish(other, made, tmp_path / "r", key=KEY)
    with pytest.raises(PlanMismatch, match="not for the method"):
        sf.publish(
            sf.scan(people(), asked(ROLES | {"income": INCOME.replace("sensitive", "other")})), made, tmp_path / "r"
        )


def test_a_plan_file_whose_matrix_breaks_its_bound_is_refused(tmp_path: Path) -> None:
    table = sf.scan(people(), asked())
    raw = json.loads(planned(table).bound_to(table.hash(), table.policy.hash()).to_json())
    raw["columns"][0]["sub_tables"][0]["bounds"][0] |= {"gamma": "2", "rho1": None, "rho2": None}
    raw["plan_hash"] = content_hash({key: value for key, value in raw.items() if key != "plan_hash"})
    (tmp_path / "plan.json").write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(PlanMismatch, match="is not as it was made: 'gamma'"):
        sf.publish(table, sf.load_plan(tmp_path / "plan.json"), tmp_path / "r", key=KEY)


@pytest.mark.parametrize("order", ["by diagnosis", "by income", "by both together"])
def test_rows_keep_their_order_only_if_no_column_and_no_combination_depends_on_it(order: str) -> None:
    """Sorted by whether two columns agree, each of them alone is in random order."""
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 2, (2, 4000))
    by = {"by diagnosis": a, "by income": b, "by both together": a ^ b}[order]
    places = np.argsort(by, kind="stable")
    rows = pa.table({"a": [str(v) for v in a[places]], "b": [str(v) for v in b[places]]})
    two = "sensitive; domain = ['0', '1']"
    roles = {"a": two, "b": two + "; method = { name = 'uniform' }; requirement = { gamma = 2 }"}
    policy = make_policy(roles, "gamma = 3", extra='output = { order = "keep" }')
    with pytest.raises(Infeasible, match="rows cannot keep their order"):
        planned(sf.scan(rows, policy))
    mixed = rows.take(pa.array(rng.permutation(4000)))
    made = planned(sf.scan(mixed, policy))
    assert not made.shuffle
    assert "the order of the rows" in " ".join(made.computed_from_table)


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_formats_hold_the_same_rows(format: Any, tmp_path: Path) -> None:
    one, other = published(tmp_path / "one"), published(tmp_path / "other", format=format)
    sql = "SELECT diagnosis, COUNT(*), AVG(n) FROM release WHERE income = 'band 2' GROUP BY diagnosis"
    assert one.sql(sql).to_arrow() == other.sql(sql).to_arrow()


def test_records_keep_their_draws_by_column(tmp_path: Path) -> None:
    """With a record key a corrected value of one column draws anew there, and nowhere else."""
    policy = asked(ROLES | {"n": "identifier", "mark": "other"}, extra='record_key = "n"\nseries = "s"')
    rows = people().append_column("mark", pa.array(range(900)))
    changed = rows.set_column(2, "diagnosis", pa.array(["HIV"] * 900))
    one, other = published(tmp_path / "one", policy, rows), published(tmp_path / "other", policy, changed)
    first, second = ({row["mark"]: row for row in release.to_arrow().to_pylist()} for release in (one, other))
    assert all(first[k]["income"] == second[k]["income"] for k in first)
    assert any(first[k]["diagnosis"] != second[k]["diagnosis"] for k in first)
    assert "ASSUMED, NOT PROVED" in one.manifest.second_release


def test_the_words_of_columns_are_separate(tmp_path: Path) -> None:
    """Two columns with the same values and the same matrix: what is drawn of one tells nothing of the other."""
    two = "sensitive; domain = ['0', '1']"
    roles = {"n": "other", "a": two, "b": two + "; method = { name = 'uniform' }; requirement = { gamma = 3 }"}
    rows = pa.table({"n": list(range(4000)), "a": ["0"] * 4000, "b": ["0"] * 4000})
    data = published(tmp_path / "r", make_policy(roles, "gamma = 3"), rows).to_arrow()
    kept = np.array([[value == "0" for value in data[name].to_pylist()] for name in ("a", "b")])
    assert abs(kept.all(axis=0).mean() - (3 / 4) ** 2) < 0.05  # one word for both would give 3/4


def test_policies_without_it_keep_their_hashes() -> None:
    """Keys that are left out are not hashed."""
    policy = make_policy({"a": "sensitive; domain = ['x', 'y']"}, "gamma = 3")
    dumped = policy.model_dump(mode="json")
    assert set(dumped["columns"]["a"]) == {"role", "domain", "bins", "missing", "publish_as_is", "from_table"}
    assert policy.method is policy.stated_method
    assert asked().hash() != asked(ROLES | {"income": OWN.replace("= 4 }", "= 5 }")}).hash()


def test_what_the_manifest_states_of_each(tmp_path: Path) -> None:
    release = published(tmp_path / "r")
    raw = json.loads(release.manifest.to_json())
    assert raw["method"] == "several"
    assert [part["claimed"]["method"] for part in raw["mechanisms"]] == ["subset", "ranges"]
    assert "`diagnosis` is **randomized**" in (release.folder / "README.md").read_text()
    near = published(tmp_path / "near", asked(ROLES | {"income": OWN.replace("'ranges'", "'geometric', steps = 2")}))
    assert near.manifest.mechanisms[1].near is not None
    assert {c.name for c in near.verify().checks if c.status == "fails"} == {"secret key"}
    assert "guarantee, within steps of income" in {c.name for c in near.verify().checks}
    assert "income: Not one factor for all" in " ".join(near.manifest.guarantee.limits)


def test_a_set_of_values_of_one_column(tmp_path: Path) -> None:
    """What is required of a set of values is that column's own; the factors of all columns together are as ever."""
    by_set = "{ values = [{ values = ['band 0', 'band 1'], rho1 = 0.1, rho2 = 0.2 }], others = 'unprotected' }"
    own = f"{INCOME}; method = {{ name = 'fine-grain' }}; requirement = {by_set}"
    table = sf.scan(people(), asked(ROLES | {"income": own}))
    made = planned(table)
    assert made.mechanisms[1].sets
    (tmp_path / "plan.json").write_text(made.to_json(), encoding="utf-8")
    release = sf.publish(table, sf.load_plan(tmp_path / "plan.json"), tmp_path / "r")
    assert release.verify().holds
    assert [c.name for c in release.verify().checks if "sets" in c.name and "income" in c.name]
    assert not [f for f in sf.audit(table, release, seed=1).findings if f.verdict == "above the bound"]
