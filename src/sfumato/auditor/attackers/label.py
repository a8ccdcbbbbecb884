"""What the label of a sub-table tells by itself, before any published value is looked at (SDR).

    belief in x = c_jx / |T_j|,     c_jx of the records of sub-table j have x;     prior: the share of x in the table

A sub-table excludes the values that it lacks. So a prior of any size on one of its values, the rest on values outside
of it, becomes certainty: the bound is on beliefs after the label is seen, and local differential privacy is infinite.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sfumato.auditor.attacker import NO_SUB_TABLES, Attacker, Listed
from sfumato.auditor.beliefs import bounds_of, limits_at, why_bound
from sfumato.auditor.evidence import DoesNotApply, Evidence
from sfumato.auditor.finding import ROUNDING, SHOWN, Exposed, Finding, Nearest, nearer
from sfumato.auditor.sub_tables import Quotas, compositions, has_sub_tables
from sfumato.release.manifest import Manifest
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.mechanism import Mechanism


def label_finding(mechanism: Mechanism, quotas: Quotas) -> Finding:
    """Return what the sub-table of a record tells of its true value; quotas: the records of each value in each."""
    records, beliefs, priors, limits = _told(mechanism, quotas)
    protected = np.isfinite(limits)
    pool = np.flatnonzero((records > 0) & (protected | (not protected[records > 0].any())))
    nearest = int(pool[(beliefs - np.where(protected, limits, 0.0))[pool].argmax()])
    worst = int(pool[beliefs[pool].argmax()])
    names = _names(mechanism)
    above = beliefs > np.where(protected, limits, priors) * (1 + ROUNDING)
    return Finding(
        attacker="label",
        question="Which true value does a record have, given its sub-table?",
        assumption=(
            "Knows how many records of each sub-table have each value, and the sub-table of the record; does not look "
            "at its published value. Prior: the shares of the values in the table."
        ),
        measured=(
            "the belief in a record's true value: the largest (worst), and on average (mean), over records whose "
            "value has a bound; exact"
        ),
        worst=float(beliefs[worst]),
        mean=float(np.average(beliefs[pool], weights=records[pool])),
        records=int(records.sum()),
        at_risk=int(records[pool][above[pool]].sum()),
        stated=float(limits[worst]) if protected[worst] else None,
        baseline=float(priors[worst]),
        exposed=tuple(
            Exposed(names[k], int(records[k]), float(beliefs[k]))
            for k in pool[np.argsort(-beliefs[pool], kind="stable")][:SHOWN].tolist()
        ),
        remark=_remark(mechanism),
        who=names[worst],
        nearest=nearer(
            Nearest(names[nearest], float(beliefs[nearest]), float(limits[nearest]), float(priors[nearest])),
            float(beliefs[worst]),
            float(limits[worst]),
        )
        if protected[worst]
        else None,
        why_bound=why_bound(bounds_of(mechanism), limits[worst], priors[worst]) if protected[worst] else "",
    )


def _told(mechanism: Mechanism, quotas: Quotas) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """Return of each value of each sub-table, one after another: records, belief, prior and bound from that prior."""
    held = np.zeros(mechanism.domain.size, dtype=np.int64)
    for table, quota in zip(mechanism.tables, quotas, strict=True):
        held[table.codes] += np.asarray(quota)
    shares = held / held.sum()
    records = np.concatenate([np.asarray(quota, dtype=np.int64) for quota in quotas])
    beliefs = np.concatenate([np.asarray(quota) / max(int(np.sum(quota)), 1) for quota in quotas])
    priors = np.concatenate([shares[table.codes] for table in mechanism.tables])
    limits = np.concatenate(
        [limits_at(t.bounds, np.arange(t.codes.size, dtype=np.int32), shares[t.codes]) for t in mechanism.tables]
    )
    return records, beliefs, priors, limits


def _names(mechanism: Mechanism) -> list[str]:
    return [
        f"sub-table {number + 1}: {mechanism.domain.labels[code]!r}"
        for number, table in enumerate(mechanism.tables)
        for code in table.codes.tolist()
    ]


def _remark(mechanism: Mechanism) -> str:
    lacking = [number for number, table in enumerate(mechanism.tables) if table.codes.size < mechanism.domain.size]
    if not lacking:
        return "Every sub-table has all values: the label excludes none."
    first = mechanism.tables[lacking[0]]
    inside = mechanism.domain.labels[int(first.codes[0])]
    outside = next(code for code in range(mechanism.domain.size) if code not in first.codes)
    return (
        f"{len(lacking):,} of {len(mechanism.tables):,} sub-tables exclude values, so that local epsilon is infinite. "
        f"Any prior on {inside!r}, with the rest on {mechanism.domain.labels[outside]!r}, becomes certainty once "
        f"sub-table {lacking[0] + 1} is seen."
    )


# --- the attacker -----------------------------------------------------------------------------------------------------


def of_sub_tables(evidence: Evidence) -> Iterator[Finding]:
    """Who sees the sub-table of a record."""
    if evidence.mechanism.label is None:
        raise DoesNotApply("there are no sub-tables.")
    yield label_finding(evidence.mechanism, evidence.once(compositions).quotas)


def _public(manifest: Manifest) -> Listed | None:
    return Listed(5, covered=False) if has_sub_tables(manifest) else None


ATTACKER = Attacker(
    name="label",
    knows="sees which sub-table a record is in",
    why_not_covered=(
        "The guarantee bounds beliefs once a record's sub-table is seen, not what the sub-table itself tells."
    ),
    on={"randomized": of_sub_tables, "response": NO_SUB_TABLES, "groups": NO_SUB_TABLES},
    public=_public,
    place=4,
)
