"""Whether groups and sub-tables were dealt by chance: all figures of these releases believe it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sfumato.auditor.attackers.randomized import dealt
from sfumato.auditor.dealing import Deal, block_tallies, dealing_finding, pair_tallies
from sfumato.auditor.evidence import UNMATCHED, Case, DoesNotApply
from sfumato.auditor.finding import Finding
from sfumato.auditor.foreign.classes import classes_by_place, classes_of_both, of_rows, other_columns
from sfumato.release.verify.random_order import RANGES, Classes
from sfumato.values.chance import Tallies, joined

HALVES = 2
KEPT_ONE = "one row of each person was drawn: which records were dealt is not known."


def of_groups(case: Case) -> Iterator[Finding]:
    """Group numbers against other columns, among records with one value, and inside cells where groups are."""
    if case.one_of_each_person:
        raise DoesNotApply(KEPT_ONE)
    deal = _groups(case)
    known = of_rows(case, deal.kinds)
    halves = [rows for _, rows in _classes(case, HALVES)]
    parts = [block_tallies(deal, list(_classes(case, RANGES))), pair_tallies(deal, known, halves)]
    yield from _told(case, parts, "groups")


def of_sub_tables(case: Case) -> Iterator[Finding]:
    """Sub-tables against other columns, among records with one value."""
    if case.mechanism.label is None:
        raise DoesNotApply("there are no sub-tables.")
    if case.one_of_each_person:
        raise DoesNotApply(KEPT_ONE)
    quotas, tables = case.once(dealt).quotas, case.mechanism.tables
    deal = Deal(
        kinds=case.true.astype(np.int64),
        place_kinds=np.concatenate([table.codes for table in tables]).astype(np.int64),
        place_units=np.repeat(np.arange(len(tables)), [table.codes.size for table in tables]),
        places=np.concatenate(quotas),
        unit=case.sub_tables.astype(np.int64),
        units=len(tables),
        ordered=False,
    )
    yield from _told(case, [block_tallies(deal, list(_classes(case, RANGES)))], "sub-tables")


def _told(case: Case, parts: Sequence[Tallies], what: str) -> Iterator[Finding]:
    tallies = joined(parts)
    if not tallies.tests:
        raise DoesNotApply(f"no column is published beside the {what}.")
    yield dealing_finding(tallies, case.manifest.data.rows, what)


def _classes(case: Case, ranges: int) -> Iterator[tuple[Classes, Classes]]:
    for name in other_columns(case):
        if name in case.comparable:
            yield from classes_of_both(case, name, ranges)
    if (case.matched != UNMATCHED).any():
        # of records whose row is not known no place is counted, neither among records nor among rows
        records, rows = classes_by_place(case, ranges)
        records.codes[case.matched == UNMATCHED] = UNMATCHED
        yield records, rows


def _groups(case: Case) -> Deal:
    """Groups all of whose rows are of one cell tell how many places of each value in that cell they have."""
    tables, cells, values = case.group_tables, case.signatures(case.groups_part.dealt_within), case.values.table
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
