"""Attackers on randomized response, where quasi-identifiers are randomized too (AD)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sfumato.audit.attacks.knowing import known_records
from sfumato.audit.case import Case, DoesNotApply
from sfumato.audit.corruption import QUESTION as CORRUPTION
from sfumato.audit.corruption import demonstrate
from sfumato.audit.finding import Finding
from sfumato.audit.linking import Attacked, Guesses, RepeatedGuesses, attack, guess_once, repeated_guesses
from sfumato.audit.response import QUESTION, response_findings
from sfumato.errors import UsageError
from sfumato.manifest import ResponsePart

MOST_REPETITIONS, LEAST_REPETITIONS = 20, 5
"""Releases that are drawn anew for the best guesser."""
CELLS_AT_ALL = 1_000_000
"""Cells of all these releases together, about: some seconds."""


def _attacked(case: Case) -> Attacked:
    """Return the true joint table, the matrices and what was published."""
    try:
        return attack(case.table, case.release)
    except UsageError as problem:
        if "too many" in problem.message:
            raise DoesNotApply(problem.message) from None
        raise


def _response(case: Case) -> ResponsePart:
    assert case.manifest.response is not None
    return case.manifest.response


def risks(case: Case) -> tuple[Finding, ...]:
    """The three risks of AD, and who sees the whole row or knows the distribution."""
    found, part = case.once(_attacked), _response(case)
    axes, limits = found.axes, found.axes.limits(part.claim.limit)
    return response_findings(axes.table, found.channels, limits, part.risk, axes.axis_labels)


def linking(case: Case) -> Iterator[Finding]:
    """The three risks of AD, who sees the whole row, who knows the distribution, and the best guesser."""
    yield from case.once(risks)
    found, part = case.once(_attacked), _response(case)
    limits = found.axes.limits(part.claim.limit)
    once = guess_once(found)
    times = CELLS_AT_ALL // found.axes.table.evaluated_cells(dense=True)
    times = min(MOST_REPETITIONS, max(LEAST_REPETITIONS, times))
    again = repeated_guesses(found.axes.table, found.channels, limits, repetitions=times, seed=case.seed)
    yield _guesser(once, again, float(np.min(limits)))


def _guesser(once: Guesses, again: RepeatedGuesses, limit: float) -> Finding:
    low, high = again.above_limits
    return Finding(
        attacker="guesser",
        question=QUESTION,
        assumption=(
            "Knows a person's true quasi-identifiers and the matrices; estimates the table from the release by "
            "iterative Bayes, and guesses the likeliest value there."
        ),
        measured="the share of people whose value is guessed right, on this release (worst) and on average (mean)",
        worst=once.success,
        mean=again.success,
        records=once.people,
        at_risk=round(again.above * once.people),
        stated=limit,
        baseline=once.constant / once.people,
        interval=None,
        remark=(
            f"Over {again.repetitions} releases that were drawn anew, {again.success:.4g} are guessed right "
            f"({again.level:.0%} limits {again.success_limits[0]:.4g} to {again.success_limits[1]:.4g}), and "
            f"{again.above:.4g} of the people in more of the releases than their limit (in the long run {low:.4g} to "
            f"{high:.4g}): these are at risk. One who knows the true table is right for {once.knowing:.4g}."
        ),
    )


def corruption(case: Case) -> Iterator[Finding]:
    """Who knows the true values of other records: these are independent, and move nothing."""
    known_records(case)  # a list that does not fit is an error all the same
    part, found = _response(case), case.once(_attacked)
    promised = next(finding for finding in case.once(risks) if finding.attacker == part.risk)
    mechanism = case.manifest.mechanism_values[0]
    counts = [int(n) for n in np.bincount(_codes(case, mechanism.domain.names[0]), minlength=mechanism.domain.size)]
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


def _codes(case: Case, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    domain = next(m.domain for m in case.manifest.mechanism_values if name in m.domain.names)
    place = {text: code for code, text in enumerate(domain.parts[0].labels)}
    table = np.array([place.get(text, 0) for text in case.labels(name)], dtype=np.int64)
    return table.take(case.in_table(name))
