"""The attacker who knows the true values of some members (FG section I), and what that tells of the others.

    randomized        records are independent in the attacker's eyes: known members tell nothing of the others
    small domain      where the composition is known too, known members are taken out of it and of the published counts
    groups            a group with composition c: Pr(x) = (c_x - known_x) / (N - known)
    and a prior       on signatures (PI): known members are taken out of the group's signatures and values, and the
                      posterior is that of the rest, for the weight of a world is a product over the records

The first is shown on small tables by going through all worlds (`enumerate_posteriors`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.auditor.attacker import Attacker, listed
from sfumato.auditor.attackers.background import background_finding, promised_sets
from sfumato.auditor.attackers.composition import check_known, composition_finding
from sfumato.auditor.attackers.linking import attacked, risks
from sfumato.auditor.attackers.posterior import posterior_finding
from sfumato.auditor.beliefs import Counts, compositions, has_sub_tables
from sfumato.auditor.evidence import UNMATCHED, Evidence, NotMeasured
from sfumato.auditor.finding import ROUNDING, Finding, most_exposed
from sfumato.auditor.grouped import GroupTables
from sfumato.auditor.knowledge import Knowledge, known_records
from sfumato.auditor.worlds import Number, chance_of, enumerate_posteriors, independent
from sfumato.errors import UsageError
from sfumato.methods.robustness.check import breaches, posteriors_by_group, worst_posteriors
from sfumato.methods.robustness.posterior import MOST_STATES, Composition
from sfumato.methods.robustness.prior import Prior
from sfumato.show.words import percent
from sfumato.values.arrays import BoolArray, FloatArray, IntArray
from sfumato.values.matrix.base import Matrix
from sfumato.values.mechanism import Mechanism
from sfumato.values.randomness import simulation

QUESTION = "Which true value does a record have, once the values of other members are known?"
SHOWN_WORLDS = 20_000  # worlds that the demonstration goes through at most
MOST_REDUCED = 10**5  # different groups, with known members taken out, whose posteriors are computed at most
KNOWN, KNOWN_SHARE = 1, 0.1
"""Members of each group that are known where no list is given; and of randomized records, by chance."""


# --- randomized records -----------------------------------------------------------------------------------------------


def randomized_movement(
    weights: Sequence[Sequence[Number]], shares: Sequence[Number], published: Sequence[int], known: Mapping[int, int]
) -> Fraction:
    """Return how far known members move the beliefs about the others, over all worlds of independent records.

    weights[y][x] = P[y, x]; shares are the prior of every record. Both up to a factor.

    >>> str(randomized_movement([[3, 1], [1, 3]], [4, 1], [0, 1, 1], {1: 0, 2: 1}))
    '0'
    """
    priors, chance = [shares] * len(published), chance_of(weights, published)
    before, after = (
        enumerate_posteriors(independent(priors), chance, len(shares), members) for members in (None, known)
    )
    others = [record for record in range(len(published)) if record not in known]
    return max(abs(b - a) for r in others for b, a in zip(before[r], after[r], strict=True))


def demonstrate(matrix: Matrix, counts: Sequence[int]) -> tuple[int, Fraction] | None:
    """Return of how many records all worlds were gone through, and how far a belief moved; None of one value only.

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
    shares, known = [int(counts[code]) for code in held], {r: published[r] for r in range(1, size)}
    return size, randomized_movement(weights, shares, published, known)


def _proof(matrix: Matrix, counts: Sequence[int], by: str = "") -> str:
    if not (shown := demonstrate(matrix, counts)):
        return ""
    records, moved = shown
    return (
        f" Over all worlds of {records} records{by}, {records - 1} of them known, no belief about the other moves "
        f"(by {moved})."
    )


def randomized_finding(mechanism: Mechanism, counts: Sequence[int], covered: bool) -> Finding:
    """Return what known members add to a release with one matrix for all rows: nothing.

    `covered`: the guarantee is about one who knows other records (nothing was computed from the table).
    """
    finding = posterior_finding(mechanism, [counts], "upward", covered)
    own = "" if covered else " The matrix or the domain was computed from the table; what that tells is not measured."
    return _corrupted(
        finding,
        "of any other records",
        f"Records are independent: known members move nothing.{_proof(mechanism.matrix, counts)}{own} {finding.remark}",
    )


