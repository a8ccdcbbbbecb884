"""The attacker whose prior is the table's own frequencies: what this release tells of each record.

    belief in x for a published y = P[y, x] f_x / sum_k P[y, k] f_k = P[y, x] f_x / (p_y f_y + sum_k q_k f_k)

f are the shares of the record's sub-table, or of a group inside it (such as its quasi-identifiers) whose shares the
attacker knows. The risk of a record is the belief in its true value.

Records that are alike (group, sub-table, true and published value) are computed once, with their number as a weight.
Where rows were shuffled, nobody can tell which published value a record has; but of n records with x the share P[y, x]
is expected to be published as y, and the weights n P[y, x] give the expected figures exactly (`expected_cases`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.auditor.attacker import IN_GROUPS, ONE_MATRIX, Attacker, Listed
from sfumato.auditor.attackers.posterior import QUESTION
from sfumato.auditor.codes import Ints
from sfumato.auditor.evidence import DoesNotApply, Evidence
from sfumato.auditor.finding import ROUNDING, SHOWN, Exposed, Finding, Nearest, nearer
from sfumato.auditor.sub_tables import dealt
from sfumato.release.manifest import Manifest
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.matrix.base import Matrix
from sfumato.values.matrix.retention import CodeArray, FloatArray
from sfumato.values.mechanism import Mechanism
from sfumato.values.requirement import Bound

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Cases:
    """Records that are alike, and how many: codes of the domain, sub-tables and groups from 0."""

    true: CodeArray
    published: CodeArray
    labels: CodeArray
    groups: IntArray
    weights: FloatArray


def observed_cases(
    true: CodeArray, published: CodeArray, labels: CodeArray, groups: IntArray, mechanism: Mechanism
) -> Cases:
    """Return the cases of records whose published values are known, all in the same order."""
    m, tables = mechanism.domain.size, len(mechanism.tables)
    keys = ((groups * tables + labels) * m + true) * m + published
    keys, weights = np.unique(keys, return_counts=True)
    place, own = np.divmod(keys // m, m)
    return Cases(
        own.astype(np.int32),
        (keys % m).astype(np.int32),
        (place % tables).astype(np.int32),
        place // tables,
        weights.astype(np.float64),
    )


def expected_cases(mechanism: Mechanism, true: CodeArray, groups: IntArray, quotas: Sequence[IntArray]) -> Cases:
    """Return all that can be published of the records, with the numbers that are expected.

    weight = records of the group with x * quota of x in sub-table j / records with x * P_j[y, x]
    """
    m = mechanism.domain.size
    pairs, records = np.unique(groups * m + true, return_counts=True)
    group, value = np.divmod(pairs, m)
    held = np.bincount(true, minlength=m)
    parts: list[Cases] = []
    for number, (table, quota) in enumerate(zip(mechanism.tables, quotas, strict=True)):
        dealt = np.zeros(m)
        dealt[table.codes] = quota / np.maximum(held[table.codes], 1)
        here = np.flatnonzero(dealt[value] > 0)
        own = np.searchsorted(table.codes, value[here])
        size = table.codes.size
        everything = np.tile(np.arange(size), own.size)
        chance = table.matrix.chances(everything, np.repeat(own, size))
        parts.append(
            Cases(
                np.repeat(value[here], size).astype(np.int32),
                np.tile(table.codes, own.size).astype(np.int32),
                np.full(own.size * size, number, dtype=np.int32),
                np.repeat(group[here], size),
                np.repeat(records[here] * dealt[value[here]], size) * chance,
            )
        )
    joined = Cases(*(np.concatenate([getattr(part, name) for part in parts]) for name in Cases.__annotations__))
    possible = joined.weights > 0
    return Cases(*(getattr(joined, name)[possible] for name in Cases.__annotations__))


@dataclass(frozen=True, eq=False)
class RecordBeliefs:
    """Of each record: the prior of its true value, the belief after the release, and the bound; inf where none is.

    `weights` are how many records each line stands for; None: one.
    """

    priors: FloatArray
    beliefs: FloatArray
    limits: FloatArray
    weights: FloatArray | None = None

    @property
    def covered(self) -> npt.NDArray[np.bool_]:
        """Whether the requirement speaks of the record, and there is something to learn."""
        return (self.priors < 1) & np.isfinite(self.limits)

    @property
    def numbers(self) -> FloatArray:
        """How many records each line stands for."""
        return np.ones(self.priors.size) if self.weights is None else self.weights

    @property
    def records(self) -> int:
        """All records."""
        return round(float(self.numbers.sum()))

    def mean(self, of_records: FloatArray) -> float:
        """Return the mean over the records."""
        return float(of_records @ self.numbers / self.numbers.sum())

    @property
    def above(self) -> npt.NDArray[np.bool_]:
        """Whether the belief is beyond the bound."""
        return self.covered & (self.beliefs > self.limits * (1 + ROUNDING))


def beliefs_in_truth(
    matrix: Matrix,
    true: CodeArray,
    published: CodeArray,
    groups: IntArray,
    weights: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the prior of each record's true value, the share in its group, and the belief after the release."""
    m, weights = matrix.size, np.ones(true.size) if weights is None else weights
    keys, place = np.unique(groups * m + true, return_inverse=True)
    counts = np.bincount(place, weights)
    sizes = np.bincount(groups, weights)[groups]
    priors = np.minimum(counts[place] / sizes, 1.0)
    wanted = groups * m + published
    if matrix.retention is None:
        shown, row = np.unique(wanted, return_inverse=True)
        seen = _published(matrix, keys, counts.astype(np.float64), shown)[row] / sizes
    else:
        at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
        shares = np.where(keys[at] == wanted, counts[at], 0) / sizes  # of the published value, in the record's group
        noise = matrix.chances((true + 1) % m, true) if m > 1 else 1 - matrix.retention[true]
        seen = matrix.retention[published] * shares + np.bincount(groups, weights * noise)[groups] / sizes
    return priors, matrix.chances(published, true) * priors / seen


