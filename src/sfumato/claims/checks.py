"""The checks of a release, one by one, and all together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sfumato.show.results import Result

Status = Literal["holds", "fails", "needs audit"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    status: Status
    detail: str


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
        import pyarrow as pa

        return pa.Table.from_pylist([vars(check) for check in self.checks])

    def __repr__(self) -> str:
        counted = Counter(check.status for check in self.checks)
        told = ", ".join(f"{status}: {counted[status]}" for status in get_args(Status) if counted[status])
        return f"Verification({told})"


def outcome(name: str, good: bool, detail: str, otherwise: str) -> Check:
    """Return the check with what was found."""
    return Check(name, "holds" if good else "fails", detail if good else otherwise)


def needs_audit(name: str, detail: str) -> Check:
    """Return a check that only someone with the private table can make."""
    return Check(name, "needs audit", detail)
