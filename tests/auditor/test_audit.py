"""The audit of real releases: every method and format, what is given to attackers, and tables that do not fit."""

from __future__ import annotations

import json
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import sfumato as sf
from sfumato.analyst.release import open_release
from sfumato.auditor.attackers import ATTACKERS
from sfumato.auditor.beliefs import expected_cases, observed_cases, record_beliefs
from sfumato.auditor.evidence import Evidence
from sfumato.auditor.finding import Finding
from sfumato.errors import UsageError
from sfumato.publisher.policy import Policy
from sfumato.show.words import percent
from tests.conftest import make_policy
from tests.engines.tools import DISEASES, patients, released

ROLES = {
    "name": "identifier",
    "age": "quasi_identifier; bins = { width = 100 }",
    "sex": "quasi_identifier",
    "disease": "sensitive",
}
METHODS = {
    "uniform": make_policy(ROLES),
    "subset": make_policy(ROLES, "gamma = 2", "subset", "", 'members = 2\nform = "card"'),
    "fine-grain": make_policy(ROLES, method="fine-grain", options="retention_floor = 0.1"),
    "small-domain": make_policy(ROLES, "rho1 = 0.3\nrho2 = 0.6", "small-domain", "", "minimum_sub_table = 30"),
    "randomized-response": make_policy(ROLES, "risk_limit = 0.41", "randomized-response"),
    "anatomy": make_policy(ROLES, "l = 2", "anatomy"),
    "suppression": make_policy(ROLES, "l = 3", "suppression"),
    "robust-anatomy": make_policy(ROLES, "r = 2", "robust-anatomy", "", 'attribute_sets = [["sex"]]\nprior = "table"'),
}
KEYS = {
    "audit_version", "created", "software", "release_id", "published", "method", "assurance", "guarantee", "rows",
    "published_rows", "shuffled", "seed", "worst_verdict", "holds", "findings", "not_applicable",
    "not_measured", "utility", "seconds", "notes", "earlier",
}  # fmt: skip


def rows_for(policy: Policy) -> pa.Table:
    """Return patients, for sub-tables with more diseases."""
    if policy.method.name != "small-domain":
        return patients()
    numbers = np.minimum(np.random.default_rng(3).geometric(0.2, 300), 12)
    return patients().set_column(3, "disease", pa.array([f"disease {k}" for k in numbers]))


def audited(folder: Path, policy: Policy, rows: Any = None, **options: Any) -> sf.Audit:
    """Publish patients, and audit."""
    rows = rows_for(policy) if rows is None else rows
    shuffle = options.pop("shuffle", None)
    release = released(rows, policy, folder=folder, shuffle=shuffle, format=options.pop("format", None))
    return sf.audit(sf.scan(rows, policy), release, seed=1, **options)


def by(audit: sf.Audit, attacker: str) -> list[Finding]:
    return [finding for finding in audit.findings if finding.attacker == attacker]


# --- every method -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_within_its_bound(method: str, tmp_path: Path) -> None:
    steps: list[str] = []
    found = audited(tmp_path / "r", METHODS[method], progress=lambda step, done, of: steps.append(step))
    assert found.holds
    assert (found.method, found.rows, found.audit_version) == (method, 300, 1)
    tried = [attacker.name for attacker in ATTACKERS if attacker.name in found.seconds]
    assert steps == [*tried, "utility"]
    told = {finding.attacker for finding in found.findings}
    told |= {each.attacker for each in (*found.not_applicable, *found.not_measured)}
    concerned = {attacker.name for attacker in ATTACKERS if attacker.concerns(open_release(tmp_path / "r").manifest)}
    assert concerned <= told | {"linking"}
    limits = [(finding.interval, finding.worst) for finding in found.findings if finding.interval]
    assert all(interval[0] <= worst <= interval[1] for interval, worst in limits)
    text, raw = found.explain(), found.to_dict()
    assert "Guaranteed: " in text
    assert "safe" not in text.lower().replace("safe-d", "")
    assert set(raw) == KEYS
    assert json.loads(json.dumps(raw, allow_nan=False)) == raw
    assert {finding["verdict"] for finding in raw["findings"]} <= {"within the bound", "not covered by the guarantee"}


