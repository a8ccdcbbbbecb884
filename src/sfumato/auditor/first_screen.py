"""The first screen of an audit: is the promise kept, and which risks does it not cover; one line each.

Findings of one attacker are one line, or two where one is about rising and another about falling beliefs: by the one
that comes nearest to its limit, or is furthest beyond it. Attackers are counted by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sfumato.auditor.attacker import Role
from sfumato.auditor.attackers import ROLES, roles_on
from sfumato.auditor.finding import Finding
from sfumato.auditor.record import Audit, NotTried, named_in, not_given
from sfumato.release.manifest import Manifest
from sfumato.show.screen import Screen
from sfumato.show.words import percent, share

MOST_COVERED, LEAST_COVERED = 5, 2  # lines of attackers whom the promise covers: fewer where more must be decided
MOST_REASONS = 2  # why attackers were not measured
MOST_VARIANTS = 2  # of what is seen of two releases
AVERAGING = "averaging"  # the attacker who sees a second release
BOTH, TWO_LIKE_THIS = "both", "two releases made like this one (the earlier one was made otherwise)"
END = ("Add --details for every attack, what each assumes, and what analysts keep.",)


def first_screen(audit: Audit, manifest: Manifest | None = None) -> Screen:
    """Return the screen; with the manifest the promise is told in plain words, else as the audit states it."""
    promise = manifest.card.promise if manifest else audit.guarantee
    roles = roles_on(manifest.kind) if manifest else ROLES
    covered = _in_order(audit, _worst_of_each([finding for finding in audit.risks if finding.promised is not None]))
    others = _worst_of_each([finding for finding in audit.risks if finding.promised is None])
    left_open = _left_open(audit)
    room = max(LEAST_COVERED, MOST_COVERED - len(left_open))
    head = (
        f"Audit of {audit.published}: {audit.method}; {audit.published_rows:,} of {audit.rows:,} records. Private.",
        *_made_as_stated(audit),
        _verdict(audit, covered, others),
        *([f"{'Promise' if audit.release_id else 'Asked for':<13}{promise}"] if promise else []),
        *_covered(covered, roles, room),
        *left_open,
    )
    title = "Not covered: decide whether you can accept these, the worst first"
    return Screen(head, tuple(_accepted(finding, roles, audit) for finding in others), title, END)


def _worst_of_each(findings: Sequence[Finding]) -> list[Finding]:
    """Return the worst finding of each attacker and direction, the worst first."""
    worst: dict[tuple[str, str], Finding] = {}
    for finding in sorted(findings, key=_how_bad, reverse=True):
        worst.setdefault((finding.attacker, finding.direction), finding)
    return list(worst.values())


def _how_bad(finding: Finding) -> tuple[bool, float, float]:
    bounded = finding.promised is not None or finding.stated is not None
    return finding.verdict == "above the bound", finding.excess if bounded else 0.0, finding.worst


def _in_order(audit: Audit, findings: Sequence[Finding]) -> list[Finding]:
    """Return what is broken first, then as the audit tried it: it begins with whom the promise itself speaks of."""
    order = [(finding.attacker, finding.direction) for finding in audit.risks]
    broken = "above the bound"
    return sorted(findings, key=lambda f: (f.verdict != broken, order.index((f.attacker, f.direction))))


def _verdict(audit: Audit, covered: Sequence[Finding], others: Sequence[Finding]) -> str:
    """Return whether the promise is kept, and how many attackers it does not cover; none is counted twice in either."""
    broken, number = _attackers([f for f in covered if f.verdict == "above the bound"]), _attackers(covered)
    left = {f.attacker for f in others} | {each.attacker for each in audit.not_measured}
    missed = f", of whom {len(audit.not_measured)} could not be measured" if audit.not_measured else ""
    more = f" It does not cover {len(left)}{missed}." if left else ""
    if broken:
        return f"BROKEN: {broken} of {number} attackers that the promise covers get further than promised.{more}"
    if not covered:
        return "Nothing is promised against any of these attackers."
    kept = f"the promise is kept against all {number} attackers that it covers.{more}"
    made = all(finding.verdict != "above the bound" for finding in audit.checks)
    return f"HOLDS: {kept}" if made else f"If it were made as it says, {kept}"


def _attackers(findings: Sequence[Finding]) -> int:
    return len({finding.attacker for finding in findings})


def _made_as_stated(audit: Audit) -> Iterator[str]:
    """Yield whether the release was made as it says, which all risks rest on."""
    if audit.checks:
        wrong = [finding for finding in audit.checks if finding.verdict == "above the bound"]
        for finding in wrong[:2]:
            name = ", ".join(filter(None, (finding.attacker, finding.about)))
            yield f"NOT MADE AS IT SAYS: {name}. {finding.remark}"
        if not wrong:
            yield f"It looks made as it says: {len(audit.checks)} tests found nothing beyond chance."


def _covered(findings: Sequence[Finding], roles: Mapping[str, Role], room: int) -> Iterator[str]:
    """Yield a line for each attacker that the promise covers: how sure beforehand, how sure after, and the limit."""
    if not findings:
        return
    yield ""
    yield "Covered: how sure before, how sure after, limit (higher for someone surer before)"
    room = max(room, sum(finding.verdict == "above the bound" for finding in findings))
    told = [_reached(finding, share) for finding in findings[:room]]
    widths = [max(len(getattr(each, name)) for each in told) for name in ("before", "after", "limit")]
    for finding, each in zip(findings, told, strict=False):
        kept = "BROKEN" if finding.verdict == "above the bound" else "kept"
        figures = "{:>{}} to {:>{}}  limit {:>{}}".format(
            each.before, widths[0], each.after, widths[1], each.limit, widths[2]
        )
        falling = ", falling" if finding.direction == "at least" else ""
        chance = " (by chance)" if _only_by_chance(finding) else ""
        yield f"  {kept:<6}  {figures}{chance}  {finding.attacker}{falling}: {_knows(finding, roles)}"
    if (more := len(findings) - room) > 0:
        yield f"  ... and {more:,} more, within their limits"


def _only_by_chance(finding: Finding) -> bool:
    """Whether what was tried out is beyond the limit, but no further than chance explains."""
    limit = finding.promised
    if limit is None or finding.interval is None or finding.verdict != "within the bound":
        return False
    return finding.direction == "at most" and finding.worst > limit and share(finding.worst) != share(limit)


def _left_open(audit: Audit) -> tuple[str, ...]:
    """Return, below a blank line, what else is to be known before somebody decides."""
    told = [f"{label:<14}{text}" for label, text in _open_lines(audit)]
    return ("", *told) if told else ()


def _open_lines(audit: Audit) -> Iterator[tuple[str, str]]:
    """Yield what two releases tell, of whom nobody knows how far they get and why, and what was not given."""
    if audit.earlier is not None:
        yield "Two releases", " ".join(_two_releases(audit))
    if audit.not_measured:
        yield "Not measured", f"{_with_reasons(audit.not_measured)} Count as not covered."
    if missing := list(not_given(each.reason for each in audit.not_applicable)):
        yield "Not given", f"{', '.join(f'{thing} ({option})' for thing, option in missing)}: not tried."


def _with_reasons(tried: Sequence[NotTried]) -> str:
    """Return who was not measured, and why: the details have the reasons of the others."""
    told = " ".join(f"{each.attacker}: {each.reason}" for each in tried[:MOST_REASONS])
    others = tried[MOST_REASONS:]
    return f"{told} And {named_in(others)}." if others else told


def _two_releases(audit: Audit) -> Iterator[str]:
    """Yield that the promise is not about the two together, whether words were used twice, and what both reach."""
    assert audit.earlier is not None
    yield "this one and the earlier one together are not covered."
    compared = [finding for finding in audit.findings if finding.attacker == "reuse"]
    if any(finding.verdict == "above the bound" for finding in compared):
        yield "Both used the same random words, against what they say."
    elif repeated := max((finding for finding in audit.as_stated), key=lambda f: f.worst, default=None):
        yield f"The record key repeats draws: {percent(repeated.worst)} of the linked rows are published alike."
    elif compared:
        yield "Nothing shows that random words were used twice."
    if reached := [f for f in audit.risks if f.attacker == AVERAGING]:
        worst = sorted(reached, key=_how_bad, reverse=True)[:MOST_VARIANTS]
        told = ", and ".join(f"{_to_the_most(f)}{f' ({f.about})' if f.about else ''}" for f in worst)
        both = (
            "both" if audit.earlier.made_alike else "two releases made like this one (the earlier was made otherwise)"
        )
        yield f"Someone with {both} gets {told}."


def _to_the_most(finding: Finding) -> str:
    """Return from where to where an attacker gets."""
    reached = _reached(finding, percent)
    before = f"from {reached.before} " if reached.before != NOT_KNOWN else ""
    return f"{before}to {reached.after}"


def _accepted(finding: Finding, roles: Mapping[str, Role], audit: Audit) -> str:
    """Return what an attacker reaches whom the promise does not cover, and when that can be accepted."""
    reached = _reached(finding, percent)
    compared = f" ({reached.limit} for comparison)" if reached.limit else ""
    role = roles.get(finding.attacker)
    acceptable = f" {role.acceptable_beside(audit.earlier).split('. ')[0].rstrip('.')}." if role else ""
    who = ", ".join(filter(None, (finding.attacker, finding.about)))
    return f"{who} ({_knows(finding, roles)}) gets {_to_the_most(finding)}{compared}.{acceptable}"


def _knows(finding: Finding, roles: Mapping[str, Role]) -> str:
    role = roles.get(finding.attacker)
    return role.knows if role else finding.about or finding.attacker


NOT_KNOWN = "-"


@dataclass(frozen=True)
class Reached:
    """The risk that is nearest to its limit, what it was beforehand, and the limit; no limit where there is none."""

    before: str
    after: str
    limit: str


def _reached(finding: Finding, told: Callable[[float], str]) -> Reached:
    bound = finding.stated if finding.promised is None else finding.promised
    before, worst, limit = finding.baseline, finding.worst, bound
    if finding.nearest is not None:
        before, worst, limit = finding.nearest.prior, finding.nearest.risk, finding.nearest.bound
    at_least = ">=" if finding.direction == "at least" else ""
    sign = "<=" if finding.is_bound and not at_least else ""
    return Reached(
        NOT_KNOWN if before is None else told(before),
        f"{sign}{told(worst)}",
        "" if limit is None else f"{at_least}{told(limit)}",
    )
