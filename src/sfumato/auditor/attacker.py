"""Who attacks a release. An attacker is one file of `attackers/`, which names it `ATTACKER`; nothing else lists it.

kinds of release    randomized   the sensitive values, by one mechanism
                    several      sensitive columns, each by a mechanism of its own
                    response     quasi-identifiers too, column by column
                    groups       values as they are, in groups
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sfumato.auditor.evidence import DoesNotApply, Evidence, NotMeasured
from sfumato.auditor.finding import NOTHING_PROMISED, Finding
from sfumato.release.manifest import Manifest, ReleaseKind

Attack = Callable[[Evidence], Iterable[Finding]]

KINDS: tuple[ReleaseKind, ...] = ("randomized", "several", "response", "groups")
LAST = 100  # the place of an attacker that states none; several such go by their names

ONE_MATRIX = "the sensitive values were not randomized by one mechanism"
IN_GROUPS = "values are published as they are, in groups"
NO_GROUPS = "no groups are published"
NO_SUB_TABLES = "there are no sub-tables"
ASK = "Acceptable if nobody who gets the release can know this, or if it would do no harm."


class Listed(NamedTuple):
    """A line of a public page, which is made from the manifest alone: where it stands, and whether the guarantee is
    about this attacker."""

    line: int
    covered: bool


def listed(
    line: int, covered: bool | Callable[[Manifest], bool], *kinds: ReleaseKind
) -> Callable[[Manifest], Listed | None]:
    """Return what lists a role on public pages of releases of these kinds; without any, of all."""

    def line_of(manifest: Manifest) -> Listed | None:
        kind: ReleaseKind = "randomized" if manifest.kind == "several" else manifest.kind
        if kinds and kind not in kinds and manifest.kind not in kinds:
            return None
        return Listed(line, covered(manifest) if callable(covered) else covered)

    return line_of


@dataclass(frozen=True, kw_only=True)
class Role:
    """A name that findings go by, and what is known of it without any release."""

    name: str
    knows: str  # what it knows or does, in words without figures
    why_not_covered: str = NOTHING_PROMISED  # where the guarantee is not about it, and a finding has no own reason
    acceptable: str = ASK  # then: when that can be accepted, and when not; for whoever signs
    again: str = ""  # the same where an earlier release of the same people is there, if that makes it another question
    public: Callable[[Manifest], Listed | None] = lambda manifest: None  # None: not on public pages of such a release

    def acceptable_beside(self, earlier: object) -> str:
        """Return when it can be accepted, beside an earlier release or without one (None)."""
        return self.again if self.again and earlier is not None else self.acceptable


@dataclass(frozen=True, kw_only=True)
class Attacker(Role):
    """Someone with some knowledge, who draws conclusions from a release: what it does to each kind of release.

    `on` has how it attacks a kind of release, or why it has nothing to do there. Where columns have mechanisms of their
    own, and `on` says nothing of it, it attacks one column after the other as if that alone were randomized. `promised`
    is the part of that which the guarantee is about, where a comparison of methods measures it. `roles` are the names
    of its findings, if not its own. `place` is where it stands in an audit. `concerns` tells the releases that it is
    about: audits of others do not mention it.
    """

    on: Mapping[ReleaseKind, Attack | str]
    promised: Mapping[ReleaseKind, Attack] = field(default_factory=dict)
    roles: tuple[Role, ...] = ()
    place: int = LAST
    concerns: Callable[[Manifest], bool] = lambda manifest: True

    def step(self, evidence: Evidence) -> Attack | str:
        """Return its attack on such a release, or why there is none."""
        why = self._on(evidence.kind)
        return f"{why}." if isinstance(why, str) else self.attack

    def attacks(self, kind: ReleaseKind) -> bool:
        """Whether it has something to do with such releases."""
        return not isinstance(self._on(kind), str)

    def _on(self, kind: ReleaseKind) -> Attack | str:
        if kind in self.on:
            return self.on[kind]
        alone = self.on["randomized"]
        return alone if isinstance(alone, str) else by_mechanism(alone)

    def kept(self, kind: ReleaseKind) -> Attack | None:
        """Return its part that the guarantee of a kind of release is about, if there is one."""
        if kind in self.promised or kind in self.on or "randomized" not in self.promised:
            return self.promised.get(kind)
        return by_mechanism(self.promised["randomized"])

    def attack(self, evidence: Evidence) -> Iterator[Finding]:
        """Yield what it finds; `DoesNotApply` comes from what the evidence lacks."""
        attack = self._on(evidence.kind)
        assert not isinstance(attack, str)
        why = {role.name: role.why_not_covered for role in (self, *self.roles)}
        for finding in attack(evidence):
            own = finding.why_not_covered or finding.promised is not None
            yield finding if own else replace(finding, why_not_covered=why[finding.attacker])


def by_mechanism(attack: Attack) -> Attack:
    """Return an attack on each of several mechanisms by itself; its findings are named by the columns."""

    def attacked(evidence: Evidence) -> Iterator[Finding]:
        found, why = False, None
        for part in evidence.by_mechanism:
            try:
                for finding in attack(part):
                    found = True
                    yield finding.named(", ".join(filter(None, (part.mechanism.domain.name, finding.about))))
            except DoesNotApply as reason:  # it may apply to another column
                why = reason if why is None or isinstance(reason, NotMeasured) else why
        if why is not None and (isinstance(why, NotMeasured) or not found):
            raise why

    return attacked


def everywhere(attack: Attack) -> dict[ReleaseKind, Attack | str]:
    return dict.fromkeys(KINDS, attack)
