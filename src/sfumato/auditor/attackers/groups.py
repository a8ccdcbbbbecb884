"""Attackers on releases by groups: anatomy, suppression and robust-anatomy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from sfumato.auditor import corruption as members
from sfumato.auditor import eligibility as suspects
from sfumato.auditor import missing as absence
from sfumato.auditor.attackers.common import left_out
from sfumato.auditor.attackers.knowing import from_file, from_table, known_records
from sfumato.auditor.background import Knowledge, background_finding
from sfumato.auditor.evidence import UNMATCHED, DoesNotApply, Evidence, Ints
from sfumato.auditor.finding import Finding
from sfumato.auditor.group_shares import group_shares_finding
from sfumato.errors import UsageError
from sfumato.methods.robustness import Prior

KNOWN = 1
"""Members of each group that are known where no list is given."""
PI_CLAIM = "The paper promises this bound (PI Theorem 1); the guarantee of the release does not."
SK_CLAIM = "The paper promises this bound (SK Theorem 3); the guarantee of the release does not."


def _bound(evidence: Evidence) -> int:
    """Return l, or r."""
    return evidence.group_claim.at_most.denominator


def posterior(evidence: Evidence) -> Iterator[Finding]:
    """Who knows the group of a record, and nothing that tells its members apart."""
    found = group_shares_finding(evidence.group_tables, evidence.group_claim.at_most, evidence.values.labels)
    by_paper = evidence.groups_part.attribute_sets and not evidence.is_proved
    yield found.with_remark(PI_CLAIM) if by_paper else found


# --- background -------------------------------------------------------------------------------------------------------


def background(evidence: Evidence) -> Iterator[Finding]:
    """Who knows how values depend on columns: first what the guarantee is about, then other sets and priors."""
    promised = list(evidence.once(_promised))
    yield from promised_background(evidence)
    stated = {known.name for known in promised}
    others = [names for names in evidence.attribute_sets if ", ".join(names) not in stated]
    alone = [_of_table(evidence, names) for names in others if len(names) == 1]
    if alone:
        yield _background(evidence, alone, False)
    for names in others:
        if len(names) > 1:
            yield _background(evidence, [_of_table(evidence, names)], False)
    for path in evidence.priors:
        yield _background(
            evidence, [from_file(evidence, path, evidence.values.table, evidence.values.labels, True)], False
        )
    if not (promised or others or evidence.priors):
        raise DoesNotApply("no column is a quasi-identifier.")


def promised_background(evidence: Evidence) -> Iterator[Finding]:
    """Who knows just what the guarantee is about, if it is about any such knowledge."""
    if promised := evidence.once(_promised):
        yield _background(evidence, promised, True)


def _promised(evidence: Evidence) -> tuple[Knowledge, ...]:
    """Return the attribute sets and priors that the guarantee names; any prior includes the table's own."""
    claim, prior = evidence.group_claim, evidence.table.policy.prior
    if claim.prior != "file" or isinstance(prior, str):
        return tuple(_of_table(evidence, names) for names in claim.attribute_sets)
    pairs = zip(claim.attribute_sets, prior, strict=True)
    return tuple(
        from_file(evidence, path, evidence.values.table, evidence.values.labels, True, names) for names, path in pairs
    )


def _of_table(evidence: Evidence, names: Sequence[str]) -> Knowledge:
    return from_table(evidence, names, evidence.values.table, evidence.values.labels, of_release=True)


def _background(evidence: Evidence, known: Sequence[Knowledge], promised: bool) -> Finding:
    found = background_finding(evidence.group_tables, known, _bound(evidence), promised, evidence.values.labels)
    found = found.named("; ".join(each.name for each in known))
    if sets := evidence.group_claim.attribute_sets:
        about = "; ".join(", ".join(names) for names in sets)
        found = replace(found, why_not_covered=f"The guarantee is about what is known of {about}.")
    return found.with_remark(PI_CLAIM) if promised and not evidence.is_proved else found


# --- known members ----------------------------------------------------------------------------------------------------


def corruption(evidence: Evidence) -> Iterator[Finding]:
    """Who knows the true values of some members: of those in a list, or of the one of each group that tells most."""
    tables, given = evidence.group_tables, known_records(evidence)
    sets = evidence.once(_promised) or (_nothing_known(evidence),)
    if given is not None:
        row = evidence.matched
        records = np.flatnonzero(given & (row != UNMATCHED))
        if not records.size:
            raise DoesNotApply("no row can be told to be a known member's.")
        known = np.zeros(tables.rows.size, dtype=np.bool_)
        known[row[records]] = True
        values = evidence.values.table[records[np.argsort(row[records])]]
        yield members.known_members_finding(tables, sets, _bound(evidence), known, values, evidence.values.labels)
    elif evidence.group_claim.attribute_sets:
        for each in sets:
            yield members.robust_groups_finding(tables, each, KNOWN, _bound(evidence)).named(each.name)
    else:
        compositions = [counts for _, counts in tables.lines.of_groups()]
        names = [tables.told(k) for k in range(len(compositions))]
        yield members.groups_finding(compositions, KNOWN, float(evidence.group_claim.at_most), names)


