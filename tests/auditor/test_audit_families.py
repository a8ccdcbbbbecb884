"""Each method that draws by a matrix of its own: honest draws pass an audit, and those of a laxer matrix are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.publisher.policy import Policy
from tests.auditor.test_audit_faults import above
from tests.auditor.test_audit_graded import drawn, redrawn
from tests.conftest import make_policy
from tests.engines.tools import released

VALUES = tuple(f"v{k}" for k in range(8))
OWN = "rho1 = 0.1\nrho2 = 0.5\n" + "".join(
    f'[[requirement.values]]\nvalue = "{value}"\nrho1 = 0.2\nrho2 = "3/7"\n' for value in VALUES[:3]
)
"""gamma = 3 for three values, and 9 for the others."""
FAMILIES = {
    "ranges, sets": ("ranges", "form = 'set'", "gamma = 4"),
    "ranges, cards": ("ranges", "form = 'card'", "gamma = 4"),
    "plateau": ("plateau", "", "gamma = 4"),
    "geometric": ("geometric", "steps = 2", "gamma = 4"),
    "fine-grain, least error": ("fine-grain", "objective = 'error'", OWN),
    "fine-grain, cover noise": ("fine-grain", "upward_only = true", OWN),
}


def people(n: int = 4000) -> pa.Table:
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "age": rng.permutation(n).tolist(),
            "sex": rng.choice(["F", "M"], n).tolist(),
            "disease": rng.choice(VALUES, n).tolist(),
        }
    )


def policy_of(name: str) -> Policy:
    method, options, requirement = FAMILIES[name]
    order = "" if method == "fine-grain" else "; ordered = true"
    disease = f"sensitive; domain = {list(VALUES)}{order}"
    roles = {"age": "quasi_identifier", "sex": "quasi_identifier", "disease": disease}
    return make_policy(roles, requirement, method, options=options)


@pytest.mark.parametrize("name", FAMILIES)
def test_audit_finds_draws_of_another_matrix(name: str, tmp_path: Path) -> None:
    """What holds the truth is twice as likely as stated; or always drawn. The same by the stated chances passes."""
    rows, policy = people(), policy_of(name)
    honest = released(rows, policy, folder=tmp_path / "r")
    assert sf.audit(sf.scan(rows, policy), honest, seed=1).holds
    mechanism = honest.manifest.mechanism_values[0]
    matrix, stated = mechanism.matrix, mechanism.matrix.dense()
    true = np.array([VALUES.index(value) for value in rows["disease"].to_pylist()])
    y, x = np.meshgrid(np.arange(matrix.outputs), np.arange(matrix.size), indexing="ij")
    held = mechanism.holds(y.ravel(), x.ravel()).reshape(y.shape)  # type: ignore[arg-type]
    assert above(rows, policy, redrawn(honest, rows, drawn(matrix, stated, true))) == []
    for chances in (np.where(held, 2 * stated, stated), np.where(held, stated, 0)):
        found = above(rows, policy, redrawn(honest, rows, drawn(matrix, chances, true)))
        assert ("draws", "transitions") in found


def test_beliefs_that_may_fall_are_told_and_not_held_to_a_bound(tmp_path: Path) -> None:
    """Cover noise promises upwards alone: an honest release is not above a bound that nobody stated."""
    policy = policy_of("fine-grain, cover noise")
    found = sf.audit(sf.scan(people(), policy), released(people(), policy, folder=tmp_path / "r"), seed=1).findings
    ways = {each.about: each for each in found if each.attacker == "posterior"}
    assert ways["upward"].verdict == "within the bound"
    assert (ways["downward"].verdict, ways["downward"].promised) == ("not covered by the guarantee", None)
    assert "The paper promises" not in ways["downward"].remark
