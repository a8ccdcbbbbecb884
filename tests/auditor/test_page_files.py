"""Where a page is written, and from what: never into a release, from a whole record of this release and its table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato.auditor.report.reporting import report
from sfumato.errors import UsageError
from tests.auditor.test_page import private
from tests.page.releases import made, patients


@pytest.mark.parametrize(("public_one", "reason"), [(False, "figures of the original table"), (True, "verify")])
def test_it_is_not_written_into_the_release(public_one: bool, reason: str) -> None:
    of = made("anatomy")
    before = sorted(of.release.folder.iterdir())
    for path in (of.release.folder / "audit.html", of.release.folder / ".." / "anatomy" / "x.html"):
        with pytest.raises(UsageError, match=reason):
            report(of.record, path, release=of.release, public=public_one)
    assert sorted(of.release.folder.iterdir()) == before


@pytest.mark.parametrize("public_one", [False, True])
def test_it_is_not_written_into_another_release_either(public_one: bool) -> None:
    of, other = made("anatomy"), made("suppression")
    with pytest.raises(UsageError, match=r"inside the release .*suppression"):
        report(of.record, other.release.folder / "audit.html", release=of.release, public=public_one)


def test_another_table_or_policy_gives_no_page(tmp_path: Path) -> None:
    of = made("anatomy")
    with pytest.raises(UsageError, match="policy is not the one"):
        report(of.record, tmp_path / "x.html", release=of.release, table=made("suppression").table)
    other = sf.scan(patients().slice(1), of.table.policy)
    for public_one in (False, True):
        with pytest.raises(UsageError, match="not made from this table"):
            report(of.record, tmp_path / "x.html", release=of.release, table=other, public=public_one)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("findings", None, "findings: Input should be a valid list"),
        ("findings", [{"attacker": "order"}], "findings.0.about: Field required"),
        ("notes", [3], "notes.0"),
        ("utility", {}, "utility.published_share: Field required"),
        ("not_applicable", [{"attacker": "order"}], "not_applicable.0.reason: Field required"),
    ],
)
@pytest.mark.parametrize("public_one", [False, True])
def test_a_damaged_record_is_refused(key: str, value: Any, message: str, public_one: bool, tmp_path: Path) -> None:
    of = made("anatomy")
    for record in ({**of.record, key: value}, {k: v for k, v in of.record.items() if k != key}):
        with pytest.raises(UsageError, match=message if key in record else f"damaged: {key}: Field required"):
            report(record, tmp_path / "x.html", release=of.release, public=public_one)


@pytest.mark.parametrize(("key", "value"), [("verdict", "safe"), ("worst", "high"), ("direction", "up"), ("mean", "x")])
def test_a_finding_that_is_none_is_refused(key: str, value: str, tmp_path: Path) -> None:
    of = made("anatomy")
    first, *others = of.record["findings"]
    with pytest.raises(UsageError, match=f"damaged: findings.0.{key}"):
        report({**of.record, "findings": [{**first, key: value}, *others]}, tmp_path / "x.html", release=of.release)


def test_a_link_into_the_release_is_seen_through(tmp_path: Path) -> None:
    of = made("anatomy")
    (tmp_path / "link").symlink_to(of.release.folder)
    with pytest.raises(UsageError, match="inside the release"):
        report(of.record, tmp_path / "link" / "audit.html", release=of.release)


def test_it_may_lie_beside_the_release_and_overwrites_nothing() -> None:
    of = made("anatomy")
    path = of.release.folder.parent / "beside.html"
    sf.report(of.record, path, table=of.table)  # the release is found where it was audited
    assert path.read_text(encoding="utf-8") == private("anatomy")
    with pytest.raises(UsageError, match="exists already"):
        sf.report(of.record, path)


def test_the_audit_must_be_of_the_release(tmp_path: Path) -> None:
    one, other = made("anatomy"), made("suppression")
    with pytest.raises(UsageError, match="The audit is of release"):
        report(one.record, tmp_path / "x.html", release=other.release)
    with pytest.raises(UsageError, match="not a record of version 1"):
        report({"published": str(one.release.folder)}, tmp_path / "x.html")
