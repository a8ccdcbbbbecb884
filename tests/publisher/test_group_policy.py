"""Policies that ask for groups: what they may say, what they may not, and what follows for a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import PolicyError
from sfumato.publisher.policy import Policy
from sfumato.values.requirement import Diversity, RiskLimit, Robustness
from tests.conftest import make_policy

ROLES = {
    "name": "identifier",
    "sex": "quasi_identifier",
    "age": "quasi_identifier; bins = { width = 10 }",
    "ward": "other",
    "disease": "sensitive",
}
SETS = 'attribute_sets = [["sex"], ["age", "ward"]]'
AS_PUBLISHED = 'assurance = "as-published"'


def policy(method: str, requirement: str, options: str = "", top: str = "", **roles: str) -> Policy:
    return make_policy({**ROLES, **roles}, requirement, method, top, options)


def test_what_each_method_takes() -> None:
    assert policy("anatomy", "l = 3").requirement == Diversity(3)
    assert policy("suppression", "l = 2").requirement == Diversity(2)
    assert policy("robust-anatomy", "r = 4", SETS).requirement == Robustness(4)
    assert isinstance(
        policy("randomized-response", "l = 3").requirement, RiskLimit
    )  # the same key, another requirement


def test_variants() -> None:
    assert policy("suppression", "l = 3").method.chosen == "rotation"
    assert policy("suppression", "l = 3", 'variant = "safe-d"').method.chosen == "safe-d"
    assert policy("suppression", "l = 3", AS_PUBLISHED).method.chosen == "r-suppression"
    assert not policy("suppression", "l = 3").method.always
    assert policy("suppression", "l = 3", 'variant = "safe-d"\nalways = true').method.always


def test_attribute_sets_name_what_is_counted_together() -> None:
    asked = policy("robust-anatomy", "r = 2", SETS)
    assert asked.method.attribute_sets == (("sex",), ("age", "ward"))
    assert asked.method.known_columns == asked.linked == ("sex", "age", "ward")
    assert asked.method.prior == "none"
    assert policy("anatomy", "l = 3").linked == ()


def test_files_of_priors_are_meant_from_the_policy_s_folder(tmp_path: Path) -> None:
    lines = "".join(f'[columns.{name}]\nrole = "{role.split(";")[0]}"\n' for name, role in ROLES.items())
    text = f'{lines}[method]\nname = "robust-anatomy"\n{SETS}\nprior = ["a.csv", "b.csv"]\n[requirement]\nr = 2\n'
    (tmp_path / "policy.toml").write_text(text)
    assert Policy.load(tmp_path / "policy.toml").method.prior_files == (tmp_path / "a.csv", tmp_path / "b.csv")


ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "anatomy without l": (
        {"method": "anatomy", "requirement": "epsilon = 1"},
        "the method anatomy takes l, and takes no other requirement",
    ),
    "anatomy with r": ({"method": "anatomy", "requirement": "r = 2"}, "the method anatomy takes l, and"),
    "robust with l": (
        {"method": "robust-anatomy", "requirement": "l = 2", "options": SETS},
        "the method robust-anatomy takes r, and",
    ),
    "uniform with r": ({"method": "uniform", "requirement": "r = 2"}, "r goes with the method robust-anatomy; the"),
    "l of one": (
        {"method": "anatomy", "requirement": "l = 1"},
        "requirement.l: must be at least 2, not 1: it limits what is believed to 1/l",
    ),
    "r of one": (
        {"method": "robust-anatomy", "requirement": "r = 1", "options": SETS},
        "requirement.r: must be at least 2, not 1: it limits what is believed to 1/r",
    ),
    "limits of groups": (
        {"method": "anatomy", "requirement": 'l = 2\n[[requirement.groups]]\nwhere = { sex = "F" }\nl = 3'},
        "groups go with the method randomized-response",
    ),
    "minimal": (
        {"method": "suppression", "requirement": "l = 2", "options": 'variant = "minimal"'},
        "method.variant: minimal is for comparisons only",
    ),
    "unsafe-d": (
        {"method": "suppression", "requirement": "l = 2", "options": 'variant = "unsafe-d"'},
        "method.variant: unsafe-d is for comparisons only",
    ),
    "an unknown variant": (
        {"method": "suppression", "requirement": "l = 2", "options": 'variant = "rotate"'},
        "must be 'rotation', 'spread', 'safe-d' or 'r-suppression', not 'rotate'",
    ),
    "r-suppression is not proved": (
        {"method": "suppression", "requirement": "l = 2", "options": 'variant = "r-suppression"'},
        "does not keep its bound",
    ),
    "rotation is not as published": (
        {"method": "suppression", "requirement": "l = 2", "options": f'variant = "rotation"\n{AS_PUBLISHED}'},
        "the variant rotation does not go with",
    ),
    "a variant of anatomy": (
        {"method": "anatomy", "requirement": "l = 2", "options": 'variant = "rotation"'},
        "variant does not go with anatomy, only with suppression",
    ),
    "always of anatomy": (
        {"method": "anatomy", "requirement": "l = 2", "options": "always = true"},
        "always does not go with anatomy, only with suppression",
    ),
    "always of r-suppression": (
        {"method": "suppression", "requirement": "l = 2", "options": f"always = true\n{AS_PUBLISHED}"},
        "always does not go with r-suppression, which bounds the belief in the most frequent value of no table",
    ),
    "attribute sets of anatomy": (
        {"method": "anatomy", "requirement": "l = 2", "options": SETS},
        "attribute_sets does not go with anatomy, only with robust-anatomy",
    ),
    "no attribute set": ({"method": "robust-anatomy", "requirement": "r = 2"}, "needs what the adversary knows of"),
    "an empty set": (
        {"method": "robust-anatomy", "requirement": "r = 2", "options": "attribute_sets = [[]]"},
        "needs what the adversary knows of",
    ),
    "a set that is no list": (
        {"method": "robust-anatomy", "requirement": "r = 2", "options": 'attribute_sets = ["sex"]'},
        'each attribute set is a list of columns: write attribute_sets = [["sex"]]',
    ),
    "sets that are no list": (
        {"method": "robust-anatomy", "requirement": "r = 2", "options": 'attribute_sets = "sex"'},
        'write attribute_sets = [["sex"]]',
    ),
    "one set of two columns": (
        {"method": "robust-anatomy", "requirement": "r = 2", "options": 'attribute_sets = ["sex", "age"]'},
        'write attribute_sets = [["sex", "age"]]',
    ),
    "a prior that is no list": (
        {"method": "robust-anatomy", "requirement": "r = 2", "options": f'{SETS}\nprior = "a.csv"'},
        'or a list with a file for each attribute set: write prior = ["a.csv"]',
    ),
    "a column twice": (
        {"method": "robust-anatomy", "requirement": "r = 2", "options": 'attribute_sets = [["sex", "sex"]]'},
        "an attribute set names a column twice",
    ),
    "a set of no column": (
        {"method": "robust-anatomy", "requirement": "r = 2", "options": 'attribute_sets = [["city"]]'},
        "method.attribute_sets names 'city', which is not among the columns",
    ),
    "a set of the secret": (
        {"method": "robust-anatomy", "requirement": "r = 2", "options": 'attribute_sets = [["disease"]]'},
        "names 'disease', which is not published as it is",
    ),
    "a set of an identifier": (
        {"method": "robust-anatomy", "requirement": "r = 2", "options": 'attribute_sets = [["name"]]'},
        "names 'name', which is not published as it is",
    ),
    "a file too few": (
        {"method": "robust-anatomy", "requirement": "r = 2", "options": f'{SETS}\nprior = ["a.csv"]'},
        "1 files of priors for 2 attribute sets",
    ),
    "the paper without a prior": (
        {"method": "robust-anatomy", "requirement": "r = 2", "options": f"{SETS}\n{AS_PUBLISHED}"},
        "the paper's condition is about a prior",
    ),
    "a record key": (
        {"method": "anatomy", "requirement": "l = 2", "top": 'record_key = "name"'},
        "a record_key does not go with anatomy",
    ),
    "one row of each person": (
        {"method": "suppression", "requirement": "l = 2", "top": 'person = { column = "name", repeated = "keep-one" }'},
        'person.repeated = "keep-one" does not go with suppression',
    ),
    "several sensitive columns": (
        {"method": "anatomy", "requirement": "l = 2", "ward": "sensitive"},
        "anatomy takes one sensitive column, not ward and disease",
    ),
    "a column that is added": (
        {"method": "anatomy", "requirement": "l = 2", "Group": "other"},
        "the column name 'group' is taken",
    ),
}


@pytest.mark.parametrize(("changes", "message"), ERRORS.values(), ids=ERRORS)
def test_what_does_not_fit_is_an_error(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        policy(**changes)
    assert message in str(caught.value)
