"""The audit as a dated record: what attackers reached beside what was promised, and what is left for analysts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from textwrap import fill
from typing import Any

from sfumato.audit.finding import Finding, Verdict
from sfumato.audit.usefulness import Utility
from sfumato.text import WIDTH, indented, table

AUDIT_VERSION = 1
GRAVEST: tuple[Verdict, ...] = ("above the bound", "not covered by the guarantee", "within the bound")
SHOWN = 3
"""Exposed groups of each finding that are told in words."""


@dataclass(frozen=True)
class NotApplicable:
    """An attacker that was not let loose, and why."""

    attacker: str
    reason: str


@dataclass(frozen=True)
class Audit:
    """What all attackers found in one release. Private: it holds figures of the true table."""

    created: str
    software: str
    release_id: str | None
    published: str  # the folder or file
    method: str
    assurance: str | None
    guarantee: str
    rows: int
    published_rows: int
    shuffled: bool
    seed: int | None
    findings: tuple[Finding, ...]
    not_applicable: tuple[NotApplicable, ...]
    utility: Utility
    seconds: Mapping[str, float]
    notes: tuple[str, ...] = ()
    audit_version: int = AUDIT_VERSION

    @property
    def worst_verdict(self) -> Verdict:
        """The gravest verdict of all findings."""
        found = {finding.verdict for finding in self.findings}
        return next(verdict for verdict in GRAVEST if verdict in found or verdict == GRAVEST[-1])

    @property
    def holds(self) -> bool:
        """Whether nothing is above the bound. That says nothing of attackers whom the guarantee does not cover."""
        return self.worst_verdict != "above the bound"

    def to_dict(self) -> dict[str, Any]:
        """Return the audit as JSON-ready values. Keys: docs/json.md."""
        return {
            "audit_version": self.audit_version,
            "created": self.created,
            "software": self.software,
            "release_id": self.release_id,
            "published": self.published,
            "method": self.method,
            "assurance": self.assurance,
            "guarantee": self.guarantee,
            "rows": self.rows,
            "published_rows": self.published_rows,
            "shuffled": self.shuffled,
            "seed": self.seed,
            "worst_verdict": self.worst_verdict,
            "holds": self.holds,
            "findings": [_listed(finding) for finding in self.findings],
            "not_applicable": [asdict(each) for each in self.not_applicable],
            "utility": self.utility.to_dict(),
            "seconds": dict(self.seconds),
            "notes": list(self.notes),
        }

    def explain(self) -> str:
        """Return the audit in plain words: all findings in a table, then one by one, then what analysts keep."""
        parts = [
            "\n".join(self._head()),
            table(COLUMNS, [_row(finding) for finding in self.findings], [False, False, *[True] * 4]),
            *("\n".join(_told(finding)) for finding in self.findings),
            "\n".join(self._not_tried()),
            self.utility.explain(),
            "\n".join(self.notes),
        ]
        return "\n\n".join(part for part in parts if part)

    def _not_tried(self) -> Iterator[str]:
        if self.not_applicable:
            yield "Does not apply, because:"
            yield from (indented(f"{each.attacker}: {each.reason}") for each in self.not_applicable)

    def _head(self) -> Iterator[str]:
        how = self.method if self.assurance is None else f"{self.method}, {self.assurance}"
        yield f"{self.published}: {how}; {self.published_rows:,} rows of {self.rows:,} records."
        if self.guarantee:
            yield fill(f"{'Asked for' if self.release_id is None else 'Guaranteed'}: {self.guarantee}", WIDTH)
        above = sum(finding.verdict == "above the bound" for finding in self.findings)
        beyond = sum(finding.verdict == "not covered by the guarantee" for finding in self.findings)
        yield (
            f"{len(self.findings)} attacks: {above} above the bound, {len(self.findings) - above - beyond} within it, "
            f"{beyond} that the guarantee does not cover."
        )


# --- in words ---------------------------------------------------------------------------------------------------------

COLUMNS = ("attacker", "verdict", "bound", "worst", "mean", "at risk")


def _row(finding: Finding) -> list[str]:
    mean = "-" if finding.mean is None else f"{finding.mean:.4g}"
    at_risk = f"{finding.at_risk:,} of {finding.records:,}"
    return [_name(finding), finding.verdict, _bound(finding), _worst(finding), mean, at_risk]


def _worst(finding: Finding) -> str:
    return f"<= {finding.worst:.4g}" if finding.is_bound else f"{finding.worst:.4g}"


def _name(finding: Finding) -> str:
    return f"{finding.attacker} ({finding.about})" if finding.about else finding.attacker


def _bound(finding: Finding) -> str:
    sign = "" if finding.direction == "at most" else ">= "
    if finding.promised is not None:
        return f"{sign}{finding.promised:.4g}"
    return "-" if finding.stated is None else f"({sign}{finding.stated:.4g})"


def _told(finding: Finding) -> Iterator[str]:
    yield f"{_name(finding)}: {finding.verdict}"
    yield indented(f"{finding.question} {finding.assumption}")
    yield indented(f"{_promise(finding)} Measured: {_measured(finding)}.")
    if finding.exposed:
        groups = "; ".join(f"{group.who} ({group.risk:.4g}, {group.records:,})" for group in finding.exposed[:SHOWN])
        yield indented(f"Most exposed (risk, records): {groups}.")
    if finding.remark:
        yield indented(finding.remark)


def _promise(finding: Finding) -> str:
    if finding.promised is not None:
        return f"Promised: {finding.direction} {finding.promised:.4g}."
    if finding.stated is not None:
        return f"Nothing is promised; {finding.stated:.4g} is the bound for weaker attackers."
    return "Nothing is promised."


def _measured(finding: Finding) -> str:
    text = f"worst {_worst(finding)}"
    if finding.mean is not None:
        text += f", mean {finding.mean:.4g}"
    if finding.baseline is not None:
        text += f", without the release {finding.baseline:.4g}"
    if finding.interval is not None:
        text += f", confidence limits {finding.interval[0]:.4g} to {finding.interval[1]:.4g}"
    return f"{text} ({finding.measured})"


def _listed(finding: Finding) -> dict[str, Any]:
    bounded = finding.promised is not None or finding.stated is not None
    interval = None if finding.interval is None else list(finding.interval)
    return {**finding.to_dict(), "excess": finding.excess if bounded else None, "interval": interval}
