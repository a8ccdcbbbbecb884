"""Randomized response under linking (AD): the three risks on the true table, and two attackers whom no limit holds.

    posterior        sees the published quasi-identifiers of one row: h(b, u)
    link             takes a row with the person's published quasi-identifiers: (P^T h)(a, u)
    reconstruction   draws the true quasi-identifiers, then the true value, at random: AD Eq. (6)
    row              sees the published sensitive value too: the odds of h times p_s/q_s
    distribution     knows pi and the person's quasi-identifiers, and guesses the likeliest value: max_u pi(u | QI)

One of the first three is promised; the others are told with their size. All are exact, from the joint table of the
true values and the matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.auditor.finding import ROUNDING, SHOWN, Exposed, Finding, Nearest
from sfumato.claims.linking_risk import LINKS, RECONSTRUCTS, SEES_QUASI_IDENTIFIERS
from sfumato.methods.response.channels import Channels
from sfumato.methods.response.guessing import limit_success
from sfumato.methods.response.joint import JointTable
from sfumato.methods.response.problem import Limit, pose
from sfumato.methods.response.risks import Posterior, Risk, RiskName
from sfumato.values.arrays import FloatArray, IntArray

Tell = Callable[[IntArray], str]
"""Gives the codes of a cell, or of a group, which has no sensitive value, in words."""
QUESTION = "Which sensitive value does a person have?"
OTHER_RISK = "The limit was asked for on another risk."
UNTOUCHED = "The sensitive value is published untouched."
PRIOR = "Prior: the table's own distribution, how many records have each combination of values."
KNOWS: dict[RiskName, str] = {
    "posterior": SEES_QUASI_IDENTIFIERS,
    "link": LINKS,
    "reconstruction": RECONSTRUCTS,
}
MEASURED: dict[RiskName, str] = {
    "posterior": "the belief in a true value, given published quasi-identifiers; exact, by expected shares",
    "link": "the probability to hit a row with the person's true value; exact, by expected shares",
    "reconstruction": "AD Eq. (6); exact, and no bound on an inference",
}


@dataclass(frozen=True, eq=False)
class CellRisks:
    """The risk of every cell, its limit, and the (expected) records in it, flat. Codes: quasi-identifiers, then S."""

    risks: FloatArray
    limits: FloatArray  # inf where there is none
    records: FloatArray
    codes: IntArray

    @property
    def nearest(self) -> int:
        """The cell whose risk is largest for its limit; without any limit, largest."""
        limited = np.isfinite(self.limits).any()
        return int((self.risks / self.limits if limited else self.risks).argmax())

    @property
    def worst(self) -> int:
        """The cell whose risk is largest, of those with a limit, or without any limit of all."""
        limited = np.isfinite(self.limits)
        risks = np.where(limited, self.risks, -1.0) if limited.any() else self.risks
        nearest = self.nearest
        return nearest if risks[nearest] == risks.max() else int(risks.argmax())

    @property
    def above(self) -> float:
        """The records in cells whose risk is above its limit."""
        return float(self.records[self.risks > self.limits * (1 + ROUNDING)].sum())


def cell_risks(table: JointTable, channels: Channels, limit: Limit, name: RiskName) -> CellRisks:
    """Return a risk cell by cell; cells of `posterior` are published ones, with their expected records."""
    untouched = [k for k, channel in enumerate(channels) if not channel.noise]
    problem = pose(table, limit, name, "both", untouched, "kappa")
    risk: Risk = problem.risk(table, channels)
    records = risk.joint if isinstance(risk, Posterior) else table.counts
    values = risk.values
    limits = np.broadcast_to(problem.limits, (values.size // table.sizes[-1], table.sizes[-1])).ravel()
    return CellRisks(values, limits, records.ravel(), risk.cell_codes(np.arange(values.size)))


def response_findings(
    table: JointTable, channels: Channels, limit: Limit, promised: RiskName, tell: Tell
) -> tuple[Finding, ...]:
    """Return what the five attackers reach."""
    names: tuple[RiskName, ...] = ("posterior", "link", "reconstruction")
    three = [risk_finding(table, channels, limit, name, name == promised, tell) for name in names]
    strictest = float(np.min(np.asarray(limit, dtype=np.float64)))
    return *three, _row_finding(table, channels, strictest), _guesser_finding(table, strictest, tell)


def risk_finding(
    table: JointTable,
    channels: Channels,
    limit: Limit,
    name: RiskName,
    promised: bool,
    tell: Tell,
) -> Finding:
    """Return the finding of one of the three risks."""
    cells = cell_risks(table, channels, limit, name)
    worst, nearest = cells.worst, cells.nearest
    bound = float(cells.limits[worst]) if np.isfinite(cells.limits[worst]) else None
    order = np.argsort(-np.where(cells.records > 0, cells.risks, 0.0), kind="stable")[:SHOWN]
    return Finding(
        attacker=name,
        question=QUESTION,
        assumption=f"{KNOWS[name]} {PRIOR}",
        measured=MEASURED[name],
        worst=float(cells.risks[worst]),
        mean=float(cells.records @ cells.risks / table.records),
        records=table.records,
        at_risk=round(cells.above),
        promised=bound if promised else None,
        stated=None if promised else bound,
        baseline=float((table.counts.sum(axis=0) / table.records).max()),
        exposed=tuple(
            Exposed(tell(cells.codes[k]), round(float(cells.records[k])), float(cells.risks[k])) for k in order
        ),
        who=tell(cells.codes[worst]),
        nearest=None
        if worst == nearest
        else Nearest(tell(cells.codes[nearest]), float(cells.risks[nearest]), float(cells.limits[nearest])),
        why_bound="" if worst == nearest else "Groups have limits of their own.",
        why_not_covered=OTHER_RISK,
    )


@dataclass(frozen=True)
class RowRisk:
    """What somebody believes who sees whole published rows: worst, mean belief in the true value, records above."""

    worst: float
    mean: float
    above: float


def row_risk(table: JointTable, channels: Channels, limit: float) -> RowRisk:
    """Return the beliefs h(b, u) P_s[v, u] / sum_w h(b, w) P_s[v, w] over all published (b, v) and true u."""
    sensitive = channels[-1]
    joint = Posterior(table, channels).joint.reshape(-1, table.sizes[-1])  # [b, u]: expected records
    worst = mean = above = 0.0
    for v in range(table.sizes[-1]):
        records = sensitive.off_diagonal * joint
        records[:, v] += sensitive.retention * joint[:, v]
        total = records.sum(axis=1, keepdims=True)
        beliefs = np.divide(records, total, out=np.zeros_like(records), where=total > 0)
        worst = max(worst, float(beliefs.max()))
        mean += float((records * beliefs).sum()) / table.records
        above += float(records[beliefs > limit * (1 + ROUNDING)].sum())
    return RowRisk(worst, mean, above)


def _row_finding(table: JointTable, channels: Channels, limit: float) -> Finding:
    found = row_risk(table, channels, limit)
    return Finding(
        attacker="row",
        question=QUESTION,
        assumption=f"Sees the whole published row, and knows the matrices. {PRIOR}",
        measured="the belief in a true value, given the published row; exact",
        worst=found.worst,
        mean=found.mean,
        records=table.records,
        at_risk=round(found.above),
        stated=limit,
        remark=UNTOUCHED if channels[-1].off_diagonal == 0 else "",
    )


def _guesser_finding(table: JointTable, limit: float, tell: Tell) -> Finding:
    """Return how often argmax pi(u | QI) is right: in the limit of many records any release lets it be learnt."""
    largest, sizes = table.shares.max(axis=1), table.group_sizes
    order = np.lexsort((-sizes, -largest))[:SHOWN]
    return Finding(
        attacker="distribution",
        question=QUESTION,
        assumption=(
            "Knows a person's true quasi-identifiers, and the table's distribution, which can be estimated from the "
            "release the better the more records there are; guesses the likeliest value there."
        ),
        measured="how often the guess is right; worst: in a group, mean: of all records; exact",
        worst=float(largest.max()),
        mean=limit_success(table),
        records=table.records,
        at_risk=int(sizes[largest > limit * (1 + ROUNDING)].sum()),
        stated=limit,
        exposed=tuple(Exposed(tell(table.groups[k]), int(sizes[k]), float(largest[k])) for k in order),
        remark="No mechanism helps against one who knows the distribution.",
    )
