"""An earlier release of the same people: draws that were made twice are found, others raise no alarm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.analyst.release import Release
from sfumato.auditor.finding import Finding
from sfumato.auditor.first_screen import first_screen
from sfumato.auditor.record import Audit, Earlier
from sfumato.auditor.report.page import Ticks, html_of
from sfumato.auditor.report.reporting import private_page
from sfumato.engines.base import RecordKey
from sfumato.errors import UsageError
from sfumato.publisher.policy import Policy
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy
from tests.engines.tools import released

DOMAIN = "domain = ['asthma', 'flu', 'gout', 'mumps']"
KEY = SecretKey(bytes(range(32)), kept=True)
KEYED = 'record_key = "id"\nseries = "people"'


def people(rows: int = 600, column: str = "disease") -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "id": [f"p{k}" for k in range(rows)],
            "age": [k % 300 for k in range(rows)],
            "sex": [("F", "M")[k // 300 % 2] for k in range(rows)],
            column: rng.choice(["asthma", "flu", "gout", "mumps"], rows, p=[0.4, 0.3, 0.2, 0.1]),
        }
    )


def policy(extra: str = "", column: str = "disease", **changes: Any) -> Policy:
    roles = {"id": "identifier", "age": "quasi_identifier", "sex": "quasi_identifier"}
    return make_policy(roles | {column: f"sensitive; {DOMAIN}"}, extra=extra, **changes)


def reuse(table: pa.Table, asked: Policy, release: Release, earlier: Release | None) -> tuple[Sequence[Finding], str]:
    """Return what the attacker found, and why it did not."""
    found = sf.audit(sf.scan(table, asked), release, earlier=earlier, seed=1)
    reasons = {each.attacker: each.reason for each in (*found.not_applicable, *found.not_measured)}
    return [finding for finding in found.findings if finding.attacker == "reuse"], reasons.get("reuse", "")


def test_fresh_noise_is_within_the_bound(tmp_path: Path) -> None:
    """gamma 4, four values: p = 3/7, so at most 1/4 + 3/4 * 9/49 of the linked rows are equal, but for chance."""
    first, second = (released(people(), policy(), folder=tmp_path / str(s), seed=s, shuffle=True) for s in (1, 2))
    (found,), _ = reuse(people(), policy(), second, first)
    assert (found.verdict, found.records, found.about) == ("within the bound", 600, "disease")
    assert found.worst < 0.25 + 0.75 * 9 / 49 + 0.1 < (found.promised or 0) + 0.1 < 0.65
    assert "by age, sex" in found.assumption
    assert "1e-06" in found.measured


def test_one_key_for_two_releases_is_found(tmp_path: Path) -> None:
    """The same words for the same rows: a seed, or a key that was kept, without a record key."""
    first, second = (released(people(), policy(), folder=tmp_path / name, seed=1, shuffle=True) for name in "ab")
    (found,), _ = reuse(people(), policy(), second, first)
    assert (found.verdict, found.worst, found.at_risk) == ("above the bound", 1.0, 600)
    assert "The same words were used in both releases" in found.remark
    assert "by up to the factor 28" in found.remark  # 4 (4 - 1 + 4)


def test_a_record_key_is_told_with_what_it_gives_away(tmp_path: Path) -> None:
    """Of 600 people 150 have another value by the second release."""
    asked, later = policy(KEYED), people()
    values = later["disease"].to_pylist()
    turned = {"asthma": "flu", "flu": "gout", "gout": "mumps", "mumps": "asthma"}
    later = later.set_column(3, "disease", [[turned[v] if k < 150 else v for k, v in enumerate(values)]])
    first = released(people(), asked, folder=tmp_path / "a", key=KEY, shuffle=True)
    second = released(later, asked, folder=tmp_path / "b", key=KEY, shuffle=True)
    (found,), _ = reuse(later, asked, second, first)
    assert found.verdict == "not covered by the guarantee"
    assert 450 / 600 < found.worst < 540 / 600
    assert "as stated" in found.remark
    differ = round((1 - found.worst) * 600)
    assert f"The {differ:,} rows that differ have none of the values that never change" in found.remark


@pytest.mark.parametrize("faulty", [False, True])
def test_t8_a_key_for_another_column_is_found(faulty: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts without the column's name gave two columns the same words."""
    if faulty:
        monkeypatch.setattr(RecordKey, "noise_context", lambda self, mechanism: bytes(16))
    other = policy(KEYED, "illness")
    first = released(people(column="illness"), other, folder=tmp_path / "a", key=KEY)
    second = released(people(), policy(KEYED), folder=tmp_path / "b", key=KEY)
    (found,), _ = reuse(people(), policy(KEYED), second, first)
    assert found.about == "disease and illness"
    assert found.verdict == ("above the bound" if faulty else "within the bound")


