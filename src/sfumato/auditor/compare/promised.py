"""A method's own bound: what the attackers reach whom its guarantee is about, as the audit measures it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sfumato.auditor.attackers import ATTACKERS
from sfumato.auditor.evidence import DoesNotApply, Evidence
from sfumato.auditor.finding import Finding


@dataclass(frozen=True)
class Promised:
    """The promise that comes nearest to its bound."""

    attacker: str
    bound: float
    worst: float
    verdict: str
    direction: str = "at most"  # or "at least": on which side of the bound `worst` must be


def promised(evidence: Evidence) -> Promised | None:
    """Return the worst of the attackers whom the guarantee is about; None where the audit has no such attacker."""
    found = [finding for finding in _findings(evidence) if finding.promised is not None]
    if not found:
        return None
    worst = max(found, key=lambda finding: (round(finding.excess, 9), finding.worst))
    assert worst.promised is not None
    risk, bound = (worst.worst, worst.promised) if worst.nearest is None else (worst.nearest.risk, worst.nearest.bound)
    return Promised(worst.attacker, bound, risk, worst.verdict, worst.direction)


def _findings(evidence: Evidence) -> Iterator[Finding]:
    for attacker in ATTACKERS:
        try:
            if attack := attacker.promised.get(evidence.kind):
                yield from attack(evidence)
        except DoesNotApply:
            continue
