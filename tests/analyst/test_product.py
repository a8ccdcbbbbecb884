"""Columns randomized independently of each other: answers equal a dense reference with the Kronecker product."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.analyst import associations as comparing
from sfumato.analyst import power
from sfumato.analyst.answer import Target
from sfumato.analyst.randomized import bayes, figures
from sfumato.analyst.randomized.channel import Randomization
from sfumato.analyst.release import Release
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.product import ProductMatrix
from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato.values.mechanism import Bound, Mechanism
from sfumato.values.randomness import simulation
from tests.conftest import make_policy
from tests.constants import set_constants
from tests.engines.tools import released

ROWS = 300
VALUES = {"sex": ("F", "M"), "job": ("baker", "clerk", "cook", "driver"), "race": ("a", "b", "c")}
RETENTION = {"sex": [0.6] * 2, "job": [0.3, 0.5, 0.4, 0.6], "race": [0.7] * 3}


def mechanism(name: str) -> Mechanism:
    domain = SensitiveDomain((Domain(name, VALUES[name]),))
    return Mechanism.single(domain, PerturbationMatrix.from_retention(RETENTION[name]), (Bound(None),) * domain.size)


RANDOMIZATION = Randomization(tuple(map(mechanism, VALUES)))
INVERSE = {m.domain.name: np.linalg.inv(m.matrix.dense()) for m in RANDOMIZATION.mechanisms}


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Release:
    """Return a release whose three columns are said to be randomized by themselves."""
    rng = simulation(3)
    columns = {name: [values[k] for k in rng.integers(0, len(values), ROWS)] for name, values in VALUES.items()}
    table = pa.table({**columns, "age": rng.integers(20, 60, ROWS).tolist()})
    roles = {"sex": "other", "job": "sensitive", "race": "other", "age": "other"}
    made = released(table, make_policy(roles, "epsilon = 1"), folder=tmp_path / "r")
    pq.write_table(table, made.data)
    for module in (comparing, power, figures):
        monkeypatch.setattr(module, "randomization_of", lambda release: RANDOMIZATION)
    set_constants(monkeypatch, "sfumato.analyst", FEW=0)
    return made


def reference(release: Release, meant: Any, target: Target) -> tuple[float, float]:
    """Return the count of the records that `meant` (sex, job, race, age) says, and its standard error, row by row."""
    terms = []
    for row in release.to_arrow().to_pylist():
        weight = 0.0
        for combination in product(*VALUES.values()):
            if meant(*combination, row["age"]):
                own = zip(VALUES.items(), combination, strict=True)
                weight += np.prod([INVERSE[n][values.index(v), values.index(row[n])] for (n, values), v in own])
        terms.append(weight)
    a = np.array(terms)
    if target == "table":
        return float(a.sum()), float(np.sqrt(max((a**2 - a).sum(), 0)))
    return float(a.sum()), float(np.sqrt(((a**2).sum() - a.sum() ** 2 / ROWS) * ROWS / (ROWS - 1)))


QUERIES: dict[str, Any] = {
    "job = 'cook'": lambda sex, job, race, age: job == "cook",
    "sex = 'F' AND job = 'cook'": lambda sex, job, race, age: sex == "F" and job == "cook",
    "sex = 'F' OR job = 'cook' AND age > 40": lambda sex, job, race, age: sex == "F" or (job == "cook" and age > 40),
    "NOT (race = 'b' OR sex = 'M') AND job <> 'clerk'": lambda sex, job, race, age: (
        race != "b" and sex == "F" and job != "clerk"
    ),
    "age < 30": lambda sex, job, race, age: age < 30,
}


@pytest.mark.parametrize("target", ["table", "population"])
@pytest.mark.parametrize("where", QUERIES)
def test_conditions_equal_the_reference(release: Release, where: str, target: Target) -> None:
    answer = release.sql(f"SELECT COUNT(*) FROM release WHERE {where}", target=target)
    value, error = reference(release, QUERIES[where], target)
    assert float(answer.value[0]) == pytest.approx(value, abs=1e-9)
    assert float(answer.standard_error[0]) == pytest.approx(error, abs=1e-6)


@pytest.mark.parametrize("target", ["table", "population"])
def test_groups_equal_the_reference(release: Release, target: Target) -> None:
    """By two of the three columns, in any order; tables and margins agree with them."""
    answer = release.sql("SELECT job, sex, COUNT(*) FROM release GROUP BY job, sex", target=target)
    assert len(answer.groups) == 8
    for (job, sex), value, error in zip(answer.groups, answer.value, answer.standard_error, strict=True):
        due = reference(release, lambda s, j, race, age, job=job, sex=sex: s == sex and j == job, target)
        assert (float(value), float(error)) == pytest.approx(due, abs=1e-9)
    table = release.table(["sex", "job"], target=target)
    assert table.value.sum() == pytest.approx(ROWS)
    assert np.sqrt(table.covariance().diagonal()) == pytest.approx(table.standard_error.ravel())
    by_job = release.sql("SELECT job, COUNT(*) FROM release GROUP BY job", target=target)
    assert table.value.sum(axis=0) == pytest.approx(by_job.value)


def test_em_reaches_the_maximum() -> None:
    """From its own start and from equal shares, for several groups at once; nothing negative."""
    matrix = ProductMatrix(tuple(m.matrix for m in RANDOMIZATION.mechanisms))
    observed = simulation(8).integers(0, 40, (5, matrix.size)).astype(float)
    found = bayes.iterate(matrix, observed, 1e-6)
    assert found.converged
    slow = np.full(observed.shape, observed.mean(axis=1, keepdims=True))
    for _ in range(4_000):
        slow = slow * matrix.apply_transposed(observed / matrix.apply(slow))

    def log_likelihood(x: Any) -> Any:
        return (observed * np.log(matrix.apply(x))).sum(axis=1)

    assert log_likelihood(found.value) == pytest.approx(log_likelihood(slow), abs=1e-5)
    assert (found.value >= 0).all()
    assert found.value.sum(axis=1) == pytest.approx(observed.sum(axis=1))


def test_associations_know_what_is_independent(release: Release) -> None:
    assert RANDOMIZATION.are_independent("sex", "job")
    assert release.association("sex", "job").test is not None
    assert release.risks("sex = 'F'", "job = 'cook'").measures[0].name == "risk difference"
    assert release.power(["sex", "job"]).records.size == 8
    assert (release.count(["sex", "job"], method="em").value >= 0).all()
