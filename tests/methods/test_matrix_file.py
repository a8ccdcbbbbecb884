"""A matrix that is given in a file, from the policy to the report; and files that are refused."""

from __future__ import annotations

import csv
import json
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.analyst.release import Release
from sfumato.errors import Infeasible, PolicyError
from sfumato.methods.matrix_file import round_given
from sfumato.publisher.policy import Policy
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.dense import DenseMatrix
from sfumato.values.matrix.retention import WORDS
from sfumato.values.mechanism import Bound
from tests.conftest import make_policy
from tests.engines.tools import DISEASES, ROLES, patients, planned, released, rows_of, sealed

STAIRS = """published,asthma,flu,gout,mumps
asthma,0.4,0.15,0.2,0.2
flu,1/5,0.5,0.2,0.2
gout,0.2,0.2,0.4,0.15
mumps,0.2,0.15,0.2,9/20
"""
"""The largest ratio of a row is 3: a published mumps tells mumps from flu."""
DECLARED = ROLES | {"disease": f"sensitive; domain = {DISEASES}"}


def given(folder: Path, text: str = STAIRS, requirement: str = "gamma = 4", options: str = "") -> Policy:
    """Return a policy with a matrix in a file beside it."""
    (folder / "matrix.csv").write_text(text, encoding="utf-8")
    path = (folder / "matrix.csv").as_posix()
    return make_policy(DECLARED, requirement, "fine-grain", "", f'matrix = "{path}"\n{options}')


def refused(folder: Path, text: str, requirement: str = "gamma = 4") -> str:
    """Plan with a file that cannot be taken, and return what is said, without the folder."""
    with pytest.raises((PolicyError, Infeasible)) as caught:
        planned(sf.scan(patients(), given(folder, text, requirement)))
    return str(caught.value).replace(f"{folder.as_posix()}/", "")


# --- the whole story --------------------------------------------------------------------------------------------------


def test_it_is_planned_published_verified_asked_audited_and_reported(tmp_path: Path) -> None:
    policy, rows = given(tmp_path), patients(3_000)
    table = sf.scan(rows, policy)
    plan = planned(table)
    assert plan.figures.matrix.dense().round(12).tolist() == [
        [0.4, 0.15, 0.2, 0.2],
        [0.2, 0.5, 0.2, 0.2],
        [0.2, 0.2, 0.4, 0.15],
        [0.2, 0.15, 0.2, 0.45],
    ]
    assert "published with its own disease with a chance of 40.00% to 50.00%" in plan.explain()
    assert any(note.startswith("The matrix was given in a file.") for note in plan.notes)
    assert (plan.figures.loosenings, plan.figures.other_assurance) == ((), None)
    assert {(b.value, b.direction) for b in plan.figures.bindings} == set()
    release = sf.publish(table, plan, tmp_path / "release", key=sf.SecretKey.from_seed(2))
    assert [check.name for check in release.verify().checks if check.status == "fails"] == ["secret key"]
    assert "columns" in json.loads((release.folder / "manifest.json").read_text())["mechanisms"][0]["sub_tables"][0]
    found = sf.audit(table, release, seed=1)
    assert [finding.attacker for finding in found.findings if finding.verdict == "above the bound"] == []
    assert {"posterior", "frequencies", "background", "corruption", "averaging", "draws", "order"} <= {
        finding.attacker for finding in found.findings
    }
    sf.report(found, tmp_path / "report.html", table=table)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "drawn with probabilities that the manifest states for each pair of values" in page
    assert "is biased." in (release.folder / "README.md").read_text(encoding="utf-8")


def test_a_plan_is_kept_in_a_file(tmp_path: Path) -> None:
    table = sf.scan(patients(), given(tmp_path))
    plan = planned(table).bound_to(table.hash(), table.policy.hash())
    (tmp_path / "plan.json").write_text(plan.to_json(), encoding="utf-8")
    read = sf.load_plan(tmp_path / "plan.json")
    assert read.figures.matrix.integers == plan.figures.matrix.integers
    one, other = (
        sf.publish(table, made, tmp_path / name, key=sf.SecretKey.from_seed(1))
        for name, made in (("a", plan), ("b", read))
    )
    assert rows_of(one) == rows_of(other)


def test_values_are_found_by_name_in_any_order(tmp_path: Path) -> None:
    lines = [line.split(",") for line in STAIRS.split()]
    order = [0, 3, 1, 4, 2]
    turned = "\n".join(",".join(lines[y][x] for x in order) for y in (0, 4, 2, 1, 3))
    both = [planned(sf.scan(patients(), given(tmp_path, text))).figures.matrix.integers for text in (STAIRS, turned)]
    assert both[0] == both[1]


