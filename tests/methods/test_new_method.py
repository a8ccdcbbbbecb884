"""A method is one home: this one, written here, does all that others do, and no other file knows of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.methods import METHODS, named, read_method, title_of
from sfumato.methods.perturbation import Perturbing, strictest_retention
from sfumato.values.arrays import Assurance, FloatArray
from tests.conftest import make_policy


class Cautious(Perturbing):
    """Uniform perturbation that retains a stated part of what it might."""

    name = "cautious"
    title = "cautious perturbation"
    promise = "The odds of each single value change by a bounded factor, and by less than that."
    assurances_agree = True

    part: float = 0.5

    def retention(self, gamma: FloatArray, weight: FloatArray, floor: float, assurance: Assurance) -> FloatArray:
        """Return a part of the largest retention."""
        return self.part * strictest_retention(gamma)


@pytest.fixture(autouse=True)
def listed() -> Iterator[None]:
    METHODS.append(Cautious)
    yield
    METHODS.remove(Cautious)


ROLES = {"sex": "quasi_identifier", "ward": "quasi_identifier", "illness": 'sensitive; domain = ["flu", "gout", "HIV"]'}


def table() -> pa.Table:
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "sex": rng.choice(["F", "M"], 600),
            "ward": rng.choice(["A", "B", "C"], 600),
            "illness": rng.choice(["flu", "gout", "HIV"], 600, p=[0.5, 0.3, 0.2]),
        }
    )


def test_a_policy_states_it_with_its_own_options() -> None:
    policy = make_policy(ROLES, "gamma = 4", "cautious", options="part = 0.25")
    assert policy.method == Cautious(part=0.25) == read_method({"name": "cautious", "part": 0.25})
    assert policy.hash() != make_policy(ROLES, "gamma = 4", "cautious").hash()
    with pytest.raises(sf.UsageError, match="part does not go with uniform, only with cautious; leave it out"):
        make_policy(ROLES, "gamma = 4", "uniform", options="part = 0.25")


def test_a_method_that_there_is_not() -> None:
    with pytest.raises(sf.UsageError, match="There is no method 'cautius'") as caught:
        named("cautius")
    assert caught.value.hint == "Did you mean 'cautious'?"
    assert (title_of("cautious"), title_of("other")) == ("cautious perturbation", "other")


def test_it_plans_publishes_verifies_answers_and_is_audited_reported_and_compared(tmp_path: Path) -> None:
    policy = make_policy(ROLES, "gamma = 4", "cautious")
    opened = sf.scan(table(), policy)
    plan = sf.plan(sf.profile(opened), policy.method, policy.requirement)
    plan = plan.bound_to(opened.hash(), policy.hash())
    (tmp_path / "plan.json").write_text(plan.to_json(), encoding="utf-8")
    assert plan.figures.retention == pytest.approx([0.5 * (4 - 1) / (3 - 1 + 4)] * 3)
    release = sf.publish(opened, sf.load_plan(tmp_path / "plan.json"), tmp_path / "release")
    assert release.manifest.method == "cautious"
    assert release.verify().holds
    counts = release.count(by="illness")
    assert sum(counts.value) == pytest.approx(600)
    audit = sf.audit(opened, release)
    assert audit.findings
    sf.report(audit, tmp_path / "page.html", release=release, table=opened)
    assert "cautious perturbation" in (tmp_path / "page.html").read_text(encoding="utf-8")
    compared = {each.method: each for each in sf.compare(opened, repeat=1).methods}
    assert compared["cautious"].own
    assert compared["cautious"].figures is not None
    assert compared["uniform"].figures is not None
