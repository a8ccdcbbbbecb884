"""What a manifest states, as claims are checked against it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sfumato.claims.buckets import BucketClaim
from sfumato.claims.claim import Check, Published
from sfumato.errors import UsageError
from sfumato.release.manifest import Manifest
from sfumato.values.computed import ROW_ORDER, left_out, observed_domain

LEFT_OUT = re.compile("Rows without a value of (.+) were left out")
"""How the limit begins that rows were left out for want of a value."""
UNREADABLE = (ArithmeticError, IndexError, ValueError, UsageError)
"""What reading a manifest whose numbers or domains were changed can raise."""


def published(manifest: Manifest) -> Published:
    """Return what is stated, with the keys that contradict others whatever is claimed."""
    fits = {
        "treatments": _treatments_fit(manifest),
        "from_table": manifest.from_table == bool(manifest.computed_from_table),
        "columns": not manifest.in_buckets or _buckets_are_last(manifest),
    }
    return Published(
        mechanisms=manifest.mechanism_values,
        withheld=manifest.withheld,
        computed=manifest.computed_from_table,
        is_misnamed=manifest.is_misnamed,
        assurance=manifest.assurance,
        guarantee=manifest.guarantee_value,
        second_release=manifest.second_release,
        columns=tuple(column.name for column in manifest.columns),
        shuffled=manifest.data.shuffled,
        discloses_frequencies=manifest.discloses_frequencies,
        due_facts=frozenset(_due_facts(manifest)),
        dealt_within=manifest.buckets.dealt_within if manifest.in_buckets else (),
        contradictions=tuple(key for key, good in fits.items() if not good),
    )


def claim_checks(manifest: Manifest, stated: Published) -> Iterator[Check]:
    """Let the claim check what is stated with it."""
    try:
        claim = manifest.claim
    except UNREADABLE as problem:
        told = f"The limit cannot be read: {problem.message if isinstance(problem, UsageError) else problem}"
        of_buckets = f"Not what follows from {BucketClaim.rests_on}: at_most or domain."
        yield Check("guarantee, as stated", "fails", of_buckets if manifest.in_buckets else told)
    else:
        yield from claim.checks(stated)


def _due_facts(manifest: Manifest) -> set[str]:
    """Return what other keys of a manifest say was computed from the table, and its list must hold."""
    limits = (LEFT_OUT.match(limit) for limit in manifest.guarantee.limits)
    return {
        *map(observed_domain, manifest.observed_domains),
        *([] if manifest.data.shuffled else [ROW_ORDER]),
        *(left_out([limit[1]]) for limit in limits if limit),
    }


def _buckets_are_last(manifest: Manifest) -> bool:
    numbers = [column.name for column in manifest.columns if column.treatment == "group"]
    return numbers == [manifest.buckets.group_column] == [column.name for column in manifest.columns[-1:]]


def _treatments_fit(manifest: Manifest) -> bool:
    """Whether the columns are treated as mechanisms, groups and merged values say."""
    special = {part.name: "randomized" for mechanism in manifest.mechanisms for part in mechanism.domain}
    special |= {m.sub_table_column: "sub-table" for m in manifest.mechanisms if m.sub_table_column}
    special |= {manifest.buckets.group_column: "group"} if manifest.in_buckets else {}
    merged = set(manifest.merged or {})
    apart = {part.name for part in manifest.only_in_buckets}
    plain = [column for column in manifest.columns if column.name not in special]
    return (
        all(column.treatment == special[column.name] for column in manifest.columns if column.name in special)
        and all(column.treatment in ("untouched", "binned", "merged") for column in plain)
        and all((column.treatment == "merged") == (column.name in merged) for column in plain)
        and merged <= {column.name for column in manifest.columns} | apart
    )
