"""The attacker whose prior is the table's own frequencies: what this release tells of each record (`beliefs`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from sfumato.auditor.attacker import IN_GROUPS, ONE_MATRIX, Attacker, listed
from sfumato.auditor.attackers.posterior import KNOWS, question_about
from sfumato.auditor.beliefs import (
    Cases,
    RecordBeliefs,
    bounds_of,
    compositions,
    expected_cases,
    observed_cases,
    record_beliefs,
    worst_finding,
)
from sfumato.auditor.evidence import Evidence, NotMeasured
from sfumato.auditor.finding import Exposed, Finding, largest_at, most_exposed, settled
from sfumato.auditor.knowledge import Knowledge
from sfumato.show.words import percent
from sfumato.values.arrays import BoolArray, CodeArray, FloatArray, IntArray
from sfumato.values.mechanism import Mechanism


def frequencies_finding(
    mechanism: Mechanism,
    true: CodeArray,
    published: CodeArray,
    labels: CodeArray | None = None,
    weights: FloatArray | None = None,
    known: Knowledge | None = None,
) -> Finding:
    """Return what this release tells one who knows the shares of the values, or (`known`) those given signatures.

    The guarantee is about the shares of sub-tables, and about signatures where one matrix serves all rows.
    """
    found = record_beliefs(mechanism, true, published, labels, weights, known)
    covered, numbers = found.covered, found.numbers
    pool = covered if covered.any() else np.ones_like(covered)
    pairs = true.astype(np.int64) * mechanism.published.size + published
    whose = "the table" if len(mechanism.tables) == 1 else "the record's sub-table"

    def pair(number: int) -> str:
        own, shown = divmod(number, mechanism.published.size)
        return f"{mechanism.domain.labels[own]!r}, published {mechanism.published.labels[shown]!r}"

    def who(line: int) -> str:
        group = "" if known is None else f"{known.told(int(known.signatures[line]))}: "
        return group + pair(int(pairs[line]))

    groups, told = (pairs, pair) if known is None else (known.signatures, known.told)
    return worst_finding(
        found.beliefs,
        found.priors,
        np.where(covered, found.limits, np.inf),
        pool,
        who,
        bounds_of(mechanism),
        promised=known is None or len(mechanism.tables) == 1,
        attacker="frequencies" if known is None else "background",
        question=question_about(mechanism),
        assumption=(
            f"{KNOWS.format(form=mechanism.form)}the shares of the values in {whose}."
            if known is None
            else f"Knows the matrix, the published {mechanism.form} and the signature of the record, and as a prior "
            f"the probability of each value given {known.name}; holds records to be independent."
        ),
        measured=(
            "the belief in the record's true value: the largest (worst), and on average (mean), over the records that "
            "have a bound; exact"
        ),
        mean=float(np.average(found.beliefs[pool], weights=numbers[pool])),
        records=round(float(numbers.sum())),
        at_risk=round(float(numbers[found.above if covered.any() else found.beliefs > found.priors].sum())),
        exposed=_exposed(groups, told, found, pool),
        remark=_remark(found, who),
    )


def _remark(found: RecordBeliefs, who: Callable[[int], str]) -> str:
    before = float(found.priors @ found.numbers / found.numbers.sum())
    text = f"Before the release it believes in the true value by {percent(before)} on average."
    free = ~found.covered
    if free.any():
        records = round(float(found.numbers[free].sum()))
        most = largest_at(np.where(free, found.beliefs, -1.0))
        text += (
            f" Of {records:,} record(s) the requirement says nothing, or there is nothing to learn; there the largest "
            f"belief is {percent(found.beliefs[most])} ({who(most)})."
        )
    return text


def _exposed(
    groups: IntArray, told: Callable[[int], str], found: RecordBeliefs, pool: BoolArray
) -> tuple[Exposed, ...]:
    numbers, place = np.unique(groups, return_inverse=True)
    largest = np.zeros(numbers.size)
    np.maximum.at(largest, place[pool], found.beliefs[pool])
    order = np.argsort(-settled(largest), kind="stable")[: np.count_nonzero(largest)]
    return most_exposed(largest, np.bincount(place, found.numbers), lambda k: told(int(numbers[k])), order)


MOST_CASES = 30_000_000  # records that differ, times the values that can be published of them, that are held in memory
EXPECTED = "Rows were shuffled, so these are the expected figures over all that can be published of each record."


def of_randomized(evidence: Evidence) -> Iterator[Finding]:
    yield finding_of(evidence)


def finding_of(evidence: Evidence, known: Knowledge | None = None) -> Finding:
    """Return what the release tells one who knows shares of the values, or has a prior on the records' signatures."""
    cases = _cases(evidence, np.zeros(evidence.rows, dtype=np.int64) if known is None else known.signatures)
    known = known and replace(known, signatures=cases.groups)
    found = frequencies_finding(evidence.mechanism, cases.true, cases.published, cases.labels, cases.weights, known)
    found = found if known is None else found.named(known.name)
    return found if evidence.is_aligned else found.with_remark(EXPECTED)


def _cases(evidence: Evidence, groups: IntArray) -> Cases:
    if evidence.is_aligned:
        return observed_cases(evidence.true, evidence.published, evidence.sub_tables, groups, evidence.mechanism)
    mechanism = evidence.mechanism
    different = np.unique(groups * mechanism.domain.size + evidence.true).size * mechanism.published.size
    if different > MOST_CASES:
        raise NotMeasured(f"rows were shuffled, and {different:,} cases that can be published are too many.")
    return expected_cases(mechanism, evidence.true, groups, evidence.once(compositions).quotas)


ATTACKER = Attacker(
    name="frequencies",
    knows="knows the shares of the values in the table",
    why_not_covered="No value that something can be learned about has a requirement.",
    acceptable=(
        "Acceptable for values that would do no harm. Not if a value without a requirement is a secret after all."
    ),
    on={"randomized": of_randomized, "response": ONE_MATRIX, "groups": IN_GROUPS},
    promised={"randomized": of_randomized},
    public=listed(3, True, "randomized"),
    place=5,
)
