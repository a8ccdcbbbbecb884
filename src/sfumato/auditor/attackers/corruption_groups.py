"""Known members of groups (Anatomy): what their values tell of the other members.

groups          a group with composition c: Pr(x) = (c_x - known_x) / (N - known)
and a prior     on signatures (PI): known members are taken out of the group's signatures and values, and the
                posterior is that of the rest, for the weight of a world is a product over the records
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from sfumato.auditor.attackers.background import background_finding, promised_sets
from sfumato.auditor.evidence import UNMATCHED, DoesNotApply, Evidence
from sfumato.auditor.finding import ROUNDING, SHOWN, Exposed, Finding
from sfumato.auditor.grouped import GroupTables
from sfumato.auditor.knowledge import Knowledge, known_records
from sfumato.errors import UsageError
from sfumato.methods.robustness import Composition, Prior, breaches, posteriors_by_group, worst_posteriors
from sfumato.methods.robustness.posterior import MOST_STATES
from sfumato.values.arrays import BoolArray, FloatArray, IntArray

QUESTION = "Which true value does a record have, once the values of other members are known?"
MOST_REDUCED = 10**5
"""Different groups, with known members taken out, whose posteriors are computed at most."""
KNOWN = 1
"""Members of each group that are known where no list is given."""


def worst_group_posterior(counts: Sequence[int], known: int) -> Fraction:
    """Return the largest belief over which members are known: none of those with the commonest value.

        max_x min(1, c_x / (N - known))

    >>> [str(worst_group_posterior([1, 1, 1], t)) for t in range(3)]
    ['1/3', '1/2', '1']
    """
    left = sum(counts) - known
    if left < 1:
        raise UsageError(f"Of {sum(counts)} members {known} are known: nobody is left.", "Give fewer members.")
    return min(Fraction(1), Fraction(max(counts), left))


def groups_finding(
    compositions: Sequence[Sequence[int]], known: int, stated: float | None = None, names: Sequence[str] = ()
) -> Finding:
    """Return what one reaches who knows so many members of each group (all but one of a smaller group).

    `stated` is the bound for one who knows no member, such as 1/l.
    """
    sizes = [sum(counts) for counts in compositions]
    risks = [worst_group_posterior(c, min(known, n - 1)) for c, n in zip(compositions, sizes, strict=True)]
    order = sorted(range(len(risks)), key=lambda k: (-risks[k], -sizes[k]))
    before = max(Fraction(max(c), n) for c, n in zip(compositions, sizes, strict=True))
    limit = float(before) if stated is None else stated
    return Finding(
        attacker="corruption",
        question=QUESTION,
        assumption=f"Knows the group of every record, and the true values of the {known} member(s) that tell most.",
        measured="the largest belief in a value of a member of the group; exact",
        worst=float(max(risks)),
        mean=float(sum(r * n for r, n in zip(risks, sizes, strict=True)) / sum(sizes)),
        records=sum(sizes),
        at_risk=sum(n for r, n in zip(risks, sizes, strict=True) if float(r) > limit * (1 + ROUNDING)),
        stated=stated,
        exposed=tuple(
            Exposed(names[k] if names else f"group {k + 1}", sizes[k], float(risks[k])) for k in order[:SHOWN]
        ),
        remark=f"With no member known the largest belief is {float(before):.4g}.",
    )


# --- groups, and a prior on signatures --------------------------------------------------------------------------------


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
    before = worst_posteriors(groups, known_set.prior)
    order = np.lexsort((-tables.sizes, -risks))[:SHOWN].tolist()
    return Finding(
        attacker="corruption",
        question=QUESTION,
        assumption=(
            f"Knows group and signature of every record, as a prior the probability of each value given "
            f"{known_set.name}, and the true values of the {known} member(s) of each group that tell most."
        ),
        measured="the largest belief in a value of a member of the group, over all that members can have; "
        + ("an upper bound in large groups" if any(group.states > MOST_STATES for group in groups) else "exact"),
        worst=float(risks.max()),
        mean=float(risks @ tables.sizes / tables.rows.size),
        records=tables.rows.size,
        at_risk=int(tables.sizes[above].sum()),
        stated=1 / r,
        exposed=tuple(Exposed(tables.told(k), int(tables.sizes[k]), float(risks[k])) for k in order),
        remark=f"With no member known the largest belief is {before.max():.4g}.",
        broken=bool(above.any()),
    )


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
    return replace(
        after,
        attacker="corruption",
        question=QUESTION,
        assumption=f"Knows the true values of {int(known.sum()):,} member(s). {after.assumption}",
        remark=f"Known members move the worst belief from {before.worst:.4g} to {after.worst:.4g}. {after.remark}",
    )


# --- the attacker -----------------------------------------------------------------------------------------------------


def of_groups(evidence: Evidence) -> Iterator[Finding]:
    """Who knows the true values of some members: of those in a list, or of the one of each group that tells most."""
    tables, given = evidence.group_tables, known_records(evidence)
    sets = evidence.once(promised_sets) or (_nothing_known(evidence),)
    if given is not None:
        row = evidence.matched
        records = np.flatnonzero(given & (row != UNMATCHED))
        if not records.size:
            raise DoesNotApply("no row can be told to be a known member's.")
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
    """Return one signature for all, and equal shares: no background knowledge."""
    size = evidence.values.size
    prior = Prior(np.ones((1, size), dtype=np.int64), np.array([size]))
    return Knowledge("nothing", np.zeros(evidence.group_tables.rows.size, dtype=np.int64), prior, ("a record",))
