"""Whether groups and sub-tables were dealt by chance: all figures of these releases believe it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sfumato.auditor.attackers.randomized import dealt
from sfumato.auditor.dealing import Deal, block_tallies, dealing_finding, pair_tallies
from sfumato.auditor.evidence import UNMATCHED, DoesNotApply, Evidence
from sfumato.auditor.finding import Finding
from sfumato.auditor.foreign.classes import classes_by_place, classes_of_both, of_rows, other_columns
from sfumato.release.verify.random_order import RANGES, Classes
from sfumato.values.chance import Tallies, joined

HALVES = 2
KEPT_ONE = "one row of each person was drawn: which records were dealt is not known."


def of_groups(evidence: Evidence) -> Iterator[Finding]:
    """Group numbers against other columns, among records with one value, and inside cells where groups are."""
    if evidence.one_of_each_person:
        raise DoesNotApply(KEPT_ONE)
    deal = _groups(evidence)
    known = of_rows(evidence, deal.kinds)
    halves = [rows for _, rows in _classes(evidence, HALVES)]
    parts = [block_tallies(deal, list(_classes(evidence, RANGES))), pair_tallies(deal, known, halves)]
    yield from _told(evidence, parts, "groups")


def of_sub_tables(evidence: Evidence) -> Iterator[Finding]:
    """Sub-tables against other columns, among records with one value."""
    if evidence.mechanism.label is None:
        raise DoesNotApply("there are no sub-tables.")
    if evidence.one_of_each_person:
        raise DoesNotApply(KEPT_ONE)
    quotas, tables = evidence.once(dealt).quotas, evidence.mechanism.tables
    deal = Deal(
        kinds=evidence.true.astype(np.int64),
        place_kinds=np.concatenate([table.codes for table in tables]).astype(np.int64),
        place_units=np.repeat(np.arange(len(tables)), [table.codes.size for table in tables]),
        places=np.concatenate(quotas),
        unit=evidence.sub_tables.astype(np.int64),
        units=len(tables),
        ordered=False,
    )
    yield from _told(evidence, [block_tallies(deal, list(_classes(evidence, RANGES)))], "sub-tables")


def _told(evidence: Evidence, parts: Sequence[Tallies], what: str) -> Iterator[Finding]:
    tallies = joined(parts)
    if not tallies.tests:
        raise DoesNotApply(f"no column is published beside the {what}.")
    yield dealing_finding(tallies, evidence.manifest.data.rows, what)


def _classes(evidence: Evidence, ranges: int) -> Iterator[tuple[Classes, Classes]]:
    for name in other_columns(evidence):
        if name in evidence.comparable:
            yield from classes_of_both(evidence, name, ranges)
    if (evidence.matched != UNMATCHED).any():
        # of records whose row is not known no place is counted, neither among records nor among rows
        records, rows = classes_by_place(evidence, ranges)
        records.codes[evidence.matched == UNMATCHED] = UNMATCHED
        yield records, rows


def _groups(evidence: Evidence) -> Deal:
    """Groups all of whose rows are of one cell tell how many places of each value in that cell they have."""
    tables, cells, values = (
        evidence.group_tables,
        evidence.signatures(evidence.groups_part.dealt_within),
        evidence.values.table,
    )
    home = np.zeros(tables.sizes.size, dtype=np.int64)
    home[tables.rows] = cells.release
    mixed = np.zeros(tables.sizes.size, dtype=np.bool_)
    mixed[tables.rows[cells.release != home[tables.rows]]] = True
    lines = ~mixed[tables.groups]
    return Deal(
        kinds=values * cells.size + cells.table,
        place_kinds=tables.values[lines] * cells.size + home[tables.groups[lines]],
        place_units=tables.groups[lines],
        places=tables.counts[lines],
        unit=np.where(mixed[tables.rows], -1, tables.rows),
        units=tables.sizes.size,
        ordered=True,
    )
