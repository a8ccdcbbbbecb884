"""The attacker with any prior that the requirement speaks of: what the published value of a record can tell at worst.

Of groups (Anatomy): the attacker who knows a person's group and nothing that tells its members apart.

The published value y multiplies the odds of x_i against x_k by P[y, i]/P[y, k]. So the worst prior puts all the rest on
one other value, the belief grows with the prior, and with the factors of `matrix.upward` and `matrix.downward`

    upward     prior rho1:      odds of x_i   rho1/(1 - rho1) * max_y P[y, i]/min_k P[y, k]
    downward   prior rho2:      odds of x_i   rho2/(1 - rho2) / (max_y max_k P[y, k]/P[y, i])

exactly, in the integers that are sampled. Of a set of values, x_i is any value of it and x_k any other. A requirement
stated by gamma (or epsilon) bounds the factor; it is told as a belief from even odds: prior 1/2 for rho1, and
gamma/(1 + gamma) for rho2.

Several releases have other factors: `sfumato.claims.odds`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from sfumato.auditor.attacker import Attacker, listed
from sfumato.auditor.beliefs import Quotas, compositions, held_records
from sfumato.auditor.evidence import Evidence
from sfumato.auditor.finding import CLOSE, SHOWN, Exposed, Finding, Nearest, held_to, most_exposed
from sfumato.auditor.grouped import GroupTables
from sfumato.claims.claim import BOTH
from sfumato.claims.odds import OddsClaim, set_factor
from sfumato.show.words import percent
from sfumato.values.arrays import IntArray
from sfumato.values.bound import SetBound
from sfumato.values.matrix.base import Direction, Matrix
from sfumato.values.mechanism import Bound, Mechanism, SubTable

Factor = Callable[[Matrix, int], Fraction | None]
"""Gives the most by which the odds of a value change; None: without bound."""

QUESTION = "Which true value does a record have, given its published one?"
SET_QUESTION = "Is a record's true value one of a set, given its published one?"
KNOWS = "Knows the matrix and the published {form} of the record; holds records to be independent. Prior: "
PRIORS = {
    "upward": "any with at most rho1 on the value; of bounds stated by gamma, even odds.",
    "downward": "any with at least rho2 on the value; of bounds stated by gamma, odds of gamma to 1.",
}
SUB_TABLE_SEEN = " These are beliefs once the record's sub-table is seen, which excludes the values that it lacks."


@dataclass(frozen=True)
class Worst:
    """The worst prior within a bound, by the factor of the odds; None: without bound."""

    bound: Bound
    direction: Direction
    factor: Fraction | None

    @cached_property
    def _ends(self) -> tuple[Fraction, Fraction]:
        ends = stated(self.bound)
        assert ends is not None
        return ends if self.direction == "upward" else ends[::-1]

    @property
    def prior(self) -> Fraction:
        return self._ends[0]

    @property
    def limit(self) -> Fraction:
        return self._ends[1]

    @cached_property
    def posterior(self) -> Fraction:
        """The belief that the prior becomes."""
        return moved(self.prior, self.factor, self.direction == "upward")

    @property
    def gamma(self) -> Fraction:
        assert self.bound.gamma is not None
        return self.bound.gamma

    @property
    def is_broken(self) -> bool:
        return self.factor is None or self.factor > self.gamma

    @property
    def used(self) -> Fraction | float:
        return math.inf if self.factor is None else self.factor / self.gamma

    @property
    def remark(self) -> str:
        if self.factor is None:
            return "The odds can change without bound."
        return f"The odds change by a factor of {float(self.factor):.6g}; allowed are {float(self.gamma):.6g}."

    @property
    def why_bound(self) -> str:
        return "The requirement is by gamma: the bound is told from even odds." if self.bound.rho1 is None else ""

    def nearest(self, who: str) -> Nearest:
        return Nearest(who, *map(float, (self.posterior, self.limit, self.prior)))


@dataclass(frozen=True)
class WorstPrior(Worst):
    """That on a value."""

    code: int
    rival: int  # the value that has the rest of the prior
    published: int  # among what the mechanism publishes

    def told(self, mechanism: Mechanism) -> str:
        value, rival = (mechanism.domain.labels[code] for code in (self.code, self.rival))
        published = mechanism.published.labels[self.published]
        return (
            f"{value!r} at a prior of {percent(float(self.prior))} against {rival!r}, published {published!r} "
            f"(bound {percent(float(self.limit))})"
        )


def question_about(mechanism: Mechanism) -> str:
    return QUESTION if mechanism.form == "value" else QUESTION.replace("one?", f"{mechanism.form}?")


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


def worst_priors(table: SubTable, direction: Direction, factor_of: Factor | None = None) -> Iterator[WorstPrior]:
    """Yield the worst prior on each value that has a bound; `factor_of`: of a value, where it is not of one release."""
    matrix = table.matrix
    of_one_release = matrix.upward if direction == "upward" else matrix.downward
    for place, bound in enumerate(table.bounds if matrix.size > 1 else ()):
        if bound.gamma is not None:
            factor = factor_of(matrix, place) if factor_of else of_one_release(place)
            published, rival = matrix.worst_case(place, direction)
            codes = int(table.codes[place]), int(table.codes[rival]), int(table.published[published])
            yield WorstPrior(bound, direction, factor, *codes)


@dataclass(frozen=True)
class WorstOfSet(Worst):
    """That on a set of values."""

    of: SetBound

    def told(self, mechanism: Mechanism) -> str:
        start, end = percent(float(self.prior)), percent(float(self.limit))
        return f"{self.of.told(mechanism.domain)}, at a prior of {start} (bound {end})"


def worst_of_sets(mechanism: Mechanism, direction: Direction) -> Iterator[WorstOfSet]:
    """Yield the worst prior on each set that has a bound."""
    for each in mechanism.sets:
        if each.bound.gamma is not None:
            yield WorstOfSet(each.bound, direction, set_factor(mechanism.matrix, each, direction), each)


def sets_finding(mechanism: Mechanism, held: IntArray, direction: Direction, promised: bool) -> Finding:
    """Return what the worst prior on a set of values becomes: that a record's value is one of them.

    `held` are the records of each value; `promised` whether the guarantee is about this direction.
    """
    found, sign = list(worst_of_sets(mechanism, direction)), 1 if direction == "upward" else -1
    critical = max(found, key=lambda worst: worst.used)
    furthest = sorted(found, key=lambda worst: -sign * worst.posterior)
    worst = furthest[0]
    broken = sorted({code for each in found if each.is_broken for code in each.of.codes})
    exposed = ((each, int(held[list(each.of.codes)].sum())) for each in furthest[:SHOWN])
    return Finding(
        attacker="posterior",
        question=SET_QUESTION,
        assumption=KNOWS.format(form=mechanism.form) + PRIORS[direction].replace("the value", "the set"),
        measured=f"the {'largest' if sign > 0 else 'smallest'} belief in a set of values that has a bound; exact",
        worst=float(worst.posterior),
        records=int(held.sum()),
        at_risk=int(held[broken].sum()),
        **held_to(float(worst.limit), promised),
        baseline=float(worst.prior),
        direction="at most" if sign > 0 else "at least",
        exposed=tuple(Exposed(each.told(mechanism), records, float(each.posterior)) for each, records in exposed),
        remark=critical.remark,
        broken=critical.is_broken,
        about=f"sets of values, {direction}",
        who=worst.told(mechanism),
        nearest=critical.nearest(critical.told(mechanism)) if worst.used < critical.used else None,
        why_bound=worst.why_bound,
    )


def moved(prior: Fraction, factor: Fraction | None, upward: bool) -> Fraction:
    if factor is None:
        return Fraction(int(upward))
    factor = factor if upward else 1 / factor
    return prior * factor / (1 - prior + prior * factor)


def posterior_finding(
    mechanism: Mechanism,
    quotas: Quotas,
    direction: Direction,
    promised: bool = True,
    attacker: str = "posterior",
    factor_of: Factor | None = None,
) -> Finding:
    """Return what the worst prior within the requirement makes of the matrix: the furthest belief, and the one that
    uses up most of its gamma.

    `quotas` are the records of each value of each sub-table; `promised` whether the guarantee is about this direction.
    """
    found = [worst for table in mechanism.tables for worst in worst_priors(table, direction, factor_of)]
    held, sign = held_records(mechanism, quotas), 1 if direction == "upward" else -1
    if not found:
        return Finding(
            attacker=attacker,
            question=question_about(mechanism),
            assumption=KNOWS.format(form=mechanism.form) + "any.",
            measured="nothing is required of any value: a prior may be anything, up to certainty",
            worst=1.0,
            records=int(held.sum()),
            at_risk=0,
            baseline=1.0,
            why_not_covered="No value has a bound." if not mechanism.sets else "Only sets of values have a bound.",
        )
    critical = max(found, key=lambda worst: (worst.used, sign * worst.posterior))
    furthest = sorted(found, key=lambda worst: -sign * worst.posterior)
    worst = furthest[0]
    return Finding(
        attacker=attacker,
        question=question_about(mechanism),
        assumption=KNOWS.format(form=mechanism.form)
        + PRIORS[direction]
        + ("" if mechanism.label is None else SUB_TABLE_SEEN),
        measured=f"the {'largest' if sign > 0 else 'smallest'} belief in a value that has a bound; exact",
        worst=float(worst.posterior),
        records=int(held.sum()),
        at_risk=int(held[list({each.code for each in found if each.is_broken})].sum()),
        **held_to(float(worst.limit), promised),
        baseline=float(worst.prior),
        direction="at most" if sign > 0 else "at least",
        exposed=tuple(Exposed(w.told(mechanism), int(held[w.code]), float(w.posterior)) for w in furthest[:SHOWN]),
        remark=critical.remark,
        broken=critical.is_broken,
        who=worst.told(mechanism),
        nearest=critical.nearest(critical.told(mechanism))
        if float(worst.used) < float(critical.used) - CLOSE
        else None,
        why_bound=worst.why_bound,
    )


# --- groups -----------------------------------------------------------------------------------------------------------


def group_shares_finding(tables: GroupTables, at_most: Fraction, values: Sequence[str] = ()) -> Finding:
    """Return the share of the commonest value of each group beside the bound; compared in integers.

        belief in x of a member = c_x / N,      c_x of the N records of the group have x

    All ways to give the group's values to its members are equally likely to this attacker. So a group keeps 1/l exactly
    if no value has a larger share of it. That is also the mean of the beliefs of someone who does tell members apart,
    whatever their prior: over the members of a group Pr(t has x) sums to c_x. So the promised 1/r bounds it too.
    """
    lines, sizes = tables.lines, tables.sizes
    commonest = lines.ends - 1  # the line of each group: its most frequent value stands last
    largest = lines.counts[commonest]
    above = largest * at_most.denominator > sizes * at_most.numerator
    shares = largest / sizes
    in_truth = float((lines.counts**2 / sizes[lines.groups]).sum())

    def told(value: int) -> str:
        return repr(values[value]) if values else f"value {value + 1}"

    return Finding(
        attacker="posterior",
        question="Which true value does a record have, given its group?",
        assumption=(
            "Knows the group of the record, and nothing that tells its members apart. Prior: every way to give the "
            "group's values to its members is equally likely."
        ),
        measured="the share of a value in a group (worst), and of a record's true value in its group (mean); exact",
        worst=float(shares.max()),
        mean=in_truth / tables.rows.size,
        records=tables.rows.size,
        at_risk=int(sizes[above].sum()),
        promised=float(at_most),
        baseline=float(np.bincount(tables.values, tables.counts).max() / tables.rows.size),
        exposed=most_exposed(shares, sizes, lambda k: f"{tables.told(k)}: {told(int(lines.codes[commonest[k]]))}"),
        remark=f"{int(above.sum()):,} of {sizes.size:,} group(s) have a value with a larger share.",
        broken=bool(above.any()),
    )


PAPER = "The paper promises this bound (FG Theorem 1); the guarantee of the release does not."
PI_CLAIM = "The paper promises this bound (PI Theorem 1); the guarantee of the release does not."


def of_randomized(evidence: Evidence) -> Iterator[Finding]:
    mechanism, quotas = evidence.mechanism, evidence.once(compositions).quotas
    kept = evidence.manifest.guarantee.directions
    by_paper = isinstance(evidence.manifest.claim, OddsClaim) and not evidence.is_proved  # in both directions
    for direction in BOTH:
        found = posterior_finding(mechanism, quotas, direction, direction in kept or by_paper).named(direction)
        yield found if direction in kept or not by_paper else found.with_remark(PAPER)
        if mechanism.sets:
            yield sets_finding(mechanism, held_records(mechanism, quotas), direction, direction in kept)


def of_groups(evidence: Evidence) -> Iterator[Finding]:
    found = group_shares_finding(evidence.group_tables, evidence.group_claim.at_most, evidence.values.labels)
    by_paper = evidence.groups_part.attribute_sets and not evidence.is_proved
    yield found.with_remark(PI_CLAIM) if by_paper else found


def _shares_promised(evidence: Evidence) -> Iterator[Finding]:
    """What a comparison measures. One who knows the attribute sets that a guarantee names reaches no less."""
    if not evidence.group_claim.attribute_sets:
        yield replace(next(of_groups(evidence)), attacker="groups")


ATTACKER = Attacker(
    name="posterior",
    knows="starts from the most helpful covered belief",
    why_not_covered="The guarantee bounds how far a belief rises, not how far it falls.",
    acceptable="Acceptable if only a rising belief does harm. Not if it does harm to rule a value out.",
    on={
        "randomized": of_randomized,
        "response": "the risk of that name is among those of linking",
        "groups": of_groups,
    },
    promised={"randomized": of_randomized, "groups": _shares_promised},
    public=listed(2, True, "randomized", "groups"),
    place=3,
)
