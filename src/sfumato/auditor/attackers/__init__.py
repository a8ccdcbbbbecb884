"""The attackers: every module here that has an `ATTACKER` is one. A new one is a new file, and nothing else."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module

from sfumato.auditor.attacker import Attacker, Role
from sfumato.release.manifest import ReleaseKind


def _found() -> Iterator[Attacker]:
    for module in pkgutil.iter_modules(__path__):
        attacker = getattr(import_module(f"{__name__}.{module.name}"), "ATTACKER", None)
        if isinstance(attacker, Attacker):
            yield attacker


ATTACKERS: tuple[Attacker, ...] = tuple(sorted(_found(), key=lambda attacker: (attacker.place, attacker.name)))
"""All attackers, in the order of an audit."""
ROLES: dict[str, Role] = {role.name: role for attacker in ATTACKERS for role in (*attacker.roles, attacker)}
"""All names that findings go by."""


def roles_on(kind: ReleaseKind) -> dict[str, Role]:
    """Return the names that findings about a kind of release go by: one name may stand for another attack elsewhere."""
    own = {role.name: role for each in ATTACKERS if each.attacks(kind) for role in (*each.roles, each)}
    return ROLES | own