@pytest.mark.parametrize("method", ["uniform", "subset", "small-domain", "randomized-response", "anatomy"])
def test_a_csv_release_of_a_csv_table_tells_the_same(method: str, tmp_path: Path) -> None:
    pacsv.write_csv(rows_for(METHODS[method]), tmp_path / "t.csv")
    first = audited(tmp_path / "p", METHODS[method])
    again = audited(tmp_path / "c", METHODS[method], tmp_path / "t.csv", format="csv")
    figures = [(f.attacker, f.verdict, pytest.approx(f.worst)) for f in first.findings]
    assert [(f.attacker, f.verdict, f.worst) for f in again.findings] == figures


def test_records_are_named_by_columns_and_values(tmp_path: Path) -> None:
    """Quasi-identifiers that stay as they are share an axis of the joint table; in words they are apart."""
    rows = patients().append_column("region", pa.array(["East", "West", "East", "South", "West", "East"] * 50))
    roles = ROLES | {"region": "quasi_identifier"}
    fixed = 'fixed = ["sex", "region"]'
    found = audited(tmp_path / "r", make_policy(roles, "risk_limit = 0.6", "randomized-response", "", fixed), rows)
    named = r"age = \[\d+, \d+\), sex = [FM], region = (East|West|South)"
    for attacker in ("posterior", "link", "reconstruction", "guesser"):
        (finding,) = by(found, attacker)
        assert all(re.fullmatch(rf"{named}, disease = \w+", group.who) for group in finding.exposed)
        assert finding.exposed
    (distribution,) = by(found, "distribution")
    assert all(re.fullmatch(named, group.who) for group in distribution.exposed)
    grouped = audited(tmp_path / "g", make_policy(roles, "l = 2", "anatomy"), rows)
    (all_columns,) = (f for f in by(grouped, "background") if f.about == "age, sex, region")
    assert all(re.fullmatch(rf"group \d+: {named} has '\w+'", group.who) for group in all_columns.exposed)


# --- rows that were shuffled ------------------------------------------------------------------------------------------


def slow_expected(evidence: Evidence) -> tuple[float, float]:
    """Worst and mean belief in the true value by loops over records and all that can be published, in fractions."""
    (table,), true = evidence.mechanism.tables, Counter(evidence.true.tolist())
    weights = [[Fraction(int(table.matrix.noise[x]), 2**64) for x in range(4)] for _ in range(4)]
    for x in range(4):
        weights[x][x] = Fraction(table.matrix.diagonal_weight(x), 2**64)
    beliefs = {
        (x, y): weights[y][x] * true[x] / sum(weights[y][k] * true[k] for k in range(4))
        for x in range(4)
        for y in range(4)
    }
    mean = sum(beliefs[x, y] * weights[y][x] * true[x] for x, y in beliefs) / evidence.rows
    limits = [most_of_share(Fraction(true[x], evidence.rows)) for x in range(4)]
    worst = max(beliefs, key=lambda cell: beliefs[cell] - limits[cell[0]])
    return float(beliefs[worst]), float(mean)


def most_of_share(share: Fraction) -> Fraction:
    """The bound for rho1 = 1/5 and rho2 = 1/2, so gamma = 4: rho2, or the share with odds that are 4 times as large."""
    return max(Fraction(1, 2), 4 * share / (1 + 3 * share))


def test_expected_beliefs_are_those_of_every_possible_release(tmp_path: Path) -> None:
    rows, policy = patients(), METHODS["uniform"]
    release = released(rows, policy, folder=tmp_path / "r", shuffle=True)
    (found,) = by(sf.audit(sf.scan(rows, policy), release), "frequencies")
    worst, mean = slow_expected(Evidence(sf.scan(rows, policy), release))
    assert (found.worst, found.mean) == pytest.approx((worst, mean), abs=1e-12)
    assert "expected" in found.remark
    assert found.records == 300


