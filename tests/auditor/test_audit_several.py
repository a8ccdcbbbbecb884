"""The audit of releases whose columns have methods of their own: honest ones, and faults in one of two columns."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.auditor.attackers.combination import of_several
from sfumato.auditor.evidence import Evidence
from tests.auditor.test_audit_faults import above, rewritten
from tests.conftest import exact_weights, make_policy
from tests.engines.test_several import ROLES, asked, people, planned

ILLS, DRUGS = np.array(["u", "v", "w"]), np.array(["x", "y"])
OWN = "sensitive; domain = ['x', 'y']; method = { name = 'uniform' }; requirement = { gamma = 2 }"
PAIRS = {"age": "quasi_identifier", "ill": "sensitive; domain = ['u', 'v', 'w']", "drug": OWN}


def patients(rows: int = 3000, ages: int = 40) -> pa.Table:
    """Return people whose drug goes with their illness."""
    rng = np.random.default_rng(4)
    ill = rng.integers(0, 3, rows)
    drug = np.where(rng.random(rows) < 0.9, ill == 0, ill != 0).astype(int)
    return pa.table(
        {"age": rng.integers(20, 20 + ages, rows).tolist(), "ill": ILLS[ill].tolist(), "drug": DRUGS[drug].tolist()}
    )


def released(rows: pa.Table, policy: Any, folder: Path) -> Any:
    table = sf.scan(rows, policy)
    return sf.publish(table, planned(table), folder)


def test_nothing_is_above_its_bound_in_an_honest_release(tmp_path: Path) -> None:
    """Sets and ranges, shuffled; every attacker that applies looks at each column, and one at both."""
    rows, policy = people(2000), asked()
    found = sf.audit(sf.scan(rows, policy), released(rows, policy, tmp_path / "r"), seed=1)
    assert not [f for f in found.findings if f.verdict == "above the bound"]
    about = {(f.attacker, f.about.split(",")[0]) for f in found.findings}
    for attacker in (
        "posterior",
        "frequencies",
        "background",
        "averaging",
        "order",
        "draws",
        "combination",
        "corruption",
    ):
        assert {(attacker, "diagnosis"), (attacker, "income")} <= about
    assert ("combination", "combinations") in about
    assert ("draws", "columns") in about
    assert found.utility.tables


def test_what_all_columns_tell_is_that_of_bayes_in_fractions(tmp_path: Path) -> None:
    """The largest factor over the rows that were published, for someone who knows the shares of the combinations."""
    rows, policy = patients(400), make_policy(PAIRS, "gamma = 3")
    release = released(rows, policy, tmp_path / "r")
    evidence = Evidence(sf.scan(rows, policy), release)
    found = {f.about: f for f in of_several(evidence)}
    p, q = (exact_weights(m.matrix) for m in release.manifest.mechanism_values)
    cells = list(zip(rows["ill"].to_pylist(), rows["drug"].to_pylist(), strict=True))
    shares = {cell: Fraction(cells.count(cell), len(cells)) for cell in set(cells)}
    shown = set(zip(release.to_arrow()["ill"].to_pylist(), release.to_arrow()["drug"].to_pylist(), strict=True))

    def chance(seen: tuple[str, str], cell: tuple[str, str]) -> Fraction:
        (y, w), (i, d) = (("uvw".index(a), "xy".index(b)) for a, b in (seen, cell))
        return Fraction(p[y][i] * q[w][d])

    def moved(inside: Any, seen: tuple[str, str]) -> Fraction:
        held = sum(share for cell, share in shares.items() if inside(cell))
        told = sum(share * chance(seen, cell) for cell, share in shares.items() if inside(cell))
        other = sum(share * chance(seen, cell) for cell, share in shares.items() if not inside(cell))
        return (told / held) / (other / (1 - held))

    largest = {
        "combinations": max(moved(cell.__eq__, seen) for cell in shares for seen in shown),
        "ill": max(moved(lambda c, x=x: c[0] == x, seen) for x in "uvw" for seen in shown),
        "drug": max(moved(lambda c, x=x: c[1] == x, seen) for x in "xy" for seen in shown),
    }
    for about, factor in largest.items():
        assert found[about].worst == pytest.approx(float(factor / (1 + factor)))
        assert found[about].promised == pytest.approx(6 / 7, abs=1e-9)
        assert found[about].verdict == "within the bound"
    assert largest["drug"] > 2  # more than the column itself may tell: the illness tells of the drug, too


@pytest.mark.parametrize("ages", [40, 10_000])
def test_audit_finds_one_word_for_both_columns(ages: int, tmp_path: Path) -> None:
    """Each column by itself is as it should be; also of shuffled rows, of which nobody knows whose they are."""
    rows, policy = patients(ages=ages), make_policy(PAIRS, "gamma = 3")
    release = released(rows, policy, tmp_path / "r")
    order = _order(rows, release)
    word = np.random.default_rng(1).random(3000)
    ill, drug = (rows[name].to_numpy(zero_copy_only=False)[order] for name in ("ill", "drug"))
    shared = rewritten(release, ill=_drawn(ill, 2 / 5, word, ILLS), drug=_drawn(drug, 1 / 3, word, DRUGS))
    assert above(rows, policy, shared) == [("draws", "columns")]


def test_audit_finds_a_column_that_was_not_randomized(tmp_path: Path) -> None:
    rows, policy = patients(ages=10_000), make_policy(PAIRS, "gamma = 3")
    release = released(rows, policy, tmp_path / "r")
    drug = rows["drug"].to_numpy(zero_copy_only=False)[_order(rows, release)]
    found = above(rows, policy, rewritten(release, drug=drug))
    assert ("draws", "drug, transitions") in found
    assert not [about for attacker, about in found if attacker == "draws" and about.startswith("ill, transitions")]


def _order(rows: pa.Table, release: Any) -> np.ndarray:
    """Return a record of each published row: one with its age."""
    places: dict[int, Any] = {}
    for place, age in enumerate(rows["age"].to_pylist()):
        places.setdefault(age, []).append(place)
    taken = {age: itertools.chain(found) for age, found in places.items()}
    return np.array([next(taken[age]) for age in release.to_arrow()["age"].to_pylist()])


def _drawn(true: np.ndarray, retention: float, words: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Draw each value by a word between 0 and 1: kept below the retention, else any value alike."""
    noise = np.floor((words - retention) / (1 - retention) * values.size)
    return np.where(words < retention, true, values[np.clip(noise, 0, values.size - 1).astype(int)])


def test_a_release_with_two_records_and_one_column_of_one_value(tmp_path: Path) -> None:
    """Few combinations occur: nothing divides by zero, and nothing is said of what is certain."""
    rows = pa.table({"age": [1, 2, 3], "ill": ["u", "u", "v"], "drug": ["x", "x", "x"]})
    policy = make_policy(PAIRS, "gamma = 3")
    release = released(rows, policy, tmp_path / "r")
    found = list(of_several(Evidence(sf.scan(rows, policy), release)))
    assert all(0 <= finding.worst < 1 for finding in found)


def test_comparing_and_reporting_know_it(tmp_path: Path) -> None:
    rows, policy = people(600), asked(ROLES | {"n": "identifier"})
    table = sf.scan(rows, policy)
    found = sf.compare(table, seed=1)
    own = next(each for each in found.methods if each.own)
    assert own.method == "several"
    assert own.figures is not None
    assert own.asked == "diagnosis: rho 1/10 to 1/4; income: gamma = 4"
    release = sf.publish(table, planned(table), tmp_path / "r")
    sf.report(sf.audit(table, release, seed=1), tmp_path / "page.html", table=table)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Each column was blurred by itself" in page
    assert "likeliest diagnosis" in page
    assert "likeliest income" in page
