"""The checks of a release, one by one, and all together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sfumato.computed import ROW_ORDER, observed_domain
from sfumato.guarantee import Guarantee
from sfumato.manifest import Manifest

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


def due_facts(manifest: Manifest) -> set[str]:
    """Return what other keys of a manifest say was computed from the table, and its list must hold."""
    return {*map(observed_domain, manifest.observed_domains), *([] if manifest.data.shuffled else [ROW_ORDER])}
