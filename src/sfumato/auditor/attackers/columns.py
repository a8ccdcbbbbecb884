"""Attackers on one of several sensitive columns: methods bound combinations of them, not each column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sfumato.auditor.attackers.knowing import MOST_SHARES
from sfumato.auditor.attackers.randomized import MOST_VALUES, dealt
from sfumato.auditor.evidence import DoesNotApply, Evidence, Ints, Signatures
from sfumato.auditor.finding import NOT_COVERED, Finding
from sfumato.auditor.single_columns import (
    ColumnView,
    column_finding,
    column_views,
    known_composition,
    known_shares,
    worst_prior_findings,
)

SMALL_DOMAIN = "small-domain"
ONE_COLUMN = "one column is sensitive, so the other attackers look at it."


def of_randomized(evidence: Evidence) -> Iterator[Finding]:
    """One column of several that were randomized together."""
    mechanism = evidence.mechanism
    held = np.bincount(evidence.true, minlength=mechanism.domain.size)
    bounds = evidence.table.policy.required.bounds(mechanism.domain, held.tolist())
    views = column_views(mechanism.domain, bounds, evidence.manifest.guarantee.scope == "any predicate")
    if not views:
        raise DoesNotApply(ONE_COLUMN)
    for view in views if mechanism.is_whole else (view.only_rare(held) for view in views):
        if mechanism.is_whole:
            yield from worst_prior_findings(mechanism, view, held)
        yield from _by_shares(evidence, view)
        if not evidence.one_of_each_person and max(t.codes.size for t in mechanism.tables) <= MOST_VALUES:
            found = known_composition(mechanism, evidence.once(dealt).counts, view)
            knows = "Knows the matrices, and how many records of each sub-table have each combination."
            finding = column_finding(replace(view, promised=False), found, "composition", knows, expected=False)
            yield _explained(evidence, finding, "composition")


def _by_shares(evidence: Evidence, view: ColumnView) -> Iterator[Finding]:
    """Someone who knows the shares of the table, then those of records that share other columns."""
    mechanism, quotas = evidence.mechanism, evidence.once(dealt).quotas
    everybody = evidence.signatures(())
    if mechanism.label is not None:
        found = known_shares(mechanism, quotas, view, _counted(evidence, everybody), [""], seen=False)
        knows = "Knows the shares of all combinations in the table, and sees the sub-table of a record."
        yield _explained(evidence, column_finding(view, found, "label", knows), "label")
    for names in ((), *evidence.attribute_sets):
        by = evidence.signatures(names)
        if by.size * mechanism.domain.size * view.size > MOST_SHARES:
            continue
        given = f" given {by.name}" if names else " in the table"
        knows = f"Knows the matrices, the published row, and the shares of all combinations{given}."
        told = by.told if names else [""]
        found = known_shares(mechanism, quotas, view, _counted(evidence, by), told)
        # sub-tables of the proved version bound the belief of someone who goes by the shares of values alone
        own = replace(view, promised=True) if _bounds_columns(evidence) and not names else view
        yield _explained(evidence, column_finding(own, found, by.name if names else "frequencies", knows), "background")


def _bounds_columns(evidence: Evidence) -> bool:
    """Whether the guarantee is about each column alone, too."""
    return evidence.manifest.guarantee.scope == "any predicate" or (
        evidence.manifest.method == SMALL_DOMAIN and evidence.is_proved
    )


def _explained(evidence: Evidence, finding: Finding, like: str) -> Finding:
    """Give the reason of a like attacker on combinations, where the guarantee is about columns alone, too."""
    return replace(finding, why_not_covered=NOT_COVERED[like]) if _bounds_columns(evidence) else finding


def _counted(evidence: Evidence, by: Signatures) -> Ints:
    m = evidence.mechanism.domain.size
    return np.bincount(by.table * m + evidence.true, minlength=by.size * m).reshape(-1, m)