def _corrupted(finding: Finding, known: str, remark: str) -> Finding:
    assumption = f"Knows the true values {known}. {finding.assumption}"
    return replace(finding, attacker="corruption", question=QUESTION, assumption=assumption, remark=remark)


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
    return _corrupted(
        after,
        f"of {sum(len(k) for k in known):,} member(s)",
        f"Known members move the worst belief from {percent(before.worst)} to {percent(after.worst)}. Someone who "
        f"does not know the composition, and takes records for independent draws, is not moved. {after.remark}",
    )


# --- groups -----------------------------------------------------------------------------------------------------------


def groups_finding(
    compositions: Sequence[Sequence[int]], known: int, stated: float | None = None, names: Sequence[str] = ()
) -> Finding:
    """Return what one reaches who knows so many members of each group (all but one of a smaller group).

        largest belief of a group = max_x min(1, c_x / (N - known)): none of those with the commonest value is known

    `stated` is the bound for one who knows no member, such as 1/l.
    """
    sizes, largest = (np.array([number(counts) for counts in compositions]) for number in (sum, max))
    risks, before = np.minimum(1.0, largest / np.maximum(sizes - known, 1)), largest / sizes
    limit = before.max() if stated is None else stated
    return _finding_of_groups(
        risks,
        before,
        risks > limit * (1 + ROUNDING),
        sizes,
        names or [f"group {k + 1}" for k in range(sizes.size)],
        assumption=f"Knows the group of every record, and the true values of the {known} member(s) that tell most.",
        measured="the largest belief in a value of a member of the group; exact",
        stated=stated,
    )


def _finding_of_groups(
    risks: FloatArray,
    before: FloatArray,
    above: BoolArray,
    sizes: IntArray,
    names: Sequence[str],
    **said: Any,
) -> Finding:
    return Finding(
        attacker="corruption",
        question=QUESTION,
        worst=float(risks.max()),
        mean=float(risks @ sizes / sizes.sum()),
        records=int(sizes.sum()),
        at_risk=int(sizes[above].sum()),
        exposed=most_exposed(risks, sizes, names.__getitem__),
        remark=f"With no member known the largest belief is {percent(before.max())}.",
        **said,
    )


def taken_out(group: Composition, signature: int, value: int) -> Composition:
    """Return a group without a member of this signature and value.

    >>> taken_out(Composition((0, 1), (1, 2), (5, 7), (1, 2)), 1, 7)
    Composition(signatures=(0, 1), sizes=(1, 1), values=(5, 7), counts=(1, 1))
    """
    signatures = Counter(dict(zip(group.signatures, group.sizes, strict=True)))
    values = Counter(dict(zip(group.values, group.counts, strict=True)))
    return Composition.of((signatures - Counter([signature])).elements(), (values - Counter([value])).elements())


def reduced(groups: Iterable[Composition], prior: Prior) -> dict[Composition, set[Composition]]:
    """Return what can be left of each group once a member is known; a group of one stays.

    All members with a value that they can have: those of a belief above 0.
    """
    found: dict[Composition, set[Composition]] = {}
    for batch, beliefs in posteriors_by_group(groups, prior):
        for group, table in zip(batch, beliefs, strict=True):
            pairs = np.argwhere(table > 0) if group.size > 1 else ()
            found[group] = {taken_out(group, group.signatures[s], group.values[x]) for s, x in pairs} or {group}
    return found


def worst_when_known(groups: Sequence[Composition], prior: Prior, known: int) -> tuple[FloatArray, list[Composition]]:
    """Return the largest posterior of each group over which members are known, and what is left of it there.

    So many members are known, of a smaller group all but one: whichever they are, and with whatever values they can
    have. For groups of up to `MOST_STATES` states exact, else an upper bound.
    """
    left = {group: {group} for group in groups}
    for _ in range(known):
        fewer = reduced(set().union(*left.values()), prior)
        if sum(map(len, fewer.values())) > MOST_REDUCED:
            raise UsageError(
                f"{known} known members can leave more than {MOST_REDUCED:,} different groups.",
                "Ask for fewer known members, or give those who are known.",
            )
        left = {group: set().union(*(fewer[rest] for rest in rests)) for group, rests in left.items()}
    rests = list(set().union(*left.values()))
    risk = dict(zip(rests, worst_posteriors(rests, prior).tolist(), strict=True))
    worst = {group: max(sorted(rests, key=str), key=risk.__getitem__) for group, rests in left.items()}
    return np.array([risk[worst[group]] for group in groups]), [worst[group] for group in groups]


