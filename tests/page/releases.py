"""Releases of every kind with their audits, of a small table whose names and values would like to be HTML."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.analyst.release import Release
from sfumato.auditor.audit import audit
from sfumato.auditor.report.page import Page
from sfumato.auditor.report.reporting import private_page, public_page
from sfumato.methods import plan
from sfumato.publisher.policy import Policy
from sfumato.publisher.publish import publish
from sfumato.publisher.table import Table, profile, scan
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy

COLUMN = "<script>alert('column')</script>"
VALUES = [
    "<script>alert('value')</script>",
    '"flu" & more',
    "gout",
    "constructor",
    "mumps",
    "a rather long name of a disease",
]
SHARES = [0.24, 0.22, 0.18, 0.15, 0.12, 0.09]
ROLES = {
    "name": "identifier",
    "age": "quasi_identifier; bins = { width = 25 }",
    "sex": "quasi_identifier",
    COLUMN: "sensitive",
}
ROWS = 900

POLICIES: dict[str, Callable[[], Policy]] = {
    "fine-grain": partial(make_policy, ROLES, "rho1 = 0.3\nrho2 = 0.7", "fine-grain"),
    "subset": partial(make_policy, ROLES, "gamma = 2", "subset", options='form = "card"'),
    "small-domain": partial(
        make_policy, ROLES, "rho1 = 0.3\nrho2 = 0.6", "small-domain", options="minimum_sub_table = 200"
    ),
    "randomized-response": partial(make_policy, ROLES, "l = 3", "randomized-response"),
    "anatomy": partial(make_policy, ROLES, "l = 3", "anatomy"),
    "suppression": partial(make_policy, ROLES, "l = 5", "suppression"),
}
"""One of each kind."""


def patients(seed: int = 7) -> pa.Table:
    """Return the table; the sensitive value depends on the sex."""
    rng = np.random.default_rng(seed)
    values = rng.choice(VALUES, ROWS, p=SHARES)
    return pa.table(
        {
            "name": [f"patient {k}" for k in range(ROWS)],
            "age": rng.integers(0, 100, ROWS).tolist(),
            "sex": np.where(rng.random(ROWS) < np.where(values == "gout", 0.2, 0.55), "F", "M").tolist(),
            COLUMN: values.tolist(),
        }
    )


@dataclass(frozen=True)
class Made:
    """A release, its table and the record of its audit."""

    table: Table
    release: Release
    record: dict[str, Any]

    @property
    def private(self) -> Page:
        """The publisher's page."""
        return private_page(self.release, self.record, self.table)

    @property
    def public(self) -> Page:
        """The page for everybody."""
        return public_page(self.release, self.record)


_FOLDER = TemporaryDirectory()


@cache
def made(method: str) -> Made:
    """Return a release of this method, once."""
    table = scan(patients(), POLICIES[method]())
    key = SecretKey.from_seed(1)
    planned = plan(profile(table), table.policy.method, table.policy.requirement, key=key)
    release = publish(table, planned, Path(_FOLDER.name) / method, key=key)
    return Made(table, release, audit(table, release, seed=1).to_dict())
