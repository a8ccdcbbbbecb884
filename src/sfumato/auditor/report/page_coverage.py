"""Which attackers a public page lists, and whom of them the guarantee is about: from the manifest alone.

An audit of the table knows more: that nobody was left out, that no value has a share which the requirement speaks of.
Such things are of the table, so a public page does not depend on them.
"""

from __future__ import annotations

from sfumato.auditor.attackers import ATTACKERS
from sfumato.release.manifest import Manifest


def coverage(manifest: Manifest) -> dict[str, bool]:
    """Return the attackers on a release of this kind, and whether the guarantee is about each."""
    roles = [role for attacker in ATTACKERS for role in (attacker, *attacker.roles)]
    listed = [(line, role.name) for role in roles if (line := role.public(manifest)) is not None]
    return {name: line.covered for line, name in sorted(listed)}