def test_expected_figures_are_the_mean_of_many_releases(tmp_path: Path) -> None:
    """By sex, with sub-tables: 40 releases in the table's order against the expectation."""
    policy = METHODS["small-domain"]
    rows = rows_for(policy)
    table = sf.scan(rows, policy)
    means, expected = [], 0.0
    for seed in range(40):
        release = released(rows, policy, folder=tmp_path / str(seed), seed=seed, shuffle=False)
        evidence = Evidence(table, release)
        sexes = evidence.signatures(["sex"]).table
        cases = observed_cases(evidence.true, evidence.published, evidence.sub_tables, sexes, evidence.mechanism)
        found = record_beliefs(evidence.mechanism, cases.true, cases.published, cases.labels, weights=cases.weights)
        means.append(np.average(found.beliefs, weights=found.numbers))
        quotas = [
            np.bincount(evidence.true[evidence.sub_tables == k], minlength=12)[t.codes]
            for k, t in enumerate(evidence.mechanism.tables)
        ]
        cases = expected_cases(evidence.mechanism, evidence.true, sexes, quotas)
        assert cases.weights.sum() == pytest.approx(300)
        found = record_beliefs(evidence.mechanism, cases.true, cases.published, cases.labels, weights=cases.weights)
        expected = np.average(found.beliefs, weights=found.numbers)
    error = np.std(means, ddof=1) / np.sqrt(40)
    assert abs(np.mean(means) - expected) < 4 * error + 1e-12


def test_shuffled_sub_tables_have_the_composition_of_the_plan(tmp_path: Path) -> None:
    policy = METHODS["small-domain"]
    aligned = audited(tmp_path / "a", policy, shuffle=False)
    shuffled = audited(tmp_path / "s", policy, shuffle=True)
    assert (aligned.shuffled, shuffled.shuffled) == (False, True)
    (one,), (other,) = by(aligned, "composition"), by(shuffled, "composition")
    assert one.worst == pytest.approx(other.worst)  # the same draws in another order


# --- what attackers are given -----------------------------------------------------------------------------------------


def prior_file(folder: Path, shares: dict[str, list[float]]) -> Path:
    lines = [f"{sex},{d},{p}" for sex, row in shares.items() for d, p in zip(DISEASES, row, strict=True)]
    path = folder / "prior.csv"
    path.write_text("\n".join(["sex,value,probability", *lines]))
    return path


@pytest.mark.parametrize("method", ["uniform", "anatomy", "robust-anatomy"])
def test_a_prior_of_equal_shares_tells_nothing_more(method: str, tmp_path: Path) -> None:
    prior = prior_file(tmp_path, {"F": [0.25] * 4, "M": [0.25] * 4})
    found = by(audited(tmp_path / "r", METHODS[method], priors=[prior]), "background")[-1]
    assert "sex (prior.csv)" in found.assumption
    if method != "uniform":
        assert found.worst == pytest.approx(0.5)  # groups of two


def test_a_sharp_prior_exceeds_the_bound_of_anatomy(tmp_path: Path) -> None:
    prior = prior_file(tmp_path, {"F": [0.97, 0.01, 0.01, 0.01], "M": [0.01, 0.01, 0.01, 0.97]})
    found = by(audited(tmp_path / "r", METHODS["anatomy"], priors=[prior]), "background")[-1]
    assert found.verdict == "not covered by the guarantee"
    assert found.worst > 0.9


def test_what_is_no_prior_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "prior.csv"
    path.write_text("name,value,probability\nx,flu,1\n")
    with pytest.raises(UsageError, match="'name', which is not published as it is"):
        audited(tmp_path / "a", METHODS["uniform"], priors=[path])
    path.write_text("sex,probability\nF,1\n")
    with pytest.raises(UsageError, match="is no prior"):
        audited(tmp_path / "b", METHODS["uniform"], priors=[path])
    with pytest.raises(UsageError, match="cannot be read"):
        audited(tmp_path / "c", METHODS["uniform"], priors=[tmp_path / "absent.csv"])


def test_known_members_of_groups(tmp_path: Path) -> None:
    """Ages tell all people apart, so that all but one of a group can be known: the last one's value is certain."""
    roles = ROLES | {"age": "quasi_identifier"}
    policy, rows = make_policy(roles, "l = 2", "anatomy"), patients()
    first = audited(tmp_path / "a", policy, known=rows.select(["age", "sex"]).slice(0, 150))
    (found,) = by(first, "corruption")
    assert "150 member(s)" in found.assumption
    assert (found.worst, found.records) == (1, 150)
    named = audited(tmp_path / "b", policy, known=rows.select(["name"]).slice(0, 150))
    assert by(named, "corruption")[0].worst == 1


