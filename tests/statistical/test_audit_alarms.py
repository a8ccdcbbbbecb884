"""Honest releases of all methods: neither `verify` nor an audit takes one for a release that was not made as it says.

Each check of how a release was made has a false-alarm rate of 1e-6 (places against the table's order: 1e-3), so 64
releases give an alarm with a probability of at most 64 * (4e-6 + 1e-3) = 6.4%, and, as bounds are not tight, far less.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from tests.conftest import make_policy
from tests.engines.tools import released

ROLES = {"age": "quasi_identifier", "sex": "quasi_identifier", "town": "other", "disease": "sensitive"}
KEEP = '[output]\norder = "keep"'
SETS = 'attribute_sets = [["sex"]]\nprior = "table"'
METHODS = {
    "uniform": make_policy(ROLES, "rho1 = 0.3\nrho2 = 0.6"),
    "uniform, order kept": make_policy(ROLES, "rho1 = 0.3\nrho2 = 0.6", extra=KEEP),
    "fine-grain": make_policy(ROLES, "rho1 = 0.3\nrho2 = 0.6", "fine-grain"),
    "small-domain": make_policy(ROLES, "rho1 = 0.3\nrho2 = 0.6", "small-domain", "", "minimum_sub_table = 30"),
    "randomized-response": make_policy(ROLES, "risk_limit = 0.45", "randomized-response"),
    "anatomy": make_policy(ROLES, "l = 2", "anatomy"),
    "suppression": make_policy(ROLES, "l = 3", "suppression"),
    "robust-anatomy": make_policy(ROLES, "r = 2", "robust-anatomy", "", SETS),
}
SEEDS = 8


def people(method: str, seed: int) -> pa.Table:
    """Return people whose disease depends on age and sex; every second table is sorted by age."""
    rng = np.random.default_rng(seed)
    n, values = 400, 10 if method == "small-domain" else 4
    ages = 3 if method == "randomized-response" else 50 if seed % 2 else 400
    age, sex = rng.integers(0, ages, n), rng.integers(0, 2, n)
    chance = np.linspace(3, 1, values) if method != "suppression" else np.array([8.0, 1, 1, 1])
    disease = (rng.choice(values, n, p=chance / chance.sum()) + (rng.random(n) < 0.2) * sex) % values
    if method == "randomized-response":  # else there would be nothing to randomize
        disease = np.where(rng.random(n) < 0.4, age, disease)
    columns = {
        "age": age.tolist(),
        "sex": np.array(["F", "M"])[sex].tolist(),
        "town": rng.choice(["north", "south", "west"], n).tolist(),
        "disease": [f"disease {k}" for k in disease],
    }
    rows = pa.table(columns)
    return rows.sort_by("age") if seed % 2 and "kept" not in method else rows


@pytest.mark.parametrize("method", METHODS)
def test_honest_releases_give_no_alarm(method: str, tmp_path: Path) -> None:
    policy = METHODS[method]
    for seed in range(SEEDS):
        rows = people(method, seed)
        release = released(rows, policy, folder=tmp_path / str(seed), seed=seed)
        failing = [c for c in release.verify().checks if c.status == "fails" and c.name != "secret key"]
        found = sf.audit(sf.scan(rows, policy), release, seed=1).findings
        above = [(f.attacker, f.about, f.who) for f in found if f.verdict == "above the bound"]
        assert (failing, above) == ([], []), seed
        assert all(f.reason for f in found if f.verdict == "not covered by the guarantee")
        assert all(not f.exposed or f.scale == "chance" or f.exposed[0].risk <= f.worst + 1e-9 for f in found
                   if f.direction == "at most")  # fmt: skip
