"""T5: several sensitive columns are randomized by combinations; statements about one column alone are bounded too."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.claims.single_columns import beliefs, factors, worst_factor
from sfumato.errors import PlanMismatch
from sfumato.methods.perturbed import PerturbationFigures
from sfumato.methods.plan import Plan
from sfumato.methods.small_domain.method import _sub_table
from sfumato.methods.small_domain.partition import partition
from sfumato.release.folder import MANIFEST_NAME
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato.values.mechanism import LABEL, Mechanism
from tests.conftest import make_policy

ROLES = {"race": "sensitive", "job": "sensitive"}
RHO = 'rho1 = "1/5"\nrho2 = "2/5"'


def compound(*sizes: int) -> SensitiveDomain:
    return SensitiveDomain(tuple(Domain(f"c{k}", tuple(f"v{i}" for i in range(size))) for k, size in enumerate(sizes)))


# --- oracles: every published value, every statement, in fractions ----------------------------------------------------


def columns_of(matrix: PerturbationMatrix) -> list[list[Fraction]]:
    """Return P[y][z], exactly."""
    m = matrix.size
    return [
        [Fraction(matrix.diagonal_weight(z) if y == z else int(matrix.noise[z]), 2**64) for z in range(m)]
        for y in range(m)
    ]


def codes_with(domain: SensitiveDomain, column: int, value: int) -> set[int]:
    return {c for c in range(domain.size) if np.unravel_index(c, domain.sizes)[column] == value}


def test_t5_factors_of_one_column_are_those_of_all_priors_and_published_values() -> None:
    rng = np.random.default_rng(2)
    for _ in range(30):
        domain = compound(*rng.integers(2, 5, 2).tolist())
        matrix = PerturbationMatrix.from_retention(rng.choice([0, 0.05, 0.2, 0.5, 0.9], domain.size).tolist())
        rows, found = columns_of(matrix), {(f.column, f.value): f for f in factors(domain, matrix)}
        assert len(found) == sum(domain.sizes)
        for k, size in enumerate(domain.sizes):
            for value in range(size):
                inside = codes_with(domain, k, value)
                outside = set(range(domain.size)) - inside
                up = max(max(row[z] for z in inside) / min(row[z] for z in outside) for row in rows)
                down = max(max(row[z] for z in outside) / min(row[z] for z in inside) for row in rows)
                factor = found[f"c{k}", f"v{value}"]
                assert (factor.upward, factor.downward) == (up, down)


def test_t5_a_value_that_is_never_changed_leaves_its_column_without_bound() -> None:
    domain = compound(2, 2)
    worst = worst_factor(domain, PerturbationMatrix.from_retention([0.1, 0.1, 0.1, 1.0]))
    assert worst is not None
    assert worst.largest is None
    assert worst_factor(compound(4), PerturbationMatrix.from_retention([0.1] * 4)) is None


def posterior(
    mechanism: Mechanism, quotas: list[np.ndarray], table: int, inside: set[int]
) -> tuple[Fraction, Fraction]:
    """Return the share of a statement in a sub-table, and the largest posterior after any published value."""
    codes, counts = mechanism.tables[table].codes.tolist(), quotas[table].tolist()
    rows = columns_of(mechanism.tables[table].matrix)
    weights = [[count * p for count, p in zip(counts, row, strict=True)] for row in rows]
    shares = [sum(w for w, c in zip(row, codes, strict=True) if c in inside) / sum(row) for row in weights]
    return Fraction(sum(n for n, c in zip(counts, codes, strict=True) if c in inside), sum(counts)), max(shares)


def made_of(
    counts: np.ndarray, sizes: tuple[int, ...], rho: tuple[Fraction, Fraction], alone: bool
) -> tuple[Mechanism, list]:
    found = partition(counts, *rho, minimum_size=40, columns=sizes if alone else ())
    protected = found.groups.protected
    tables = tuple(_sub_table(block, protected, rho[1]) for block in found.blocks)
    return Mechanism(compound(*sizes), tables, LABEL if found.pays else None), [block.counts for block in found.blocks]


def test_t5_every_protected_value_of_one_column_is_bounded_in_every_sub_table() -> None:
    rng, exceeded, tight = np.random.default_rng(4), 0, 0
    for _ in range(25):
        sizes = (int(rng.integers(2, 5)), int(rng.integers(4, 9)))
        counts = np.round(rng.pareto(0.8, sizes[0] * sizes[1]) * 20).astype(np.int64)
        counts[rng.integers(0, counts.size)] += 30
        rho = Fraction(1, 4), Fraction(2, 5)
        if not ((counts > 0) & (counts * 4 <= counts.sum())).any():
            continue
        for alone in (False, True):
            mechanism, quotas = made_of(counts, sizes, rho, alone)
            for belief in beliefs(mechanism, quotas):
                k, value = int(belief.column[1:]), int(belief.value[1:])
                inside = codes_with(mechanism.domain, k, value)
                assert (belief.share, belief.belief) == posterior(mechanism, quotas, belief.sub_table - 1, inside)
                assert belief.overall == Fraction(sum(int(counts[c]) for c in inside), int(counts.sum()))
                above = belief.overall <= rho[0] and belief.belief > rho[1]
                assert not (alone and above)
                exceeded += above
                tight += alone and belief.overall <= rho[0] and belief.belief > rho[1] * Fraction(99, 100)
    assert exceeded > 20  # without regard to single columns
    assert tight > 20  # no more noise than needed


# --- plans ------------------------------------------------------------------------------------------------------------


def people(rows: int = 6_000) -> pa.Table:
    rng = np.random.default_rng(1)
    race = rng.choice(["A", "B", "C"], rows, p=[0.8, 0.12, 0.08])
    job = np.where(race == "C", rng.integers(0, 3, rows), rng.integers(0, 12, rows))
    return pa.table({"race": race.tolist(), "job": [f"j{j:02}" for j in job]})


def planned(method: str = "small-domain", requirement: str = RHO) -> Plan:
    policy = make_policy(ROLES, requirement, method)
    made = sf.plan(sf.profile(sf.scan(people(), policy)), policy.method, policy.requirement)
    assert isinstance(made.figures, PerturbationFigures)
    return made


def test_t5_a_plan_promises_and_shows_the_beliefs_in_one_column() -> None:
    made = planned()
    assert "each value x of race or job alone that at most 20% of the records have" in made.guarantee.sentence
    assert made.figures.partition is not None
    assert {(a.column, a.protected) for a in made.figures.partition.alone} >= {
        ("race", True),
        ("race", False),
        ("job", True),
    }
    assert all(a.belief <= 0.4 for a in made.figures.partition.alone if a.protected)
    assert all(a.share <= a.belief for a in made.figures.partition.alone)
    assert "one column alone: the largest belief" in made.explain()
    again = PerturbationFigures.from_dict(json.loads(made.to_json()))
    assert again.partition == made.figures.partition


def test_t5_a_plan_that_bounds_combinations_only_is_refused() -> None:
    made = planned()
    counts, rho = made.figures.counts, (Fraction(1, 5), Fraction(2, 5))
    mechanism, quotas = made_of(counts, made.figures.domain.sizes, rho, alone=False)
    mechanism = replace(mechanism, domain=made.figures.domain)
    assert any(b.overall <= rho[0] and b.belief > rho[1] for b in beliefs(mechanism, quotas))
    small = replace(made.figures.partition, minimum_size=0)
    figures = replace(made.figures, mechanisms=(mechanism,), quotas=tuple(quotas), partition=small)
    with pytest.raises(PlanMismatch, match="too much of one column alone"):
        replace(made, figures=figures).require("", "")
    made.require("", "")


def test_t5_as_published_says_that_one_column_is_not_bounded() -> None:
    policy = make_policy(ROLES, RHO, "small-domain", options='assurance = "as-published"')
    made = sf.plan(sf.profile(sf.scan(people(), policy)), policy.method, policy.requirement)
    assert "alone" not in made.guarantee.sentence
    assert any("not those about one of these columns alone" in limit for limit in made.guarantee.limits)


def test_t5_fine_grain_states_the_factor_of_one_column_and_verify_holds_it(tmp_path: Path) -> None:
    strict = '\n[[requirement.values]]\nvalue = ["C", "j00"]\nrho1 = 0.1\nrho2 = 0.15'
    made = planned("fine-grain", RHO + strict)
    worst = worst_factor(made.figures.domain, made.figures.matrix)
    assert worst is not None
    assert worst.largest is not None
    [limit] = [limit for limit in made.guarantee.limits if "one column alone" in limit]
    stated = Fraction(limit.split("the factor ")[1].split(",")[0])
    assert worst.largest <= stated <= worst.largest * Fraction(1001, 1000)
    assert worst.largest > Fraction(3, 2)  # gamma of the strict combination: 0.15/0.85 / (0.1/0.9) < 1.6
    assert planned("uniform").guarantee.scope == "any predicate"


def test_t5_verify_follows_the_rho1_of_the_manifest(tmp_path: Path) -> None:
    policy = make_policy(ROLES, RHO, "small-domain")
    table = sf.scan(people(), policy)
    release = sf.publish(table, sf.plan(sf.profile(table), policy.method, policy.requirement), tmp_path / "r")
    assert release.manifest.mechanisms[0].rho1 == "1/5"
    assert release.verify().holds
    manifest = json.loads((release.folder / MANIFEST_NAME).read_text())
    manifest["mechanisms"][0]["rho1"] = "1/2"
    (release.folder / MANIFEST_NAME).write_text(json.dumps(manifest))
    failed = {check.name for check in sf.open_release(release.folder).verify().checks if check.status == "fails"}
    assert "guarantee, as stated" in failed


def test_t5_adult_race_and_occupation(real_data: Callable[[str], Path]) -> None:
    """Without regard to single columns 12 of 48 beliefs in protected ones exceed 1/6, up to .326; now none does."""
    columns = ["race", "occupation"]
    table = pq.read_table(real_data("adult_complete_45222.parquet")).select(columns)
    policy = make_policy(dict.fromkeys(columns, "sensitive"), 'rho1 = "9/100"\nrho2 = "1/6"', "small-domain")
    made = sf.plan(sf.profile(sf.scan(table, policy)), policy.method, policy.requirement)
    assert isinstance(made.figures, PerturbationFigures)
    limit, sixth = Fraction(9, 100), Fraction(1, 6)
    before, quotas = made_of_adult(made, limit, sixth)
    told = [b for b in beliefs(before, quotas) if b.overall <= limit]
    assert (len(told), sum(b.belief > sixth for b in told)) == (48, 12)
    assert max(told, key=lambda b: b.belief).value == "Asian-Pac-Islander"
    assert float(max(b.belief for b in told)) == pytest.approx(0.3259, abs=1e-4)
    now = [b for b in beliefs(made.figures.mechanism, list(made.figures.quotas)) if b.overall <= limit]
    assert max(b.belief for b in now) <= sixth
    assert made.figures.partition is not None
    assert made.figures.partition.record_retention == pytest.approx(0.1244, abs=1e-4)  # 0.1425 without; uniform 0.0148


def made_of_adult(made: Plan, rho1: Fraction, rho2: Fraction) -> tuple[Mechanism, list[np.ndarray]]:
    found = partition(made.figures.counts, rho1, rho2)
    protected = found.groups.protected
    tables = tuple(_sub_table(block, protected, rho2) for block in found.blocks)
    return Mechanism(made.figures.domain, tables, LABEL), [block.counts for block in found.blocks]
