"""The attacker with background knowledge (PI): Pr(value | signature) of an attribute set, from the table or a file.

    groups        p(t:x), the belief that record t of a group has x: the share of the weight of the worlds, PI Eq. (3)
    randomized    belief in x for a published y = P[y, x] p(s:x) / sum_k P[y, k] p(s:k)

The first is exact for groups of up to `MOST_STATES` states; of larger ones it is an upper bound, and said so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sfumato.auditor.attacker import Attacker, listed
from sfumato.auditor.attackers.frequencies import finding_of
from sfumato.auditor.attackers.posterior import PI_CLAIM
from sfumato.auditor.beliefs import has_sub_tables
from sfumato.auditor.evidence import DoesNotApply, Evidence
from sfumato.auditor.finding import SHOWN, Exposed, Finding, held_to, largest_at, settled
from sfumato.auditor.grouped import GroupTables
from sfumato.auditor.knowledge import Knowledge, knowledge
from sfumato.methods.robustness.check import CLOSE, exceeding, posteriors_by_group
from sfumato.methods.robustness.posterior import MOST_STATES, Composition
from sfumato.show.words import percent
from sfumato.values.arrays import BoolArray, FloatArray, IntArray

QUESTION = "Which true value does a record have, given its signature, its group and what is known of signatures?"


# --- groups -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GroupBeliefs:
    knowledge: Knowledge
    largest: FloatArray  # the largest belief in any value
    likeliest: IntArray  # that value
    true: FloatArray | None  # the belief in the true value
    above: BoolArray  # whether the largest belief is above 1/r
    broken: bool  # whether any is, decided in fractions
    bounded: BoolArray  # whether the largest belief is an upper bound only

    @property
    def mean(self) -> float:
        """The mean belief in the true value, or, where these are not given, the mean of the largest."""
        return float((self.largest if self.true is None else self.true).mean())


def group_beliefs(tables: GroupTables, known: Knowledge, r: int, true: IntArray | None = None) -> GroupBeliefs:
    """Return the beliefs under one attribute set's prior; `true` are the values of the rows."""
    groups, signed = tables.compositions(known.signatures), tables.signed(known.signatures)
    by_group: dict[Composition, FloatArray] = {}
    for batch, tables_of_batch in posteriors_by_group(groups, known.prior):
        by_group |= zip(batch, tables_of_batch, strict=True)
    beliefs = [by_group[group] for group in groups]  # of each group, [signature, value]
    line = signed.find(tables.rows, known.signatures)
    likeliest = np.concatenate([table.argmax(axis=1) for table in beliefs]) + tables.lines.starts[signed.groups]
    largest = np.concatenate([table.max(axis=1) for table in beliefs])
    worst = np.maximum.reduceat(largest, signed.starts)
    beyond = exceeding(groups, worst, known.prior, r)
    return GroupBeliefs(
        knowledge=known,
        largest=largest[line],
        likeliest=tables.lines.codes[likeliest[line]],
        true=None if true is None else _in_truth(tables, beliefs, line - signed.starts[tables.rows], true),
        above=_above(largest[line], worst[tables.rows], beyond[tables.rows], r),
        broken=bool(beyond.any()),
        bounded=np.array([group.states > MOST_STATES for group in groups])[tables.rows],
    )


def _in_truth(tables: GroupTables, beliefs: Sequence[FloatArray], place: IntArray, true: IntArray) -> FloatArray:
    """Look up the belief in each row's own value; place: of its signature in the group."""
    value = tables.lines.find(tables.rows, true) - tables.lines.starts[tables.rows]
    widths = np.array([table.shape[1] for table in beliefs])
    starts = np.cumsum([0, *(table.size for table in beliefs[:-1])])
    flat = np.concatenate([table.ravel() for table in beliefs])
    return np.asarray(flat[starts[tables.rows] + place * widths[tables.rows] + value])


def _above(largest: FloatArray, worst: FloatArray, beyond: BoolArray, r: int) -> BoolArray:
    """Whether a row's belief is above 1/r; worst, beyond: of its group.

    In a group whose worst belief is too close to call, fractions have decided for that belief and those next to it. In
    others a row within `CLOSE` of 1/r does not count.
    """
    close = np.abs(worst * r - 1) < CLOSE
    return np.asarray(beyond & (largest * r > np.where(close, 1 - CLOSE, 1 + CLOSE)))


