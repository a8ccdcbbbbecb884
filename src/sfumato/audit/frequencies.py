"""The attacker whose prior is the table's own frequencies: what this release tells of each record.

    belief in x for a published y = P[y, x] f_x / sum_k P[y, k] f_k = P[y, x] f_x / (p_y f_y + sum_k q_k f_k)

f are the shares of the record's sub-table, or of a group inside it (such as its quasi-identifiers) whose shares the
attacker knows. The risk of a record is the belief in its true value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.attributes import SensitiveDomain
from sfumato.audit.finding import ROUNDING, SHOWN, Exposed, Finding
from sfumato.audit.posterior import QUESTION
from sfumato.matrix import CodeArray, FloatArray, PerturbationMatrix
from sfumato.mechanism import Mechanism
from sfumato.requirement import Bound

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RecordBeliefs:
    """Of each record: the prior of its true value, the belief after the release, and the bound; inf where none is."""

    priors: FloatArray
    beliefs: FloatArray
    limits: FloatArray

    @property
    def covered(self) -> npt.NDArray[np.bool_]:
        """Whether the requirement speaks of the record, and there is something to learn."""
        return (self.priors < 1) & np.isfinite(self.limits)

    @property
    def above(self) -> npt.NDArray[np.bool_]:
        """Whether the belief is beyond the bound."""
        return self.covered & (self.beliefs > self.limits * (1 + ROUNDING))


def beliefs_in_truth(
    matrix: PerturbationMatrix, true: CodeArray, published: CodeArray, groups: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the prior of each record's true value, the share in its group, and the belief after the release."""
    m = matrix.size
    keys, place, counts = np.unique(groups * m + true, return_inverse=True, return_counts=True)
    sizes = np.bincount(groups)[groups]
    priors = counts[place] / sizes
    wanted = groups * m + published
    at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    shares = np.where(keys[at] == wanted, counts[at], 0) / sizes  # of the published value, in the record's group
    noise = np.bincount(groups, weights=matrix.off_diagonal[true])[groups] / sizes
    own = matrix.off_diagonal[true] + np.where(true == published, matrix.retention[true], 0.0)
    return priors, own * priors / (matrix.retention[published] * shares + noise)


def limits_at(bounds: Sequence[Bound], values: CodeArray, priors: FloatArray) -> FloatArray:
    """Return the bound on the belief in each value from its prior; inf where the requirement says nothing of it.

    Stated by rho1 and rho2: rho2 for a prior of at most rho1. By gamma alone: the odds grow by at most gamma.
    """
    rho1, rho2, gamma = (
        np.array([np.nan if getattr(b, name) is None else float(getattr(b, name)) for b in bounds])[values]
        for name in ("rho1", "rho2", "gamma")
    )
    by_odds = gamma * priors / (1 - priors + gamma * priors)
    limits = np.where(np.isnan(rho1), by_odds, np.where(priors <= rho1, rho2, np.inf))
    return np.where(np.isnan(gamma), np.inf, limits)


def record_beliefs(
    mechanism: Mechanism,
    true: CodeArray,
    published: CodeArray,
    labels: CodeArray | None = None,
    groups: IntArray | None = None,
) -> RecordBeliefs:
    """Return the beliefs about all records, in their order.

    Codes are of the mechanism's domain; `labels` number the sub-table of each record from 0; `groups` number, from 0,
    the groups whose shares inside a sub-table the attacker knows.
    """
    found = RecordBeliefs(*(np.empty(true.size) for _ in range(3)))
    labels = np.zeros(true.size, dtype=np.int32) if labels is None else labels
    groups = np.zeros(true.size, dtype=np.int64) if groups is None else groups
    for number, table in enumerate(mechanism.tables):
        here = np.flatnonzero(labels == number)
        if not here.size:
            continue
        own, shown = (np.searchsorted(table.codes, codes[here]).astype(np.int32) for codes in (true, published))
        priors, beliefs = beliefs_in_truth(table.matrix, own, shown, groups[here])
        found.priors[here], found.beliefs[here] = priors, beliefs
        found.limits[here] = limits_at(table.bounds, own, priors)
    return found


def frequencies_finding(
    mechanism: Mechanism,
    true: CodeArray,
    published: CodeArray,
    labels: CodeArray | None = None,
    groups: IntArray | None = None,
    names: Sequence[str] = (),
    promised: bool = True,
) -> Finding:
    """Return what this release tells one who knows the shares; `names` are those of the groups.

    `promised`: whether the guarantee is about these shares (for small domain: those of sub-tables, not of groups).
    """
    found = record_beliefs(mechanism, true, published, labels, groups)
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
    worst = int(pool[excess[pool].argmax()])
    limit = float(found.limits[worst]) if covered[worst] else None
    shown = true.astype(np.int64) * mechanism.domain.size + published if groups is None else groups

    def told(group: int) -> str:
        if groups is None:
            return _pair(mechanism.domain, group)
        return names[group] if names else f"group {group + 1}"

    return Finding(
        attacker="frequencies",
        question=QUESTION,
        assumption=_assumption(mechanism, groups is not None),
        measured="the belief in the record's true value; exact",
        worst=float(found.beliefs[worst]),
        mean=float(found.beliefs.mean()),
        records=true.size,
        at_risk=int(found.above.sum()) if covered.any() else int((found.beliefs > found.priors).sum()),
        promised=limit if promised else None,
        stated=None if promised else limit,
        baseline=float(found.priors[worst]),
        exposed=tuple(_most_exposed(shown, told, found)),
        remark=_remark(found),
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


def _remark(found: RecordBeliefs) -> str:
    text = f"Before the release it believes in the true value by {found.priors.mean():.4g} on average."
    free = ~found.covered
    if free.any():
        text += (
            f" Of {int(free.sum()):,} record(s) the requirement says nothing, as their value has no bound or a share "
            f"beyond it; there the largest belief is {found.beliefs[free].max():.4g}."
        )
    return text


def _most_exposed(groups: IntArray, told: Callable[[int], str], found: RecordBeliefs) -> Iterator[Exposed]:
    """Yield the groups with the largest beliefs, where there was something to learn."""
    numbers, place, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    largest, learns = np.zeros(numbers.size), found.priors < 1
    np.maximum.at(largest, place[learns], found.beliefs[learns])
    for k in np.argsort(-largest, kind="stable")[:SHOWN]:
        if largest[k]:
            yield Exposed(told(int(numbers[k])), int(sizes[k]), float(largest[k]))
