"""The attacker who sees two releases of the same people, with fresh noise, and puts together what both tell."""

from __future__ import annotations

from collections.abc import Iterator

from sfumato.auditor.attacker import Attacker, Listed
from sfumato.auditor.attackers.averaging_groups import of_groups
from sfumato.auditor.attackers.averaging_matrices import averaging_findings
from sfumato.auditor.attackers.averaging_response import of_response
from sfumato.auditor.evidence import Evidence
from sfumato.auditor.finding import Finding
from sfumato.auditor.sub_tables import compositions


def of_randomized(evidence: Evidence) -> Iterator[Finding]:
    """Who sees two releases of the table."""
    keyed = evidence.table.policy.record_key is not None
    yield from averaging_findings(evidence.mechanism, evidence.once(compositions).quotas, keyed, seed=evidence.seed)


ATTACKER = Attacker(
    name="averaging",
    knows="sees a second release of the same table",
    why_not_covered="The guarantee is about one release.",
    on={"randomized": of_randomized, "response": of_response, "groups": of_groups},
    public=lambda manifest: Listed(11, covered=False),
    place=10,
)
