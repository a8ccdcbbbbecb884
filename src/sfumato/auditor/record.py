"""The audit as a dated record: what attackers reached beside what was promised, and what is left for analysts."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any, TypeVar

from sfumato.auditor.evidence import DoesNotApply, NotMeasured
from sfumato.auditor.finding import Finding, Verdict
from sfumato.auditor.utility.measuring import Utility
from sfumato.show.results import Drawn, Private
from sfumato.show.words import percent, share
from sfumato.values.software import software
from sfumato.values.text import indented, table

AUDIT_VERSION = 1
GRAVEST: tuple[Verdict, ...] = ("above the bound", "not covered by the guarantee", "within the bound")
SHOWN = 3  # exposed groups of each finding that are told in words
Subject = TypeVar("Subject")
Attack = Callable[[Subject], Iterable[Finding]]
Progress = Callable[[str, float, int], None]  # told which step begins, how many are done, and how many there are


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class NotTried:
    """An attacker of whom there is no finding, and why."""

    attacker: str
    reason: str


@dataclass(frozen=True)
class Earlier:
    """An earlier release of the same people."""

    release_id: str
    made_alike: bool
    """Whether by the same matrices, and with or without a record key like this one: what two releases made like this
    one tell is then what these two tell."""


@dataclass(frozen=True, repr=False, kw_only=True)
class Audit(Private, Drawn):
    """What all attackers found in one release. Private: it holds figures of the true table."""

    audit_version: int = AUDIT_VERSION
    created: str = field(default_factory=now)
    software: str = field(default_factory=software)
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
    not_applicable: tuple[NotTried, ...]
    not_measured: tuple[NotTried, ...] = ()
    """They could attack, and how far they get was not computed: count them as not covered."""
    utility: Utility
    seconds: Mapping[str, float]
    notes: tuple[str, ...] = ()
    earlier: Earlier | None = None  # the earlier release that was given

    @property
    def worst_verdict(self) -> Verdict:
        found = {finding.verdict for finding in self.findings}
        return next(verdict for verdict in GRAVEST if verdict in found or verdict == GRAVEST[-1])

    @property
    def holds(self) -> bool:
        """Whether nothing is above the bound. That says nothing of attackers whom the guarantee does not cover."""
        return self.worst_verdict != "above the bound"

    def to_dict(self) -> dict[str, Any]:
        """Return the audit as JSON-ready values. Keys: docs/reference/json.md."""
        findings = [finding.to_dict() for finding in self.findings]
        parts: dict[str, Any] = {"findings": findings, "not_applicable": [asdict(each) for each in self.not_applicable]}
        parts |= {"not_measured": [asdict(each) for each in self.not_measured], "utility": self.utility.to_dict()}
        parts |= {"seconds": dict(self.seconds), "notes": list(self.notes)}
        parts |= {"earlier": self.earlier and asdict(self.earlier)}
        stated = {name: value for name, value in vars(self).items() if name not in parts}
        return {**stated, "worst_verdict": self.worst_verdict, "holds": self.holds, **parts}

    def to_arrow(self) -> Any:
        """Return a row for each finding: the verdict, the largest risk and the bound, as in `to_dict`."""
        return _findings_table(self.findings)

    def _drawing(self, title: str) -> dict[str, Any]:
        from sfumato.show.plots import points

        table = _findings_table(self.risks)
        named = table.set_column(0, "attacker", [list(map(_name, self.risks))])
        return points(named, ("attacker",), ("worst", "promised"), title or repr(self))

    def __repr__(self) -> str:
        return f"Audit({self.published!r}, {self.method}, {len(self.findings)} findings; private)"

    def explain(self) -> str:
        """Return the audit in plain words: all findings in a table, then one by one, then what analysts keep."""
        parts = [
            "\n".join(self._head()),
            "\n".join(self._made_as_stated()),
            table(COLUMNS, [_row(finding) for finding in self.risks], [False, False, *[True] * 5]),
            "\n".join(_key(self.risks)),
            *("\n".join(_told(finding)) for finding in self.findings),
            _not_tried("Not measured, so count these as not covered:", self.not_measured),
            _not_tried("Does not apply, because:", self.not_applicable),
            self.utility.explain(),
            "\n".join(self.notes),
        ]
        return "\n\n".join(part for part in parts if part)

    def _head(self) -> Iterator[str]:
        how = self.method if self.assurance is None else f"{self.method}, {self.assurance}"
        yield f"{self.published}: {how}; {self.published_rows:,} rows of {self.rows:,} records."
        if self.guarantee:
            yield f"{'Asked for' if self.release_id is None else 'Guaranteed'}: {self.guarantee}"
        above = sum(finding.verdict == "above the bound" for finding in self.risks)
        beyond = sum(finding.verdict == "not covered by the guarantee" for finding in self.risks)
        left = f" {named_in(self.not_measured)}: not measured, so not covered either." if self.not_measured else ""
        yield (
            f"{len(self.risks)} attacks: {above} above the bound, {len(self.risks) - above - beyond} within it, "
            f"{beyond} that the guarantee does not cover.{left}"
        )

    def _made_as_stated(self) -> Iterator[str]:
        """Tell whether the release was made as it says, which all risks believe."""
        if self.checks:
            wrong = [finding for finding in self.checks if finding.verdict == "above the bound"]
            names = ", ".join(map(_name, wrong or self.checks))
            told = f"NOT MADE AS IT SAYS: beyond chance in {names}." if wrong else f"Nothing beyond chance in {names}."
            yield f"Was it made as it says? {told}"

    @property
    def checks(self) -> tuple[Finding, ...]:
        """The findings of whether the release was made as it says: they measure no risk."""
        return tuple(finding for finding in self.findings if finding.scale == "chance" and finding.promised is not None)

    @property
    def as_stated(self) -> tuple[Finding, ...]:
        """The findings of what chance does not explain and need not: the release says that it was made so."""
        return tuple(finding for finding in self.findings if finding.scale == "chance" and finding.promised is None)

    @property
    def risks(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.scale == "risk")


# --- in words ---------------------------------------------------------------------------------------------------------

COLUMNS = ("attacker", "promise", "worst", "its bound", "nearest", "mean", "at risk")
SHORT: dict[Verdict, str] = {
    "above the bound": "BROKEN",
    "within the bound": "kept",
    "not covered by the guarantee": "not covered",
}


_NOT_GIVEN = re.compile(r"no (.+) was given(?: \((--[a-z]+)\))?\.")


def not_given(reasons: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield what attackers were not tried for want of, and with which option it is given; "" where none is told.

    >>> list(not_given(["there are no sub-tables.", "no register was given (--external)."]))
    [('register', '--external')]
    """
    for reason in reasons:
        if found := _NOT_GIVEN.match(reason):
            yield found[1], found[2] or ""


