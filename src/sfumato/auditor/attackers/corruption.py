"""The attacker who knows the true values of some members (FG section I), and what that tells of the others.

    randomized        records are independent in the attacker's eyes: known members tell nothing of the others
    small domain      where the composition is known too, known members are taken out of it and of the published counts
    groups            `corruption_groups`

The first is shown on small tables by going through all worlds (`enumerate_posteriors`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sfumato.auditor.attacker import Attacker, Listed
from sfumato.auditor.attackers.composition import check_known, composition_finding
from sfumato.auditor.attackers.corruption_groups import QUESTION, of_groups
from sfumato.auditor.attackers.linking import attacked, risks
from sfumato.auditor.attackers.posterior import posterior_finding
from sfumato.auditor.evidence import UNMATCHED, DoesNotApply, Evidence
from sfumato.auditor.finding import Finding
from sfumato.auditor.knowledge import known_records
from sfumato.auditor.sub_tables import Counts, compositions, has_sub_tables
from sfumato.auditor.worlds import Number, chance_of, enumerate_posteriors, independent
from sfumato.errors import UsageError
from sfumato.release.manifest import Manifest
from sfumato.values.matrix.base import Matrix
from sfumato.values.mechanism import Mechanism
from sfumato.values.randomness import simulation

SHOWN_WORLDS = 20_000
"""Worlds that the demonstration goes through at most."""


# --- randomized records -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Demonstration:
    """A small table, gone through world by world without and with known members."""

    published: tuple[int, ...]
    known: tuple[tuple[int, int], ...]  # record, true value
    moved: Fraction  # the largest change of a belief about a record that is not known


def randomized_movement(
    weights: Sequence[Sequence[Number]], shares: Sequence[Number], published: Sequence[int], known: Mapping[int, int]
) -> Demonstration:
    """Return how far known members move the beliefs about the others, over all worlds of independent records.

    weights[y][x] = P[y, x]; shares are the prior of every record. Both up to a factor.

    >>> str(randomized_movement([[3, 1], [1, 3]], [4, 1], [0, 1, 1], {1: 0, 2: 1}).moved)
    '0'
    """
    priors, chance = [shares] * len(published), chance_of(weights, published)
    before, after = (
        enumerate_posteriors(independent(priors), chance, len(shares), members) for members in (None, known)
    )
    others = [record for record in range(len(published)) if record not in known]
    moved = max(abs(b - a) for r in others for b, a in zip(before[r], after[r], strict=True))
    return Demonstration(tuple(published), tuple(known.items()), moved)


def demonstrate(matrix: Matrix, counts: Sequence[int]) -> Demonstration | None:
    """Return a demonstration with the values that most records have; None where there is one value only.

    The first of up to five records is asked for, and all others are known. Of many values those that most records have
    are taken, as many as SHOWN_WORLDS allows for two records: the prior is that of one who excludes the others.
    """
    held = [int(code) for code in np.argsort(-np.asarray(counts), kind="stable") if counts[code]]
    held = held[: math.isqrt(SHOWN_WORLDS)]
    if len(held) < 2:
        return None
    weights = [[matrix.weight(y, x) for x in held] for y in held]
    size = next(n for n in (5, 4, 3, 2) if len(held) ** n <= SHOWN_WORLDS)
    published = [k % len(held) for k in range(size)]
    return randomized_movement(
        weights, [int(counts[code]) for code in held], published, {r: published[r] for r in range(1, size)}
    )


def randomized_finding(mechanism: Mechanism, counts: Sequence[int], covered: bool) -> Finding:
    """Return what known members add to a release with one matrix for all rows: nothing.

    `covered`: the guarantee is about one who knows other records (nothing was computed from the table).
    """
    finding = posterior_finding(mechanism, [counts], "upward", covered)
    shown = demonstrate(mechanism.matrix, counts)
    proof = (
        f" Over all worlds of {len(shown.published)} records, {len(shown.known)} of them known, no belief about the "
        f"other moves (by {shown.moved})."
        if shown
        else ""
    )
    own = "" if covered else " The matrix or the domain was computed from the table; what that tells is not measured."
    return replace(
        finding,
        attacker="corruption",
        question=QUESTION,
        assumption=f"Knows the true values of any other records. {finding.assumption}",
        remark=f"Records are independent: known members move nothing.{proof}{own} {finding.remark}",
    )


# --- small domain, with a known composition ---------------------------------------------------------------------------


def known_taken_out(counts: Counts, known: Sequence[tuple[int, int]]) -> Counts:
    """Return the counts of the other members; `known` are published and true value of each known one."""
    published, true = list(counts.published), list(counts.true)
    for shown, own in known:
        published[shown] -= 1
        true[own] -= 1
    if min(*published, *true) < 0:
        raise UsageError(
            "More members are known with a value than there are.", "Give published and true values of members."
        )
    return Counts(tuple(published), tuple(true))


def composition_corruption_finding(
    mechanism: Mechanism, counts: Sequence[Counts], known: Sequence[Sequence[tuple[int, int]]]
) -> Finding:
    """Return what one reaches who knows every sub-table's composition and these members of each."""
    before = composition_finding(mechanism, counts)
    left = [known_taken_out(c, k) for c, k in zip(counts, known, strict=True)]
    after = composition_finding(mechanism, left, whole=counts)
    members = sum(len(k) for k in known)
    return replace(
        after,
        attacker="corruption",
        question=QUESTION,
        assumption=f"Knows the true values of {members:,} member(s). {after.assumption}",
        remark=(
            f"Known members move the worst belief from {before.worst:.4g} to {after.worst:.4g}. One who does not know "
            f"the composition, and takes records for independent draws, is not moved. {after.remark}"
        ),
    )