def _published(matrix: Matrix, keys: IntArray, counts: FloatArray, shown: IntArray) -> FloatArray:
    """Return how many records of a group are expected to be published as a value, sum_x P[y, x] n_x.

    Keys and `shown` are group * m + value, both ascending; `counts` are the records of the keys. The sum goes through
    the values that a group has.
    """
    m = matrix.size
    starts, ends = (np.searchsorted(keys, (shown // m + more) * m) for more in (0, 1))
    line = np.repeat(np.arange(shown.size), ends - starts)
    place = np.arange(line.size) + np.repeat(ends - np.cumsum(ends - starts), ends - starts)
    parts = counts[place] * matrix.chances(shown[line] % m, keys[place] % m)
    return np.asarray(np.bincount(line, parts, shown.size), dtype=np.float64)


def limits_at(bounds: Sequence[Bound], values: CodeArray, priors: FloatArray) -> FloatArray:
    """Return the bound on the belief in each value from its prior; inf where nothing is required of the value.

    The odds grow by at most gamma. Stated by rho1 and rho2, that is more than rho2 for a prior above rho1; for one of
    at most rho1 the bound is rho2.
    """
    rho2, gamma = (
        np.array([np.nan if getattr(b, name) is None else float(getattr(b, name)) for b in bounds])[values]
        for name in ("rho2", "gamma")
    )
    by_odds = gamma * priors / (1 - priors + gamma * priors)
    return np.where(np.isnan(gamma), np.inf, np.fmax(rho2, by_odds))


def record_beliefs(
    mechanism: Mechanism,
    true: CodeArray,
    published: CodeArray,
    labels: CodeArray | None = None,
    groups: IntArray | None = None,
    weights: FloatArray | None = None,
) -> RecordBeliefs:
    """Return the beliefs about all records, in their order.

    Codes are of the mechanism's domain; `labels` number the sub-table of each record from 0; `groups` number, from 0,
    the groups whose shares inside a sub-table the attacker knows.
    """
    found = RecordBeliefs(np.empty(true.size), np.empty(true.size), np.empty(true.size), weights)
    labels = np.zeros(true.size, dtype=np.int32) if labels is None else labels
    groups = np.zeros(true.size, dtype=np.int64) if groups is None else groups
    for number, table in enumerate(mechanism.tables):
        here = np.flatnonzero(labels == number)
        if not here.size:
            continue
        own, shown = (np.searchsorted(table.codes, codes[here]).astype(np.int32) for codes in (true, published))
        priors, beliefs = beliefs_in_truth(
            table.matrix, own, shown, groups[here], None if weights is None else weights[here]
        )
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


def bounds_of(mechanism: Mechanism) -> set[Bound]:
    """Return all bounds of a mechanism."""
    return {bound for table in mechanism.tables for bound in table.bounds}


def why_bound(bounds: Iterable[Bound], limit: float, prior: float) -> str:
    """Return why a bound is another one than the promise's own: that is on beliefs of at most rho1 beforehand."""
    stated = [bound for bound in bounds if bound.gamma is not None]
    if any(bound.rho2 is not None and abs(float(bound.rho2) - limit) <= ROUNDING for bound in stated):
        return ""
    factor = limit / (1 - limit) * (1 - prior) / prior
    if not any(bound.rho2 is not None for bound in stated):
        return f"From a belief of {prior:.4g} beforehand: its odds grow by at most {factor:.4g}."
    return (
        f"This one was believed by {prior:.4g} beforehand, more than the belief that the promise starts from. So its "
        f"own bound is higher: its odds grow by at most {factor:.4g}."
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


MOST_CASES = 30_000_000
"""Records that differ, times the values that can be published of them, that are held in memory."""


EXPECTED = "Rows were shuffled, so these are the expected figures over all that can be published of each record."


def of_randomized(evidence: Evidence) -> Iterator[Finding]:
    """Who knows the shares of the values."""
    cases = cases_of(evidence, np.zeros(evidence.rows, dtype=np.int64))
    found = frequencies_finding(evidence.mechanism, cases.true, cases.published, cases.labels, weights=cases.weights)
    yield found if evidence.is_aligned else found.with_remark(EXPECTED)


def cases_of(evidence: Evidence, groups: Ints) -> Cases:
    """Return records that are alike, as they were published or as they can be."""
    if evidence.is_aligned:
        return observed_cases(evidence.true, evidence.published, evidence.sub_tables, groups, evidence.mechanism)
    m = evidence.mechanism.domain.size
    different = np.unique(groups * m + evidence.true).size * m
    if different > MOST_CASES:
        raise DoesNotApply(f"rows were shuffled, and {different:,} cases that can be published are too many.")
    return expected_cases(evidence.mechanism, evidence.true, groups, evidence.once(dealt).quotas)


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
