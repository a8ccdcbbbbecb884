"""The audit: every attacker that applies to a release is let loose on it, and what analysts keep is measured."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from sfumato.audit.attacks import common, groups, randomized, registers, response
from sfumato.audit.case import Case, DoesNotApply
from sfumato.audit.finding import Finding
from sfumato.audit.measuring import measure
from sfumato.audit.record import Audit, NotApplicable
from sfumato.release import Release
from sfumato.table import Table

Kind = Literal["randomized", "response", "groups"]
Attack = Callable[[Case], Iterator[Finding]]
Progress = Callable[[str, int, int], None]
"""Told which step begins, how many are done, and how many there are."""

ONE_MATRIX = "the sensitive values were not randomized by one mechanism"
IN_GROUPS = "values are published as they are, in groups"
NO_GROUPS = "no groups are published"
SECOND = "what a second release would tell is stated in the manifest, and not measured"

ATTACKERS: dict[str, dict[Kind, Attack | str]] = {
    "posterior": {
        "randomized": randomized.posterior,
        "response": "the risk of that name is among those of linking",
        "groups": IN_GROUPS,
    },
    "frequencies": {"randomized": randomized.frequencies, "response": ONE_MATRIX, "groups": IN_GROUPS},
    "background": {
        "randomized": randomized.background,
        "response": "quasi-identifiers are randomized: who knows a person's true ones is among those of linking",
        "groups": groups.background,
    },
    "composition": {"randomized": randomized.composition, "response": ONE_MATRIX, "groups": IN_GROUPS},
    "corruption": {
        "randomized": randomized.corruption,
        "response": response.corruption,
        "groups": groups.corruption,
    },
    "averaging": {"randomized": randomized.averaging, "response": SECOND, "groups": SECOND},
    "linking": {
        "randomized": "quasi-identifiers are not randomized: a register (--external) is linked with them",
        "response": response.linking,
        "groups": "quasi-identifiers are not randomized: a register (--external) is linked with them",
    },
    "eligibility": {"randomized": NO_GROUPS, "response": NO_GROUPS, "groups": groups.eligibility},
    "missing": {"randomized": common.missing, "response": common.missing, "groups": groups.missing},
    "register": {
        "randomized": registers.of_randomized,
        "response": registers.of_response,
        "groups": registers.of_groups,
    },
    "order": {
        "randomized": common.order_of_randomized,
        "response": common.order_of_response,
        "groups": common.order_of_groups,
    },
    "residue": dict.fromkeys(("randomized", "response", "groups"), common.residue),
}
"""What each attacker does to each kind of release, or why it has nothing to do there."""


def no_progress(step: str, done: int, steps: int) -> None:
    """Ignore progress."""


def audit(
    table: Table,
    release: Release,
    *,
    priors: Sequence[str | Path] = (),
    known: Any = None,
    external: Any = None,
    seed: int | None = None,
    progress: Progress = no_progress,
) -> Audit:
    """Let all attackers loose on a release, given the table that it was made from.

    `priors` are CSV files with Pr(value | attribute set); `known` lists members whose values are known, `external` is a
    register of people: a path, or an object that speaks Arrow. `seed` makes simulations repeatable.
    """
    case = Case(table, release, tuple(map(Path, priors)), known, external, seed)
    case.check()
    kind: Kind = "groups" if release.manifest.groups else "response" if release.manifest.response else "randomized"
    found, reasons, seconds = _run({name: of[kind] for name, of in ATTACKERS.items()}, case, progress)
    progress("utility", len(ATTACKERS), len(ATTACKERS) + 1)
    start = perf_counter()
    utility = measure(case)
    seconds["utility"] = perf_counter() - start
    manifest = release.manifest
    return Audit(
        created=now(),
        software=f"sfumato {version('sfumato')}",
        release_id=manifest.release_id,
        published=str(release.folder),
        method=manifest.method,
        assurance=manifest.assurance,
        guarantee=manifest.guarantee.sentence,
        rows=case.rows,
        published_rows=manifest.data.rows,
        shuffled=not case.is_aligned,
        seed=seed,
        findings=tuple(found),
        not_applicable=tuple(reasons),
        utility=utility,
        seconds=seconds,
        notes=tuple([*_notes(case), *case.notes]),
    )


def _run(
    attackers: dict[str, Attack | str], case: Case, progress: Progress
) -> tuple[list[Finding], list[NotApplicable], dict[str, float]]:
    """Let the attackers loose one after another; who finds nothing to work on says why."""
    found: list[Finding] = []
    reasons: list[NotApplicable] = []
    seconds: dict[str, float] = {}
    for done, (name, attack) in enumerate(attackers.items()):
        if isinstance(attack, str):
            reasons.append(NotApplicable(name, attack + "."))
            continue
        progress(name, done, len(attackers) + 1)
        start = perf_counter()
        try:
            for finding in attack(case):
                found.append(finding)
        except DoesNotApply as problem:
            reasons.append(NotApplicable(name, str(problem)))
        seconds[name] = perf_counter() - start
    return found, reasons, seconds


def _notes(case: Case) -> Iterator[str]:
    if case.manifest.data.shuffled:
        yield "Rows were shuffled: which row is whose is not known, and figures about rows are expected ones."
    if case.one_of_each_person:
        yield "One row of each person was drawn, and which ones is not known: figures are over all rows of the table."
    if case.manifest.status != "release":
        yield "The release was drawn from a test seed, which anyone can repeat: it is not for release."


def now() -> str:
    """Return the time, ISO 8601."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