def _nothing_known(evidence: Evidence) -> Knowledge:
    """Return one signature for all, and equal shares: no background knowledge."""
    size = evidence.values.size
    prior = Prior(np.ones((1, size), dtype=np.int64), np.array([size]))
    return Knowledge("nothing", np.zeros(evidence.group_tables.rows.size, dtype=np.int64), prior, ("a record",))


# --- which values were too frequent -----------------------------------------------------------------------------------


def eligibility(evidence: Evidence) -> Iterator[Finding]:
    """Who looks for the values that have too many records."""
    found, names = evidence.once(_by_shape), evidence.values.labels
    yield suspects.eligibility_finding(found, "dominant", names).named("dominant")
    if not found.hidden:  # all counts are published: no prior changes what is known of them
        return
    if found.number_violating:
        yield suspects.eligibility_finding(found, "violating", names).named("violating")
    try:
        blind = suspects.by_uniform_prior(found.kept, evidence.rows, _bound(evidence), found.variant, found.always)
    except UsageError as problem:
        evidence.notes.append(f"eligibility, every table equally likely: not computed. {problem.message}")
        return
    finding = suspects.eligibility_finding(blind, "dominant", names).named("dominant, no counts known")
    yield finding if evidence.is_proved else finding.with_remark(SK_CLAIM)


def _by_shape(evidence: Evidence) -> suspects.Suspicion:
    part = evidence.groups_part
    if part.variant is None:
        raise DoesNotApply(f"{evidence.manifest.method} suppresses no value for being frequent.")
    return suspects.by_shape(_counts(evidence), _kept(evidence), _bound(evidence), part.variant, part.always)


def _counts(evidence: Evidence) -> Ints:
    return np.bincount(evidence.values.table, minlength=evidence.values.size)


def _kept(evidence: Evidence) -> Ints:
    tables = evidence.group_tables
    return np.bincount(tables.values, tables.counts, evidence.values.size).astype(np.int64)


# --- who is not in the release ----------------------------------------------------------------------------------------


def missing(evidence: Evidence) -> Iterator[Finding]:
    """Who asks for a person who is known to be in the table and is not in the release."""
    part, without_value = evidence.groups_part, left_out(evidence)
    if not part.withheld and without_value is None:
        raise DoesNotApply("no record is withheld or left out.")
    if part.withheld:
        yield (_suppressed(evidence) if part.variant is not None else _withheld(evidence)).named("withheld")
    if without_value is not None:
        yield without_value.named("left out")


def _suppressed(evidence: Evidence) -> Finding:
    return absence.suppressed_finding(evidence.once(_by_shape), _counts(evidence), evidence.values.labels)


def _withheld(evidence: Evidence) -> Finding:
    """What absence tells of the records that robust groups withhold, cell by cell."""
    own, tables, size = (
        evidence.signatures(evidence.groups_part.dealt_within),
        evidence.group_tables,
        evidence.values.size,
    )
    table = np.bincount(own.table * size + evidence.values.table, minlength=own.size * size).reshape(-1, size)
    absent, unclear = _absent(evidence, own.table, own.release, table)
    found = absence.absent_finding(
        absence.Absent(table, absent),
        "they could not be put into a group that keeps the bound",
        float(evidence.group_claim.at_most),
        own.told,
        evidence.values.labels,
        absence.full_values(tables, own.release),
    )
    more = f" Of {unclear:,} other(s) it cannot be told whether they are absent." if unclear else ""
    return replace(found, remark=found.remark + more)


def _absent(evidence: Evidence, cells: Ints, rows: Ints, table: Ints) -> tuple[Ints, int]:
    """Return how many records of each cell and value are absent, as far as that can be told; and of how many it cannot.

    Where all groups of a cell are of it alone, their values are those of its published records. Else a record is known
    to be absent if no row has its columns.
    """
    tables, number = evidence.group_tables, len(table)
    signed = tables.signed(rows)
    mixed = np.bincount(signed.groups, minlength=tables.sizes.size) > 1
    clear = ~np.isin(np.arange(number), signed.codes[mixed[signed.groups]])
    home = np.zeros(tables.sizes.size, dtype=np.int64)
    home[tables.rows] = rows
    lines = ~mixed[tables.groups]
    published = np.zeros_like(table)
    np.add.at(published, (home[tables.groups[lines]], tables.values[lines]), tables.counts[lines])
    absent = np.where(clear[:, None], table - published, 0)
    own = evidence.signatures(evidence.comparable)
    shown = np.bincount(own.release, minlength=own.size)
    gone = ~clear[cells] & (shown[own.table] == 0)
    np.add.at(absent, (cells[gone], evidence.values.table[gone]), 1)
    return absent, evidence.groups_part.withheld - int(absent.sum())
