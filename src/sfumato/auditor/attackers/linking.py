"""Attackers on randomized response, where quasi-identifiers are randomized too (AD).

    posterior        sees the published quasi-identifiers of one row: h(b, u)
    link             takes a row with the person's published quasi-identifiers: (P^T h)(a, u)
    reconstruction   draws the true quasi-identifiers, then the true value, at random: AD Eq. (6)
    row              sees the published sensitive value too: the odds of h times p_s/q_s
    distribution     knows pi and the person's quasi-identifiers, and guesses the likeliest value: max_u pi(u | QI)
    guesser          estimates pi from the release (`linking_guesser`)

One of the first three is promised; no limit holds the others, which are told with their size. All but the last are
exact, from the joint table of the true values and the matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from sfumato.auditor.attacker import Attacker, Role, listed
from sfumato.auditor.attackers.linking_guesser import (
    STOPS,
    Attacked,
    Guesses,
    RepeatedGuesses,
    attack_of,
    guess_once,
    repeated_guesses,
)
from sfumato.auditor.evidence import Evidence, NotMeasured
from sfumato.auditor.finding import (
    ROUNDING,
    Exposed,
    Finding,
    Nearest,
    held_to,
    largest_at,
    largest_first,
    most_exposed,
    named,
    settled,
)
from sfumato.claims.linking_risk import LINKS, RECONSTRUCTS, SEES_QUASI_IDENTIFIERS
from sfumato.errors import UsageError
from sfumato.methods.response.guessing import limit_success
from sfumato.methods.response.joint import Channels, JointTable
from sfumato.methods.response.problem import Limit, pose
from sfumato.methods.response.request import Axes
from sfumato.methods.response.risks import Posterior, Risk, RiskName
from sfumato.release.manifest import Manifest
from sfumato.show.words import percent
from sfumato.values.arrays import FloatArray, IntArray

Tell = Callable[[IntArray], str]  # gives the codes of a cell, or of a group, which has no sensitive value, in words
QUESTION = "Which sensitive value does a person have?"
OTHER_RISK = "The limit was asked for on another risk."
UNTOUCHED = "The sensitive value is published untouched."
PRIOR = "Prior: the table's own distribution, how many records have each combination of values."
RISKS: dict[RiskName, tuple[str, str]] = {
    "posterior": (
        SEES_QUASI_IDENTIFIERS,
        "the belief in a true value, given published quasi-identifiers; exact, by expected shares",
    ),
    "link": (LINKS, "the probability to hit a row with the person's true value; exact, by expected shares"),
    "reconstruction": (RECONSTRUCTS, "AD Eq. (6); exact, and no bound on an inference"),
}
"""What each of the three knows, and what is measured."""
MOST_REPETITIONS, LEAST_REPETITIONS = 20, 5  # releases that are drawn anew for the guesser
CELLS_AT_ALL = 1_000_000  # cells of all these releases together, about: some seconds


# --- the three risks --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CellRisks:
    """The risk of every cell, its limit, and the (expected) records in it, flat."""

    risks: FloatArray
    limits: FloatArray  # inf where there is none
    records: FloatArray
    codes: Callable[[int], IntArray]  # of a cell: quasi-identifiers, then S

    @property
    def nearest(self) -> int:
        """The cell whose risk is largest for its limit; without any limit, largest."""
        limited = np.isfinite(self.limits).any()
        return largest_at(self.risks / self.limits if limited else self.risks)

    @property
    def worst(self) -> int:
        """The cell whose risk is largest, of those with a limit, or without any limit of all."""
        limited = np.isfinite(self.limits)
        risks = np.where(limited, self.risks, -1.0) if limited.any() else self.risks
        nearest = self.nearest
        return nearest if risks[nearest] == risks.max() else largest_at(risks)

    @property
    def above(self) -> float:
        return float(self.records[self.risks > self.limits * (1 + ROUNDING)].sum())


def cell_risks(table: JointTable, channels: Channels, limit: Limit, name: RiskName) -> CellRisks:
    """Return a risk cell by cell; cells of `posterior` are published ones, with their expected records."""
    untouched = [k for k, channel in enumerate(channels) if not channel.noise]
    problem = pose(table, limit, name, fixed=untouched)
    risk: Risk = problem.risk(table, channels)
    records = risk.joint if isinstance(risk, Posterior) else table.counts
    values = risk.values
    limits = np.broadcast_to(problem.limits, (values.size // table.sizes[-1], table.sizes[-1])).ravel()
    return CellRisks(values, limits, records.ravel(), lambda cell: risk.cell_codes(np.array([cell]))[0])


def risk_finding(
    table: JointTable, channels: Channels, limit: Limit, name: RiskName, promised: bool, tell: Tell
) -> Finding:
    cells = cell_risks(table, channels, limit, name)
    worst, nearest = cells.worst, cells.nearest
    bound = float(cells.limits[worst]) if np.isfinite(cells.limits[worst]) else None
    order = largest_first(settled(np.where(cells.records > 0, cells.risks, 0.0)))
    knows, measured = RISKS[name]
    return Finding(
        attacker=name,
        question=QUESTION,
        assumption=f"{knows} {PRIOR}",
        measured=measured,
        worst=float(cells.risks[worst]),
        mean=float(cells.records @ cells.risks / table.records),
        records=table.records,
        at_risk=round(cells.above),
        **held_to(bound, promised),
        baseline=float((table.counts.sum(axis=0) / table.records).max()),
        exposed=most_exposed(cells.risks, cells.records, lambda k: tell(cells.codes(k)), order),
        who=tell(cells.codes(worst)),
        nearest=None
        if worst == nearest
        else Nearest(tell(cells.codes(nearest)), float(cells.risks[nearest]), float(cells.limits[nearest])),
        why_bound="" if worst == nearest else "Groups have limits of their own.",
        why_not_covered=OTHER_RISK,
    )


# --- whom no limit holds ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowBeliefs:
    """Beliefs in true values of who sees rows: the largest, the mean, and the (expected) share of people above a limit.

    Of a simulation `interval` has the 95% limits of the mean, and `worst` is the largest that was drawn.
    """

    worst: float
    mean: float
    above: float = 0.0
    interval: tuple[float, float] | None = None


def row_beliefs(people: FloatArray, seen: FloatArray, limit: float) -> RowBeliefs:
    """Return the beliefs people[b, u] seen[v, u] / sum_w people[b, w] seen[v, w], over all b, v and u.

    people: expected, by published quasi-identifiers and true value; seen: Pr(what is seen of S | true value).
    """
    worst = mean = above = 0.0
    for chance in seen:
        records = people * chance
        total = records.sum(axis=1, keepdims=True)
        beliefs = np.divide(records, total, out=np.zeros_like(records), where=total > 0)
        worst = max(worst, float(beliefs.max()))
        mean += float((records * beliefs).sum())
        above += float(records[beliefs > limit * (1 + ROUNDING)].sum())
    return RowBeliefs(worst, mean / people.sum(), above / people.sum())


def row_risk(table: JointTable, channels: Channels, limit: float) -> RowBeliefs:
    size, sensitive = table.sizes[-1], channels[-1]
    seen = sensitive.off_diagonal + sensitive.retention * np.eye(size)
    return row_beliefs(Posterior(table, channels).joint.reshape(-1, size), seen, limit)


def response_findings(
    table: JointTable, channels: Channels, limit: Limit, promised: RiskName, tell: Tell
) -> tuple[Finding, ...]:
    """Return what the first five attackers reach.

    The last guesses argmax pi(u | QI): in the limit of many records any release lets it be learnt.
    """
    strictest = float(np.min(np.asarray(limit, dtype=np.float64)))
    row = row_risk(table, channels, strictest)
    largest, sizes = table.shares.max(axis=1), table.group_sizes
    return (
        *(risk_finding(table, channels, limit, name, name == promised, tell) for name in RISKS),
        Finding(
            attacker="row",
            question=QUESTION,
            assumption=f"Sees the whole published row, and knows the matrices. {PRIOR}",
            measured="the belief in a true value, given the published row; exact",
            worst=row.worst,
            mean=row.mean,
            records=table.records,
            at_risk=round(row.above * table.records),
            stated=strictest,
            remark=UNTOUCHED if channels[-1].off_diagonal == 0 else "",
        ),
        Finding(
            attacker="distribution",
            question=QUESTION,
            assumption=(
                "Knows a person's true quasi-identifiers, and the table's distribution, which can be estimated from "
                "the release the better the more records there are; guesses the likeliest value there."
            ),
            measured="how often the guess is right; worst: in a group, mean: of all records; exact",
            worst=float(largest.max()),
            mean=limit_success(table),
            records=table.records,
            at_risk=int(sizes[largest > strictest * (1 + ROUNDING)].sum()),
            stated=strictest,
            exposed=most_exposed(largest, sizes, lambda k: tell(table.groups[k])),
            remark="No mechanism helps against someone who knows the distribution.",
        ),
    )


def attacked(evidence: Evidence) -> Attacked:
    try:
        return evidence.once(attack_of)
    except UsageError as problem:
        if "too many" in problem.message:
            raise NotMeasured(problem.message) from None
        raise


def risks(evidence: Evidence) -> tuple[Finding, ...]:
    found, claim = evidence.once(attacked), evidence.manifest.risk_claim
    axes, limits = found.axes, found.axes.limits(claim.limit)
    return response_findings(axes.table, found.channels, limits, claim.risk, partial(tell, axes))


def promised_risk(evidence: Evidence) -> Iterator[Finding]:
    """Yield the one risk that the guarantee limits; the others take as long each."""
    found, claim = evidence.once(attacked), evidence.manifest.risk_claim
    axes = found.axes
    yield risk_finding(axes.table, found.channels, axes.limits(claim.limit), claim.risk, True, partial(tell, axes))


def tell(axes: Axes, codes: IntArray) -> str:
    """Return a cell in words, or a group of people, which has no sensitive value."""
    names = (*axes.profile.quasi_identifiers, axes.profile.sensitive_domain.name)
    if codes.size == len(axes.table.sizes):
        return named(names, next(axes.labels(codes[None])))
    return named(names[:-1], next(axes.labels(np.append(codes, 0)[None]))[:-1])


def linking(evidence: Evidence) -> Iterator[Finding]:
    yield from evidence.once(risks)
    found, claim = evidence.once(attacked), evidence.manifest.risk_claim
    limits = found.axes.limits(claim.limit)
    once = guess_once(found)
    times = CELLS_AT_ALL // found.axes.table.evaluated_cells(dense=True)
    times = min(MOST_REPETITIONS, max(LEAST_REPETITIONS, times))
    again = repeated_guesses(found.axes.table, found.channels, limits, repetitions=times, seed=evidence.seed)
    yield _guesser(found, once, again, float(np.min(limits)))


def _guesser(found: Attacked, once: Guesses, again: RepeatedGuesses, limit: float) -> Finding:
    (low, high), (least, most) = again.success_limits, again.above_limits
    return Finding(
        attacker="guesser",
        question=QUESTION,
        assumption=(
            "Knows a person's true quasi-identifiers and the matrices; estimates the table from the release by "
            "iterative Bayes, and guesses the likeliest value there. Stops after as many of "
            f"{', '.join(map(str, STOPS[:-1]))} or {STOPS[-1]} steps as guess most people right: they cannot see "
            "which, but may choose so."
        ),
        measured=(
            f"how often a person is guessed right, over {again.repetitions} releases that were drawn anew: of the "
            f"person most often (worst, {again.level:.0%} limits of the long run), and on average over all (mean)"
        ),
        worst=again.worst,
        mean=again.success,
        records=once.people,
        at_risk=round(again.above * once.people),
        stated=limit,
        baseline=once.constant / once.people,
        interval=again.worst_limits,
        exposed=_most_often(found, again),
        remark=(
            f"In this release {percent(once.success)} of the people are guessed right ({_steps(once.steps)}). Over "
            f"those drawn anew ({_steps(again.steps)}) the mean has approximate {again.level:.0%} limits "
            f"{percent(low)} to {percent(high)}, and {percent(again.above)} of the people are guessed right in more of "
            f"them than their limit (in the long run {percent(least)} to {percent(most)}): these are at risk. The best "
            f"guesser, who knows the true table, is right for {percent(once.knowing)}: nobody who guesses by the "
            "quasi-identifiers is right for more."
        ),
    )


def _steps(number: int) -> str:
    return f"{number} step{'s' if number > 1 else ''}"


def _most_often(found: Attacked, again: RepeatedGuesses) -> tuple[Exposed, ...]:
    table = found.axes.table
    chances, counts = np.where(table.counts > 0, again.chances, 0.0).ravel(), table.counts.ravel()

    def told(cell: int) -> str:
        group, value = divmod(cell, table.sizes[-1])
        return tell(found.axes, np.append(table.groups[group], value))

    return tuple(each for each in most_exposed(chances, counts, told) if each.risk > 0)


def _is_promised(name: str, manifest: Manifest) -> bool:
    return manifest.risk_claim.risk == name


LIMITED = {
    "posterior": "sees what quasi-identifiers a row is published with, and knows the table's shares",
    "link": "takes a row with the person's published quasi-identifiers",
    "reconstruction": "draws the true quasi-identifiers and the true value at random",
}
LINKED = (
    "Acceptable if nobody can link rows with people in this way. Not if the columns that they are linked by are known "
    "outside."
)
UNLIMITED = {
    "row": (
        "sees the whole published row",
        "The limit is on what quasi-identifiers tell, not on what a whole row tells.",
        "Acceptable if nobody can tell which row is a person's. Not if other columns of the row tell it.",
    ),
    "distribution": (
        "knows the table's distribution and guesses the likeliest value",
        "No method keeps someone from knowing how values depend on other columns.",
        "Acceptable if such knowledge exists anyway, as in medicine. Not if a group could be harmed by it.",
    ),
    "guesser": (
        "learns the distribution from the release and guesses the likeliest value",
        "No method keeps a release from telling how values depend on other columns.",
        "Acceptable if analysts shall find how values depend on other columns. Not if a group could be harmed by it.",
    ),
}
ROLES = (
    *(
        Role(name=name, knows=knows, acceptable=LINKED, public=listed(line, partial(_is_promised, name), "response"))
        for line, (name, knows) in enumerate(LIMITED.items(), 2)
    ),
    *(
        Role(name=name, knows=knows, why_not_covered=why, acceptable=weighed, public=listed(line, False, "response"))
        for line, (name, (knows, why, weighed)) in enumerate(UNLIMITED.items(), 5)
    ),
)
LINKED_OTHERWISE = "quasi-identifiers are not randomized: a register (--external) is linked with them"
ATTACKER = Attacker(
    name="linking",
    knows="takes all rows that a person may be",
    on={"randomized": LINKED_OTHERWISE, "response": linking, "groups": LINKED_OTHERWISE},
    promised={"response": promised_risk},
    roles=ROLES,
    place=12,
)
