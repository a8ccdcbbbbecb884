"""The attacker who goes by the place of a row: in the table's order, in a group, or against what chance gives."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sfumato.auditor.attacker import Attacker, Listed
from sfumato.auditor.attackers.order_guesses import groups_finding, rows_finding
from sfumato.auditor.classes import classes_by_place, classes_of_both, of_rows, other_columns
from sfumato.auditor.evidence import UNMATCHED, Evidence
from sfumato.auditor.finding import Finding, chance_finding
from sfumato.release.verify.order import LEVEL, MOST_VALUES, Classes, published_order, same_place, thinned
from sfumato.values.arrays import CodeArray
from sfumato.values.chance import joined
from sfumato.values.mechanism import Mechanism


def of_randomized(evidence: Evidence) -> Iterator[Finding]:
    """Who holds row k of the release to be person k."""
    labels = None if evidence.mechanism.label is None else evidence.sub_tables
    yield rows_finding(evidence.true, evidence.published, evidence.manifest.data.shuffled, evidence.mechanism, labels)
    yield from random_order(evidence)


def of_response(evidence: Evidence) -> Iterator[Finding]:
    """The same for sensitive values that may be published as they are."""
    own, shown, mechanism = sensitive_of_response(evidence)
    yield rows_finding(own, shown, evidence.manifest.data.shuffled, mechanism)
    yield from random_order(evidence)


def sensitive_of_response(evidence: Evidence) -> tuple[CodeArray, CodeArray, Mechanism | None]:
    """Return the true and the published sensitive values, and how they were randomized; None: not at all."""
    mechanism = next((m for m in evidence.manifest.mechanism_values if m.domain.names == evidence.sensitive), None)
    if mechanism is None:
        both = evidence.signatures(evidence.sensitive)
        return both.table.astype(np.int32), both.release.astype(np.int32), None
    own, shown = (evidence.joined(side, mechanism.domain) for side in (evidence.in_table, evidence.in_release))
    return own, shown, mechanism


def of_groups(evidence: Evidence) -> Iterator[Finding]:
    """Who holds the k-th row of a group to have its k-th value."""
    true = np.full(evidence.manifest.data.rows, UNMATCHED, dtype=np.int64)
    row = evidence.matched
    true[row[row != UNMATCHED]] = evidence.values.table[row != UNMATCHED]
    if (true != UNMATCHED).any():
        yield groups_finding(evidence.group_tables, true, evidence.manifest.data.shuffled)
    yield from random_order(evidence)


def random_order(evidence: Evidence) -> Iterator[Finding]:
    """Who looks for any order in rows that are stated as shuffled: of columns, true values, or places in the table."""
    yield from _as_asked(evidence)
    rows = evidence.manifest.data.rows
    if not evidence.manifest.data.shuffled or rows < 2:
        return
    parts = [published_order(evidence.release, list(_known_classes(evidence)))]
    if not evidence.manifest.in_buckets and not evidence.one_of_each_person:
        parts += [
            same_place(shown, own)
            for name in other_columns(evidence)
            if name in evidence.comparable
            for own, shown in classes_of_both(evidence, name)
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


def _as_asked(evidence: Evidence) -> Iterator[Finding]:
    """A policy that does not ask to keep the order asks for a random one: a release that kept it was made wrongly."""
    if evidence.table.policy.output.order == "keep" or evidence.manifest.data.shuffled:
        return
    yield Finding(
        attacker="order",
        question="Were the rows shuffled, as the policy asks?",
        assumption="Reads the manifest: the rows are in the order of the table.",
        measured="whether the rows are in the order of the table, against the policy",
        worst=1.0,
        mean=None,
        records=evidence.manifest.data.rows,
        at_risk=evidence.manifest.data.rows,
        promised=0.0,
        remark="Whether rows are shuffled must not depend on the table. Publish anew, or ask to keep the order.",
        about="as asked",
        scale="chance",
    )


def _known_classes(evidence: Evidence) -> Iterator[Classes]:
    """Yield true values and places in the table of the rows whose record is known."""
    if (evidence.matched == UNMATCHED).all():
        return
    kept = thinned(evidence.manifest.data.rows)
    values = evidence.values
    frequent = np.argsort(-np.bincount(values.table, minlength=values.size), kind="stable")[:MOST_VALUES]
    place = np.full(values.size, UNMATCHED)
    place[frequent] = np.arange(frequent.size)
    names = [f"true {values.name} {values.labels[k]!r}" for k in frequent.tolist()]
    for each in (Classes(of_rows(evidence, place[values.table]), names), classes_by_place(evidence)[1]):
        yield each if kept is None else Classes(each.codes[kept], each.names)


ATTACKER = Attacker(
    name="order",
    knows="goes by the place of a row",
    why_not_covered="The rows are in the order of the table. The guarantee is about values, not about places.",
    on={"randomized": of_randomized, "response": of_response, "groups": of_groups},
    public=lambda manifest: Listed(13, covered=manifest.data.shuffled),
    place=16,
)