def test_when_it_cannot_be_tested(tmp_path: Path) -> None:
    table = people()
    first, second = (released(table, policy(), folder=tmp_path / str(s), seed=s) for s in (1, 2))
    assert reuse(table, policy(), second, None) == ([], "no earlier release was given (--earlier).")
    alike = table.set_column(1, "age", [[k % 3 for k in range(600)]])
    crowd = released(alike, policy(), folder=tmp_path / "crowd")
    assert "others share its columns" in reuse(table, policy(), second, crowd)[1]
    few = released(table.slice(0, 5), policy(), folder=tmp_path / "few", seed=4)
    assert "even if all were published equal, chance could explain it" in reuse(table, policy(), second, few)[1]
    roles = {"id": "identifier", "age": "quasi_identifier", "sex": "quasi_identifier", "disease": "sensitive"}
    values = pa.array([f"d{k % 4}" for k in range(600)])
    values = released(table.set_column(3, "disease", values), make_policy(roles), folder=tmp_path / "values")
    assert "no randomized column of the earlier release has the values" in reuse(table, policy(), second, values)[1]
    with pytest.raises(UsageError, match="earlier release is the audited one"):
        reuse(table, policy(), second, second)
    with pytest.raises(UsageError, match="compared with a release"):
        sf.audit(sf.scan(table, policy()), table, earlier=first)


def test_a_pseudonym_links_where_quasi_identifiers_changed(tmp_path: Path) -> None:
    """Everybody is a year older: age and sex link the wrong people, the pseudonym the right ones."""
    roles = {"id": "other", "age": "quasi_identifier", "sex": "quasi_identifier", "disease": f"sensitive; {DOMAIN}"}
    asked = make_policy(roles, extra=KEYED)
    older = people().set_column(1, "age", [[k % 300 + 1 for k in range(600)]])
    first = released(people(), asked, folder=tmp_path / "a", key=KEY, shuffle=True)
    second = released(older, asked, folder=tmp_path / "b", key=KEY, shuffle=True)
    (found,), _ = reuse(older, asked, second, first)
    assert (found.records, found.worst) == (600, 1.0)
    assert "rows by id," in found.assumption


# --- what is told of two releases -------------------------------------------------------------------------------------


def keyed_twice(tmp_path: Path) -> tuple[Release, Release]:
    first, second = (released(people(), policy(KEYED), folder=tmp_path / n, key=KEY, shuffle=True) for n in "ab")
    return first, second


def audited(asked: Policy, release: Release, earlier: Release | None = None) -> Audit:
    return sf.audit(sf.scan(people(), asked), release, earlier=earlier, seed=1)


def screen(found: Audit, release: Release) -> str:
    return " ".join(first_screen(found, release.manifest).text(110).split())


def test_a_record_key_is_told_in_full_and_is_no_test_that_found_nothing(tmp_path: Path) -> None:
    """Its finding has no promise: the details stopped there with an AssertionError."""
    first, second = keyed_twice(tmp_path)
    found = audited(policy(KEYED), second, first)
    (repeated,) = found.as_stated
    assert (repeated.attacker, repeated in found.checks) == ("reuse", False)
    page = html_of(private_page(second, found.to_dict()))
    assert "The record key repeats draws of the earlier release, as stated" in page
    assert "Nothing. The record key need not leave it to chance" in page
    told = found.explain()
    assert f"Chance allows at most {100 * (repeated.stated or 0):.1f}%. The record key need not leave it" in told
    assert f"{len(found.checks)} tests found nothing beyond chance" in screen(found, second)