def robust_groups_finding(tables: GroupTables, known_set: Knowledge, known: int, r: int) -> Finding:
    """Return what one reaches who has a prior on signatures and knows so many members of each group."""
    groups = tables.compositions(known_set.signatures)
    risks, rests = worst_when_known(groups, known_set.prior, known)
    above = breaches(rests, known_set.prior, r)
    exact = "an upper bound in large groups" if any(group.states > MOST_STATES for group in groups) else "exact"
    found = _finding_of_groups(
        risks,
        worst_posteriors(groups, known_set.prior),
        above,
        tables.sizes,
        [tables.told(k) for k in range(tables.sizes.size)],
        assumption=(
            f"Knows group and signature of every record, as a prior the probability of each value given "
            f"{known_set.name}, and the true values of the {known} member(s) of each group that tell most."
        ),
        measured=f"the largest belief in a value of a member of the group, over all that members can have; {exact}",
        stated=1 / r,
    )
    return replace(found, broken=bool(above.any()))


def known_members_finding(
    tables: GroupTables,
    sets: Sequence[Knowledge],
    r: int,
    known: BoolArray,
    values: IntArray,
    names: Sequence[str] = (),
) -> Finding:
    """Return what is believed of the others, once these rows are known to have these values.

    One attribute set with one signature and equal shares: no background knowledge.
    """
    before = background_finding(tables, sets, r, promised=False, values=names)
    others = [replace(each, signatures=each.signatures[~known]) for each in sets]
    after = background_finding(tables.without(known, values), others, r, promised=False, values=names)
    remark = (
        f"Known members move the worst belief from {percent(before.worst)} to {percent(after.worst)}. {after.remark}"
    )
    return _corrupted(after, f"of {int(known.sum()):,} member(s)", remark)


def of_randomized(evidence: Evidence) -> Iterator[Finding]:
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
        raise NotMeasured("rows were shuffled, and none can be told to be a known member's.")
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
    proof = _proof(mechanism.matrix, counts, f" by {mechanism.domain.name}") if len(mechanism.domain.parts) == 1 else ""
    remark = (
        f"Records are independent draws to this attacker: known members move nothing.{proof} But the matrices were "
        f"computed from the table, and the {found.axes.table.records - 1:,} others tell its counts but for one record; "
        "what that tells is not measured."
    )
    yield replace(_corrupted(promised, "of any other records", remark), promised=None, stated=promised.promised)


def of_groups(evidence: Evidence) -> Iterator[Finding]:
    """Who knows the true values of some members: of those in a list, or of the one of each group that tells most."""
    tables, given = evidence.group_tables, known_records(evidence)
    sets = evidence.once(promised_sets) or (_nothing_known(evidence),)
    if given is not None:
        row = evidence.matched
        records = np.flatnonzero(given & (row != UNMATCHED))
        if not records.size:
            raise NotMeasured("no row can be told to be a known member's.")
        known = np.zeros(tables.rows.size, dtype=np.bool_)
        known[row[records]] = True
        values = evidence.values.table[records[np.argsort(row[records])]]
        yield known_members_finding(tables, sets, evidence.group_bound, known, values, evidence.values.labels)
    elif evidence.group_claim.attribute_sets:
        for each in sets:
            yield robust_groups_finding(tables, each, KNOWN, evidence.group_bound).named(each.name)
    else:
        compositions = [counts for _, counts in tables.lines.of_groups()]
        names = [tables.told(k) for k in range(len(compositions))]
        yield groups_finding(compositions, KNOWN, float(evidence.group_claim.at_most), names)


def _nothing_known(evidence: Evidence) -> Knowledge:
    size = evidence.values.size
    prior = Prior(np.ones((1, size), dtype=np.int64), np.array([size]))
    return Knowledge("nothing", np.zeros(evidence.group_tables.rows.size, dtype=np.int64), prior, ("a record",))


ATTACKER = Attacker(
    name="corruption",
    knows="knows the values of some other records",
    why_not_covered="The guarantee is not about someone who knows the values of other records.",
    acceptable=(
        "Acceptable if people do not know each other's values. Not among people who do, such as a ward, a school "
        "or a village."
    ),
    on={"randomized": of_randomized, "response": of_response, "groups": of_groups},
    public=listed(9, lambda m: m.kind in ("randomized", "several") and not has_sub_tables(m) and not m.from_table),
    place=9,
)
