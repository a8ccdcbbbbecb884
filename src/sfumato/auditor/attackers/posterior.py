"""The attacker with any prior that the requirement speaks of: what the published value of a record can tell at worst.

Of groups (Anatomy): the attacker who knows a person's group and nothing that tells its members apart.

The published value y multiplies the odds of x_i against x_k by P[y, i]/P[y, k]. So the worst prior puts all the rest on
one other value, the belief grows with the prior, and with the factors of `matrix.upward` and `matrix.downward`

    upward     prior rho1:      odds of x_i   rho1/(1 - rho1) * max_y P[y, i]/min_k P[y, k]
    downward   prior rho2:      odds of x_i   rho2/(1 - rho2) / (max_y max_k P[y, k]/P[y, i])

exactly, in the integers that are sampled. A requirement stated by gamma (or epsilon) bounds the factor; it is told as a
belief from even odds: prior 1/2 for rho1, gamma/(1 + gamma) for rho2.

Several releases have other factors: `sfumato.claims.second_release`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sfumato.auditor.attacker import Attacker, Listed
from sfumato.auditor.evidence import Evidence
from sfumato.auditor.finding import CLOSE, SHOWN, Exposed, Finding, Nearest
from sfumato.auditor.grouped import GroupTables
from sfumato.auditor.sub_tables import compositions
from sfumato.claims.guarantee import BOTH
from sfumato.claims.odds import OddsClaim
from sfumato.release.manifest import Manifest
from sfumato.values.arrays import IntArray
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.matrix.base import Direction, Matrix
from sfumato.values.mechanism import Mechanism, SubTable
from sfumato.values.requirement import Bound

Quotas = Sequence[Sequence[int] | IntArray]
"""Of each sub-table, how many records have each of its values."""

Factor = Callable[[Matrix, int], Fraction | None]
"""Gives the most by which the odds of a value change; None: without bound."""

QUESTION = "Which true value does a record have, given its published one?"
KNOWS = "Knows the matrix and the published value of the record; holds records to be independent. Prior: "


@dataclass(frozen=True)
class WorstPrior:
    """The worst prior on a value within the requirement, and the belief it becomes. `factor` None: without bound."""

    code: int
    direction: Direction
    rival: int  # the value that has the rest of the prior
    published: int
    prior: Fraction
    posterior: Fraction
    limit: Fraction
    factor: Fraction | None
    gamma: Fraction
    is_by_rho: bool = True  # stated by rho1 and rho2, not by gamma alone

    @property
    def is_broken(self) -> bool:
        """Whether the bound does not hold, exactly."""
        return self.factor is None or self.factor > self.gamma

    @property
    def used(self) -> float:
        """How much of its gamma is used up."""
        return math.inf if self.factor is None else float(self.factor / self.gamma)

    def told(self, domain: SensitiveDomain) -> str:
        """Return it in words."""
        value, rival, published = (domain.labels[code] for code in (self.code, self.rival, self.published))
        return (
            f"{value!r} at a prior of {float(self.prior):.4g} against {rival!r}, published {published!r} "
            f"(bound {float(self.limit):.4g})"
        )


def stated(bound: Bound) -> tuple[Fraction, Fraction] | None:
    """Return rho1 and rho2 of a bound, from even odds where it is stated by gamma alone; None without one.

    >>> [str(rho) for rho in stated(Bound(Fraction(3)))]
    ['1/2', '3/4']
    """
    if bound.gamma is None:
        return None
    if bound.rho1 is not None and bound.rho2 is not None:
        return bound.rho1, bound.rho2
    return Fraction(1, 2), bound.gamma / (1 + bound.gamma)


def worst_priors(table: SubTable, direction: Direction, factor: Factor | None = None) -> tuple[WorstPrior, ...]:
    """Return the worst prior on each value that has a bound; `factor` gives that of a value, if not of one release."""
    return tuple(_worst_priors(table, direction, factor or (_upward if direction == "upward" else _downward)))


def _upward(matrix: Matrix, code: int) -> Fraction | None:
    return matrix.upward(code)


def _downward(matrix: Matrix, code: int) -> Fraction | None:
    return matrix.downward(code)


def _worst_priors(table: SubTable, direction: Direction, factor_of: Factor) -> Iterator[WorstPrior]:
    matrix, upward = table.matrix, direction == "upward"
    for place, bound in enumerate(table.bounds if matrix.size > 1 else ()):
        pair = stated(bound)
        if pair is None or bound.gamma is None:
            continue
        prior, limit = pair if upward else pair[::-1]
        published, rival = matrix.worst_case(place, direction)
        factor = factor_of(matrix, place)
        yield WorstPrior(
            code=int(table.codes[place]),
            direction=direction,
            rival=int(table.codes[rival]),
            published=int(table.codes[published]),
            prior=prior,
            posterior=moved(prior, factor, upward),
            limit=limit,
            factor=factor,
            gamma=bound.gamma,
            is_by_rho=bound.rho1 is not None,
        )


def moved(prior: Fraction, factor: Fraction | None, upward: bool) -> Fraction:
    """Return the belief after the odds have changed by the factor."""
    if factor is None:
        return Fraction(int(upward))
    factor = factor if upward else 1 / factor
    return prior * factor / (1 - prior + prior * factor)


def most_critical(found: Sequence[WorstPrior]) -> list[WorstPrior]:
    """Return them by how much of their gamma is used up; ties go to the furthest belief."""

    def used(worst: WorstPrior) -> tuple[bool, Fraction, Fraction]:
        away = worst.posterior if worst.direction == "upward" else -worst.posterior
        return worst.factor is None, (worst.factor or Fraction(0)) / worst.gamma, away

    return sorted(found, key=used, reverse=True)


def posterior_finding(mechanism: Mechanism, quotas: Quotas, direction: Direction, promised: bool = True) -> Finding:
    """Return what the worst prior within the requirement makes of the matrix.

    `quotas` are the records of each value of each sub-table; `promised` whether the guarantee is about this direction.
    """
    found = [worst for table in mechanism.tables for worst in worst_priors(table, direction)]
    return worst_prior_finding(mechanism, quotas, found, direction, promised)


def worst_prior_finding(
    mechanism: Mechanism,
    quotas: Quotas,
    found: Sequence[WorstPrior],
    direction: Direction,
    promised: bool,
    attacker: str = "posterior",
) -> Finding:
    """Return the finding of these worst priors."""
    ranked = most_critical(found)
    if not ranked:
        return _nothing_required(mechanism, quotas, attacker)
    critical, held = ranked[0], _held(mechanism, quotas)
    furthest = sorted(found, key=lambda w: -w.posterior if direction == "upward" else w.posterior)
    worst = furthest[0]
    limit, seen = float(worst.limit), "" if mechanism.label is None else SUB_TABLE_SEEN
    return Finding(
        attacker=attacker,
        question=QUESTION,
        assumption=KNOWS + PRIORS[direction] + seen,
        measured=f"the {'largest' if direction == 'upward' else 'smallest'} belief in a value that has a bound; exact",
        worst=float(worst.posterior),
        mean=None,
        records=sum(held.values()),
        at_risk=sum(held[code] for code in {w.code for w in ranked if w.is_broken}),
        promised=limit if promised else None,
        stated=None if promised else limit,
        baseline=float(worst.prior),
        direction="at most" if direction == "upward" else "at least",
        exposed=tuple(Exposed(w.told(mechanism.domain), held[w.code], float(w.posterior)) for w in furthest[:SHOWN]),
        remark=_remark(critical),
        broken=critical.is_broken,
        who=worst.told(mechanism.domain),
        nearest=_nearest(critical, worst, mechanism.domain),
        why_bound="" if worst.is_by_rho else "The requirement is by gamma: the bound is told from even odds.",
    )


def _nearest(critical: WorstPrior, worst: WorstPrior, domain: SensitiveDomain) -> Nearest | None:
    """Return the one that uses up most of its gamma, if the worst uses up less, beyond rounding."""
    if worst.used >= critical.used - CLOSE:
        return None
    belief, bound, prior = (float(part) for part in (critical.posterior, critical.limit, critical.prior))
    return Nearest(critical.told(domain), belief, bound, prior)


PRIORS = {
    "upward": "any with at most rho1 on the value; of bounds stated by gamma, even odds.",
    "downward": "any with at least rho2 on the value; of bounds stated by gamma, odds of gamma to 1.",
}


SUB_TABLE_SEEN = " These are beliefs once the record's sub-table is seen, which excludes the values that it lacks."


def _remark(worst: WorstPrior) -> str:
    if worst.factor is None:
        return "The odds can change without bound."
    return f"The odds change by a factor of {float(worst.factor):.6g}; allowed are {float(worst.gamma):.6g}."


def _held(mechanism: Mechanism, quotas: Quotas) -> dict[int, int]:
    """Return the records of each value."""
    held = dict.fromkeys(range(mechanism.domain.size), 0)
    for table, counts in zip(mechanism.tables, quotas, strict=True):
        for code, count in zip(table.codes.tolist(), counts, strict=True):
            held[code] += int(count)
    return held


def _nothing_required(mechanism: Mechanism, quotas: Quotas, attacker: str) -> Finding:
    records = sum(_held(mechanism, quotas).values())
    return Finding(
        attacker=attacker,
        question=QUESTION,
        assumption=KNOWS + "any.",
        measured="nothing is required of any value: a prior may be anything, up to certainty",
        worst=1.0,
        mean=None,
        records=records,
        at_risk=0,
        baseline=1.0,
        why_not_covered="No value has a bound.",
    )


# --- groups -----------------------------------------------------------------------------------------------------------

IN_GROUP = "Which true value does a record have, given its group?"


def group_shares_finding(tables: GroupTables, at_most: Fraction, values: Sequence[str] = ()) -> Finding:
    """Return the share of the commonest value of each group beside the bound; compared in integers.

        belief in x of a member = c_x / N,      c_x of the N records of the group have x

    All ways to give the group's values to its members are equally likely to him. So a group keeps 1/l exactly if no
    value has a larger share of it. That is also the mean of the beliefs of one who does tell members apart, whatever
    his prior: over the members of a group Pr(t has x) sums to c_x. So 1/r, promised against him, bounds it too.
    """
    lines, sizes = tables.lines, tables.sizes
    commonest = lines.ends - 1  # the line of each group: its most frequent value stands last
    largest = lines.counts[commonest]
    above = largest * at_most.denominator > sizes * at_most.numerator
    order = np.lexsort((-sizes, -(largest / sizes)))
    worst = int(order[0])
    in_truth = float((lines.counts**2 / sizes[lines.groups]).sum())
    return Finding(
        attacker="posterior",
        question=IN_GROUP,
        assumption=(
            "Knows the group of the record, and nothing that tells its members apart. Prior: every way to give the "
            "group's values to its members is equally likely."
        ),
        measured="the share of a value in a group (worst), and of a record's true value in its group (mean); exact",
        worst=float(largest[worst] / sizes[worst]),
        mean=in_truth / tables.rows.size,
        records=tables.rows.size,
        at_risk=int(sizes[above].sum()),
        promised=float(at_most),
        baseline=float(np.bincount(tables.values, tables.counts).max() / tables.rows.size),
        exposed=tuple(_exposed_groups(tables, order[:SHOWN], commonest, values)),
        remark=f"{int(above.sum()):,} of {sizes.size:,} group(s) have a value with a larger share.",
        broken=bool(above.any()),
    )


def _exposed_groups(
    tables: GroupTables, groups: IntArray, commonest: IntArray, values: Sequence[str]
) -> Iterator[Exposed]:
    for group in groups.tolist():
        code, count = (int(part[commonest[group]]) for part in (tables.lines.codes, tables.lines.counts))
        name = repr(values[code]) if values else f"value {code + 1}"
        size = int(tables.sizes[group])
        yield Exposed(f"{tables.told(group)}: {name}", size, count / size)


# --- the attacker -----------------------------------------------------------------------------------------------------

PAPER = "The paper promises this bound (FG Theorem 1); the guarantee of the release does not."
PI_CLAIM = "The paper promises this bound (PI Theorem 1); the guarantee of the release does not."


def of_randomized(evidence: Evidence) -> Iterator[Finding]:
    """The worst prior within the requirement, both directions."""
    mechanism, quotas = evidence.mechanism, evidence.once(compositions).quotas
    kept = evidence.manifest.guarantee.directions
    by_paper = isinstance(evidence.manifest.claim, OddsClaim)  # in both directions
    for direction in BOTH:
        found = posterior_finding(mechanism, quotas, direction, direction in kept or by_paper).named(direction)
        yield found if direction in kept or not by_paper else found.with_remark(PAPER)


def of_groups(evidence: Evidence) -> Iterator[Finding]:
    """Who knows the group of a record, and nothing that tells its members apart."""
    found = group_shares_finding(evidence.group_tables, evidence.group_claim.at_most, evidence.values.labels)
    by_paper = evidence.groups_part.attribute_sets and not evidence.is_proved
    yield found.with_remark(PI_CLAIM) if by_paper else found


def _shares_promised(evidence: Evidence) -> Iterator[Finding]:
    """What a comparison measures. One who knows the attribute sets that a guarantee names reaches no less."""
    if not evidence.group_claim.attribute_sets:
        yield replace(next(of_groups(evidence)), attacker="groups")


def _public(manifest: Manifest) -> Listed | None:
    return None if manifest.kind == "response" else Listed(2, covered=True)


ATTACKER = Attacker(
    name="posterior",
    knows="takes the worst belief beforehand that the requirement speaks of",
    why_not_covered="The guarantee bounds how far a belief rises, not how far it falls.",
    on={
        "randomized": of_randomized,
        "response": "the risk of that name is among those of linking",
        "groups": of_groups,
    },
    promised={"randomized": of_randomized, "groups": _shares_promised},
    public=_public,
    place=3,
)
