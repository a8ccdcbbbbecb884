"""A method's own bound: what the attackers reach whom its guarantee is about, as the audit measures it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from sfumato.auditor.attackers import groups, randomized, response
from sfumato.auditor.evidence import DoesNotApply, Evidence
from sfumato.auditor.finding import Finding

Attack = Callable[[Evidence], Iterable[Finding]]


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
    for attack in _attacks(evidence):
        try:
            yield from attack(evidence)
        except DoesNotApply:
            continue


def _attacks(evidence: Evidence) -> tuple[Attack, ...]:
    if evidence.manifest.groups:
        return groups.promised_background, _shares, groups.eligibility
    return (response.risks,) if evidence.manifest.response else (randomized.posterior, randomized.frequencies)


def _shares(evidence: Evidence) -> Iterator[Finding]:
    """Who finds a person's group: the largest share of a value there."""
    lines = evidence.group_tables.lines
    shares = lines.counts / evidence.group_tables.sizes[lines.groups]
    bound = float(evidence.group_claim.at_most)
    yield Finding(
        attacker="groups",
        question="What value does a person of a group have?",
        assumption="Knows a person's group, and no association.",
        measured="the largest share of a value in a group",
        worst=float(shares.max()),
        mean=None,
        records=int(evidence.group_tables.rows.size),
        at_risk=int(evidence.group_tables.sizes[np.unique(lines.groups[shares > bound])].sum()),
        promised=bound,
    )
