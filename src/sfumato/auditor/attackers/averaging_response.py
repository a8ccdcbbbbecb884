"""Two randomized rows of one person (AD): what their quasi-identifiers, or all of both rows, tell of the true value.

Draws are independent given the true values, also column by column. So with pi the true joint table,

    belief in u    sum_a pi(a, u) prod_k P_k[b_k, a_k] P_k[b'_k, a_k], times P_s[v, u] P_s[v', u] if S is seen too

Each column's factor does not depend on which of its two values is in which row: there are d (d+1)/2 pairs of a column
with d values, and one of d where it is published untouched. All pairs are gone through where they are few enough; else
people are drawn, each with two rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.auditor.attackers.averaging_matrices import MOST_CELLS, NORMAL_95
from sfumato.auditor.attackers.linking import attacked
from sfumato.auditor.attackers.linking_risks import PRIOR, QUESTION, UNTOUCHED
from sfumato.auditor.evidence import Evidence
from sfumato.auditor.finding import ROUNDING, Finding
from sfumato.methods.response.channels import Channel, Channels
from sfumato.methods.response.joint import JointTable
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.randomness import simulation

SIMULATED = 2_000
"""People who are drawn where pairs are too many."""


@dataclass(frozen=True)
class TwoRows:
    """Beliefs in true values: the largest, the mean, and the (expected) share of people above a limit.

    Of a simulation `interval` has the 95% limits of the mean, and `worst` is the largest that was drawn.
    """

    worst: float
    mean: float
    above: float
    interval: tuple[float, float] | None = None


def pairs(channel: Channel, releases: int = 2) -> FloatArray:
    """Return Pr(what is published | true value) of a column: a row for each value, or pair of values in any order."""
    single = channel.matrix.dense() if channel.off_diagonal > 0 else np.eye(channel.size)
    if releases == 1 or channel.off_diagonal == 0:
        return single
    first, second = np.triu_indices(channel.size)
    times = np.where(first == second, 1, 2)
    return np.asarray(times[:, None] * single[first] * single[second])


def two_rows(
    table: JointTable, channels: Channels, limit: float, whole: bool, releases: int = 2, seed: int | None = None
) -> TwoRows:
    """Return what the two rows tell; `whole`: of S too, not of quasi-identifiers only. releases = 1: what one tells."""
    seen = channels if whole else channels[:-1]
    factors = [pairs(channel, releases) for channel in seen]
    if math.prod(len(factor) for factor in factors) * table.sizes[-1] <= MOST_CELLS:
        return _enumerated(table, factors, limit, whole)
    return _simulated(table, seen, releases, limit, seed)


def _enumerated(table: JointTable, factors: Sequence[FloatArray], limit: float, whole: bool) -> TwoRows:
    joint = table.array.astype(np.float64)
    for axis, factor in enumerate(factors[: len(table.sizes) - 1]):
        joint = np.moveaxis(np.tensordot(factor, joint, axes=(1, axis)), 0, axis)
    joint = joint.reshape(-1, table.sizes[-1])  # [pairs of quasi-identifiers, u]: expected people
    worst = mean = above = 0.0
    for seen in factors[-1] if whole else np.ones((1, table.sizes[-1])):
        people = joint * seen
        total = people.sum(axis=1, keepdims=True)
        beliefs = np.divide(people, total, out=np.zeros_like(people), where=total > 0)
        worst = max(worst, float(beliefs.max()))
        mean += float((people * beliefs).sum()) / table.records
        above += float(people[beliefs > limit * (1 + ROUNDING)].sum()) / table.records
    return TwoRows(worst, mean, above)


def _simulated(table: JointTable, seen: Channels, releases: int, limit: float, seed: int | None) -> TwoRows:
    """Draw people of the table, and rows of each."""
    draw, whole = simulation(seed), len(seen) == len(table.sizes)
    drawn = draw.choice(table.counts.size, SIMULATED, p=table.counts.ravel() / table.records)
    true, worst = np.empty(SIMULATED), 0.0
    for k, cell in enumerate(drawn.tolist()):
        group, value = divmod(cell, table.sizes[-1])
        weights = table.counts.astype(np.float64)
        for axis, channel in enumerate(seen):
            own = value if whole and axis == len(seen) - 1 else int(table.groups[group, axis])
            chance = _chance(channel, own, releases, draw)  # of what was drawn, by true value
            weights *= chance if whole and axis == len(seen) - 1 else chance[table.groups[:, axis]][:, None]
        beliefs = weights.sum(axis=0) / weights.sum()
        true[k], worst = beliefs[value], max(worst, float(beliefs.max()))
    mean, off = float(true.mean()), NORMAL_95 * float(true.std(ddof=1)) / math.sqrt(SIMULATED)
    above = float((true > limit * (1 + ROUNDING)).mean())
    return TwoRows(worst, mean, above, (max(0.0, mean - off), min(1.0, mean + off)))


def _chance(channel: Channel, own: int, releases: int, draw: np.random.Generator) -> FloatArray:
    """Publish a value so many times, and return the probability of that for each true value."""
    kept = draw.random(releases) < channel.retention
    shown: IntArray = np.where(kept, own, draw.integers(channel.size, size=releases))
    chance = np.full((releases, channel.size), channel.off_diagonal)
    chance[np.arange(releases), shown] += channel.retention
    return np.asarray(chance.prod(axis=0))


OTHER_MATRICES = (
    "The record key repeats draws only where the same matrices come out; where a changed table gives others, noise is "
    "fresh, and these are the figures. Where they are the same, two releases tell what one tells only if how long a "
    "value lasts tells nothing of which value it is: that is assumed, not proved."
)


def of_response(evidence: Evidence) -> Iterator[Finding]:
    """Who is told which two rows of two releases are one person's."""
    found, claim = evidence.once(attacked), evidence.manifest.risk_claim
    limit = float(np.min(found.axes.limits(claim.limit)))
    for about, whole in (("quasi-identifiers", False), ("whole rows", True)):
        once, twice = (
            two_rows(found.axes.table, found.channels, limit, whole, times, evidence.seed) for times in (1, 2)
        )
        finding = _two_rows_finding(found.axes.table, once, twice, limit, whole).named(about)
        finding = finding.with_remark(UNTOUCHED) if whole and found.channels[-1].off_diagonal == 0 else finding
        yield finding.with_remark(OTHER_MATRICES) if evidence.table.policy.record_key else finding


