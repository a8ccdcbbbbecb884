"""The attacker whose prior is the table's own frequencies: what this release tells of each record (`beliefs`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from sfumato.auditor.attacker import IN_GROUPS, ONE_MATRIX, Attacker, Listed
from sfumato.auditor.attackers.posterior import QUESTION
from sfumato.auditor.beliefs import (
    Cases,
    RecordBeliefs,
    bounds_of,
    expected_cases,
    observed_cases,
    record_beliefs,
    why_bound,
)
from sfumato.auditor.evidence import DoesNotApply, Evidence
from sfumato.auditor.finding import SHOWN, Exposed, Finding, Nearest, nearer
from sfumato.auditor.sub_tables import compositions
from sfumato.release.manifest import Manifest
from sfumato.values.arrays import CodeArray, FloatArray, IntArray
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.mechanism import Mechanism


def frequencies_finding(
    mechanism: Mechanism,
    true: CodeArray,
    published: CodeArray,
    labels: CodeArray | None = None,
    groups: IntArray | None = None,
    names: Sequence[str] = (),
    promised: bool = True,
    weights: FloatArray | None = None,
) -> Finding:
    """Return what this release tells one who knows the shares; `names` are those of the groups.

    `promised`: whether the guarantee is about these shares (for small domain: those of sub-tables, not of groups).
    """
    found = record_beliefs(mechanism, true, published, labels, groups, weights)
    return beliefs_finding(mechanism, found, true, published, groups, names, promised)


def beliefs_finding(
    mechanism: Mechanism,
    found: RecordBeliefs,
    true: CodeArray,
    published: CodeArray,
    groups: IntArray | None,
    names: Sequence[str],
    promised: bool,
) -> Finding:
    """Return the finding of these beliefs; the arguments are those of `frequencies_finding`."""
    covered = found.covered
    pool = np.flatnonzero(covered) if covered.any() else np.arange(true.size)
    excess = found.beliefs - np.where(covered, found.limits, 0.0)
    nearest = int(pool[excess[pool].argmax()])
    worst = int(pool[found.beliefs[pool].argmax()])
    limit = float(found.limits[worst]) if covered[worst] else None
    shown = true.astype(np.int64) * mechanism.domain.size + published if groups is None else groups

    def told(group: int) -> str:
        if groups is None:
            return _pair(mechanism.domain, group)
        return names[group] if names else f"group {group + 1}"

    def who(line: int) -> str:
        pair = _pair(mechanism.domain, int(true[line]) * mechanism.domain.size + int(published[line]))
        return pair if groups is None else f"{told(int(groups[line]))}: {pair}"

    return Finding(
        attacker="frequencies",
        question=QUESTION,
        assumption=_assumption(mechanism, groups is not None),
        measured=(
            "the belief in the record's true value: the largest (worst), and on average (mean), over the records that "
            "have a bound; exact"
        ),
        worst=float(found.beliefs[worst]),
        mean=float(np.average(found.beliefs[pool], weights=found.numbers[pool])),
        records=found.records,
        at_risk=round(float(found.numbers[found.above if covered.any() else found.beliefs > found.priors].sum())),
        promised=limit if promised else None,
        stated=None if promised else limit,
        baseline=float(found.priors[worst]),
        exposed=tuple(_most_exposed(shown, told, found, pool)),
        remark=_remark(found, who),
        who=who(worst),
        nearest=None
        if limit is None
        else nearer(
            Nearest(
                who(nearest), float(found.beliefs[nearest]), float(found.limits[nearest]), float(found.priors[nearest])
            ),
            float(found.beliefs[worst]),
            limit,
        ),
        why_bound=why_bound(bounds_of(mechanism), limit, float(found.priors[worst])) if limit is not None else "",
    )


def _assumption(mechanism: Mechanism, grouped: bool) -> str:
    whose = "the table" if len(mechanism.tables) == 1 else "the record's sub-table"
    whose = f"the record's group inside {whose}" if grouped else whose
    return (
        f"Knows the matrix and the published value of the record; holds records to be independent. Prior: the shares "
        f"of the values in {whose}."
    )


def _pair(domain: SensitiveDomain, number: int) -> str:
    own, shown = divmod(number, domain.size)
    return f"{domain.labels[own]!r}, published {domain.labels[shown]!r}"


def _remark(found: RecordBeliefs, who: Callable[[int], str]) -> str:
    text = f"Before the release it believes in the true value by {found.mean(found.priors):.4g} on average."
    free = ~found.covered
    if free.any():
        records = round(float(found.numbers[free].sum()))
        most = int(np.where(free, found.beliefs, -1.0).argmax())
        text += (
            f" Of {records:,} record(s) the requirement says nothing, or there is nothing to learn; there the largest "
            f"belief is {found.beliefs[most]:.4g} ({who(most)})."
        )
    return text


def _most_exposed(
    groups: IntArray, told: Callable[[int], str], found: RecordBeliefs, pool: IntArray
) -> Iterator[Exposed]:
    """Yield the groups with the largest beliefs, of those that `worst` is taken from."""
    numbers, place = np.unique(groups, return_inverse=True)
    sizes = np.bincount(place, found.numbers)
    largest = np.zeros(numbers.size)
    np.maximum.at(largest, place[pool], found.beliefs[pool])
    for k in np.argsort(-largest, kind="stable")[:SHOWN]:
        if largest[k]:
            yield Exposed(told(int(numbers[k])), round(float(sizes[k])), float(largest[k]))


# --- the attacker -----------------------------------------------------------------------------------------------------

MOST_CASES = 30_000_000
"""Records that differ, times the values that can be published of them, that are held in memory."""


EXPECTED = "Rows were shuffled, so these are the expected figures over all that can be published of each record."


def of_randomized(evidence: Evidence) -> Iterator[Finding]:
    """Who knows the shares of the values."""
    cases = cases_of(evidence, np.zeros(evidence.rows, dtype=np.int64))
    found = frequencies_finding(evidence.mechanism, cases.true, cases.published, cases.labels, weights=cases.weights)
    yield found if evidence.is_aligned else found.with_remark(EXPECTED)


def cases_of(evidence: Evidence, groups: IntArray) -> Cases:
    """Return records that are alike, as they were published or as they can be."""
    if evidence.is_aligned:
        return observed_cases(evidence.true, evidence.published, evidence.sub_tables, groups, evidence.mechanism)
    m = evidence.mechanism.domain.size
    different = np.unique(groups * m + evidence.true).size * m
    if different > MOST_CASES:
        raise DoesNotApply(f"rows were shuffled, and {different:,} cases that can be published are too many.")
    return expected_cases(evidence.mechanism, evidence.true, groups, evidence.once(compositions).quotas)


def _public(manifest: Manifest) -> Listed | None:
    return Listed(3, covered=True) if manifest.kind == "randomized" else None


ATTACKER = Attacker(
    name="frequencies",
    knows="knows the shares of the values in the table",
    why_not_covered="Nothing is required of any value of which something can be learnt.",
    on={"randomized": of_randomized, "response": ONE_MATRIX, "groups": IN_GROUPS},
    promised={"randomized": of_randomized},
    public=_public,
    place=5,
)
