"""What stops a publisher before harm is done: findings of TRUTH.md, section 3, by their numbers."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import Infeasible, PolicyError
from sfumato.methods.response.joint import JointTable
from sfumato.policy import Policy

UNIFORM = """
[method]
name = "uniform"
[requirement]
rho1 = 0.3
rho2 = 0.7
"""


# --- words --------------------------------------------------------------------------------------------------------


def test_t3_11_a_domain_beyond_all_memory_is_too_large_to_list() -> None:
    """No "39,745,213,164,754,779,366,227,968 GB" and no time of 10^25 hours."""
    table = JointTable((1000,) * 8 + (2,), np.zeros((1, 8), dtype=np.int64), np.ones((1, 2)))
    with pytest.raises(Infeasible) as error:
        table.check_size(dense=False)
    assert "The domain has about 10^24 cells" in error.value.message
    assert "too many to list" in error.value.message
    assert " GB" not in error.value.message
    assert len(error.value.message) < 250


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("rho1 = 0.3\n", "rho1: this key does not belong at the top of the policy, outside all sections; it goes into"),
        ("[output]\nrho1 = 0.3\n", "output.rho1: this key does not belong into [output]; it goes into [requirement]"),
        ("[output]\nrecord_key = 'a'\n", "it goes to the top of the policy, before all sections"),
        ("[output]\nformta = 'csv'\n", "output.formta: this key is not known; did you mean 'format'?"),
    ],
)
def test_t3_13_a_key_in_the_wrong_place_is_told_its_own(wrong: str, said: str) -> None:
    """It was: `rho1: not known; did you mean 'rho1'?`."""
    with pytest.raises(PolicyError) as error:
        Policy.parse(wrong + '[columns.a]\nrole = "sensitive"\n' + UNIFORM)
    assert said in error.value.message
    assert "did you mean 'rho1'" not in error.value.message