def test_the_first_screen_tells_what_two_releases_reach(tmp_path: Path) -> None:
    first, second = keyed_twice(tmp_path)
    alone, both = audited(policy(KEYED), second), audited(policy(KEYED), second, first)
    assert both.earlier == Earlier(first.manifest.release_id, made_alike=True)
    assert both.to_dict()["earlier"] == {"release_id": first.manifest.release_id, "made_alike": True}
    told = screen(both, second)
    assert (
        "Two releases this one and the earlier one together are not covered. The record key repeats draws: 100%" in told
    )
    assert "Someone with both gets to 100% (published different), and from " in told
    assert "published once" not in told
    assert "Not given register (--external): not tried." in told
    assert alone.earlier is None
    told = screen(alone, second)
    assert "averaging, published different (sees a second release of the same table) gets to 100% (" in told
    assert "Acceptable if these people are published once." in told
    assert "Not given earlier release (--earlier), register (--external): not tried." in told


def test_an_earlier_release_with_fresh_noise_adds_up_also_beside_a_record_key(tmp_path: Path) -> None:
    """What a record key tells is not about it: gamma 4 twice, from 1/5 to 4/5 and no further."""
    first = released(people(), policy(), folder=tmp_path / "fresh", shuffle=True)
    second = released(people(), policy(KEYED), folder=tmp_path / "keyed", key=KEY, shuffle=True)
    found = audited(policy(KEYED), second, first)
    assert found.earlier is not None
    assert not found.earlier.made_alike
    (averaged,) = [each for each in found.findings if each.attacker == "averaging"]
    assert averaged.about == ""
    told = screen(found, second)
    assert "Nothing shows that random words were used twice. Someone with two releases made like this one" in told


def test_the_decision_sheet_does_not_offer_that_people_are_published_once(tmp_path: Path) -> None:
    first, second = keyed_twice(tmp_path)
    once, again = "These people are published once.", "These people may be published a second time, with what both"
    for earlier, wanted, other in ((None, once, again), (first, again, once)):
        found = audited(policy(KEYED), second, earlier).to_dict()
        page = private_page(second, found, sf.scan(people(), policy(KEYED)))
        items = [item for block in page.sections[0].blocks if isinstance(block, Ticks) for item in block.items]
        assert any(item.startswith(wanted) for item in items)
        assert not any(item.startswith(other) for item in items)


def test_groups_have_an_earlier_release_too(tmp_path: Path) -> None:
    """Their words are not compared, and the earlier release is not left out of what is told."""
    asked = policy(method="anatomy", requirement="l = 2")
    first, second = (released(people(), asked, folder=tmp_path / str(s), seed=s) for s in (1, 2))
    found = audited(asked, second, first)
    told = screen(found, second)
    assert "together are not covered. Someone with both gets from" in told
    assert "published once" not in told
    with pytest.raises(UsageError, match="earlier release is the audited one"):
        audited(asked, second, second)


@pytest.mark.parametrize(
    ("method", "requirement"),
    [("small-domain", "rho1 = 0.45\nrho2 = 0.7"), ("subset", "gamma = 4"), ("randomized-response", "risk_limit = 0.6")],
)
def test_every_kind_of_release_says_whether_the_earlier_one_was_made_alike(
    method: str, requirement: str, tmp_path: Path
) -> None:
    asked = policy(method=method, requirement=requirement)
    first, second = (released(people(), asked, folder=tmp_path / str(s), seed=s) for s in (1, 2))
    found = audited(asked, second, first)
    assert found.earlier is not None
    assert found.earlier.made_alike or method == "small-domain"  # where each deal has matrices of its own
    assert "Two releases this one and the earlier one together are not covered." in screen(found, second)
    assert found.explain()
