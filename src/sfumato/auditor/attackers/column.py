"""The attacker who asks for one of several sensitive columns: a bound on combinations of them is none on each column.

A value a of a column is the set A of all combinations that have it. With c_x records that have x, a share d_jx of them
dealt to sub-table j, and P_j[y, x] = q_x + p_x [y = x], someone who sees sub-table j and a published y believes in a by

    sum over x in A of c_x d_jx P_j[y, x]  /  sum over all x of the same

and before by the share of A among the records. Of n records with x, n d_jx P_j[y, x] are published so: figures are
expected ones over all releases, exactly. With one matrix for all rows, the worst prior on A within the requirement is
moved by the factor

    upward     max over x in A of P[x, x]  /  min over k not in A of q_k
    downward   max over k not in A of P[k, k]  /  min over x in A of q_x
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sfumato.auditor.attacker import Attacker, Listed, Role, by_mechanism
from sfumato.auditor.attackers import combination
from sfumato.auditor.attackers.background import ATTACKER as BACKGROUND
from sfumato.auditor.attackers.composition import ATTACKER as COMPOSITION
from sfumato.auditor.attackers.composition import MOST_VALUES, composition_beliefs
from sfumato.auditor.attackers.label import ATTACKER as LABEL
from sfumato.auditor.attackers.posterior import Worst
from sfumato.auditor.beliefs import Counts, Quotas, compositions, has_sub_tables, held_records, limits_at, worst_finding
from sfumato.auditor.codes import cross_counts
from sfumato.auditor.evidence import DoesNotApply, Evidence
from sfumato.auditor.finding import ROUNDING, SHOWN, Exposed, Finding, held_to, largest_at, settled
from sfumato.auditor.knowledge import MOST_SHARES
from sfumato.claims.claim import BOTH
from sfumato.claims.sub_tables import SubTableClaim
from sfumato.release.manifest import Manifest
from sfumato.show.words import percent
from sfumato.values.arrays import BoolArray, FloatArray, IntArray
from sfumato.values.attributes import SensitiveDomain, label
from sfumato.values.matrix.base import Direction, Matrix
from sfumato.values.mechanism import NO_BOUND, Bound, Mechanism

QUESTION = "Which value of one sensitive column does a record have?"


@dataclass(frozen=True, eq=False)
class ColumnView:
    """One column of several sensitive ones: its values, which of them each combination has, and their bounds."""

    name: str
    labels: tuple[str, ...]
    value_of: IntArray  # of each combination of the domain
    bounds: tuple[Bound, ...]  # of each value: the strictest of all combinations that have it
    promised: bool  # whether the guarantee is about any statement, and so about this column

    @property
    def size(self) -> int:
        return len(self.labels)

    def only_rare(self, held: IntArray) -> ColumnView:
        """Return the view of sub-tables: of values with a larger share than their rho1 nothing is required.

        held: the records of each combination.
        """
        records = np.bincount(self.value_of, held, self.size).astype(np.int64).tolist()
        rare = [b.rho1 is None or n <= b.rho1 * sum(records) for b, n in zip(self.bounds, records, strict=True)]
        kept = (bound if is_rare else NO_BOUND for bound, is_rare in zip(self.bounds, rare, strict=True))
        return replace(self, bounds=tuple(kept))

    def told(self, value: int) -> str:
        return f"{self.name} = {self.labels[value]}"


def column_views(domain: SensitiveDomain, bounds: Sequence[Bound], any_predicate: bool) -> tuple[ColumnView, ...]:
    """Return the columns of a domain of several; none where there is one only. bounds: as asked for."""
    if len(domain.parts) < 2:
        return ()
    codes = domain.codes
    return tuple(
        ColumnView(
            part.name,
            tuple(map(label, part.values)),
            own.astype(np.int64),
            tuple(_strictest(bounds, own == value) for value in range(len(part.values))),
            any_predicate,
        )
        for part, own in zip(domain.parts, codes, strict=True)
    )


def _strictest(bounds: Sequence[Bound], inside: BoolArray) -> Bound:
    own = [bound for bound, is_own in zip(bounds, inside.tolist(), strict=True) if is_own and bound.gamma is not None]
    return min(own, key=lambda bound: bound.gamma or 0, default=NO_BOUND)


# --- with the shares of the table, or of records that share other columns ---------------------------------------------


@dataclass(frozen=True, eq=False)
class ColumnBeliefs:
    """Cases, each with its records: the belief in every value of the column, and that beforehand: [case, value]."""

    records: FloatArray
    beliefs: FloatArray
    priors: FloatArray
    names: Sequence[str]


def known_shares(
    mechanism: Mechanism,
    quotas: Quotas,
    view: ColumnView,
    counts: IntArray,
    groups: Sequence[str],
    seen: bool = True,
) -> ColumnBeliefs:
    """Return the beliefs of someone who knows the shares of combinations: counts [group, combination].

    `seen`: whether they look at the published value, or at the sub-table alone.
    """
    held = np.maximum(held_records(mechanism, quotas), 1)
    onehot = np.eye(view.size)[view.value_of]  # [combination, value]
    prior = (counts @ onehot) / np.maximum(counts.sum(axis=1), 1)[:, None]
    parts, priors, names = [], [], []
    for j, (table, quota) in enumerate(zip(mechanism.tables, quotas, strict=True)):
        own = onehot[table.codes]
        weight = counts[:, table.codes] * (np.asarray(quota) / held[table.codes])  # [group, place]
        where, shown = f"sub-table {j + 1}" if mechanism.label else "", [""]
        if seen:
            shown = [f"published {mechanism.domain.labels[code]!r}" for code in table.codes.tolist()]
        joint = _joint(table.matrix, weight, own) if seen else (weight @ own)[:, None, :]  # [group, shown, value]
        parts.append(joint.reshape(-1, view.size))
        priors.append(np.repeat(prior, len(shown), axis=0))
        names += [", ".join(part for part in (group, where, y) if part) for group in groups for y in shown]
    whole = np.concatenate(parts)
    records = whole.sum(axis=1)
    use = np.flatnonzero(records > 0)
    beliefs = whole[use] / records[use, None]
    return ColumnBeliefs(records[use], beliefs, np.concatenate(priors)[use], [names[k] for k in use.tolist()])


def _joint(matrix: Matrix, weight: FloatArray, own: FloatArray) -> FloatArray:
    """Return the records of each group by published combination and value: [group, published, value]."""
    if matrix.retention is None or matrix.size == 1:
        return np.moveaxis(matrix.apply(weight[:, None, :] * own.T), 1, 2)
    codes = np.arange(matrix.size)
    noise, kept = weight * matrix.chances(np.roll(codes, 1), codes), weight * matrix.retention
    return np.asarray((noise @ own)[:, None, :] + kept[:, :, None] * own)


def known_composition(mechanism: Mechanism, counts: Sequence[Counts], view: ColumnView) -> ColumnBeliefs:
    """Return the beliefs of someone who knows how many records of each sub-table have each combination."""
    total = np.bincount(view.value_of, held_records(mechanism, [own.true for own in counts]), view.size)
    records, beliefs, names = [], [], []
    for j, (table, own) in enumerate(zip(mechanism.tables, counts, strict=True)):
        if not sum(own.true):
            continue
        shown = np.flatnonzero(own.published)
        found = composition_beliefs(table.matrix, own.published, own.true).beliefs
        beliefs.append(np.minimum(found[shown] @ np.eye(view.size)[view.value_of[table.codes]], 1.0))
        records += [float(own.published[y]) for y in shown.tolist()]
        where = f"sub-table {j + 1}, " if mechanism.label else ""
        names += [f"{where}published {mechanism.domain.labels[table.codes[y]]!r}" for y in shown.tolist()]
    whole = np.concatenate(beliefs)
    return ColumnBeliefs(np.array(records), whole, np.broadcast_to(total / total.sum(), whole.shape), names)


def column_finding(view: ColumnView, found: ColumnBeliefs, about: str, knows: str, expected: bool = True) -> Finding:
    records, beliefs, priors = found.records, found.beliefs, found.priors
    limits = limits_at(view.bounds, np.arange(view.size, dtype=np.int32), priors)
    covered = np.isfinite(limits) & (priors < 1) & (priors > 0)
    pool = covered if covered.any() else priors < 1
    above = covered & (beliefs > limits * (1 + ROUNDING))
    at_risk = above if covered.any() else beliefs > priors

    def who(case: int, value: int) -> str:
        return f"{view.told(value)}, {found.names[case]}" if found.names[case] else view.told(value)

    largest = np.where(pool, beliefs, -1.0)
    cells = [
        (k, largest_at(largest[k])) for k in np.argsort(-settled(largest.max(axis=1)), kind="stable")[:SHOWN].tolist()
    ]
    return worst_finding(
        beliefs,
        priors,
        np.where(covered, limits, np.inf),
        pool,
        who,
        view.bounds,
        view.promised,
        attacker="column",
        question=QUESTION,
        assumption=f"{knows} Asks for {view.name} alone, whatever the other sensitive columns are.",
        measured=(
            "the belief in a value of the column (worst), and in a record's true one (mean); exact"
            + (", expected over all releases" if expected else "")
        ),
        mean=float(records @ (beliefs**2).sum(axis=1) / records.sum()),
        records=round(float(records.sum())),
        at_risk=round(float(records[at_risk.any(axis=1)].sum())),
        exposed=tuple(Exposed(who(*cell), round(float(records[cell[0]])), float(beliefs[cell])) for cell in cells),
        remark=_remark(view, found, above, pool),
        about=f"{view.name}, {about}",
    )


def _remark(view: ColumnView, found: ColumnBeliefs, above: BoolArray, pool: BoolArray) -> str:
    values = [view.told(k) for k in np.flatnonzero(above.any(axis=0)).tolist()]
    told = f"Beyond its bound in some case: {', '.join(values[:SHOWN])}." if values else "No value is beyond its bound."
    free = np.where(pool | (found.priors == 1), -1.0, found.beliefs)
    if free.max() > 0:
        value = largest_at(free.max(axis=0))
        told += f" Of values without a bound the largest belief is {percent(free.max())} ({view.told(value)})."
    sure = (found.beliefs >= 1 - ROUNDING) & (found.priors < 1)
    records = round(float(found.records[sure.any(axis=1)].sum()))
    return f"{told} Of {records:,} record(s) the value is certain." if records else told


# --- with the worst prior ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _WorstOfColumn(Worst):
    value: int


def _worst_priors(mechanism: Mechanism, view: ColumnView, direction: Direction) -> Iterator[_WorstOfColumn]:
    for value, bound in enumerate(view.bounds):
        inside = view.value_of == value
        if bound.gamma is not None and inside.any() and not inside.all():
            factor = mechanism.matrix.raised(inside if direction == "upward" else ~inside)
            yield _WorstOfColumn(bound, direction, factor, value)


def _worst_prior_finding(
    view: ColumnView, found: Sequence[_WorstOfColumn], direction: Direction, held: IntArray
) -> Finding:
    upward = direction == "upward"

    def excess(each: _WorstOfColumn) -> Fraction:
        return each.posterior - each.limit if upward else each.limit - each.posterior

    ranked = sorted(found, key=lambda each: -each.posterior if upward else each.posterior)
    worst, near = ranked[0], max(found, key=excess)
    records = np.bincount(view.value_of, held, view.size).astype(np.int64)
    broken = [each.value for each in found if excess(each) > 0]
    return Finding(
        attacker="column",
        question=QUESTION,
        assumption=(
            f"Knows the matrix and the published row. Prior: any with {'at most rho1' if upward else 'at least rho2'} "
            f"on a value of {view.name}, whatever the other sensitive columns are."
        ),
        measured=f"the {'largest' if upward else 'smallest'} belief in a value of the column; exact",
        worst=float(worst.posterior),
        records=int(records.sum()),
        at_risk=int(records[broken].sum()),
        **held_to(float(worst.limit), view.promised),
        baseline=float(worst.prior),
        direction="at most" if upward else "at least",
        exposed=tuple(
            Exposed(view.told(each.value), int(records[each.value]), float(each.posterior)) for each in ranked[:SHOWN]
        ),
        broken=bool(broken),
        about=f"{view.name}, {direction}",
        who=view.told(worst.value),
        nearest=near.nearest(view.told(near.value)) if excess(near) > excess(worst) else None,
    )


ONE_COLUMN = "one column is sensitive, so the other attackers look at it."


def of_randomized(evidence: Evidence) -> Iterator[Finding]:
    mechanism = evidence.mechanism
    held = np.bincount(evidence.true, minlength=mechanism.domain.size)
    bounds = evidence.requirement.bounds(mechanism.domain, held.tolist())
    views = column_views(mechanism.domain, bounds, evidence.manifest.guarantee.scope == "any predicate")
    if not views:
        raise DoesNotApply(ONE_COLUMN)
    for view in views if mechanism.is_whole else (view.only_rare(held) for view in views):
        for direction in BOTH if mechanism.is_whole else ():
            if moved_most := list(_worst_priors(mechanism, view, direction)):
                yield _worst_prior_finding(view, moved_most, direction, held)
        yield from _by_shares(evidence, view)
        computed = all(t.codes.size <= MOST_VALUES and t.matrix.retention is not None for t in mechanism.tables)
        if computed and not evidence.one_of_each_person:
            found = known_composition(mechanism, evidence.once(compositions).counts, view)
            knows = "Knows the matrices, and how many records of each sub-table have each combination."
            finding = column_finding(replace(view, promised=False), found, "composition", knows, expected=False)
            yield _explained(evidence, finding, COMPOSITION)


def _by_shares(evidence: Evidence, view: ColumnView) -> Iterator[Finding]:
    """Someone who knows the shares of the table, then those of records that share other columns."""
    mechanism, quotas = evidence.mechanism, evidence.once(compositions).quotas
    m = mechanism.domain.size
    if mechanism.label is not None:
        held = np.bincount(evidence.true, minlength=m)[None]
        found = known_shares(mechanism, quotas, view, held, [""], seen=False)
        knows = "Knows the shares of all combinations in the table, and sees the sub-table of a record."
        yield _explained(evidence, column_finding(view, found, "label", knows), LABEL)
    for names in ((), *evidence.attribute_sets):
        by = evidence.signatures(names)
        if by.size * m * view.size > MOST_SHARES:
            continue
        given = f" given {by.name}" if names else " in the table"
        knows = f"Knows the matrices, the published row, and the shares of all combinations{given}."
        told = by.told if names else [""]
        found = known_shares(mechanism, quotas, view, cross_counts(by.table, evidence.true, by.size, m), told)
        # sub-tables of the proved version bound the belief of someone who goes by the shares of values alone
        own = replace(view, promised=True) if _bounds_columns(evidence) and not names else view
        yield _explained(evidence, column_finding(own, found, by.name if names else "frequencies", knows), BACKGROUND)


def _bounds_columns(evidence: Evidence) -> bool:
    return evidence.manifest.guarantee.scope == "any predicate" or (
        isinstance(evidence.manifest.claim, SubTableClaim) and evidence.is_proved
    )


def _explained(evidence: Evidence, finding: Finding, like: Role) -> Finding:
    """Give the reason of a like attacker on combinations, where the guarantee is about columns alone, too."""
    return replace(finding, why_not_covered=like.why_not_covered) if _bounds_columns(evidence) else finding


def _public(manifest: Manifest) -> Listed | None:
    if manifest.kind == "several":
        return next(filter(None, map(_public, manifest.by_mechanism)), None)
    if manifest.kind != "randomized" or len(manifest.mechanism_values[0].domain.parts) == 1:
        return None
    by_sub_tables = manifest.assurance == "proved" and has_sub_tables(manifest)
    return Listed(7, covered=manifest.guarantee.scope == "any predicate" or by_sub_tables)


def of_columns(evidence: Evidence) -> Iterator[Finding]:
    """Who asks for one column of a compound; and who reads all columns, where each has a mechanism of its own."""
    with suppress(DoesNotApply):  # there may be no compound
        yield from by_mechanism(of_randomized)(evidence)
    yield from combination.of_several(evidence)


ATTACKER = Attacker(
    name="column",
    knows="asks for one of several sensitive columns",
    why_not_covered="The guarantee is about combinations of the sensitive columns, not about one column alone.",
    acceptable="Acceptable if only the combination is secret. Not if one of the columns alone would do harm.",
    on={
        "randomized": of_randomized,
        "several": of_columns,
        "response": "the limit is on combinations, and the plan tells the risk of each column alone",
        "groups": "one column is sensitive",
    },
    promised={"several": combination.of_several},
    roles=(combination.ROLE,),
    public=_public,
    place=8,
)
