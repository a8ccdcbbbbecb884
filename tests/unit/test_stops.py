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


# --- what a policy says of itself -----------------------------------------------------------------------------------


def test_t3_5_all_open_decisions_are_listed_at_once() -> None:
    text = '[columns.a]\nrole = "sensitive"\n[columns.b]\nrole = "DECIDE: quasi_identifier or drop"\n'
    text += '[columns.c]\nrole = "DECIDE: sensitive or drop"\n' + UNIFORM
    with pytest.raises(PolicyError) as error:
        Policy.parse(text, "policy.toml")
    assert error.value.message == (
        "policy.toml leaves 2 decision(s) to you:\n"
        "  columns.b.role: quasi_identifier or drop\n"
        "  columns.c.role: sensitive or drop"
    )
    assert "DECIDE" in error.value.hint


def test_t7_what_was_read_off_the_table_is_listed_until_it_is_confirmed() -> None:
    column = '[columns.income]\nrole = "sensitive"\nbins = { breaks = [10, 20] }\nmissing = "category"\n'
    marked = Policy.parse(f"{column}from_table = true\n{UNIFORM}from_table = true\n")
    assert marked.facts_from_table == (
        "the bins of income",
        "that income has missing values",
        "rho1 and rho2 of the requirement",
    )
    confirmed = Policy.parse(f"{column}from_table = false\n{UNIFORM}")
    assert confirmed.facts_from_table == ()
    assert confirmed.hash() == Policy.parse(column + UNIFORM).hash() != marked.hash()
    declared = '[columns.illness]\nrole = "sensitive"\ndomain = ["flu", "HIV"]\nfrom_table = true\n' + UNIFORM
    assert Policy.parse(declared).facts_from_table == ("the domain of illness, as the policy lists it",)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ('role = "other"\npublish_as_is = ""', "takes the reason, in quotes"),
        ('role = "other"\npublish_as_is = true', "takes the reason, in quotes"),
        ('role = "identifier"\npublish_as_is = "I like it"', "goes with the role quasi_identifier or other"),
    ],
)
def test_publish_as_is_needs_a_reason_and_a_column_that_is_published_so(rule: str, said: str) -> None:
    with pytest.raises(PolicyError) as error:
        Policy.parse(f'[columns.a]\nrole = "sensitive"\n[columns.b]\n{rule}\n{UNIFORM}')
    assert said in error.value.message
