"""The audit of a table that another tool published: generalized, suppressed or perturbed, with a policy for the roles.

The attackers know people's quasi-identifiers and what labels mean. If the policy asks for an l, 1/l is what the table
is held to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.auditor.attackers.background import background_finding
from sfumato.auditor.attackers.register import Register, Told, rows_finding, values_finding
from sfumato.auditor.evidence import DoesNotApply, NotMeasured
from sfumato.auditor.finding import ROUNDING, Finding, most_exposed, named
from sfumato.auditor.foreign.linked import ForeignEvidence, Linked, combinations, plain
from sfumato.auditor.grouped import GroupTables
from sfumato.auditor.knowledge import MOST_SHARES, Knowledge, columns_of_prior, open_register
from sfumato.auditor.record import Attack, Audit, Progress, run
from sfumato.auditor.utility.measuring import TableUtility, Utility
from sfumato.engines.embedded.sources import open_source
from sfumato.errors import UsageError
from sfumato.methods.robustness.prior import Prior, read_prior
from sfumato.publisher.table import Table
from sfumato.show.words import percent
from sfumato.values.arrays import IntArray

OTHER = "other"
BY_OTHERS = "Nothing is promised: another tool made this table."
SHOWN_LABELS = 3  # labels that are not understood, in words


def classes(evidence: ForeignEvidence) -> Iterator[Finding]:
    linked, promised = evidence.linked, evidence.promised
    found = linked.classes
    _check_shown(linked)
    shares = found.counts.max(axis=1) / np.maximum(1, found.shown)
    baseline = float(found.counts.sum(axis=0).max() / found.shown.sum())
    likeliest = found.counts.argmax(axis=1)
    yield Finding(
        attacker="classes",
        question="Which value has a person who is known to be in an equivalence class?",
        assumption="Knows the class of a person, and holds the published values to be true.",
        measured="the share of the commonest value in a class (worst), and its mean over the rows; exact",
        worst=float(shares.max()),
        mean=float(shares @ found.shown / found.shown.sum()),
        records=int(found.sizes.sum()),
        at_risk=int(found.sizes[shares > (baseline if promised is None else promised) * (1 + ROUNDING)].sum()),
        promised=promised,
        baseline=baseline,
        exposed=most_exposed(shares, found.sizes, lambda k: f"{found.told(k)}: {linked.values[likeliest[k]]!r}"),
        remark=f"{len(found.codes):,} classes; the smallest has {int(found.sizes.min()):,} row(s).{_hidden(linked)}",
    )


def linking_finding(linked: Linked, promised: float | None) -> Finding:
    """Return how well the values of people are known from the rows that they may be. promised: 1/l, if that is."""
    people, beliefs = linked.people, linked.beliefs
    _check_shown(linked)
    fits = linked.candidates.sum(axis=1) > 0
    asked, total = (int(sizes.sum()) for sizes in (people.sizes[fits], people.sizes))
    worst = beliefs.max(axis=1)
    baseline = float(people.counts.sum(axis=0).max() / total)
    return Finding(
        attacker="linking",
        about=_not_all_fit(total - asked, total, linked),
        question="What do the published rows that a person may be tell of the person's sensitive value?",
        assumption="Knows the quasi-identifiers of people and what labels mean; holds the published values to be true.",
        measured="the belief in a value (worst), and in a person's true value (mean), of those who fit a row",
        worst=float(worst.max()),
        mean=float((people.counts * beliefs).sum() / asked),
        records=total,
        at_risk=int(people.sizes[worst > (baseline if promised is None else promised)].sum()),
        promised=promised,
        baseline=baseline,
        exposed=most_exposed(worst, people.sizes, people.told),
        remark=_lost(total - asked, linked) + _hidden(linked),
    )


def reidentification_finding(linked: Linked) -> Finding:
    """Return how well the row of a person is known: one of the rows that the person may be."""
    people, rows = linked.people, linked.fitting
    lost, total = int(people.sizes[rows == 0].sum()), int(people.sizes.sum())
    alone, about = int(people.sizes[rows == 1].sum()), _not_all_fit(lost, total, linked)
    risk = np.divide(1.0, rows, out=np.zeros(rows.size), where=rows > 0)
    return Finding(
        attacker="reidentification",
        about=about,
        question="Which published row is a person's?",
        assumption="Knows the quasi-identifiers of people and what labels mean; takes one of the rows that fit.",
        measured="the chance to take the right row (worst, and mean of those who fit a row)",
        worst=float(risk.max()),
        mean=float((risk * people.sizes).sum() / (total - lost)),
        records=total,
        at_risk=alone,
        baseline=1 / int(linked.classes.sizes.sum()),
        exposed=most_exposed(risk, people.sizes, people.told),
        remark=f"{alone:,} person(s) fit one row only. {_lost(lost, linked)}".strip(),
    )


def _check_shown(linked: Linked) -> None:
    if not linked.classes.shown.any():
        raise DoesNotApply("no published row shows a sensitive value.")


def _not_all_fit(lost: int, people: int, linked: Linked) -> str:
    """Return in words that some people fit no row: a verdict is not about them. Raise if it is about nobody."""
    if lost == people:
        raise NotMeasured(f"nobody fits a published row.{_not_understood(linked)}")
    return f"{lost:,} of {people:,} fit no row" if lost else ""


def _lost(lost: int, linked: Linked) -> str:
    return f"{lost:,} person(s) fit no published row: nothing is said of them.{_not_understood(linked)}" if lost else ""


def _not_understood(linked: Linked) -> str:
    labels = list(linked.unfit())
    told = ", ".join(map(repr, labels[:SHOWN_LABELS]))
    return f" {len(labels):,} label(s) stand for nobody's value, such as {told}." if labels else ""


def _hidden(linked: Linked) -> str:
    rows = int(linked.classes.hidden.sum())
    return f" {rows:,} published row(s) show no value, and are held to have those of the others." if rows else ""


def corruption(evidence: ForeignEvidence) -> Iterator[Finding]:
    if evidence.known is None:
        raise DoesNotApply("no list of known members was given (--known).")
    linked, stated = evidence.linked, evidence.promised
    known, members = np.zeros_like(linked.people.counts), evidence.is_known
    np.add.at(known, (linked.people.rows[members], linked.people.held[members]), 1)
    if members.all():
        raise UsageError("All members are known: nobody is left to ask for.", "Give some members.")
    rest, placed = linked.without(known)
    before, after = linking_finding(linked, stated), linking_finding(rest, stated)
    remark = f"With no member known the largest belief is {percent(before.worst)}."
    if stays := int(known.sum()) - placed:
        remark += f" {stays:,} known member(s) could not be taken out, as they fit several classes or none, or one "
        remark += "without their value."
    yield replace(
        after,
        attacker="corruption",
        question="What do the rows that a person may be tell, once the values of other members are known?",
        assumption=f"Knows the values of {int(known.sum()):,} member(s), and takes them out of their classes. "
        f"{after.assumption}",
        promised=None,
        stated=stated,
        remark=f"{remark} {after.remark}".strip(),
    )


def register(evidence: ForeignEvidence) -> Iterator[Finding]:
    if evidence.external is None:
        raise DoesNotApply("no register was given (--external).")
    source, names = open_register(evidence.external, evidence.table, evidence.source.names)
    rows, published = plain("register", source, names), evidence.linked.classes
    people = combinations(rows, names, np.zeros(rows.num_rows, dtype=np.int64), 1)
    linked = Linked(people, published, evidence.linked.values)
    labels = tuple(people.told(k) for k in range(len(people.codes)))
    listed = Register(people.names, people.sizes, labels, linked.fitting)
    limits = np.full(len(linked.values), np.inf if evidence.promised is None else evidence.promised)
    yield rows_finding(listed, int(published.sizes.sum()))
    fit = linked.candidates
    told = Told(fit.astype(np.float64), limits, True, linked.values, "holds the published values to be true")
    yield values_finding(replace(listed, candidates=fit.sum(axis=1)), told)


def background(evidence: ForeignEvidence) -> Iterator[Finding]:
    if evidence.ell is None:
        raise DoesNotApply("the policy asks for no l.")
    linked, names = evidence.linked, evidence.quasi_identifiers
    combination, values, tables = _one_by_one(linked)
    sets: list[tuple[Sequence[str], Path | None]] = [([name], None) for name in names]
    sets += [(names, None)] if len(names) > 1 else []
    sets += [(columns_of_prior(path, names), path) for path in evidence.priors]
    known = [_knowledge(linked, combination, values, columns, path) for columns, path in sets]
    for each in known:
        found = background_finding(tables, [each], evidence.ell, False, linked.values, values)
        yield found.named(each.name)


def _one_by_one(linked: Linked) -> tuple[IntArray, IntArray, GroupTables]:
    """Return combination and value of every person, and the people in the one class that each fits.

    Raise where there is none, or one that does not publish the values of its people.
    """
    combination, value = np.nonzero(linked.people.counts)
    times = linked.people.counts[combination, value]
    combination, values = np.repeat(combination, times), np.repeat(value, times)
    home = linked.homes[combination]
    sizes = linked.classes.sizes
    if (home < 0).any() or not np.array_equal(np.bincount(home, minlength=sizes.size), sizes):
        raise NotMeasured("not every person fits exactly one class with as many rows as people.")
    held = np.zeros_like(linked.classes.counts)
    np.add.at(held, (home, values), 1)
    if not np.array_equal(held, linked.classes.counts):
        raise NotMeasured("a class does not show the values of its people: some are withheld or were perturbed.")
    return combination, values, GroupTables.of(home, values)


def _knowledge(
    linked: Linked, combination: IntArray, values: IntArray, columns: Sequence[str], path: Path | None
) -> Knowledge:
    """Return the shares of the values given some of the quasi-identifiers: the table's own, or those of a file."""
    people, size = linked.people, len(linked.values)
    places = [people.names.index(name) for name in columns]
    _, first, number = np.unique(people.codes[:, places], axis=0, return_index=True, return_inverse=True)
    signature = number.ravel()[combination].astype(np.int64)
    labels = [people.written(k, places) for k in first.tolist()]
    if len(labels) * size > MOST_SHARES:
        raise NotMeasured(f"{len(labels):,} combinations are too many for a prior in memory.")
    counts = np.bincount(signature * size + values, minlength=len(labels) * size)
    weights = counts.reshape(-1, size).astype(np.int64)
    told = [named(columns, row) for row in labels]
    name = ", ".join(columns)
    if path is None:
        return Knowledge(name, signature, Prior(weights, weights.sum(axis=1)), told)
    prior = read_prior(path, columns, labels, linked.values, weights)
    return Knowledge(f"{name} ({path.name})", signature, prior, told)


