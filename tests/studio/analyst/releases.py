"""Releases of every kind, of a small table whose names and values would like to be HTML, SQL and shell."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from sfumato.analyst.release import Release
from sfumato.methods import plan
from sfumato.publisher.policy import Policy
from sfumato.publisher.publish import publish
from sfumato.publisher.table import profile, scan
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy

SECRET = "<script>alert('it')</script>, \"$HOME\" `x` \\ order"
"""The sensitive column."""
VALUES = ["<b>flu</b>", 'a "quoted" one', "O'Neil & sons", "--gout", "1.5%", "$(mumps)"]
SHARES = [0.24, 0.22, 0.18, 0.15, 0.12, 0.09]
ROWS = 800
ROLES = {"age": "quasi_identifier; bins = { width = 25 }", "sex": "quasi_identifier", "order": "other", "pain": "drop"}
SETS = 'attribute_sets = [["sex"]]'


def patients() -> pa.Table:
    """Return the table; the sensitive value depends on the sex."""
    rng = np.random.default_rng(11)
    values = rng.choice(VALUES, ROWS, p=SHARES)
    return pa.table(
        {
            "age": rng.integers(0, 100, ROWS).tolist(),
            "sex": np.where(rng.random(ROWS) < np.where(values == VALUES[2], 0.2, 0.55), "F", "M").tolist(),
            "order": rng.integers(1, 6, ROWS).tolist(),
            "pain": rng.choice(6, ROWS, p=[0.3, 0.25, 0.2, 0.12, 0.08, 0.05]).tolist(),
            SECRET: values.tolist(),
        }
    )


def _policy(method: str, requirement: str, options: str = "", **more: str) -> Policy:
    # the name of a column stands in double quotes in a policy
    secret = SECRET.replace("\\", "\\\\").replace('"', '\\"')
    return make_policy({**ROLES, secret: "sensitive", **more}, requirement, method, options=options)


def _of_pain(method: str) -> Policy:
    secret = SECRET.replace("\\", "\\\\").replace('"', '\\"')
    domain = "sensitive; domain = [0, 1, 2, 3, 4, 5]"
    return make_policy({**ROLES, secret: "drop", "pain": domain}, "gamma = 4", method)


POLICIES: dict[str, Callable[[], Policy]] = {
    "uniform": partial(_policy, "uniform", "gamma = 4"),
    "fine-grain": partial(_policy, "fine-grain", "rho1 = 0.3\nrho2 = 0.7"),
    "subset": partial(_policy, "subset", "gamma = 2", 'form = "set"'),
    "cards": partial(_policy, "subset", "gamma = 2", 'form = "card"'),
    "ranges": partial(_of_pain, "ranges"),
    "plateau": partial(_of_pain, "plateau"),
    "small-domain": partial(_policy, "small-domain", "rho1 = 0.3\nrho2 = 0.6", "minimum_sub_table = 200"),
    "randomized-response": partial(_policy, "randomized-response", "l = 3", order="drop"),
    "anatomy": partial(_policy, "anatomy", "l = 3"),
    "suppression": partial(_policy, "suppression", "l = 5"),
    "robust-anatomy": partial(_policy, "robust-anatomy", "r = 3", SETS),
}
BY_GROUPS = ("anatomy", "suppression", "robust-anatomy")
IN_SETS = ("subset", "cards", "ranges")

_FOLDER = TemporaryDirectory()


@cache
def made(kind: str) -> Release:
    """Return a release of this kind, once."""
    table = scan(patients(), POLICIES[kind]())
    key = SecretKey.from_seed(1)
    planned = plan(profile(table), table.policy.method, table.policy.requirement, key=key)
    return publish(table, planned, Path(_FOLDER.name) / kind, key=key)


def secret_of(release: Release) -> str:
    """Return the hidden column that is asked for."""
    return release.manifest.domain.names[-1]