def test_integers_are_taken_as_they_are(tmp_path: Path) -> None:
    unit, left = divmod(WORDS, 5)
    weights = [[unit * (1 + (x == y)) + left * (x == y) for x in range(4)] for y in range(4)]
    lines = [f"{name},{','.join(map(str, row))}" for name, row in zip(DISEASES, weights, strict=True)]
    policy = given(tmp_path, "\n".join([f"published,{','.join(DISEASES)}", *lines]))
    matrix = planned(sf.scan(patients(), policy)).figures.matrix
    assert [[matrix.weight(y, x) for x in range(4)] for y in range(4)] == weights


def test_policies_without_a_matrix_keep_their_hashes() -> None:
    assert "matrix" not in make_policy(DECLARED, method="fine-grain").method.model_dump()
    assert "matrix" in sf.FineGrain(matrix="m.csv").model_dump()


def test_it_is_looked_for_beside_the_policy(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text(STAIRS, encoding="utf-8")
    columns = "\n".join(f'[columns.{name}]\nrole = "{rule}"' for name, rule in ROLES.items() if name != "disease")
    text = f'{columns}\n[columns.disease]\nrole = "sensitive"\n[method]\nname = "fine-grain"\nmatrix = "m.csv"\n'
    (tmp_path / "policy.toml").write_text(f"{text}[requirement]\ngamma = 4\n", encoding="utf-8")
    policy = sf.Policy.load(tmp_path / "policy.toml")
    assert isinstance(policy.method, sf.FineGrain)
    assert policy.method.columns(SensitiveDomain((Domain("disease", tuple(DISEASES)),)), np.ones(4)) is not None


# --- estimates --------------------------------------------------------------------------------------------------------


def test_estimates_are_unbiased_and_their_errors_right(tmp_path: Path) -> None:
    """Over 120 seeds: means within 4.5 standard errors, spreads within a quarter; what is published is not unbiased."""
    rows, policy, seeds = patients(400), given(tmp_path), 120
    true = np.array([rows["disease"].to_pylist().count(name) for name in DISEASES])
    table = sf.scan(rows, policy)
    plan, keys = planned(table), map(sf.SecretKey.from_seed, range(seeds))
    drawn = [sf.publish(table, plan, tmp_path / str(k), key=key) for k, key in enumerate(keys)]
    answers = [release.count(by="disease") for release in drawn]
    estimates, errors = (
        np.array([[row[name] for row in answer.to_arrow().to_pylist()] for answer in answers])
        for name in ("estimate", "standard_error")
    )
    spread = estimates.std(axis=0, ddof=1)
    assert (np.abs(estimates.mean(axis=0) - true) < 4.5 * spread / np.sqrt(seeds)).all()
    assert np.allclose(np.sqrt((errors**2).mean(axis=0)), spread, rtol=0.25)
    published = np.array(
        [[release.to_arrow()["disease"].to_pylist().count(name) for name in DISEASES] for release in drawn]
    )
    off = np.abs(published.mean(axis=0) - true) / (published.std(axis=0, ddof=1) / np.sqrt(seeds))
    assert off.max() > 20


def test_the_two_estimators_agree_where_nothing_is_near_zero(tmp_path: Path) -> None:
    release = released(patients(4_000), given(tmp_path), folder=tmp_path / "r")
    inverse, likely = (
        [row["estimate"] for row in release.count(by="disease", method=method).to_arrow().to_pylist()]
        for method in ("inverse", "em")
    )
    assert np.allclose(inverse, likely, atol=1)
    assert sum(likely) == pytest.approx(4_000)


def test_sql_by_other_columns(tmp_path: Path) -> None:
    rows = patients(6_000)
    release = released(rows, given(tmp_path), folder=tmp_path / "r")
    found = release.sql("SELECT sex, COUNT(*) FROM release WHERE disease = 'flu' GROUP BY sex")
    people = list(zip(rows["sex"].to_pylist(), rows["disease"].to_pylist(), strict=True))
    for row in found.to_arrow().to_pylist():
        assert 20 < row["standard_error"] < 200
        assert abs(row["estimate"] - people.count((row["sex"], "flu"))) < 5 * row["standard_error"]


# --- faults that verify and the audit find ----------------------------------------------------------------------------


def _with_columns(release: Release, columns: list[list[int]]) -> Release:
    raw = json.loads(release.manifest.to_json())
    raw["mechanisms"][0]["sub_tables"][0]["columns"] = [[str(weight) for weight in column] for column in columns]
    return sealed(type(release.manifest).model_validate(raw), release.folder)


def test_a_manifest_whose_matrix_breaks_the_bound(tmp_path: Path) -> None:
    release = released(patients(), given(tmp_path), folder=tmp_path / "r")
    columns = DenseMatrix.from_shares([(9, 1, 1, 1), (1, 9, 1, 1), (1, 1, 9, 1), (1, 1, 1, 9)]).columns.tolist()
    wrong = _with_columns(release, columns)
    failing = {check.name for check in wrong.verify().checks if check.status == "fails"}
    assert {"guarantee, upward", "guarantee, downward", "epsilon"} <= failing
    columns[2][0] += 1
    assert "matrix" in {c.name for c in _with_columns(release, columns).verify().checks if c.status == "fails"}


@pytest.mark.parametrize("shuffle", [False, True])
def test_draws_by_another_matrix_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shuffle: bool) -> None:
    other = DenseMatrix.from_shares([(5, 2, 2, 1), (2, 5, 1, 2), (2, 2, 5, 1), (1, 2, 2, 5)])
    policy, rows = given(tmp_path), patients(6_000)
    drawn = DenseMatrix.sample
    monkeypatch.setattr(DenseMatrix, "sample", lambda self, codes, words: drawn(other, codes, words))
    release = released(rows, policy, folder=tmp_path / "r", shuffle=shuffle)
    found = sf.audit(sf.scan(rows, policy), release, seed=1)
    assert "draws" in {finding.attacker for finding in found.findings if finding.verdict == "above the bound"}


