"""The checks of a release, one by one, and all together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from sfumato.claims.guarantee import Guarantee
from sfumato.release.manifest import Manifest
from sfumato.values.computed import ROW_ORDER, left_out, observed_domain

Status = Literal["holds", "fails", "needs audit"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    status: Status
    detail: str


@dataclass(frozen=True)
class Verification:
    """All checks of a release."""

    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing failed. (What needs an audit is not covered.)"""
        return all(check.status != "fails" for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return the checks as JSON-ready values."""
        return {"holds": self.holds, "checks": [vars(check) for check in self.checks]}


def outcome(name: str, good: bool, detail: str, otherwise: str) -> Check:
    """Return the check with what was found."""
    return Check(name, "holds" if good else "fails", detail if good else otherwise)


def differing(stated: Guarantee, due: Guarantee) -> list[str]:
    """Return the parts in which a stated guarantee is not the one that is due; it may have more limits."""
    parts = ("sentence", "adversary", "prior", "scope", "directions", "strength")
    wrong = [part for part in parts if getattr(stated, part) != getattr(due, part)]
    return wrong if set(due.limits) <= set(stated.limits) else [*wrong, "limits"]


LEFT_OUT = re.compile("Rows without a value of (.+) were left out")
"""How the limit begins that rows were left out for want of a value."""


def due_facts(manifest: Manifest) -> set[str]:
    """Return what other keys of a manifest say was computed from the table, and its list must hold."""
    limits = (LEFT_OUT.match(limit) for limit in manifest.guarantee.limits)
    return {
        *map(observed_domain, manifest.observed_domains),
        *([] if manifest.data.shuffled else [ROW_ORDER]),
        *(left_out([limit[1]]) for limit in limits if limit),
    }


def treatments_fit(manifest: Manifest) -> bool:
    """Whether the columns are treated as mechanisms, groups and merged values say."""
    hidden = {part.name for mechanism in manifest.mechanisms for part in mechanism.domain}
    special = dict.fromkeys(hidden, "randomized")
    special |= {m.sub_table_column: "sub-table" for m in manifest.mechanisms if m.sub_table_column}
    special |= {manifest.groups.group_column: "group"} if manifest.groups else {}
    merged = set(manifest.merged or {})
    of_groups = {part.name for part in manifest.groups.domain} if manifest.groups else set()
    plain = [column for column in manifest.columns if column.name not in special]
    return (
        all(column.treatment == special[column.name] for column in manifest.columns if column.name in special)
        and all(column.treatment in ("untouched", "binned", "merged") for column in plain)
        and all((column.treatment == "merged") == (column.name in merged) for column in plain)
        and merged <= {column.name for column in manifest.columns} | of_groups
    )
