"""Attackers on randomized response, where quasi-identifiers are randomized too (AD)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from sfumato.auditor.attacker import Attacker, Listed, Role
from sfumato.auditor.attackers.linking_guesser import (
    STOPS,
    Attacked,
    Guesses,
    RepeatedGuesses,
    attack,
    guess_once,
    repeated_guesses,
)
from sfumato.auditor.attackers.linking_risks import QUESTION, response_findings
from sfumato.auditor.evidence import DoesNotApply, Evidence
from sfumato.auditor.finding import SHOWN, Exposed, Finding, named
from sfumato.errors import UsageError
from sfumato.methods.response.axes import Axes
from sfumato.release.manifest import Manifest
from sfumato.values.arrays import IntArray

MOST_REPETITIONS, LEAST_REPETITIONS = 20, 5
"""Releases that are drawn anew for the guesser."""
CELLS_AT_ALL = 1_000_000
"""Cells of all these releases together, about: some seconds."""


def attacked(evidence: Evidence) -> Attacked:
    """Return the true joint table, the matrices and what was published."""
    try:
        return attack(evidence.table, evidence.release)
    except UsageError as problem:
        if "too many" in problem.message:
            raise DoesNotApply(problem.message) from None
        raise


def risks(evidence: Evidence) -> tuple[Finding, ...]:
    """The three risks of AD, and who sees the whole row or knows the distribution."""
    found, claim = evidence.once(attacked), evidence.manifest.risk_claim
    axes, limits = found.axes, found.axes.limits(claim.limit)
    return response_findings(axes.table, found.channels, limits, claim.risk, partial(tell, axes))


def tell(axes: Axes, codes: IntArray) -> str:
    """Return a cell in words, or a group of people, which has no sensitive value."""
    names = (*axes.profile.quasi_identifiers, axes.profile.sensitive_domain.name)
    if codes.size == len(axes.table.sizes):
        return named(names, next(axes.labels(codes[None])))
    return named(names[:-1], next(axes.labels(np.append(codes, 0)[None]))[:-1])


def linking(evidence: Evidence) -> Iterator[Finding]:
    """The three risks of AD, who sees the whole row, who knows the distribution, and the guesser."""
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
            f"{', '.join(map(str, STOPS[:-1]))} or {STOPS[-1]} steps as guess most people right: he cannot see which, "
            "but may choose so."
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
        exposed=tuple(_most_often(found, again)),
        remark=(
            f"In this release {once.success:.4g} of the people are guessed right ({_steps(once.steps)}). Over those "
            f"drawn anew ({_steps(again.steps)}) the mean has approximate {again.level:.0%} limits {low:.4g} to "
            f"{high:.4g}, and {again.above:.4g} of the people are guessed right in more of them than their limit (in "
            f"the long run {least:.4g} to {most:.4g}): these are at risk. The best guesser, who knows the true table, "
            f"is right for {once.knowing:.4g}: nobody who guesses by the quasi-identifiers is right for more."
        ),
    )


def _steps(number: int) -> str:
    return f"{number} step{'s' if number > 1 else ''}"


def _most_often(found: Attacked, again: RepeatedGuesses) -> Iterator[Exposed]:
    """Yield people who are guessed right in most releases."""
    table = found.axes.table
    chances = np.where(table.counts > 0, again.chances, 0.0).ravel()
    order = np.lexsort((-table.counts.ravel(), -chances))[:SHOWN]
    for group, value in zip(*np.unravel_index(order[chances[order] > 0], table.counts.shape), strict=True):
        codes = np.append(table.groups[group], value)
        yield Exposed(tell(found.axes, codes), int(table.counts[group, value]), float(again.chances[group, value]))


def _limited(line: int, risk: str, manifest: Manifest) -> Listed | None:
    return Listed(line, covered=manifest.risk_claim.risk == risk) if manifest.kind == "response" else None


def _unlimited(line: int, manifest: Manifest) -> Listed | None:
    return Listed(line, covered=False) if manifest.kind == "response" else None


ROLES = (
    Role(
        name="posterior",
        knows="takes the worst belief beforehand that the requirement speaks of",
        public=partial(_limited, 2, "posterior"),
    ),
    Role(
        name="link",
        knows="takes a row with the person's published quasi-identifiers",
        public=partial(_limited, 3, "link"),
    ),
    Role(
        name="reconstruction",
        knows="draws the true quasi-identifiers and the true value at random",
        public=partial(_limited, 4, "reconstruction"),
    ),
    Role(
        name="row",
        knows="sees the whole published row",
        why_not_covered="The limit is on what quasi-identifiers tell, not on what a whole row tells.",
        public=partial(_unlimited, 5),
    ),
    Role(
        name="distribution",
        knows="knows the table's distribution and guesses the likeliest value",
        why_not_covered="No method keeps someone from knowing how values depend on other columns.",
        public=partial(_unlimited, 6),
    ),
    Role(
        name="guesser",
        knows="learns the distribution from the release and guesses the likeliest value",
        why_not_covered="No method keeps a release from telling how values depend on other columns.",
        public=partial(_unlimited, 7),
    ),
)
LINKED_OTHERWISE = "quasi-identifiers are not randomized: a register (--external) is linked with them"
ATTACKER = Attacker(
    name="linking",
    knows="takes all rows that a person may be",
    on={"randomized": LINKED_OTHERWISE, "response": linking, "groups": LINKED_OTHERWISE},
    promised={"response": risks},
    roles=ROLES,
    place=12,
)