def test_the_audit_reads_rows_in_order(tmp_path: Path) -> None:
    """Neighbours, transitions and what others know are measured on the rows themselves."""
    policy, rows = given(tmp_path), patients(3_000)
    release = released(rows, policy, folder=tmp_path / "r", shuffle=False)
    found = sf.audit(sf.scan(rows, policy), release, seed=1)
    assert {"transitions", "neighbours"} <= {finding.about for finding in found.findings}
    beyond = [(finding.attacker, finding.about) for finding in found.findings if finding.verdict == "above the bound"]
    assert beyond == [("order", "as asked")]  # the policy asks for a shuffle


def test_two_sensitive_columns_as_one(tmp_path: Path) -> None:
    """Statements about one of them are audited, and the guarantee says how far they can move."""
    rng = np.random.default_rng(4)
    rows = patients(2_000).append_column("outcome", pa.array(rng.choice(["better", "worse"], 2_000).tolist()))
    roles = DECLARED | {"outcome": "sensitive; domain = ['better', 'worse']"}
    labels = planned(sf.scan(rows, make_policy(roles, "gamma = 4"))).figures.domain.labels
    entries = rng.integers(10, 20, (8, 8)) + np.diag(rng.integers(10, 15, 8))
    shares = [[Fraction(int(n), int(entries[:, x].sum())) for x, n in enumerate(row)] for row in entries]
    lines = [[name, *map(str, row)] for name, row in zip(labels, shares, strict=True)]
    with (tmp_path / "m.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["published", *labels], *lines])
    policy = make_policy(roles, "gamma = 4", "fine-grain", "", f'matrix = "{(tmp_path / "m.csv").as_posix()}"')
    release = released(rows, policy, folder=tmp_path / "r")
    assert any("Statements about one column alone" in limit for limit in release.manifest.guarantee.limits)
    assert [check.name for check in release.verify().checks if check.status == "fails"] == ["secret key"]
    found = sf.audit(sf.scan(rows, policy), release, seed=1)
    assert "column" in {finding.attacker for finding in found.findings}
    assert not [finding.attacker for finding in found.findings if finding.verdict == "above the bound"]
    assert len(release.count(by=["disease", "outcome"]).to_arrow()) == 8


def test_draws_repeat_by_a_record_key(tmp_path: Path) -> None:
    rows = patients(500)
    rows = rows.append_column("record", pa.array([f"r{k}" for k in range(500)]))
    (tmp_path / "matrix.csv").write_text(STAIRS, encoding="utf-8")
    policy = make_policy(
        DECLARED | {"record": "identifier"},
        "gamma = 4",
        "fine-grain",
        'record_key = "record"\nseries = "clinic"',
        f'matrix = "{(tmp_path / "matrix.csv").as_posix()}"',
    )
    key = sf.SecretKey.load(_key_file(tmp_path))
    one, other = (released(rows, policy, folder=tmp_path / name, key=key) for name in ("a", "b"))
    assert sorted(rows_of(one)) == sorted(rows_of(other))
    twice = Fraction(9, 20) / (Fraction(3, 20) * Fraction(1, 5))  # of mumps: the two smallest entries of its row
    assert re.search(rf"the factor {twice}(\.001)?[, ]", one.manifest.second_release)


def _key_file(folder: Path) -> Path:
    (folder / "key").write_text("a3" * 32, encoding="ascii")
    (folder / "key").chmod(0o600)
    return folder / "key"


# --- rounding ---------------------------------------------------------------------------------------------------------


def _domain(m: int) -> SensitiveDomain:
    return SensitiveDomain((Domain("value", tuple(f"v{k}" for k in range(m))),))


def test_rounding_keeps_bounds_that_the_numbers_keep_exactly() -> None:
    """Uniform matrices at the very bound, which rounding to integers alone breaks in places."""
    rng, mixed = np.random.default_rng(1), 0
    for _ in range(300):
        m = int(rng.integers(2, 9))
        gamma = 1 + Fraction(int(rng.integers(1, 10**6)), int(rng.integers(1, 10**6)))
        own, other = gamma.numerator, gamma.denominator
        columns = [[own if x == y else other for y in range(m)] for x in range(m)]
        matrix = round_given(columns, [Bound(gamma)] * m, ("upward", "downward"), _domain(m))
        assert all(f is not None and f <= gamma for i in range(m) for f in (matrix.upward(i), matrix.downward(i)))
        exact = Fraction(own, own + (m - 1) * other)
        assert abs(Fraction(matrix.weight(0, 0), WORDS) - exact) < Fraction(1, 2**50)
        mixed += DenseMatrix.from_shares(columns).integers != matrix.integers
    assert mixed > 30


def test_a_bound_that_is_broken_by_a_millionth_is_refused() -> None:
    columns = [[3_000_001, 10**6], [10**6, 3_000_001]]
    with pytest.raises(Infeasible, match="breaks the requirement on 'v0'"):
        round_given(columns, [Bound(Fraction(3))] * 2, ("upward", "downward"), _domain(2))


# --- files that are refused -------------------------------------------------------------------------------------------


def test_a_matrix_that_breaks_the_requirement_names_the_worst_pair(tmp_path: Path) -> None:
    assert refused(tmp_path, STAIRS, "gamma = 2.9") == (
        "The given matrix breaks the requirement on 'mumps': a published 'mumps' raises its odds against 'flu' by a "
        "factor of 3; 2.9 is allowed. 2 of 4 values are beyond theirs.\n"
        "In the line 'mumps' bring the entries of 'mumps' and 'flu' nearer to each other, or loosen the requirement."
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("0.4,0.15", "0.5,0.15"), "the column 'asthma' sums to 1.1, not to 1"),
        (("mumps,0.2", "measles,0.2"), "has a line 'measles', which is not a value of 'disease'"),
        (("asthma,flu,gout,mumps", "asthma,flu,gout,measles"), "has a column 'measles'"),
        (("mumps,0.2,0.15,0.2,9/20\n", ""), "has no line 'mumps'"),
        (("gout,0.2", "flu,0.2"), "has the line 'flu' twice"),
        (("9/20", "much"), "column 'mumps': probability must be a finite number or a fraction"),
        (("9/20", "-9/20"), "-9/20 is negative"),
        (("0.2,9/20", "9/20"), "the line of 'mumps' has 4 fields, not 5"),
        ((STAIRS, ""), "matrix.csv is empty"),
    ],
)
def test_a_file_that_is_no_matrix(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    assert said in refused(tmp_path, STAIRS.replace(*change))


def test_a_column_that_is_certain(tmp_path: Path) -> None:
    text = "p,asthma,flu,gout,mumps\nasthma,1,0.1,0.1,0.1\nflu,0,0.7,0.1,0.1\ngout,0,0.1,0.7,0.1\nmumps,0,0.1,0.1,0.7\n"
    assert "the column 'asthma' leaves one value only" in refused(tmp_path, text)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    policy = given(tmp_path)
    (tmp_path / "matrix.csv").unlink()
    with pytest.raises(PolicyError, match="There is no file"):
        planned(sf.scan(patients(), policy))


def test_a_file_whose_name_no_system_takes() -> None:
    with pytest.raises(PolicyError, match="cannot be read as CSV: embedded null byte"):
        planned(sf.scan(patients(), make_policy(DECLARED, "gamma = 4", "fine-grain", "", 'matrix = "m\\u0000.csv"')))


def test_a_domain_that_is_too_large(tmp_path: Path) -> None:
    values = [f"v{k:04}" for k in range(2_001)]
    rows = pa.table({"disease": values * 5})
    policy = make_policy(
        {"disease": f"sensitive; domain = {values}"}, "gamma = 4", "fine-grain", "", f'matrix = "{tmp_path / "m.csv"}"'
    )
    with pytest.raises(PolicyError, match="2,001 values; a matrix from a file may have 2,000"):
        planned(sf.scan(rows, policy))


@pytest.mark.parametrize("options", ['weights = "observed"', "retention_floor = 0.1", 'assurance = "as-published"'])
def test_options_that_do_not_go_with_it(tmp_path: Path, options: str) -> None:
    with pytest.raises(PolicyError, match="do not go with matrix"):
        given(tmp_path, options=options)


def test_other_methods_take_none() -> None:
    with pytest.raises(PolicyError, match="matrix does not go with uniform, only with fine-grain"):
        make_policy(DECLARED, method="uniform", options='matrix = "m.csv"')
