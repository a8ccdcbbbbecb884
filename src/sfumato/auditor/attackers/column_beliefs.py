"""What a release of several sensitive columns tells of one of them: a bound on combinations is none on a column.

A value a of a column is the set A of all combinations that have it. With c_x records that have x, a share d_jx of them
dealt to sub-table j, and P_j[y, x] = q_x + p_x [y = x], someone who sees sub-table j and a published y believes in a by

    sum over x in A of c_x d_jx P_j[y, x]  /  sum over all x of the same

and before by the share of A among the records. Of n records with x, n d_jx P_j[y, x] are published so: figures are
expected ones over all releases, exactly. With one matrix for all rows, the worst prior on A within the requirement is
moved by the factor

    upward     max over x in A of P[x, x]  /  min over k not in A of q_k
    downward   max over k not in A of P[k, k]  /  min over x in A of q_x
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sfumato.auditor.attackers.composition_beliefs import composition_beliefs
from sfumato.auditor.sub_tables import Counts
from sfumato.values.arrays import BoolArray, FloatArray, IntArray
from sfumato.values.attributes import SensitiveDomain, label
from sfumato.values.matrix.base import Matrix
from sfumato.values.mechanism import Mechanism
from sfumato.values.requirement import NO_BOUND, Bound


@dataclass(frozen=True, eq=False)
class ColumnView:
    """One column of several sensitive ones: its values, which of them each combination has, and their bounds."""

    name: str
    labels: tuple[str, ...]
    value_of: IntArray  # of each combination of the domain
    bounds: tuple[Bound, ...]  # of each value: the strictest of all combinations that have it
    promised: bool  # whether the guarantee is about any statement, and so about this column

    @property
    def size(self) -> int:
        """How many values the column has."""
        return len(self.labels)

    def only_rare(self, held: IntArray) -> ColumnView:
        """Return the view of sub-tables: of values with a larger share than their rho1 nothing is required.

        held: the records of each combination.
        """
        records = np.bincount(self.value_of, held, self.size).astype(np.int64).tolist()
        rare = [b.rho1 is None or n <= b.rho1 * sum(records) for b, n in zip(self.bounds, records, strict=True)]
        kept = (bound if is_rare else NO_BOUND for bound, is_rare in zip(self.bounds, rare, strict=True))
        return replace(self, bounds=tuple(kept))

    def told(self, value: int) -> str:
        """Return a value of the column in words."""
        return f"{self.name} = {self.labels[value]}"

    def limits(self, priors: FloatArray) -> FloatArray:
        """Return the bound on the belief in each value from its prior; inf where no combination has one.

        `priors` end in the values of the column. The odds grow by gamma at most; up to rho1 it is rho2.
        """
        rho2, gamma = (
            np.array([math.nan if getattr(b, name) is None else float(getattr(b, name)) for b in self.bounds])
            for name in ("rho2", "gamma")
        )
        by_odds = gamma * priors / (1 - priors + gamma * priors)
        return np.where(np.isnan(gamma), np.inf, np.fmax(rho2, by_odds))


def column_views(domain: SensitiveDomain, bounds: Sequence[Bound], any_predicate: bool) -> tuple[ColumnView, ...]:
    """Return the columns of a domain of several; none where there is one only. bounds: as asked for."""
    if len(domain.parts) < 2:
        return ()
    codes = domain.split(np.arange(domain.size, dtype=np.int32))
    return tuple(
        ColumnView(
            part.name,
            tuple(map(label, part.values)),
            own.astype(np.int64),
            tuple(_strictest(bounds, own == value) for value in range(len(part.values))),
            any_predicate,
        )
        for part, own in zip(domain.parts, codes, strict=True)
    )


def _strictest(bounds: Sequence[Bound], inside: BoolArray) -> Bound:
    own = [bound for bound, is_own in zip(bounds, inside.tolist(), strict=True) if is_own and bound.gamma is not None]
    return min(own, key=lambda bound: bound.gamma or 0, default=NO_BOUND)


@dataclass(frozen=True, eq=False)
class ColumnBeliefs:
    """Cases, each with its records: the belief in every value of the column, and that beforehand: [case, value]."""

    records: FloatArray
    beliefs: FloatArray
    priors: FloatArray
    names: Sequence[str]


def known_shares(
    mechanism: Mechanism,
    quotas: Sequence[IntArray],
    view: ColumnView,
    counts: IntArray,
    groups: Sequence[str],
    seen: bool = True,
) -> ColumnBeliefs:
    """Return the beliefs of someone who knows the shares of combinations: counts [group, combination].

    `seen`: whether they look at the published value, or at the sub-table alone.
    """
    held = np.maximum(np.sum([_spread(mechanism, j, quota) for j, quota in enumerate(quotas)], axis=0), 1)
    onehot = np.eye(view.size)[view.value_of]  # [combination, value]
    prior = (counts @ onehot) / np.maximum(counts.sum(axis=1), 1)[:, None]
    parts, names = [], []
    for j, (table, quota) in enumerate(zip(mechanism.tables, quotas, strict=True)):
        own = onehot[table.codes]
        weight = counts[:, table.codes] * (np.asarray(quota) / held[table.codes])  # [group, place]
        where = f"sub-table {j + 1}" if mechanism.label else ""
        if seen:
            joint = _joint(table.matrix, weight, own)
            shown = [f"published {mechanism.domain.labels[code]!r}" for code in table.codes.tolist()]
        else:
            joint, shown = (weight @ own)[:, None, :], [""]
        parts.append((joint, np.broadcast_to(prior[:, None, :], joint.shape)))
        names += [", ".join(part for part in (group, where, y) if part) for group in groups for y in shown]
    joint, priors = (np.concatenate([part[k].reshape(-1, view.size) for part in parts]) for k in (0, 1))
    records = joint.sum(axis=1)
    use = np.flatnonzero(records > 0)
    return ColumnBeliefs(records[use], joint[use] / records[use, None], priors[use], [names[k] for k in use.tolist()])


def _joint(matrix: Matrix, weight: FloatArray, own: FloatArray) -> FloatArray:
    """Return the records of each group by published combination and value: [group, published, value]."""
    if matrix.retention is None or matrix.size == 1:
        return np.moveaxis(matrix.apply(weight[:, None, :] * own.T), 1, 2)
    codes = np.arange(matrix.size)
    noise, kept = weight * matrix.chances(np.roll(codes, 1), codes), weight * matrix.retention
    return np.asarray((noise @ own)[:, None, :] + kept[:, :, None] * own)


def _spread(mechanism: Mechanism, table: int, quota: IntArray) -> IntArray:
    whole = np.zeros(mechanism.domain.size, dtype=np.int64)
    whole[mechanism.tables[table].codes] = quota
    return whole


def known_composition(mechanism: Mechanism, counts: Sequence[Counts], view: ColumnView) -> ColumnBeliefs:
    """Return the beliefs of someone who knows how many records of each sub-table have each combination."""
    total = np.zeros(view.size)
    for table, own in zip(mechanism.tables, counts, strict=True):
        np.add.at(total, view.value_of[table.codes], own.true)
    prior = total / total.sum()
    records, beliefs, names = [], [], []
    for j, (table, own) in enumerate(zip(mechanism.tables, counts, strict=True)):
        if not sum(own.true):
            continue
        shown = np.flatnonzero(own.published)
        found = composition_beliefs(table.matrix, own.published, own.true).beliefs
        beliefs.append(np.minimum(found[shown] @ np.eye(view.size)[view.value_of[table.codes]], 1.0))
        records += [float(own.published[y]) for y in shown.tolist()]
        where = f"sub-table {j + 1}, " if mechanism.label else ""
        names += [f"{where}published {mechanism.domain.labels[table.codes[y]]!r}" for y in shown.tolist()]
    whole = np.concatenate(beliefs)
    return ColumnBeliefs(np.array(records), whole, np.broadcast_to(prior, whole.shape), names)
