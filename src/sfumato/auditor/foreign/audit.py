"""The audit of a table that another tool published: generalized, suppressed or perturbed, with a policy for the roles.

The attacker knows people's quasi-identifiers and what labels mean. If the policy asks for an l, 1/l is what the table
is held to.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from sfumato.auditor.foreign.attackers import ATTACKERS
from sfumato.auditor.foreign.evidence import ForeignEvidence
from sfumato.auditor.record import Audit
from sfumato.auditor.running import Progress, now, run, software
from sfumato.auditor.utility.usefulness import TableUtility, Utility
from sfumato.engines.embedded.sources import open_source
from sfumato.publisher.table import Table

OTHER = "other"
BY_OTHERS = "Nothing is promised: another tool made this table."


def audit_published(
    table: Table,
    published: Any,
    priors: tuple[Path, ...],
    known: Any,
    external: Any,
    seed: int | None,
    progress: Progress,
) -> Audit:
    """Audit a table that another tool published: see `audit`."""
    source = open_source(published, table.policy.input)
    evidence = ForeignEvidence(table, source, priors, known, external)
    found, reasons, seconds = run(ATTACKERS, evidence, progress)
    progress("utility", len(ATTACKERS), len(ATTACKERS) + 1)
    start = perf_counter()
    utility = _measured(evidence)
    seconds["utility"] = perf_counter() - start
    people, rows = int(evidence.linked.people.sizes.sum()), int(evidence.linked.classes.sizes.sum())
    ell = evidence.ell
    return Audit(
        created=now(),
        software=software(),
        release_id=None,
        published=source.description,
        method=OTHER,
        assurance=None,
        guarantee="" if ell is None else f"l = {ell}: no value is believed in by more than 1/{ell}.",
        rows=people,
        published_rows=rows,
        shuffled=True,
        seed=seed,
        findings=tuple(replace(finding, why_not_covered=BY_OTHERS) for finding in found),
        not_applicable=tuple(reasons),
        utility=utility,
        seconds=seconds,
        notes=("Labels are read as docs/auditor.md says; a label that is not understood stands for itself.",),
    )


def _measured(evidence: ForeignEvidence) -> Utility:
    """Return how near the published sensitive values come to the true ones, as they are."""
    people, classes = evidence.linked.people, evidence.linked.classes
    true, shown = (c.counts.sum(axis=0).astype(np.float64) for c in (people, classes))
    share = int(classes.sizes.sum()) / int(people.sizes.sum())
    if not shown.any():
        return Utility(published_share=share, notes=("No published row shows a sensitive value.",))
    table = TableUtility.of(tuple(evidence.table.schema.names("sensitive")), true, shown, shown, np.nan)
    return Utility(
        published_share=share,
        aggregate_utility=1 - table.l1 / true.size,
        tables=(table,),
        notes=("Published values are taken as they are; the tool that published them may offer estimates.",),
    )