def test_known_members_of_sub_tables(tmp_path: Path) -> None:
    policy = METHODS["small-domain"]
    rows = rows_for(policy)
    (found,) = by(
        audited(tmp_path / "r", policy, known=rows.select(["name"]).slice(0, 290), shuffle=False), "corruption"
    )
    assert "290 member(s)" in found.assumption
    assert found.records == 10


@pytest.mark.parametrize("method", ["uniform", "fine-grain", "randomized-response", "anatomy"])
def test_a_list_of_members_that_does_not_fit_is_refused(method: str, tmp_path: Path) -> None:
    """Also where known members move nothing, and the list is not needed."""
    rows, policy = patients(), METHODS[method]
    release, table = released(rows, policy, folder=tmp_path / "r"), sf.scan(rows, policy)
    for known, message in (
        (pa.table({"sex": ["F"], "name": ["x"]}), "listed by sex"),
        (pa.table({"name": ["nobody"]}), "not among the records"),
        (pa.table({"name": pa.array([], pa.string())}), "known members has no rows"),
    ):
        with pytest.raises(UsageError, match=message):
            sf.audit(table, release, known=known)


@pytest.mark.parametrize("method", METHODS)
def test_a_register_is_linked(method: str, tmp_path: Path) -> None:
    rows = patients()
    register = pa.table({"age": [5, 150, 950], "sex": ["F", "M", "F"], "street": ["a", "b", "c"]})
    row, value = by(audited(tmp_path / "r", METHODS[method], external=register), "register")
    assert (row.records, value.records) == (3, 3)
    assert "1 fit none" in row.remark  # nobody is 950
    if method in ("uniform", "anatomy"):
        ages, sexes = np.array(rows["age"]), np.array(rows["sex"].to_pylist())
        fit = [int(((ages // 100 == 0) & (sexes == "F")).sum()), int(((ages // 100 == 1) & (sexes == "M")).sum())]
        assert row.worst == pytest.approx(1 / min(fit))
        assert row.mean == pytest.approx((1 / fit[0] + 1 / fit[1]) / 3)
    if method == "anatomy":
        assert (value.verdict, value.promised) == ("within the bound", 0.5)


def test_the_belief_in_a_value_by_register_is_the_mean_over_rows(tmp_path: Path) -> None:
    rows, policy = patients(), METHODS["uniform"]
    release = released(rows, policy, folder=tmp_path / "r")
    table = sf.scan(rows, policy)
    _, value = by(sf.audit(table, release, external=pa.table({"sex": ["F"]})), "register")
    matrix, shares = release.manifest.mechanism_values[0].matrix.dense(), Counter(rows["disease"].to_pylist())
    weights = matrix * np.array([shares[d] for d in DISEASES])
    beliefs = weights / weights.sum(axis=1, keepdims=True)
    shown = [DISEASES.index(r["disease"]) for r in release.to_arrow().to_pylist() if r["sex"] == "F"]
    mean = beliefs[shown].mean(axis=0)
    used = [mean[k] / float(most_of_share(Fraction(shares[d], 300))) for k, d in enumerate(DISEASES)]
    assert value.worst == pytest.approx(mean[int(np.argmax(used))])


def test_a_register_without_quasi_identifiers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no quasi-identifier"):
        audited(tmp_path / "r", METHODS["uniform"], external=pa.table({"street": ["a"]}))


# --- a second release -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["anatomy", "suppression", "robust-anatomy"])
def test_two_groups_of_a_person_tell_more_than_one(method: str, tmp_path: Path) -> None:
    """Rows are in random order; every age is unique, and finds those of a person."""
    roles = ROLES | {"age": "quasi_identifier"}
    sets = 'attribute_sets = [["sex"]]\nprior = "table"' if method == "robust-anatomy" else ""
    requirement = {"anatomy": "l = 2", "suppression": "l = 3", "robust-anatomy": "r = 2"}[method]
    policy = make_policy(roles, requirement, method, "", sets)
    found = audited(tmp_path / "r", policy)
    (finding,) = by(found, "averaging")
    assert finding.verdict == "not covered by the guarantee"
    assert finding.stated == pytest.approx(1 / 3 if method == "suppression" else 1 / 2)
    if method == "suppression":  # two groups of three among four values have two in common
        assert 1 / 3 < finding.worst < 1
    else:
        assert finding.worst == 1
    assert finding.excess == pytest.approx(finding.worst - finding.stated)
    assert 150 < finding.records <= found.published_rows
    assert finding.at_risk > finding.records / 10
    once = float(re.findall(r"After one release .* is ([\d.]+)%\.", finding.remark)[0]) / 100
    assert finding.mean is not None
    assert finding.mean > once + 0.05
    assert re.fullmatch(r"age = \d+, sex = [FM]: '\w+'", finding.exposed[0].who)
    again = sf.audit(sf.scan(patients(), policy), sf.open_release(tmp_path / "r"), seed=1)
    assert by(again, "averaging") == [finding]


def test_t2_who_asks_for_the_most_frequent_value(tmp_path: Path) -> None:
    """An eligible table shows it: belief 1, not covered. With always it is hidden, and the bound holds."""
    plain = audited(tmp_path / "plain", make_policy(ROLES, "l = 2", "suppression"))
    (finding,) = by(plain, "eligibility")
    assert (finding.worst, finding.promised, finding.verdict) == (1, None, "not covered by the guarantee")
    assert [(group.who, group.risk) for group in finding.exposed] == [
        (Counter(patients()["disease"].to_pylist()).most_common(1)[0][0], 1)
    ]
    assert "which value is the most frequent is public" in finding.remark
    assert plain.holds
    for variant in ("rotation", "spread", "safe-d"):
        policy = make_policy(ROLES, "l = 2", "suppression", "", f'variant = "{variant}"\nalways = true')
        hidden = audited(tmp_path / variant, policy)
        found = by(hidden, "eligibility")
        assert [finding.about for finding in found] == ["dominant", "dominant, no counts known"]
        assert {(finding.promised, finding.verdict) for finding in found} == {(0.5, "within the bound")}
        assert found[0].worst == 0.5
        assert hidden.holds


def test_people_who_cannot_be_told_apart_have_no_second_row(tmp_path: Path) -> None:
    found = audited(tmp_path / "r", METHODS["anatomy"])
    reasons = {each.attacker: each.reason for each in found.not_measured}
    assert "others share its columns" in reasons["averaging"]


def test_two_randomized_rows_tell_more_than_one(tmp_path: Path) -> None:
    found = audited(tmp_path / "r", METHODS["randomized-response"])
    quasi, whole = by(found, "averaging")
    (posterior,), (row,) = by(found, "posterior"), by(found, "row")
    assert (quasi.about, whole.about) == ("quasi-identifiers", "whole rows")
    assert {quasi.verdict, whole.verdict} == {"not covered by the guarantee"}
    assert quasi.worst > posterior.worst
    assert (
        f"After one release the mean is {percent(posterior.mean)}, and the worst {percent(posterior.worst)}."
        in quasi.remark
    )
    assert f"After one release the mean is {percent(row.mean)}, and the worst {percent(row.worst)}." in whole.remark
    assert "Is told which row" in whole.assumption
    assert "the mean has approximate 95% limits" in by(found, "guesser")[0].remark


# --- absence ----------------------------------------------------------------------------------------------------------


def test_rows_that_were_left_out_tell_of_the_rest(tmp_path: Path) -> None:
    rows = patients(40)
    sexes = [
        None if d == "mumps" else s for s, d in zip(rows["sex"].to_pylist(), rows["disease"].to_pylist(), strict=True)
    ]
    rows = rows.set_column(2, "sex", pa.array(sexes))
    policy = make_policy(ROLES | {"sex": "quasi_identifier; missing = 'drop'"})
    found = audited(tmp_path / "r", policy, rows)
    (absent,) = by(found, "missing")
    assert (absent.worst, absent.records) == (1, rows["disease"].to_pylist().count("mumps"))
    assert absent.exposed[0].who == "without sex: mumps"
    assert absent.baseline == pytest.approx(absent.records / 40)
    assert absent.at_risk == absent.records


def test_two_ways_to_be_absent_are_told_apart(tmp_path: Path) -> None:
    """Of suppression, and of a missing value; the first only where records are withheld."""
    policy = make_policy(ROLES | {"sex": "quasi_identifier; missing = 'drop'"}, "l = 3", "suppression")
    for name, diseases, expected in (
        ("few", ["flu"] * 30 + ["gout"] * 15 + ["mumps"] * 10, ["withheld", "left out"]),
        ("none", [*["flu", "gout", "mumps"] * 20, "gout"], ["left out"]),
    ):
        sexes = ["F", None] + ["M"] * (len(diseases) - 2)
        people, ages = [f"p{k}" for k in range(len(sexes))], list(range(len(sexes)))
        rows = pa.table({"name": people, "age": ages, "sex": sexes, "disease": diseases})
        absent = by(audited(tmp_path / name, policy, rows), "missing")
        assert [finding.about for finding in absent] == expected
        assert all(finding.records for finding in absent)


def test_withheld_records_are_counted_by_cell(tmp_path: Path) -> None:
    """Women with flu are too many for groups of women alone: the formula says how many are left over."""
    rows = pa.table({"sex": ["F"] * 12 + ["M"] * 8, "disease": ["flu"] * 9 + list("abc") + list("abcdabcd")})
    policy = make_policy(
        {"sex": "quasi_identifier", "disease": "sensitive"}, "r = 2", "robust-anatomy", "", 'attribute_sets = [["sex"]]'
    )
    found = audited(tmp_path / "r", policy, rows)
    (absent,) = by(found, "missing")
    assert absent.records == 20 - found.published_rows
    assert absent.exposed[0].who == "sex = F: flu"
    assert absent.worst == 1


def test_a_missing_value_is_not_the_text_that_stands_for_it(tmp_path: Path) -> None:
    """Those whose sex is missing have flu, those whose sex is "(missing)" have gout."""
    rows = pa.table({"sex": ["(missing)", None, "None", "nan"] * 6, "disease": ["gout", "flu", "asthma", "mumps"] * 6})
    roles = {"sex": "quasi_identifier; missing = 'category'", "disease": "sensitive"}
    policy = make_policy(roles, "rho1 = 0.3\nrho2 = 0.5")
    release, table = released(rows, policy, folder=tmp_path / "r"), sf.scan(rows, policy)
    assert sorted(Evidence(table, release).signatures(["sex"]).labels) == ["'(missing)'", "(missing)", "None", "nan"]
    found = sf.audit(table, release)
    assert by(found, "background")[0].worst == 1
    assert found.utility.tables[1].cells == 16


# --- another table, another policy ------------------------------------------------------------------------------------


def test_another_policy_is_refused(tmp_path: Path) -> None:
    release = released(patients(), METHODS["uniform"], folder=tmp_path / "r")
    with pytest.raises(UsageError, match="policy is not the one"):
        sf.audit(sf.scan(patients(), METHODS["fine-grain"]), release)


@pytest.mark.parametrize("method", ["uniform", "anatomy"])
def test_another_table_is_refused(method: str, tmp_path: Path) -> None:
    policy = METHODS[method]
    release = released(patients(), policy, folder=tmp_path / "r")
    with pytest.raises(UsageError, match="It has 299 records"):
        sf.audit(sf.scan(patients().slice(1), policy), release)
    women = patients().set_column(2, "sex", pa.array(["F"] * 300))
    with pytest.raises(UsageError, match="More rows of the release have"):
        sf.audit(sf.scan(women, policy), release)


def test_one_row_too_many_is_another_table(tmp_path: Path) -> None:
    """One man more than there are; the number of rows is the same."""
    policy = make_policy({"sex": "quasi_identifier", "disease": "sensitive"})
    rows = pa.table({"sex": ["F"] * 9 + ["M"], "disease": ["flu", "gout"] * 5})
    release = released(rows, policy, folder=tmp_path / "r", shuffle=True)
    other = rows.set_column(0, "sex", pa.array(["F"] * 10))
    with pytest.raises(UsageError, match="More rows of the release have sex = M than records"):
        sf.audit(sf.scan(other, policy), release)


def test_rows_in_another_order_are_refused(tmp_path: Path) -> None:
    release = released(patients(), METHODS["uniform"], folder=tmp_path / "r", shuffle=False)
    turned = patients().take(np.arange(299, -1, -1))
    with pytest.raises(UsageError, match="in another order"):
        sf.audit(sf.scan(turned, METHODS["uniform"]), release)
