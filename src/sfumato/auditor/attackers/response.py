"""Attackers on randomized response, where quasi-identifiers are randomized too (AD)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from sfumato.auditor.attackers.knowing import known_records
from sfumato.auditor.corruption import QUESTION as CORRUPTION
from sfumato.auditor.corruption import demonstrate
from sfumato.auditor.evidence import DoesNotApply, Evidence, text_of
from sfumato.auditor.finding import SHOWN, Exposed, Finding
from sfumato.auditor.foreign.labels import named
from sfumato.auditor.linking import STOPS, Attacked, Guesses, RepeatedGuesses, attack, guess_once, repeated_guesses
from sfumato.auditor.response import PRIOR, QUESTION, UNTOUCHED, response_findings
from sfumato.auditor.two_rows import SIMULATED, TwoRows, two_rows
from sfumato.errors import UsageError
from sfumato.methods.response.axes import Axes
from sfumato.methods.response.channels import IntArray
from sfumato.methods.response.joint import JointTable
from sfumato.release.manifest import ResponsePart

OTHER_MATRICES = (
    "The record key repeats draws only where the same matrices come out; where a changed table gives others, noise is "
    "fresh, and these are the figures. Where they are the same, two releases tell what one tells only if how long a "
    "value lasts tells nothing of which value it is: that is assumed, not proved."
)
MOST_REPETITIONS, LEAST_REPETITIONS = 20, 5
"""Releases that are drawn anew for the guesser."""
CELLS_AT_ALL = 1_000_000
"""Cells of all these releases together, about: some seconds."""


def _attacked(evidence: Evidence) -> Attacked:
    """Return the true joint table, the matrices and what was published."""
    try:
        return attack(evidence.table, evidence.release)
    except UsageError as problem:
        if "too many" in problem.message:
            raise DoesNotApply(problem.message) from None
        raise


def _response(evidence: Evidence) -> ResponsePart:
    assert evidence.manifest.response is not None
    return evidence.manifest.response


def risks(evidence: Evidence) -> tuple[Finding, ...]:
    """The three risks of AD, and who sees the whole row or knows the distribution."""
    found, part = evidence.once(_attacked), _response(evidence)
    axes, limits = found.axes, found.axes.limits(part.claim.limit)
    return response_findings(axes.table, found.channels, limits, part.risk, partial(tell, axes))


def tell(axes: Axes, codes: IntArray) -> str:
    """Return a cell in words, or a group of people, which has no sensitive value."""
    names = (*axes.profile.quasi_identifiers, axes.profile.sensitive_domain.name)
    if codes.size == len(axes.table.sizes):
        return named(names, next(axes.labels(codes[None])))
    return named(names[:-1], next(axes.labels(np.append(codes, 0)[None]))[:-1])


def linking(evidence: Evidence) -> Iterator[Finding]:
    """The three risks of AD, who sees the whole row, who knows the distribution, and the guesser."""
    yield from evidence.once(risks)
    found, part = evidence.once(_attacked), _response(evidence)
    limits = found.axes.limits(part.claim.limit)
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


def averaging(evidence: Evidence) -> Iterator[Finding]:
    """Who is told which two rows of two releases are one person's."""
    found, part = evidence.once(_attacked), _response(evidence)
    limit = float(np.min(found.axes.limits(part.claim.limit)))
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


def corruption(evidence: Evidence) -> Iterator[Finding]:
    """Who knows the true values of other records: these are independent, and move nothing."""
    known_records(evidence)  # a list that does not fit is an error all the same
    part, found = _response(evidence), evidence.once(_attacked)
    promised = next(finding for finding in evidence.once(risks) if finding.attacker == part.risk)
    mechanism = evidence.manifest.mechanism_values[0]
    counts = [int(n) for n in np.bincount(_codes(evidence, mechanism.domain.names[0]), minlength=mechanism.domain.size)]
    shown = demonstrate(mechanism.matrix, counts) if len(mechanism.domain.parts) == 1 else None
    proof = (
        f" Over all worlds of {len(shown.published)} records by {mechanism.domain.name}, {len(shown.known)} of them "
        f"known, no belief about the other moves (by {shown.moved})."
        if shown
        else ""
    )
    yield replace(
        promised,
        attacker="corruption",
        question=CORRUPTION,
        assumption=f"Knows the true values of any other records. {promised.assumption}",
        promised=None,
        stated=promised.promised,
        remark=(
            f"Records are independent draws to this attacker: known members move nothing.{proof} But the matrices "
            f"were computed from the table, and the {found.axes.table.records - 1:,} others tell its counts but for "
            "one record; what that tells is not measured."
        ),
    )


def _codes(evidence: Evidence, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    domain = next(m.domain for m in evidence.manifest.mechanism_values if name in m.domain.names)
    place = {text_of(value): code for code, value in enumerate(domain.parts[0].values)}
    table = np.array([place.get(text, 0) for text in evidence.labels(name)], dtype=np.int64)
    return table.take(evidence.in_table(name))
