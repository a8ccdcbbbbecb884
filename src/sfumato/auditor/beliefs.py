"""What a randomized release tells of each record, to someone who knows shares of the values.

    belief in x for a published y = P[y, x] f_x / sum_k P[y, k] f_k = P[y, x] f_x / (p_y f_y + sum_k q_k f_k)

f are the shares of the record's sub-table, or of a group inside it (such as its quasi-identifiers) whose shares the
attacker knows. The risk of a record is the belief in its true value.

Records that are alike (group, sub-table, true and published value) are computed once, with their number as a weight.
Where rows were shuffled, nobody can tell which published value a record has; but of n records with x the share P[y, x]
is expected to be published as y, and the weights n P[y, x] give the expected figures exactly (`expected_cases`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from sfumato.auditor.evidence import Evidence, NotMeasured
from sfumato.auditor.finding import ROUNDING, Finding, Nearest, held_to, largest_at, nearer
from sfumato.auditor.knowledge import Knowledge
from sfumato.methods import plan
from sfumato.methods.robustness.prior import check_prior
from sfumato.publisher.table import profile
from sfumato.release.manifest import Manifest
from sfumato.show.words import percent
from sfumato.values.arrays import BoolArray, CodeArray, FloatArray, IntArray
from sfumato.values.matrix.base import Matrix
from sfumato.values.mechanism import Bound, Mechanism
from sfumato.values.steps import Allocate


@dataclass(frozen=True, eq=False)
class Cases:
    """Records that are alike, and how many: codes as the mechanism has them, sub-tables and groups from 0."""

    true: CodeArray
    published: CodeArray
    labels: CodeArray
    groups: IntArray
    weights: FloatArray


def observed_cases(
    true: CodeArray, published: CodeArray, labels: CodeArray, groups: IntArray, mechanism: Mechanism
) -> Cases:
    """Return the cases of records whose published values are known, all in the same order."""
    m, outputs, tables = mechanism.domain.size, mechanism.published.size, len(mechanism.tables)
    keys = ((groups * tables + labels) * m + true) * outputs + published
    keys, weights = np.unique(keys, return_counts=True)
    place, own = np.divmod(keys // outputs, m)
    return Cases(
        own.astype(np.int32),
        (keys % outputs).astype(np.int32),
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
        size = table.matrix.outputs
        everything = np.tile(np.arange(size), own.size)
        chance = table.matrix.chances(everything, np.repeat(own, size))
        parts.append(
            Cases(
                np.repeat(value[here], size).astype(np.int32),
                np.tile(table.published, own.size).astype(np.int32),
                np.full(own.size * size, number, dtype=np.int32),
                np.repeat(group[here], size),
                np.repeat(records[here] * dealt[value[here]], size) * chance,
            )
        )
    possible = np.concatenate([part.weights for part in parts]) > 0
    return Cases(*(np.concatenate([getattr(part, f.name) for part in parts])[possible] for f in fields(Cases)))


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
    def covered(self) -> BoolArray:
        """Whether the requirement speaks of the record, and there is something to learn."""
        return (self.priors < 1) & np.isfinite(self.limits)

    @property
    def numbers(self) -> FloatArray:
        return np.ones(self.priors.size) if self.weights is None else self.weights

    @property
    def above(self) -> BoolArray:
        return self.covered & (self.beliefs > self.limits * (1 + ROUNDING))


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
    weights: FloatArray | None = None,
    known: Knowledge | None = None,
) -> RecordBeliefs:
    """Return the beliefs about all records, in their order.

    True codes are of the mechanism's domain, published ones of what it publishes; `labels` number the sub-table of each
    record from 0. The attacker knows the shares of the record's sub-table; or it has a prior on the records'
    signatures: in a sub-table that of one who excludes the values which it does not have.
    """
    if known is not None:
        check_prior(known.prior, known.signatures, true.astype(np.int64))
    found = RecordBeliefs(np.empty(true.size), np.empty(true.size), np.empty(true.size), weights)
    labels = np.zeros(true.size, dtype=np.int32) if labels is None else labels
    for number, table in enumerate(mechanism.tables):
        here = np.flatnonzero(labels == number)
        if not here.size:
            continue
        own, shown = np.searchsorted(table.codes, true[here]).astype(np.int32), table.rows_of(published[here])
        if known is None:
            priors, beliefs = _by_shares(table.matrix, own, shown, found.numbers[here])
        else:
            chances, signature = known.prior.probabilities[:, table.codes], known.signatures[here]
            priors = chances[signature, own] / chances.sum(axis=1)[signature]
            joint = table.matrix.chances(shown, own) * chances[signature, own]
            beliefs = joint / table.matrix.apply_at(chances, signature, shown)
        found.priors[here], found.beliefs[here] = priors, beliefs
        found.limits[here] = limits_at(table.bounds, own, priors)
    return found


def _by_shares(
    matrix: Matrix, true: CodeArray, published: CodeArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the prior of each record's true value, its share, and the belief after the release."""
    m, everybody = matrix.size, np.zeros(true.size, dtype=np.int64)
    counts, total = np.bincount(true, weights, m), np.bincount(everybody, weights)
    priors = np.minimum(counts[true] / total, 1.0)
    if matrix.retention is None:
        seen = matrix.apply(counts.astype(np.float64))[published] / total
    else:
        noise = matrix.chances((true + 1) % m, true) if m > 1 else 1 - matrix.retention[true]
        seen = (
            matrix.retention[published] * (counts[published] / total) + np.bincount(everybody, weights * noise) / total
        )
    return priors, matrix.chances(published, true) * priors / seen


