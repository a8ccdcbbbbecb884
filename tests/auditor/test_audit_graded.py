"""Releases of graded sets: what an audit says of honest ones, and which planted faults it finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.analyst.release import Release
from sfumato.publisher.policy import Policy
from sfumato.values.matrix.base import Matrix
from sfumato.values.mechanism import BETWEEN, Form
from tests.auditor.test_audit_faults import above
from tests.conftest import make_policy
from tests.engines.tools import released, resealed

FORMS: tuple[Form, ...] = ("set", "card")
VALUES = tuple(f"disease {k:02}" for k in range(8))
STRICT = VALUES[:3]
ROLES = {"age": "quasi_identifier", "sex": "quasi_identifier", "disease": f"sensitive; domain = {list(VALUES)}"}
OWN = "rho1 = 0.1\nrho2 = 0.5\n" + "".join(
    f'[[requirement.values]]\nvalue = "{value}"\nrho1 = 0.2\nrho2 = "3/7"\n' for value in STRICT
)
"""gamma = 3 for three values, and 9 for the others."""


def people(n: int) -> pa.Table:
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "age": rng.permutation(n).tolist(),
            "sex": rng.choice(["F", "M"], n).tolist(),
            "disease": rng.choice(VALUES, n).tolist(),
        }
    )


def policy_of(form: Form) -> Policy:
    return make_policy(ROLES, OWN, "subset", "", f'graded = true\nform = "{form}"')


def redrawn(release: Release, rows: pa.Table, cards: np.ndarray) -> Release:
    """Publish these cards in place of the release's own, in the order of the table."""
    mechanism = release.manifest.mechanism_values[0]
    shown = [mechanism.published.labels[card] for card in cards.tolist()]
    disease = pa.array([text.split(BETWEEN) for text in shown] if mechanism.form == "set" else shown)
    data = pq.read_table(release.data)
    order = pa.array(np.random.default_rng(9).permutation(len(rows)))
    for name, column in (("age", rows["age"]), ("sex", rows["sex"]), ("disease", disease)):
        field, taken = data.schema.field(name), column.take(order)
        coded = taken.dictionary_encode() if pa.types.is_dictionary(field.type) else taken
        data = data.set_column(data.schema.get_field_index(name), field, coded.cast(field.type))
    pq.write_table(data, release.data, store_schema=False)
    return resealed(release)


def drawn(matrix: Matrix, chances: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Draw cards with other chances, [card, value]."""
    rng = np.random.default_rng(8)
    return np.array([rng.choice(matrix.outputs, p=chances[:, x] / chances[:, x].sum()) for x in true.tolist()])


@pytest.mark.parametrize("form", FORMS)
def test_honest_releases_are_within_their_bounds(form: Form, tmp_path: Path) -> None:
    rows, policy = people(2000), policy_of(form)
    release = released(rows, policy, folder=tmp_path / "r")
    assert {check.name for check in release.verify().checks if check.status == "fails"} <= {"secret key"}
    found = sf.audit(sf.scan(rows, policy), release, seed=1)
    assert found.holds, found.explain()
    covered = {f.attacker for f in found.findings if f.verdict == "within the bound"}
    assert {"draws", "posterior", "frequencies"} <= covered


@pytest.mark.parametrize("form", FORMS)
def test_audit_finds_the_planted_faults(form: Form, tmp_path: Path) -> None:
    """The lax gamma for strict values; and cards that always hold the truth. Cards drawn as stated pass."""
    rows, policy = people(4000), policy_of(form)
    honest = released(rows, policy, folder=tmp_path / "r")
    matrix = honest.manifest.mechanism_values[0].matrix
    index = {value: code for code, value in enumerate(VALUES)}
    true = np.array([index[value] for value in rows["disease"].to_pylist()])
    stated = matrix.dense()
    y, x = np.meshgrid(np.arange(matrix.outputs), np.arange(matrix.size), indexing="ij")
    held = matrix.holds(y.ravel(), x.ravel()).reshape(y.shape)
    assert above(rows, policy, redrawn(honest, rows, drawn(matrix, stated, true))) == []
    lax = stated.copy()
    strict = [index[value] for value in STRICT]
    lax[:, strict] *= np.where(held[:, strict], 3, 1)
    assert ("draws", "transitions") in above(rows, policy, redrawn(honest, rows, drawn(matrix, lax, true)))
    certain = np.where(held, stated, 0)
    assert ("draws", "transitions") in above(rows, policy, redrawn(honest, rows, drawn(matrix, certain, true)))
