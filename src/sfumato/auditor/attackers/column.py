"""The attacker who asks for one of several sensitive columns: methods bound combinations of them, not each column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sfumato.auditor.attacker import Attacker, Listed, Role
from sfumato.auditor.attackers.background import ATTACKER as BACKGROUND
from sfumato.auditor.attackers.column_beliefs import (
    ColumnBeliefs,
    ColumnView,
    column_views,
    known_composition,
    known_shares,
)
from sfumato.auditor.attackers.composition import ATTACKER as COMPOSITION
from sfumato.auditor.attackers.composition import MOST_VALUES
from sfumato.auditor.attackers.label import ATTACKER as LABEL
from sfumato.auditor.attackers.posterior import moved, stated
from sfumato.auditor.beliefs import why_bound
from sfumato.auditor.codes import Signatures
from sfumato.auditor.evidence import DoesNotApply, Evidence
from sfumato.auditor.finding import ROUNDING, SHOWN, Exposed, Finding, Nearest, nearer
from sfumato.auditor.knowledge import MOST_SHARES
from sfumato.auditor.sub_tables import compositions, has_sub_tables
from sfumato.claims.claim import BOTH
from sfumato.claims.sub_tables import SubTableClaim
from sfumato.release.manifest import Manifest
from sfumato.values.arrays import BoolArray, IntArray
from sfumato.values.matrix.base import Direction
from sfumato.values.mechanism import Mechanism

QUESTION = "Which value of one sensitive column does a record have?"


# --- with the shares of the table, or of records that share other columns ---------------------------------------------


def column_finding(view: ColumnView, found: ColumnBeliefs, about: str, knows: str, expected: bool = True) -> Finding:
    """Return the largest belief in a value of the column, beside the one nearest to its bound."""
    limits = view.limits(found.priors)
    covered = np.isfinite(limits) & (found.priors < 1) & (found.priors > 0)
    bounded = covered.any()
    pool = covered if bounded else found.priors < 1
    beliefs = np.where(pool, found.beliefs, -1.0)
    worst = np.unravel_index(int(beliefs.argmax()), beliefs.shape)
    near = np.unravel_index(int(np.where(pool, beliefs - np.where(bounded, limits, 0.0), -2.0).argmax()), beliefs.shape)
    above = covered & (found.beliefs > limits * (1 + ROUNDING))
    baseline = found.priors if not bounded else limits
    at_risk = above if bounded else found.beliefs > baseline
    limit = float(limits[worst]) if bounded else None

    def who(cell: tuple[np.intp, ...]) -> str:
        case, value = map(int, cell)
        return f"{view.told(value)}, {found.names[case]}" if found.names[case] else view.told(value)

    order = np.argsort(-beliefs.max(axis=1), kind="stable")[:SHOWN]
    cells = [(case, beliefs[case].argmax()) for case in order]
    nearest = None
    if limit is not None:
        figures = (float(array[near]) for array in (found.beliefs, limits, found.priors))
        nearest = nearer(Nearest(who(near), *figures), float(found.beliefs[worst]), limit)
    return Finding(
        attacker="column",
        question=QUESTION,
        assumption=f"{knows} Asks for {view.name} alone, whatever the other sensitive columns are.",
        measured=(
            "the belief in a value of the column (worst), and in a record's true one (mean); exact"
            + (", expected over all releases" if expected else "")
        ),
        worst=float(found.beliefs[worst]),
        mean=float(found.records @ (found.beliefs**2).sum(axis=1) / found.records.sum()),
        records=round(float(found.records.sum())),
        at_risk=round(float(found.records[at_risk.any(axis=1)].sum())),
        promised=limit if view.promised else None,
        stated=None if view.promised else limit,
        baseline=float(found.priors[worst]),
        exposed=tuple(
            Exposed(who(cell), round(float(found.records[cell[0]])), float(found.beliefs[cell])) for cell in cells
        ),
        remark=_remark(view, found, above, pool),
        about=f"{view.name}, {about}",
        who=who(worst),
        nearest=nearest,
        why_bound="" if limit is None else why_bound(view.bounds, limit, float(found.priors[worst])),
    )


def _remark(view: ColumnView, found: ColumnBeliefs, above: BoolArray, pool: BoolArray) -> str:
    values = [view.told(k) for k in np.flatnonzero(above.any(axis=0)).tolist()]
    told = f"Beyond its bound in some case: {', '.join(values[:SHOWN])}." if values else "No value is beyond its bound."
    free = np.where(pool | (found.priors == 1), -1.0, found.beliefs)
    if free.max() > 0:
        value = int(free.max(axis=0).argmax())
        told += f" Of values without a bound the largest belief is {free.max():.4g} ({view.told(value)})."
    sure = (found.beliefs >= 1 - ROUNDING) & (found.priors < 1)
    records = round(float(found.records[sure.any(axis=1)].sum()))
    return f"{told} Of {records:,} record(s) the value is certain." if records else told


# --- with the worst prior ---------------------------------------------------------------------------------------------


def worst_prior_findings(mechanism: Mechanism, view: ColumnView, held: IntArray) -> Iterator[Finding]:
    """Yield what the worst prior on a value of the column becomes; held: the records of each combination."""
    for direction in BOTH:
        if found := list(_worst_priors(mechanism, view, direction)):
            yield _worst_prior_finding(view, found, direction, held)


@dataclass(frozen=True)
class _Moved:
    value: int
    prior: Fraction
    posterior: Fraction
    limit: Fraction


def _worst_priors(mechanism: Mechanism, view: ColumnView, direction: Direction) -> Iterator[_Moved]:
    for value, bound in enumerate(view.bounds):
        pair, inside = stated(bound), view.value_of == value
        if pair is None or inside.all() or not inside.any():
            continue
        upward = direction == "upward"
        factor = mechanism.matrix.raised(inside if upward else ~inside)
        prior, limit = pair if upward else pair[::-1]
        yield _Moved(value, prior, moved(prior, factor, upward), limit)


def _worst_prior_finding(view: ColumnView, found: Sequence[_Moved], direction: Direction, held: IntArray) -> Finding:
    upward = direction == "upward"
    sign = 1 if upward else -1
    ranked = sorted(found, key=lambda each: -sign * each.posterior)
    worst, near = ranked[0], max(found, key=lambda each: sign * (each.posterior - each.limit))
    records = np.bincount(view.value_of, held, view.size).astype(np.int64)
    broken = [each for each in found if sign * (each.posterior - each.limit) > 0]
    limit = float(worst.limit)
    closer = sign * (near.posterior - near.limit) > sign * (worst.posterior - worst.limit)
    return Finding(
        attacker="column",
        question=QUESTION,
        assumption=(
            f"Knows the matrix and the published row. Prior: any with {'at most rho1' if upward else 'at least rho2'} "
            f"on a value of {view.name}, whatever the other sensitive columns are."
        ),
        measured=f"the {'largest' if upward else 'smallest'} belief in a value of the column; exact",
        worst=float(worst.posterior),
        mean=None,
        records=int(records.sum()),
        at_risk=int(sum(records[each.value] for each in broken)),
        promised=limit if view.promised else None,
        stated=None if view.promised else limit,
        baseline=float(worst.prior),
        direction="at most" if upward else "at least",
        exposed=tuple(
            Exposed(view.told(each.value), int(records[each.value]), float(each.posterior)) for each in ranked[:SHOWN]
        ),
        broken=bool(broken),
        about=f"{view.name}, {direction}",
        who=view.told(worst.value),
        nearest=Nearest(view.told(near.value), *(float(x) for x in (near.posterior, near.limit, near.prior)))
        if closer
        else None,
    )


# --- the attacker -----------------------------------------------------------------------------------------------------

ONE_COLUMN = "one column is sensitive, so the other attackers look at it."


def of_randomized(evidence: Evidence) -> Iterator[Finding]:
    """One column of several that were randomized together."""
    mechanism = evidence.mechanism
    held = np.bincount(evidence.true, minlength=mechanism.domain.size)
    bounds = evidence.table.policy.requirement.bounds(mechanism.domain, held.tolist())
    views = column_views(mechanism.domain, bounds, evidence.manifest.guarantee.scope == "any predicate")
    if not views:
        raise DoesNotApply(ONE_COLUMN)
    for view in views if mechanism.is_whole else (view.only_rare(held) for view in views):
        if mechanism.is_whole:
            yield from worst_prior_findings(mechanism, view, held)
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
    everybody = evidence.signatures(())
    if mechanism.label is not None:
        found = known_shares(mechanism, quotas, view, _counted(evidence, everybody), [""], seen=False)
        knows = "Knows the shares of all combinations in the table, and sees the sub-table of a record."
        yield _explained(evidence, column_finding(view, found, "label", knows), LABEL)
    for names in ((), *evidence.attribute_sets):
        by = evidence.signatures(names)
        if by.size * mechanism.domain.size * view.size > MOST_SHARES:
            continue
        given = f" given {by.name}" if names else " in the table"
        knows = f"Knows the matrices, the published row, and the shares of all combinations{given}."
        told = by.told if names else [""]
        found = known_shares(mechanism, quotas, view, _counted(evidence, by), told)
        # sub-tables of the proved version bound the belief of someone who goes by the shares of values alone
        own = replace(view, promised=True) if _bounds_columns(evidence) and not names else view
        yield _explained(evidence, column_finding(own, found, by.name if names else "frequencies", knows), BACKGROUND)


def _bounds_columns(evidence: Evidence) -> bool:
    """Whether the guarantee is about each column alone, too."""
    return evidence.manifest.guarantee.scope == "any predicate" or (
        isinstance(evidence.manifest.claim, SubTableClaim) and evidence.is_proved
    )


def _explained(evidence: Evidence, finding: Finding, like: Role) -> Finding:
    """Give the reason of a like attacker on combinations, where the guarantee is about columns alone, too."""
    return replace(finding, why_not_covered=like.why_not_covered) if _bounds_columns(evidence) else finding


def _counted(evidence: Evidence, by: Signatures) -> IntArray:
    m = evidence.mechanism.domain.size
    return np.bincount(by.table * m + evidence.true, minlength=by.size * m).reshape(-1, m)


def _public(manifest: Manifest) -> Listed | None:
    if manifest.kind != "randomized" or len(manifest.mechanism_value.domain.parts) == 1:
        return None
    by_sub_tables = manifest.assurance == "proved" and has_sub_tables(manifest)
    return Listed(7, covered=manifest.guarantee.scope == "any predicate" or by_sub_tables)


ATTACKER = Attacker(
    name="column",
    knows="asks for one of several sensitive columns",
    why_not_covered="The guarantee is about combinations of the sensitive columns, not about one column alone.",
    on={
        "randomized": of_randomized,
        "response": "the limit is on combinations, and the plan tells the risk of each column alone",
        "groups": "one column is sensitive",
    },
    public=_public,
    place=8,
)
