"""Attackers on releases of every kind: by the order of rows, by bytes, by absence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sfumato.auditor import missing as absence
from sfumato.auditor import order as places
from sfumato.auditor.beyond_chance import chance_finding
from sfumato.auditor.evidence import UNMATCHED, Case, Codes, DoesNotApply
from sfumato.auditor.finding import Finding
from sfumato.auditor.foreign.classes import classes_by_place, classes_of_both, of_rows, other_columns
from sfumato.auditor.residue import residue as bytes_finding
from sfumato.engines.rows.selection import complete_rows, dropping
from sfumato.release.verify.order import published_order
from sfumato.release.verify.random_order import LEVEL, MOST_VALUES, Classes, same_place, thinned
from sfumato.values.attributes import MISSING_LABEL
from sfumato.values.chance import joined
from sfumato.values.mechanism import Mechanism

# --- the order and the bytes ------------------------------------------------------------------------------------------


def order_of_randomized(case: Case) -> Iterator[Finding]:
    """Who holds row k of the release to be person k."""
    labels = None if case.mechanism.label is None else case.sub_tables
    yield places.rows_finding(case.true, case.published, case.manifest.data.shuffled, case.mechanism, labels)
    yield from random_order(case)


def order_of_response(case: Case) -> Iterator[Finding]:
    """The same for sensitive values that may be published as they are."""
    own, shown, mechanism = sensitive_of_response(case)
    yield places.rows_finding(own, shown, case.manifest.data.shuffled, mechanism)
    yield from random_order(case)


def sensitive_of_response(case: Case) -> tuple[Codes, Codes, Mechanism | None]:
    """Return the true and the published sensitive values, and how they were randomized; None: not at all."""
    mechanism = next((m for m in case.manifest.mechanism_values if m.domain.names == case.sensitive), None)
    if mechanism is None:
        both = case.signatures(case.sensitive)
        return both.table.astype(np.int32), both.release.astype(np.int32), None
    own, shown = (case.joined(side, mechanism.domain) for side in (case.in_table, case.in_release))
    return own, shown, mechanism


def order_of_groups(case: Case) -> Iterator[Finding]:
    """Who holds the k-th row of a group to have its k-th value."""
    true = np.full(case.manifest.data.rows, UNMATCHED, dtype=np.int64)
    row = case.matched
    true[row[row != UNMATCHED]] = case.values.table[row != UNMATCHED]
    if (true != UNMATCHED).any():
        yield places.groups_finding(case.group_tables, true, case.manifest.data.shuffled)
    yield from random_order(case)


def random_order(case: Case) -> Iterator[Finding]:
    """Who looks for any order in rows that are stated as shuffled: of columns, true values, or places in the table."""
    yield from _as_asked(case)
    rows = case.manifest.data.rows
    if not case.manifest.data.shuffled or rows < 2:
        return
    parts = [published_order(case.release, list(_known_classes(case)))]
    if case.manifest.groups is None and not case.one_of_each_person:
        parts += [
            same_place(shown, own)
            for name in other_columns(case)
            if name in case.comparable
            for own, shown in classes_of_both(case, name)
        ]
    tallies = joined(parts)
    if not tallies.tests:
        return  # no column differs between rows
    yield chance_finding(
        tallies,
        rows,
        LEVEL,
        "order",
        "random order",
        "Do columns, true values or places in the table go with the places of the rows?",
        "Holds the table beside the release. Rows were shuffled: every order of them is equally likely.",
        LEVEL,
    )


def _as_asked(case: Case) -> Iterator[Finding]:
    """A policy that does not ask to keep the order asks for a random one: a release that kept it was made wrongly."""
    if case.table.policy.output.order == "keep" or case.manifest.data.shuffled:
        return
    yield Finding(
        attacker="order",
        question="Were the rows shuffled, as the policy asks?",
        assumption="Reads the manifest: the rows are in the order of the table.",
        measured="whether the rows are in the order of the table, against the policy",
        worst=1.0,
        mean=None,
        records=case.manifest.data.rows,
        at_risk=case.manifest.data.rows,
        promised=0.0,
        remark="Whether rows are shuffled must not depend on the table. Publish anew, or ask to keep the order.",
        about="as asked",
        scale="chance",
    )


def _known_classes(case: Case) -> Iterator[Classes]:
    """Yield true values and places in the table of the rows whose record is known."""
    if (case.matched == UNMATCHED).all():
        return
    kept = thinned(case.manifest.data.rows)
    values = case.values
    frequent = np.argsort(-np.bincount(values.table, minlength=values.size), kind="stable")[:MOST_VALUES]
    place = np.full(values.size, UNMATCHED)
    place[frequent] = np.arange(frequent.size)
    names = [f"true {values.name} {values.labels[k]!r}" for k in frequent.tolist()]
    for each in (Classes(of_rows(case, place[values.table]), names), classes_by_place(case)[1]):
        yield each if kept is None else Classes(each.codes[kept], each.names)


def residue(case: Case) -> Iterator[Finding]:
    """Who reads all bytes of the release."""
    yield bytes_finding(case.table, case.release)


# --- rows that were left out ------------------------------------------------------------------------------------------


def missing(case: Case) -> Iterator[Finding]:
    """Who knows that a person is in the table, and sees that the person was left out for a missing value."""
    found = left_out(case)
    if found is None:
        raise DoesNotApply("no record is withheld or left out.")
    yield found


def left_out(case: Case) -> Finding | None:
    """Return what absence tells of those who were left out; None if there are none.

    A cell is the reason. The prior is the share of a value in the whole table, with those who were left out.
    """
    reasons, values = _of_left_out(case)
    if not reasons:
        return None
    counts = np.bincount(case.values.table, minlength=case.values.size).tolist()
    table = Counter({" / ".join(own): n for own, n in zip(case.values.values, counts, strict=True)}) + Counter(values)
    held = sorted(table)
    cells, cell = np.unique(reasons, return_inverse=True)
    absent = np.zeros((cells.size, len(held)), dtype=np.int64)
    np.add.at(absent, (cell, np.searchsorted(held, values)), 1)
    everybody = np.tile([table[value] for value in held], (cells.size, 1))
    told = [f"without {text}" for text in cells.tolist()]
    return absence.absent_finding(absence.Absent(everybody, absent), "a value is missing", None, told, held)


def _of_left_out(case: Case) -> tuple[list[str], list[str]]:
    """Return the columns that rows lack which were left out, and their sensitive values."""
    drops = dropping(case.table.schema)
    names = list(dict.fromkeys([*(a.name for a in drops), *case.sensitive]))
    reasons: list[str] = []
    values: list[str] = []
    for batch in case.table.source.batches(names) if drops else ():
        complete = complete_rows(batch.rows, drops)
        if complete is None:
            continue
        rows = batch.rows.filter(pa.array(~complete))
        columns = {name: case.written(name, rows.column(name)) for name in names}
        lacking = zip(*(columns[a.name] for a in drops), strict=True)
        reasons += [", ".join(a.name for a, v in zip(drops, row, strict=True) if v == MISSING_LABEL) for row in lacking]
        values += [" / ".join(row) for row in zip(*(columns[name] for name in case.sensitive), strict=True)]
    return reasons, values
