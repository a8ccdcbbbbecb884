"""The first screen of an audit: is the promise kept, and which risks does it not cover; one line each, the worst first.

Findings of one attacker are one line, by the one that comes nearest to its limit, or is furthest beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sfumato.auditor.attackers import ROLES
from sfumato.auditor.finding import Finding
from sfumato.show.screen import Screen

if TYPE_CHECKING:
    from sfumato.auditor.record import Audit

MOST_COVERED = 6
"""Attackers of the promise that have a line; the others are further below their limits."""
END = ("Add --details for every attack, what each assumes, and what analysts keep.",)


def first_screen(audit: Audit, promise: str = "") -> Screen:
    """Return the screen; `promise` in plain words, else as the audit states it."""
    promise = promise or audit.guarantee
    covered = _by_attacker([finding for finding in audit.risks if finding.promised is not None])
    others = _by_attacker([finding for finding in audit.risks if finding.promised is None])
    head = (
        f"Audit of {audit.published}: {audit.method}; {audit.published_rows:,} of {audit.rows:,} records. Private.",
        *_made_as_stated(audit),
        _verdict(covered, all(finding.verdict != "above the bound" for finding in audit.checks)),
        *([f"{'Promise' if audit.release_id else 'Asked for':<13}{promise}"] if promise else []),
        *_covered(covered),
    )
    title = "Not covered: decide whether you can accept these, the worst first"
    return Screen(head, tuple(map(_accepted, others)), title, END)


def _by_attacker(findings: Sequence[Finding]) -> list[Finding]:
    """Return the worst finding of each attacker, the worst attacker first."""
    worst: dict[str, Finding] = {}
    for finding in sorted(findings, key=_how_bad, reverse=True):
        worst.setdefault(finding.attacker, finding)
    return list(worst.values())


def _how_bad(finding: Finding) -> tuple[bool, float, float]:
    bounded = finding.promised is not None or finding.stated is not None
    return finding.verdict == "above the bound", finding.excess if bounded else 0.0, finding.worst


def _verdict(covered: Sequence[Finding], as_stated: bool) -> str:
    broken = sum(finding.verdict == "above the bound" for finding in covered)
    if broken:
        return f"BROKEN: {broken} of {len(covered)} attackers that the promise covers get further than promised."
    if not covered:
        return "Nothing is promised against any of these attackers."
    kept = f"the promise is kept against all {len(covered)} attackers that it covers."
    return f"HOLDS: {kept}" if as_stated else f"If it were made as it says, {kept}"


def _made_as_stated(audit: Audit) -> Iterator[str]:
    """Yield whether the release was made as it says, which all risks rest on."""
    if audit.checks:
        wrong = [finding for finding in audit.checks if finding.verdict == "above the bound"]
        for finding in wrong[:2]:
            name = ", ".join(filter(None, (finding.attacker, finding.about)))
            yield f"NOT MADE AS IT SAYS: {name}. {finding.remark}"
        if not wrong:
            yield f"It looks made as it says: {len(audit.checks)} tests found nothing beyond chance."


def _covered(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield a line for each attacker that the promise covers."""
    if not findings:
        return
    yield ""
    yield "Covered by the promise: how sure they get, or how often right, and the limit"
    for finding in findings[:MOST_COVERED]:
        kept = "BROKEN" if finding.verdict == "above the bound" else "kept"
        worst, bound = _nearest(finding)
        yield f"  {kept:<6}  {worst:>6}   limit {bound:>6}   {finding.attacker}: {_knows(finding)}"
    if (more := len(findings) - MOST_COVERED) > 0:
        yield f"  ... and {more:,} more, further from their limits"


def _accepted(finding: Finding) -> str:
    """Return what an attacker reaches whom the promise does not cover, and when that can be accepted."""
    worst, bound = _nearest(finding)
    compared = f" ({bound} for comparison)" if bound else ""
    role = ROLES.get(finding.attacker)
    acceptable = f" {role.acceptable.split('. ')[0].rstrip('.')}." if role else ""
    return f"{finding.attacker} ({_knows(finding)}) reaches {worst}{compared}.{acceptable}"


def _knows(finding: Finding) -> str:
    role = ROLES.get(finding.attacker)
    return role.knows if role else finding.about or finding.attacker


def _nearest(finding: Finding) -> tuple[str, str]:
    """Return the risk that is nearest to its limit, and the limit; nothing where there is none."""
    bound = finding.stated if finding.promised is None else finding.promised
    worst, limit = (finding.worst, bound) if finding.nearest is None else (finding.nearest.risk, finding.nearest.bound)
    at_least = ">=" if finding.direction == "at least" else ""
    sign = at_least or ("<=" if finding.is_bound else "")
    return f"{sign}{_percent(worst)}", "" if limit is None else f"{at_least}{_percent(limit)}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"
