"""The attacker who already knows a record's value up to W steps of its order, where a release promises by steps.

To them W + 1 neighbouring values are possible. On the integers, the published y moves the odds of any statement by

    factor = max_y max P[y, i]/P[y, k]        i, k at most W steps apart;    promised: factor <= gamma

in both directions, exactly; beliefs follow as for `posterior`, which is held to the larger factor for everybody else.

On the release, of two values x < x' that lie W steps apart and are equally likely to them:

    Pr(x' or more is published | x')  <=  gamma Pr(x' or more is published | x)        and x or less for x likewise

With the shares p and q of the records of both values that are published so, their belief is p/(p + q), and promised
gamma/(1 + gamma). Both shares have exact (Clopper-Pearson) limits; all limits together are wrong in 1e-6 of releases.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import special

from sfumato.auditor.attacker import IN_GROUPS, ONE_MATRIX, Attacker, Listed
from sfumato.auditor.attackers.posterior import WorstPrior
from sfumato.auditor.codes import cross_counts
from sfumato.auditor.evidence import UNMATCHED, DoesNotApply, Evidence
from sfumato.auditor.finding import Exposed, Finding, largest_at, most_exposed
from sfumato.claims.claim import BOTH
from sfumato.claims.steps import StepsClaim
from sfumato.release.manifest import Manifest
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.matrix.base import Direction, Matrix
from sfumato.values.matrix.dense import over_windows
from sfumato.values.mechanism import Mechanism
from sfumato.values.order import codes_in_order

LEVEL = 1e-6  # probability that any limit of a release is wrong
NO_STEPS = "nothing is promised by steps of an order."
PRIORS = {
    "upward": "any with at most rho1 on the value; of a bound stated by gamma, even odds.",
    "downward": "any with at least rho2 on the value; of a bound stated by gamma, odds of gamma to 1.",
}


# --- on the integers --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Widest:
    """The published value that tells two near values apart best: by which factor, and which two."""

    factor: Fraction | None  # None: without bound
    published: int
    likelier: int
    rarer: int


def widest(matrix: Matrix, order: list[int], steps: int) -> Widest:
    """Return the largest ratio of the entries of two values up to so many steps apart: exact, and where it is."""
    entries = matrix.dense().T[order]
    high, low = (over_windows(entries, steps + 1, extreme) for extreme in (np.maximum, np.minimum))
    with np.errstate(divide="ignore"):
        ratios = np.divide(high, low, out=np.ones_like(high), where=high > 0)
    first, published = divmod(largest_at(ratios.ravel()), matrix.outputs)
    near = entries[first : first + steps + 1, published]
    codes = [order[first + int(place)] for place in (near.argmax(), near.argmin())]
    return Widest(matrix.largest_step(order, steps), published, *codes)


def worst_prior(mechanism: Mechanism, claim: StepsClaim, direction: Direction) -> WorstPrior:
    """Return the worst prior on one of two near values, and the belief it becomes."""
    if claim.bound.gamma is None:
        raise DoesNotApply(NO_STEPS)
    found = widest(mechanism.matrix, codes_in_order(mechanism.domain.parts[0]), claim.steps)
    code, rival = (found.likelier, found.rarer) if direction == "upward" else (found.rarer, found.likelier)
    return WorstPrior(claim.bound, direction, found.factor, code, rival, found.published)


def on_integers(mechanism: Mechanism, claim: StepsClaim, direction: Direction, records: int) -> Finding:
    """Return the belief that the worst prior on near values becomes, beside what is promised of it."""
    worst = worst_prior(mechanism, claim, direction)
    factor = "without bound" if worst.factor is None else f"by a factor of {float(worst.factor):.6g}"
    return Finding(
        attacker="near",
        question=_question(claim),
        assumption=f"{_knows(claim)} Knows the matrix. Prior: {PRIORS[direction]}",
        measured=f"the {'largest' if direction == 'upward' else 'smallest'} belief in one of these values; exact",
        worst=float(worst.posterior),
        records=records,
        at_risk=records if worst.is_broken else 0,
        promised=float(worst.limit),
        baseline=float(worst.prior),
        direction="at most" if direction == "upward" else "at least",
        exposed=(Exposed(worst.told(mechanism), records, float(worst.posterior)),),
        remark=f"The odds change {factor}; allowed are {float(worst.gamma):.6g}. {_others(mechanism)}",
        broken=worst.is_broken,
        about=direction,
        who=worst.told(mechanism),
        why_bound=worst.why_bound,
    )


def _others(mechanism: Mechanism) -> str:
    """Tell the factor for everybody else."""
    ratio = mechanism.matrix.largest_ratio
    far = "without bound" if ratio is None else f"by a factor of up to {float(ratio):.6g}"
    return f"For someone who does not know the value so well they change {far}: see posterior."


# --- on the release ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Pairs:
    """Two values each, and of how many records of both an event was published: it speaks for the first."""

    values: IntArray  # [pair, 2]: codes
    hits: FloatArray  # [pair, 2]
    records: FloatArray  # [pair, 2]

    def beliefs(self) -> FloatArray:
        """Return p/(p + q), 1/2 where the event never happened."""
        p, q = _shares(self.hits, self.records).T
        return np.asarray(np.divide(p, p + q, out=np.full(p.size, 0.5), where=p + q > 0))

    def limits(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Return confidence limits of the beliefs, of which any is wrong with the level at most."""
        low, high = clopper_pearson(self.hits, self.records, level / max(1, self.hits.size))
        lowest = np.divide(low[:, 0], low[:, 0] + high[:, 1], out=np.zeros(len(low)), where=high[:, 1] > 0)
        highest = np.divide(high[:, 0], high[:, 0] + low[:, 1], out=np.ones(len(low)), where=high[:, 0] > 0)
        return lowest, highest


