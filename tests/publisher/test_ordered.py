"""`ordered = true`: from the policy by the plan to the manifest, and nowhere where it is not said."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import PolicyError
from sfumato.methods import load_plan
from sfumato.publisher.policy import Policy
from tests.conftest import make_policy
from tests.engines.tools import planned, released

PAIN = "sensitive; domain = ['none', 'mild', 'severe']"
TABLE = pa.table({"sex": ["F", "M"] * 30, "pain": ["mild", "severe", "none"] * 20})
ANATOMY = {"requirement": "l = 3", "method": "anatomy"}


def policy(pain: str, **more: str) -> Policy:
    return make_policy({"sex": "quasi_identifier", "pain": pain}, **more)


@pytest.mark.parametrize("more", [{}, ANATOMY], ids=["uniform", "anatomy"])
def test_the_manifest_tells_the_order_only_where_the_policy_does(tmp_path: Path, more: dict[str, str]) -> None:
    for name, pain in (("ordered", f"{PAIN}; ordered = true"), ("plain", PAIN)):
        release = released(TABLE, policy(pain, **more), folder=tmp_path / name)
        part = release.manifest.domain.parts[0]
        assert (part.ordered, part.values) == (name == "ordered", ("none", "mild", "severe"))
        written = (tmp_path / name / "manifest.json").read_text(encoding="utf-8")
        assert ('"ordered": true' in written, '"ordered"' in written) == (part.ordered, part.ordered)
        assert [c.name for c in release.verify().checks if c.status == "fails"] == ["secret key"]


def test_a_plan_keeps_the_order(tmp_path: Path) -> None:
    table = sf.scan(TABLE, policy(f"{PAIN}; ordered = true; missing = 'category'"))
    plan = planned(table)
    (tmp_path / "plan.json").write_text(plan.to_json(), encoding="utf-8")
    assert plan.to_dict()["parts"][0]["ordered"]
    assert sf.publish(table, load_plan(tmp_path / "plan.json"), tmp_path / "r").manifest.domain.parts[0].ordered
    unordered = planned(sf.scan(TABLE, policy(f"{PAIN}; missing = 'category'")))
    assert "ordered" not in unordered.to_dict()["parts"][0]


def test_only_a_policy_that_says_it_has_another_hash() -> None:
    assert policy(PAIN).hash() == policy(f"{PAIN}; ordered = false").hash()
    assert policy(PAIN).hash() != policy(f"{PAIN}; ordered = true").hash()


def test_bins_are_in_order_anyway(tmp_path: Path) -> None:
    """It may be said of them, and nothing is added: they tell their order themselves."""
    table = pa.table({"sex": ["F", "M"] * 30, "pain": list(range(60))})
    release = released(table, policy("sensitive; bins = { width = 20 }; ordered = true"), folder=tmp_path / "r")
    assert not release.manifest.domain.parts[0].ordered
    assert release.distribution("pain").groups == (("[0, 20)",), ("[20, 40)",), ("[40, 60)",))


@pytest.mark.parametrize(
    ("pain", "message"),
    [
        ("sensitive; ordered = true", "ordered = true needs the order: list the values from the lowest to the highest"),
        ("sensitive; ordered = 'yes'", "must be true or false, without quotes"),
        ("drop; ordered = true", "ordered does not go with a column that is left out of the release"),
    ],
)
def test_an_order_that_is_not_there_is_refused(pain: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        make_policy({"sex": "sensitive", "pain": pain})
