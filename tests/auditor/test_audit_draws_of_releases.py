"""Releases that were never randomized are above the bound; those that were are not, whatever the seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.analyst.release import Release
from sfumato.auditor.attackers.draws import ATTACKER
from sfumato.auditor.evidence import Evidence
from sfumato.auditor.finding import Finding
from sfumato.publisher.policy import Policy
from tests.conftest import make_policy
from tests.engines.tools import released, resealed

ROLES = {"s": "quasi_identifier", "d": "sensitive"}
POLICIES = {
    "uniform": make_policy(ROLES, "epsilon = 0.1"),
    "fine-grain": make_policy(ROLES, "rho1 = 0.2\nrho2 = 0.3", "fine-grain"),
    "small-domain": make_policy(ROLES, "rho1 = 0.3\nrho2 = 0.6", "small-domain", "", "minimum_sub_table = 300"),
    "randomized-response": make_policy(ROLES, "risk_limit = 0.4", "randomized-response"),
}
KEPT = {
    "uniform": make_policy(ROLES, "epsilon = 0.1", extra='[output]\norder = "keep"'),
    "fine-grain": make_policy(ROLES, "rho1 = 0.2\nrho2 = 0.3", "fine-grain", '[output]\norder = "keep"'),
}
BY_ROW = ["transitions", "by column", "neighbours"]
ABOUT = {False: BY_ROW, True: ["margins", "coincidence"]}


def table_of(method: str, n: int = 1000) -> pa.Table:
    """Return rows with even shares, which randomizing leaves; for sub-tables uneven ones, for response by town."""
    rng = np.random.default_rng(1)
    s, d = rng.choice(["F", "M"], n), rng.choice(list("abcdef"), n)
    if method == "small-domain":
        d = np.array(list("abcdefghij"))[np.minimum(rng.geometric(0.25, n), 10) - 1]
    if method == "randomized-response":
        s = np.where(rng.random(n) < 0.5, d, rng.choice(list("abcdef"), n))
    return pa.table({"s": s.tolist(), "d": d.tolist()})


def as_it_was(release: Release, rows: pa.Table) -> Release:
    """Put the true values into the data, in the order of the table."""
    data = pq.read_table(release.data)
    for name in ("s", "d"):
        kind = data.schema.field(name).type
        column = rows[name].combine_chunks()
        column = column.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else column.cast(kind)
        data = data.set_column(data.schema.get_field_index(name), data.schema.field(name), column)
    pq.write_table(data, release.data)
    return resealed(release)


def draws(rows: pa.Table, policy: Policy, release: Release) -> list[Finding]:
    evidence = Evidence(sf.scan(rows, policy), release)
    evidence.check()
    return list(ATTACKER.attack(evidence))


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("method", ["uniform", "fine-grain"])
def test_a_release_that_was_never_randomized_is_above_the_bound(method: str, shuffle: bool, tmp_path: Path) -> None:
    rows, policy = table_of(method), POLICIES[method] if shuffle else KEPT[method]
    release = released(rows, policy, folder=tmp_path / "r", shuffle=shuffle)
    kept = sf.audit(sf.scan(rows, policy), release, seed=1)
    found = [finding for finding in kept.findings if finding.attacker == "draws"]
    assert [(f.about, f.verdict) for f in found] == [(about, "within the bound") for about in ABOUT[shuffle]]
    assert kept.holds
    spoiled = sf.audit(sf.scan(rows, policy), as_it_was(release, rows), seed=1)
    broken = [finding for finding in spoiled.findings if finding.verdict == "above the bound"]
    also = [("order", "random order")] if shuffle else [("draws", about) for about in BY_ROW[1:]]
    due = [("draws", "coincidence" if shuffle else "transitions"), *also]
    assert [(f.attacker, f.about, f.at_risk) for f in broken] == [(*name, 1000) for name in due]
    assert not spoiled.holds


def test_sub_tables_that_were_never_randomized_are_above_the_bound(tmp_path: Path) -> None:
    rows, policy = table_of("small-domain"), POLICIES["small-domain"]
    release = released(rows, policy, folder=tmp_path / "r", shuffle=False)
    assert len(release.manifest.mechanisms[0].sub_tables) > 1
    found = draws(rows, policy, as_it_was(release, rows))
    assert [(f.verdict, f.about) for f in found] == [("above the bound", about) for about in BY_ROW]


def test_one_sub_table_without_the_pairs_that_nobody_has(tmp_path: Path) -> None:
    """As published there may be one sub-table, which no column tells, and which lacks some values of the domain."""
    pairs = [("a", "x"), ("a", "y"), ("b", "x"), ("c", "x"), ("c", "y")] * 40
    rows = pa.table({"s": ["F", "M"] * 100, "d": [d for d, _ in pairs], "e": [e for _, e in pairs]})
    policy = make_policy(
        {"s": "quasi_identifier", "d": "sensitive", "e": "sensitive"},
        "rho1 = 0.3\nrho2 = 0.7",
        "small-domain",
        options='assurance = "as-published"',
    )
    release = released(rows, policy, folder=tmp_path / "r", shuffle=True)
    (mechanism,) = release.manifest.mechanism_values
    assert (mechanism.label, mechanism.is_whole) == (None, False)
    (found,) = draws(rows, policy, release)  # counts of so few rows may be the true ones by chance
    assert (found.about, found.verdict) == ("margins", "within the bound")


def test_quasi_identifiers_that_were_never_randomized_are_above_the_bound(tmp_path: Path) -> None:
    rows, policy = table_of("randomized-response"), POLICIES["randomized-response"]
    release = released(rows, policy, folder=tmp_path / "r")
    assert {f.verdict for f in draws(rows, policy, release)} == {"within the bound"}
    broken = [f.about for f in draws(rows, policy, as_it_was(release, rows)) if f.verdict == "above the bound"]
    assert broken == ["s, margins", "s, coincidence"]  # d is not randomized, and rows are counted by it


def test_shuffled_rows_that_can_be_told_apart_are_compared_row_by_row(tmp_path: Path) -> None:
    rows = table_of("uniform").append_column("k", pa.array(range(1000)))
    policy = make_policy(ROLES | {"k": "quasi_identifier"}, "epsilon = 0.1")
    release = released(rows, policy, folder=tmp_path / "r", shuffle=True)
    found = draws(rows, policy, release)
    assert [f.about for f in found] == [*BY_ROW, "margins", "coincidence"]
    assert (found[0].records, found[0].verdict) == (1000, "within the bound")


RANDOMIZED = [(method, shuffle) for method in ("uniform", "fine-grain", "small-domain") for shuffle in (False, True)]


@pytest.mark.parametrize(("method", "shuffle"), [*RANDOMIZED, ("randomized-response", None)])
def test_no_seed_is_above_the_bound(method: str, shuffle: bool | None, tmp_path: Path) -> None:
    rows = table_of(method, 600)
    for seed in range(8):
        release = released(rows, POLICIES[method], folder=tmp_path / str(seed), seed=seed, shuffle=shuffle)
        found = draws(rows, POLICIES[method], release)
        assert found
        assert {f.verdict for f in found} == {"within the bound"}, seed


PERSON = '[person]\ncolumn = "p"\nrepeated = "keep-one"'


def test_one_row_of_each_person_is_compared_where_it_can_be_told(tmp_path: Path) -> None:
    rows = pa.table({"p": [k // 2 for k in range(400)], "k": list(range(400)), "d": ["a", "b"] * 200})
    roles = {"p": "identifier", "k": "quasi_identifier", "d": "sensitive"}
    policy = make_policy(roles, extra=PERSON)
    found = draws(rows, policy, released(rows, policy, folder=tmp_path / "r"))
    assert [(f.about, f.records, f.verdict) for f in found] == [(about, 200, "within the bound") for about in BY_ROW]
    policy = make_policy(roles | {"k": "identifier"}, extra=PERSON)
    release = released(rows, policy, folder=tmp_path / "c")
    reasons = {each.attacker: each.reason for each in sf.audit(sf.scan(rows, policy), release).not_applicable}
    assert "none can be told to be a certain record's" in reasons["draws"]
