"""The audit: every attacker that applies to a release is let loose on it, and what analysts keep is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sfumato.analyst.release import Release
from sfumato.auditor.attackers import ATTACKERS
from sfumato.auditor.attackers.reuse import check_earlier, made_alike
from sfumato.auditor.evidence import Evidence
from sfumato.auditor.foreign.audit import audit_published
from sfumato.auditor.knowledge import known_records
from sfumato.auditor.record import Audit, Earlier, Progress, no_progress, run
from sfumato.auditor.utility.measuring import measure
from sfumato.errors import UsageError
from sfumato.publisher.table import Table


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
    if earlier is not None:  # also where its words are not compared, as in groups
        check_earlier(release, earlier)
    known_records(evidence)  # a list that does not fit is an error, also where known members move nothing
    manifest = release.manifest
    steps = {each.name: each.step(evidence) for each in ATTACKERS if each.concerns(manifest)}
    found = run(steps, evidence, measure, progress)
    return Audit(
        release_id=manifest.release_id,
        published=str(release.folder),
        method=manifest.method,
        assurance=manifest.assurance,
        guarantee=manifest.guarantee.sentence,
        rows=evidence.rows,
        published_rows=manifest.data.rows,
        shuffled=not evidence.is_aligned,
        seed=seed,
        **found,
        notes=(*_notes(evidence), *evidence.notes),
        earlier=None if earlier is None else Earlier(earlier.manifest.release_id, made_alike(release, earlier)),
    )


def _notes(evidence: Evidence) -> Iterator[str]:
    if evidence.manifest.data.shuffled:
        yield "Rows were shuffled: which row is whose is not known, and figures about rows are expected ones."
    if evidence.one_of_each_person:
        yield "One row of each person was drawn, and which ones is not known: figures are over all rows of the table."
    if evidence.manifest.status != "release":
        yield "The release was drawn from a test seed, which anyone can repeat: it is not for release."
