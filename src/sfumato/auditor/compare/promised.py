"""A method's own bound: what the attackers reach whom its guarantee is about, as the audit measures it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from sfumato.auditor.attackers import groups, randomized, response
from sfumato.auditor.evidence import Case, DoesNotApply
from sfumato.auditor.finding import Finding

Attack = Callable[[Case], Iterable[Finding]]


@dataclass(frozen=True)
class Promised:
    """The promise that comes nearest to its bound."""

    attacker: str
    bound: float
    worst: float
    verdict: str
    direction: str = "at most"  # or "at least": on which side of the bound `worst` must be


def promised(case: Case) -> Promised | None:
    """Return the worst of the attackers whom the guarantee is about; None where the audit has no such attacker."""
    found = [finding for finding in _findings(case) if finding.promised is not None]
    if not found:
        return None
    worst = max(found, key=lambda finding: (round(finding.excess, 9), finding.worst))
    assert worst.promised is not None
    risk, bound = (worst.worst, worst.promised) if worst.nearest is None else (worst.nearest.risk, worst.nearest.bound)
    return Promised(worst.attacker, bound, risk, worst.verdict, worst.direction)


def _findings(case: Case) -> Iterator[Finding]:
    for attack in _attacks(case):
        try:
            yield from attack(case)
        except DoesNotApply:
            continue


def _attacks(case: Case) -> tuple[Attack, ...]:
    if case.manifest.groups:
        return groups.promised_background, _shares, groups.eligibility
    return (response.risks,) if case.manifest.response else (randomized.posterior, randomized.frequencies)


def _shares(case: Case) -> Iterator[Finding]:
    """Who finds a person's group: the largest share of a value there."""
    lines = case.group_tables.lines
    shares = lines.counts / case.group_tables.sizes[lines.groups]
    bound = float(case.group_claim.at_most)
    yield Finding(
        attacker="groups",
        question="What value does a person of a group have?",
        assumption="Knows a person's group, and no association.",
        measured="the largest share of a value in a group",
        worst=float(shares.max()),
        mean=None,
        records=int(case.group_tables.rows.size),
        at_risk=int(case.group_tables.sizes[np.unique(lines.groups[shares > bound])].sum()),
        promised=bound,
    )
