"""Making the certificate of a release (`release/certificate.py`) from its audit: the publisher's, or a public one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sfumato.analyst.release import Release
from sfumato.auditor.report.page_attackers import above_the_bound, coverage
from sfumato.auditor.report.reporting import check_record, check_table
from sfumato.auditor.report.sheet import alone_in_table
from sfumato.auditor.report.signed import signed_plan
from sfumato.errors import UsageError
from sfumato.publisher.table import Table
from sfumato.release.alone import alone_in
from sfumato.release.certificate import (
    Certificate,
    CertifiedAttack,
    CertifiedPolicy,
    CertifiedTable,
    CertifiedVerdict,
    card_of,
    certified_release,
    required_of,
)
from sfumato.release.folder import file_sha256, release_around
from sfumato.show.files import check_new, new_file
from sfumato.values.software import software

Record = Mapping[str, Any]
FIGURES = ("before", "worst", "promised", "records", "at_risk")
PRIVATE_KEYS = ("table", "attacks.verdict", *(f"attacks.{figure}" for figure in FIGURES))
PUBLIC_KEYS = ("attacks.verdict",)
"""What nobody can check without the private table."""


def certificate(
    audit: Any, table: Table, release: Release, *, plan: str | Path | None = None, public: bool = False
) -> Certificate:
    """Return what was promised of a release and what was found.

    `audit` is an Audit, or its record; `table` the table that was published; `plan` the file of the plan that was
    signed off. With `public` it holds no figure that was measured with the table: of the audit it has the verdicts.
    """
    record = audit if isinstance(audit, Mapping) else audit.to_dict()
    check_record(record, release)
    check_table(table, release)
    manifest, about = release.manifest, table.policy.about
    return Certificate(
        made=datetime.now(UTC).date().isoformat(),
        software=software(),
        public=public,
        release=certified_release(release),
        promise=manifest.guarantee,
        requirement=required_of(manifest),
        card=card_of(manifest),
        policy=CertifiedPolicy(sha256=manifest.policy_sha256, about=about.model_dump() if about else {}),
        plan_sha256=None if plan is None else _signed_plan(Path(plan), table, release),
        alone=alone_in(release),
        table=None if public else _private(record, table),
        attacks=tuple(_verdicts(release, record) if public else map(_attack, record["findings"])),
        from_private_table=PUBLIC_KEYS if public else PRIVATE_KEYS,
    ).sealed()


def write_certificate(made: Certificate, path: Path) -> None:
    """Write a certificate to a new file, outside of every release."""
    check_certificate_place(path)
    with new_file(path) as partial_file:
        partial_file.write_text(made.to_json(), encoding="utf-8")


def check_certificate_place(path: Path) -> None:
    """Raise if a certificate cannot be written there: in a release every other file is a stranger."""
    check_new(path)
    if folder := release_around(path):
        raise UsageError(
            f"{str(path)!r} lies inside the release {str(folder)!r}, which holds its own files alone.",
            "Write the certificate beside the release.",
        )


def _signed_plan(file: Path, table: Table, release: Release) -> str:
    """Return the checksum of a plan's file; raise unless it is the plan of the release."""
    signed_plan(file, table, release)
    return file_sha256(file)


def _private(record: Record, table: Table) -> CertifiedTable:
    return CertifiedTable(sha256=table.hash(), records=record["rows"], alone=alone_in_table(table))


def _attack(finding: Record) -> CertifiedAttack:
    names = ("attacker", "about", "verdict", "worst", "promised", "records", "at_risk")
    return CertifiedAttack(before=finding["baseline"], **{name: finding[name] for name in names})


def _verdicts(release: Release, record: Record) -> list[CertifiedAttack]:
    """Return which attackers there are for such a release, by its manifest, and which of them are above the bound."""
    above, covered = above_the_bound(record), coverage(release.manifest)
    none = dict.fromkeys(FIGURES)

    def verdict(name: str) -> CertifiedVerdict:
        if name in above:
            return "above the bound"
        return "within the bound" if covered[name] else "not covered by the guarantee"

    names = [*covered, *sorted(above - set(covered))]
    return [CertifiedAttack(attacker=name, about="", verdict=verdict(name), **none) for name in names]
