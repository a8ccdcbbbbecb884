"""The audit: every attacker that applies to a release is let loose on it, and what analysts keep is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from sfumato.analyst.release import Release
from sfumato.auditor.attackers import (
    columns,
    common,
    dealing,
    drawing,
    groups,
    randomized,
    registers,
    repeated,
    response,
    reuse,
)
from sfumato.auditor.attackers.knowing import known_records
from sfumato.auditor.evidence import Evidence
from sfumato.auditor.foreign.others import audit_published
from sfumato.auditor.record import Audit
from sfumato.auditor.running import Attack, Progress, no_progress, now, run, software
from sfumato.auditor.utility.measuring import measure
from sfumato.errors import UsageError
from sfumato.publisher.table import Table

Kind = Literal["randomized", "response", "groups"]
ONE_MATRIX = "the sensitive values were not randomized by one mechanism"
IN_GROUPS = "values are published as they are, in groups"
NO_GROUPS = "no groups are published"
NO_SUB_TABLES = "there are no sub-tables"

ATTACKERS: dict[str, dict[Kind, Attack[Evidence] | str]] = {
    "draws": {"randomized": drawing.of_randomized, "response": drawing.of_response, "groups": IN_GROUPS},
    "dealing": {"randomized": dealing.of_sub_tables, "response": NO_SUB_TABLES, "groups": dealing.of_groups},
    "posterior": {
        "randomized": randomized.posterior,
        "response": "the risk of that name is among those of linking",
        "groups": groups.posterior,
    },
    "label": {"randomized": randomized.label, "response": NO_SUB_TABLES, "groups": NO_SUB_TABLES},
    "frequencies": {"randomized": randomized.frequencies, "response": ONE_MATRIX, "groups": IN_GROUPS},
    "background": {
        "randomized": randomized.background,
        "response": "quasi-identifiers are randomized: who knows a person's true ones is among those of linking",
        "groups": groups.background,
    },
    "composition": {"randomized": randomized.composition, "response": ONE_MATRIX, "groups": IN_GROUPS},
    "column": {
        "randomized": columns.of_randomized,
        "response": "the limit is on combinations, and the plan tells the risk of each column alone",
        "groups": "one column is sensitive",
    },
    "corruption": {
        "randomized": randomized.corruption,
        "response": response.corruption,
        "groups": groups.corruption,
    },
    "averaging": {
        "randomized": randomized.averaging,
        "response": response.averaging,
        "groups": repeated.averaging,
    },
    "reuse": {"randomized": reuse.reuse, "response": reuse.reuse, "groups": IN_GROUPS},
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


def audit(
    table: Table,
    release: Release | Any,
    *,
    priors: Sequence[str | Path] = (),
    known: Any = None,
    external: Any = None,
    earlier: Release | None = None,
    seed: int | None = None,
    progress: Progress = no_progress,
) -> Audit:
    """Let all attackers loose on a release, given the table that it was made from.

    `release` may also be a table that another tool published: a path, or an object that speaks Arrow. `priors` are CSV
    files with Pr(value | attribute set); `known` lists members whose values are known, `external` is a register of
    people: both as a path, or as an object that speaks Arrow. `earlier` is another release of the same people, which
    may have been drawn with the same words. `seed` makes simulations repeatable.
    """
    if not isinstance(release, Release):
        if earlier is not None:
            raise UsageError(
                "An earlier release is compared with a release, not with another tool's table.", "Leave it out."
            )
        return audit_published(table, release, tuple(map(Path, priors)), known, external, seed, progress)
    evidence = Evidence(table, release, tuple(map(Path, priors)), known, external, seed, earlier)
    evidence.check()
    known_records(evidence)  # a list that does not fit is an error, also where known members move nothing
    kind: Kind = "groups" if release.manifest.groups else "response" if release.manifest.response else "randomized"
    found, reasons, seconds = run({name: of[kind] for name, of in ATTACKERS.items()}, evidence, progress)
    progress("utility", len(ATTACKERS), len(ATTACKERS) + 1)
    start = perf_counter()
    utility = measure(evidence)
    seconds["utility"] = perf_counter() - start
    manifest = release.manifest
    return Audit(
        created=now(),
        software=software(),
        release_id=manifest.release_id,
        published=str(release.folder),
        method=manifest.method,
        assurance=manifest.assurance,
        guarantee=manifest.guarantee.sentence,
        rows=evidence.rows,
        published_rows=manifest.data.rows,
        shuffled=not evidence.is_aligned,
        seed=seed,
        findings=tuple(found),
        not_applicable=tuple(reasons),
        utility=utility,
        seconds=seconds,
        notes=(*_notes(evidence), *evidence.notes),
    )


def _notes(evidence: Evidence) -> Iterator[str]:
    if evidence.manifest.data.shuffled:
        yield "Rows were shuffled: which row is whose is not known, and figures about rows are expected ones."
    if evidence.one_of_each_person:
        yield "One row of each person was drawn, and which ones is not known: figures are over all rows of the table."
    if evidence.manifest.status != "release":
        yield "The release was drawn from a test seed, which anyone can repeat: it is not for release."
