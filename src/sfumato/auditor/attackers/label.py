"""What the label of a sub-table tells by itself, before any published value is looked at (SDR).

    belief in x = c_jx / |T_j|,     c_jx of the records of sub-table j have x;     prior: the share of x in the table

A sub-table excludes the values that it lacks. So a prior of any size on one of its values, the rest on values outside
of it, becomes certainty: the bound is on beliefs after the label is seen, and local differential privacy is infinite.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sfumato.auditor.attacker import NO_SUB_TABLES, Attacker, Listed
from sfumato.auditor.beliefs import Quotas, compositions, has_sub_tables, held_records, limits_at, worst_finding
from sfumato.auditor.evidence import DoesNotApply, Evidence
from sfumato.auditor.finding import ROUNDING, Finding, most_exposed, settled
from sfumato.values.mechanism import Mechanism


def label_finding(mechanism: Mechanism, quotas: Quotas) -> Finding:
    """Return what the sub-table of a record tells of its true value; quotas: the records of each value in each."""
    held, tables = held_records(mechanism, quotas), mechanism.tables
    shares = held / held.sum()
    # of each value of each sub-table, one after another
    codes = np.concatenate([table.codes for table in tables])
    number = np.repeat(np.arange(len(tables)), [table.codes.size for table in tables])
    records, priors = np.concatenate([np.asarray(quota) for quota in quotas]), shares[codes]
    beliefs = records / np.maximum(np.bincount(number, records), 1)[number]
    bounds = [bound for table in tables for bound in table.bounds]
    limits = limits_at(bounds, np.arange(codes.size, dtype=np.int32), priors)
    pool = (records > 0) & (np.isfinite(limits) | np.isinf(limits[records > 0]).all())
    above = pool & (beliefs > np.where(np.isfinite(limits), limits, priors) * (1 + ROUNDING))

    def told(line: int) -> str:
        return f"sub-table {number[line] + 1}: {mechanism.domain.labels[codes[line]]!r}"

    order = np.argsort(np.where(pool, -settled(beliefs), 1.0), kind="stable")[: int(pool.sum())]
    return worst_finding(
        beliefs,
        priors,
        limits,
        pool,
        told,
        bounds,
        promised=False,
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
        mean=float(np.average(beliefs[pool], weights=records[pool])),
        records=int(records.sum()),
        at_risk=int(records[above].sum()),
        exposed=most_exposed(beliefs, records, told, order),
        remark=_remark(mechanism),
    )


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


def of_sub_tables(evidence: Evidence) -> Iterator[Finding]:
    if evidence.mechanism.label is None:
        raise DoesNotApply("there are no sub-tables.")
    yield label_finding(evidence.mechanism, evidence.once(compositions).quotas)


ATTACKER = Attacker(
    name="label",
    knows="sees which sub-table a record is in",
    why_not_covered=(
        "The guarantee bounds beliefs once a record's sub-table is seen, not what the sub-table itself tells."
    ),
    acceptable=(
        "Acceptable if it does no harm to rule a value out. Not if that tells too much, as it does where few "
        "values are left."
    ),
    on={"randomized": of_sub_tables, "response": NO_SUB_TABLES, "groups": NO_SUB_TABLES},
    public=lambda manifest: Listed(5, covered=False) if has_sub_tables(manifest) else None,
    place=4,
)
