"""T5: a bound on combinations of sensitive columns is none on one of them; the audit shows it, with exact figures."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.analyst.release import open_release
from sfumato.auditor.attackers.column import of_randomized
from sfumato.auditor.beliefs import compositions
from sfumato.auditor.evidence import Evidence
from sfumato.auditor.finding import Finding
from sfumato.publisher.policy import Policy
from sfumato.values.matrix.retention import WORDS
from tests.conftest import make_policy
from tests.engines.tools import released

ROLES = {"sex": "quasi_identifier", "race": "sensitive", "job": "sensitive"}
LIMIT = "rho1 = 0.1\nrho2 = 0.2"
PROVED = make_policy(ROLES, LIMIT, "small-domain", "", "minimum_sub_table = 100")
AS_PUBLISHED = make_policy(ROLES, LIMIT, "small-domain", "", 'assurance = "as-published"')


def workers() -> pa.Table:
    """Return 2,400 people: twelve jobs alike for 2,160 of one race; of the others, half of each race have one job."""
    jobs = [f"job {k:02}" for k in range(12)]
    pairs = [("white", job) for job in jobs for _ in range(180)]
    for race, number in (("black", 200), ("asian", 40)):
        pairs += [(race, jobs[0])] * (number // 2) + [(race, jobs[1 + k % 11]) for k in range(number - number // 2)]
    order = np.random.default_rng(1).permutation(len(pairs))
    race, job = ([pairs[k][part] for k in order] for part in (0, 1))
    return pa.table({"sex": ["F", "M"] * (len(pairs) // 2), "race": race, "job": job})


def enumerated(evidence: Evidence, column: int) -> dict[tuple[int, str, str], Fraction]:
    """Return the belief in each value of a column by sub-table and published combination: record by record."""
    mechanism, weights = evidence.mechanism, defaultdict(Fraction)
    for number, (table, quota) in enumerate(zip(mechanism.tables, evidence.once(compositions).quotas, strict=True)):
        for own, records in enumerate(np.asarray(quota).tolist()):
            value = str(mechanism.domain.values[table.codes[own]][column])  # type: ignore[index]
            for shown in range(table.codes.size):
                noise = int(table.matrix.noise[own])
                chance = noise + (WORDS - table.matrix.size * noise if own == shown else 0)
                published = mechanism.domain.labels[table.codes[shown]]
                weights[number, published, value] += Fraction(records * chance, WORDS)
    total: dict[tuple[int, str], Fraction] = defaultdict(Fraction)
    for (number, published, _), weight in weights.items():
        total[number, published] += weight
    return {key: weight / total[key[:2]] for key, weight in weights.items() if total[key[:2]]}


def findings(rows: pa.Table, policy: Policy, folder: Path) -> dict[str, Finding]:
    audit = sf.audit(sf.scan(rows, policy), released(rows, policy, folder=folder), seed=1)
    assert audit.holds
    return {f"{f.attacker} ({f.about})" if f.about else f.attacker: f for f in audit.findings}


def test_t5_one_column_of_a_compound_exceeds_what_combinations_keep(tmp_path: Path) -> None:
    """Black is 8.3% of the table: sub-tables in which few others have the commonest jobs tell it far beyond rho2."""
    rows = workers()
    found = findings(rows, AS_PUBLISHED, tmp_path / "r")
    assert (found["frequencies"].verdict, found["frequencies"].at_risk) == ("within the bound", 0)
    race = found["column (race, frequencies)"]
    exact = enumerated(Evidence(sf.scan(rows, AS_PUBLISHED), open_release(tmp_path / "r")), 0)
    black = max(belief for key, belief in exact.items() if key[2] == "black")
    assert (race.worst, race.stated) == (pytest.approx(float(black)), pytest.approx(0.2))
    assert abs(black - Fraction(9, 25)) < Fraction(1, 10**15)
    assert race.who.startswith("race = black, sub-table")
    assert race.baseline == pytest.approx(200 / 2400)
    assert (race.verdict, race.stated is not None) == ("not covered by the guarantee", True)
    assert race.excess > 0
    assert race.at_risk > 0
    assert "race = black" in race.remark
    assert race.reason == "The guarantee is about combinations of the sensitive columns, not about one column alone."
    assert {"column (race, label)", "column (race, composition)", "column (race, sex)", "column (job, label)"} <= set(
        found
    )


def test_t5_figures_are_those_of_enumeration(tmp_path: Path) -> None:
    rows = workers()
    release = released(rows, AS_PUBLISHED, folder=tmp_path / "r")
    evidence = Evidence(sf.scan(rows, AS_PUBLISHED), release)
    found = {finding.about: finding for finding in of_randomized(evidence)}
    for column, name in enumerate(("race", "job")):
        exact = enumerated(evidence, column)
        finding = found[f"{name}, frequencies"]
        shares = Counter(rows[name].to_pylist())
        rare = {value for value, records in shares.items() if 10 * records <= rows.num_rows}
        assert finding.worst == pytest.approx(float(max(exact[key] for key in exact if key[2] in rare)))
        assert finding.records == rows.num_rows


def test_t5_the_proved_sub_tables_keep_each_column_that_they_promise(tmp_path: Path) -> None:
    rows = workers()
    found = findings(rows, PROVED, tmp_path / "r")
    race = found["column (race, frequencies)"]
    exact = enumerated(Evidence(sf.scan(rows, PROVED), open_release(tmp_path / "r")), 0)
    assert (race.verdict, race.at_risk, race.promised) == ("within the bound", 0, pytest.approx(0.2))
    assert race.worst == pytest.approx(float(max(exact[key] for key in exact if key[2] != "white")))
    assert "Of values without a bound the largest belief is" in race.remark
    by_sex = found["column (race, sex)"]
    assert (by_sex.verdict, by_sex.reason) == (
        "not covered by the guarantee",
        "The guarantee is about someone whose belief does not depend on other columns.",
    )


def test_t5_any_statement_is_bounded_with_one_uniform_matrix(tmp_path: Path) -> None:
    """Uniform perturbation bounds any statement, also one on a column: it is promised, and kept."""
    policy = make_policy(ROLES, "rho1 = 0.1\nrho2 = 0.3")
    found = findings(workers(), policy, tmp_path / "r")
    columns = {name: f.verdict for name, f in found.items() if f.attacker == "column"}
    assert columns.pop("column (race, composition)") == "not covered by the guarantee"
    assert columns.pop("column (job, composition)") == "not covered by the guarantee"
    assert set(columns.values()) == {"within the bound"}
    assert {"column (race, upward)", "column (race, downward)"} <= set(columns)


def test_t5_fine_grain_bounds_no_single_column(tmp_path: Path) -> None:
    policy = make_policy(ROLES, "rho1 = 0.1\nrho2 = 0.3", "fine-grain")
    found = findings(workers(), policy, tmp_path / "r")
    assert {f.verdict for f in found.values() if f.attacker == "column"} == {"not covered by the guarantee"}


def test_one_sensitive_column_is_looked_at_by_the_others(tmp_path: Path) -> None:
    policy = make_policy({"sex": "quasi_identifier", "race": "other", "job": "sensitive"}, "rho1 = 0.1\nrho2 = 0.3")
    audit = sf.audit(sf.scan(workers(), policy), released(workers(), policy, folder=tmp_path / "r"), seed=1)
    assert "one column is sensitive" in {each.attacker: each.reason for each in audit.not_applicable}["column"]