# --- the attacker -----------------------------------------------------------------------------------------------------


KNOWN_SHARE = 0.1
"""Of the records, known by chance where no list is given."""


def of_randomized(evidence: Evidence) -> Iterator[Finding]:
    """Who knows the true values of some members."""
    mechanism = evidence.mechanism
    if mechanism.is_whole:
        yield randomized_finding(
            mechanism, evidence.once(compositions).quotas[0].tolist(), covered=not evidence.manifest.from_table
        )
        return
    check_known(evidence)
    known, by_chance = _known_members(evidence)
    found = composition_corruption_finding(mechanism, evidence.once(compositions).counts, known)
    chance = f"The known members are {KNOWN_SHARE:.0%} of the records, by chance."
    yield found.with_remark(chance) if by_chance else found


def _known_members(evidence: Evidence) -> tuple[list[list[tuple[int, int]]], bool]:
    """Return published and true value of the known members of each sub-table, and whether chance chose them."""
    given, row = known_records(evidence), evidence.matched
    chosen = simulation(evidence.seed).random(evidence.rows) < KNOWN_SHARE if given is None else given
    records = np.flatnonzero(chosen & (row != UNMATCHED))
    if not records.size:
        raise DoesNotApply("rows were shuffled, and none can be told to be a known member's.")
    labels, shown, own = (codes[at] for codes, at in (
        (evidence.sub_tables, row[records]), (evidence.published, row[records]), (evidence.true, records)
    ))  # fmt: skip
    known: list[list[tuple[int, int]]] = []
    for number, table in enumerate(evidence.mechanism.tables):
        here = labels == number
        pairs = (np.searchsorted(table.codes, codes[here]).tolist() for codes in (shown, own))
        known.append(list(zip(*pairs, strict=True)))
    return known, given is None


def of_response(evidence: Evidence) -> Iterator[Finding]:
    """Who knows the true values of other records: these are independent, and move nothing."""
    known_records(evidence)  # a list that does not fit is an error all the same
    part, found = evidence.manifest.risk_claim, evidence.once(attacked)
    promised = next(finding for finding in evidence.once(risks) if finding.attacker == part.risk)
    mechanism = evidence.manifest.mechanism_values[0]
    counts = np.bincount(evidence.joined(evidence.in_table, mechanism.domain), minlength=mechanism.domain.size).tolist()
    shown = demonstrate(mechanism.matrix, counts) if len(mechanism.domain.parts) == 1 else None
    proof = (
        f" Over all worlds of {len(shown.published)} records by {mechanism.domain.name}, {len(shown.known)} of them "
        f"known, no belief about the other moves (by {shown.moved})."
        if shown
        else ""
    )
    yield replace(
        promised,
        attacker="corruption",
        question=QUESTION,
        assumption=f"Knows the true values of any other records. {promised.assumption}",
        promised=None,
        stated=promised.promised,
        remark=(
            f"Records are independent draws to this attacker: known members move nothing.{proof} But the matrices "
            f"were computed from the table, and the {found.axes.table.records - 1:,} others tell its counts but for "
            "one record; what that tells is not measured."
        ),
    )


def _public(manifest: Manifest) -> Listed | None:
    whole = manifest.kind == "randomized" and not has_sub_tables(manifest)
    return Listed(9, covered=whole and not manifest.from_table)


ATTACKER = Attacker(
    name="corruption",
    knows="knows the values of some other records",
    why_not_covered="The guarantee is not about someone who knows the values of other records.",
    on={"randomized": of_randomized, "response": of_response, "groups": of_groups},
    public=_public,
    place=9,
)