def clopper_pearson(hits: FloatArray, records: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Return limits of the chance of each hit; either is wrong with half the level at most.

    >>> [limit.round(4).tolist() for limit in clopper_pearson(np.array([0.0, 5.0]), np.array([10.0, 10.0]), 0.05)]
    [[0.0, 0.1871], [0.3085, 0.8129]]
    """
    missed = records - hits
    low = np.where(hits > 0, special.betaincinv(np.maximum(hits, 1), missed + 1, level / 2), 0.0)
    high = np.where(missed > 0, special.betaincinv(hits + 1, np.maximum(missed, 1), 1 - level / 2), 1.0)
    return np.asarray(low), np.asarray(high)


def pairs_of(counts: IntArray, steps: int) -> Pairs:
    """Return pairs of values so many steps apart, from records by true and published place in the order.

    First "as high as the higher one, or higher", which speaks for the higher; then the same from below.
    """
    m = len(counts)
    low, high = np.arange(m - steps), np.arange(steps, m)
    records = counts.sum(axis=1)
    at_least, at_most = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1], np.cumsum(counts, axis=1)
    values = np.concatenate((np.column_stack((high, low)), np.column_stack((low, high))))
    hits = np.concatenate((
        np.column_stack((at_least[high, high], at_least[low, high])),
        np.column_stack((at_most[low, low], at_most[high, low])),
    ))  # fmt: skip
    return Pairs(values, hits.astype(np.float64), records[values].astype(np.float64))


def on_release(mechanism: Mechanism, claim: StepsClaim, true: IntArray, published: IntArray) -> Finding:
    """Return the belief in one of two values W steps apart that the rows of known records give, with its limits."""
    order = np.array(codes_in_order(mechanism.domain.parts[0]))
    place, m = np.argsort(order), order.size
    assert claim.bound.gamma is not None
    steps, gamma = min(claim.steps, m - 1), float(claim.bound.gamma)
    counts = cross_counts(place[true], place[published], m, m)
    pairs = pairs_of(counts, steps)
    beliefs, (low, high) = pairs.beliefs(), pairs.limits(LEVEL)
    worst, bound = largest_at(low), gamma / (1 + gamma)
    labels = mechanism.domain.labels

    def told(number: int) -> str:
        own, rival = (labels[order[place]] for place in pairs.values[number].tolist())
        side = "or more" if number < m - steps else "or less"
        return f"{own!r} against {rival!r}, published {own!r} {side}"

    return Finding(
        attacker="near",
        question=_question(claim),
        assumption=f"{_knows(claim)} Sees whether the published value is the one, or beyond it. Prior: even odds.",
        measured="the belief in the first of two values, from how often records of both are published so",
        worst=float(beliefs[worst]),
        records=int(true.size),
        at_risk=int(counts[np.unique(pairs.values[low > bound])].sum()),
        promised=bound,
        baseline=0.5,
        interval=(float(low[worst]), float(high[worst])),
        exposed=most_exposed(beliefs, pairs.records.sum(axis=1), told, np.argsort(-low, kind="stable")),
        about="release",
        who=told(worst),
        why_bound="It is told from even odds.",
    )


def _shares(hits: FloatArray, records: FloatArray) -> FloatArray:
    return np.asarray(hits / np.maximum(records, 1))


# --- the attacker -----------------------------------------------------------------------------------------------------


def _question(claim: StepsClaim) -> str:
    return f"Which of {claim.steps + 1} neighbouring values does a record have, given its published one?"


def _knows(claim: StepsClaim) -> str:
    steps = "1 step" if claim.steps == 1 else f"{claim.steps} steps"
    return f"Already knows the record's value up to {steps}."


def of_randomized(evidence: Evidence) -> Iterator[Finding]:
    yield from by_matrix(evidence)
    claim, known = evidence.manifest.claim, np.flatnonzero(evidence.matched != UNMATCHED)
    if isinstance(claim, StepsClaim) and known.size and evidence.mechanism.form == "value":
        true, published = evidence.true[known], evidence.published[evidence.matched[known]]
        yield on_release(evidence.mechanism, claim, true.astype(np.int64), published.astype(np.int64))


def by_matrix(evidence: Evidence) -> Iterator[Finding]:
    claim, mechanism = evidence.manifest.claim, evidence.mechanism
    if not isinstance(claim, StepsClaim) or len(codes_in_order(mechanism.domain.parts[0])) != mechanism.domain.size:
        raise DoesNotApply(NO_STEPS)
    for direction in BOTH:
        yield on_integers(mechanism, claim, direction, evidence.rows)


def promises_steps(manifest: Manifest) -> bool:
    return any(isinstance(own.claim, StepsClaim) for own in manifest.by_mechanism)


ATTACKER = Attacker(
    name="near",
    knows="already knows a value up to some steps of its order",
    on={"randomized": of_randomized, "response": ONE_MATRIX, "groups": IN_GROUPS},
    promised={"randomized": by_matrix},
    public=lambda manifest: Listed(15, covered=True) if promises_steps(manifest) else None,
    place=18,
    concerns=promises_steps,
)