def named_in(tried: Sequence[NotTried]) -> str:
    return ", ".join(each.attacker for each in tried)


def _not_tried(title: str, tried: Sequence[NotTried]) -> str:
    return "\n".join([title, *(indented(f"{each.attacker}: {each.reason}") for each in tried)]) if tried else ""


def _row(finding: Finding) -> list[str]:
    mean, near = "-" if finding.mean is None else share(finding.mean), finding.nearest
    nearest = "-" if near is None else f"{share(near.risk)} of {share(near.bound)}"
    at_risk = f"{finding.at_risk:,} of {finding.records:,}"
    return [_name(finding), SHORT[finding.verdict], _worst(finding, share), _bound(finding), nearest, mean, at_risk]


def _key(found: Sequence[Finding]) -> Iterator[str]:
    yield "Worst: how sure someone can be of a value, or how often they are right, beside its own bound."
    if any(finding.stated is not None for finding in found):
        yield "(25.0%): nothing is promised here; shown for comparison."
    if any(finding.why_bound for finding in found):
        yield "*: someone was surer beforehand than the promise starts from, so their bound is higher."
    if any(finding.nearest for finding in found):
        yield "Nearest: another one, which comes nearest to its own bound, or is furthest beyond it."


def _worst(finding: Finding, told: Callable[[float], str] = percent) -> str:
    return f"<= {told(finding.worst)}" if finding.is_bound else told(finding.worst)


def _name(finding: Finding) -> str:
    return f"{finding.attacker} ({finding.about})" if finding.about else finding.attacker


def _bound(finding: Finding) -> str:
    sign, star = "" if finding.direction == "at most" else ">= ", "*" if finding.why_bound else ""
    if finding.promised is not None:
        return f"{sign}{share(finding.promised)}{star}"
    return "-" if finding.stated is None else f"({sign}{share(finding.stated)}{star})"


