"""Whether randomized values were drawn with the matrices that are published: all other figures believe these."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from sfumato.auditor.attacker import IN_GROUPS, Attacker, Listed
from sfumato.auditor.attackers.draws_counts import (
    LEVEL,
    Drawn,
    Margin,
    both_kept,
    coincidence_finding,
    draws_finding,
    margins,
    neighbours,
    transitions,
    transitions_by,
)
from sfumato.auditor.classes import classes_of_records, other_columns
from sfumato.auditor.codes import Signatures
from sfumato.auditor.evidence import UNMATCHED, DoesNotApply, Evidence
from sfumato.auditor.finding import Finding
from sfumato.auditor.knowledge import MOST_SHARES
from sfumato.auditor.sub_tables import compositions
from sfumato.release.manifest import Manifest
from sfumato.release.verify.order import Classes
from sfumato.values.arrays import CodeArray
from sfumato.values.chance import Tallies, joined
from sfumato.values.mechanism import Mechanism

KINDS = 6
"""Of findings among which the level of a mechanism is shared, the one of all columns together included."""


def of_randomized(evidence: Evidence) -> Iterator[Finding]:
    """The one mechanism of the sensitive values."""
    found = list(
        _found(evidence, evidence.mechanism, evidence.true, evidence.published, evidence.sub_tables, LEVEL / KINDS)
    )
    if not found:
        raise DoesNotApply("which rows were published is not known, and none can be told to be a certain record's.")
    yield from found


def of_response(evidence: Evidence) -> Iterator[Finding]:
    """Each mechanism by itself."""
    mechanisms = evidence.manifest.mechanism_values
    for mechanism in mechanisms:
        own, shown = (evidence.joined(side, mechanism.domain) for side in (evidence.in_table, evidence.in_release))
        level = LEVEL / KINDS / len(mechanisms)
        for finding in _found(evidence, mechanism, own, shown, np.zeros(shown.size, dtype=np.int32), level):
            yield finding.named(f"{mechanism.domain.name}, {finding.about}")
    tallies, records = _columns_together(evidence, mechanisms)
    if tallies.tests:
        yield draws_finding(tallies, records, LEVEL / KINDS, "columns")


def _columns_together(evidence: Evidence, mechanisms: Sequence[Mechanism]) -> tuple[Tallies, int]:
    """Return how often two columns of a record keep their values together, where it is known whose a row is."""
    records = np.flatnonzero(evidence.matched != UNMATCHED)
    kept, chances = {}, {}
    for mechanism in mechanisms if records.size else ():
        own, shown = (evidence.joined(side, mechanism.domain) for side in (evidence.in_table, evidence.in_release))
        kept[mechanism.domain.name] = own[records] == shown[evidence.matched[records]]
        chances[mechanism.domain.name] = mechanism.matrix.diagonal[own[records]]
    pairs = itertools.combinations(kept, 2)
    parts = [both_kept((kept[a], kept[b]), (chances[a], chances[b]), f"{a} and {b}") for a, b in pairs]
    return joined(parts), int(records.size)


def _found(
    evidence: Evidence, mechanism: Mechanism, own: CodeArray, shown: CodeArray, labels: CodeArray, level: float
) -> Iterator[Finding]:
    """Compare rows with records as far as it is known whose they are, else counts."""
    records = np.flatnonzero(evidence.matched != UNMATCHED)
    rows = evidence.matched[records]
    if records.size:
        drawn = Drawn(own[records], shown[rows], labels[rows], records)
        yield draws_finding(transitions(mechanism, drawn.cases(mechanism)), records.size, level, "transitions")
        yield from _independent(evidence, mechanism, drawn, level)
    if evidence.is_aligned or evidence.one_of_each_person:
        return
    sets = list(_sets(evidence, mechanism, own, shown))
    yield draws_finding(margins([part for parts in sets for part in parts]), own.size, level, "margins")
    same = coincidence_finding(sets, own.size, level)
    if same is not None:
        yield same


def _independent(evidence: Evidence, mechanism: Mechanism, drawn: Drawn, level: float) -> Iterator[Finding]:
    """Whether the draws go with another column, or with each other."""
    size = drawn.places.size
    classes = [
        Classes(each.codes[drawn.places], each.names)
        for name in other_columns(evidence)
        if name not in mechanism.domain.names
        for each in classes_of_records(evidence, name)
    ]
    for about, tallies in (
        ("by column", transitions_by(mechanism, drawn, classes)),
        ("neighbours", neighbours(mechanism, drawn, evidence.rows)),
    ):
        if tallies.tests:
            yield draws_finding(tallies, size, level, about)


def _sets(evidence: Evidence, mechanism: Mechanism, own: CodeArray, shown: CodeArray) -> Iterator[Sequence[Margin]]:
    """Yield the counts of all rows; of one matrix also those by each column that is published as it is, and by all."""
    if mechanism.label is not None:
        yield list(_sub_tables(evidence, mechanism))
        return
    names = [name for name in (*evidence.quasi_identifiers, *evidence.sensitive) if name in evidence.comparable]
    for each in dict.fromkeys([(), *((name,) for name in names), tuple(names)]):
        by = evidence.signatures(each)
        if by.size * mechanism.domain.size <= MOST_SHARES:
            yield [_margin(mechanism, by, own, shown)]


def _margin(mechanism: Mechanism, by: Signatures, own: CodeArray, shown: CodeArray) -> Margin:
    m = mechanism.domain.size
    true, published = (
        np.bincount(groups * m + codes, minlength=by.size * m).reshape(-1, m)
        for groups, codes in ((by.table, own), (by.release, shown))
    )
    groups = by.told if by.columns else ("all rows",)
    return Margin(mechanism.matrix, true, published, groups, mechanism.domain.labels)


def _sub_tables(evidence: Evidence, mechanism: Mechanism) -> Iterator[Margin]:
    """Yield the counts of each sub-table, which the plan tells."""
    found = evidence.once(compositions)
    for number, table in enumerate(mechanism.tables):
        own, shown = found.quotas[number], found.published[number]
        if own.sum() != shown.sum():
            raise DoesNotApply(f"sub-table {number + 1} has another number of rows than its plan.")
        values = [mechanism.domain.labels[code] for code in table.codes.tolist()]
        yield Margin(table.matrix, own[None], shown[None], (f"sub-table {number + 1}",), values)


def _public(manifest: Manifest) -> Listed | None:
    return None if manifest.in_buckets else Listed(0, covered=True)


ATTACKER = Attacker(
    name="draws",
    knows="compares what was published with what the matrix gives by chance",
    on={"randomized": of_randomized, "response": of_response, "groups": IN_GROUPS},
    public=_public,
    place=1,
)
