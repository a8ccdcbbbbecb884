"""What the guesser reaches, against a slow count over the published rows, person by person."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.analyst.release import Release
from sfumato.auditor.compare.guessing import FLOOR, SHARE_STEPS, STEPS, Guessed, guess, guess_classes
from sfumato.auditor.compare.original import Original, of_release
from sfumato.publisher.table import scan
from sfumato.values.attributes import label as written
from tests.conftest import make_policy
from tests.engines.tools import released

ROLES = {"age": "quasi_identifier", "sex": "quasi_identifier", "disease": "sensitive"}
QUASI = ("age", "sex")
Beliefs = dict[tuple[str, ...], dict[str, float]]
WAYS = {
    "uniform": ("rho1 = 0.35\nrho2 = 0.7", ""),
    "fine-grain": ("rho1 = 0.35\nrho2 = 0.7", ""),
    "small-domain": ("rho1 = 0.35\nrho2 = 0.7", "minimum_sub_table = 20"),
    "anatomy": ("l = 2", ""),
    "suppression": ("l = 3", ""),
    "robust-anatomy": ("r = 2", 'attribute_sets = [["sex"]]'),
}


def people(rows: int, seed: int) -> pa.Table:
    """Return a table in which the disease depends on both columns, and some combinations have few records."""
    rng = np.random.default_rng(seed)
    age, sex = rng.choice([20, 30, 40], rows, p=[0.6, 0.35, 0.05]), rng.choice(["F", "M"], rows)
    often = np.where(sex == "F", "flu", np.where(age > 20, "gout", "mumps"))
    chance = rng.choice(["asthma", "cold", "flu", "gout", "mumps"], rows)
    return pa.table({"age": age, "sex": sex, "disease": np.where(rng.random(rows) < 0.3, often, chance)})


def measured(table: pa.Table, method: str, folder: Path) -> tuple[Guessed, Original, Release]:
    requirement, options = WAYS[method]
    policy = make_policy(ROLES, requirement, method, options=options)
    release, opened = released(table, policy, folder=folder / "r"), scan(table, policy)
    original = Original.read(opened)
    return guess(original.evidence(opened, release), original, of_release(original, release)), original, release


# --- the slow way -----------------------------------------------------------------------------------------------------


def rows_of(table: Any, names: tuple[str, ...]) -> list[tuple[str, ...]]:
    return list(zip(*([written(v) for v in table.column(name).to_pylist()] for name in names), strict=True))


def shares_of(matrix: Any, observed: list[float]) -> list[float]:
    m = len(observed)
    x = [1 / m] * m
    for _ in range(SHARE_STEPS):
        shown = [sum(matrix[j][i] * x[i] for i in range(m)) for j in range(m)]
        x = [x[i] * sum(matrix[j][i] * observed[j] / shown[j] for j in range(m)) / sum(observed) for i in range(m)]
    return [value / sum(x) for value in x]


def shown_in_groups(release: Release) -> tuple[list[dict[str, float]], dict[str, float]]:
    """Return C of each row, and the shares."""
    lines = release.groups_to_arrow()
    listed = list(zip(*(lines.column(name).to_pylist() for name in ("group", "disease", "count")), strict=True))
    total: dict[str, float] = {}
    for _, value, count in listed:
        total[value] = total.get(value, 0) + count
    chances: dict[int, dict[str, float]] = {}
    for group, value, count in listed:
        chances.setdefault(group, {})[value] = count / total[value]
    rows = [chances[group] for group in release.to_arrow().column("group").to_pylist()]
    return rows, {value: count / sum(total.values()) for value, count in total.items()}


def shown_by_matrices(release: Release) -> tuple[list[dict[str, float]], dict[str, float]]:
    mechanism, data = release.manifest.mechanism_values[0], release.to_arrow()
    values = data.column("disease").to_pylist()
    tables = [n - 1 for n in data.column(mechanism.label).to_pylist()] if mechanism.label else [0] * len(values)
    own: list[dict[str, float]] = []  # expected records of each value of each sub-table
    matrices = []
    for t, table in enumerate(mechanism.tables):
        names = [mechanism.domain.labels[code] for code in table.codes.tolist()]
        observed = [float(sum(v == name and k == t for v, k in zip(values, tables, strict=True))) for name in names]
        matrix = table.matrix.dense().tolist()
        estimated = shares_of(matrix, observed)
        own.append({name: share * sum(observed) for name, share in zip(names, estimated, strict=True)})
        matrices.append({(y, u): matrix[j][i] for j, y in enumerate(names) for i, u in enumerate(names)})
    total = {u: sum(each.get(u, 0.0) for each in own) for u in mechanism.domain.labels}
    rows = [{u: matrices[t][y, u] * own[t][u] / total[u] for u in own[t]} for y, t in zip(values, tables, strict=True)]
    return rows, {u: number / sum(total.values()) for u, number in total.items()}


def stepped(beliefs: Beliefs, rows: list[tuple[str, ...]], chances: list[dict[str, float]]) -> Beliefs:
    found: Beliefs = {}
    for who, old in beliefs.items():
        told = []
        for row, chance in zip(rows, chances, strict=True):
            if row == who:
                weights = {u: old[u] * chance.get(u, 0.0) for u in old}
                told.append({u: weight / sum(weights.values()) for u, weight in weights.items()})
        found[who] = {u: sum(t[u] for t in told) / len(told) for u in old} if told else old
    return found


def from_pairs(original: Original, release: Release, who: list[tuple[str, ...]], shares: dict[str, float]) -> Beliefs:
    estimates, found = of_release(original, release), {}
    diseases = original.labels("disease")
    for signature in who:
        weights = dict(shares)
        for name, value in zip(QUASI, signature, strict=True):
            table = np.maximum(estimates((name, "disease")), FLOOR)
            k = original.labels(name).index(value)
            for u in weights:
                column = diseases.index(u)
                weights[u] *= table[k, column] / table[:, column].sum()
        found[signature] = {u: w / sum(weights.values()) for u, w in weights.items()}
    return found


def successes(table: pa.Table, beliefs: Beliefs) -> tuple[float, float]:
    """Return between which shares of people are guessed right, whatever is done where two beliefs are equal."""
    sure = possible = 0
    for *who, disease in rows_of(table, (*QUASI, "disease")):
        of_person = beliefs[tuple(who)]
        best = max(of_person.values())
        tied = [u for u, belief in of_person.items() if math.isclose(belief, best, rel_tol=1e-9)]
        sure += tied == [disease]
        possible += disease in tied
    return sure / table.num_rows, possible / table.num_rows


def exposed(table: pa.Table, beliefs: Beliefs) -> float:
    return max(beliefs[tuple(who)].get(u, 0.0) for *who, u in rows_of(table, (*QUASI, "disease")))


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("method", WAYS)
def test_every_guesser_is_right_as_often_as_counted_person_by_person(method: str, seed: int, tmp_path: Path) -> None:
    table = people(160, seed)
    found, original, release = measured(table, method, tmp_path)
    reading: Callable[[Release], Any] = shown_in_groups if release.manifest.groups else shown_by_matrices
    chances, shares = reading(release)
    rows, who = rows_of(release.to_arrow(), QUASI), sorted(set(rows_of(table, QUASI)))
    start: Beliefs = {signature: dict(shares) for signature in who}
    pairs = from_pairs(original, release, who, shares)
    slow = {"most frequent": start, "rows": stepped(start, rows, chances), "two-way tables": pairs}
    slow["two-way tables and rows"] = stepped(pairs, rows, chances)
    for name, beliefs in slow.items():
        low, high = successes(table, beliefs)
        assert low - 1e-12 <= found.others[name] <= high + 1e-12, name
    assert found.worst == pytest.approx(exposed(table, slow["rows"]))
    assert found.success == max(found.others.values()) == found.others[found.guesser]
    joint, reached = start, []
    for number in range(1, STEPS[-1] + 1):
        joint = stepped(joint, rows, chances)
        if number in STEPS:
            reached.append(successes(table, joint))
    assert (
        max(low for low, _ in reached) - 1e-12
        <= found.others["joint table"]
        <= max(high for _, high in reached) + 1e-12
    )


@pytest.mark.parametrize("scope", ["quasi-identifiers", "both"])
def test_who_links_by_randomized_quasi_identifiers(scope: str, tmp_path: Path) -> None:
    """Every row is the person's with probability ~ Pr(b | a); its value is taken, corrected where it was randomized."""
    table = people(300, 3)
    policy = make_policy(ROLES, "risk_limit = 0.35", "randomized-response", options=f'scope = "{scope}"')
    release, opened = released(table, policy, folder=tmp_path / "r"), scan(table, policy)
    original = Original.read(opened)
    found = guess(original.evidence(opened, release), original, of_release(original, release))
    of = {m.domain.name: m for m in release.manifest.mechanism_values}
    chance = {
        name: {(y, x): of[name].matrix.dense()[j, i] for j, y in enumerate(of[name].domain.labels)
               for i, x in enumerate(of[name].domain.labels)} if name in of else None
        for name in (*QUASI, "disease")
    }  # fmt: skip
    published = rows_of(release.to_arrow(), (*QUASI, "disease"))
    diseases = sorted({u for *_, u in published})
    known = chance["disease"] or {(y, x): float(y == x) for y in diseases for x in diseases}
    observed = [float(sum(u == d for *_, u in published)) for d in diseases]
    shares = dict(zip(diseases, shares_of([[known[y, x] for x in diseases] for y in diseases], observed), strict=True))
    beliefs: Beliefs = {}
    for who in set(rows_of(table, QUASI)):
        total = dict.fromkeys(diseases, 0.0)
        for *row, y in published:
            weight = 1.0
            for name, b, a in zip(QUASI, row, who, strict=True):
                matrix = chance[name]
                weight *= float(b == a) if matrix is None else matrix[b, a]
            likely = {u: known[y, u] * shares[u] for u in diseases}
            for u in diseases:
                total[u] += weight * likely[u] / sum(likely.values())
        beliefs[who] = {u: number / sum(total.values()) for u, number in total.items()}
    low, high = successes(table, beliefs)
    assert low - 1e-12 <= found.others["rows"] <= high + 1e-12
    assert found.worst == pytest.approx(exposed(table, beliefs))


def test_exact_classes_worked_by_hand() -> None:
    found = guess_classes(np.array([[3.0, 1.0], [2.0, 2.0], [0.0, 0.0]]))
    assert found.success == (3 + 2) / 8
    assert found.worst == 0.75
    assert found.others == {"rows": 0.625, "most frequent": 0.625}