def _told(finding: Finding) -> Iterator[str]:
    yield f"{_name(finding)}: {finding.verdict}"
    yield indented(f"{finding.question} {finding.assumption}")
    yield indented(f"Measured: {_measured(finding)}.")
    yield indented(_promise(finding))
    if near := finding.nearest:
        prior = "" if near.prior is None else f", believed by {percent(near.prior)} beforehand"
        yield indented(f"Nearest to its own bound: {near.who}{prior}: {percent(near.risk)} of {percent(near.bound)}.")
    if finding.scale == "risk" and finding.promised is not None and not finding.at_risk:
        yield indented("No record is at risk: none is beyond its own bound.")
    if finding.exposed:
        groups = "; ".join(
            f"{group.who} ({percent(group.risk)}, {group.records:,})" for group in finding.exposed[:SHOWN]
        )
        yield indented(f"Largest (risk, records): {groups}.")
    if finding.remark:
        yield indented(finding.remark)


def _promise(finding: Finding) -> str:
    if finding.scale == "chance":
        allowed = finding.stated if finding.promised is None else finding.promised
        assert allowed is not None  # what chance allows is always known: promised, or for comparison
        return f"Chance allows {finding.direction} {percent(allowed)}. {finding.reason}".strip()
    if finding.promised is not None:
        return f"Promised of it: {finding.direction} {percent(finding.promised)}. {finding.why_bound}".strip()
    reason = f"Nothing is promised. {finding.reason}"
    if finding.stated is not None:
        return f"{reason} For comparison: {finding.direction} {percent(finding.stated)}. {finding.why_bound}".strip()
    return reason


def _measured(finding: Finding) -> str:
    who = f" ({finding.who})" if finding.who else ""
    text = f"worst {_worst(finding)}{who}"
    if finding.mean is not None:
        text += f", mean {percent(finding.mean)}"
    if finding.baseline is not None:
        text += f", without the release {percent(finding.baseline)}"
    if finding.interval is not None:
        text += f", confidence limits {percent(finding.interval[0])} to {percent(finding.interval[1])}"
    return f"{text} ({finding.measured})"


def _findings_table(found: Sequence[Finding]) -> Any:
    import pyarrow as pa

    words, counts = ("attacker", "about", "verdict"), ("records", "at_risk")
    risks = ("worst", "promised", "stated", "baseline", "mean")
    kinds = dict.fromkeys(words, pa.string()) | dict.fromkeys(risks, pa.float64()) | dict.fromkeys(counts, pa.int64())
    return pa.table({name: pa.array([getattr(f, name) for f in found], kind) for name, kind in kinds.items()})


# --- how it is made ---------------------------------------------------------------------------------------------------


def no_progress(step: str, done: float, steps: int) -> None:
    """Ignore progress."""


def run(
    attackers: Mapping[str, Attack[Subject] | str],
    subject: Subject,
    measure: Callable[[Subject], Utility],
    progress: Progress,
) -> dict[str, Any]:
    """Let the attackers loose, then measure the utility; return what an audit has of that.

    Of an attacker that does not apply, or was not measured, the reason stands in its place.
    """
    found: list[Finding] = []
    not_applicable: list[NotTried] = []
    not_measured: list[NotTried] = []
    seconds: dict[str, float] = {}
    for done, (name, attack) in enumerate(attackers.items()):
        if isinstance(attack, str):
            not_applicable.append(NotTried(name, attack))
            continue
        progress(name, done, len(attackers) + 1)
        start = perf_counter()
        try:
            for finding in attack(subject):  # what was found before something did not apply stays
                found.append(finding)
        except DoesNotApply as problem:
            reasons = not_measured if isinstance(problem, NotMeasured) else not_applicable
            reasons.append(NotTried(name, str(problem)))
        seconds[name] = perf_counter() - start
    progress("utility", len(attackers), len(attackers) + 1)
    start = perf_counter()
    utility = measure(subject)
    seconds["utility"] = perf_counter() - start
    untried = {"not_applicable": tuple(not_applicable), "not_measured": tuple(not_measured)}
    return {"findings": tuple(found), **untried, "utility": utility, "seconds": seconds}
