"""Whether records were dealt to groups, or to sub-tables, by chance alone among those that are alike.

Records are alike if they have the same value (and the same cell, where groups are formed inside cells). Given what is
published of the groups, all ways to give the records of a kind to its places are equally likely, whatever else the
records have. So, with a class of records (a value, or a range, of another column, or a part of the table):

    blocks    rows of a class in a block of groups: X = sum over kinds of an urn with N_k records, K_k of the class and
              n_k places in the block. It need not be known which row of a group has which value
    pairs     of the rows whose record is known: a record and the next one of its kind, d groups further on, are both of
              a class: given how many first and second ones are, an urn for each kind. Groups may be dealt in batches
              (`bucket_deal`), of which a block holds some of each: then pairs still show an order

`chance` bounds how unlikely a count is. What is seen: records that were dealt in the order of another column, or of the
table. Without rows whose record is known, only an order along the numbers of the groups is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.auditor.attacker import NO_SUB_TABLES, Attacker, Listed
from sfumato.auditor.beliefs import compositions, has_sub_tables
from sfumato.auditor.codes import cross_counts
from sfumato.auditor.evidence import (
    UNMATCHED,
    DoesNotApply,
    Evidence,
    classes_by_place,
    classes_of_both,
    codes_of_rows,
    other_columns,
)
from sfumato.auditor.finding import Finding, chance_finding
from sfumato.auditor.grouped import MIXED
from sfumato.release.manifest import Manifest
from sfumato.release.verify.order import BLOCKS, LEVEL, RANGES, Classes
from sfumato.values.arrays import IntArray
from sfumato.values.chance import Tallies, joined

MOST_APART = 128  # groups between the two of a pair: more than there are batches
MOST_PAIRED = 200_000  # rows that are looked at in pairs
MOST_CELLS = 20_000_000  # kinds times blocks that are held in memory


@dataclass(frozen=True, eq=False)
class Deal:
    """What was dealt. kinds: of all records, from 0. places: of each kind in each group, lines of which some may lack.

    unit: the group (or sub-table) of each row, from 0; -1 where it is not known how many places of a kind it has.
    """

    kinds: IntArray
    place_kinds: IntArray
    place_units: IntArray
    places: IntArray
    unit: IntArray
    units: int
    ordered: bool  # whether units are numbered, so that blocks of them are looked at; else each by itself

    @property
    def number(self) -> int:
        return int(max(self.kinds.max(initial=0), self.place_kinds.max(initial=0))) + 1


def block_tallies(deal: Deal, classes: Sequence[tuple[Classes, Classes]]) -> Tallies:
    """Return the counts by blocks; the classes are those of records and of rows."""
    found = []
    sizes = [size for size in BLOCKS if deal.ordered and 2 * size <= deal.units] or [deal.units]
    for number in (size for size in sizes if 1 < size <= MOST_CELLS // deal.number):
        block_of_unit = np.arange(deal.units) * number // deal.units
        cells = block_of_unit[deal.place_units] * deal.number + deal.place_kinds
        places = np.bincount(cells, deal.places, number * deal.number).reshape(number, -1)
        found += [_of_blocks(deal, places, block_of_unit, *each) for each in classes]
    return joined(found)


def _of_blocks(deal: Deal, places: Any, block_of_unit: IntArray, records: Classes, rows: Classes) -> Tallies:
    """places: of each kind in each block."""
    blocks, classes = len(places), len(records.names)
    held = np.bincount(deal.kinds, minlength=deal.number)
    inside = records.codes >= 0
    inside_class = cross_counts(deal.kinds[inside], records.codes[inside], deal.number, classes)
    share = inside_class / np.maximum(held, 1)[:, None]
    expected, size = places @ share, places.sum(axis=1)
    seen = (rows.codes >= 0) & (deal.unit >= 0)
    hits = cross_counts(block_of_unit[deal.unit[seen]], rows.codes[seen], blocks, classes).ravel()
    chance = np.minimum(expected / np.maximum(size, 1)[:, None], 1.0).ravel()
    of_block = np.repeat(size, classes)
    use = np.flatnonzero(of_block > 0)
    what = "groups" if deal.ordered else "sub-tables"

    def told(number: int) -> str:
        block, own = divmod(int(use[number]), classes)
        where = f"part {block + 1} of {blocks} of the {what}" if deal.ordered else f"sub-table {block + 1}"
        return f"{records.names[own]} in {where}"

    return Tallies(hits[use].astype(np.float64), of_block[use].astype(np.float64), chance[use], use.size, told)


def pair_tallies(deal: Deal, kinds: IntArray, classes: Sequence[Classes]) -> Tallies:
    """Return the counts of pairs. kinds: of each row whose record is known, -1 of others; classes: of the rows."""
    rows = np.flatnonzero((kinds >= 0) & (deal.unit >= 0))
    width = deal.units + MOST_APART + 1
    keys = kinds[rows] * width + deal.unit[rows]
    order = np.argsort(keys, kind="stable")[:MOST_PAIRED]
    keys, rows = keys[order], rows[order]
    alone = np.ones(keys.size, dtype=np.bool_)  # one of a kind in its group
    alone[1:] &= keys[1:] != keys[:-1]
    alone[:-1] &= keys[1:] != keys[:-1]
    keys, rows = keys[alone], rows[alone]
    found: list[Tallies] = []
    for apart in range(1, min(MOST_APART, deal.units - 1) + 1) if keys.size > 1 else ():
        at = np.minimum(np.searchsorted(keys, keys + apart), keys.size - 1)
        first = np.flatnonzero(keys[at] == keys + apart)
        half = keys[first] % width // apart % 2
        for side in (0, 1):
            here = first[half == side]
            if here.size:
                found += _of_pairs(keys[here] // width, rows[here], rows[at[here]], classes, apart)
    return joined(found)


def _of_pairs(
    kinds: IntArray, first: IntArray, second: IntArray, classes: Sequence[Classes], apart: int
) -> Iterator[Tallies]:
    _, kind = np.unique(kinds, return_inverse=True)
    pairs = np.bincount(kind)
    for each in classes:
        size = len(each.names)
        one, two = (
            cross_counts(kind[here], codes[here], pairs.size, size)
            for codes, here in ((c, c >= 0) for c in (each.codes[first], each.codes[second]))
        )
        both = (each.codes[first] == each.codes[second]) & (each.codes[first] >= 0)
        hits, drawn = np.bincount(each.codes[first][both], minlength=size), one.sum(axis=0)
        expected = (one * two / pairs[:, None]).sum(axis=0)
        use = np.flatnonzero(drawn > 0)
        yield Tallies(
            hits[use].astype(np.float64),
            drawn[use].astype(np.float64),
            np.minimum(expected[use] / drawn[use], 1.0),
            use.size,
            [f"{each.names[k]}, pairs with one value {apart} group(s) apart" for k in use.tolist()].__getitem__,
        )


HALVES = 2


def dealing(evidence: Evidence) -> Iterator[Finding]:
    in_groups = evidence.manifest.in_buckets
    if not in_groups and evidence.mechanism.label is None:
        raise DoesNotApply(f"{NO_SUB_TABLES}.")
    if evidence.one_of_each_person:
        raise DoesNotApply("one row of each person was drawn: which records were dealt is not known.")
    deal, what = (_groups(evidence), "groups") if in_groups else (_sub_tables(evidence), "sub-tables")
    parts = [block_tallies(deal, list(_classes(evidence, RANGES)))]
    if in_groups:
        halves = [rows for _, rows in _classes(evidence, HALVES)]
        parts.append(pair_tallies(deal, codes_of_rows(evidence, deal.kinds), halves))
    tallies = joined(parts)
    if not tallies.tests:
        raise DoesNotApply(f"no column is published beside the {what}.")
    yield chance_finding(
        tallies,
        evidence.manifest.data.rows,
        LEVEL,
        "dealing",
        what,
        f"Do other columns tell in which of the {what} a record with a certain value is?",
        "Holds the table beside the release. Records with the same value are dealt by chance alone.",
        LEVEL,
    )


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
    tables, cells = evidence.group_tables, evidence.signatures(evidence.groups_part.dealt_within)
    home = tables.homes(cells.release)
    lines = home[tables.groups] != MIXED
    return Deal(
        kinds=evidence.values.table * cells.size + cells.table,
        place_kinds=tables.values[lines] * cells.size + home[tables.groups[lines]],
        place_units=tables.groups[lines],
        places=tables.counts[lines],
        unit=np.where(home[tables.rows] == MIXED, -1, tables.rows),
        units=tables.sizes.size,
        ordered=True,
    )


def _sub_tables(evidence: Evidence) -> Deal:
    """Quotas tell how many places of each value every sub-table has."""
    tables = evidence.mechanism.tables
    return Deal(
        kinds=evidence.true.astype(np.int64),
        place_kinds=np.concatenate([table.codes for table in tables]).astype(np.int64),
        place_units=np.repeat(np.arange(len(tables)), [table.codes.size for table in tables]),
        places=np.concatenate(evidence.once(compositions).quotas),
        unit=evidence.sub_tables.astype(np.int64),
        units=len(tables),
        ordered=False,
    )


def _public(manifest: Manifest) -> Listed | None:
    if manifest.in_buckets:
        return Listed(1, covered=True)
    return Listed(4, covered=True) if has_sub_tables(manifest) else None


ATTACKER = Attacker(
    name="dealing",
    knows="compares how records were dealt to groups with what chance gives",
    on={"randomized": dealing, "response": NO_SUB_TABLES, "groups": dealing},
    public=_public,
    place=2,
)
