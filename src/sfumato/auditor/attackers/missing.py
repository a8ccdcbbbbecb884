"""A person who is known to be in the table and is not in the release: what the absence tells of the person's value.

    suppressed    by suppression for skewed values: who is absent has a value that lost records. Given the published
                  counts, the expected share of each value among the records that are withheld (`eligibility`)
    withheld      by robust groups: who is absent has a value that is too frequent in their cell, so all groups of the
                  cell have it. With the shares of the cell known, the values of its withheld records are known: the
                  belief in x is their share. With nothing known, all values that are in every group are alike: 1/t
    left out      for a missing value: the belief in x is its share among the rows that lack the same column

No guarantee is about this attacker. Publishing less cannot help: this attacker asks for those who are not published.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sfumato.auditor.attacker import Attacker, everywhere, listed
from sfumato.auditor.attackers.eligibility import KNOWS, PRIORS, Suspicion, suspicion, table_counts
from sfumato.auditor.codes import cross_counts
from sfumato.auditor.evidence import DoesNotApply, Evidence
from sfumato.auditor.finding import ROUNDING, SHOWN, Exposed, Finding, most_exposed
from sfumato.auditor.grouped import MIXED, GroupTables
from sfumato.engines.rows.encoding import complete_rows, dropping
from sfumato.show.words import percent
from sfumato.values.arrays import IntArray
from sfumato.values.attributes import MISSING_LABEL

QUESTION = "Which value has a person who is known to be in the table, and is not in the release?"


# --- suppression ------------------------------------------------------------------------------------------------------


def suppressed_finding(found: Suspicion, counts: IntArray, names: Sequence[str] = ()) -> Finding:
    """Return what absence tells after suppression; counts: of the table, for the same values as `found`."""
    lost = (counts - found.kept).tolist()
    beliefs = [found.of(value).missing for value in range(counts.size)]
    order = sorted(range(counts.size), key=lambda value: (-beliefs[value], value))[:SHOWN]
    bound, withheld = found.bound("dominant"), sum(lost)
    return Finding(
        attacker="missing",
        question=QUESTION,
        assumption=f"Knows that the person is in the table. {KNOWS}{PRIORS[found.prior]}",
        measured="the belief in a value (worst), and in the true value of a withheld record (mean); exact",
        worst=float(max(beliefs)),
        mean=float(sum(belief * gone for belief, gone in zip(beliefs, lost, strict=True)) / max(1, withheld)),
        records=withheld,
        at_risk=sum(gone for belief, gone in zip(beliefs, lost, strict=True) if belief > bound),
        stated=float(bound),
        baseline=1 / counts.size,
        exposed=tuple(Exposed(_name(names, "value", k), lost[k], float(beliefs[k])) for k in order if beliefs[k]),
        remark=f"A withheld person has one of {sum(belief > 0 for belief in beliefs)} value(s)."
        if withheld
        else "Nobody is withheld.",
    )


# --- cells, and rows that were left out -------------------------------------------------------------------------------


def absent_finding(
    table: IntArray,
    absent: IntArray,
    reason: str,
    bound: float | None = None,
    cells: Sequence[str] = (),
    values: Sequence[str] = (),
    suspects: IntArray | None = None,
) -> Finding:
    """Return what absence tells one who knows the shares of the cell, and so, from the release, those of the absent.

    table, absent: records by cell and value ([cell, value]), all and those that are not published. A cell is what is
    known of a person; for rows that were left out it is the reason, such as the column that lacks a value.
    reason: why records are absent, in words. bound: of the published records, such as 1/r. suspects: `full_values`.
    """
    cell, value = np.nonzero(absent)
    beliefs, priors = ((counts / np.maximum(1, counts.sum(axis=1))[:, None])[cell, value] for counts in (absent, table))
    records = absent[cell, value]
    total = int(records.sum())
    limit = priors if bound is None else bound
    worst = np.lexsort((-records, -beliefs))[0] if total else None
    return Finding(
        attacker="missing",
        question=QUESTION,
        assumption=(
            f"Knows that the person is in the table, the person's cell, how many of its records have each value, and "
            f"the algorithm. Records are absent because {reason}."
        ),
        measured="the belief in a value (worst), and in the true value of an absent record (mean); exact",
        worst=0.0 if worst is None else float(beliefs[worst]),
        mean=float(beliefs @ records / max(1, total)),
        records=total,
        at_risk=int(records[beliefs > limit * (1 + ROUNDING)].sum()),
        stated=bound,
        baseline=None if worst is None else float(priors[worst]),
        exposed=most_exposed(
            beliefs,
            records,
            lambda k: f"{_name(cells, 'cell', int(cell[k]))}: {_name(values, 'value', int(value[k]))}",
        ),
        remark=_remark(absent, suspects),
    )


def full_values(tables: GroupTables, cells: IntArray) -> IntArray:
    """Return for each cell how many values are in all of its groups; 0 where a group has records of several cells.

    Cells of the rows. Of a value with more records than the cell has groups every group gets one.
    """
    number, home = int(cells.max()) + 1, tables.homes(cells)
    held = _by_home(tables, home, np.ones_like(tables.counts), (number, int(tables.values.max()) + 1))
    groups = np.bincount(home[home != MIXED], minlength=number)
    full: IntArray = np.count_nonzero((held == groups[:, None]) & (held > 0), axis=1)
    full[cells[home[tables.rows] == MIXED]] = 0
    return full


def _by_home(tables: GroupTables, home: IntArray, counts: IntArray, shape: tuple[int, int]) -> IntArray:
    """Sum up by cell and value; counts: of the lines of the table of the groups, without those of mixed groups."""
    sums, lines = np.zeros(shape, dtype=np.int64), home[tables.groups] != MIXED
    np.add.at(sums, (home[tables.groups[lines]], tables.values[lines]), counts[lines])
    return sums


def _name(names: Sequence[str], kind: str, code: int) -> str:
    return names[code] if names else f"{kind} {code + 1}"


def _remark(absent: IntArray, suspects: IntArray | None) -> str:
    touched = np.asarray(absent.any(axis=1))
    if not touched.any():
        return "Nobody is absent."
    text = f"Absent records are in {int(touched.sum()):,} cell(s)."
    known = np.zeros(0) if suspects is None else suspects[touched[: suspects.size] & (suspects > 0)]
    if known.size == 0:
        return text
    return (
        f"{text} Someone who knows no shares knows that the value is in every group of the cell: that leaves "
        f"{int(known.min())} value(s) or more, so a belief of at most {percent(1 / known.min())}."
    )


def left_out(evidence: Evidence) -> Finding | None:
    """Return what absence tells of those who were left out; None if there are none.

    A cell is the reason. The prior is the share of a value in the whole table, with those who were left out.
    """
    reasons, values = _of_left_out(evidence)
    if not reasons:
        return None
    counts = zip(evidence.values.values, table_counts(evidence).tolist(), strict=True)
    table = Counter({" / ".join(own): number for own, number in counts}) + Counter(values)
    held = sorted(table)
    cells, cell = np.unique(reasons, return_inverse=True)
    absent = np.zeros((cells.size, len(held)), dtype=np.int64)
    np.add.at(absent, (cell, np.searchsorted(held, values)), 1)
    everybody = np.tile([table[value] for value in held], (cells.size, 1))
    told = [f"without {text}" for text in cells.tolist()]
    return absent_finding(everybody, absent, "a value is missing", None, told, held)


def _of_left_out(evidence: Evidence) -> tuple[list[str], list[str]]:
    drops = dropping(evidence.table.schema)
    names = list(dict.fromkeys([*(a.name for a in drops), *evidence.sensitive]))
    reasons: list[str] = []
    values: list[str] = []
    for batch in evidence.table.source.batches(names) if drops else ():
        complete = complete_rows(batch.rows, drops)
        if complete is None:
            continue
        rows = batch.rows.filter(pa.array(~complete))
        columns = {name: evidence.written(name, rows.column(name)) for name in names}
        lacking = zip(*(columns[a.name] for a in drops), strict=True)
        reasons += [", ".join(a.name for a, v in zip(drops, row, strict=True) if v == MISSING_LABEL) for row in lacking]
        values += [" / ".join(row) for row in zip(*(columns[name] for name in evidence.sensitive), strict=True)]
    return reasons, values


def missing(evidence: Evidence) -> Iterator[Finding]:
    withheld, without_value = evidence.manifest.withheld, left_out(evidence)
    if not withheld and without_value is None:
        raise DoesNotApply("no record is withheld or left out.")
    if withheld:
        found = _withheld(evidence)
        if evidence.groups_part.variant is not None:
            found = suppressed_finding(evidence.once(suspicion), table_counts(evidence), evidence.values.labels)
        yield found.named("withheld")
    if without_value is not None:
        yield without_value.named("left out") if evidence.manifest.in_buckets else without_value


def _withheld(evidence: Evidence) -> Finding:
    own, size = evidence.signatures(evidence.groups_part.dealt_within), evidence.values.size
    table = cross_counts(own.table, evidence.values.table, own.size, size)
    absent, unclear = _absent(evidence, own.table, own.release, table)
    found = absent_finding(
        table,
        absent,
        "they could not be put into a group that keeps the bound",
        float(evidence.group_claim.at_most),
        own.told,
        evidence.values.labels,
        full_values(evidence.group_tables, own.release),
    )
    more = f" Of {unclear:,} other(s) it cannot be told whether they are absent." if unclear else ""
    return replace(found, remark=found.remark + more)


def _absent(evidence: Evidence, cells: IntArray, rows: IntArray, table: IntArray) -> tuple[IntArray, int]:
    """Return how many records of each cell and value are absent, as far as that can be told; and of how many it cannot.

    Where all groups of a cell are of it alone, their values are those of its published records. Else a record is known
    to be absent if no row has its columns.
    """
    tables = evidence.group_tables
    home = tables.homes(rows)
    clear = np.ones(len(table), dtype=np.bool_)
    clear[rows[home[tables.rows] == MIXED]] = False
    published = _by_home(tables, home, tables.counts, (table.shape[0], table.shape[1]))
    absent = np.where(clear[:, None], table - published, 0)
    own = evidence.signatures(evidence.comparable)
    shown = np.bincount(own.release, minlength=own.size)
    gone = ~clear[cells] & (shown[own.table] == 0)
    np.add.at(absent, (cells[gone], evidence.values.table[gone]), 1)
    return absent, evidence.groups_part.withheld - int(absent.sum())


ATTACKER = Attacker(
    name="missing",
    knows="knows that a person is in the table and not in the release",
    why_not_covered=(
        "The guarantee is about records that are published. It does not bound what somebody's absence tells."
    ),
    acceptable="Acceptable if nobody can tell who is missing. Not if a list of all people of the table is known.",
    on=everywhere(missing),
    public=listed(12, False),
    place=14,
)