ATTACKERS: dict[str, Attack[ForeignEvidence] | str] = {
    "classes": classes,
    "linking": lambda evidence: [linking_finding(evidence.linked, evidence.promised)],
    "reidentification": lambda evidence: [reidentification_finding(evidence.linked)],
    "corruption": corruption,
    "register": register,
    "background": background,
}


def audit_published(
    table: Table,
    published: Any,
    priors: tuple[Path, ...],
    known: Any,
    external: Any,
    seed: int | None,
    progress: Progress,
) -> Audit:
    source = open_source(published, table.policy.input)
    evidence = ForeignEvidence(table, source, priors, known, external)
    found = run(ATTACKERS, evidence, _measured, progress)
    found["findings"] = tuple(replace(finding, why_not_covered=BY_OTHERS) for finding in found["findings"])
    people, rows = int(evidence.linked.people.sizes.sum()), int(evidence.linked.classes.sizes.sum())
    ell = evidence.ell
    return Audit(
        release_id=None,
        published=source.description,
        method=OTHER,
        assurance=None,
        guarantee="" if ell is None else f"l = {ell}: no value is believed in by more than 1/{ell}.",
        rows=people,
        published_rows=rows,
        shuffled=True,
        seed=seed,
        **found,
        notes=("Labels are read as docs/review/audit.md says; a label that is not understood stands for itself.",),
    )


def _measured(evidence: ForeignEvidence) -> Utility:
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
