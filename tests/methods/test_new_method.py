"""A method is one home: this one, written here, does all that others do, and no other file knows of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.auditor.compare.figures import Outcome
from sfumato.engines.embedded.sources import open_source
from sfumato.methods import METHODS, named, read_method, title_of
from sfumato.methods.perturbation import Perturbing, strictest_retention
from sfumato.methods.subset.method import Subset
from sfumato.methods.uniform import Uniform
from sfumato.publisher.proposal import propose
from sfumato.publisher.survey import survey
from sfumato.values.arrays import Assurance, FloatArray
from sfumato.values.attributes import SensitiveDomain
from tests.conftest import make_policy


class Cautious(Perturbing):
    """Uniform perturbation that retains a stated part of what it might."""

    name = "cautious"
    title = "cautious perturbation"
    promise = "The odds of each single value change by a bounded factor, and by less than that."
    assurances_agree = True
    proposed = "cautious: less is kept than might be."

    part: float = 0.5

    def retention(self, gamma: FloatArray, weight: FloatArray, floor: float, assurance: Assurance) -> FloatArray:
        """Return a part of the largest retention."""
        return self.part * strictest_retention(gamma)


class Sideways(Perturbing):
    """A matrix of its own: every value is taken for the next one more often than for the others."""

    name = "sideways"
    title = "sideways perturbation"
    promise = "The odds of any statement about a value change by a bounded factor."
    scope = "any predicate"
    assurances_agree = True
    left_out = "Nobody knows what it is good for."

    @classmethod
    def unfit(cls, domain: SensitiveDomain) -> str:
        """Return that two values have no next one but each other."""
        return "Two values are too few." if domain.size == 2 else ""

    def columns(self, domain: SensitiveDomain, gamma: FloatArray) -> Sequence[Sequence[int]]:
        """Return gamma for the value itself, the middle of gamma and 1 for the next one, and 1 for all others."""
        most = int(float(gamma.min()) * 1000)
        column = [most, (most + 1000) // 2, *[1000] * (domain.size - 2)]
        return [[*column[-x:], *column[:-x]] if x else column for x in range(domain.size)]


@pytest.fixture(autouse=True)
def listed() -> Iterator[None]:
    METHODS.extend([Cautious, Sideways])
    yield
    METHODS.remove(Cautious)
    METHODS.remove(Sideways)


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


@pytest.mark.parametrize("name", ["cautious", "sideways"])
def test_it_plans_publishes_verifies_answers_and_is_audited_reported_and_compared(name: str, tmp_path: Path) -> None:
    policy = make_policy(ROLES, "gamma = 4", name)
    opened = sf.scan(table(), policy)
    plan = sf.plan(sf.profile(opened), policy.method, policy.requirement)
    plan = plan.bound_to(opened.hash(), policy.hash())
    (tmp_path / "plan.json").write_text(plan.to_json(), encoding="utf-8")
    assert f"Method {name}, assurance proved." in plan.explain()
    release = sf.publish(opened, sf.load_plan(tmp_path / "plan.json"), tmp_path / "release")
    assert release.manifest.method == name
    assert release.verify().holds
    counts = release.count(by="illness")
    assert sum(counts.value) == pytest.approx(600)
    assert release.sql("SELECT illness, COUNT(*) FROM release GROUP BY illness").value == pytest.approx(counts.value)
    audit = sf.audit(opened, release)
    assert {finding.verdict for finding in audit.findings if finding.attacker == "posterior"} == {"within the bound"}
    sf.report(audit, tmp_path / "page.html", release=release, table=opened)
    assert policy.method.title in (tmp_path / "page.html").read_text(encoding="utf-8")
    compared = {each.method: each for each in sf.compare(opened, repeat=1).methods}
    assert compared[name].own
    assert compared[name].figures is not None
    assert compared["uniform"].figures is not None


def test_a_profile_tells_its_errors_or_why_there_are_none() -> None:
    opened = sf.scan(table(), make_policy(ROLES, "gamma = 4", "uniform"))
    found = {each.method: each for each in survey(opened.source, opened).errors or ()}
    uniform, own = found["uniform"].count, found["cautious"].count
    assert uniform is not None
    assert own is not None
    assert own > 1.5 * uniform
    assert found["sideways"].reason == "Nobody knows what it is good for."


def test_a_proposal_takes_it_where_it_has_the_least_error_and_not_where_it_has_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = open_source(table())
    assert 'name = "uniform"' in propose(source)
    assert "cautious" in propose(source)  # beside it
    monkeypatch.setattr(Subset, "proposed", "")  # sets of one value are what uniform is
    monkeypatch.setattr(Uniform, "retention", lambda self, gamma, *_: strictest_retention(gamma) / 4)
    assert "# cautious: less is kept than might be." in propose(source)
    assert 'name = "cautious"' in propose(source)


def test_a_comparison_leaves_it_to_the_method_whether_it_applies() -> None:
    opened = sf.scan(table(), make_policy(ROLES, "gamma = 4", "uniform"))
    assert outcome(opened).reason == "Nobody knows what it is good for."
    two = {**ROLES, "sex": 'sensitive; domain = ["F", "M"]', "illness": "quasi_identifier"}
    assert outcome(sf.scan(table(), make_policy(two, "gamma = 4", "uniform"))).reason == "Two values are too few."


def outcome(opened: sf.Table) -> Outcome:
    return next(each for each in sf.compare(opened, repeat=1, seed=1).methods if each.method == "sideways")


def test_its_matrix_is_the_one_that_it_states(tmp_path: Path) -> None:
    def dense(name: str) -> FloatArray:
        policy = make_policy(ROLES, "gamma = 4", name)
        return sf.plan(sf.profile(sf.scan(table(), policy)), policy.method, policy.requirement).figures.matrix.dense()

    assert dense("cautious").diagonal() == pytest.approx([1 / 4 + 3 / 4 / 3] * 3)
    assert dense("sideways") == pytest.approx(np.array([[8, 2, 5], [5, 8, 2], [2, 5, 8]]) / 15)