def _two_rows_finding(table: JointTable, once: TwoRows, twice: TwoRows, limit: float, whole: bool) -> Finding:
    seen = "both rows" if whole else "the quasi-identifiers of both rows and nothing else of them"
    drawn = twice.interval is not None
    return Finding(
        attacker="averaging",
        question=QUESTION,
        assumption=(
            "Is told which row of this release and which row of a second one, with fresh noise, are of one person: the "
            f"rows themselves do not tell, if quasi-identifiers are randomized. Sees {seen}, and knows the matrices. "
            f"{PRIOR}"
        ),
        measured="the belief in a value (worst), and in the true value (mean); "
        + (f"of {SIMULATED:,} people who were drawn" if drawn else "exact, over all that can be published"),
        worst=twice.worst,
        mean=twice.mean,
        records=table.records,
        at_risk=round(twice.above * table.records),
        stated=limit,
        baseline=float(table.counts.sum(axis=0).max() / table.records),
        remark=f"After one release the mean is {once.mean:.4g}, and the worst {once.worst:.4g}." + _limits(twice),
    )


def _limits(found: TwoRows) -> str:
    if found.interval is None:
        return ""
    low, high = found.interval
    return f" The mean of two has 95% limits {low:.4g} to {high:.4g}; larger beliefs than the worst may exist."
