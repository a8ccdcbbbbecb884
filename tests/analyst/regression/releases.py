"""Small releases of every kind, for models: a table in which the diagnosis goes with age and region."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy

DIAGNOSES = ["flu", "HIV", "cold", "asthma", "gout", "mumps", "polio", "rabies", "scurvy", "tetanus"]
COUNTS = [12, 8, 6, 5, 4, 3, 1, 1, 1, 1]  # with these, small domains have two sub-tables
SHARES = np.array(COUNTS[1:]) / 30
GRADES = ["1", "2", "3"]
AGES = [25, 35, 45, 55, 65]


def people(rows: int = 800, seed: int = 1, missing: bool = False) -> pa.Table:
    """Return rows in random order; with `missing`, some lack a value."""
    rng = np.random.default_rng(seed)
    age, region, sex = rng.choice(AGES, rows), rng.choice(["N", "S", "W"], rows), rng.choice(["F", "M"], rows)
    ill = rng.random(rows) < 1 / (1 + np.exp(1.5 - (age - 45) / 20 - 0.7 * (region == "S")))
    diagnosis: list[Any] = np.where(ill, "flu", rng.choice(DIAGNOSES[1:], rows, p=SHARES)).tolist()
    regions: list[Any] = region.tolist()
    if missing:
        diagnosis = [None if k < 0.1 else value for k, value in zip(rng.random(rows), diagnosis, strict=True)]
        regions = [None if k < 0.1 else value for k, value in zip(rng.random(rows), regions, strict=True)]
    grade = np.minimum(rng.integers(0, 2, rows) + ill, 2)
    return pa.table(
        {
            "age": age.tolist(),
            "region": regions,
            "sex": sex.tolist(),
            "stay": (rng.poisson(1 + age / 30 + 2 * ill)).tolist(),
            "weight": rng.integers(1, 5, rows).tolist(),
            "person": (np.arange(rows) // 2).tolist(),
            "diagnosis": diagnosis,
            "grade": [GRADES[k] for k in grade],
        }
    )


PLAIN = dict.fromkeys(("age", "region", "sex", "stay", "weight", "person", "grade"), "other")
ILL = f"sensitive; domain = {DIAGNOSES}"
GRADE = f"sensitive; domain = {GRADES}"
KINDS: dict[str, tuple[dict[str, str], str, str]] = {
    "uniform": ({"diagnosis": ILL}, "gamma = 6", "uniform"),
    "fine-grain": ({"diagnosis": ILL}, "rho1 = 0.2\nrho2 = 0.6", "fine-grain"),
    "small-domain": ({"diagnosis": ILL}, "rho1 = '1/3'\nrho2 = '2/3'", "small-domain"),
    "subset": ({"diagnosis": ILL}, "gamma = 9", "subset"),
    "compound": ({"diagnosis": ILL, "grade": GRADE}, "gamma = 30", "uniform"),
    "several": (
        {"diagnosis": ILL, "grade": f"{GRADE}; method = {{ name = 'uniform' }}; requirement = {{ gamma = 8 }}"},
        "gamma = 6",
        "uniform",
    ),
    "anatomy": ({"diagnosis": ILL}, "l = 2", "anatomy"),
    "response": (
        {**dict.fromkeys(("region", "grade"), "quasi_identifier"), "diagnosis": ILL},
        "risk_limit = 0.355",
        "randomized-response",
    ),
}


def dealt_evenly(rows: pa.Table) -> pa.Table:
    """Return as many whole times 42 rows as there are, with diagnoses in exactly the shares of COUNTS."""
    rows = rows.slice(0, rows.num_rows // 42 * 42)
    values = np.resize(np.repeat(DIAGNOSES, COUNTS), rows.num_rows)
    place = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    order = np.argsort(rows["diagnosis"].to_numpy(zero_copy_only=False), kind="stable")  # keeps most of what is there
    dealt = np.empty_like(values)
    dealt[order] = values[np.argsort(place, kind="stable")]
    return rows.set_column(rows.column_names.index("diagnosis"), "diagnosis", pa.array(dealt.tolist()))


def release_of(
    kind: str, folder: Path, rows: pa.Table | None = None, seed: int = 3, requirement: str = ""
) -> sf.Release:
    """Publish the people by a method, with its own requirement or another one."""
    sensitive, usual, method = KINDS[kind]
    rows = people() if rows is None else rows
    rows = dealt_evenly(rows) if method == "small-domain" else rows
    options = "assurance = 'as-published'" if method == "small-domain" else ""
    roles = {**PLAIN, "diagnosis": ILL, **sensitive}
    if rows["diagnosis"].null_count:
        roles = {name: f"{role}; missing = 'category'" for name, role in roles.items()}
        roles["diagnosis"] = f"sensitive; missing = 'category'; domain = {DIAGNOSES}"
    table = sf.scan(rows, make_policy(roles, requirement or usual, method, options=options))
    plan = sf.plan(sf.profile(table), table.policy.method, table.policy.requirement)
    return sf.publish(table, plan, folder / kind, key=SecretKey.from_seed(seed))
