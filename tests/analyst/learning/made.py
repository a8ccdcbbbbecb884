"""Small releases with a randomized label, one for each shape that a mechanism has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.analyst.learning.labels import LabelChannel, channel_of
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.dense import DenseMatrix
from sfumato.values.mechanism import NO_BOUND, Mechanism
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy

VALUES = ["flu", "HIV", "cold", "asthma"]
LABEL = f"sensitive; domain = {VALUES}"
MANY = [*VALUES, "gout", "stroke", "angina", "ulcer", "eczema", "mumps"]
SHARES = [12, 8, 6, 5, 4, 3, 1, 1, 1, 1]
"""Of these small domain randomization makes two sub-tables."""
WORD = 1 << 64


def people(rows: int = 400) -> pa.Table:
    """Return people whose illness goes with their age."""
    rng = np.random.default_rng(5)
    age = rng.integers(20, 80, rows)
    ill = (rng.random(rows) * 2 + age / 40).astype(int) % 4
    sex, pain = rng.choice(["F", "M"], rows), rng.integers(0, 3, rows)
    columns = {"n": range(rows), "age": age.tolist(), "sex": sex.tolist(), "pain": pain.tolist()}
    return pa.table({name: list(column) for name, column in columns.items()} | {"ill": [VALUES[k] for k in ill]})


SHAPES = {  # roles besides those of untouched columns, requirement, method, options
    "values": ({"ill": LABEL}, "gamma = 4", "uniform", ""),
    "uneven": ({"ill": LABEL}, "rho1 = 0.2\nrho2 = 0.5", "fine-grain", ""),
    "missing": ({"ill": "sensitive; domain = ['flu', 'HIV', 'cold', 'asthma']; missing = 'category'"}, "gamma = 4",
                "uniform", ""),
    "sets": ({"ill": LABEL}, "gamma = 2", "subset", 'form = "set"'),
    "cards": ({"ill": LABEL}, "gamma = 2", "subset", 'form = "card"'),
    "together": ({"ill": LABEL, "pain": "sensitive; domain = [0, 1, 2]"}, "gamma = 8", "uniform", ""),
    "apart": ({"ill": LABEL, "pain": "sensitive; domain = [0, 1, 2]; method = { name = 'uniform' }; "
               "requirement = { gamma = 4 }"}, "gamma = 3", "uniform", ""),
    "sub-tables": ({"ill": f"sensitive; domain = {MANY}"}, "rho1 = '1/3'\nrho2 = '2/3'", "small-domain",
                   "assurance = 'as-published'"),
}  # fmt: skip


def many_ill() -> pa.Table:
    """Return the people with more illnesses."""
    values = [value for value, share in zip(MANY, SHARES, strict=True) for _ in range(share)]
    rows = people(10 * len(values))
    return rows.set_column(rows.column_names.index("ill"), "ill", [values * 10])


def released(shape: str, folder: Path) -> sf.Release:
    """Return the people published in a shape."""
    roles, requirement, method, options = SHAPES[shape]
    untouched = {"n": "other", "age": "quasi_identifier", "sex": "quasi_identifier", "pain": "other"}
    policy = make_policy(untouched | roles, requirement, method, options=options)
    table = sf.scan(many_ill() if shape == "sub-tables" else people(), policy)
    made = sf.plan(sf.profile(table), policy.method, policy.requirement)
    return sf.publish(table, made, folder, key=SecretKey.from_seed(7))


def channel(columns: list[list[int]], values: tuple[str | int, ...]) -> tuple[LabelChannel, Mechanism]:
    """Return the channel of a matrix with these columns of sixteenths."""
    integers = [[WORD // 16 * number for number in column] for column in columns]
    domain = SensitiveDomain((Domain("x", values),))
    mechanism = Mechanism.single(
        domain, DenseMatrix.read([list(map(str, c)) for c in integers]), (NO_BOUND,) * len(values)
    )
    return channel_of(mechanism, "x"), mechanism
