"""The attacker who knows the composition of a sub-table: how many of its records have each value (SDR)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.auditor.attacker import IN_GROUPS, ONE_MATRIX, Attacker, Listed
from sfumato.auditor.attackers.composition_beliefs import AGREE, composition_beliefs
from sfumato.auditor.beliefs import bounds_of, limits_at, why_bound
from sfumato.auditor.evidence import DoesNotApply, Evidence
from sfumato.auditor.finding import ROUNDING, SHOWN, Exposed, Finding, Nearest, nearer
from sfumato.auditor.sub_tables import Counts, compositions
from sfumato.release.manifest import Manifest
from sfumato.values.arrays import FloatArray
from sfumato.values.mechanism import Mechanism, SubTable


@dataclass(frozen=True)
class PublishedRisk:
    """Records of a sub-table that are published with one value, and a belief in a value of theirs.

    It is the belief that is nearest to its bound, or the largest. Where no value has a bound, the limit is infinite.
    """

    table: int
    published: int  # codes of the domain
    believed: int
    records: int
    belief: float
    prior: float
    share: float  # of the value in the whole sub-table, from which the limit is stated
    limit: float  # that is stated for one who takes the records for independent draws

    @property
    def is_bounded(self) -> bool:
        """Whether anything is required of the value."""
        return math.isfinite(self.limit)

    @property
    def excess(self) -> float:
        """How far the belief is above that."""
        return self.belief - self.limit

    @property
    def is_above(self) -> bool:
        """Whether it is, beyond rounding."""
        return self.is_bounded and self.excess > ROUNDING * self.limit


@dataclass(frozen=True)
class PublishedRisks:
    """Of every published value of a sub-table the belief nearest to its bound, and the largest of a value with one."""

    nearest: tuple[PublishedRisk, ...] = ()
    largest: tuple[PublishedRisk, ...] = ()
    error: float = 0.0  # how far a belief may be off


def published_risks(number: int, table: SubTable, counts: Counts, whole: Counts) -> PublishedRisks:
    """Return the risks of a sub-table; none where all records have one value.

    `whole` are the counts from which the bound is stated, where `counts` are only those of some members.
    """
    if not sum(counts.true):
        return PublishedRisks()
    found = composition_beliefs(table.matrix, counts.published, counts.true)
    shares = np.array(whole.true) / sum(whole.true)
    if shares.max() == 1:
        return PublishedRisks()  # nothing to learn
    limits = limits_at(table.bounds, np.arange(shares.size, dtype=np.int32), shares)
    own = np.where(np.isfinite(limits), limits, 0.0)
    nearest, largest = (_risks(number, table, counts, found.beliefs, shares, limits, less) for less in (own, 0 * own))
    return PublishedRisks(tuple(nearest), tuple(largest), found.error)


def _risks(
    number: int,
    table: SubTable,
    counts: Counts,
    beliefs: FloatArray,
    shares: FloatArray,
    limits: FloatArray,
    less: FloatArray,
) -> Iterator[PublishedRisk]:
    """Yield of each published value the belief that is largest, less what is to be taken off it."""
    protected = np.isfinite(limits)
    pool = np.flatnonzero(protected) if protected.any() else np.arange(limits.size)
    for y, records in enumerate(counts.published):
        if records:
            x = int(pool[(beliefs[y] - less)[pool].argmax()])
            yield PublishedRisk(
                table=number,
                published=int(table.codes[y]),
                believed=int(table.codes[x]),
                records=records,
                belief=float(beliefs[y, x]),
                prior=counts.true[x] / sum(counts.true),
                share=float(shares[x]),
                limit=float(limits[x]),
            )


def composition_finding(
    mechanism: Mechanism, counts: Sequence[Counts], whole: Sequence[Counts] | None = None
) -> Finding:
    """Return what this release tells one who knows the composition of every sub-table: no guarantee is about that."""
    tables = enumerate(zip(mechanism.tables, counts, whole or counts, strict=True))
    parts = [published_risks(number, table, own, all_own) for number, (table, own, all_own) in tables]
    error = max((part.error for part in parts), default=0.0)
    records = sum(sum(own.true) for own in counts)
    found, largest = (_bounded([risk for part in parts for risk in getattr(part, of)]) for of in ("nearest", "largest"))
    critical = max(found, key=lambda risk: (risk.excess, risk.belief), default=None)
    ranked = sorted(largest, key=lambda risk: risk.belief, reverse=True)
    worst = ranked[0] if ranked else None
    return Finding(
        attacker="composition",
        question="Which true value does a record have, given all published values of its sub-table?",
        assumption=(
            "Knows the matrices, the sub-table of every record, and how many records of each sub-table have each "
            "value. Prior: every way to give these values to the records is equally likely."
        ),
        measured=(
            "the belief in a value of a record, by what is published of it: the largest (worst), and on average of "
            "those nearest to their bounds (mean); exact"
        ),
        worst=worst.belief if worst else 0.0,
        mean=sum(risk.records * risk.belief for risk in found) / max(sum(risk.records for risk in found), 1),
        records=records,
        at_risk=sum(risk.records for risk in found if risk.is_above),
        stated=worst.limit if worst and worst.is_bounded else None,
        baseline=worst.prior if worst else None,
        exposed=tuple(Exposed(_told(mechanism, risk), risk.records, risk.belief) for risk in ranked[:SHOWN]),
        remark=_remark(critical, error),
        who=_told(mechanism, worst) if worst else "",
        nearest=nearer(_nearest(mechanism, critical), worst.belief, worst.limit)
        if critical and worst and worst.is_bounded
        else None,
        why_bound=why_bound(bounds_of(mechanism), worst.limit, worst.share) if worst and worst.is_bounded else "",
    )


def _bounded(risks: list[PublishedRisk]) -> list[PublishedRisk]:
    """Return those with a bound; all, where none has one."""
    return [risk for risk in risks if risk.is_bounded] or risks


def _nearest(mechanism: Mechanism, risk: PublishedRisk) -> Nearest:
    return Nearest(_told(mechanism, risk), risk.belief, risk.limit, risk.prior)


def _told(mechanism: Mechanism, risk: PublishedRisk) -> str:
    where = f"sub-table {risk.table + 1}, " if len(mechanism.tables) > 1 else ""
    labels = mechanism.domain.labels
    return f"{where}published {labels[risk.published]!r}, believed {labels[risk.believed]!r}"


def _remark(worst: PublishedRisk | None, error: float) -> str:
    if worst is None or not worst.is_bounded:
        return "No value has a bound." if worst else "All records have one value: nothing is to be learnt."
    size = f"by {worst.excess:.4g}" if worst.is_above else "nowhere"
    return (
        f"The bound of {worst.limit:.4g}, stated for one who takes the records for independent draws, is exceeded "
        f"{size}. Beliefs are computed within {max(error, AGREE):.1g}."
    )


# --- the attacker -----------------------------------------------------------------------------------------------------

MOST_VALUES = 2_000
"""Values of a sub-table whose composition is attacked: some milliseconds each."""


def of_randomized(evidence: Evidence) -> Iterator[Finding]:
    """Who knows how many records of each sub-table have each value."""
    check_known(evidence)
    yield composition_finding(evidence.mechanism, evidence.once(compositions).counts)


def check_known(evidence: Evidence) -> None:
    largest = max(table.codes.size for table in evidence.mechanism.tables)
    if largest > MOST_VALUES:
        raise DoesNotApply(f"a sub-table has {largest:,} values; up to {MOST_VALUES:,} are computed.")
    if any(table.matrix.retention is None for table in evidence.mechanism.tables):
        raise DoesNotApply("it is computed for matrices that keep a value or draw one of all alike, not for this one.")
    if evidence.one_of_each_person:
        raise DoesNotApply("one row of each person was drawn: the composition of the published rows is not known.")


def _public(manifest: Manifest) -> Listed | None:
    return Listed(8, covered=False) if manifest.kind == "randomized" else None


ATTACKER = Attacker(
    name="composition",
    knows="knows how many records of the table, or of a sub-table, have each value",
    why_not_covered="The guarantee takes records for independent draws. Someone who knows the exact counts does not.",
    on={"randomized": of_randomized, "response": ONE_MATRIX, "groups": IN_GROUPS},
    public=_public,
    place=7,
)
