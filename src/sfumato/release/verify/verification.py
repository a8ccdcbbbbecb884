"""What a release proves by itself, re-checked; and what only an audit with the private table can show.

Its claim says what must be stated with it, and re-checks the guarantee with exact integers. What the files must hold
depends on how values are hidden: drawn with matrices (`drawn`), or dealt to buckets (`buckets`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, get_args

import pyarrow as pa

from sfumato.claims.claim import Check, Status, needs_audit
from sfumato.errors import UsageError
from sfumato.release.folder import ReleaseFolder
from sfumato.release.published import UNREADABLE
from sfumato.release.verify import buckets, drawn
from sfumato.release.verify.copies import no_copies
from sfumato.release.verify.files import as_published, carried
from sfumato.release.verify.order import random_order
from sfumato.show.results import Result


@dataclass(frozen=True, repr=False)
class Verification(Result):
    """All checks of a release."""

    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing failed. (What needs an audit is not covered.)"""
        return all(check.status != "fails" for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return the checks as JSON-ready values."""
        return {"holds": self.holds, "checks": [vars(check) for check in self.checks]}

    def to_arrow(self) -> Any:
        """Return a row for each check."""
        return pa.Table.from_pylist([vars(check) for check in self.checks])

    def __repr__(self) -> str:
        counted = Counter(check.status for check in self.checks)
        told = ", ".join(f"{status}: {counted[status]}" for status in get_args(Status) if counted[status])
        return f"Verification({told})"


NEEDED_FOR_ORDER = ("columns", "rows", "data", "domain", "group")
"""Checks, by the beginning of their names, that must hold before the order of the rows can be looked at."""
ONE_ROW = needs_audit("one row per person", "That nobody has several rows, or that this was meant.")


def verify(release: ReleaseFolder) -> Verification:
    """Check a release: checksums, columns, rows, domain, frequencies, and the guarantee in exact integers."""
    hiding = buckets if release.manifest.in_buckets else drawn
    checks = [*as_published(release), *hiding.stated(release)]
    if _hold(checks, ("checksum of", "matrix")):
        checks += _content(release)
        if _hold(checks, NEEDED_FOR_ORDER):
            checks += random_order(release)
            checks += [] if release.manifest.in_buckets else no_copies(release)
    return Verification((*checks, *hiding.unseen(release, _unseen(release)), ONE_ROW))


def _unseen(release: ReleaseFolder) -> list[Check]:
    """Return what of the claim only an audit can show."""
    try:
        return list(release.manifest.claim.unseen(release.manifest.withheld))
    except UNREADABLE:
        return []  # which is told already


def _hold(checks: list[Check], beginnings: tuple[str, ...]) -> bool:
    return all(check.status == "holds" for check in checks if check.name.startswith(beginnings))


def _content(release: ReleaseFolder) -> list[Check]:
    """Check what the files hold, by their rows and by what else they carry; what cannot be read is told once."""
    checks: list[Check] = []
    for look in (buckets.rows if release.manifest.in_buckets else drawn.rows, carried):
        try:
            checks += [*look(release)]
        except UsageError as problem:
            checks.append(Check("data", "fails", problem.message))
    return list(dict.fromkeys(checks))
