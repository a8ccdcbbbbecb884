"""A release with methods by column whose manifest was changed and sealed anew: `verify` says which column it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato.analyst.release import Release, open_release
from sfumato.claims.claim import Shape
from sfumato.release.manifest import Manifest
from tests.conftest import make_policy
from tests.engines.test_several import OWN, ROLES, asked, people, planned
from tests.engines.tools import sealed

Raw = dict[str, Any]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Give a release from a secret key."""
    table = sf.scan(people(), asked())
    return sf.publish(table, planned(table), tmp_path_factory.mktemp("in") / "r")


def failing(original: Release, change: Callable[[Raw], None]) -> dict[str, str]:
    """Change the manifest, seal it, and return the checks that fail."""
    raw = original.manifest.model_dump()
    change(raw)
    found = sealed(Manifest.model_validate(raw), original.folder).verify()
    return {check.name: check.detail for check in found.checks if check.status == "fails"}


def stated_anew(raw: Raw) -> None:
    """State what follows from the changed mechanisms, so that the statement agrees with them."""
    manifest = Manifest.model_validate(raw)
    shape = Shape(manifest.mechanism_values, computed=manifest.computed_from_table)
    raw["guarantee"] = asdict(manifest.claim.guarantee(shape))
    raw["second_release"] = manifest.claim.second_release(replace(shape, computed=()), keyed=False)


def test_as_it_was_published_it_verifies(original: Release) -> None:
    assert failing(original, lambda raw: None) == {}
    assert open_release(original.folder).verify().holds


def looser(raw: Raw) -> None:
    """Exchange the matrix of one column for that of a requirement twice as loose."""
    table = sf.scan(people(), asked(ROLES | {"income": OWN.replace("= 4 }", "= 8 }")}))
    other = planned(table).mechanisms[1].matrix.written()
    raw["mechanisms"][1]["sub_tables"][0].update(other)


def test_the_matrix_of_one_column_exchanged(original: Release) -> None:
    found = failing(original, looser)
    assert {"guarantee, as stated", "guarantee, any predicate of income", "epsilon of income"} <= found.keys()
    assert not any("diagnosis" in name for name in found)
    both = failing(original, lambda raw: (looser(raw), stated_anew(raw))[0])
    assert "guarantee, as stated" not in both
    assert {"guarantee, upward of income", "guarantee, any predicate of income"} <= both.keys()


@pytest.mark.parametrize(("stated", "understated"), [("the factor 12", "the factor 6"), ("by up to 4", "by up to 2")])
def test_a_factor_understated(stated: str, understated: str, original: Release) -> None:
    def change(raw: Raw) -> None:
        assert stated in raw["guarantee"]["sentence"]
        raw["guarantee"]["sentence"] = raw["guarantee"]["sentence"].replace(stated, understated)

    assert "sentence" in failing(original, change)["guarantee, as stated"]


def test_the_limit_on_reading_all_columns_left_out(original: Release) -> None:
    def change(raw: Raw) -> None:
        raw["guarantee"]["limits"] = raw["guarantee"]["limits"][1:]

    assert "limits" in failing(original, change)["guarantee, as stated"]


def test_bounds_of_a_column_stated_stricter_than_its_matrix(original: Release) -> None:
    def change(raw: Raw) -> None:
        raw["mechanisms"][0]["sub_tables"][0]["bounds"] = ({"gamma": "2", "rho1": None, "rho2": None, "given": ""},)
        stated_anew(raw)

    assert {"guarantee, upward of diagnosis", "guarantee, any predicate of diagnosis"} <= failing(
        original, change
    ).keys()


@pytest.mark.parametrize(
    ("place", "key", "value"),
    [
        (0, "method", "uniform"),
        (1, "method", "small-domain"),
        (1, "method", "several"),
        (0, "assurance", "as-published"),
    ],
)
def test_what_is_stated_of_one_column_otherwise(place: int, key: str, value: str, original: Release) -> None:
    def change(raw: Raw) -> None:
        raw["mechanisms"][place]["claimed"][key] = value

    found = failing(original, change)
    # a subset of any size has the promise of uniform perturbation: only the names of other kinds are wrong
    assert ("guarantee, as stated" in found) == (value != "uniform")


def test_more_stated_of_a_column_than_its_matrix_proves(tmp_path: Path) -> None:
    by_value = "{ rho1 = 0.2, rho2 = 0.5, values = [{ value = 'band 1', rho1 = 0.1, rho2 = 0.2 }] }"
    own = OWN.split("; method")[0] + f"; method = {{ name = 'fine-grain' }}; requirement = {by_value}"
    table = sf.scan(people(), asked(ROLES | {"income": own}))
    release = sf.publish(table, planned(table), tmp_path / "r")
    assert release.manifest.guarantee.scope == "single values"

    def change(raw: Raw) -> None:
        raw["mechanisms"][1]["claimed"] |= {"method": "toy", "scope": "any predicate"}
        stated_anew(raw)

    assert set(failing(release, change)) == {"guarantee, any predicate of income"}


def test_a_promise_of_one_mechanism_only_is_not_read(original: Release) -> None:
    raw = original.manifest.model_dump()
    raw["mechanisms"][0]["claimed"] = None
    with pytest.raises(ValueError, match="of all mechanisms, or of none"):
        Manifest.model_validate(raw)
    for part in raw["mechanisms"]:
        part["claimed"] = None
    raw["method"] = "subset"
    found = sealed(Manifest.model_validate(raw), original.folder).verify()
    assert "method" in next(check.detail for check in found.checks if check.name == "guarantee, as stated")


def test_one_mechanism_for_both_columns_is_another_release() -> None:
    """Without sections of their own the two are one compound, as before."""
    roles = ROLES | {"income": OWN.split("; method")[0]}
    made = planned(sf.scan(people(), make_policy(roles, "gamma = 3")))
    assert [mechanism.domain.names for mechanism in made.mechanisms] == [("diagnosis", "income")]