def worst_finding(
    beliefs: FloatArray,
    priors: FloatArray,
    limits: FloatArray,
    pool: BoolArray,
    told: Callable[..., str],
    bounds: Iterable[Bound],
    promised: bool,
    shares: FloatArray | None = None,
    **others: Any,
) -> Finding:
    """Return the finding of the largest belief of a pool, with its bound, and the one that is nearest to its own bound.

    Arrays of one shape, one dimension or more; limits are inf where there is none, and in a pool all or none are.
    told: a place in words. shares: from which limits are stated, where these are not the priors. others: the other
    fields of the finding.
    """
    worst = np.unravel_index(largest_at(np.where(pool, beliefs, -1.0)), beliefs.shape)
    belief, limit, prior = (float(part[worst]) for part in (beliefs, limits, priors))
    found = Finding(worst=belief, baseline=prior, who=told(*map(int, worst)), **others)
    if math.isinf(limit):
        return found
    near = np.unravel_index(largest_at(np.where(pool, beliefs - limits, -2.0)), beliefs.shape)
    figures = (float(part[near]) for part in (beliefs, limits, priors))
    return replace(
        found,
        **held_to(limit, promised),
        nearest=nearer(Nearest(told(*map(int, near)), *figures), belief, limit),
        why_bound=why_bound(bounds, limit, prior if shares is None else float(shares[worst])),
    )


def bounds_of(mechanism: Mechanism) -> set[Bound]:
    return {bound for table in mechanism.tables for bound in table.bounds}


def why_bound(bounds: Iterable[Bound], limit: float, prior: float) -> str:
    """Return why a bound is another one than the promise's own: that is on beliefs of at most rho1 beforehand."""
    stated = [bound for bound in bounds if bound.gamma is not None]
    if any(bound.rho2 is not None and abs(float(bound.rho2) - limit) <= ROUNDING for bound in stated):
        return ""
    factor = limit / (1 - limit) * (1 - prior) / prior
    if not any(bound.rho2 is not None for bound in stated):
        return f"From a belief of {percent(prior)} beforehand: its odds grow by at most {factor:.4g}."
    return (
        f"This one was believed by {percent(prior)} beforehand, more than the belief that the promise starts from. So "
        f"its own bound is higher: its odds grow by at most {factor:.4g}."
    )


# --- sub-tables -------------------------------------------------------------------------------------------------------


Quotas = Sequence[Sequence[int] | IntArray]  # of each sub-table, how many records have each of its values


@dataclass(frozen=True)
class Counts:
    """How many records of a sub-table are published with each of its values or cards, and how many have each value."""

    published: tuple[int, ...]
    true: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Compositions:
    """How many records of each value each sub-table has, and how many rows it publishes of each value or card."""

    quotas: tuple[IntArray, ...]
    published: tuple[IntArray, ...]

    @property
    def counts(self) -> list[Counts]:
        pairs = zip(self.published, self.quotas, strict=True)
        return [Counts(tuple(shown.tolist()), tuple(own.tolist())) for shown, own in pairs]


def compositions(evidence: Evidence) -> Compositions:
    """Return the composition of the sub-tables.

    Rows in the table's order tell it; of shuffled ones, the plan does, which is made again and is always the same.
    """
    mechanism = evidence.mechanism
    rows_of = [table.published for table in mechanism.tables]
    shown = tuple(_counted(rows_of, mechanism.published.size, evidence.published, evidence.sub_tables))
    if mechanism.label is None:
        held = np.bincount(evidence.true, minlength=mechanism.domain.size)
        return Compositions((held[mechanism.tables[0].codes],), shown)
    if evidence.is_aligned:
        values_of = [table.codes for table in mechanism.tables]
        return Compositions(
            tuple(_counted(values_of, mechanism.domain.size, evidence.true, evidence.sub_tables)), shown
        )
    made = plan(profile(evidence.table), evidence.table.policy.method, evidence.table.policy.requirement)
    dealt = [step for step in made.steps() if isinstance(step, Allocate)]
    if not dealt or not _same(dealt[0].mechanism, mechanism):
        raise NotMeasured("how many records of each value a sub-table has is not known: rows were shuffled.")
    return Compositions(dealt[0].quotas, shown)


def _counted(of_tables: Sequence[CodeArray], size: int, codes: CodeArray, labels: CodeArray) -> Iterator[IntArray]:
    """Yield of each sub-table how many records have each of its codes, of so many in all."""
    numbers = np.bincount(labels.astype(np.int64) * size + codes, minlength=len(of_tables) * size)
    for own, of_table in zip(of_tables, numbers.reshape(-1, size), strict=True):
        if of_table.sum() != of_table[own].sum():
            raise NotMeasured("a sub-table has a value that is not one of its own.")
        yield of_table[own]


def _same(one: Mechanism, other: Mechanism) -> bool:
    pairs = zip(one.tables, other.tables, strict=False)
    return len(one.tables) == len(other.tables) and all(
        np.array_equal(a.codes, b.codes) and a.matrix.integers == b.matrix.integers for a, b in pairs
    )


def held_records(mechanism: Mechanism, quotas: Quotas) -> IntArray:
    held = np.zeros(mechanism.domain.size, dtype=np.int64)
    for table, counts in zip(mechanism.tables, quotas, strict=True):
        held[table.codes] += np.asarray(counts)
    return held


def has_sub_tables(manifest: Manifest) -> bool:
    return manifest.kind == "randomized" and len(manifest.mechanism_values[0].tables) > 1