def background_finding(
    tables: GroupTables,
    known: Sequence[Knowledge],
    r: int,
    promised: bool,
    values: Sequence[str] = (),
    true: IntArray | None = None,
) -> Finding:
    """Return what attackers believe who each know one of these attribute sets.

    The bound is 1/r; `promised`: the guarantee is about these sets and priors (robust groups). Else it is stated, such
    as 1/l of diverse groups, which hold for one who knows nothing of signatures. values: their names.
    """
    found = [group_beliefs(tables, each, r, true) for each in known]
    worst = max(found, key=lambda beliefs: float(beliefs.largest.max()))
    row = largest_at(worst.largest)
    prior = worst.knowledge.prior.probabilities[worst.knowledge.signatures[row], worst.likeliest[row]]
    bounded = int(np.logical_or.reduce([beliefs.bounded for beliefs in found]).sum())
    sets = "; ".join(each.name for each in known)
    which = "the probability of each value given" if len(known) == 1 else "it given one of these, the worst is shown:"
    mean = "in the likeliest value of each record" if true is None else "in a record's true value"
    exact = f"exact but for {bounded:,} record(s) in large groups, where it is an upper bound" if bounded else "exact"
    return Finding(
        attacker="background",
        question=QUESTION,
        assumption=(
            f"Knows the group and the signature of every record, and as a prior {which} {sets}. Records are "
            "independent."
        ),
        measured=f"the belief in a value of a record (worst), and {mean} (mean, of the set with the largest); {exact}",
        worst=float(worst.largest[row]),
        mean=max(beliefs.mean for beliefs in found),
        records=tables.rows.size,
        at_risk=int(np.logical_or.reduce([beliefs.above for beliefs in found]).sum()),
        **held_to(1 / r, promised),
        baseline=float(prior),
        exposed=tuple(_exposed(tables, found, values)),
        remark=" ".join(
            f"{each.knowledge.name}: worst {percent(each.largest.max())}, mean {percent(each.mean)}, "
            f"{int(each.above.sum()):,} record(s) above."
            for each in found
        ),
        broken=any(beliefs.broken for beliefs in found),
        is_bound=bool(worst.bounded[row]),
    )


def _exposed(tables: GroupTables, found: Sequence[GroupBeliefs], values: Sequence[str]) -> Iterator[Exposed]:
    which = np.argmax([beliefs.largest for beliefs in found], axis=0)
    largest = np.max([beliefs.largest for beliefs in found], axis=0)
    order = np.lexsort((tables.rows, -settled(largest)))
    _, first = np.unique(tables.rows[order], return_index=True)
    for row in order[np.sort(first)][:SHOWN].tolist():
        beliefs, group = found[which[row]], int(tables.rows[row])
        value = int(beliefs.likeliest[row])
        name = repr(values[value]) if values else f"value {value + 1}"
        signature = beliefs.knowledge.told(int(beliefs.knowledge.signatures[row]))
        yield Exposed(f"{tables.told(group)}: {signature} has {name}", int(tables.sizes[group]), float(largest[row]))


def of_randomized(evidence: Evidence) -> Iterator[Finding]:
    """Who knows how values depend on quasi-identifiers: the table's shares, and the priors that were given."""
    if not evidence.attribute_sets and not evidence.priors:
        raise DoesNotApply("no column is a quasi-identifier.")
    for names in evidence.attribute_sets:
        yield finding_of(evidence, knowledge(evidence, names))
    for path in evidence.priors:
        yield finding_of(evidence, knowledge(evidence, path=path))


def of_groups(evidence: Evidence) -> Iterator[Finding]:
    """Who knows how values depend on columns: first what the guarantee is about, then other sets and priors."""
    yield from promised_background(evidence)
    stated = {known.name for known in evidence.once(promised_sets)}
    others = [names for names in evidence.attribute_sets if ", ".join(names) not in stated]
    if not (stated or others or evidence.priors):
        raise DoesNotApply("no column is a quasi-identifier.")
    if alone := [knowledge(evidence, names) for names in others if len(names) == 1]:
        yield _background(evidence, alone, False)
    together = [knowledge(evidence, names) for names in others if len(names) > 1]
    for each in (*together, *(knowledge(evidence, path=path) for path in evidence.priors)):
        yield _background(evidence, [each], False)


def promised_background(evidence: Evidence) -> Iterator[Finding]:
    if promised := evidence.once(promised_sets):
        yield _background(evidence, promised, True)


def promised_sets(evidence: Evidence) -> tuple[Knowledge, ...]:
    """Return the attribute sets and priors that the guarantee names; any prior includes the table's own."""
    claim, prior = evidence.group_claim, evidence.table.policy.method.prior_files
    if claim.prior != "file" or not prior:
        return tuple(knowledge(evidence, names) for names in claim.attribute_sets)
    return tuple(knowledge(evidence, *pair) for pair in zip(claim.attribute_sets, prior, strict=True))


def _background(evidence: Evidence, known: Sequence[Knowledge], promised: bool) -> Finding:
    found = background_finding(evidence.group_tables, known, evidence.group_bound, promised, evidence.values.labels)
    found = found.named("; ".join(each.name for each in known))
    if sets := evidence.group_claim.attribute_sets:
        about = "; ".join(", ".join(names) for names in sets)
        found = replace(found, why_not_covered=f"The guarantee is about what is known of {about}.")
    return found.with_remark(PI_CLAIM) if promised and not evidence.is_proved else found


ATTACKER = Attacker(
    name="background",
    knows="knows how the sensitive value depends on other columns",
    why_not_covered="The guarantee is about someone whose belief does not depend on other columns.",
    acceptable=(
        "Acceptable if nobody knows how the secret goes with other columns. Not for secrets that depend on age or "
        "sex, as many illnesses do."
    ),
    on={
        "randomized": of_randomized,
        "response": "quasi-identifiers are randomized: linking looks at someone who knows a person's true ones",
        "groups": of_groups,
    },
    promised={"groups": promised_background},
    public=listed(
        6,
        lambda m: bool(m.bucket_claim.attribute_sets) if m.in_buckets else not has_sub_tables(m),
        "randomized",
        "groups",
    ),
    place=6,
)
